#include "llm/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "base/hidden_environment.h"
#include "base/loopback.h"
#include "base/settings_table.h"
#include "base/suggest.h"

namespace planish::llm {
namespace {

/// A table read field by field, the first thing wrong remembered.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}
  const std::string& where() const { return where_; }

  void problem(std::string text, std::string hint = {}) {
    if (problem_.empty()) problem_ = where_ + ": " + std::move(text), hint_ = std::move(hint);
  }
  const toml::node* find(const char* field) {
    known_.emplace_back(field);
    return table_.get(field);
  }
  bool text(const char* field, std::string& out) {
    const toml::node* node = find(field);
    if (node == nullptr) return false;
    if (const auto value = node->value_exact<std::string>()) {
      out = *value;
      return true;
    }
    problem(fmt::format("`{}` must be text in quotes", field));
    return false;
  }
  bool number(const char* field, double& out, double least, double most) {
    const toml::node* node = find(field);
    if (node == nullptr) return false;
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !std::isfinite(*value) || *value < least || *value > most) {
      problem(fmt::format("`{}` must be a number from {} to {}", field, least, most));
      return false;
    }
    out = *value;
    return true;
  }
  bool integer(const char* field, std::int64_t& out, std::int64_t least, std::int64_t most) {
    const toml::node* node = find(field);
    if (node == nullptr) return false;
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < least || *value > most) {
      problem(fmt::format("`{}` must be a whole number from {} to {}", field, least, most));
      return false;
    }
    out = *value;
    return true;
  }
  bool boolean(const char* field, bool& out) {
    const toml::node* node = find(field);
    if (node == nullptr) return false;
    const auto value = node->value_exact<bool>();
    if (!value) {
      problem(fmt::format("`{}` must be true or false", field));
      return false;
    }
    out = *value;
    return true;
  }
  Status finish() {
    for (const auto& [key, node] : table_) {
      const std::string field(key.str());
      if (std::ranges::find(known_, field) != known_.end()) continue;
      std::string hint = did_you_mean(field, known_) + "see docs/models.md for the fields";
      if (field.find("key") != std::string::npos || field.find("token") != std::string::npos)
        hint = "keys are never written into the file: key_env names the environment variable that holds one";
      problem(fmt::format("there is no field `{}`", field), hint);
    }
    if (!problem_.empty()) return fail("models_config", problem_, hint_);
    return {};
  }

 private:
  const toml::table& table_;
  std::string where_;
  std::vector<std::string> known_;
  std::string problem_, hint_;
};

