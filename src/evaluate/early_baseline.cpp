#include "evaluate/early_baseline.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace planish {

Result<std::unique_ptr<EarlyBaseline>> EarlyBaseline::begin(worker::Baseline process, const std::string& task,
                                                            const std::string& device, const std::string& accuracy,
                                                            std::vector<std::string> modes, double open_seconds) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail("io", "cannot make a pipe");
  UniqueFd waits(ends[0]);
  std::unique_ptr<EarlyBaseline> early(new EarlyBaseline(std::move(process), UniqueFd(ends[1])));
  early->work_ = std::async(std::launch::async, [raw = early.get(), waits = std::move(waits), task, device, accuracy,
                                                 modes = std::move(modes), open_seconds] {
    std::map<std::string, double> seconds;
    if (!raw->process_.open(task, device, accuracy, open_seconds).has_value()) return seconds;
    for (const std::string& mode : modes) {
      const auto added = raw->process_.add_behind(waits.get(), mode);
      if (added.has_value()) seconds.emplace(mode, *added);
      if (!raw->process_.alive()) break;
    }
    return seconds;
  });
  return early;
}

EarlyBaseline::~EarlyBaseline() {
  if (!work_.valid()) return;
  process_.kill();
  work_.wait();
}

std::optional<EarlyBaseline::Ready> EarlyBaseline::finish(double seconds) {
  gate_.reset();
  // No further than a clock can count.
  const std::chrono::duration<double> patience(std::clamp(seconds, 0.0, 1e6));
  if (work_.wait_for(patience) != std::future_status::ready) {
    process_.kill();
    work_.wait();
  }
  auto compiled = work_.get();
  if (compiled.empty() || !process_.running()) return std::nullopt;
  return Ready{std::move(process_), std::move(compiled)};
}

}  // namespace planish
