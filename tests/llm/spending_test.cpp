// Caps hold whatever happens, with all seats at once; choices follow from the seed.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "fakes.h"
#include "llm/bandit.h"
#include "llm/ensemble.h"

using namespace planish;
using namespace planish::llm;

namespace {

/// Answers or fails as a test says.
struct Scripted : Provider {
  explicit Scripted(std::string label, std::function<Answer()> say) : say_(std::move(say)) {
    settings.label = std::move(label);
    settings.roles = {Role::coder};
  }
  Answer complete(const ChatRequest&, const Call&) override {
    ++asked;
    return say_();
  }
  const ModelConfig& config() const override { return settings; }
  ModelConfig settings = sample_config();
  std::atomic<int> asked = 0;

 private:
  std::function<Answer()> say_;
};

Answer good(std::int64_t cost = 100) {
  ChatReply reply;
  reply.text = "ready";
  reply.nanodollars = cost;
  return reply;
}

Answer bad(ErrorKind kind, bool elsewhere) {
  return std::unexpected(Failure{{kind, "it said no", {}, {}}, false, elsewhere, false, {}});
}

}  // namespace

TEST_CASE("32 seats never spend more than the caps, and come near them") {
  for (const bool by_tokens : {true, false}) {
    std::atomic<std::int64_t> most{0};
    Ledger* seen = nullptr;
    Spending limits;
    if (by_tokens) limits.tokens = 40'000;
    if (!by_tokens) limits.nanodollars = 60'000'000;
    std::atomic<int> number = 0;
    World world(
        [&](const HttpRequest&) -> Result<HttpReply> {
          const Amount now = seen->committed();
          const std::int64_t value = by_tokens ? now.tokens : now.nanodollars;
          std::int64_t before = most.load();
          while (value > before && !most.compare_exchange_weak(before, value)) {
          }
          const int which = ++number;
          if (which % 7 == 0) return fail("model_cut", "cut");
          if (which % 11 == 0) return HttpReply{500, {}, ""};
          return HttpReply{200, {}, openai_stream};
        },
        sample_config(), limits);
    seen = &world.ledger;
    std::atomic<int> capped = 0;
    std::vector<std::thread> seats;
    for (int seat = 0; seat < 32; ++seat) {
      seats.emplace_back([&] {
        for (int i = 0; i < 200; ++i) {
          const auto answer = world.provider->complete(sample_request(), {});
          if (!answer && answer.error().error.kind.name() == "spending_cap") {
            ++capped;
            return;
          }
        }
      });
    }
    for (std::thread& seat : seats) seat.join();
    CHECK(capped == 32);
    const Amount spent = world.ledger.spent();
    CHECK(most <= (by_tokens ? *limits.tokens : *limits.nanodollars));
    CHECK((by_tokens ? spent.tokens : spent.nanodollars) <= (by_tokens ? *limits.tokens : *limits.nanodollars));
    // What is left is less than one more call could take.
    const Amount call = worst_case(world.provider->config(), sample_request(), world.transport.sent[0].body.size());
    CHECK((by_tokens ? *limits.tokens - spent.tokens : *limits.nanodollars - spent.nanodollars) <
          (by_tokens ? call.tokens : call.nanodollars));
    CHECK(world.ledger.committed().tokens == spent.tokens);
  }
}

TEST_CASE("what is not settled counts at its worst, and refusals count nothing") {
  Ledger ledger({{}, 100});
  {
    auto lost = ledger.reserve({40, 0}, 1, nullptr);
  }
  CHECK(ledger.spent().tokens == 40);
  auto kept = ledger.reserve({40, 0}, 1, nullptr);
  REQUIRE(kept);
  kept->release();
  CHECK(ledger.spent().tokens == 40);
  CHECK(ledger.reserve({61, 0}, 1, nullptr).error().kind.name() == "spending_cap");
  auto more = ledger.reserve({60, 0}, 1, nullptr);
  REQUIRE(more);
  more->settle({90, 0});  // a server that passes its own limit
  CHECK(ledger.spent().tokens == 130);
  CHECK(ledger.reserve({1, 0}, 1, nullptr).error().kind.name() == "spending_cap");
}

TEST_CASE("who does not fit waits for others to settle, and can be cancelled") {
  Ledger ledger({{}, 100});
  auto first = ledger.reserve({80, 0}, 1, nullptr);
  REQUIRE(first);
  std::atomic<bool> got = false;
  std::thread second([&] {
    auto mine = ledger.reserve({50, 0}, 600, nullptr);
    REQUIRE(mine);
    got = true;
    mine->settle({50, 0});
  });
  first->settle({30, 0});
  second.join();
  CHECK(got);
  auto third = ledger.reserve({20, 0}, 1, nullptr);
  const CancelToken cancel;
  cancel.cancel();
  CHECK(ledger.reserve({10, 0}, 600, &cancel).error().kind.name() == "cancelled");
  CHECK(ledger.reserve({10, 0}, 0, nullptr).error().kind.name() == "model_timeout");
}

