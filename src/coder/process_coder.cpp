#include "coder/process_coder.h"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "base/clock.h"
#include "base/json.h"
#include "base/subprocess.h"
#include "coder/slow_coder.h"
#include "evaluate/codec.h"

namespace planish::coder {
namespace {

std::unexpected<Error> no_answer(const std::string& what) {
  return fail("bad_answer", "the coder's answer is of no use: " + what, "docs/formats/coder.md says what it may be");
}

/// A proposal as a question shows it: what an edit could be made to.
Json shown(const Domain& domain, const Proposal& proposal) {
  Json out = {{"text", text(proposal)}};
  if (auto source = source_of(domain, proposal)) out["source"] = std::move(*source);
  return out;
}

Json news_of(const Domain& domain, const Feedback& feedback) {
  Json out = {{"proposal", shown(domain, feedback.proposal)}, {"ok", feedback.ok}};
  if (!feedback.program.empty()) out["program"] = feedback.program;
  if (feedback.ok) out["median_ms"] = feedback.median_ms;
  if (feedback.duplicate) out["outcome"] = "duplicate";
  if (feedback.error) {
    out["outcome"] = "not_built";
    out["error"] = {
        {"kind", feedback.error->kind}, {"message", feedback.error->message}, {"hint", feedback.error->hint}};
  }
  if (feedback.evaluation) {
    out["outcome"] = name(feedback.evaluation->outcome);
    out["message"] = feedback.evaluation->message;
  }
  if (!feedback.advice.empty()) out["advice"] = feedback.advice;
  return out;
}

Json question(const Brief& brief, const std::vector<Feedback>& news) {
  Json out = {{"schema", "planish.coder/1"},
              {"region", brief.region},
              {"description", brief.domain->description()},
              {"bound_ms", brief.bound_ms},
              {"fallback_ms", brief.fallback_ms}};
  out["best"] = Json::array();
  for (const Brief::Known& known : brief.best) {
    Json one = shown(*brief.domain, known.proposal);
    one["program"] = known.program;
    one["median_ms"] = known.ms;
    out["best"].push_back(std::move(one));
  }
  out["news"] = Json::array();
  for (const Feedback& feedback : news) out["news"].push_back(news_of(*brief.domain, feedback));
  return out;
}

/// Every program that a coder was shown, by its hash.
using Shown = std::map<std::string, Proposal>;

Result<std::optional<Proposal>> answer_of(const std::string& line, const Brief& brief, const Shown& shown) {
  PLANISH_TRY(const Json json, parse_json(line, "bad_answer", "the coder's answer"));
  if (!json.is_object()) return no_answer("no JSON object");
  ObjectReader reader(json, "bad_answer", "answer");
  std::string source, parent;
  bool finished = false;
  reader.boolean("finished", finished, ObjectReader::Need::optional);
  reader.text("source", source, ObjectReader::Need::optional);
  reader.text("parent", parent, ObjectReader::Need::optional);
  const Json* edits = json.contains("edits") ? reader.array("edits") : nullptr;
  Patch patch;
  for (std::size_t i = 0; edits != nullptr && i < edits->size(); ++i) {
    ObjectReader edit((*edits)[i], "bad_answer", fmt::format("edits[{}]", i));
    Edit& one = patch.edits.emplace_back();
    edit.text("search", one.search);
    edit.text("replace", one.replace);
    PLANISH_CHECK(edit.finish());
  }
  PLANISH_CHECK(reader.finish());
  if (finished) return std::nullopt;
  if ((edits != nullptr) == !source.empty()) return no_answer("it has not one of `source`, `edits` and `finished`");
  if (edits == nullptr) return Proposal(Source{std::move(source)});
  const auto base = shown.find(parent);
  if (base == shown.end()) return no_answer(fmt::format("no question showed a program `{}`", parent));
  PLANISH_TRY(patch.parent, source_of(*brief.domain, base->second));
  patch.parent_program = parent;
  return Proposal(std::move(patch));
}

class ProcessWriter : public Writer {
 public:
  explicit ProcessWriter(ProcessSeat how) : how_(std::move(how)) {}

  Result<std::optional<Proposal>> write(const Brief& brief, const std::vector<Feedback>& news,
                                        const CancelToken& cancel) override {
    PLANISH_CHECK(start());
    const TimePoint until = deadline_in(how_.patience);
    Json ask = question(brief, news);
    if (refused_) ask["refused"] = {{"kind", refused_->kind}, {"message", refused_->message}};
    refused_.reset();
    for (const Brief::Known& known : brief.best) shown_.insert_or_assign(known.program, known.proposal);
    for (const Feedback& feedback : news) shown_.insert_or_assign(feedback.program, feedback.proposal);
    if (auto sent = process_->channel().send(dump_json(ask), {}, until); !sent)
      return std::unexpected(gone(sent.error()));
    auto line = process_->channel().receive(until, &cancel);
    if (!line) return std::unexpected(gone(line.error()));
    auto answer = answer_of(*line, brief, shown_);
    if (!answer) refused_ = answer.error();
    return answer;
  }

 private:
  Status start() {
    if (process_) return {};
    SpawnOptions options;
    // Its standard input and output are the two directions of one socket.
    options.command = {"sh", "-c", "exec \"$@\" <&3 >&3 3<&-", "sh"};
    options.command.insert(options.command.end(), how_.command.begin(), how_.command.end());
    options.directory = how_.directory;
    options.channel = true;
    PLANISH_TRY(auto process, Subprocess::spawn(options));
    process_ = std::make_unique<Subprocess>(std::move(process));
    return {};
  }

  /// After which it is started anew.
  Error gone(const Error& error) {
    std::string what = fmt::format("the coder `{}` gives no answer: {}", how_.command.front(), error.message);
    if (error.kind == "closed") {
      const auto ended = process_->wait(deadline_in(1));
      if (ended) what = fmt::format("the coder `{}` ended: {}", how_.command.front(), ended->text());
    }
    process_->kill();
    (void)process_->wait(deadline_in(5));
    if (const std::string tail = process_->output_tail(); !tail.empty()) what += "\n" + tail;
    process_.reset();
    return Error{
        "coder_failed", what, {}, "try it by hand: it reads a JSON line and writes one (docs/formats/coder.md)"};
  }

  ProcessSeat how_;
  std::unique_ptr<Subprocess> process_;
  Shown shown_;
  std::optional<Error> refused_;  ///< why its last answer was of no use
};

}  // namespace

Seat process_seat(std::string name, ProcessSeat how) {
  Seat seat;
  seat.name = std::move(name);
  seat.make = [how = std::move(how)](const Brief&, std::function<void()> rouse) -> std::unique_ptr<Coder> {
    return std::make_unique<SlowCoder>(std::make_unique<ProcessWriter>(how), std::move(rouse));
  };
  return seat;
}

}  // namespace planish::coder
