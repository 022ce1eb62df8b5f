#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "llm/provider.h"
#include "llm/secret.h"

namespace planish::llm {

/// A recording of what models answered: DIR/cassette.jsonl (docs/formats/cassette.md). An entry is found by the model's
/// label, what the request says, and how often the same was asked before. Keys are in no request and no answer; they
/// are taken out of every line once more before it is written. Thread-safe.
class CassetteWriter {
 public:
  /// Kinds: `cassette_exists` (the folder holds one), and those of files.
  static Result<std::unique_ptr<CassetteWriter>> create(const std::filesystem::path& folder,
                                                        std::vector<Secret> secrets);
  /// How often this request of this model was begun before; counts it.
  std::int64_t occurrence(const std::string& address);
  /// Writes the line at once: what was answered before a kill is not lost.
  Status add(const std::string& address, std::int64_t occurrence, const ModelConfig& config, const ChatRequest& request,
             const std::vector<CallEvent>& events, const Answer& answer);

 private:
  CassetteWriter(std::filesystem::path path, UniqueFd file, std::vector<Secret> secrets)
      : path_(std::move(path)), file_(std::move(file)), secrets_(std::move(secrets)) {}
  std::filesystem::path path_;
  std::mutex mutex_;
  UniqueFd file_;
  std::vector<Secret> secrets_;
  std::map<std::string, std::int64_t> begun_;
};

/// The other side. Thread-safe.
class CassetteReader {
 public:
  /// Kinds: `no_such_file`, `cassette_corrupt` (with the line), `cassette_version`. A last line that is cut short, as
  /// by a kill, is left out.
  static Result<std::unique_ptr<CassetteReader>> open(const std::filesystem::path& folder);
  struct Entry {
    std::vector<CallEvent> events;
    Answer answer;
  };
  /// The next entry for this request. Kind `cassette_miss`.
  Result<Entry> next(const std::string& address, const ModelConfig& config, const ChatRequest& request);
  std::size_t entries() const { return entries_.size(); }

 private:
  CassetteReader() = default;
  std::filesystem::path path_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::int64_t>, Entry> entries_;
  std::map<std::string, std::int64_t> begun_;
};

/// What an entry is found by: SHA-256 of label, wire, name, settings that change answers, and the request with its
/// lane.
std::string cassette_address(const ModelConfig& config, const ChatRequest& request);

/// Asks the inner provider and keeps what it says, failures and events included. What cannot be written fails the call:
/// a recording with holes is none.
std::shared_ptr<Provider> recording(std::shared_ptr<Provider> inner, std::shared_ptr<CassetteWriter> cassette);
/// Answers from a cassette alone: no network, no key, no waiting. What a call cost when it was recorded is noted in the
/// ledger, which outlives it.
std::shared_ptr<Provider> replaying(ModelConfig config, std::shared_ptr<CassetteReader> cassette, Ledger& ledger);

}  // namespace planish::llm
