#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/output.h"

namespace planish::cli {

/// What `optimize` takes, as typed. The same in `suite`.
struct SearchOptions {
  std::string target = "auto";
  std::string budget = "60s";
  std::int64_t evaluations = 0;
  std::uint64_t seed = 0;
  std::string strategy = "swarm";
  std::vector<std::string> coders;
  int models = 0;
  int turns = 0;
  std::string judge = "built-in";  ///< built-in | model
  std::int64_t draws = 0;
  bool cold = false;
  bool memory_check = false;  ///< compute-sanitizer looks at what ships, or at each solution
  std::string accuracy = "eager";
  std::string baselines = "all";  ///< all | none | a list with commas
  std::string store;
  std::string task_timeout = "10m";
  std::string max_time = "auto";  ///< auto: TimePlan::usual; or a limit
};

/// "90", "90s", "1.5m", "2h" in seconds. Kind `usage`.
Result<double> parse_duration(const std::string& text);
/// The same for a limit, which zero cannot be. Kind `usage`.
Result<double> parse_limit(const std::string& text);
/// Seconds of --max-time for a search with this budget; 0: no limit. Kind `usage`.
Result<double> parse_max_time(const std::string& text, double budget_seconds);
/// Modes in canonical order, `eager` always first. Kind `usage`.
Result<std::vector<std::string>> parse_baselines(const std::string& text);
/// `eager`, `permitted`, `tf32`, or a tolerance between 0 and 1. Kind `usage`.
Status check_accuracy(const std::string& text);
/// What --target takes.
std::vector<std::string> target_choices();
/// One of target_choices(). Kind `usage`.
Status check_target(const std::string& text);
/// Checks the place that a run ships to: a folder, or nothing yet. Kind `usage`.
Status check_out(const std::filesystem::path& path);

/// --store FILE, or the default.
std::filesystem::path store_file(const std::string& option);
/// An existing file, of 64 MiB at most, or folder, absolute. Kinds `no_such_file`, `not_a_file`, `unreadable`,
/// `too_large`.
Result<std::filesystem::path> existing_file(const std::string& path, const char* what);

}  // namespace planish::cli
