#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "backend/backend.h"
#include "cli/exit_code.h"
#include "cli/main_environment.h"
#include "cli/main_evaluator.h"
#include "cli/main_patterns.h"
#include "cli/trajectories.h"
#include "cli/usage_error.h"
#include "cli/verbs.h"
#include "llm/config.h"
#include "session/version.h"

namespace {

using namespace planish;
using namespace planish::cli;
using planish::session::version;

/// The project's file wins over the user's; flags and the environment win over both.
std::string config_file() {
  std::error_code ignored;
  if (std::filesystem::exists("planish.toml", ignored)) return "planish.toml";
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path folder = config != nullptr && *config != '\0' ? std::filesystem::path(config)
                                 : home != nullptr                    ? std::filesystem::path(home) / ".config"
                                                                      : std::filesystem::path();
  return (folder / "planish" / "planish.toml").string();
}

void add_output(CLI::App* verb, Output& output) {
  verb->add_flag("--json", output.json, "One JSON document on stdout");
  verb->add_flag("-q,--quiet", output.quiet, "No progress");
  verb->add_flag("--verbose", output.verbose, "Show tracebacks of the Python side");
}

void add_store(CLI::App* verb, std::string& store) {
  verb->add_option("--store", store, "Where runs are kept")->envname("PLANISH_STORE")->type_name("FILE");
}

void add_task_timeout(CLI::App* verb, std::string& timeout) {
  verb->add_option("--task-timeout", timeout,
                   "Time a task or a solution may take to be imported, run once and captured")
      ->envname("PLANISH_TASK_TIMEOUT")
      ->capture_default_str();
}

void add_compat(CLI::App* verb, std::string& compat, std::string& precision) {
  verb->add_option("--compat", compat, "Another rule to ask beside ours: kernelbench, or none")
      ->check(CLI::IsMember({"none", "kernelbench"}))
      ->capture_default_str();
  verb->add_option("--precision", precision, "What that rule casts all tensors to: fp32, fp16 or bf16")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
}

void add_no_serve(CLI::App* verb, bool& no_serve) {
  verb->add_flag("--no-serve", no_serve, "Start an evaluator of its own, also where `planish serve` keeps one")
      ->envname("PLANISH_NO_SERVE");
}

void add_search(CLI::App* verb, SearchOptions& search) {
  verb->add_option("--target", search.target, backend::choices())->envname("PLANISH_TARGET")->capture_default_str();
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
      ->capture_default_str();
  verb->add_option("--evals", search.evaluations, "Most candidates to evaluate; 0 sets no limit")
      ->envname("PLANISH_EVALS")
      ->check(CLI::NonNegativeNumber);
  verb->add_option("--seed", search.seed, "Of the search's decisions")->envname("PLANISH_SEED")->capture_default_str();
  verb->add_option("--strategy", search.strategy,
                   "swarm, hillclimb, tree, random, sample; with language models alone: one-shot, refine, samples, "
                   "ideas, roles; or coders: those of --coder alone")
      ->envname("PLANISH_STRATEGY")
      ->capture_default_str();
  verb->add_option("--draws", search.draws,
                   "Genomes the swarm draws and ranks before it compiles any; 0: a few thousand")
      ->envname("PLANISH_DRAWS")
      ->check(CLI::Range(0, 100'000'000));
  verb->add_option("--coder", search.coders,
                   "A command that proposes kernels beside the built-in coder; may be given several times "
                   "(docs/formats/coder.md)")
      ->type_name("COMMAND")
      ->take_all();
  verb->add_option("--models", search.models,
                   "Seats of the language models of planish.toml in every region, of the swarm's 32")
      ->envname("PLANISH_MODELS")
      ->check(CLI::Range(0, 32));
  verb->add_option("--turns", search.turns,
                   "Answers asked of each seat of language models in a region; 0: as the strategy says")
      ->envname("PLANISH_TURNS")
      ->check(CLI::Range(0, 100'000));
  verb->add_option("--judge", search.judge, "Who tells language models what limits their programs: built-in, or model")
      ->envname("PLANISH_JUDGE")
      ->check(CLI::IsMember({"built-in", "model"}))
      ->capture_default_str();
  verb->add_flag("--cold", search.cold, "Do not begin with what earlier runs on this device measured")
      ->envname("PLANISH_COLD");
  verb->add_flag("--memory-check", search.memory_check,
                 "On a GPU, also look at the memory accesses of what is found with compute-sanitizer")
      ->envname("PLANISH_MEMORY_CHECK");
  verb->add_option("--accuracy", search.accuracy, "eager, permitted, tf32, or a tolerance such as 1e-4")
      ->envname("PLANISH_ACCURACY")
      ->capture_default_str();
  verb->add_option("--baselines", search.baselines,
                   "all, none, or a list: eager,compile,max_autotune_no_cudagraphs,max_autotune")
      ->envname("PLANISH_BASELINES")
      ->capture_default_str();
  add_task_timeout(verb, search.task_timeout);
  add_store(verb, search.store);
}

std::string typed(int argc, char** argv) {
  std::string out;
  for (int i = 0; i < argc; ++i) {
    // The launcher stands in front of this binary; the name people type is its.
    std::string word = i == 0 ? "planish" : argv[i];
    if (word.find_first_of(" \t\n'\"$\\") != std::string::npos || word.empty()) {
      std::string quoted = "'";
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      word = quoted + "'";
    }
    out += (i == 0 ? "" : " ") + word;
  }
  return out;
}

/// --json must hold for usage errors too, which come before the options are known.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error of that write (EFBIG), and no reason to die
  if (auto code = run_evaluator_verb(argc, argv)) return *code;

  CLI::App app("Planish takes a PyTorch program and gives back a faster one, with proof.", "planish");
  app.set_version_flag("--version", std::string("planish ") + version);
  app.set_config("--config", config_file(), "Settings, by verb")->type_name("FILE");
  app.require_subcommand(1);
  Output output;

  OptimizeVerb optimize;
  CLI::App* optimize_app = app.add_subcommand("optimize", "Make a task faster: search, verify, ship");
  optimize_app->add_option("task", optimize.task, "A Python file with Model and get_inputs")->type_name("TASK.py");
  add_search(optimize_app, optimize.search);
  optimize_app->add_option("--out", optimize.out, "Folder to ship to")->type_name("DIR")->envname("PLANISH_OUT");
  optimize_app->add_flag("--search-only", optimize.search_only,
                         "End with the search: nothing is put together, shipped or timed beside baselines");
  optimize_app->add_option("--resume", optimize.resume, "Go on with an earlier run")->type_name("RUN");
  optimize_app->add_option("--run-id", optimize.run, "Name of the new run; otherwise made of the time")
      ->type_name("ID");
  optimize_app
      ->add_option("--record", optimize.record,
                   "Keep in this folder what models and the evaluator answer, so that the run can be repeated")
      ->type_name("DIR");
  optimize_app
      ->add_option("--replay", optimize.replay,
                   "Repeat the search of a recorded run: no model is asked, nothing is measured or shipped")
      ->type_name("DIR");
  add_no_serve(optimize_app, optimize.no_serve);
  add_output(optimize_app, output);

  VerifyVerb verify;
  CLI::App* verify_app = app.add_subcommand("verify", "Prove a shipped folder, or judge somebody's ModelNew");
  verify_app->add_option("task", verify.task)->required()->type_name("TASK.py");
  verify_app->add_option("solution", verify.path, "A shipped folder, or a Python file with ModelNew")->required();
  verify_app->add_option("--seeds", verify.seeds, "Fresh seeds to test on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  verify_app->add_option("--target", verify.target)->envname("PLANISH_TARGET")->capture_default_str();
  verify_app->add_option("--accuracy", verify.accuracy)->envname("PLANISH_ACCURACY")->capture_default_str();
  verify_app->add_flag("--time", verify.time, "Also time what was verified, beside baselines");
  verify_app->add_option("--baselines", verify.baselines, "For --time: all, none (eager alone), or a list")
      ->capture_default_str();
  verify_app->add_option("--keep-times", verify.keep_times, "File of baselines' times, used again for the same task")
      ->type_name("FILE");
  verify_app->add_flag("--no-memory-check", verify.no_memory_check,
                       "Do not ask compute-sanitizer, on a GPU where it is installed, about its memory accesses");
  add_compat(verify_app, verify.compat, verify.precision);
  add_task_timeout(verify_app, verify.task_timeout);
  add_no_serve(verify_app, verify.no_serve);
  add_output(verify_app, output);

  TryVerb tried;
  CLI::App* try_app =
      app.add_subcommand("try", "Judge what you wrote for a task: kernels for it or a region of it, or a Python file");
  try_app->add_option("task", tried.task, "A Python file with Model and get_inputs")->required()->type_name("TASK.py");
  try_app
      ->add_option("source", tried.source,
                   "Kernels and launches (docs/formats/source.md), or a .py with ModelNew or a function "
                   "(docs/formats/trial.md); without it the regions are listed")
      ->type_name("FILE");
  try_app->add_option("--region", tried.region, "What the source is for: task (the whole), r0, r1, …")
      ->capture_default_str();
  try_app->add_flag("--quick", tried.quick, "One seed instead of five and every kind of data");
  try_app->add_flag("--profile", tried.profile,
                    "Also read the GPU's counters of each launch with ncu, where it is there");
  try_app->add_option("--target", tried.target, backend::choices())->envname("PLANISH_TARGET")->capture_default_str();
  try_app->add_option("--accuracy", tried.accuracy)->envname("PLANISH_ACCURACY")->capture_default_str();
  add_task_timeout(try_app, tried.task_timeout);
  add_no_serve(try_app, tried.no_serve);
  add_output(try_app, output);

  McpVerb mcp;
  CLI::App* mcp_app =
      app.add_subcommand("mcp", "Serve an agent: a Model Context Protocol server on stdin and stdout (docs/agents.md)");
  mcp_app->add_option("--patterns", mcp.patterns, "Where patterns are kept")
      ->envname("PLANISH_PATTERNS")
      ->type_name("FILE");
  add_task_timeout(mcp_app, mcp.task_timeout);
  add_store(mcp_app, mcp.store);

  ExportVerb exported;
  CLI::App* export_app = app.add_subcommand("export", "Give what was shipped another form, or what was tried as data");
  export_app->add_option("what", exported.what, "A run, or a shipped folder")->required()->type_name("RUN_OR_FOLDER");
  export_app
      ->add_option("--form", exported.form,
                   "folder: as shipped; file: one self-contained .py; source: a project to build")
      ->check(CLI::IsMember({"folder", "file", "source"}))
      ->capture_default_str();
  export_app->add_option("--out", exported.out, "What to write; otherwise named after the task, here")
      ->type_name("PATH");
  TrajectoriesVerb trajectories;
  export_app
      ->add_option("--format", trajectories.format,
                   "Of a run, as JSON lines: trajectories (all that was tried), or pairs (PyTorch and its best kernel)")
      ->check(CLI::IsMember({"trajectories", "pairs"}))
      ->excludes("--form");
  add_store(export_app, exported.store);
  add_output(export_app, output);

  SuiteVerb suite;
  CLI::App* suite_app = app.add_subcommand("suite", "Optimise every task of a folder, or judge a folder of solutions");
  suite_app->add_option("folder", suite.folder)->required()->type_name("DIR");
  add_search(suite_app, suite.search);
  suite_app->add_option("--out", suite.out, "Folder for the results")->type_name("DIR");
  suite_app->add_option("--devices", suite.devices, "GPUs to use, by number or UUID, with commas (default: all)")
      ->envname("PLANISH_DEVICES")
      ->type_name("LIST");
  suite_app
      ->add_option("--workers", suite.workers,
                   "Evaluators a device: they prove side by side and time one after the other")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  suite_app
      ->add_option("--ray", suite.ray,
                   "Run on the GPUs of a Ray cluster, or on its machines' CPUs, at this address (host:port, auto)")
      ->excludes("--devices")
      ->type_name("ADDRESS");
  suite_app->add_flag("--resume", suite.resume, "Skip tasks that were finished with the same source and settings");
  suite_app
      ->add_option("--solutions", suite.solutions,
                   "Judge the solutions in this folder: called as the tasks are, or as KernelBench calls them")
      ->type_name("DIR");
  suite_app->add_option("--seeds", suite.seeds, "With --solutions: fresh seeds to test each on")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  suite_app->add_flag("--no-times", suite.no_times, "With --solutions: verdicts alone");
  suite_app
      ->add_option("--baseline-times", suite.baseline_times,
                   "With --solutions: files of times as KernelBench keeps them, to compare with as well")
      ->type_name("FILES");
  add_compat(suite_app, suite.compat, suite.precision);
  add_output(suite_app, output);

  ImportVerb imported;
  CLI::App* import_app = app.add_subcommand("import", "Make tasks and solutions of another collection's files");
  import_app->add_option("from", imported.from, "Its folder; of BackendBench the file of traced calls")
      ->required()
      ->type_name("PATH");
  import_app->add_option("--format", imported.format, "auto, or the collection's name")
      ->check(CLI::IsMember({"auto", "gpu-mode", "flashinfer-bench", "backendbench", "tritonbench"}))
      ->capture_default_str();
  import_app
      ->add_option("--solutions", imported.solutions,
                   "BackendBench: folder of operators' folders; TritonBench: file of predictions")
      ->type_name("PATH");
  import_app->add_option("--out", imported.out, "Folder to write; else planish-import here")->type_name("DIR");
  add_output(import_app, output);

  ServeVerb serve;
  CLI::App* serve_app = app.add_subcommand(
      "serve",
      "Keep an evaluator warm for optimize and verify commands started in this folder (runs until it is idle)");
  serve_app->add_option("--idle", serve.idle, "Time without a command after which it ends")->capture_default_str();
  serve_app->add_flag("--stop", serve.stop, "End the one that runs, after the commands that use it");
  add_output(serve_app, output);

  // One variable a verb: the environment is applied to every verb, also to those that were not named.
  std::string runs_store, doctor_store;
  int limit = 50;
  CLI::App* runs_app = app.add_subcommand("runs", "List what was run");
  runs_app->add_option("--limit", limit)->check(CLI::PositiveNumber)->capture_default_str();
  add_store(runs_app, runs_store);
  add_output(runs_app, output);

  ShowVerb show;
  CLI::App* show_app = app.add_subcommand("show", "Show a run, or one candidate of it with what the judge says");
  show_app->add_option("run", show.run, "Its id, or the beginning of it")->required()->type_name("RUN");
  show_app->add_option("candidate", show.candidate, "A program's hash, or the beginning of it")->type_name("CANDIDATE");
  show_app->add_flag("--replay", show.replay, "Derive every decision again from the store, and compare");
  add_store(show_app, show.store);
  add_output(show_app, output);

  ReportVerb report;
  CLI::App* report_app = app.add_subcommand("report", "Write a run as one HTML page");
  report_app->add_option("run", report.run, "Its id, or the beginning of it")->required()->type_name("RUN");
  report_app->add_option("--out", report.out, "File to write, or a folder; else planish-report-RUN.html here")
      ->type_name("FILE.html");
  add_store(report_app, report.store);
  add_output(report_app, output);

  CLI::App* doctor_app = app.add_subcommand("doctor", "Say what this machine has, and what to do about the rest");
  bool doctor_models = false;
  doctor_app->add_flag(
      "--models", doctor_models,
      "Look at the language models of planish.toml: key, server, name, what they can (asks each, for a "
      "few tokens)");
  add_store(doctor_app, doctor_store);
  add_output(doctor_app, output);

  CLI::App* cache_app = app.add_subcommand("cache", "The cache of compiled kernels");
  cache_app->require_subcommand(1);
  CLI::App* cache_dir_app = cache_app->add_subcommand("dir", "Where it is");
  CLI::App* cache_size_app = cache_app->add_subcommand("size", "How large it is");
  CLI::App* cache_clean_app = cache_app->add_subcommand("clean", "Delete what is in it");
  for (CLI::App* action : {cache_dir_app, cache_size_app, cache_clean_app}) add_output(action, output);

  PatternsCommand patterns_command(app, output);
  EnvironmentCommand environment_command(app, output);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    output.json = wants_json(argc, argv);
    return output.error(usage_error(app, error, {argv + 1, argv + argc}));
  }

  // Before the first child is started: none gets the keys of models.
  const auto config = app["--config"]->as<std::string>();
  if (const auto models = llm::read_models(config); models) {
    llm::hide_keys(*models);
  } else {
    output.json = wants_json(argc, argv);
    return output.error(models.error());
  }

  if (optimize_app->parsed()) {
    optimize.command = typed(argc, argv);
    optimize.config = config;
    for (const CLI::Option* option : optimize_app->get_options()) {
      if (option->count() > 0) optimize.given.push_back(option->get_name());
    }
    return optimize_verb(optimize, output);
  }
  if (verify_app->parsed()) return verify_verb(verify, output);
  if (try_app->parsed()) return try_verb(tried, output);
  if (mcp_app->parsed()) return mcp_verb(mcp, output);
  if (export_app->parsed() && !trajectories.format.empty()) {
    trajectories.run = exported.what;
    trajectories.out = exported.out;
    trajectories.store = exported.store;
    return trajectories_verb(trajectories, output);
  }
  if (export_app->parsed()) return export_verb(exported, output);
  if (import_app->parsed()) return import_verb(imported, output);
  if (serve_app->parsed()) return serve_verb(serve, output);
  if (suite_app->parsed()) return suite_verb(suite, output);
  if (runs_app->parsed()) return runs_verb(runs_store, limit, output);
  if (show_app->parsed()) return show_verb(show, output);
  if (report_app->parsed()) return report_verb(report, output);
  if (doctor_app->parsed() && doctor_models) return doctor_models_verb(config, output);
  if (doctor_app->parsed()) return doctor_verb(doctor_store, output);
  if (auto code = patterns_command.run(config, output)) return *code;
  if (auto code = environment_command.run(output)) return *code;
  if (cache_dir_app->parsed()) return cache_verb(CacheAction::dir, output);
  if (cache_size_app->parsed()) return cache_verb(CacheAction::size, output);
  return cache_verb(CacheAction::clean, output);
}
