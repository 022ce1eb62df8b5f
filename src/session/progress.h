#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/terminal.h"
#include "base/work_scope.h"
#include "session/phase.h"

namespace planish::session {

/// What is shown while a run goes on. On a terminal a few lines are redrawn; otherwise a plain line appears now and
/// then, without any control characters. Everything goes to stderr; results never do. Thread-safe.
class Progress {
 public:
  using Mode = LiveLines::Mode;
  /// `cancel`: once somebody interrupts, what is still waited for is shown instead of the time that is left.
  Progress(Mode mode, const Clock& clock, CancelToken cancel = {});
  ~Progress();

  /// A new phase ("searching 3 regions"). Its line stays. `estimate`: seconds it may take, 0 where nobody can say.
  void phase(Phase phase, const std::string& text, double estimate = 0);
  /// The same for what has no phases: "verifying model.py".
  void step(const std::string& text, double estimate = 0);
  /// What is being done or waited for within the phase ("importing it"); a wait is worth a line of its own.
  void status(const WorkReport& report);
  void status(std::string_view text) { status(WorkReport{text}); }
  /// From now on lines are redrawn while nothing happens too, so that seconds pass. At most once; ends with the object.
  void tick();
  /// Something worth a line of its own in any mode but quiet.
  void note(const std::string& text);

  /// One evaluation that ended. Where something is not known its member stays as it is.
  struct Ended {
    std::string_view tier, outcome;  ///< the last tier entered, by name
    std::string_view region;
    int cell = -1;          ///< of the archive
    std::string_view by{};  ///< operator that proposed it
    int agent = -1;
  };
  void ended(const Ended& one);
  /// The best so far of a region, against its fallback (0 if not known).
  void best(const std::string& region, double ms, double fallback_ms);
  /// A candidate is with the evaluator while this lives; `full`: one of the best, measured again. Any thread.
  class Flight {
   public:
    Flight(Progress& progress, bool full);
    ~Flight();
    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;

   private:
    Progress& progress_;
    bool full_;
  };
  /// Seconds of the search's budget left from now on; negative where there is no such limit.
  void left(double seconds);
  /// Ends the redrawn lines.
  void finish();

 private:
  struct Region {
    double ms = 0, fallback_ms = 0;
    std::set<int> cells;
  };
  void begin(const std::string& title, const std::string& text, double estimate);
  void draw();
  std::vector<std::string> lines() const;
  std::string activity() const;
  std::string timed_status(double phase_seconds) const;
  std::string counts() const;
  std::string ending() const;
  std::string regions() const;
  std::string agents() const;

  LiveLines out_;
  const Clock& clock_;
  CancelToken cancel_;
  std::mutex mutex_;
  int tried_ = 0, compiled_ = 0, tested_ = 0, timed_ = 0;
  std::map<std::string, int, std::less<>> failures_;  ///< by outcome, duplicates too
  std::map<std::string, Region, std::less<>> regions_;
  std::map<std::string, int, std::less<>> operators_;
  std::set<int> agents_;
  int flying_ = 0, finals_ = 0;  ///< with the evaluator; of these, measured again
  TimePoint first_{}, last_{};
  double left_ = -1;  ///< when left_at_ was
  TimePoint left_at_{};
  std::optional<Phase> phase_;
  TimePoint phase_began_{}, began_{}, status_began_{};
  double estimate_ = 0;
  std::string doing_, said_, status_, waited_for_;
  std::optional<double> part_;  ///< of what the status counts, behind it
  bool ticking_ = false;
  std::condition_variable_any ended_;
  std::jthread ticker_;  ///< last: it uses all the others
};

}  // namespace planish::session
