#include "session/taped_evaluator.h"

#include <fmt/format.h>

#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "evaluate/codec.h"

namespace planish::session {
namespace {

/// A reply as a document, and back.
template <typename Reply>
Result<std::string> taped_document(const Result<Reply>& reply) {
  if (!reply) return std::unexpected(reply.error());
  return dump_json(codec::write(*reply));
}

template <typename Reply>
Result<Reply> taped_reply(const Result<std::string>& document) {
  if (!document) return std::unexpected(document.error());
  PLANISH_TRY(const Json json, parse_json(*document, "cassette_corrupt", "recorded answer"));
  Reply out;
  PLANISH_CHECK(codec::read(json, out));
  return out;
}

/// Sessions are numbered anew in every run.
template <typename Request>
std::string taped_key(Request request) {
  request.session.clear();
  return sha256_hex(dump_json(codec::write(request)));
}

}  // namespace

Result<OpenReply> TapedEvaluator::open(const OpenRequest& request) {
  PLANISH_TRY(const std::string source, read_file(request.task));
  const std::string key = fmt::format("{} {} {}", sha256_hex(source), request.target, request.accuracy);
  return taped_reply<OpenReply>(tape_.pass("open", key, [&] { return taped_document(inner_->open(request)); }));
}

Result<RegionReply> TapedEvaluator::region(const RegionRequest& request) {
  return taped_reply<RegionReply>(
      tape_.pass("region", taped_key(request), [&] { return taped_document(inner_->region(request)); }));
}

Result<Evaluation> TapedEvaluator::evaluate(const EvaluateRequest& request) {
  const std::string key = fmt::format("{} {} {}", request.region, request.level, sha256_hex(request.program.text()));
  const auto document = tape_.pass("evaluate", key, [&]() -> Result<std::string> {
    auto evaluation = inner_->evaluate(request);
    if (!evaluation) return std::unexpected(std::move(evaluation.error()));
    return to_json(*evaluation);
  });
  if (!document) return std::unexpected(document.error());
  return parse_evaluation(*document);
}

Result<VerifyReply> TapedEvaluator::verify(const VerifyRequest& request) {
  if (inner_ != nullptr) return inner_->verify(request);
  return fail("not_recorded", "proofs are not recorded");
}

Result<ClaimReply> TapedEvaluator::claim(const ClaimRequest& request) {
  // One that is asked for before the search decides whether there is one.
  if (request.more)
    return taped_reply<ClaimReply>(
        tape_.pass("claim", taped_key(request), [&] { return taped_document(inner_->claim(request)); }));
  if (inner_ != nullptr) return inner_->claim(request);
  return fail("not_recorded", "claims are not recorded");
}

Status TapedEvaluator::close(const std::string& session) {
  return inner_ != nullptr ? inner_->close(session) : Status{};
}

void TapedEvaluator::listen(WorkScope::Listener listener) {
  if (inner_ != nullptr) inner_->listen(std::move(listener));
}

void TapedEvaluator::end_when_interrupted(bool ends) {
  if (inner_ != nullptr) inner_->end_when_interrupted(ends);
}

}  // namespace planish::session
