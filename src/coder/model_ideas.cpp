#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "coder/model_approaches.h"

namespace planish::coder {
namespace {

constexpr std::string_view ideas_schema = R"({"type": "object", "additionalProperties": false, "required": ["ideas"],
"properties": {"ideas": {"type": "array", "minItems": 1, "maxItems": 4, "items": {"type": "string", "minLength": 1, "maxLength": 4000}}}})";
/// Programs of an idea before it counts as one that does not work.
constexpr int most_tries = 2;
constexpr std::size_t most_ideas_said = 12;

/// A tree of ideas: roots are what the planner thinks of first, children what it makes of the best that was measured.
class Ideas : public ModelWriter {
 public:
  Ideas(std::shared_ptr<ModelPool> pool, int number, int turns)
      : ModelWriter(std::move(pool), number, true), turns_(turns) {}

  Result<std::optional<Proposal>> write(const Brief& brief, const std::vector<Feedback>& news,
                                        const CancelToken& cancel) override {
    if (turns_ > 0 && ++turn_ > turns_) return std::nullopt;
    const auto heard_news = heard(brief, news, cancel);
    if (current_ && !heard_news.empty()) learn(heard_news);
    if (!current_ || ideas_[*current_].right || ideas_[*current_].tries >= most_tries) {
      PLANISH_CHECK(next(brief, heard_news, cancel));
    }
    Idea& idea = ideas_[*current_];
    ++idea.tries;
    const Brief::Known* known = parent(brief);
    llm::ChatRequest request;
    request.lane = lane(brief);
    request.system = coder_parts(brief, heard_news);
    request.messages = talk_;
    request.messages.push_back(said(
        llm::Speaker::user,
        talk_.empty() ? fmt::format("Write a program of this idea:\n{}\n\n{}", idea.text, parent_text(brief, known))
                      : fmt::format("{}The idea stays; mend the program.\n{}", news_text(heard_news),
                                    parent_text(brief, known))));
    PLANISH_TRY(auto proposal, program("coder", request, brief, known, cancel));
    talk_ = std::move(request.messages);
    return proposal;
  }

 private:
  struct Idea {
    std::string text;
    std::optional<std::size_t> parent{};
    int tries = 0;
    bool right = false;
    double ms = 0;
    std::string fault{};
  };

  void learn(const std::vector<Feedback>& news) {
    Idea& idea = ideas_[*current_];
    const Feedback& last = news.back();
    if (last.ok && (!idea.right || last.median_ms < idea.ms)) {
      idea.right = true;
      idea.ms = last.median_ms;
    }
    if (!last.ok) {
      idea.fault = last.duplicate    ? "its program was known"
                   : last.error      ? last.error->message
                   : last.evaluation ? std::string(planish::name(last.evaluation->outcome))
                                     : std::string("nothing is known of it");
    }
  }

  std::optional<std::size_t> best() const {
    std::optional<std::size_t> out;
    for (std::size_t i = 0; i < ideas_.size(); ++i) {
      if (ideas_[i].right && (!out || ideas_[i].ms < ideas_[*out].ms)) out = i;
    }
    return out;
  }

  /// The first idea that nobody tried; where there is none, the planner is asked for more.
  Status next(const Brief& brief, const std::vector<Feedback>& news, const CancelToken& cancel) {
    talk_.clear();
    current_.reset();
    auto untried = std::ranges::find(ideas_, 0, &Idea::tries);
    if (untried == ideas_.end()) {
      PLANISH_CHECK(think(brief, news, cancel));
      untried = std::ranges::find(ideas_, 0, &Idea::tries);
    }
    if (untried == ideas_.end()) return fail("bad_answer", "the planner has no idea");
    current_ = static_cast<std::size_t>(untried - ideas_.begin());
    return {};
  }

  Status think(const Brief& brief, const std::vector<Feedback>& news, const CancelToken& cancel) {
    const auto from = best();
    std::string question = parent_text(brief, parent(brief)) + "\n";
    const std::size_t old = ideas_.size() - std::min(ideas_.size(), most_ideas_said);
    for (std::size_t i = old; i < ideas_.size(); ++i) {
      question +=
          fmt::format("Idea {}{}: {}\n  came to: {}\n", i + 1,
                      ideas_[i].parent ? fmt::format(" (of idea {})", *ideas_[i].parent + 1) : "", ideas_[i].text,
                      ideas_[i].right ? fmt::format("{:.4g} ms", ideas_[i].ms) : ideas_[i].fault);
    }
    question += from ? fmt::format("Give up to four new ideas that build on idea {}, in words.", *from + 1)
                     : "Give up to four ideas that differ, in words, the most promising first.";
    llm::ChatRequest request;
    request.lane = lane(brief);
    request.system = planner_parts(brief, news);
    request.messages.push_back(said(llm::Speaker::user, std::move(question)));
    PLANISH_TRY(const Words words, plan(std::move(request), "ideas", ideas_schema, cancel));
    const std::size_t before = ideas_.size();
    if (!words.json.empty()) {
      const Json json = json_or_discarded(words.json);
      for (const Json& one : json["ideas"]) add(one.get<std::string>(), from);
    } else {
      add(words.text, from);  // no list, but words
    }
    pool().note_answer(ideas_.size() > before);
    return {};
  }

  void add(std::string text, std::optional<std::size_t> from) {
    const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
    if (blank || std::ranges::find(ideas_, text, &Idea::text) != ideas_.end()) return;
    if (text.size() > most_words) text.resize(most_words);
    ideas_.push_back({std::move(text), from, 0, false, 0, {}});
  }

  static constexpr std::size_t most_words = 4000;
  int turns_, turn_ = 0;
  std::vector<Idea> ideas_;
  std::optional<std::size_t> current_;  ///< the idea that is written now
  std::vector<llm::Message> talk_;      ///< about it
};

}  // namespace

std::unique_ptr<Writer> ideas_writer(std::shared_ptr<ModelPool> pool, int number, int turns) {
  return std::make_unique<Ideas>(std::move(pool), number, turns);
}

}  // namespace planish::coder
