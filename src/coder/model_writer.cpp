#include "coder/model_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "coder/model_judge.h"

namespace planish::coder {
namespace {

/// Of an answer, for the bandit over models.
constexpr double worth_right = 0.3, worth_best = 1, as_it_turns_out = -1;
/// Bytes of an answer that are shown to its writer again.
constexpr std::size_t most_kept = 48'000;
/// Patterns in a prompt: they cost tokens in every call.
constexpr std::size_t task_patterns = 2, issue_patterns = 1;

}  // namespace

llm::Message said(llm::Speaker speaker, std::string text) {
  llm::Message out;
  out.speaker = speaker;
  out.text = std::move(text);
  return out;
}

void ModelWriter::prepare(const Brief& brief, const std::vector<Feedback>& news) {
  double worth = 0;
  if (!news.empty() && news.back().ok)
    worth = best_ms_ <= 0 || news.back().median_ms < best_ms_ ? worth_best : worth_right;
  for (ModelPool::Asked& asked : open_) {
    if (asked.worth < 0) asked.worth = worth;
    pool_->settle(asked);
  }
  open_.clear();
  best_ms_ = brief.best.empty() ? 0 : brief.best.front().ms;
  choices_ = pool_->choose(plans_);
}

std::string ModelWriter::lane(const Brief& brief) const {
  return fmt::format("{} seat {}", brief.region, number_);
}

const Brief::Known* ModelWriter::parent(const Brief& brief) const {
  if (brief.best.empty()) return nullptr;
  return &brief.best[static_cast<std::size_t>(std::max(number_ - 1, 0)) % brief.best.size()];
}

std::vector<Feedback> ModelWriter::heard(const Brief& brief, std::vector<Feedback> news, const CancelToken& cancel) {
  if (!pool_->options().judge || news.empty() || !news.back().evaluation) return news;
  Feedback& last = news.back();
  llm::ChatRequest request = judge_request(pool_->options().facts, brief, last);
  request.lane = lane(brief) + " judge";
  auto asked = pool_->ask("judge", choices_.judge, request, cancel);
  if (!asked.outcome.answer) {
    pool_->note_fallback(asked.outcome.answer.error().error.message);
    open_.push_back(std::move(asked));
    return news;
  }
  auto verdict = verdict_in(*asked.outcome.answer, *last.evaluation);
  asked.worth = verdict ? worth_right : 0;
  open_.push_back(std::move(asked));
  pool_->note_fallback(verdict ? std::string() : verdict.error().message);
  if (!verdict) return news;
  last.advice = judge::to_text(*verdict);
  last.issue = verdict->issue;
  return news;
}

PromptPatterns ModelWriter::patterns(const Brief& brief, const std::vector<Feedback>& news) {
  PromptPatterns out;
  const PromptFacts& facts = pool_->options().facts;
  if (!task_patterns_) task_patterns_ = pool_->patterns(task_query(facts, brief), task_patterns);
  out.task = *task_patterns_;
  if (!news.empty() && !news.back().issue.empty()) issue_ = news.back().issue;
  if (const std::string query = issue_query(facts, brief, issue_); !query.empty())
    out.cell = pool_->patterns(query, issue_patterns);
  // Once is enough.
  std::erase_if(out.cell, [&](const std::string& one) { return std::ranges::find(out.task, one) != out.task.end(); });
  return out;
}

std::vector<llm::PromptPart> ModelWriter::coder_parts(const Brief& brief, const std::vector<Feedback>& news) {
  return coder_prompt(pool_->options().facts, brief, patterns(brief, news));
}

std::vector<llm::PromptPart> ModelWriter::planner_parts(const Brief& brief, const std::vector<Feedback>& news) {
  return planner_prompt(pool_->options().facts, brief, patterns(brief, news));
}

Result<Proposal> ModelWriter::program(std::string_view purpose, llm::ChatRequest& request, const Brief& brief,
                                      const Brief::Known* known, const CancelToken& cancel) {
  AnswerParent parent;
  if (known != nullptr) {
    parent.program = known->program;
    if (auto source = source_of(*brief.domain, known->proposal)) parent.source = std::move(*source);
  }
  pool_->warm(brief.region, request, cancel);
  constexpr int tries = 2;
  for (int attempt = 1;; ++attempt) {
    auto asked = pool_->ask(purpose, choices_.coder, request, cancel);
    if (!asked.outcome.answer) {
      Error error = asked.outcome.answer.error().error;
      open_.push_back(std::move(asked));
      return std::unexpected(std::move(error));
    }
    const std::string text = asked.outcome.answer->text;
    auto proposal = proposal_in(text, parent);
    pool_->note_answer(proposal.has_value());
    asked.worth = proposal ? as_it_turns_out : 0;
    open_.push_back(std::move(asked));
    if (!proposal && attempt == tries) return proposal;
    request.messages.push_back(said(llm::Speaker::assistant,
                                    text.size() <= most_kept ? text : fmt::format("[{} bytes left out]", text.size())));
    if (proposal) return proposal;
    request.messages.push_back(
        said(llm::Speaker::user, proposal.error().message + ". Answer again, in the form asked for."));
  }
}

Result<ModelWriter::Words> ModelWriter::plan(llm::ChatRequest request, std::string_view schema_name,
                                             std::string_view schema, const CancelToken& cancel) {
  request.role = llm::Role::planner;
  request.output = llm::OutputSchema{std::string(schema_name), std::string(schema)};
  auto asked = pool_->ask("planner", choices_.planner, request, cancel);
  if (!asked.outcome.answer) {
    Error error = asked.outcome.answer.error().error;
    open_.push_back(std::move(asked));
    return std::unexpected(std::move(error));
  }
  Words out{asked.outcome.answer->json, asked.outcome.answer->text};
  asked.worth = as_it_turns_out;
  open_.push_back(std::move(asked));
  return out;
}

}  // namespace planish::coder
