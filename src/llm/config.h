#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "llm/chat.h"

namespace planish::llm {

enum class WireKind : std::uint8_t { openai, anthropic };

/// Dollars for a million tokens.
struct Price {
  double input = 0, cached = 0, cache_write = 0, output = 0;
};
/// In billionths of a dollar, rounded up.
std::int64_t nanodollars(const Price& price, const Usage& usage);

/// How an answer in a schema is asked for. `automatic` begins with the strongest form and goes on with what the server
/// takes.
enum class Structured : std::uint8_t { automatic, schema, object, tool, prompt };

/// One [[model]] of planish.toml.
struct ModelConfig {
  std::string name;   ///< what the server calls it
  std::string label;  ///< what we call it; unique
  WireKind wire = WireKind::openai;
  std::string base_url;  ///< without a slash at the end
  std::string key_env;   ///< the environment variable that holds the key; empty: no key is sent
  std::vector<Role> roles;
  std::optional<double> temperature;
  std::string effort;             ///< how much a reasoning model thinks, in the server's words; empty: not said
  std::optional<bool> reasoning;  ///< nothing: guessed by what the server accepts
  Structured structured = Structured::automatic;
  int max_output_tokens = 8192;
  std::optional<Price> price;
  int parallel = 8;              ///< most calls at once
  double timeout_seconds = 600;  ///< of one call with all its attempts
  double first_byte_seconds = 300;
  double stall_seconds = 60;
};

/// No vector that a server gives may be longer.
inline constexpr int most_dimensions = 8192;

/// The [embedding] of planish.toml: a server that makes vectors of texts.
struct EmbeddingConfig {
  std::string name;             ///< what the server calls the model
  std::string base_url;         ///< before `/embeddings`; without a slash at the end
  std::string key_env;          ///< as of models
  int dimensions = 0;           ///< asked of models that can shorten their vectors; 0: not sent
  int batch = 64;               ///< texts in one request
  std::optional<double> price;  ///< dollars for a million tokens
  double timeout_seconds = 60;  ///< of one request with all its attempts
};

/// Hard limits of a run; nothing: none.
struct Spending {
  std::optional<std::int64_t> nanodollars;
  std::optional<std::int64_t> tokens;
};

struct ModelsConfig {
  std::vector<ModelConfig> models;
  std::optional<EmbeddingConfig> embedding;
  Spending spending;
};

/// A file of settings, and whether it was only found: in the current folder, which may be anybody's checkout.
struct ConfigFile {
  std::string path;
  bool found = false;
};

/// The [[model]] tables, [embedding] and [spending] of a planish.toml; everything else in it belongs to others. Kind
/// `models_config`: no TOML, an unknown or missing field (with the one that was probably meant), a value out of range,
/// a label twice, a key in the wrong place, a limit of money without a price. Messages name file, model and field and
/// never hold a value that could be a key.
Result<ModelsConfig> parse_models(std::string_view toml, const std::string& file);
/// The same for a file; one that does not exist holds no models.
Result<ModelsConfig> read_models(const std::filesystem::path& file);
/// The same for whoever is about to ask them. Kind `models_config` also where the file was only found and one of them
/// is not on this machine: whoever wrote the file would choose who gets prompts and keys.
Result<ModelsConfig> models_to_ask(const ConfigFile& file);

/// Takes the keys of these models and of the embedding out of the environment (base/hidden_environment.h); called
/// before the first child or thread is started. Calling it again does no harm.
void hide_keys(const ModelsConfig& config);

}  // namespace planish::llm
