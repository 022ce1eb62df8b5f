#pragma once

#include <string>

#include "base/cancel.h"
#include "base/clock.h"
#include "cli/output.h"
#include "evaluate/api.h"
#include "session/progress.h"

namespace planish::cli {

/// What a verb that asks an evaluator shows while it waits for answers. Borrows the evaluator.
class Waiting {
 public:
  Waiting(EvaluatorApi& evaluator, const Output& output, const CancelToken& cancel)
      : evaluator_(evaluator),
        progress_(LiveLines::detect(output.quiet || output.said != nullptr), real_clock(), cancel) {
    evaluator_.listen([this](const WorkReport& report) { progress_.status(report); });
    progress_.tick();
  }
  ~Waiting() { evaluator_.listen({}); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  void step(const std::string& text) { progress_.step(text); }

 private:
  EvaluatorApi& evaluator_;
  session::Progress progress_;
};

}  // namespace planish::cli
