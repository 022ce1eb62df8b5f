#include "llm/embedding.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "base/json.h"

namespace planish::llm {
namespace {

/// What a tokeniser may add around each text.
constexpr std::int64_t tokens_around = 16;

struct Read {
  std::vector<std::vector<float>> vectors;
  std::optional<std::int64_t> tokens;  ///< as the server counted them
};

std::expected<std::vector<float>, Failure> read_vector(const Json& item, int dimensions) {
  const auto field = item.find("embedding");
  if (field == item.end() || !field->is_array() || field->empty())
    return std::unexpected(bad_reply("a vector is missing, or no list of numbers"));
  if (field->size() > static_cast<std::size_t>(most_dimensions))
    return std::unexpected(
        bad_reply(fmt::format("a vector has {} numbers; {} are the most", field->size(), most_dimensions)));
  if (dimensions > 0 && field->size() != static_cast<std::size_t>(dimensions))
    return std::unexpected(
        bad_reply(fmt::format("a vector has {} numbers, and {} were asked for", field->size(), dimensions),
                  "leave `dimensions` of [embedding] away where the model cannot shorten its vectors"));
  std::vector<double> values;
  double square = 0;
  for (const Json& one : *field) {
    const double value = one.is_number() ? one.get<double>() : std::nan("");
    if (!std::isfinite(value)) return std::unexpected(bad_reply("a vector holds what is no number"));
    values.push_back(value);
    square += value * value;
  }
  if (!std::isfinite(square) || square < 1e-24) return std::unexpected(bad_reply("a vector has no direction"));
  std::vector<float> out;
  for (const double value : values) out.push_back(static_cast<float>(value / std::sqrt(square)));
  return out;
}

std::expected<Read, Failure> read_reply(std::string_view body, std::size_t texts, const EmbeddingConfig& config) {
  const auto first = body.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) return std::unexpected(bad_reply("the answer is empty"));
  body.remove_prefix(first);
  if (body.front() == '<') return std::unexpected(html_reply(body));
  const auto json = parse_json(std::string(body), "model_bad_reply", "the vectors");
  if (!json) return std::unexpected(bad_reply(json.error().message));
  const auto data = json->is_object() ? json->find("data") : json->end();
  if (!json->is_object() || data == json->end() || !data->is_array())
    return std::unexpected(bad_reply("the answer has no list `data`"));
  if (data->size() != texts)
    return std::unexpected(bad_reply(fmt::format("{} vectors came for {} texts", data->size(), texts)));
  Read out;
  out.vectors.resize(texts);
  for (std::size_t i = 0; i < texts; ++i) {
    const Json& item = (*data)[i];
    if (!item.is_object()) return std::unexpected(bad_reply("a vector is no object"));
    std::size_t at = i;
    if (const auto index = item.find("index"); index != item.end() && index->is_number_integer()) {
      const auto said = index->get<std::int64_t>();
      at = said < 0 ? texts : static_cast<std::size_t>(said);
    }
    if (at >= texts || !out.vectors[at].empty())
      return std::unexpected(bad_reply("the vectors are not numbered as the texts are"));
    auto vector = read_vector(item, config.dimensions);
    if (!vector) return std::unexpected(std::move(vector).error());
    out.vectors[at] = std::move(*vector);
  }
  for (const auto& vector : out.vectors) {
    if (vector.size() != out.vectors.front().size())
      return std::unexpected(bad_reply("the vectors are of different lengths"));
  }
  if (const auto usage = json->find("usage"); usage != json->end() && usage->is_object()) {
    for (const char* name : {"prompt_tokens", "total_tokens"}) {
      const auto count = usage->find(name);
      if (count != usage->end() && count->is_number_integer() && count->get<std::int64_t>() > 0)
        out.tokens = out.tokens.value_or(count->get<std::int64_t>());
    }
  }
  return out;
}

}  // namespace

EmbeddingClient::EmbeddingClient(EmbeddingConfig config, Secret key, Transport& transport, Ledger& ledger, Clock& clock,
                                 RetryPolicy policy, std::uint64_t seed)
    : config_(std::move(config)),
      key_(std::move(key)),
      transport_(transport),
      ledger_(ledger),
      clock_(clock),
      retries_(policy, clock, seed) {}

std::expected<Embedded, Failure> EmbeddingClient::embed(const std::vector<std::string>& texts, const Call& call) {
  if (texts.empty()) return Embedded{};
  return retries_.run(config_.name, config_.timeout_seconds, call,
                      [&](const Call& bounded) { return attempt(texts, bounded); });
}

std::expected<Embedded, Failure> EmbeddingClient::attempt(const std::vector<std::string>& texts, const Call& call) {
  Json body = {{"model", config_.name}, {"input", texts}, {"encoding_format", "float"}};
  if (config_.dimensions > 0) body["dimensions"] = config_.dimensions;
  HttpRequest http{"POST", config_.base_url + "/embeddings", {{"content-type", "application/json"}}, dump_json(body)};
  const HttpLimits bounds = limits_of(config_.timeout_seconds, call, clock_);
  if (bounds.seconds <= 0)
    return std::unexpected(
        Failure{{"model_timeout", fmt::format("{}: the time was over before it was asked", config_.name), {}, {}},
                false,
                false,
                false,
                {}});
  const auto amount = [&](std::int64_t tokens) {
    return Amount{tokens, nanodollars({.input = config_.price.value_or(0)}, {.fresh = tokens})};
  };
  const Amount most =
      amount(static_cast<std::int64_t>(http.body.size()) + tokens_around * static_cast<std::int64_t>(texts.size()));
  auto reservation = ledger_.reserve(most, bounds.seconds, call.cancel);
  if (!reservation) return std::unexpected(Failure{std::move(reservation).error(), false, false, false, {}});
  openai_wire().authorise(http, key_);
  auto reply = transport_.send(http, bounds, call.cancel, {});
  std::expected<Read, Failure> read;
  if (!reply) {
    read = std::unexpected(transport_failure(std::move(reply).error()));
  } else if (reply->status < 200 || reply->status >= 300) {
    read = std::unexpected(status_failure(*reply, config_.name, clock_.wall_seconds()));
  } else {
    read = read_reply(reply->body, texts.size(), config_);
  }
  const Amount spent = read ? read->tokens ? amount(*read->tokens) : most : read.error().billed ? most : Amount{};
  reservation->settle(spent);
  if (spent.tokens > 0) call.tell({CallEvent::Kind::charged, config_.name, "", 0, spent});
  if (!read) return std::unexpected(redacted(std::move(read).error(), key_));
  return Embedded{std::move(read->vectors), spent};
}

}  // namespace planish::llm
