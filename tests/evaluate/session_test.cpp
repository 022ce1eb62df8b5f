// The whole evaluator on the CPU: real oracle, real runners, real g++. Skipped where no Python with torch is found.
#include "evaluate/session.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>

#include "base/file.h"
#include "evaluate/codec.h"
#include "evaluate/json.h"
#include "relu_program.h"
#include "with_torch.h"

using namespace planish;
using planish::testing::relu_program;
using planish::testing::tools;

namespace {

constexpr const char* task_source = R"(
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0
def get_inputs():
    return [torch.randn(64, 128)]
def get_init_inputs():
    return []
)";

const std::string head =
    "const float* x = static_cast<const float*>(args[0]); float* y = static_cast<float*>(args[1]); (void)x;";

std::string kernel(const std::string& statement) {
  return relu_program(head + "\nfor (int i = 0; i < 64*128; ++i) { " + statement + " }").dump();
}

}  // namespace

TEST_CASE("one candidate of each fate, and the run goes on") {
  const auto box = tools();
  if (!box.has_value()) return;
  auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  const auto task = folder->path() / "relu.py";
  REQUIRE(write_file(task, task_source).has_value());
  worker::Toolbox mine = *box;
  mine.cache_dir = folder->path() / "cache";
  Limits limits;
  limits.run = 3;
  EvaluatorSession session(mine, limits);
  OpenRequest open;
  open.task = task.string();
  open.target = "cpu";
  open.seeds = 7;
  auto opened = session.open(open);
  REQUIRE_MESSAGE(opened.has_value(), opened.error().kind << ": " << opened.error().message);
  CHECK(opened->device.target == "cpu");
  CHECK(opened->device.bandwidth_gbs > 0);
  // A part of the task: nothing is looked for before a candidate of it is tested in full.
  RegionRequest part;
  part.session = opened->session;
  part.region = "r0";
  part.nodes = {0};
  part.inputs = {0};
  part.outputs = {1};
  part.describe = false;
  auto undescribed = session.region(part);
  REQUIRE_MESSAGE(undescribed.has_value(), undescribed.error().kind << ": " << undescribed.error().message);
  CHECK(undescribed->regimes.empty());
  EvaluateRequest of_part;
  of_part.session = opened->session;
  of_part.region = "r0";
  of_part.program = kernel("float v = x[i] < 0 ? 0 : x[i]; y[i] = v;");
  of_part.level = "full";
  of_part.bench = false;
  auto tested = session.evaluate(of_part);
  REQUIRE_MESSAGE(tested.has_value(), tested.error().kind << ": " << tested.error().message);
  CHECK_MESSAGE(tested->outcome == Outcome::ok, name(tested->outcome) << ": " << tested->message);
  REQUIRE(tested->test.has_value());
  CHECK(std::ranges::any_of(tested->test->cases, [](const auto& item) { return item.regime != "task"; }));
  part.describe = true;
  auto described_later = session.region(part);
  REQUIRE(described_later.has_value());
  CHECK(described_later->regimes.front() == "task");

  RegionRequest region;
  region.session = opened->session;
  region.region = "task";
  region.bytes = 2 * 64 * 128 * 4;
  auto described = session.region(region);
  REQUIRE_MESSAGE(described.has_value(), described.error().kind << ": " << described.error().message);
  CHECK(described->regimes.front() == "task");
  CHECK(described->degenerate.empty());

  const auto evaluate = [&](const std::string& program, const std::string& level = "screen", bool bench = false) {
    EvaluateRequest request;
    request.session = opened->session;
    request.region = "task";
    request.program = program;
    request.level = level;
    request.bench = bench;
    auto result = session.evaluate(request);
    REQUIRE_MESSAGE(result.has_value(), result.error().kind << ": " << result.error().message);
    const auto again = parse_evaluation(to_json(*result));
    REQUIRE(again.has_value());
    CHECK(to_json(*again) == to_json(*result));
    return *result;
  };
  const auto expect = [&](const std::string& program, Outcome outcome) {
    const Evaluation e = evaluate(program);
    CHECK_MESSAGE(e.outcome == outcome, name(e.outcome) << " instead of " << name(outcome) << ": " << e.message);
  };

  const std::string good = kernel("y[i] = x[i] > 0 ? x[i] * 2.0f : 0.0f * x[i];");
  const Evaluation screened = evaluate(kernel("float v = x[i] < 0 ? 0 : x[i]; y[i] = v * 2;"), "screen", true);
  CHECK_MESSAGE(screened.outcome == Outcome::ok, name(screened.outcome) << ": " << screened.message);
  REQUIRE(screened.bench.has_value());
  CHECK(screened.bench->median_ms > 0);
  CHECK(screened.roofline.has_value());
  CHECK(screened.tier == Tier::bench);
  // Comments and spaces make another program, and the same candidate.
  expect(kernel("float v = x[i] < 0 ? 0 : x[i]; /* twice */  y[i] = v * 2;"),
         Outcome::ok);  // no timing: another question
  expect(kernel("float v = x[i] < 0 ? 0 : x[i];   y[i] = v*2;"), Outcome::duplicate);

  const Evaluation full = evaluate(kernel("float v = x[i] < 0 ? 0 : x[i]; y[i] = v * 2;"), "full", true);
  CHECK_MESSAGE(full.outcome == Outcome::ok, name(full.outcome) << ": " << full.message);
  REQUIRE(full.test.has_value());
  CHECK(full.test->cases.size() >= 5);

  expect("{", Outcome::invalid_program);
  expect(kernel("y[i] = nonsense;"), Outcome::compile_error);
  expect(kernel("y[i] = x[i];"), Outcome::wrong);
  expect(kernel("if (i > 0) y[i] = x[i] > 0 ? x[i] * 2 : 0;"), Outcome::unwritten);
  expect(kernel("*(volatile int*)8 = 1;"), Outcome::crash);
  expect(kernel("for (volatile int j = 0; j < 1;) {}"), Outcome::hang);
  expect(kernel("((volatile float*)x)[i] = 1;"), Outcome::input_write);
  expect(kernel("((volatile float*)y)[i + 64 * 128 + 16384] = 1;"), Outcome::out_of_bounds);
  expect(relu_program("__builtin_exit(0);").dump(), Outcome::exit);
  const Evaluation after = evaluate(good);
  CHECK_MESSAGE(after.ok(), name(after.outcome) << ": " << after.message);

  // A program of aten steps goes to the torch runner.
  Json aten = relu_program("");
  aten["kernels"] = Json::array();
  aten["buffers"].push_back({{"role", "temp"}, {"dtype", "f32"}, {"shape", {64, 128}}, {"strides", {128, 1}}});
  aten["steps"] = {
      {{"kind", "aten"}, {"op", "aten.relu.default"}, {"args", {{{"name", "self"}, {"buffer", 0}}}}, {"outs", {2}}},
      {{"kind", "aten"},
       {"op", "aten.mul.Tensor"},
       {"args", {{{"name", "self"}, {"buffer", 2}}, {{"name", "other"}, {"buffer", 2}}}},
       {"outs", {1}}}};
  const Evaluation squared = evaluate(aten.dump());
  CHECK_MESSAGE(squared.outcome == Outcome::wrong, name(squared.outcome) << ": " << squared.message);
  aten["steps"][1]["op"] = "aten.add.Tensor";
  aten["steps"][1]["args"].push_back({{"name", "alpha"}, {"int", 1}});
  const Evaluation doubled = evaluate(aten.dump(), "screen", true);
  CHECK_MESSAGE(doubled.ok(), name(doubled.outcome) << ": " << doubled.message);

  VerifyRequest verify;
  verify.session = opened->session;
  const auto solution = folder->path() / "solution.py";
  REQUIRE(write_file(solution, std::string(task_source) + "\nclass ModelNew(Model):\n    def forward(self, x):\n       "
                                                          " return torch.clamp(x, min=0).add(torch.clamp(x, min=0))\n")
              .has_value());
  verify.path = solution.string();
  verify.kernelbench = "fp32";
  auto verified = session.verify(verify);
  REQUIRE_MESSAGE(verified.has_value(), verified.error().kind << ": " << verified.error().message);
  CHECK_MESSAGE(verified->verified, verified->message);
  CHECK(verified->kernelbench.has_value());
  REQUIRE(
      write_file(solution, std::string(task_source) +
                               "\nclass ModelNew(Model):\n    def forward(self, x):\n        return torch.relu(x)\n")
          .has_value());
  verified = session.verify(verify);
  REQUIRE(verified.has_value());
  CHECK(!verified->verified);
  CHECK(verified->outcome == Outcome::wrong);

  ClaimRequest claim;
  claim.session = opened->session;
  claim.modes = {"eager"};
  claim.max_seconds = 0.2;
  const auto claimed = session.claim(claim);
  REQUIRE_MESSAGE(claimed.has_value(), claimed.error().kind << ": " << claimed.error().message);
  REQUIRE(claimed->find("eager") != nullptr);
  CHECK(claimed->find("eager")->median_ms > 0);
  CHECK(session.close(opened->session).has_value());
  CHECK(session.close(opened->session).error().kind.name() == "no_session");
}

