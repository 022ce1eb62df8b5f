#include "coder/slow_coder.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>

#include "coder/process_coder.h"
#include "fakes.h"

using namespace planish;
using namespace planish::coder;
using namespace planish::coder::testing;

namespace {

/// Hands out what a test gives it, one by one.
class Hand : public Writer {
 public:
  using Written = Result<std::optional<Proposal>>;
  explicit Hand(std::vector<Written> answers) : answers_(std::move(answers)) {}
  Written write(const Brief& brief, const std::vector<Feedback>& news, const CancelToken&) override {
    const std::scoped_lock lock(mutex);
    regions.push_back(brief.region);
    heard.push_back(news.size());
    return at_ < answers_.size() ? answers_[at_++] : Written(std::nullopt);
  }
  std::mutex mutex;
  std::vector<std::string> regions;
  std::vector<std::size_t> heard;

 private:
  std::vector<Written> answers_;
  std::size_t at_ = 0;
};

Feedback told(const Proposal& proposal) {
  Feedback out;
  out.proposal = proposal;
  return out;
}

Brief brief_of(std::vector<Brief::Known> best = {}) {
  return {"r0", std::make_shared<Nothing>(), 0.5, 2, std::move(best)};
}

/// A coder that is a shell script.
std::unique_ptr<Coder> script(const std::string& text) {
  return process_seat("script", {{"sh", "-c", text}, {}}).make(brief_of(), [] {});
}

}  // namespace

TEST_CASE("a slow coder thinks beside, is told, and learns before it is asked again") {
  auto hand = std::make_unique<Hand>(std::vector<Hand::Written>{Proposal(Source{"a"}), Proposal(Source{"b"})});
  Hand& inside = *hand;
  std::atomic<int> rung = 0;
  SlowCoder coder(std::move(hand), [&] { ++rung; });
  const Brief brief = brief_of();
  const auto first = answered(coder, brief);
  REQUIRE(first.proposal);
  CHECK(std::get<Source>(*first.proposal).text == "a");
  CHECK(rung >= 1);
  // Not told yet: it does not begin another.
  CHECK_FALSE(coder.ask(brief).proposal);
  {
    const std::scoped_lock lock(inside.mutex);
    CHECK(inside.heard == std::vector<std::size_t>{0});
  }
  coder.tell(told(*first.proposal));
  const auto second = answered(coder, brief);
  CHECK(std::get<Source>(*second.proposal).text == "b");
  coder.tell(told(*second.proposal));
  CHECK(answered(coder, brief).finished);
  CHECK(coder.trouble().empty());
  const std::scoped_lock lock(inside.mutex);
  CHECK(inside.heard == std::vector<std::size_t>{0, 1, 1});
}

TEST_CASE("errors in a row end a slow coder, and it says why") {
  const Hand::Written error = fail("unreachable", "nobody there");
  SlowCoder coder(std::make_unique<Hand>(std::vector<Hand::Written>{error, Proposal(Source{"a"}), error, error, error}),
                  [] {});
  const auto first = answered(coder, brief_of());
  REQUIRE(first.proposal);
  coder.tell(told(*first.proposal));
  CHECK(answered(coder, brief_of()).finished);
  CHECK(coder.trouble() == "nobody there (unreachable)");
}

TEST_CASE("a slow coder that thinks is cancelled, not waited for") {
  struct Stubborn : Writer {
    Result<std::optional<Proposal>> write(const Brief&, const std::vector<Feedback>&,
                                          const CancelToken& cancel) override {
      while (!cancel.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return fail("cancelled", "cancelled");
    }
  };
  SlowCoder coder(std::make_unique<Stubborn>(), [] {});
  CHECK_FALSE(coder.ask(brief_of()).proposal);
}

TEST_CASE("a process reads a question and answers with a source, an edit, or nothing more") {
  // What it gets is written back, so that the test can look at it.
  auto coder = script(R"(read q; printf '{"source": "first"}\n'
read q; case "$q" in *'no place'*'"outcome":"not_built"'*) printf '{"parent": "best", "edits": [{"search": "x", "replace": "y"}]}\n';; esac
read q; printf '{"finished": true}\n')");
  Brief brief = brief_of({{Source{"x = 1"}, "best", 1.5}});
  const auto first = answered(*coder, brief);
  REQUIRE(first.proposal);
  CHECK(std::get<Source>(*first.proposal).text == "first");
  Feedback feedback = told(*first.proposal);
  feedback.error = Error{"bad_source", "no place", {}, {}};
  coder->tell(feedback);
  const auto second = answered(*coder, brief);
  REQUIRE(second.proposal);
  const auto& patch = std::get<Patch>(*second.proposal);
  CHECK(patch.parent == "x = 1");
  CHECK(patch.parent_program == "best");
  CHECK(patch.edits == std::vector<Edit>{{"x", "y"}});
  coder->tell(told(*second.proposal));
  CHECK(answered(*coder, brief).finished);
  CHECK(coder->trouble().empty());
}

TEST_CASE("a process that ends, or says what is no answer, leaves its seat and says why") {
  const auto trouble = [](const std::string& text) {
    auto coder = script(text);
    CHECK(answered(*coder, brief_of()).finished);
    return coder->trouble();
  };
  const std::string ended = trouble("echo here is why >&2; exit 3");
  CHECK(ended.contains("exit status 3"));
  CHECK(ended.contains("here is why"));
  CHECK(trouble("while read q; do echo no json; done").contains("bad_answer"));
  CHECK(trouble("while read q; do echo '{}'; done").contains("has not one of"));
  CHECK(trouble("while read q; do echo '{\"source\": 5}'; done").contains("source"));
  CHECK(trouble("while read q; do echo '{\"parent\": \"q\", \"edits\": []}'; done")
            .contains("no question showed a program `q`"));
  CHECK(trouble("/nonexistent/command").contains("exit status 127"));
}
