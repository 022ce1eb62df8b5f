#include "coder/model_coder.h"

#include <doctest/doctest.h>

#include "coder/model_answer.h"
#include "coder/model_prompt.h"
#include "coder/whole.h"
#include "fakes.h"
#include "program/solution.h"

using namespace planish;
using namespace planish::coder;
using namespace planish::coder::testing;

namespace {

constexpr std::string_view kernel_text = R"(//@ kernel cpp
extern "C" void f(void** a) {}
//@ launch f args=in0, out0
)";

std::string fenced(std::string_view code, std::string_view tag = "cpp") {
  return "```" + std::string(tag) + "\n" + std::string(code) + "```\n";
}

std::string source_in(std::string_view answer) {
  const auto found = proposal_in(answer, {});
  REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().message));
  return std::get<Source>(*found).text;
}

std::string refused(std::string_view answer, const AnswerParent& parent = {}) {
  const auto found = proposal_in(answer, parent);
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().kind.name() == "bad_answer");
  return found.error().message;
}

/// Says what a test gives it, in order; remembers what it was asked.
class Scripted : public llm::Provider {
 public:
  explicit Scripted(std::vector<llm::Answer> answers) : answers_(std::move(answers)) {
    config_.name = config_.label = "scripted";
    config_.roles = {llm::Role::coder};
  }
  llm::Answer complete(const llm::ChatRequest& request, const llm::Call&) override {
    const std::scoped_lock lock(mutex);
    CHECK(llm::check(request));
    asked.push_back(request);
    if (at_ < answers_.size()) return answers_[at_++];
    llm::Failure failure;
    failure.error = {"spending_cap", "the money is spent", {}, {}};
    return std::unexpected(failure);
  }
  const llm::ModelConfig& config() const override { return config_; }
  std::mutex mutex;
  std::vector<llm::ChatRequest> asked;

 private:
  llm::ModelConfig config_;
  std::vector<llm::Answer> answers_;
  std::size_t at_ = 0;
};

llm::Answer says(std::string text) {
  llm::ChatReply out;
  out.text = std::move(text);
  return out;
}

}  // namespace

TEST_CASE("the program of an answer is the block that launches something") {
  CHECK(source_in(fenced(kernel_text)) == kernel_text);
  CHECK(source_in("Here is why.\n" + fenced("int helper;\n") + "and:\n" + fenced(kernel_text, "cuda") + "Good luck") ==
        kernel_text);
  CHECK(source_in(kernel_text) == kernel_text);
  CHECK(source_in("```\n" + std::string(kernel_text)) == kernel_text);  // cut, but whole
  CHECK(source_in("<think>maybe\n" + fenced("//@ launch g args=in0\n") + "</think>" + fenced(kernel_text)) ==
        kernel_text);
  CHECK(source_in("no, wait</think>\n" + fenced(kernel_text)) == kernel_text);
  CHECK(source_in(fenced(kernel_text) + fenced(kernel_text)) == kernel_text);
  CHECK(source_in("```cpp\r\n//@ launch f args=in0\r\n```") == "//@ launch f args=in0\n");
}

constexpr std::string_view module_text = R"(import torch
class ModelNew(torch.nn.Module):
    def forward(self, x): return x
)";

TEST_CASE("Python with a ModelNew is a program too, whatever stands beside it") {
  CHECK(source_in(fenced(module_text, "python")) == module_text);
  CHECK(source_in("Install it:\n" + fenced("pip install tilelang\n", "sh") + fenced("import torch\n", "python") +
                  fenced(module_text, "python")) == module_text);
  CHECK(source_in(module_text) == module_text);
  CHECK(refused(fenced(module_text) + fenced(kernel_text)).contains("2 different programs"));
  CHECK(refused(fenced("from mine import Fast as ModelNew\n")).contains("no code block"));
  CHECK(refused(fenced("# class ModelNew(nn.Module) comes later\n")).contains("no code block"));
  CHECK(is_solution(module_text));
  CHECK_FALSE(is_solution(kernel_text));
  // Triton with directives is kernels and launches, whatever else it defines.
  CHECK_FALSE(is_solution(std::string(module_text) + "#@ launch f grid=1 args=in0, out0\n"));
  const Candidate candidate = solution_candidate(module_text);
  CHECK(program::solution_of(candidate.program.text()) == module_text);
  CHECK(candidate.hash == solution_candidate(module_text).hash);
  CHECK(candidate.hash != solution_candidate(std::string(module_text) + "#").hash);
}

TEST_CASE("what is no solution's document is told from one") {
  CHECK_FALSE(program::solution_of(""));
  CHECK_FALSE(program::solution_of("planish.solution/1"));
  CHECK_FALSE(program::solution_of(R"({"schema":"planish.solution/1"})"));
  CHECK_FALSE(program::solution_of(R"({"schema":"planish.solution/1","python":1})"));
  CHECK_FALSE(program::solution_of(R"({"schema":"planish.solution/1","python":"x","steps":[]})"));
  CHECK_FALSE(program::solution_of(R"({"schema":"planish.program/1","python":"planish.solution/1"})"));
  CHECK(program::solution_of(program::solution_document("x = \"\\n\"\n")) == "x = \"\\n\"\n");
}

