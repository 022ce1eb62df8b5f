#include "search/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "coder/slow_coder.h"
#include "fakes.h"
#include "search/run.h"
#include "search/swarm.h"

using namespace planish;
using namespace planish::search;
using namespace planish::search::testing;

namespace {

/// Thinks for a while of its own choice, fails now and then, and walks towards the valley from what it was shown.
class Walker : public coder::Writer {
 public:
  Walker(int seat, unsigned delays) : seat_(seat), rng_(delays) {}
  Result<std::optional<coder::Proposal>> write(const coder::Brief& brief, const std::vector<coder::Feedback>& news,
                                               const CancelToken&) override {
    if (rng_() % 3 != 0) std::this_thread::sleep_for(std::chrono::microseconds(rng_() % 3000));
    if (++asked_ > 12) return std::nullopt;
    if ((asked_ + seat_) % 5 == 0) return fail("unreachable", "try " + std::to_string(asked_));
    // What it says depends on what it is shown and told.
    std::size_t mix = news.size() + 7 * static_cast<std::size_t>(seat_ + asked_);
    for (const auto& known : brief.best) mix += known.program.size() + std::hash<std::string>{}(known.program);
    return coder::Proposal(
        coder::Source{"at a=" + std::to_string(mix % 16) + " b=" + std::to_string(mix / 16 % 16) + " "});
  }

 private:
  int seat_, asked_ = 0;
  std::mt19937 rng_;
};

std::vector<coder::Seat> walkers(unsigned delays) {
  std::vector<coder::Seat> out;
  for (int seat = 0; seat < 4; ++seat) {
    out.push_back({"walker " + std::to_string(seat),
                   [seat, delays](const coder::Brief&, std::function<void()> rouse) -> std::unique_ptr<coder::Coder> {
                     return std::make_unique<coder::SlowCoder>(
                         std::make_unique<Walker>(seat, delays + 31U * static_cast<unsigned>(seat)), std::move(rouse));
                   }});
  }
  return out;
}

/// Takes a moment of real time too, in which coders answer.
struct Unhurried : ValleyEvaluator {
  using ValleyEvaluator::ValleyEvaluator;
  Result<Evaluation> evaluate(const RegionSpec& region, const coder::Candidate& c, bool full, double limit) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return ValleyEvaluator::evaluate(region, c, full, limit);
  }
};

struct Course {
  Recorder sink;
  Schedule schedule;
  std::vector<SeatReport> seats;
  std::string differs;
};

Course course(StrategyKind kind, unsigned delays, const Schedule* schedule, double budget_seconds) {
  Course out;
  FakeClock clock;
  Unhurried evaluator{&clock};
  RunOptions options;
  options.budget = {budget_seconds, 0};
  options.schedule = schedule;
  SearchOptions how;
  how.strategy = kind;
  how.seats = walkers(delays);
  how.model_seats = 4;
  how.schedule = schedule;
  how.heard = [&out](const SeatEvent& event) { out.schedule.events.push_back(event); };
  Search search({spec("r0"), spec("r1", 0.5, 2)}, 9, std::move(how));
  const auto ran = run_search(search, evaluator, nullptr, out.sink, clock, options);
  REQUIRE(ran);
  out.schedule.polls = ran->polls;
  out.schedule.finals = ran->finals;
  out.seats = search.seats();
  out.differs = search.differs();
  return out;
}

}  // namespace

TEST_CASE("with its schedule a search takes the same course, however fast its coders are") {
  for (const auto kind : {StrategyKind::swarm, StrategyKind::hillclimb, StrategyKind::coders}) {
    const Course first = course(kind, 1, nullptr, 150);
    REQUIRE(first.schedule.events.size() > 8);
    for (const unsigned delays : {2U, 3U}) {
      // Its clock would end it at another place.
      const Course again = course(kind, delays, &first.schedule, delays == 2 ? 5 : 1000);
      CHECK(again.differs.empty());
      CHECK(again.schedule.events == first.schedule.events);
      CHECK(again.schedule.polls == first.schedule.polls);
      CHECK(again.schedule.finals == first.schedule.finals);
      CHECK(again.sink.order == first.sink.order);
      REQUIRE(again.sink.asks.size() == first.sink.asks.size());
      for (std::size_t i = 0; i < first.sink.asks.size(); ++i) {
        CHECK(again.sink.asks[i].serial == first.sink.asks[i].serial);
        CHECK(again.sink.asks[i].proposal == first.sink.asks[i].proposal);
        CHECK(text(again.sink.asks[i].origin) == text(first.sink.asks[i].origin));
      }
      for (std::size_t k = 0; k < first.seats.size(); ++k) {
        CHECK(again.seats[k].proposed == first.seats[k].proposed);
        CHECK(again.seats[k].trouble == first.seats[k].trouble);
      }
    }
  }
}

TEST_CASE("a coder that does not do what the schedule says ends the search, and is named") {
  Course first = course(StrategyKind::hillclimb, 1, nullptr, 40);
  REQUIRE(first.schedule.events.size() > 2);
  Schedule other = first.schedule;
  other.events[1].what =
      other.events[1].what == SeatEvent::What::failed ? SeatEvent::What::proposal : SeatEvent::What::failed;
  CHECK(course(StrategyKind::hillclimb, 1, &other, 40).differs.contains("walker"));
}

TEST_CASE("the swarm's agents stand up for as many models as there are") {
  for (const int agents : {32, 24, 1}) {
    const RegionSpec region = spec("r0");
    StrategyContext context{region, 3};
    context.agents = agents;
    Swarm swarm(context);
    std::int64_t proposed = 0;
    for (int i = 0; i < 120; ++i) {
      const auto genome = swarm.propose();
      if (!genome) break;
      Told told;
      told.ok = true;
      told.median_ms = 1 + ValleyEvaluator::valley(*genome, 1, 0.1);
      swarm.tell(*genome, told);
      ++proposed;
    }
    CHECK(proposed > 60);
    const auto all = swarm.agents();
    CHECK(std::ranges::count_if(all, [](const auto& a) { return a.proposed > 0; }) <= agents);
    if (agents == 24) CHECK(std::ranges::count(all, true, &Swarm::AgentReport::there) == 24);
  }
}
