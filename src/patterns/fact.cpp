#include "patterns/fact.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace planish::patterns {

void add_fact(Facts& facts, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  auto found = facts.find(name);
  if (found == facts.end()) found = facts.emplace(std::string(name), std::vector<std::string>{}).first;
  const auto at = std::ranges::lower_bound(found->second, value);
  if (at == found->second.end() || *at != value) found->second.emplace(at, value);
}

bool has_fact(const Facts& facts, std::string_view name, std::string_view value) {
  const auto found = facts.find(name);
  return found != facts.end() && std::ranges::binary_search(found->second, value, std::less<>{});
}

void add_facts(Facts& facts, const Facts& more) {
  for (const auto& [name, values] : more) {
    for (const std::string& value : values) add_fact(facts, name, value);
  }
}

std::string text(const Facts& facts) {
  std::string out;
  for (const auto& [name, values] : facts)
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, fmt::join(values, ","));
  return out;
}

const FactWeight* weight_of(std::string_view name) {
  // What a kernel computes counts most; that it was written for another architecture rules out more than that its text
  // does not say which.
  static constexpr std::array weights{
      FactWeight{"operation", 4.0F, 3.0F}, FactWeight{"variant", 2.5F, 0.0F},    FactWeight{"direction", 1.5F, 1.5F},
      FactWeight{"dtype", 2.0F, 1.0F},     FactWeight{"arch", 2.5F, 2.0F},       FactWeight{"opcode", 1.5F, 0.5F},
      FactWeight{"tile", 2.5F, 0.2F},      FactWeight{"cluster", 1.5F, 0.2F},    FactWeight{"stages", 0.5F, 0.0F},
      FactWeight{"layout", 1.5F, 0.3F},    FactWeight{"schedule", 2.0F, 0.3F},   FactWeight{"epilogue", 2.0F, 0.2F},
      FactWeight{"shape", 1.0F, 0.2F},     FactWeight{"trait", 1.0F, 0.0F},      FactWeight{"device", 2.0F, 0.0F},
      FactWeight{"language", 2.5F, 2.0F},  FactWeight{"accumulator", 1.0F, 0.2F}};
  const auto* found = std::ranges::find(weights, name, &FactWeight::name);
  return found == weights.end() ? nullptr : found;
}

}  // namespace planish::patterns
