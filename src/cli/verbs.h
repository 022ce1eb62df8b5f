#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/output.h"
#include "llm/config.h"

/// One function a verb, each in a file of its own. They print their own results and errors and give the exit code.
namespace planish::cli {

struct OptimizeVerb {
  std::string task;  ///< may be empty with --resume
  SearchOptions search;
  std::string out;
  std::string resume;
  std::string run;             ///< id of a new run; empty makes one
  std::string record, replay;  ///< folders of recordings; empty: none
  bool search_only = false;
  bool dry_run = false;
  bool no_serve = false;
  llm::ConfigFile config;  ///< planish.toml
  std::string command;     ///< as typed
  /// Options that were given (flag or environment): these win over a resumed run's settings.
  std::vector<std::string> given;
};
int optimize_verb(const OptimizeVerb& options, const Output& output);

struct VerifyVerb {
  std::string task, path, target = "auto", accuracy = "eager";
  int seeds = 5;
  std::string task_timeout = "10m";
  bool no_serve = false;
  bool time = false;              ///< also time it beside baselines, where it was verified
  std::string baselines = "all";  ///< for that
  bool no_memory_check = false;
  std::uint64_t seed = 0;  ///< of the data that it is proved on; 0: a fresh one, which is told
  bool finite_only = false;
  bool other_compiler = false;  ///< accept binaries for the CPU that cannot be compared with their sources here
  std::string keep_times;       ///< file that baselines' times are taken from, or written to
  std::string compat = "none", precision = "fp32";
};
int verify_verb(const VerifyVerb& options, const Output& output);

struct TryVerb {
  std::string task, source;  ///< no source: what there is to write one for is listed
  std::string region = "task", target = "auto", accuracy = "eager";
  bool quick = false, profile = false;
  bool watch = false;  ///< again whenever one of both files is saved
  std::string task_timeout = "10m";
  bool no_serve = false;
};
int try_verb(const TryVerb& options, const Output& output);

struct McpVerb {
  std::string store, patterns;  ///< files; empty for those in the data folder
  std::string task_timeout = "10m";
  std::vector<std::string> settings;  ///< words before the verb of each command that it starts
};
/// Speaks on stdin and stdout until stdin ends.
int mcp_verb(const McpVerb& options, const Output& output);

struct SuiteVerb {
  std::string folder, out;
  std::string devices;  ///< a list with commas; empty: all that there are
  int workers = 1;      ///< evaluators a device
  std::string ray;      ///< address of a Ray cluster; empty: this machine
  SearchOptions search;
  bool resume = false;
  std::string choose;          ///< tasks by their names (suite/choice.h); empty: all
  bool stop_at_first = false;  ///< that fails or is refused
  std::string solutions;       ///< folder of solutions to judge; empty optimises
  int seeds = 5;               ///< for each solution
  bool no_times = false;       ///< verdicts alone
  std::string baseline_times;  ///< files with commas: baselines' times as KernelBench keeps them
  std::string compat = "none", precision = "fp32";
  std::vector<std::string> settings;  ///< words before the verb of each command that it starts
};
/// The same for solutions; suite_verb() calls it.
int solutions_verb(const SuiteVerb& options, const Output& output);
int suite_verb(const SuiteVerb& options, const Output& output);

struct ImportVerb {
  std::string from;  ///< file or folder of another collection
  std::string format = "auto", out;
  std::string solutions;  ///< of backendbench a folder of operators, of tritonbench a file of predictions
};
int import_verb(const ImportVerb& options, const Output& output);

struct ServeVerb {
  std::string idle = "30m";
  bool stop = false;
};
int serve_verb(const ServeVerb& options, const Output& output);

struct ExportVerb {
  std::string what;  ///< a shipped folder, a folder that holds one, or a run
  std::string form = "folder", out, store;
  bool original = false;  ///< also where nothing was gained
};
int export_verb(const ExportVerb& options, const Output& output);

struct RmVerb {
  std::vector<std::string> runs;
  std::optional<int> keep;       ///< all but so many of the newest go
  std::optional<int> megabytes;  ///< the oldest go until the store takes no more
  std::string store;
};
int rm_verb(const RmVerb& options, const Output& output);

int runs_verb(const std::string& store, int limit, const Output& output);
struct ShowVerb {
  std::string run;
  std::string candidate;  ///< the beginning of a program's hash; empty shows the run
  bool replay = false;    ///< derive the run's decisions again and compare
  std::string store;
};
int show_verb(const ShowVerb& options, const Output& output);

struct ReportVerb {
  std::string run, out, store;
  bool watch = false;  ///< the page is written anew until the run has ended
};
int report_verb(const ReportVerb& options, const Output& output);

int doctor_verb(const std::string& store, const Output& output);
/// Asks each model of a configuration; costs a few tokens each.
int doctor_models_verb(const llm::ConfigFile& config_file, const Output& output);

enum class CacheAction : std::uint8_t { dir, size, clean };
int cache_verb(CacheAction action, const Output& output);

}  // namespace planish::cli
