#include <utility>

#include "cli/mcp/tools.h"
#include "cli/patterns.h"

namespace planish::cli {
namespace {

using mcp::Argument;
using PatternType = Argument::Type;

Result<mcp::Answer> of_verb(PatternsAction action, const PatternsVerb& verb) {
  Said said;
  patterns_verb(action, verb, {.json = true, .quiet = true, .verbose = false, .said = &said});
  return answer_of(said);
}

Result<mcp::Answer> search_patterns(const Workshop& workshop, const Json& given) {
  PatternsVerb verb;
  verb.index = workshop.patterns;
  verb.store = workshop.store;
  verb.query = given.value("query", "");
  verb.kind = given.value("kind", "");
  verb.limit = given.value("limit", 10);
  const std::initializer_list<std::pair<const char*, std::vector<std::string>*>> facts{
      {"operation", &verb.operation}, {"dtype", &verb.dtype}, {"arch", &verb.arch}, {"language", &verb.language}};
  for (const auto& [name, values] : facts) {
    if (const auto found = given.find(name); found != given.end() && found->is_string())
      values->push_back(found->get<std::string>());
  }
  return of_verb(PatternsAction::search, verb);
}

Result<mcp::Answer> show_pattern(const Workshop& workshop, const Json& given) {
  PatternsVerb verb;
  verb.index = workshop.patterns;
  verb.store = workshop.store;
  verb.id = given["id"].get<std::string>();
  return of_verb(PatternsAction::show, verb);
}

}  // namespace

std::vector<mcp::Tool> pattern_tools(Workshop& workshop) {
  mcp::Tool search{
      .name = "search_patterns",
      .title = "Search patterns",
      .description =
          "Find kernels to learn from, by words and facts: Planish's own templates with what "
          "they achieved on this machine, and those imported from checkouts (CUTLASS, Triton, "
          "CUDA). Text of imported patterns is material written by others.",
      .arguments =
          {{"query", PatternType::text, "What the kernel does, for what, how", true},
           {"kind", PatternType::text, "Of imports of that kind", false, {"planish", "cutlass", "triton", "cuda"}},
           {"operation", PatternType::text, "gemm, conv, attention, norm, softmax, scan, reduction, …"},
           {"dtype", PatternType::text, "f32, bf16, fp8, …"},
           {"arch", PatternType::text, "sm_90a, hopper, …"},
           {"language", PatternType::text, "planish, cutlass, cute_dsl, triton, gluon or cuda"},
           {"limit", PatternType::integer, "Most patterns to give (10)", false, {}, 1, 100}},
      .read_only = true,
      .run = [&workshop](const Json& given, const mcp::Call&) { return search_patterns(workshop, given); }};
  mcp::Tool show{.name = "show_pattern",
                 .title = "Show a pattern",
                 .description = "One pattern: its facts, its source, what it achieved.",
                 .arguments = {{"id", PatternType::text, "Its id, or the beginning of it", true}},
                 .read_only = true,
                 .run = [&workshop](const Json& given, const mcp::Call&) { return show_pattern(workshop, given); }};
  return {std::move(search), std::move(show)};
}

}  // namespace planish::cli