TEST_CASE("a prompt offers Python where the region is the whole task of a file") {
  struct WholeTask : Nothing {
    bool takes_solutions() const override { return true; }
  };
  PromptFacts facts{"a GPU", &backend::cuda(), "sm_90a", "class Model: pass\n", {"TileLang 0.1 (import tilelang)"}};
  const auto task_of = [&](std::shared_ptr<const Domain> domain) {
    return coder_prompt(facts, {"task", std::move(domain), 0, 0, {}}, {})[1].text;
  };
  const std::string whole = task_of(std::make_shared<WholeTask>());
  CHECK(whole.contains("class ModelNew(nn.Module)"));
  CHECK(whole.contains("load_inline, TileLang 0.1 (import tilelang)"));
  CHECK(whole.contains("class Model: pass"));
  CHECK_FALSE(task_of(std::make_shared<Nothing>()).contains("ModelNew"));
  facts.reference.clear();  // a live module
  CHECK_FALSE(task_of(std::make_shared<WholeTask>()).contains("ModelNew"));
}

TEST_CASE("edits are of the program that was shown") {
  const AnswerParent parent{"a\nb\n", "hash"};
  const auto found = proposal_in("Sure:\n```\n<<<<<<< SEARCH\nb\n=======\nc\nd\n>>>>>>> REPLACE\n```\n", parent);
  REQUIRE(found);
  CHECK(std::get<Patch>(*found) == Patch{"a\nb\n", "hash", {{"b\n", "c\nd\n"}}});
  CHECK(refused("<<<<<<< SEARCH\nb\n=======\nc\n>>>>>>> REPLACE\n").contains("no program yet"));
  CHECK(refused("<<<<<<< SEARCH\nb\n=======\nc\n", parent).contains("does not end"));
  CHECK(refused("<<<<<<< SEARCH\nb\n>>>>>>> REPLACE\n", parent).contains("======="));
  CHECK(refused("<<<<<<< SEARCH\nb\n<<<<<<< SEARCH\n", parent).contains("begins before"));
}

TEST_CASE("an answer that holds no program, or several, is refused in words for its writer") {
  CHECK(refused("").contains("no code block"));
  CHECK(refused("I cannot do that.").contains("no code block"));
  CHECK(refused(fenced("int x;\n")).contains("launch line"));
  CHECK(refused(fenced(kernel_text) + fenced(std::string(kernel_text) + "// another\n"))
            .contains("2 different programs"));
  CHECK(refused("<think>" + fenced(kernel_text)).contains("no code block"));
  CHECK(refused(std::string(1 << 20, 'x')).contains("no code block"));
}

TEST_CASE("a seat of models shows the region, mends one bad answer, learns what became of its program") {
  auto model = std::make_shared<Scripted>(
      std::vector<llm::Answer>{says("I would rather talk."), says(fenced(kernel_text)),
                               says("<<<<<<< SEARCH\n//@ kernel cpp\n=======\n//@ kernel cpp -O3\n>>>>>>> REPLACE")});
  llm::Ensemble ensemble({model}, real_clock(), 1);
  const auto pool = std::make_shared<ModelPool>(ensemble, PoolOptions{{"a processor", &backend::cpu()}});
  Brief brief{"r0", std::make_shared<Nothing>(), 0.5, 2, {}};
  auto coder = model_seat(pool, 3).make(brief, [] {});
  const auto first = answered(*coder, brief);
  REQUIRE(first.proposal);
  CHECK(std::get<Source>(*first.proposal).text == kernel_text);
  {
    const std::scoped_lock lock(model->mutex);
    REQUIRE(model->asked.size() == 2);
    CHECK(model->asked[0].lane == "r0 seat 3");
    CHECK(model->asked[0].system[0].text.contains("extern \"C\" void entry"));
    CHECK(model->asked[0].system[1].text.contains("in0: f32[4], contiguous"));
    CHECK(model->asked[0].system[1].text.contains("a processor"));
    CHECK(model->asked[0].messages.back().text.contains("No program is right yet"));
    CHECK(model->asked[1].messages.size() == 3);
    CHECK(model->asked[1].messages.back().text.contains("no code block"));
  }
  Feedback feedback;
  feedback.proposal = *first.proposal;
  feedback.ok = true;
  feedback.median_ms = 1.5;
  feedback.program = "hash";
  auto evaluation = std::make_shared<Evaluation>();
  evaluation->outcome = Outcome::ok;
  feedback.evaluation = evaluation;
  feedback.advice = "it waits for memory";
  coder->tell(feedback);
  brief.best = {{*first.proposal, "hash", 1.5}};
  const auto second = answered(*coder, brief);
  REQUIRE(second.proposal);
  CHECK(std::get<Patch>(*second.proposal).parent_program == "hash");
  CHECK(source_of(*brief.domain, *second.proposal)->contains("//@ kernel cpp -O3"));
  {
    const std::scoped_lock lock(model->mutex);
    const std::string last = model->asked.back().messages.back().text;
    CHECK(last.contains("1.5 ms"));
    CHECK(last.contains("it waits for memory"));
    CHECK(last.contains(std::string(kernel_text)));
  }
  Feedback slower;
  slower.proposal = *second.proposal;
  coder->tell(slower);
  CHECK(answered(*coder, brief).finished);
  CHECK(coder->trouble() == "the money is spent (spending_cap)");
}

TEST_CASE("two answers without a program cost a turn, three turns the seat") {
  const std::vector<llm::Answer> talk(6, says("Hm."));
  auto model = std::make_shared<Scripted>(talk);
  llm::Ensemble ensemble({model}, real_clock(), 1);
  const Brief brief{"r0", std::make_shared<Nothing>(), 0, 0, {}};
  auto coder =
      model_seat(std::make_shared<ModelPool>(ensemble, PoolOptions{{"a GPU", &backend::cuda()}}), 1).make(brief, [] {});
  CHECK(answered(*coder, brief).finished);
  CHECK(coder->trouble().contains("no code block"));
  const std::scoped_lock lock(model->mutex);
  CHECK(model->asked.size() == 6);
  CHECK(model->asked[0].system[0].text.contains("__global__"));
}