bool variable_name(std::string_view text) {
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

void read_url(TableReader& reader, std::string& base_url) {
  std::string url;
  if (!reader.text("base_url", url))
    return reader.problem("`base_url` is missing", "for example \"http://localhost:8000/v1\"");
  while (url.ends_with('/')) url.pop_back();
  const bool scheme = url.starts_with("http://") || url.starts_with("https://");
  const auto host = scheme ? url.find("://") + 3 : 0;
  const auto host_end = std::min(url.find('/', host), url.size());
  if (!scheme || host_end == host) return reader.problem("`base_url` must begin with http:// or https:// and a host");
  // Not shown: what stands before the @ may be a password.
  if (url.substr(host, host_end - host).find('@') != std::string::npos)
    return reader.problem("`base_url` holds a user or a password", "name the variable that holds the key in key_env");
  if (url.find_first_of("?#") != std::string::npos)
    return reader.problem("`base_url` must not have a query", "the path alone; keys go into the variable of key_env");
  if (std::ranges::any_of(url, [](unsigned char c) { return c <= ' ' || c == 127; }))
    return reader.problem("`base_url` holds a space or a control character");
  base_url = url;
}

void read_key_env(TableReader& reader, std::string& key_env) {
  if (!reader.text("key_env", key_env) || variable_name(key_env)) return;
  // Not shown: somebody may have written the key itself.
  key_env.clear();
  reader.problem("`key_env` is no name of an environment variable",
                 "it names the variable that holds the key, for example \"OPENAI_API_KEY\"; the key itself never "
                 "stands in the file");
}

void read_roles(TableReader& reader, ModelConfig& model) {
  const toml::node* one = reader.find("role");
  const toml::node* node = reader.find("roles");
  if (one != nullptr && node != nullptr) return reader.problem("`role` and `roles` are the same: write one of them");
  if (node == nullptr) node = one;
  if (node == nullptr) {
    model.roles = {Role::planner, Role::coder, Role::judge};
    return;
  }
  std::vector<std::string> names;
  if (const auto text = node->value_exact<std::string>()) names.push_back(*text);
  if (const toml::array* list = node->as_array()) {
    for (const toml::node& item : *list) names.push_back(item.value_or(std::string("?")));
  }
  if (names.empty()) return reader.problem("`role` must be planner, coder or judge, or a list of them");
  for (const std::string& text : names) {
    const auto role = role_from_name(text);
    if (!role) return reader.problem(role.error().message, role.error().hint);
    if (std::ranges::find(model.roles, *role) == model.roles.end()) model.roles.push_back(*role);
  }
}

void read_price(TableReader& reader, ModelConfig& model) {
  const toml::node* node = reader.find("price");
  if (node == nullptr) return;
  if (!node->is_table())
    return reader.problem("`price` must be a table",
                          "price = { input = 1.25, cached = 0.125, output = 10.0 }, in dollars for a million tokens");
  TableReader inner(*node->as_table(), reader.where() + ", price");
  Price price;
  constexpr double most = 1e6;
  const bool input = inner.number("input", price.input, 0, most);
  const bool output = inner.number("output", price.output, 0, most);
  price.cached = price.input;
  inner.number("cached", price.cached, 0, most);
  // What Anthropic asks for keeping a prompt for five minutes; others ask nothing more.
  price.cache_write = price.input * (model.wire == WireKind::anthropic ? 1.25 : 1.0);
  inner.number("cache_write", price.cache_write, 0, most);
  if (!input || !output) inner.problem("`input` and `output` are needed");
  if (const auto done = inner.finish(); !done) return reader.problem(done.error().message, done.error().hint);
  model.price = price;
}

Result<ModelConfig> read_model(const toml::table& table, const std::string& file, std::size_t number) {
  ModelConfig model;
  if (const auto name = table["name"].value_exact<std::string>()) model.name = *name;
  TableReader reader(table, fmt::format("{}: [[model]] {}{}", file, number,
                                        model.name.empty() ? "" : fmt::format(" ({})", model.name)));
  if (!reader.text("name", model.name) || model.name.empty())
    reader.problem("`name` is missing", "what the server calls the model");
  if (!reader.text("label", model.label)) model.label = model.name;
  std::string wire = "openai", structured = "auto";
  reader.text("wire", wire);
  if (wire == "anthropic") {
    model.wire = WireKind::anthropic;
  } else if (wire != "openai") {
    reader.problem("`wire` must be openai or anthropic",
                   "openai is what vLLM, SGLang, llama.cpp, Ollama and LiteLLM speak");
  }
  read_url(reader, model.base_url);
  read_key_env(reader, model.key_env);
  read_roles(reader, model);
  double temperature = 0;
  if (reader.number("temperature", temperature, 0, 2)) model.temperature = temperature;
  reader.text("effort", model.effort);
  bool reasoning = false;
  if (reader.boolean("reasoning", reasoning)) model.reasoning = reasoning;
  if (reader.text("structured", structured)) {
    const std::vector<std::pair<std::string, Structured>> forms = {{"auto", Structured::automatic},
                                                                   {"schema", Structured::schema},
                                                                   {"object", Structured::object},
                                                                   {"tool", Structured::tool},
                                                                   {"prompt", Structured::prompt}};
    const auto found = std::ranges::find(forms, structured, &std::pair<std::string, Structured>::first);
    if (found == forms.end()) {
      reader.problem("`structured` must be auto, schema, object, tool or prompt");
    } else {
      model.structured = found->second;
    }
  }
  std::int64_t most = model.max_output_tokens, parallel = model.parallel;
  reader.integer("max_output_tokens", most, 16, 10'000'000);
  reader.integer("parallel", parallel, 1, 1024);
  model.max_output_tokens = static_cast<int>(most);
  model.parallel = static_cast<int>(parallel);
  reader.number("timeout", model.timeout_seconds, 0.01, 86400);
  reader.number("first_byte", model.first_byte_seconds, 0.01, 86400);
  reader.number("stall", model.stall_seconds, 0.01, 86400);
  read_price(reader, model);
  PLANISH_CHECK(reader.finish());
  return model;
}

Result<EmbeddingConfig> read_embedding(const toml::table& table, const std::string& file) {
  EmbeddingConfig out;
  TableReader reader(table, file + ": [embedding]");
  if (!reader.text("name", out.name) || out.name.empty())
    reader.problem("`name` is missing", "what the server calls the model");
  read_url(reader, out.base_url);
  read_key_env(reader, out.key_env);
  std::int64_t dimensions = 0, batch = out.batch;
  reader.integer("dimensions", dimensions, 1, most_dimensions);
  reader.integer("batch", batch, 1, 256);
  out.dimensions = static_cast<int>(dimensions);
  out.batch = static_cast<int>(batch);
  double price = 0;
  if (reader.number("price", price, 0, 1e6)) out.price = price;
  reader.number("timeout", out.timeout_seconds, 0.01, 86400);
  PLANISH_CHECK(reader.finish());
  return out;
}

}  // namespace

