#include "cli/environment.h"

#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/values.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class EnvironmentCommand : public Command {
 public:
  EnvironmentCommand(CLI::App& app, Output& output) {
    EnvironmentVerb& o = options_;
    verb_ = app.add_subcommand("environment", "Serve the judge over HTTP, as the environment of a trainer")
                ->group(group::serve);
    begin_group(verb_, "Tasks");
    verb_->add_option("--tasks", o.tasks, "Folder of tasks that completions may be for, as of a suite")
        ->type_name("DIR");
    verb_->add_flag("--task-sources", o.task_sources,
                    "Also take tasks that are sent: their code runs with your rights, so only from who may do that");
    begin_group(verb_, "Address");
    verb_->add_option("--host", o.host, "Address to listen at; beyond loopback a token is needed")
        ->type_name("ADDRESS")
        ->capture_default_str();
    verb_->add_option("--port", o.port, "Port to listen at; 0: one that is free")->capture_default_str();
    verb_->add_option("--token-file", o.token_file, "File whose first line clients must know (else: PLANISH_TOKEN)")
        ->type_name("FILE");
    begin_group(verb_, "Proof, times and rewards");
    add_accuracy(verb_, o.accuracy);
    verb_->add_option("--seeds", o.seeds, "Fresh seeds to test each completion on")
        ->check(whole_number(1, 1000))
        ->capture_default_str();
    verb_->add_flag("--no-times", o.no_times, "Verdicts alone: no speed-ups");
    verb_->add_option("--baselines", o.baselines, "What speed-ups are against: none (eager alone), all, or a list")
        ->type_name("LIST")
        ->capture_default_str();
    verb_
        ->add_option("--reward", o.reward,
                     "Weights of format, compiled, correct and speedup, and the cap of a speed-up "
                     "(correct=0.3,speedup=1,cap=10)")
        ->type_name("LIST");
    begin_group(verb_, "Machine");
    add_target(verb_, o.target);
    verb_->add_option("--devices", o.devices, "GPUs to use, by number or UUID, with commas (default: all)")
        ->envname("PLANISH_DEVICES")
        ->type_name("LIST");
    verb_
        ->add_option("--workers", o.workers,
                     "Evaluators a device: they prove side by side and time one after the other")
        ->check(whole_number(1, 64))
        ->capture_default_str();
    verb_->add_option("--warm-tasks", o.warm_tasks, "Tasks that each evaluator keeps captured")
        ->check(whole_number(0, 1000))
        ->capture_default_str();
    begin_group(verb_, "Limits");
    verb_->add_option("--task-timeout", o.task_timeout, "Time for a task or completion to be imported and run once")
        ->type_name("TIME")
        ->capture_default_str();
    verb_->add_option("--max-time", o.max_time, "Time to judge one completion in")
        ->type_name("TIME")
        ->capture_default_str();
    verb_->add_option("--queue", o.queue, "Completions that may wait for a device")
        ->check(whole_number(1, 1'000'000))
        ->capture_default_str();
    verb_->add_option("--drain", o.drain, "Time that what was taken gets when the endpoint is stopped")
        ->type_name("TIME")
        ->capture_default_str();
    begin_group(verb_, "Output");
    verb_->add_flag("--json", output.json, "Say where it listens as one document on stdout");
    verb_->add_flag("--quiet", output.quiet, "No line for each completion");
    verb_->set_help_flag("-h,--help", "Print this");
    add_examples(verb_, {{"planish environment --tasks tasks --port 8000", "rewards for completions over HTTP"}});
  }
  std::optional<int> run(const CommandLine& line, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    options_.settings = line.settings;
    return environment_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  EnvironmentVerb options_;
};

}  // namespace

std::unique_ptr<Command> environment_command(CLI::App& app, Output& output) {
  return std::make_unique<EnvironmentCommand>(app, output);
}

}  // namespace planish::cli
