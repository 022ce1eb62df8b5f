#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/values.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class SuiteCommand : public Command {
 public:
  SuiteCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("suite", "Optimise every task of a folder, or judge a folder of solutions")
                ->group(group::many);
    verb_->add_option("folder", options_.folder, "Tasks: Python files with Model and get_inputs")
        ->required()
        ->type_name("DIR");
    add_search(verb_, options_.search);
    begin_group(verb_, "Files");
    verb_->add_option("--out", options_.out, "Folder for the results; otherwise planish-suite, here")
        ->type_name("DIR")
        ->each(keep_from_guests);
    add_store(verb_, options_.search.store);
    verb_->add_flag("--resume", options_.resume, "Skip tasks that were finished with the same source and settings");
    begin_group(verb_, "Which tasks");
    verb_->add_option("-k", options_.choose, "Those whose names hold this: 'softmax', 'norm and not (large or bf16)'")
        ->type_name("EXPRESSION");
    verb_->add_flag("-x,--exitfirst", options_.stop_at_first,
                    "Begin no other behind the first that fails or is refused");
    begin_group(verb_, "Machines");
    verb_->add_option("--devices", options_.devices, "GPUs to use, by number or UUID, with commas (default: all)")
        ->envname("PLANISH_DEVICES")
        ->type_name("LIST");
    verb_
        ->add_option("--workers", options_.workers,
                     "Evaluators a device: they prove side by side and time one after the other")
        ->check(whole_number(1, 64))
        ->capture_default_str();
    verb_
        ->add_option("--ray", options_.ray,
                     "Run on the GPUs of a Ray cluster, or on its machines' CPUs, at this address (host:port, auto)")
        ->excludes("--devices")
        ->type_name("ADDRESS");
    begin_group(verb_, "Solutions");
    verb_
        ->add_option("--solutions", options_.solutions,
                     "Judge the solutions in this folder: called as the tasks are, or as KernelBench calls them")
        ->type_name("DIR");
    verb_->add_option("--seeds", options_.seeds, "With --solutions: fresh seeds to test each on")
        ->check(whole_number(1, 1000))
        ->capture_default_str();
    verb_->add_flag("--no-times", options_.no_times, "With --solutions: verdicts alone");
    verb_
        ->add_option("--baseline-times", options_.baseline_times,
                     "With --solutions: files of times as KernelBench keeps them, to compare with as well")
        ->type_name("FILES");
    add_compat(verb_, options_.compat, options_.precision);
    add_output(verb_, output);
    add_format(verb_, output);
    add_examples(verb_, {{"planish suite tasks --budget 30s", "every task of the folder, each with 30 s of search"},
                         {"planish suite tasks --resume", "go on with a suite that was interrupted"},
                         {"planish suite tasks -k 'norm and not large' -x", "some of them, until one fails"},
                         {"planish suite tasks --solutions answers", "judge answers instead of searching"}});
  }
  std::optional<int> run(const CommandLine& line, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    options_.settings = line.settings;
    return suite_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  SuiteVerb options_;
};

}  // namespace

std::unique_ptr<Command> suite_command(CLI::App& app, Output& output) {
  return std::make_unique<SuiteCommand>(app, output);
}

}  // namespace planish::cli
