// Every place in which a task goes away from its device (DeviceTurn::away), on a device that only the turns know of:
// real processes on the CPU, watched by who stands between. What takes long is done while others could measure, and
// what follows, or the end of a call that fails, has waited for its turn.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <vector>

#include "relu_program.h"
#include "watched_task.h"

using namespace planish;
using planish::testing::Lines;
using planish::testing::Watched;
using planish::testing::watched_source;

namespace {

constexpr const char* right = "        return torch.relu(x) * 2.0";
constexpr const char* writes_its_input = "        return x.zero_()";

const Lines away{"free", "let go"}, twice_away{"free", "let go", "free", "let go"},
    three_times_away{"free", "let go", "free", "let go", "free", "let go"};

/// This thread, and what it starts, on one core; on those it had at the end of a scope.
class OneCore {
 public:
  OneCore() {
    REQUIRE(::sched_getaffinity(0, sizeof before_, &before_) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &before_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  }
  ~OneCore() { (void)::sched_setaffinity(0, sizeof before_, &before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_;
};

bool all_held(const Lines& lines) {
  return !lines.empty() && std::ranges::all_of(lines, [](const std::string& line) { return line == "held"; });
}

}  // namespace

TEST_CASE("a task is opened, proved and timed, and everybody imports away from the device") {
  const auto box = planish::testing::tools();
  if (!box) return;
  Watched watched(*box);
  const auto task = watched.task();
  REQUIRE(task->open());
  CHECK(watched.noted("oracle hello") == away);
  CHECK(watched.noted("oracle open") == Lines{"held"});
  CHECK(Watched::nobody_is_there());

  watched.begin();
  const auto proved = task->verify(watched.solution(right));
  REQUIRE_MESSAGE(proved.has_value(), proved.error().message);
  CHECK_MESSAGE(proved->verified, proved->message);
  CHECK(watched.noted("runner hello") == away);
  CHECK(all_held(watched.noted("runner load_module")));  // quick ones do not give their turn up
  CHECK(all_held(watched.noted("runner run")));
  CHECK(watched.noted("oracle hello") == away);  // for the task's other shapes
  CHECK(all_held(watched.noted("oracle open")));
  CHECK(all_held(watched.noted("oracle check")));
  CHECK(Watched::nobody_is_there());

  watched.begin();
  ClaimRequest claim;
  claim.modes = {"eager"};
  claim.max_seconds = 0.1;
  const auto claimed = task->claim(claim);
  REQUIRE_MESSAGE(claimed.has_value(), claimed.error().message);
  CHECK(watched.noted("baseline hello") == away);
  CHECK(all_held(watched.noted("baseline open")));
  CHECK(all_held(watched.noted("baseline time")));
  CHECK(Watched::nobody_is_there());
}

TEST_CASE("a task that takes long to open is opened for its proof while a program of the whole of it is tested") {
  const auto box = planish::testing::tools();
  if (!box) return;
  Limits limits;
  limits.slow_open = 0;
  Watched watched(*box, limits);
  const auto task = watched.task(true);
  REQUIRE(task->open());
  watched.begin();
  EvaluateRequest whole;
  whole.region = "task";
  whole.program = planish::testing::relu_program(
                      "const float* x = static_cast<const float*>(args[0]); float* y = static_cast<float*>(args[1]);\n"
                      "for (int i = 0; i < 64 * 128; ++i) { const float v = x[i] < 0 ? 0 : x[i]; y[i] = v * 2; }")
                      .dump();
  whole.level = "screen";
  whole.bench = false;
  auto tested = task->evaluate(whole);
  REQUIRE_MESSAGE(tested.has_value(), tested.error().message);
  CHECK_MESSAGE(tested->outcome == Outcome::ok, tested->message);
  CHECK(watched.noted("oracle open").empty());  // a first look is no promise to prove it

  whole.level = "full";
  tested = task->evaluate(whole);
  REQUIRE_MESSAGE(tested.has_value(), tested.error().message);
  CHECK_MESSAGE(tested->outcome == Outcome::ok, tested->message);
  CHECK(watched.noted("oracle open") == Lines{"held"});  // and it is done: what follows can be timed
  CHECK(watched.noted("oracle mutation_check") == Lines{"held"});

  watched.begin();
  const auto proved = task->verify(watched.solution(right));
  REQUIRE_MESSAGE(proved.has_value(), proved.error().message);
  CHECK_MESSAGE(proved->verified, proved->message);
  CHECK(watched.noted("oracle open") == Lines{"held", "held"});  // the task's other shapes, of which there is one
  CHECK(all_held(watched.noted("oracle check")));
  CHECK(Watched::nobody_is_there());
}

TEST_CASE("on few cores what proves a task is started behind its capture, and not where that fails") {
  const auto box = planish::testing::tools();
  if (!box) return;
  const OneCore few;
  Watched watched(*box);
  watched.write_task("raise ValueError('no task')\n");
  const auto broken = watched.task(true);
  const auto refused = broken->open();
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind.name() == "import_failed");
  CHECK(watched.start("oracle", 1));
  CHECK(watched.noted("baseline started").empty());

  watched.write_task(watched_source);
  watched.begin();
  const auto task = watched.task(true);
  REQUIRE(task->open());
  CHECK(watched.start("oracle", 2));
  CHECK(watched.start("runner", 1));  // the check's is there from before
  CHECK(watched.start("baseline", 1));
}

TEST_CASE("a solution that takes long to construct does so away from the device, whether or not it ends well") {
  const auto box = planish::testing::tools();
  if (!box) return;
  Watched watched(*box);
  const auto task = watched.task();
  REQUIRE(task->open());
  for (const bool good : {true, false}) {
    CAPTURE(good);
    watched.begin();
    VerifyRequest request =
        watched.solution(right, good ? "time.sleep(5.5)" : "time.sleep(5.5); raise ValueError('it is no solution')");
    request.level = "screen";
    const auto proved = task->verify(request);
    REQUIRE_MESSAGE(proved.has_value(), proved.error().message);
    CHECK(proved->verified == good);
    CHECK(watched.noted("runner load_module") == away);
    CHECK(all_held(watched.noted("runner run")) == good);
    CHECK(Watched::nobody_is_there());
  }
}

TEST_CASE("whoever runs a solution again that died imports away from the device") {
  const auto box = planish::testing::tools();
  if (!box) return;
  Watched watched(*box);
  const auto task = watched.task();
  REQUIRE(task->open());
  watched.begin();
  VerifyRequest request = watched.solution(writes_its_input);
  request.kernelbench = "fp32";
  const auto proved = task->verify(request);
  REQUIRE_MESSAGE(proved.has_value(), proved.error().message);
  CHECK(proved->outcome == Outcome::input_write);
  CHECK(proved->kernelbench.has_value());
  // The proof's, that of the run on copies, and KernelBench's.
  CHECK(watched.noted("runner hello") == three_times_away);
  CHECK(all_held(watched.noted("runner load_module")));
  CHECK(watched.noted("runner kernelbench") == Lines{"held"});
  CHECK(Watched::nobody_is_there());
  for (const int which : {1, 2}) {
    CAPTURE(which);
    watched.begin(fmt::format("runner hello {}", which));
    const auto again = task->verify(request);
    REQUIRE_MESSAGE(again.has_value(), again.error().message);
    CHECK_FALSE(again->verified);
    CHECK(watched.noted("runner hello") == three_times_away);
    CHECK_FALSE(again->kernelbench.has_value());
    CHECK(Watched::nobody_is_there());
  }
}

TEST_CASE("an import that fails away from the device has waited for its turn all the same") {
  const auto box = planish::testing::tools();
  if (!box) return;
  Watched watched(*box);
  watched.begin("oracle hello 0");
  CHECK_FALSE(watched.task()->open());
  CHECK(watched.noted("oracle hello") == away);
  CHECK(watched.noted("oracle open").empty());
  CHECK(Watched::nobody_is_there());
  watched.begin();
  const auto task = watched.task();
  REQUIRE(task->open());
  for (const char* fails : {"runner hello 0", "oracle hello 0"}) {
    CAPTURE(fails);
    watched.begin(fails);
    CHECK_FALSE(task->verify(watched.solution(right)));
    CHECK(watched.noted(std::string(fails).substr(0, 12)) == away);
    CHECK(Watched::nobody_is_there());
  }
  watched.begin("baseline hello 0");
  ClaimRequest claim;
  claim.modes = {"eager"};
  CHECK_FALSE(task->claim(claim));
  CHECK(watched.noted("baseline hello") == away);
  CHECK(Watched::nobody_is_there());
  // None of it is in the way of what comes after.
  watched.begin();
  const auto proved = task->verify(watched.solution(right));
  REQUIRE_MESSAGE(proved.has_value(), proved.error().message);
  CHECK_MESSAGE(proved->verified, proved->message);
}
