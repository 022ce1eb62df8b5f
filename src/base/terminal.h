#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// All that knows escape sequences. The cursor is never hidden, so that whatever ends this process, nothing is to be
/// restored.
namespace planish {

enum class Style : std::uint8_t { plain, heading, error, hint, dim };
/// True where stderr gets colours: on a terminal that is not dumb, unless NO_COLOR or CLICOLOR=0 forbids it;
/// CLICOLOR_FORCE and FORCE_COLOR ask for them anywhere.
bool coloured();
/// The text in this style, as stderr may show it. A line must not end within.
std::string styled(Style style, std::string_view text);

/// A part of a whole, from 0 to 1, as a bar: "[#####---------------]".
std::string bar(double part);

/// Lines on stderr that stay and, on a terminal, a few below them that are redrawn. One at a time a process; not
/// thread-safe but for write_over_live_lines().
class LiveLines {
 public:
  enum class Mode : std::uint8_t { quiet, plain, terminal };
  /// Terminal where stderr is one and the environment does not say dumb.
  static Mode detect(bool quiet);
  explicit LiveLines(Mode mode);
  ~LiveLines() { clear(); }
  LiveLines(const LiveLines&) = delete;
  LiveLines& operator=(const LiveLines&) = delete;

  Mode mode() const { return mode_; }
  /// A line that stays, above those that are redrawn.
  void stay(std::string_view line, Style style = Style::plain);
  /// In place of the lines before, each cut to the width of the terminal. Elsewhere nothing.
  void redraw(const std::vector<std::string>& lines);
  void clear();

 private:
  Mode mode_;
};

/// Erases what is redrawn, and nothing is from now on (until there are other LiveLines): results and errors follow.
void end_live_lines();
/// Async-signal-safe: erases what is redrawn now and writes a text that stays. No other thread is stopped for longer
/// than a terminal takes to show a few lines.
void write_over_live_lines(std::string_view text) noexcept;

}  // namespace planish
