#include "program/normalise.h"

#include <algorithm>
#include <array>

#include "backend/backend.h"

namespace planish::program {
namespace {

enum Class : unsigned char { other, part_of_word, space };
/// By the C locale's letters: a look-up for each of tens of thousands of characters of each candidate.
constexpr auto classes = [] {
  std::array<Class, 256> all{};
  for (const char* c = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"; *c != 0; ++c)
    all[static_cast<unsigned char>(*c)] = part_of_word;
  for (const char* c = " \t\n\v\f\r"; *c != 0; ++c) all[static_cast<unsigned char>(*c)] = space;
  return all;
}();

bool word(char c) {
  return classes[static_cast<unsigned char>(c)] == part_of_word;
}

/// End of the literal that starts at `at` (one past its closing quote).
std::size_t literal_end(std::string_view s, std::size_t at) {
  const char quote = s[at];
  std::size_t i = at + 1;
  while (i < s.size() && s[i] != quote && s[i] != '\n') i += s[i] == '\\' ? 2 : 1;
  return std::min(i + 1, s.size());
}

bool needs_gap(char before, char after) {
  if (word(before) && word(after)) return true;
  // "a + +b" is not "a ++b".
  constexpr std::string_view doubling = "+-&|<>=*/:";
  return doubling.find(before) != std::string_view::npos && doubling.find(after) != std::string_view::npos;
}

}  // namespace

std::string normalise_source(std::string_view s, std::string_view language, std::string_view entry,
                             std::string_view new_entry) {
  const backend::Language* known = backend::find_language(language);
  const bool python = known != nullptr && known->python;
  std::string out;
  out.reserve(s.size());
  bool gap = false, directive = false, line_start = true;
  std::size_t i = 0;
  const auto put = [&](std::string_view text) {
    if (gap && !out.empty() && (python || needs_gap(out.back(), text.front()))) out.push_back(' ');
    gap = false;
    line_start = false;
    out += text;
  };
  while (i < s.size()) {
    const char c = s[i];
    if (!python && c == '/' && i + 1 < s.size() && (s[i + 1] == '/' || s[i + 1] == '*')) {
      const bool line = s[i + 1] == '/';
      const std::size_t end = s.find(line ? "\n" : "*/", i + 2);
      i = end == std::string_view::npos ? s.size() : end + (line ? 0 : 2);
      gap = true;
    } else if (python && c == '#') {
      const std::size_t end = s.find('\n', i);
      i = end == std::string_view::npos ? s.size() : end;
    } else if (c == '\n') {
      // A directive ends with its line, and a Python statement too; elsewhere a new line is white space.
      const bool keep = python || directive;
      if (keep && !out.empty() && out.back() != '\n') out.push_back('\n');
      gap = !keep;
      directive = false;
      line_start = true;
      ++i;
      if (python) {
        // Indentation carries meaning unless the line is empty.
        std::size_t end = i;
        while (end < s.size() && (s[end] == ' ' || s[end] == '\t')) ++end;
        if (end < s.size() && s[end] != '\n' && s[end] != '#') out += s.substr(i, end - i);
        i = end;
      }
    } else if (classes[static_cast<unsigned char>(c)] == space) {
      gap = true;
      ++i;
    } else if (c == '"' || c == '\'') {
      const std::size_t end = literal_end(s, i);
      put(s.substr(i, end - i));
      i = end;
    } else if (word(c)) {
      std::size_t end = i;
      while (end < s.size() && word(s[end])) ++end;
      const std::string_view token = s.substr(i, end - i);
      put(token == entry ? new_entry : token);
      i = end;
    } else {
      if (c == '#' && line_start) {
        directive = true;
        if (!out.empty() && out.back() != '\n') out.push_back('\n');
        gap = false;
      }
      put(s.substr(i, 1));
      ++i;
    }
  }
  return out;
}

}  // namespace planish::program
