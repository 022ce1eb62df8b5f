#include "evaluate/early_oracle.h"

#include <utility>

#include "base/work_scope.h"

namespace planish {

EarlyOracle::EarlyOracle(worker::Oracle process, Work work)
    : process_(std::move(process)), work_(with_time_left([this, work = std::move(work)] { return work(process_); })) {}

EarlyOracle::~EarlyOracle() {
  if (!work_.valid()) return;
  process_.kill();
  work_.wait();
}

void EarlyOracle::settle() {
  if (work_.valid()) work_.wait();
}

std::optional<EarlyOracle::Ready> EarlyOracle::finish() {
  auto opened = work_.get();
  if (!opened.has_value() || !process_.running()) return std::nullopt;
  return Ready{std::move(process_), std::move(*opened)};
}

}  // namespace planish
