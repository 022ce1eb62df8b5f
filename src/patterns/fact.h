#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

/// Facts of a pattern: what can be compared exactly, beside the words of its text.
namespace planish::patterns {

/// Name → values, sorted and each once. Names that search knows: operation, variant, direction, dtype, accumulator,
/// arch, opcode, tile, cluster, stages, layout, schedule, epilogue, shape, trait, device, language. Others are kept
/// and shown.
using Facts = std::map<std::string, std::vector<std::string>, std::less<>>;

/// Adds a value where it is new. Empty values are left out.
void add_fact(Facts& facts, std::string_view name, std::string_view value);
bool has_fact(const Facts& facts, std::string_view name, std::string_view value);
void add_facts(Facts& facts, const Facts& more);
/// "arch=90 dtype=bf16,f32": names in order. For people, and for keys.
std::string text(const Facts& facts);

/// How much a fact of that name that a query asks for counts, and how much a pattern loses that has another value.
struct FactWeight {
  std::string_view name;
  float match, other;
};
/// Nothing for names that search does not know.
const FactWeight* weight_of(std::string_view name);

}  // namespace planish::patterns
