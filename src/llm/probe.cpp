#include "llm/probe.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/loopback.h"
#include "base/suggest.h"

namespace planish::llm {
namespace {

constexpr const char* echo_schema =
    R"({"type":"object","properties":{"word":{"type":"string"}},"required":["word"],"additionalProperties":false})";
/// Reasoning models think first, and their thoughts count.
constexpr int probe_tokens = 512;

ChatRequest question(std::string text) {
  ChatRequest out;
  out.lane = "doctor";
  out.messages = {{Speaker::user, std::move(text), {}, {}}};
  out.max_output_tokens = probe_tokens;
  return out;
}

bool over_open_network(const ModelConfig& config) {
  if (config.key_env.empty() || !config.base_url.starts_with("http://")) return false;
  return !is_loopback(host_of(config.base_url));
}

ModelReport described(const ModelConfig& config) {
  ModelReport out;
  out.label = config.label;
  out.name = config.name;
  out.base_url = config.base_url;
  out.wire = config.wire;
  out.roles = config.roles;
  out.open_text = over_open_network(config);
  if (out.open_text)
    out.notes.emplace_back("the key goes over the network in the open: use https:// or a local server");
  if (!config.price) out.notes.emplace_back("no price: what it costs is counted as 0 dollars");
  return out;
}

void look_at_list(HttpProvider& model, const Call& call, ModelReport& out) {
  const auto names = model.list(call);
  if (!names) {
    const ErrorKind kind = names.error().error.kind;
    // Servers without a list answer with 404 or 405: a question will tell more.
    out.reachable =
        kind != "model_unreachable" && kind != "model_stalled" && kind != "model_timeout" && kind != "no_libcurl";
    if (!out.reachable || kind == "model_unauthorized") {
      out.problem = names.error().error;
    } else if (kind != "cancelled") {
      out.notes.emplace_back("the server does not list its models: " + names.error().error.message);
    }
    return;
  }
  out.reachable = true;
  out.listed = std::ranges::find(*names, out.name) != names->end();
  if (*out.listed) return;
  std::string some;
  for (std::size_t i = 0; i < std::min<std::size_t>(5, names->size()); ++i) some += (i == 0 ? "" : ", ") + (*names)[i];
  out.notes.push_back(fmt::format("the server does not list '{}': {}it has {}{}", out.name,
                                  did_you_mean(out.name, *names), some.empty() ? "none" : some,
                                  names->size() > 5 ? ", …" : ""));
}

}  // namespace

ModelReport unusable(const ModelConfig& config, Error problem) {
  ModelReport out = described(config);
  out.problem = std::move(problem);
  return out;
}

ModelReport probe(HttpProvider& model, const Call& call) {
  ModelReport out = described(model.config());
  out.key = true;
  look_at_list(model, call, out);
  if (out.problem) return out;
  Call listened = call;
  listened.listener = [&](const CallEvent& event) {
    if (event.kind == CallEvent::Kind::charged) {
      out.spent.tokens += event.amount.tokens;
      out.spent.nanodollars += event.amount.nanodollars;
    } else if (event.kind == CallEvent::Kind::adapted) {
      out.notes.push_back("adapted: " + event.text);
    }
    call.tell(event);
  };
  const auto text = model.complete(question("Answer with the word ready."), listened);
  if (!text) {
    out.problem = text.error().error;
    return out;
  }
  out.answers = true;
  out.usage = text->usage.known;
  out.seconds = text->seconds;
  if (!out.usage) out.notes.emplace_back("it reports no tokens: each call counts as the most it could have taken");
  if (text->text.empty()) out.notes.push_back(fmt::format("it answered with nothing (stop: {})", name(text->stop)));

  ChatRequest with_tool = question("Call the tool echo with the word ready.");
  with_tool.tools = {{"echo", "Repeats a word.", echo_schema}};
  with_tool.tool_use = ToolUse::required;
  const auto tool = model.complete(with_tool, listened);
  out.tools = tool && !tool->calls.empty() && tool->calls.front().name == "echo";
  if (!tool) out.notes.push_back("tools: " + tool.error().error.message);

  ChatRequest with_schema = question("Answer with the word ready, as JSON.");
  with_schema.output = OutputSchema{"echo", echo_schema};
  const auto structured = model.complete(with_schema, listened);
  out.structured = structured && !structured->json.empty();
  if (!structured) {
    out.notes.push_back("structured output: " + structured.error().error.message);
  } else if (!out.structured) {
    out.notes.push_back("structured output: " + structured->json_problem);
  }
  out.capabilities = model.capabilities();
  out.streams = out.capabilities.stream;
  return out;
}

}  // namespace planish::llm
