#include "llm/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace planish::llm {
namespace {

Amount sum(const Amount& a, const Amount& b) {
  return {a.tokens + b.tokens, a.nanodollars + b.nanodollars};
}

}  // namespace

Reservation::~Reservation() {
  settle(amount_);
}

void Reservation::settle(Amount spent) {
  if (Ledger* ledger = std::exchange(ledger_, nullptr)) ledger->settled(amount_, spent);
}

bool Ledger::fits(const Amount& amount, const Amount& beside) const {
  return (!limits_.tokens || amount.tokens <= *limits_.tokens - beside.tokens) &&
         (!limits_.nanodollars || amount.nanodollars <= *limits_.nanodollars - beside.nanodollars);
}

Result<Reservation> Ledger::reserve(Amount amount, double seconds, const CancelToken* cancel) {
  const TimePoint deadline = deadline_in(seconds);
  std::unique_lock lock(mutex_);
  while (!fits(amount, sum(spent_, reserved_))) {
    if (!fits(amount, spent_)) {
      std::string left;
      if (limits_.nanodollars)
        left +=
            fmt::format("{:.4f} of {:.4f} dollars",
                        static_cast<double>(std::max<std::int64_t>(0, *limits_.nanodollars - spent_.nanodollars)) / 1e9,
                        static_cast<double>(*limits_.nanodollars) / 1e9);
      if (limits_.tokens)
        left += fmt::format("{}{} of {} tokens", left.empty() ? "" : ", ",
                            std::max<std::int64_t>(0, *limits_.tokens - spent_.tokens), *limits_.tokens);
      return fail("spending_cap",
                  fmt::format("a call that may take {} tokens and {:.4f} dollars does not fit what is left ({})",
                              amount.tokens, static_cast<double>(amount.nanodollars) / 1e9, left),
                  "raise [spending] in planish.toml, or lower max_output_tokens of the model");
    }
    if (cancel != nullptr && cancel->cancelled()) return fail("cancelled", "cancelled while waiting to spend");
    const double left = seconds_until(deadline);
    if (left <= 0) return fail("model_timeout", "the time was over before other calls had settled what they reserved");
    changed_.wait_for(lock, std::chrono::duration<double>(std::min(left, 0.05)));
  }
  reserved_ = sum(reserved_, amount);
  return Reservation(this, amount);
}

void Ledger::settled(const Amount& reserved, const Amount& spent) {
  {
    std::scoped_lock lock(mutex_);
    reserved_.tokens -= reserved.tokens;
    reserved_.nanodollars -= reserved.nanodollars;
    spent_ = sum(spent_, spent);
  }
  changed_.notify_all();
}

void Ledger::note(Amount spent) {
  settled({}, spent);
}

Amount Ledger::spent() const {
  std::scoped_lock lock(mutex_);
  return spent_;
}

Amount Ledger::committed() const {
  std::scoped_lock lock(mutex_);
  return sum(spent_, reserved_);
}

}  // namespace planish::llm
