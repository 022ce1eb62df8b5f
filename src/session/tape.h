#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "search/schedule.h"

namespace planish::session {

/// What a run heard from everything that is not itself, beside what its language models said (llm/cassette.h): the
/// answers of the evaluator, the patterns that were found, and when its coders were heard. DIR/run.jsonl
/// (docs/formats/cassette.md). One records, or replays. Thread-safe but for schedule().
class Tape {
 public:
  /// Kinds: `cassette_exists` (the folder holds one), and those of files. `settings`: of the run.
  static Result<std::unique_ptr<Tape>> record(const std::filesystem::path& folder, const std::string& settings);
  /// Kinds: `no_such_file`, `cassette_corrupt` (with the line), `cassette_version`. A last line that is cut short is
  /// left out.
  static Result<std::unique_ptr<Tape>> replay(const std::filesystem::path& folder);

  bool replays() const { return !file_; }
  const std::string& settings() const { return settings_; }
  const std::filesystem::path& file() const { return path_; }

  /// The answer to a question, which `key` names: what `inner` says, and is kept; or what was kept, errors included.
  /// The same question may be asked again. Texts are JSON documents. Kind `cassette_miss`.
  Result<std::string> pass(const std::string& op, const std::string& key,
                           const std::function<Result<std::string>()>& inner);
  /// A coder was heard.
  void heard(const search::SeatEvent& event);
  /// The search is over. `out_of_time`: because nobody had time to answer.
  void ended(std::int64_t polls, std::int64_t finals, bool out_of_time);
  /// Of a replay. Kind `cassette_corrupt` where the run that was recorded did not come to its end.
  Result<const search::Schedule*> schedule() const;
  /// Writing failed: a recording with holes is none.
  Status trouble() const;

 private:
  struct Kept {
    std::string reply;
    std::optional<Error> error;
  };
  explicit Tape(std::filesystem::path path) : path_(std::move(path)) {}
  void write(const std::string& line);
  Status read();

  const std::filesystem::path path_;
  const TimePoint began_ = real_clock().now();
  std::string settings_;
  mutable std::mutex mutex_;
  UniqueFd file_;
  std::map<std::string, std::int64_t> asked_;  ///< op and key → how often
  std::map<std::pair<std::string, std::int64_t>, Kept> kept_;
  search::Schedule schedule_;
  bool ended_ = false, out_of_time_ = false;
  Status trouble_;
};

}  // namespace planish::session
