#include "evaluate/spares.h"

namespace planish {
namespace {

template <typename Process, typename... Arguments>
void start(std::optional<Process>& spare, const Arguments&... arguments) {
  if (spare.has_value() && spare->running()) return;
  spare.reset();
  if (auto started = Process::start(arguments...); started.has_value()) spare = std::move(*started);
}

/// The spare, where there is one that still runs; else one that is started now.
template <typename Process, typename... Arguments>
Result<Process> take(std::optional<Process>& spare, const Arguments&... arguments) {
  if (spare.has_value() && spare->running()) {
    Process taken = std::move(*spare);
    spare.reset();
    return taken;
  }
  spare.reset();
  return Process::start(arguments...);
}

}  // namespace

void Spares::prepare(bool compiles, bool oracle) {
  if (oracle) start(oracle_, tools_);
  start(baseline_, tools_, device_, max_rss_, compiles);
}

void Spares::prepare_oracle() {
  start(oracle_, tools_);
}

void Spares::keep_twin(worker::Oracle& oracle) {
  if (oracle_.has_value() && oracle_->running()) return;
  oracle_.reset();
  if (auto twin = oracle.twin(); twin.has_value()) oracle_ = std::move(*twin);
}

void Spares::settle() {
  if (oracle_.has_value() && !oracle_->hello(device_).has_value()) oracle_.reset();
  if (baseline_.has_value() && !baseline_->hello().has_value()) baseline_.reset();
}

Result<worker::Oracle> Spares::oracle() {
  return take(oracle_, tools_);
}

Result<worker::Baseline> Spares::baseline(bool compiles) {
  return take(baseline_, tools_, device_, max_rss_, compiles);
}

}  // namespace planish
