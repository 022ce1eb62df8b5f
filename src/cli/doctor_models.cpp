#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/hidden_environment.h"
#include "base/json.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "llm/config.h"
#include "llm/embedding.h"
#include "llm/probe.h"
#include "session/result_document.h"
#include "session/version.h"

namespace planish::cli {
using namespace session;

namespace {

/// A local server may have to load a large model first.
constexpr double most_seconds = 180;

const char* form_name(llm::Structured form) {
  switch (form) {
    case llm::Structured::schema:
      return "schema";
    case llm::Structured::object:
      return "object";
    case llm::Structured::tool:
      return "tool";
    case llm::Structured::prompt:
      return "prompt";
    case llm::Structured::automatic:
      break;
  }
  return "auto";
}

llm::ModelReport look_at(const llm::ModelConfig& config, llm::Transport& transport, llm::Ledger& ledger) {
  auto key = llm::read_key(config, &hidden_value);
  if (!key) return llm::unusable(config, std::move(key).error());
  llm::HttpProvider model(config, std::move(*key), transport, ledger, real_clock());
  llm::Call call;
  call.deadline = deadline_in(std::min(config.timeout_seconds, most_seconds));
  return llm::probe(model, call);
}

Json report_json(const llm::ModelReport& report) {
  Json out = {{"label", report.label},
              {"name", report.name},
              {"wire", report.wire == llm::WireKind::openai ? "openai" : "anthropic"},
              {"base_url", report.base_url},
              {"ok", report.ok()},
              {"key", report.key},
              {"reachable", report.reachable},
              {"answers", report.answers},
              {"streams", report.streams},
              {"tools", report.tools},
              {"structured", report.structured ? Json(form_name(report.capabilities.structured)) : Json(nullptr)},
              {"usage", report.usage},
              {"seconds", report.seconds},
              {"tokens", report.spent.tokens},
              {"nanodollars", report.spent.nanodollars},
              {"notes", report.notes}};
  out["listed"] = report.listed ? Json(*report.listed) : Json(nullptr);
  for (const llm::Role role : report.roles) out["roles"].push_back(llm::name(role));
  if (report.problem)
    out["error"] = {{"kind", report.problem->kind},
                    {"message", report.problem->message},
                    {"causes", report.problem->causes},
                    {"hint", report.problem->hint}};
  return out;
}

std::string report_text(const llm::ModelReport& report) {
  std::string roles;
  for (const llm::Role role : report.roles) roles += (roles.empty() ? "" : ", ") + std::string(llm::name(role));
  std::string out = fmt::format("  {} {:<16} {} at {} ({})\n", report.ok() ? "ok " : "-- ", report.label, report.name,
                                report.base_url, roles);
  const auto line = [&](const std::string& text) { out += fmt::format("      {:<16} {}\n", "", text); };
  if (report.answers) {
    std::string has = fmt::format("answers in {:.1f} s", report.seconds);
    has += report.streams ? ", streams" : ", does not stream";
    has += report.tools ? ", calls tools" : ", calls no tools";
    has += report.structured ? fmt::format(", keeps to a schema ({})", form_name(report.capabilities.structured))
                             : ", keeps to no schema";
    line(has);
  }
  for (const std::string& note : report.notes) line("note: " + note);
  if (report.problem) {
    line(report.problem->message);
    for (const std::string& cause : report.problem->causes) line("because: " + cause);
    if (!report.problem->hint.empty()) line("-> " + report.problem->hint);
  }
  return out;
}

/// One short text, as searches send them.
Json look_at(const llm::EmbeddingConfig& config, llm::Transport& transport, llm::Ledger& ledger, std::string& text) {
  Json out = {{"name", config.name}, {"base_url", config.base_url}, {"ok", false}};
  std::expected<llm::Embedded, llm::Failure> made;
  auto key = llm::read_key("embedding", config.key_env, &hidden_value);
  if (key) {
    llm::EmbeddingClient client(config, std::move(*key), transport, ledger, real_clock());
    made = client.embed({"grouped gemm"}, {.deadline = deadline_in(most_seconds), .cancel = nullptr, .listener = {}});
  } else {
    made = std::unexpected(llm::Failure{std::move(key).error(), false, false, false, {}});
  }
  text += fmt::format("  {} {:<16} {} at {} (vectors of patterns)\n", made ? "ok " : "-- ", "embedding", config.name,
                      config.base_url);
  if (made) {
    out["ok"] = true;
    out["dimensions"] = made->vectors.front().size();
    text += fmt::format("      {:<16} {} numbers a vector\n", "", made->vectors.front().size());
    return out;
  }
  const Error& error = made.error().error;
  out["error"] = {{"kind", error.kind}, {"message", error.message}, {"causes", error.causes}, {"hint", error.hint}};
  text += fmt::format("      {:<16} {}\n", "", error.message);
  for (const std::string& cause : error.causes) text += fmt::format("      {:<16} because: {}\n", "", cause);
  if (!error.hint.empty()) text += fmt::format("      {:<16} -> {}\n", "", error.hint);
  return out;
}

}  // namespace

int doctor_models_verb(const llm::ConfigFile& config_file, const Output& output) {
  auto config = llm::models_to_ask(config_file);
  if (!config) return output.error(config.error());
  if (config->models.empty() && !config->embedding) {
    return output.error(
        {"no_models",
         fmt::format("{} names no model", config_file.path),
         {},
         "add a [[model]] with name, base_url and, where the server wants one, key_env (docs/models.md)"});
  }
  llm::hide_keys(*config);
  const auto transport = llm::make_curl_transport();
  llm::Ledger ledger(config->spending);
  std::vector<llm::ModelReport> reports(config->models.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < reports.size(); ++i)
      threads.emplace_back([&, i] { reports[i] = look_at(config->models[i], *transport, ledger); });
  }
  bool ok = std::ranges::all_of(reports, &llm::ModelReport::ok);
  std::string embedding_text;
  Json embedding;
  if (config->embedding) {
    embedding = look_at(*config->embedding, *transport, ledger, embedding_text);
    ok = ok && embedding["ok"].get<bool>();
  }
  const llm::Amount spent = ledger.spent();
  Json document = {{"schema_version", ResultDocument::schema_version},
                   {"planish", version},
                   {"ok", ok},
                   {"config", config_file.path},
                   {"spent", {{"tokens", spent.tokens}, {"nanodollars", spent.nanodollars}}},
                   {"models", Json::array()}};
  std::string text;
  for (const llm::ModelReport& report : reports) {
    document["models"].push_back(report_json(report));
    text += report_text(report);
  }
  if (config->embedding) document["embedding"] = std::move(embedding);
  text += embedding_text;
  text += fmt::format("{} of {} models ready; {} tokens, {:.4f} dollars spent on asking\n",
                      std::ranges::count_if(reports, &llm::ModelReport::ok), reports.size(), spent.tokens,
                      static_cast<double>(spent.nanodollars) / 1e9);
  output.result(dump_json(document), text);
  return ok ? exit_code::success : exit_code::environment;
}

}  // namespace planish::cli
