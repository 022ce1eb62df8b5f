#include "cli/commands/shared_options.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "backend/backend.h"
#include "cli/commands/help.h"
#include "cli/commands/values.h"

namespace planish::cli {

void add_output(CLI::App* verb, Output& output) {
  begin_group(verb, "Output");
  verb->add_flag("--json", output.json, "One JSON document on stdout");
  verb->add_flag("-q,--quiet", output.quiet, "No progress");
  verb->add_flag("-v,--verbose", output.verbose, "Show tracebacks of the Python side");
  verb->set_help_flag("-h,--help", "Print this");
}

void add_format(CLI::App* verb, Output& output) {
  verb->add_option("--format", output.format,
                   "text; junit: JUnit XML on stdout; github: text, and an annotation for each failure")
      ->check(one_of({"text", "junit", "github"}))
      ->excludes("--json")
      ->capture_default_str();
  verb->set_help_flag("-h,--help", "Print this");  // the last of them
}

void keep_from_guests(const std::string& path) {
  const char* others = std::getenv("PLANISH_HIDDEN");
  std::error_code failed;
  const std::string here = std::filesystem::absolute(path, failed).lexically_normal().string();
  ::setenv("PLANISH_HIDDEN", (others != nullptr ? others + (":" + here) : here).c_str(), 1);
}

void add_store(CLI::App* verb, std::string& store) {
  verb->add_option("--store", store, "Where runs are kept")
      ->envname("PLANISH_STORE")
      ->type_name("FILE")
      ->each(keep_from_guests);
}

void add_task_timeout(CLI::App* verb, std::string& timeout) {
  verb->add_option("--task-timeout", timeout,
                   "Time a task or a solution may take to be imported, run once and captured")
      ->envname("PLANISH_TASK_TIMEOUT")
      ->type_name("TIME")
      ->capture_default_str();
}

void add_target(CLI::App* verb, std::string& target) {
  verb->add_option("--target", target, "Device to use: " + backend::choices())
      ->envname("PLANISH_TARGET")
      ->type_name("NAME")
      ->capture_default_str();
}

void add_accuracy(CLI::App* verb, std::string& accuracy) {
  verb->add_option("--accuracy", accuracy, "No less accurate than: eager, permitted, tf32, or a tolerance such as 1e-4")
      ->envname("PLANISH_ACCURACY")
      ->type_name("GATE")
      ->capture_default_str();
}

void add_compat(CLI::App* verb, std::string& compat, std::string& precision) {
  verb->add_option("--compat", compat, "Another rule to ask beside ours: kernelbench, or none")
      ->check(one_of({"none", "kernelbench"}))
      ->capture_default_str();
  verb->add_option("--precision", precision, "What that rule casts all tensors to: fp32, fp16 or bf16")
      ->check(one_of({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
}

void add_no_serve(CLI::App* verb, bool& no_serve) {
  verb->add_flag("--no-serve", no_serve, "Start an evaluator of its own, also where `planish serve` keeps one")
      ->envname("PLANISH_NO_SERVE");
}

void add_search(CLI::App* verb, SearchOptions& search) {
  begin_group(verb, "Time");
  verb->add_option(
          "--max-time", search.max_time,
          "Time for everything: when it is over, what was verified until then ships (default: twice the budget "
          "and 15 minutes)")
      ->envname("PLANISH_MAX_TIME")
      ->type_name("TIME");
  verb->add_option("--budget", search.budget,
                   "Time to search for, the final measuring of the best included; not capture, proof and baselines "
                   "(60s, 5m)")
      ->envname("PLANISH_BUDGET")
      ->type_name("TIME")
      ->capture_default_str();
  verb->add_option("--evals", search.evaluations, "Most candidates to evaluate; 0 sets no limit")
      ->envname("PLANISH_EVALS")
      ->check(whole_number(0, std::numeric_limits<std::int64_t>::max()));
  add_task_timeout(verb, search.task_timeout);
  begin_group(verb, "Search");
  add_target(verb, search.target);
  verb->add_option("--seed", search.seed, "Of the search's decisions")
      ->envname("PLANISH_SEED")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  verb->add_option("--strategy", search.strategy,
                   "swarm, hillclimb, tree, random, sample; with language models alone: one-shot, refine, samples, "
                   "ideas, roles; or coders: those of --coder alone")
      ->envname("PLANISH_STRATEGY")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--draws", search.draws,
                   "Genomes the swarm draws and ranks before it compiles any; 0: a few thousand")
      ->envname("PLANISH_DRAWS")
      ->check(whole_number(0, 100'000'000));
  verb->add_flag("--cold", search.cold, "Do not begin with what earlier runs on this device measured")
      ->envname("PLANISH_COLD");
  begin_group(verb, "Coders and language models");
  verb->add_option("--coder", search.coders,
                   "A command that proposes kernels beside the built-in coder; may be given several times "
                   "(docs/formats/coder.md)")
      ->type_name("COMMAND")
      ->take_all();
  verb->add_option("--models", search.models,
                   "Seats of the language models of planish.toml in every region, of the swarm's 32")
      ->envname("PLANISH_MODELS")
      ->check(whole_number(0, 32));
  verb->add_option("--turns", search.turns,
                   "Answers asked of each seat of language models in a region; 0: as the strategy says")
      ->envname("PLANISH_TURNS")
      ->check(whole_number(0, 100'000));
  verb->add_option("--judge", search.judge, "Who tells language models what limits their programs: built-in, or model")
      ->envname("PLANISH_JUDGE")
      ->check(one_of({"built-in", "model"}))
      ->capture_default_str();
  begin_group(verb, "Proof and times");
  add_accuracy(verb, search.accuracy);
  verb->add_flag("--memory-check", search.memory_check,
                 "On a GPU, also look at the memory accesses of what is found with compute-sanitizer")
      ->envname("PLANISH_MEMORY_CHECK");
  verb->add_option(
          "--baselines", search.baselines,
          "all, none, or a list: eager,compile,max_autotune_no_cudagraphs,max_autotune (which joins a list with a "
          "mode of torch.compile where the host is what eager waits for)")
      ->envname("PLANISH_BASELINES")
      ->type_name("LIST")
      ->capture_default_str();
}

void add_patterns_file(CLI::App* verb, const char* name, std::string& file) {
  verb->add_option(name, file, "Where patterns are kept")->envname("PLANISH_PATTERNS")->type_name("FILE");
}

}  // namespace planish::cli
