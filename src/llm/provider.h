#pragma once

#include <functional>

#include "base/cancel.h"
#include "base/clock.h"
#include "llm/config.h"
#include "llm/failure.h"
#include "llm/ledger.h"

namespace planish::llm {

/// Something that happened on the way to an answer, for whoever shows or records it.
struct CallEvent {
  enum class Kind : std::uint8_t {
    charged,   ///< an attempt was paid for: `amount`
    adapted,   ///< the server refused a parameter, and is asked without it: `text`
    waiting,   ///< an attempt failed with `text`; the next one comes in `seconds`
    fallback,  ///< `label` failed with `text`; another model is asked
  };
  Kind kind = Kind::charged;
  std::string label;
  std::string text;
  double seconds = 0;
  Amount amount;
};

/// How a question is asked. The listener is called in the caller's thread, before complete() returns.
struct Call {
  TimePoint deadline = TimePoint::max();  ///< by the provider's clock
  const CancelToken* cancel = nullptr;
  std::function<void(const CallEvent&)> listener;
  void tell(const CallEvent& event) const {
    if (listener) listener(event);
  }
};

/// Something that answers. complete() blocks; it may be called from any number of threads.
class Provider {
 public:
  virtual ~Provider() = default;
  virtual Answer complete(const ChatRequest& request, const Call& call) = 0;
  virtual const ModelConfig& config() const = 0;
};

}  // namespace planish::llm
