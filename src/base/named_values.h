#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "base/result.h"

namespace planish {

/// "name=value name=value" in the order of the map: how genomes and features are stored and shown. Floats have the
/// shortest digits that give them back.
template <typename Map>
std::string named_values_text(const Map& values) {
  std::string out;
  for (const auto& [name, value] : values) out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, value);
  return out;
}

/// The other way round. Spaces may be doubled; a value that is no number of the map's kind (NaN and infinity are none),
/// an empty name, or a name that occurs twice is an error of this kind.
template <typename Map>
Result<Map> named_values_from_text(std::string_view text, ErrorKind kind) {
  Map out;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    const auto word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) return fail(kind, fmt::format("'{}' is not name=value", word));
    const auto number = word.substr(equals + 1);
    typename Map::mapped_type value{};
    const auto [rest, code] = std::from_chars(number.data(), number.data() + number.size(), value);
    // What is no number subtracted from itself gives no zero.
    if (code != std::errc{} || rest != number.data() + number.size() || value - value != 0)
      return fail(kind, fmt::format("'{}' has no value that is a number", word));
    if (!out.emplace(word.substr(0, equals), value).second)
      return fail(kind, fmt::format("'{}' occurs twice", word.substr(0, equals)));
  }
  return out;
}

}  // namespace planish