std::int64_t nanodollars(const Price& price, const Usage& usage) {
  // A dollar a million tokens is a thousand billionths a token.
  const double sum = price.input * static_cast<double>(usage.fresh) + price.cached * static_cast<double>(usage.cached) +
                     price.cache_write * static_cast<double>(usage.cache_writes) +
                     price.output * static_cast<double>(usage.output);
  return static_cast<std::int64_t>(std::ceil(std::min(sum * 1000.0, 9e18)));
}

Result<ModelsConfig> parse_models(std::string_view text, const std::string& file) {
  auto settings = settings_table(text, file);
  if (!settings) return fail("models_config", settings.error().message, settings.error().hint);
  const toml::table& root = settings->table;
  ModelsConfig config;
  if (const toml::node* node = root.get("spending")) {
    if (!node->is_table()) return fail("models_config", file + ": [spending] must be a table");
    TableReader reader(*node->as_table(), file + ": [spending]");
    double dollars = 0;
    std::int64_t tokens = 0;
    if (reader.number("dollars", dollars, 0, 1e9))
      config.spending.nanodollars = static_cast<std::int64_t>(std::floor(dollars * 1e9));
    if (reader.integer("tokens", tokens, 0, 1'000'000'000'000'000)) config.spending.tokens = tokens;
    PLANISH_CHECK(reader.finish());
  }
  if (const toml::node* node = root.get("embedding")) {
    if (!node->is_table())
      return fail("models_config", file + ": [embedding] must be one table", "write [embedding] with single brackets");
    PLANISH_TRY(config.embedding, read_embedding(*node->as_table(), file));
    if (config.spending.nanodollars && !config.embedding->price)
      return fail("models_config", file + ": [spending] limits dollars, but [embedding] has no price",
                  "price = 0 for a server of your own; else dollars for a million tokens");
  }
  const toml::node* models = root.get("model");
  if (models == nullptr) return config;
  const toml::array* list = models->as_array();
  if (list == nullptr || !std::ranges::all_of(*list, [](const toml::node& node) { return node.is_table(); }))
    return fail("models_config", file + ": a model is a table of a list", "write [[model]] with two brackets");
  std::set<std::string> labels;
  for (std::size_t i = 0; i < list->size(); ++i) {
    PLANISH_TRY(auto model, read_model(*list->get(i)->as_table(), file, i + 1));
    if (!labels.insert(model.label).second)
      return fail("models_config", fmt::format("{}: [[model]] {}: the label '{}' is taken", file, i + 1, model.label),
                  "the same model twice needs a `label` of its own for each");
    if (config.spending.nanodollars && !model.price)
      return fail("models_config",
                  fmt::format("{}: [spending] limits dollars, but the model {} has no price", file, model.label),
                  "price = { input = 0, output = 0 } for a server of your own; else what its provider asks for");
    config.models.push_back(std::move(model));
  }
  return config;
}

Result<ModelsConfig> read_models(const std::filesystem::path& file) {
  std::error_code ignored;
  if (file.empty() || !std::filesystem::exists(file, ignored)) return ModelsConfig{};
  PLANISH_TRY(const std::string text, read_file(file));
  return parse_models(text, file.string());
}

Result<ModelsConfig> models_to_ask(const ConfigFile& file) {
  PLANISH_TRY(auto config, read_models(file.path));
  if (!file.found) return config;
  const auto refusal = [&file](const std::string& what, const std::string& url) -> Status {
    const std::string_view host = host_of(url);
    if (is_loopback(host)) return {};
    return fail("models_config",
                fmt::format("{} was found in the current folder and sends prompts and keys to {} ({}): whoever wrote "
                            "the file would choose who gets them",
                            file.path, host, what),
                fmt::format("planish --config {} … where you trust it, or name the model in a planish.toml of your own "
                            "(docs/models.md)",
                            file.path));
  };
  for (const ModelConfig& model : config.models) PLANISH_CHECK(refusal(model.label, model.base_url));
  if (config.embedding) PLANISH_CHECK(refusal("[embedding]", config.embedding->base_url));
  return config;
}

void hide_keys(const ModelsConfig& config) {
  for (const ModelConfig& model : config.models) {
    if (!model.key_env.empty()) hide_from_children(model.key_env);
  }
  if (config.embedding && !config.embedding->key_env.empty()) hide_from_children(config.embedding->key_env);
}

}  // namespace planish::llm
