#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "coder/coder.h"
#include "search/bandit.h"
#include "search/region.h"
#include "search/schedule.h"

namespace planish::search {

/// What a seat did, for the result and reports.
struct SeatReport {
  std::string name;
  std::int64_t proposed = 0, not_built = 0, duplicates = 0, passed = 0, improved = 0;
  std::string trouble;  ///< what last went wrong with one of its coders
};

/// The coders that sit beside the strategies: each kind has a seat in every region that is worked on. Whose turn it is,
/// theirs or the strategy's, a bandit decides among those who have something; what it learns from is improvement.
/// One thread.
class Seats {
 public:
  /// With a schedule coders are heard when it says, and waited for then.
  Seats(std::vector<coder::Seat> kinds, std::size_t regions, std::uint64_t seed, const Schedule* schedule = nullptr,
        std::function<void(const SeatEvent&)> heard = {});
  Seats(const Seats&) = delete;
  Seats& operator=(const Seats&) = delete;

  bool empty() const { return kinds_.empty(); }
  std::size_t size() const { return kinds_.size(); }
  const std::string& name(std::size_t kind) const { return kinds_[kind].name; }

  /// Asks the coders of a region; makes them where they are not there yet and `open`. `poll`: the search's time.
  void ask(std::int64_t poll, std::size_t region, const coder::Brief& brief, bool open);
  /// Nobody is asked for this region any more.
  void close(std::size_t region);
  bool made(std::size_t region) const { return !coders_[region].empty(); }

  struct Turn {
    std::size_t region = 0, kind = 0;
    coder::Proposal proposal;
  };
  /// Nothing: the strategy's turn, or nobody's. `strategy`: whether that may have something.
  std::optional<Turn> take(bool strategy);
  /// Whether somebody has something, or may have when asked again.
  bool expecting() const;

  void tell(std::size_t region, std::size_t kind, const coder::Feedback& feedback);
  /// Of whoever proposed it, the strategy where `kind` is nothing; `gain` is in log ms.
  void reward(std::optional<std::size_t> kind, double gain);
  std::vector<SeatReport> reports() const;

  /// Waits until a coder calls, or for so long; not at all with a schedule.
  void wait(double seconds);
  /// Nobody is asked any more: who still thinks is cancelled, and waited for. With a schedule they come to their end
  /// first, so that they have done what they did when it was made.
  void dismiss();
  /// What is not as the schedule says; empty where all is.
  const std::string& differs() const { return differs_; }

 private:
  struct Chair {
    std::unique_ptr<coder::Coder> coder;
    std::optional<coder::Proposal> ready;
    bool finished = false;
    int repeats = 0;                           ///< proposals in a row that were known
    std::optional<coder::Coder::Answer> held;  ///< came before the schedule says
    std::string trouble;                       ///< what last went wrong, when that was heard
  };
  /// Outlives the coders that ring it.
  struct Bell {
    std::mutex mutex;
    std::condition_variable rung;
    bool waiting = false;
  };
  bool due(std::int64_t poll, std::size_t region, std::size_t kind) const;
  std::optional<coder::Coder::Answer> hear(std::int64_t poll, std::size_t region, std::size_t kind,
                                           const coder::Brief& brief);
  void pause(double seconds);
  std::vector<coder::Seat> kinds_;
  std::vector<SeatReport> reports_;
  Bandit bandit_;  ///< arm 0: the strategies; then the kinds
  std::mt19937_64 rng_;
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  const Schedule* schedule_;
  std::size_t next_event_ = 0;  ///< of the schedule
  std::function<void(const SeatEvent&)> heard_;
  std::string differs_;
  std::vector<std::vector<Chair>> coders_;  ///< by region, then kind
};

}  // namespace planish::search
