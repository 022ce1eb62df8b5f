#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "llm/capabilities.h"
#include "llm/failure.h"
#include "llm/secret.h"
#include "llm/transport.h"

namespace planish::llm {

/// Puts an answer together, from one document or from the pieces of a stream. One a call.
class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  /// One event of a stream. True: the answer is complete.
  virtual std::expected<bool, Failure> event(std::string_view type, std::string_view data) = 0;
  /// An answer that came as one document.
  virtual std::expected<void, Failure> whole(std::string_view body) = 0;
  /// What was read; an answer that broke off is a failure. Without json, label, cost and seconds.
  virtual Answer finish() = 0;
};

/// One way to write requests and read answers. Stateless; thread-safe.
class Wire {
 public:
  virtual ~Wire() = default;
  /// Without the key.
  virtual HttpRequest request(const ChatRequest& request, const ModelConfig& config,
                              const Capabilities& capabilities) const = 0;
  virtual void authorise(HttpRequest& request, const Secret& key) const = 0;
  /// A request that costs nothing and lists what models there are.
  virtual HttpRequest list(const ModelConfig& config) const = 0;
  virtual std::unique_ptr<AnswerReader> reader() const = 0;
};
const Wire& wire_of(WireKind kind);
const Wire& openai_wire();
const Wire& anthropic_wire();

/// The instruction that stands in for a schema where a server takes none.
std::string schema_instruction(const OutputSchema& schema);

}  // namespace planish::llm
