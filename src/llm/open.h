#pragma once

#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "llm/ensemble.h"
#include "llm/http_provider.h"
#include "llm/retry.h"
#include "llm/transport.h"

namespace planish::llm {

struct OpenOptions {
  std::uint64_t seed = 0;
  std::filesystem::path record;  ///< folder for a recording; empty: none
  std::filesystem::path replay;  ///< folder of one; empty: models are asked. Not both
  RetryPolicy retry;
  /// How keys are read; hidden_value where empty.
  KeyLookup keys;
};

/// Everything that a run with models needs, in the order in which it is built. Moves; members outlive each other in
/// this order.
struct OpenModels {
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Ledger> ledger;
  std::unique_ptr<Ensemble> ensemble;
};

/// Models of a configuration, each as: recording (retries (one server)), or as what a recording holds; then no key and
/// no network is needed. Their keys are kept from children. The clock outlives it. Kinds: `no_models`, `no_model_key`,
/// `bad_model_key`, `usage` (record and replay), those of cassettes.
Result<OpenModels> open_models(const ModelsConfig& config, const OpenOptions& options, Clock& clock);

}  // namespace planish::llm
