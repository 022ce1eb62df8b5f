#include "llm/cassette.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "llm/cassette_json.h"

namespace planish::llm {
namespace {

constexpr int cassette_version = 1;

std::filesystem::path cassette_file(const std::filesystem::path& folder) {
  return folder / "cassette.jsonl";
}

Status write_all(int fd, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::unexpected(file_error(errno, "write", path));
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

class RecordingProvider : public Provider {
 public:
  RecordingProvider(std::shared_ptr<Provider> inner, std::shared_ptr<CassetteWriter> cassette)
      : inner_(std::move(inner)), cassette_(std::move(cassette)) {}
  const ModelConfig& config() const override { return inner_->config(); }
  Answer complete(const ChatRequest& request, const Call& call) override {
    const std::string address = cassette_address(config(), request);
    const std::int64_t occurrence = cassette_->occurrence(address);
    std::vector<CallEvent> events;
    Call listened = call;
    listened.listener = [&](const CallEvent& event) {
      events.push_back(event);
      call.tell(event);
    };
    Answer answer = inner_->complete(request, listened);
    if (auto added = cassette_->add(address, occurrence, config(), request, events, answer); !added)
      return std::unexpected(Failure{std::move(added).error(), false, false, false, {}});
    return answer;
  }

 private:
  std::shared_ptr<Provider> inner_;
  std::shared_ptr<CassetteWriter> cassette_;
};

class ReplayingProvider : public Provider {
 public:
  ReplayingProvider(ModelConfig config, std::shared_ptr<CassetteReader> cassette, Ledger& ledger)
      : config_(std::move(config)), cassette_(std::move(cassette)), ledger_(ledger) {}
  const ModelConfig& config() const override { return config_; }
  Answer complete(const ChatRequest& request, const Call& call) override {
    if (call.cancel != nullptr && call.cancel->cancelled())
      return std::unexpected(
          Failure{{"cancelled", "cancelled before the model was asked", {}, {}}, false, false, false, {}});
    auto entry = cassette_->next(cassette_address(config_, request), config_, request);
    if (!entry) return std::unexpected(Failure{std::move(entry).error(), false, false, false, {}});
    for (const CallEvent& event : entry->events) {
      if (event.kind == CallEvent::Kind::charged) ledger_.note(event.amount);
      call.tell(event);
    }
    return std::move(entry->answer);
  }

 private:
  ModelConfig config_;
  std::shared_ptr<CassetteReader> cassette_;
  Ledger& ledger_;
};

}  // namespace

std::string cassette_address(const ModelConfig& config, const ChatRequest& request) {
  Json out = {{"label", config.label},
              {"name", config.name},
              {"wire", config.wire == WireKind::openai ? "openai" : "anthropic"},
              {"effort", config.effort},
              {"max_output_tokens", config.max_output_tokens},
              {"request", request_text(request)}};
  if (config.temperature) out["temperature"] = *config.temperature;
  return sha256_hex(dump_json(out));
}

Result<std::unique_ptr<CassetteWriter>> CassetteWriter::create(const std::filesystem::path& folder,
                                                               std::vector<Secret> secrets) {
  PLANISH_CHECK(make_directories(folder));
  const auto path = cassette_file(folder);
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
  if (!file && errno == EEXIST)
    return fail("cassette_exists", fmt::format("{} holds a recording", folder.string()), "record into another folder");
  if (!file) return std::unexpected(file_error(errno, "create", path));
  PLANISH_CHECK(write_all(file.get(), dump_json(Json{{"planish_cassette", cassette_version}}) + "\n", path));
  return std::unique_ptr<CassetteWriter>(new CassetteWriter(path, std::move(file), std::move(secrets)));
}

std::int64_t CassetteWriter::occurrence(const std::string& address) {
  std::scoped_lock lock(mutex_);
  return begun_[address]++;
}

Status CassetteWriter::add(const std::string& address, std::int64_t occurrence, const ModelConfig& config,
                           const ChatRequest& request, const std::vector<CallEvent>& events, const Answer& answer) {
  // Texts within the line are JSON by themselves: what they say is kept to the byte, and redacted as it stands there.
  std::string asked = request_text(request), outcome = outcome_text(events, answer);
  for (const Secret& secret : secrets_) {
    asked = redact(asked, secret);
    outcome = redact(outcome, secret);
  }
  PLANISH_TRY(const Json outcome_json, parse_json(outcome, "cassette_corrupt", "entry"));
  PLANISH_TRY(const Json asked_json, parse_json(asked, "cassette_corrupt", "request"));
  Json line = {{"address", address}, {"occurrence", occurrence}, {"label", config.label}, {"outcome", outcome_json}};
  // Once is enough to read what was asked.
  if (occurrence == 0) line["request"] = asked_json;
  const std::string text = dump_json(line) + "\n";
  std::scoped_lock lock(mutex_);
  return write_all(file_.get(), text, path_);
}

Result<std::unique_ptr<CassetteReader>> CassetteReader::open(const std::filesystem::path& folder) {
  std::unique_ptr<CassetteReader> out(new CassetteReader);
  out->path_ = cassette_file(folder);
  PLANISH_TRY(const std::string text, read_file(out->path_));
  std::string_view rest = text;
  std::size_t number = 0;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos && number > 0) break;  // cut short
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    const std::string where = fmt::format("{}, line {}", out->path_.string(), ++number);
    const auto with_line = [&](Error error) { return wrap(std::move(error), where + " is no entry of a recording"); };
    auto json = parse_json(line, "cassette_corrupt", where);
    if (!json) return with_line(std::move(json).error());
    if (number == 1) {
      ObjectReader header(*json, "cassette_corrupt", where);
      std::int64_t version = 0;
      header.integer("planish_cassette", version);
      header.lenient();
      if (auto good = header.finish(); !good) return with_line(std::move(good).error());
      if (version != cassette_version)
        return fail("cassette_version",
                    fmt::format("{}: recordings of version {} are not read (this is {})", out->path_.string(), version,
                                cassette_version),
                    "record it again");
      continue;
    }
    ObjectReader reader(*json, "cassette_corrupt", where);
    std::string address, label;
    std::int64_t occurrence = 0;
    reader.text("address", address);
    reader.integer("occurrence", occurrence);
    reader.text("label", label);
    reader.get("request", ObjectReader::Need::optional);
    const Json* outcome = reader.object("outcome");
    if (auto good = reader.finish(); !good) return with_line(std::move(good).error());
    auto entry = outcome_from_text(dump_json(*outcome));
    if (!entry) return with_line(std::move(entry).error());
    if (!out->entries_.emplace(std::pair{address, occurrence}, std::move(*entry)).second)
      return fail("cassette_corrupt", where + ": the same entry is there twice");
  }
  if (number == 0) return fail("cassette_corrupt", out->path_.string() + " is empty");
  return out;
}

Result<CassetteReader::Entry> CassetteReader::next(const std::string& address, const ModelConfig& config,
                                                   const ChatRequest& request) {
  std::scoped_lock lock(mutex_);
  const std::int64_t occurrence = begun_[address]++;
  const auto found = entries_.find({address, occurrence});
  if (found != entries_.end()) return found->second;
  return fail("cassette_miss",
              fmt::format("{} has no answer of the model {} to this request ({}, for the {}. time, asked by '{}')",
                          path_.string(), config.label, address.substr(0, 12), occurrence + 1, request.lane),
              occurrence > 0
                  ? "it was asked more often than when it was recorded"
                  : "program, task, seed, prompts and planish.toml must be those of the recording; or record again");
}

std::shared_ptr<Provider> recording(std::shared_ptr<Provider> inner, std::shared_ptr<CassetteWriter> cassette) {
  return std::make_shared<RecordingProvider>(std::move(inner), std::move(cassette));
}

std::shared_ptr<Provider> replaying(ModelConfig config, std::shared_ptr<CassetteReader> cassette, Ledger& ledger) {
  return std::make_shared<ReplayingProvider>(std::move(config), std::move(cassette), ledger);
}

}  // namespace planish::llm
