#include "search/seats.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace planish::search {
namespace {

/// A gain counts no more than this: a first right candidate after many wrong ones is no promise of another.
constexpr double most_gain = 0.5;
/// A coder that keeps proposing what was proposed has nothing left.
constexpr int most_known = 50;
/// With a schedule answers come at once: who is silent for so many seconds does something else than then.
constexpr double most_patience = 120;

}  // namespace

Seats::Seats(std::vector<coder::Seat> kinds, std::size_t regions, std::uint64_t seed, const Schedule* schedule,
             std::function<void(const SeatEvent&)> heard)
    : kinds_(std::move(kinds)),
      bandit_(std::vector<double>(kinds_.size() + 1, 1.0)),
      rng_(seed),
      schedule_(schedule),
      heard_(std::move(heard)),
      coders_(regions) {
  for (const coder::Seat& kind : kinds_) reports_.emplace_back().name = kind.name;
}

bool Seats::due(std::int64_t poll, std::size_t region, std::size_t kind) const {
  if (next_event_ >= schedule_->events.size()) return false;
  const SeatEvent& next = schedule_->events[next_event_];
  return next.poll == poll && next.region == region && next.seat == kind;
}

/// What came of a coder at this time; nothing where nothing did.
std::optional<coder::Coder::Answer> Seats::hear(std::int64_t poll, std::size_t region, std::size_t kind,
                                                const coder::Brief& brief) {
  Chair& chair = coders_[region][kind];
  const auto asked = [&]() -> std::optional<coder::Coder::Answer> {
    if (chair.held) return std::exchange(chair.held, std::nullopt);
    auto answer = chair.coder->ask(brief);
    if (!answer.proposal && !answer.finished && !answer.failed) return std::nullopt;
    return answer;
  };
  auto answer = asked();
  if (schedule_ != nullptr) {
    if (!due(poll, region, kind)) {
      chair.held = std::move(answer);
      return std::nullopt;
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(most_patience);
    while (!answer && differs_.empty() && std::chrono::steady_clock::now() < until) {
      pause(0.05);
      answer = asked();
    }
  }
  if (answer) chair.trouble = chair.coder->trouble();
  SeatEvent event{poll, region, kind, SeatEvent::What::proposal};
  if (answer && !answer->proposal) event.what = answer->failed ? SeatEvent::What::failed : SeatEvent::What::finished;
  if (schedule_ != nullptr) {
    const bool same = answer && event == schedule_->events[next_event_++];
    if (!same && differs_.empty())
      differs_ = kinds_[kind].name + " does not answer as it did" +
                 (chair.trouble.empty() ? std::string() : ": " + chair.trouble);
  }
  if (answer && heard_) heard_(event);
  return answer;
}

void Seats::ask(std::int64_t poll, std::size_t region, const coder::Brief& brief, bool open) {
  std::vector<Chair>& chairs = coders_[region];
  if (chairs.empty() && open) {
    for (const coder::Seat& kind : kinds_) {
      const auto ring = [bell = bell_] {
        const std::scoped_lock lock(bell->mutex);
        bell->waiting = true;
        bell->rung.notify_all();
      };
      chairs.emplace_back().coder = kind.make(brief, ring);
    }
  }
  for (std::size_t k = 0; k < chairs.size(); ++k) {
    Chair& chair = chairs[k];
    if (chair.finished || chair.ready) continue;
    auto answer = hear(poll, region, k, brief);
    if (!answer) continue;
    chair.ready = std::move(answer->proposal);
    chair.finished = answer->finished;
  }
}

void Seats::close(std::size_t region) {
  for (Chair& chair : coders_[region]) {
    chair.ready.reset();
    chair.finished = true;
  }
}

std::optional<Seats::Turn> Seats::take(bool strategy) {
  const std::vector<double> shares = bandit_.shares();
  std::vector<double> weights(shares.size(), 0);
  if (strategy) weights[0] = shares[0];
  bool any = false;
  for (const auto& chairs : coders_) {
    for (std::size_t k = 0; k < chairs.size(); ++k) {
      if (!chairs[k].ready) continue;
      weights[k + 1] = shares[k + 1];
      any = true;
    }
  }
  if (!any) return std::nullopt;
  const int arm = pick_weighted(rng_, weights);
  if (arm == 0) return std::nullopt;
  const auto kind = static_cast<std::size_t>(arm - 1);
  for (std::size_t region = 0; region < coders_.size(); ++region) {
    if (coders_[region].empty() || !coders_[region][kind].ready) continue;
    ++reports_[kind].proposed;
    return Turn{region, kind, *std::exchange(coders_[region][kind].ready, std::nullopt)};
  }
  return std::nullopt;
}

bool Seats::expecting() const {
  return std::ranges::any_of(coders_, [](const auto& chairs) {
    return std::ranges::any_of(chairs, [](const Chair& chair) { return chair.ready || !chair.finished; });
  });
}

void Seats::tell(std::size_t region, std::size_t kind, const coder::Feedback& feedback) {
  SeatReport& report = reports_[kind];
  report.not_built += feedback.error ? 1 : 0;
  report.duplicates += feedback.duplicate ? 1 : 0;
  report.passed += feedback.ok ? 1 : 0;
  // On a replay the proposal is read from the record, and nobody sits there.
  if (coders_[region].empty()) return;
  Chair& chair = coders_[region][kind];
  if (!chair.coder) return;
  chair.coder->tell(feedback);
  chair.repeats = feedback.duplicate ? chair.repeats + 1 : 0;
  chair.finished = chair.finished || chair.repeats >= most_known;
}

void Seats::reward(std::optional<std::size_t> kind, double gain) {
  if (kind && gain > 0) ++reports_[*kind].improved;
  bandit_.reward(kind ? static_cast<int>(*kind) + 1 : 0, std::clamp(gain, 0.0, most_gain));
}

std::vector<SeatReport> Seats::reports() const {
  std::vector<SeatReport> out = reports_;
  for (const auto& chairs : coders_) {
    for (std::size_t k = 0; k < chairs.size(); ++k) {
      if (out[k].trouble.empty()) out[k].trouble = chairs[k].trouble;
    }
  }
  return out;
}

void Seats::dismiss() {
  if (schedule_ != nullptr) {
    if (differs_.empty() && next_event_ < schedule_->events.size()) differs_ = "a coder was heard once more then";
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(most_patience);
    for (auto& chairs : coders_) {
      for (Chair& chair : chairs) {
        while (chair.coder && chair.coder->thinking() && std::chrono::steady_clock::now() < until) pause(0.05);
      }
    }
  }
  for (auto& chairs : coders_) {
    for (Chair& chair : chairs) {
      chair.ready.reset();
      chair.held.reset();
      chair.finished = true;
      chair.coder.reset();
    }
  }
}

void Seats::wait(double seconds) {
  if (schedule_ == nullptr) pause(seconds);
}

void Seats::pause(double seconds) {
  std::unique_lock lock(bell_->mutex);
  bell_->rung.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return bell_->waiting; });
  bell_->waiting = false;
}

}  // namespace planish::search
