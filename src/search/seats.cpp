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

}  // namespace

Seats::Seats(std::vector<coder::Seat> kinds, std::size_t regions, std::uint64_t seed)
    : kinds_(std::move(kinds)), bandit_(std::vector<double>(kinds_.size() + 1, 1.0)), rng_(seed), coders_(regions) {
  for (const coder::Seat& kind : kinds_) reports_.emplace_back().name = kind.name;
}

void Seats::ask(std::size_t region, const coder::Brief& brief, bool open) {
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
    coder::Coder::Answer answer = chair.coder->ask(brief);
    chair.ready = std::move(answer.proposal);
    chair.finished = answer.finished;
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
      if (out[k].trouble.empty()) out[k].trouble = chairs[k].coder->trouble();
    }
  }
  return out;
}

void Seats::wait(double seconds) {
  std::unique_lock lock(bell_->mutex);
  bell_->rung.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return bell_->waiting; });
  bell_->waiting = false;
}

}  // namespace planish::search