TEST_CASE("the bandit's choices follow from its seed") {
  const auto run = [](std::uint64_t seed) {
    CostBandit bandit(3, seed);
    std::vector<std::size_t> chosen;
    for (int i = 0; i < 200; ++i) {
      const std::size_t arm = bandit.rank().front();
      chosen.push_back(arm);
      bandit.tell(arm, arm == 1 && i % 2 == 0 ? 1 : 0, 10);
    }
    return chosen;
  };
  CHECK(run(5) == run(5));
  CHECK(run(5) != run(6));
}

TEST_CASE("the bandit prefers what achieves more for its cost, and still looks at the others") {
  // Success rates 0.1, 0.2 and 0.5 at costs 1, 1 and 20: the second is the bargain.
  const std::vector<double> rates{0.1, 0.2, 0.5}, costs{1, 1, 20};
  CostBandit bandit(3, 1);
  std::mt19937_64 rng(2);
  std::vector<int> count(3);
  for (int i = 0; i < 3000; ++i) {
    const std::size_t arm = bandit.rank().front();
    ++count[arm];
    bandit.tell(arm, static_cast<double>(rng() % 1000) / 1000.0 < rates[arm] ? 1 : 0, costs[arm]);
  }
  CHECK(count[1] > 1500);
  CHECK(count[1] > 2 * count[0]);
  CHECK(count[2] > 10);
}

TEST_CASE("a model that is free and useless is no bargain") {
  CostBandit bandit(2, 3);
  for (int i = 0; i < 400; ++i) {
    const std::size_t arm = bandit.rank().front();
    bandit.tell(arm, arm == 1 ? 0.6 : 0.0, arm == 1 ? 10 : 0);
  }
  CHECK(bandit.told(1) > bandit.told(0));
}

TEST_CASE("fallback is visible, and lasting failures are not asked again") {
  FakeClock clock;
  auto dead = std::make_shared<Scripted>("dead", [] { return bad("model_unauthorized", true); });
  auto alive = std::make_shared<Scripted>("alive", [] { return good(); });
  Ensemble ensemble({dead, alive}, clock, 1);
  std::vector<CallEvent> events;
  Call call;
  call.listener = [&](const CallEvent& event) { events.push_back(event); };
  bool fell = false;
  for (int i = 0; i < 50; ++i) {
    const auto choice = ensemble.choose(Role::coder);
    REQUIRE(choice);
    const Outcome outcome = ensemble.complete(*choice, sample_request(), call);
    REQUIRE(outcome.answer);
    CHECK(outcome.answered == 1);
    if (!outcome.failed.empty()) {
      fell = true;
      CHECK(outcome.failed[0].second.kind.name() == "model_unauthorized");
    }
    ensemble.tell(*choice, outcome, 1);
  }
  CHECK(fell);
  CHECK(dead->asked == 1);
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == CallEvent::Kind::fallback);
  CHECK(events[0].text.find("alive") != std::string::npos);
  CHECK(ensemble.benched(Role::coder) == std::vector<std::string>{"dead"});
  CHECK(!ensemble.has(Role::judge));
  CHECK(ensemble.choose(Role::judge).error().kind.name() == "no_model_for_role");
}

TEST_CASE("a wrong request is not tried on every model") {
  FakeClock clock;
  auto one = std::make_shared<Scripted>("one", [] { return bad("model_rejected", false); });
  auto two = std::make_shared<Scripted>("two", [] { return bad("model_rejected", false); });
  Ensemble ensemble({one, two}, clock, 1);
  const Outcome outcome = ensemble.complete(*ensemble.choose(Role::coder), sample_request(), {});
  CHECK(!outcome.answer);
  CHECK(one->asked + two->asked == 1);
  CHECK(outcome.failed.size() == 1);
}

TEST_CASE("no more calls are with a model than it may have") {
  std::atomic<int> now = 0, most = 0;
  FakeClock clock;
  auto model = std::make_shared<Scripted>("m", [&] {
    const int value = ++now;
    int before = most.load();
    while (value > before && !most.compare_exchange_weak(before, value)) {
    }
    std::this_thread::yield();
    --now;
    return good();
  });
  model->settings.parallel = 3;
  Ensemble ensemble({model}, clock, 1);
  const auto choice = ensemble.choose(Role::coder);
  std::atomic<int> answers = 0;
  std::vector<std::thread> seats;
  for (int i = 0; i < 32; ++i) {
    seats.emplace_back([&] {
      for (int j = 0; j < 20; ++j)
        answers += ensemble.complete(*choice, sample_request(), {}).answer.has_value() ? 1 : 0;
    });
  }
  for (std::thread& seat : seats) seat.join();
  CHECK(answers == 640);
  CHECK(most <= 3);
}

TEST_CASE("warming up sends what all seats share, and nothing else") {
  World world([](const HttpRequest&) { return HttpReply{200, {}, openai_stream}; });
  const auto answer = warm_up(*world.provider, sample_request("secret plan"), {});
  REQUIRE(answer);
  CHECK(answer->usage.cached == 40);
  const std::string& body = world.transport.sent.at(0).body;
  CHECK(body.find("The task.") != std::string::npos);
  CHECK(body.find("The cell.") == std::string::npos);
  CHECK(body.find("secret plan") == std::string::npos);
}
