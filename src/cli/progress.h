#pragma once

#include <map>
#include <mutex>
#include <string>

#include "base/clock.h"

namespace planish::cli {

/// What is shown while a run goes on. On a terminal one line is redrawn; otherwise a plain line appears now and then.
/// Everything goes to stderr; results never do. Thread-safe.
class Progress {
 public:
  enum class Mode : std::uint8_t { quiet, plain, terminal };
  /// Terminal where stderr is one and the environment does not say dumb.
  static Mode detect(bool quiet);
  Progress(Mode mode, const Clock& clock);
  ~Progress();

  /// A new phase ("capturing", "searching 3 regions"). Its line stays.
  void phase(const std::string& text);
  /// Something worth a line of its own in any mode but quiet.
  void note(const std::string& text);
  /// One more evaluation ended so.
  void count(const std::string& outcome);
  /// The best so far of a region, against its fallback (0 if not known).
  void best(const std::string& region, double ms, double fallback_ms);
  /// Seconds of budget left; negative where there is no such limit.
  void left(double seconds);
  /// Ends the redrawn line.
  void finish();

 private:
  void draw(bool force);
  void clear_line();
  std::string line() const;

  Mode mode_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, int> counts_;
  struct Best {
    double ms = 0, fallback_ms = 0;
  };
  std::map<std::string, Best> best_;
  double left_ = -1;
  bool drawn_ = false;
  TimePoint last_{};
};

}  // namespace planish::cli
