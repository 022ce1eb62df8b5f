#pragma once

#include <memory>
#include <mutex>

#include "llm/capabilities.h"
#include "llm/provider.h"
#include "llm/secret.h"
#include "llm/wire.h"

namespace planish::llm {

/// How a variable that holds a key is read; nothing where it is not set.
using KeyLookup = std::function<std::optional<std::string>(const std::string&)>;

/// The key of a model; hidden_value() is the lookup of a process that has called hide_keys(). An empty one where none
/// is configured. Kind `no_model_key`: the variable is not set; `bad_model_key`: it holds what no header can carry.
/// Messages name the variable, never its value.
Result<Secret> read_key(const ModelConfig& config, const KeyLookup& lookup);

Result<Secret> read_key(const std::string& label, const std::string& key_env, const KeyLookup& lookup);

/// What is left until the deadline, and `timeout_seconds` at most; 0: nothing is.
HttpLimits limits_of(double timeout_seconds, const Call& call, const Clock& clock);

/// The most that a request can cost: every byte of the body a token, which no tokeniser passes, and the longest answer.
Amount worst_case(const ModelConfig& config, const ChatRequest& request, std::size_t body_bytes);

/// One model of one server. Each attempt is reserved in the ledger before it is sent and settled after; a parameter
/// that the server refuses is left out from then on. No other retries. Whatever comes back is free of the key.
/// Transport, ledger and clock outlive it.
class HttpProvider : public Provider {
 public:
  HttpProvider(ModelConfig config, Secret key, Transport& transport, Ledger& ledger, Clock& clock);
  Answer complete(const ChatRequest& request, const Call& call) override;
  const ModelConfig& config() const override { return config_; }
  Capabilities capabilities() const;
  /// The names of the models that the server lists; costs nothing. The kinds of Failure.
  std::expected<std::vector<std::string>, Failure> list(const Call& call);

 private:
  std::expected<ChatReply, Failure> attempt(const ChatRequest& request, const Capabilities& capabilities,
                                            const Call& call, std::string& refusal);
  void finish_reply(const ChatRequest& request, const Capabilities& capabilities, ChatReply& reply) const;
  HttpLimits limits(const Call& call) const;

  const ModelConfig config_;
  const Secret key_;
  Transport& transport_;
  Ledger& ledger_;
  Clock& clock_;
  mutable std::mutex mutex_;
  Capabilities capabilities_;
};

}  // namespace planish::llm
