#include "coder/model_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.h"

namespace planish::coder {
namespace {

constexpr std::string_view judging =
    R"(You read what was measured of one GPU or CPU program and name the ONE thing that is worth mending next. Only what was measured counts; guess nothing.
`kind` is compile_error (no binary came of it), fault (it did not end as it should), mismatch (its results are wrong), bottleneck (it is right: what holds it
back) or none (nothing is left to gain). `issue` is a short name in snake_case, `message` one sentence with the numbers it rests on, `next` one sentence that
says what to change. Answer with the JSON asked for and nothing else.)";

constexpr std::string_view verdict_schema = R"({"type": "object", "additionalProperties": false,
"required": ["kind", "issue", "message", "next"],
"properties": {"kind": {"type": "string", "enum": ["none", "compile_error", "fault", "mismatch", "bottleneck"]},
"issue": {"type": "string", "minLength": 1, "maxLength": 48}, "message": {"type": "string", "minLength": 1, "maxLength": 2000},
"next": {"type": "string", "maxLength": 2000}}})";

constexpr std::size_t most_log = 4000, most_source = 24'000;

std::string cut(std::string text, std::size_t most) {
  if (text.size() > most) text = text.substr(0, most) + "\n…";
  return text;
}

/// The evaluation's document without what only fills a prompt: single samples, data sets that passed.
Json measured(const Evaluation& evaluation) {
  Json out = json_or_discarded(to_json(evaluation));
  if (!out.is_object()) return Json::object();
  if (out.contains("bench") && out["bench"].is_object()) out["bench"].erase("samples_ms");
  if (out.contains("compile") && out["compile"].is_object() && out["compile"].contains("log"))
    out["compile"]["log"] = cut(out["compile"]["log"].get<std::string>(), most_log);
  if (evaluation.test && out.contains("test") && out["test"].is_object() && out["test"].contains("cases")) {
    Json failed = Json::array();
    for (std::size_t i = 0; i < evaluation.test->cases.size() && failed.size() < 2; ++i) {
      if (!evaluation.test->cases[i].ok && !evaluation.test->cases[i].outvoted)
        failed.push_back(out["test"]["cases"][i]);
    }
    out["test"]["cases"] = evaluation.test->cases.size();
    out["test"]["failed"] = std::move(failed);
  }
  return out;
}

/// Whether what was measured allows such a verdict.
bool fits(judge::Kind kind, const Evaluation& evaluation) {
  const bool right = evaluation.ok() || evaluation.outcome == Outcome::given_up;
  const bool praise = kind == judge::Kind::none || kind == judge::Kind::bottleneck;
  return right == praise;
}

}  // namespace

llm::ChatRequest judge_request(const PromptFacts& facts, const Brief& brief, const Feedback& feedback) {
  llm::ChatRequest out;
  out.role = llm::Role::judge;
  out.lane = fmt::format("{} judge", brief.region);
  out.system.push_back({llm::Scope::fixed, std::string(judging)});
  std::string task =
      fmt::format("Device: {}\n\nWhat the program computes:\n{}", facts.device, brief.domain->description());
  if (brief.bound_ms > 0) task += fmt::format("\nIt cannot take less than {:.4g} ms.", brief.bound_ms);
  if (brief.fallback_ms > 0) task += fmt::format("\nPyTorch's operators take {:.4g} ms.", brief.fallback_ms);
  out.system.push_back({llm::Scope::task, std::move(task)});
  llm::Message asked;
  asked.text = fmt::format("Measured:\n{}\n", dump_json(measured(*feedback.evaluation)));
  if (const auto source = source_of(*brief.domain, feedback.proposal))
    asked.text += fmt::format("\nThe program:\n```\n{}```\n", cut(*source, most_source));
  out.messages.push_back(std::move(asked));
  out.output = llm::OutputSchema{"verdict", std::string(verdict_schema)};
  return out;
}

Result<judge::Verdict> verdict_in(const llm::ChatReply& reply, const Evaluation& evaluation) {
  if (reply.json.empty())
    return fail("bad_verdict", reply.json_problem.empty() ? "the answer is no JSON" : reply.json_problem);
  PLANISH_TRY(const Json json, parse_json(reply.json, "bad_verdict", "verdict"));
  ObjectReader reader(json, "bad_verdict", "verdict");
  judge::Verdict out;
  std::string kind, next;
  reader.text("kind", kind);
  reader.text("issue", out.issue);
  reader.text("message", out.message);
  reader.text("next", next);
  PLANISH_CHECK(reader.finish());
  for (const auto one : {judge::Kind::none, judge::Kind::compile_error, judge::Kind::fault, judge::Kind::mismatch,
                         judge::Kind::bottleneck}) {
    if (judge::name(one) == kind) out.kind = one;
  }
  const auto word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  if (judge::name(out.kind) != kind || !std::ranges::all_of(out.issue, word))
    return fail("bad_verdict", fmt::format("`{} {}` names no issue", kind, out.issue));
  if (!fits(out.kind, evaluation))
    return fail("bad_verdict", fmt::format("it calls {} what was measured to be {}", kind, name(evaluation.outcome)));
  if (!next.empty()) out.message += " " + next;
  return out;
}

}  // namespace planish::coder
