#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coder/domain.h"
#include "coder/proposal.h"
#include "evaluate/evaluation.h"

namespace planish::coder {

/// Where a region stands when a coder is asked. A copy: it may be read for as long as the coder thinks.
struct Brief {
  struct Known {
    Proposal proposal;
    std::string program;  ///< hash
    double ms = 0;        ///< median
  };
  std::string region;                      ///< id
  std::shared_ptr<const Domain> domain{};  ///< what can be built, and what the region is
  double bound_ms = 0, fallback_ms = 0;    ///< roofline, and its PyTorch form; 0 where not known
  std::vector<Known> best{};               ///< passed, fastest first; a few
};

/// What became of a coder's own proposal.
struct Feedback {
  Proposal proposal;
  std::string program{};  ///< hash; empty where it could not be built
  bool ok = false;
  double median_ms = 0;                            ///< where ok
  bool duplicate = false;                          ///< its program was another proposal's before
  std::optional<Error> error{};                    ///< why it could not be built
  std::shared_ptr<const Evaluation> evaluation{};  ///< null where it was not evaluated
  std::string advice{};                            ///< what the judge says of it, for a reader; may be empty
  std::string issue{};                             ///< the judge's name of what is wrong or limits it; may be empty
};

/// Somebody who proposes for one region beside its strategy: a model, an agent, a program of the user's. Asked and told
/// on the search's thread; neither may block.
class Coder {
 public:
  struct Answer {
    std::optional<Proposal> proposal{};
    bool finished = false;  ///< nothing comes any more; else, without a proposal: ask again
    bool failed = false;    ///< the last question came to nothing; the next ask() begins another
  };
  virtual ~Coder() = default;
  virtual Answer ask(const Brief& brief) = 0;
  /// Each proposal is told once, in any order.
  virtual void tell(const Feedback& feedback) = 0;
  /// Whether it is at work on an answer.
  virtual bool thinking() const { return false; }
  /// What last went wrong with it; empty where nothing did.
  virtual std::string trouble() const { return {}; }
};

/// A kind of coder that takes one seat in every region. `rouse` may be called from any thread, and wakes a search that
/// waits for an answer.
struct Seat {
  std::string name;  ///< for records and reports
  std::function<std::unique_ptr<Coder>(const Brief& brief, std::function<void()> rouse)> make;
};

}  // namespace planish::coder
