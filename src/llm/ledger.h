#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/result.h"
#include "llm/config.h"

namespace planish::llm {

struct Amount {
  std::int64_t tokens = 0;
  std::int64_t nanodollars = 0;
};

class Ledger;

/// What a call may cost at most, taken from what is left. One that ends without settle() or release() counts as spent:
/// what nobody knows is counted at its worst. Moves; one owner.
class Reservation {
 public:
  Reservation(Reservation&& other) noexcept : ledger_(other.ledger_), amount_(other.amount_) {
    other.ledger_ = nullptr;
  }
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();
  const Amount& amount() const { return amount_; }
  /// The call cost this; the rest goes back. More than was reserved is counted as well, and ends all further calls.
  void settle(Amount spent);
  /// The call cost nothing.
  void release() { settle({}); }

 private:
  friend class Ledger;
  Reservation(Ledger* ledger, Amount amount) : ledger_(ledger), amount_(amount) {}
  Ledger* ledger_;
  Amount amount_;
};

/// The limits of a run. Spent and reserved together never pass them. Outlives its reservations; thread-safe.
class Ledger {
 public:
  explicit Ledger(Spending limits) : limits_(limits) {}
  /// Waits for others to settle where the amount fits only then. Kinds: `spending_cap` (it does not fit even then),
  /// `model_timeout`, `cancelled`. `seconds` is real time.
  Result<Reservation> reserve(Amount amount, double seconds, const CancelToken* cancel);
  /// Counts what a recorded call cost; never refuses.
  void note(Amount spent);
  Amount spent() const;
  /// spent() and what is reserved now.
  Amount committed() const;

 private:
  friend class Reservation;
  bool fits(const Amount& amount, const Amount& beside) const;
  void settled(const Amount& reserved, const Amount& spent);
  const Spending limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Amount spent_, reserved_;
};

}  // namespace planish::llm
