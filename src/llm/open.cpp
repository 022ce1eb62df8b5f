#include "llm/open.h"

#include "base/hidden_environment.h"
#include "llm/cassette.h"
#include "llm/http_provider.h"

namespace planish::llm {

Result<OpenModels> open_models(const ModelsConfig& config, const OpenOptions& options, Clock& clock) {
  if (config.models.empty())
    return fail("no_models", "no model is configured", "add a [[model]] to planish.toml (docs/models.md)");
  if (!options.record.empty() && !options.replay.empty())
    return fail("usage", "a run either records or replays", "give one of --record and --replay");
  hide_keys(config);
  OpenModels out;
  out.ledger = std::make_unique<Ledger>(config.spending);
  std::vector<std::shared_ptr<Provider>> models;
  if (!options.replay.empty()) {
    PLANISH_TRY(auto opened, CassetteReader::open(options.replay));
    const std::shared_ptr<CassetteReader> cassette = std::move(opened);
    for (const ModelConfig& model : config.models) models.push_back(replaying(model, cassette, *out.ledger));
  } else {
    const KeyLookup lookup = options.keys ? options.keys : KeyLookup(&hidden_value);
    std::vector<Secret> keys;
    for (const ModelConfig& model : config.models) {
      PLANISH_TRY(auto key, read_key(model, lookup));
      keys.push_back(std::move(key));
    }
    std::shared_ptr<CassetteWriter> cassette;
    if (!options.record.empty()) {
      PLANISH_TRY(cassette, CassetteWriter::create(options.record, keys));
    }
    out.transport = make_curl_transport();
    for (std::size_t i = 0; i < config.models.size(); ++i) {
      auto server = std::make_shared<HttpProvider>(config.models[i], keys[i], *out.transport, *out.ledger, clock);
      std::shared_ptr<Provider> model =
          std::make_shared<RetryingProvider>(std::move(server), options.retry, clock, options.seed + i);
      if (cassette) model = recording(std::move(model), cassette);
      models.push_back(std::move(model));
    }
  }
  out.ensemble = std::make_unique<Ensemble>(std::move(models), clock, options.seed);
  return out;
}

}  // namespace planish::llm