TEST_CASE("a device that fails once costs a second try, one that is gone ends the run by name") {
  const auto box = tools();
  if (!box.has_value()) return;
  auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  const auto task = folder->path() / "relu.py";
  const auto script = folder->path() / "fails";
  REQUIRE(write_file(task, task_source).has_value());
  REQUIRE(write_file(script, "").has_value());
  ::setenv("DEVICE_FAILS", script.c_str(), 1);
  ::setenv("REAL_RUNNER", box->runner.c_str(), 1);
  worker::Toolbox mine = *box;
  mine.cache_dir = folder->path() / "cache";
  mine.runner = std::filesystem::path(PLANISH_SOURCE_DIR) / "tests" / "evaluate" / "failing_device.py";
  EvaluatorSession session(mine);
  OpenRequest open;
  open.task = task.string();
  open.target = "cpu";
  auto opened = session.open(open);
  REQUIRE_MESSAGE(opened.has_value(), opened.error().kind << ": " << opened.error().message);
  int number = 0;
  const auto evaluate = [&](const char* fails) {
    REQUIRE(write_file(script, fails).has_value());
    EvaluateRequest request;
    request.session = opened->session;
    request.region = "task";
    request.program =
        kernel(fmt::format("y[i] = x[i] < 0 ? 0 : x[i] * 2; volatile int other = {}; (void)other;", ++number));
    request.level = "screen";
    return session.evaluate(request);
  };
  auto once = evaluate("run 1");
  REQUIRE_MESSAGE(once.has_value(), once.error().message);
  CHECK_MESSAGE(once->ok(), name(once->outcome) << ": " << once->message);
  CHECK_MESSAGE(once->again_after.find("ECC") != std::string::npos, once->again_after);
  // On the CPU what runs may have said so itself: no reason to end the run.
  auto twice = evaluate("run 2");
  REQUIRE_MESSAGE(twice.has_value(), twice.error().message);
  CHECK(twice->outcome == Outcome::infrastructure);
  CHECK(twice->message.find("ECC") != std::string::npos);
  REQUIRE(evaluate("").has_value());  // with a runner that lives from here on
  auto gone = evaluate("run 1\nhello");
  REQUIRE_FALSE(gone.has_value());
  CHECK(gone.error().kind.name() == "device_lost");
  CHECK(gone.error().message.find("ECC") != std::string::npos);
  CHECK(!gone.error().hint.empty());
  CHECK(gone.error().causes.back().find("CUDA_ERROR_NO_DEVICE") != std::string::npos);
  auto back = evaluate("");
  REQUIRE_MESSAGE(back.has_value(), back.error().message);
  CHECK_MESSAGE(back->ok(), name(back->outcome) << ": " << back->message);
}

