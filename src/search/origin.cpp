#include "search/origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace planish::search {

std::string text(const Origin& origin) {
  std::string out = origin.by;
  if (origin.agent >= 0) out += fmt::format(" agent={}", origin.agent);
  if (origin.island >= 0) out += fmt::format(" island={}", origin.island);
  if (!origin.seat.empty()) return out + fmt::format(" seat={}", origin.seat);  // as the focus
  if (!origin.focus.empty()) out += fmt::format(" focus={}", origin.focus);     // last: it may have spaces
  return out;
}

Origin origin_from_text(std::string_view text) {
  Origin out;
  for (bool first = true; !text.empty(); first = false) {
    if (text.starts_with("seat=")) {
      out.seat = text.substr(5);
      break;
    }
    if (text.starts_with("focus=")) {
      out.focus = text.substr(6);
      break;
    }
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const std::size_t equals = word.find('=');
    if (first && equals == std::string_view::npos) out.by = word;
    if (equals == std::string_view::npos) continue;
    const std::string_view key = word.substr(0, equals), value = word.substr(equals + 1);
    int number = -1;
    std::from_chars(value.data(), value.data() + value.size(), number);
    if (key == "agent") out.agent = number;
    if (key == "island") out.island = number;
  }
  return out;
}

}  // namespace planish::search
