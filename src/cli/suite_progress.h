#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/terminal.h"
#include "cli/workplace.h"

namespace planish::cli {

/// Progress of a suite: a line that stays for each job that begins or ends and, between them, what each one at work is
/// doing, what is done, and what the rest may take. Thread-safe.
class SuiteProgress {
 public:
  /// `places`: how many jobs run at once.
  SuiteProgress(LiveLines::Mode mode, std::size_t jobs, std::size_t places, CancelToken cancel);
  ~SuiteProgress();

  /// The place must live until the job ends.
  void begins(std::size_t job, const std::string& name, const Workplace& place);
  /// `ran`: it was begun here, not taken over from an earlier suite.
  void ends(std::size_t job, const std::string& name, const std::string& became, bool ran);
  /// It was begun, and will be again.
  void puts_off(std::size_t job, const std::string& name, const std::string& why);

 private:
  struct AtWork {
    std::string name;
    const Workplace* place = nullptr;
    TimePoint began{}, said{};  ///< said: when a plain line was last printed of it
  };
  void draw();
  std::string line(std::size_t job, const AtWork& one) const;
  std::string total() const;
  std::string title(std::size_t job) const;

  LiveLines out_;
  std::size_t jobs_, places_;
  CancelToken cancel_;
  TimePoint began_;
  std::mutex mutex_;  ///< of what follows
  std::map<std::size_t, AtWork> at_work_;
  std::size_t done_ = 0, ran_ = 0;
  double seconds_ = 0;  ///< of those that ran
  std::condition_variable_any ended_;
  std::jthread ticker_;  ///< last: it uses all the others
};

}  // namespace planish::cli
