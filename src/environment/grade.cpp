#include "environment/grade.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/json.h"
#include "evaluate/gain_json.h"

namespace planish::environment {
namespace {

std::string text_of(const Json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The gain of what is correct, as it may be claimed, and its interval.
void take_gain(const Json& json, Grade& out) {
  const auto gain = gain_from_json(json);
  if (!out.correct || !gain) return;
  out.speedup = gain->claimed();
  out.speedup_lo = gain->lo;
  out.speedup_hi = gain->hi;
}

double reward_of(const Grade& grade, const RewardWeights& weights) {
  double out = 0;
  if (grade.format_ok) out += weights.format;
  if (grade.compiled) out += weights.compiled;
  if (!grade.correct) return out;
  out += weights.correct;
  if (grade.speedup) out += weights.speedup * std::min(*grade.speedup, weights.cap);
  return out;
}

Error lost_worker() {
  return {"worker_lost", "the process that judged it ended without a verdict", {}, "hand it in again"};
}

bool was_compiled(std::string_view outcome) {
  constexpr std::string_view before[] = {"load_failed", "invalid_program", "compile_error", "compile_timeout"};
  return std::ranges::find(before, outcome) == std::end(before);
}

}  // namespace

Grade not_judged(Error error, std::optional<Form> form) {
  Grade out;
  out.form = form;
  out.format_ok = form.has_value();
  out.outcome = "not_judged";
  out.error = std::move(error);
  return out;
}

Result<RewardWeights> parse_reward(std::string_view text) {
  RewardWeights out;
  const std::map<std::string_view, double*> fields = {{"format", &out.format},
                                                      {"compiled", &out.compiled},
                                                      {"correct", &out.correct},
                                                      {"speedup", &out.speedup},
                                                      {"cap", &out.cap}};
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const auto equals = part.find('=');
    const auto field = fields.find(part.substr(0, equals));
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    double number = 0;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
    if (field == fields.end() || value.empty() || read.ec != std::errc() || read.ptr != value.data() + value.size() ||
        !std::isfinite(number)) {
      return fail("usage", fmt::format("`{}` is no weight of a reward", part),
                  "weights are format, compiled, correct, speedup and cap: correct=0.3,speedup=1,cap=10");
    }
    *field->second = number;
  }
  return out;
}

Grade unformatted(const Error& error, const RewardWeights& weights) {
  Grade out;
  out.outcome = error.kind.name();
  out.message = error.message;
  out.reward = reward_of(out, weights);
  return out;
}

Grade grade_of(std::string_view document, Form form, const RewardWeights& weights) {
  const auto json = parse_json(document, "bad_result", "verdict");
  if (!json || !json->is_object()) return not_judged(lost_worker(), form);
  if (const auto error = json->find("error"); error != json->end() && error->is_object()) {
    // A source that is none is the completion's fault; all other errors are the task's or ours.
    if (form == Form::source && text_of(*error, "kind") == "bad_source") {
      Grade out;
      out.form = form;
      out.format_ok = true;
      out.outcome = "invalid_program";
      out.message = text_of(*error, "message");
      out.reward = reward_of(out, weights);
      return out;
    }
    return not_judged(error_in(*error), form);
  }
  Grade out;
  out.form = form;
  out.format_ok = true;
  out.outcome = text_of(*json, "outcome");
  out.verdict = std::string(document);
  const auto flag = json->find(form == Form::module ? "verified" : "ok");
  if (out.outcome.empty() || flag == json->end() || !flag->is_boolean()) return not_judged(lost_worker(), form);
  if (out.outcome == "infrastructure") {
    Grade lost = not_judged({"infrastructure", text_of(*json, "message"), {}, {}}, form);
    lost.verdict = std::move(out.verdict);
    return lost;
  }
  out.correct = flag->get<bool>();
  out.compiled = was_compiled(out.outcome);
  if (form == Form::module) {
    out.message = text_of(*json, "message");
    out.baseline = text_of(*json, "best_baseline");
    if (const auto gains = json->find("gains"); gains != json->end() && gains->is_object())
      take_gain(gains->value(out.baseline, Json()), out);
  } else {
    if (const auto evaluation = json->find("evaluation"); evaluation != json->end() && evaluation->is_object())
      out.message = text_of(*evaluation, "message");
    // What trivial outputs would pass as well proves nothing of the kernels.
    if (const auto trivial = json->find("degenerate"); trivial != json->end() && !trivial->empty()) {
      out.correct = false;
      out.outcome = "degenerate";
    }
    out.baseline = "pytorch_operators";
    take_gain(json->value("gain", Json()), out);
  }
  if (!out.speedup) out.baseline.clear();
  out.reward = reward_of(out, weights);
  return out;
}

bool doubtful(const Grade& grade) {
  // What killed itself does so again; what took all of its time would take it again.
  return grade.judged() ? grade.outcome == "crash" : grade.error->kind != "time_limit";
}

}  // namespace planish::environment
