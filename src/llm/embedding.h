#pragma once

#include <expected>
#include <string>
#include <vector>

#include "llm/http_provider.h"
#include "llm/retry.h"

namespace planish::llm {

/// Vectors of texts, in their order: all of one length, finite, of length 1.
struct Embedded {
  std::vector<std::vector<float>> vectors;
  Amount spent;  ///< of the attempt that succeeded
};

/// A server that speaks OpenAI's `/embeddings`. Reserves each attempt in the ledger and asks again where that helps, as
/// models do. Whatever comes back is free of the key. Thread-safe; transport, ledger and clock outlive it.
class EmbeddingClient {
 public:
  EmbeddingClient(EmbeddingConfig config, Secret key, Transport& transport, Ledger& ledger, Clock& clock,
                  RetryPolicy policy = {}, std::uint64_t seed = 0);
  const EmbeddingConfig& config() const { return config_; }
  /// The kinds of Failure; too few vectors, vectors of other lengths or with what is no number are `model_bad_reply`.
  std::expected<Embedded, Failure> embed(const std::vector<std::string>& texts, const Call& call);

 private:
  std::expected<Embedded, Failure> attempt(const std::vector<std::string>& texts, const Call& call);

  const EmbeddingConfig config_;
  const Secret key_;
  Transport& transport_;
  Ledger& ledger_;
  Clock& clock_;
  Retries retries_;
};

}  // namespace planish::llm
