#pragma once

#include "base/json.h"
#include "evaluate/gain.h"

// Include from .cpp files only (base/json.h). Gains in documents: `ratio`, `lo`, `hi`, `difference`.
namespace planish {

inline Json gain_to_json(const Gain& gain) {
  return {{"ratio", gain.ratio}, {"lo", gain.lo}, {"hi", gain.hi}, {"difference", gain.differs()}};
}

/// Nothing where it is no gain.
inline std::optional<Gain> gain_from_json(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto number = [&json](const char* field) {
    const auto found = json.find(field);
    return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const Gain gain{number("ratio"), number("lo"), number("hi")};
  return gain.ratio > 0 && gain.lo > 0 && gain.hi >= gain.lo ? std::optional(gain) : std::nullopt;
}

}  // namespace planish
