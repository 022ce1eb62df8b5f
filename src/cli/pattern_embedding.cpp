#include "cli/pattern_embedding.h"

#include <fmt/format.h>

#include "base/hidden_environment.h"
#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "llm/embedding.h"
#include "patterns/vectors.h"
#include "session/result_document.h"

namespace planish::cli {
namespace {

using patterns::VectorModel;
using patterns::Vectors;

/// A search waits this long at most: it has an answer without.
constexpr double query_seconds = 20;

/// A client with what it needs.
struct Endpoint {
  std::unique_ptr<llm::Transport> transport;
  std::unique_ptr<llm::Ledger> ledger;
  std::unique_ptr<llm::EmbeddingClient> client;
};

Result<Endpoint> open_endpoint(const llm::ModelsConfig& config) {
  PLANISH_TRY(auto key, llm::read_key("embedding", config.embedding->key_env, &hidden_value));
  Endpoint out{llm::make_curl_transport(), std::make_unique<llm::Ledger>(config.spending), nullptr};
  out.client = std::make_unique<llm::EmbeddingClient>(*config.embedding, std::move(key), *out.transport, *out.ledger,
                                                      real_clock());
  return out;
}

patterns::Embedder embedder_of(llm::EmbeddingClient& client, llm::Call call) {
  return [&client,
          call = std::move(call)](const std::vector<std::string>& texts) -> Result<std::vector<std::vector<float>>> {
    auto made = client.embed(texts, call);
    if (!made) return std::unexpected(std::move(made).error().error);
    return std::move(made->vectors);
  };
}

VectorModel model_of(const llm::EmbeddingConfig& config) {
  return {config.name, config.dimensions};
}

}  // namespace

int embed_action(const PatternsVerb& options, const Output& output) {
  const CancelToken cancel = watch_interrupts();
  const auto config = llm::models_to_ask(options.config);
  if (!config) return output.error(config.error());
  if (!config->embedding)
    return output.error({"no_models",
                         fmt::format("{} has no [embedding]", options.config.path),
                         {},
                         "add one with name, base_url and, where the server wants one, key_env (docs/models.md)"});
  auto library = open_library(options);
  if (!library) return output.error(library.error());
  auto vectors = Vectors::open(library->file());
  if (!vectors) return output.error(vectors.error());
  auto endpoint = open_endpoint(*config);
  if (!endpoint) return output.error(endpoint.error());
  const auto dollars = [&] { return static_cast<double>(endpoint->ledger->spent().nanodollars) / 1e9; };
  const auto progress = [&](std::int64_t done, std::int64_t all) {
    if (!output.quiet)
      fmt::print(stderr, "{} of {} texts, {} tokens, {:.4f} dollars\n", done, all, endpoint->ledger->spent().tokens,
                 dollars());
  };
  llm::Call call;
  call.cancel = &cancel;
  call.listener = [&](const llm::CallEvent& event) {
    if (event.kind == llm::CallEvent::Kind::waiting && !output.quiet)
      fmt::print(stderr, "asked again in {:.1f} s: {}\n", event.seconds, event.text);
  };
  const auto made = vectors->embed(model_of(*config->embedding), embedder_of(*endpoint->client, call),
                                   static_cast<std::size_t>(config->embedding->batch), &cancel, progress);
  const auto state = vectors->state();
  if (!state) return output.error(state.error());
  if (!made) {
    Error error = made.error();
    error.causes.push_back(
        fmt::format("{} of {} texts have vectors, which are kept; {} tokens, {:.4f} dollars were spent",
                    state->embedded, state->texts, endpoint->ledger->spent().tokens, dollars()));
    return output.error(error);
  }
  Json document{
      {"schema_version", session::ResultDocument::schema_version},
      {"index", library->file().string()},
      {"model", config->embedding->name},
      {"dimensions", state->dimensions},
      {"texts", state->texts},
      {"embedded", state->embedded},
      {"made", made->made},
      {"dropped", made->dropped},
      {"spent",
       {{"tokens", endpoint->ledger->spent().tokens}, {"nanodollars", endpoint->ledger->spent().nanodollars}}}};
  std::string text;
  if (made->dropped > 0) text += fmt::format("{} vectors of another model were dropped\n", made->dropped);
  text +=
      fmt::format("{} of {} texts have vectors of {} ({} numbers each); {} are new, for {} tokens, {:.4f} dollars\n",
                  state->embedded, state->texts, config->embedding->name, state->dimensions, made->made,
                  endpoint->ledger->spent().tokens, dollars());
  output.result(dump_json(document), text);
  return exit_code::success;
}

Result<SearchVector> query_vector(const PatternsVerb& options, const patterns::Library& library) {
  SearchVector out;
  if (options.no_embedding || options.query.empty()) return out;
  PLANISH_TRY(const auto config, llm::models_to_ask(options.config));
  PLANISH_TRY(auto vectors, Vectors::open(library.file()));
  PLANISH_TRY(const auto state, vectors.state());
  const auto without = [&](std::string why) {
    out.note = std::move(why) + "; searched by words and facts";
    return out;
  };
  if (!config.embedding)
    return state.embedded > 0 ? without("there are vectors, but no [embedding] is configured to ask with") : out;
  if (state.embedded == 0) return without("no text has a vector: `planish patterns embed` makes them");
  const VectorModel model = model_of(*config.embedding);
  if (state.model != model)
    return without(
        fmt::format("the vectors are of the model {}, not of {} as configured: `planish patterns embed` makes "
                    "them anew",
                    state.model->name, model.name));
  auto endpoint = open_endpoint(config);
  if (!endpoint) return without(endpoint.error().message);
  llm::Call call;
  call.deadline = deadline_in(query_seconds);
  auto vector = vectors.of_query(model, options.query, embedder_of(*endpoint->client, call));
  if (!vector) return without(vector.error().message);
  out.vector = std::move(*vector);
  if (state.embedded < state.texts)
    out.note = fmt::format("{} of {} texts have no vector yet: `planish patterns embed`", state.texts - state.embedded,
                           state.texts);
  return out;
}

}  // namespace planish::cli
