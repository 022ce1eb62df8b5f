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

void Spares::prepare() {
  start(oracle_, tools_);
  start(baseline_, tools_, device_, max_rss_);
}

Result<worker::Oracle> Spares::oracle() {
  return take(oracle_, tools_);
}

Result<worker::Baseline> Spares::baseline() {
  return take(baseline_, tools_, device_, max_rss_);
}

}  // namespace planish
