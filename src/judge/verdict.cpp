#include "judge/verdict.h"

#include <fmt/format.h>

#include <array>

#include "base/json.h"

namespace planish::judge {
namespace {

constexpr std::array<std::string_view, 5> kind_names{"none", "compile_error", "fault", "mismatch", "bottleneck"};
static_assert(kind_names.size() == static_cast<std::size_t>(Kind::bottleneck) + 1);

const char* word(int direction) {
  return direction < 0 ? "smaller" : direction > 0 ? "larger" : "another";
}

}  // namespace

std::string_view name(Kind kind) {
  return kind_names[static_cast<std::size_t>(kind)];
}

std::string to_text(const Verdict& verdict) {
  std::string out =
      fmt::format("{}{}{}: {}\n", name(verdict.kind), verdict.issue.empty() ? "" : " ", verdict.issue, verdict.message);
  for (const Fact& fact : verdict.evidence) {
    out += fmt::format("  {:<28} {:.6g}{}{}\n", fact.name, fact.value, fact.unit.empty() ? "" : " ", fact.unit);
  }
  for (const Move& move : verdict.moves) {
    out += fmt::format("  try {:<24} {:<8} expected {:.1f} %\n", move.gene, word(move.direction),
                       100 * move.expected_gain);
  }
  return out;
}

std::string to_json(const Verdict& verdict) {
  Json evidence = Json::array(), moves = Json::array();
  for (const Fact& fact : verdict.evidence) {
    evidence.push_back({{"name", fact.name}, {"value", number_to_json(fact.value)}, {"unit", fact.unit}});
  }
  for (const Move& move : verdict.moves) {
    moves.push_back(
        {{"gene", move.gene}, {"direction", move.direction}, {"expected_gain", number_to_json(move.expected_gain)}});
  }
  return dump_json({{"kind", name(verdict.kind)},
                    {"issue", verdict.issue},
                    {"message", verdict.message},
                    {"evidence", std::move(evidence)},
                    {"moves", std::move(moves)}});
}

}  // namespace planish::judge