TEST_CASE("a task whose session was closed stays captured where that is asked for") {
  const auto box = tools();
  if (!box) return;
  const auto folder = TempDir::create();
  REQUIRE(folder.has_value());
  const std::string task = folder->path() / "task.py", log = folder->path() / "imports";
  const std::string source =
      fmt::format("with open({:?}, 'a') as log:\n    log.write('.')\n", log) + std::string(task_source);
  REQUIRE(write_file(task, source).has_value());
  const auto imports = [&] { return read_file(log).value_or("").size(); };
  Limits limits;
  limits.kept_tasks = 1;
  EvaluatorSession session(*box, limits);
  OpenRequest ask;
  ask.task = task;
  ask.target = "cpu";
  const auto first = session.open(ask);
  REQUIRE_MESSAGE(first.has_value(), first.error().message);
  const std::size_t once = imports();
  CHECK(once > 0);
  // Open: it is somebody's.
  const auto beside = session.open(ask);
  REQUIRE(beside.has_value());
  CHECK(imports() == 2 * once);
  CHECK(beside->session != first->session);
  REQUIRE(session.close(beside->session).has_value());
  REQUIRE(session.close(first->session).has_value());
  CHECK(session.close(first->session).error().kind.name() == "no_session");
  const auto again = session.open(ask);
  REQUIRE(again.has_value());
  CHECK(imports() == 2 * once);
  CHECK(again->graph == first->graph);
  VerifyRequest nothing;  // no ModelNew: refused, and nothing more
  nothing.session = again->session;
  nothing.path = task;
  const auto refused = session.verify(nothing);
  REQUIRE(refused.has_value());
  CHECK(!refused->verified);
  REQUIRE(session.close(again->session).has_value());
  const std::size_t before = imports();
  SUBCASE("seeds that were chosen begin anew") {
    ask.seeds = 7;
  }
  SUBCASE("another accuracy is another question") {
    ask.accuracy = "1e-3";
  }
  SUBCASE("a changed file is another task") {
    REQUIRE(write_file(task, source + "\n").has_value());
  }
  REQUIRE(session.open(ask).has_value());
  CHECK(imports() > before);
}
