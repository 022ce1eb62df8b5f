#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class TryCommand : public Command {
 public:
  TryCommand(CLI::App& app, Output& output) {
    verb_ =
        app.add_subcommand("try", "Judge what you wrote for a task: kernels for it or a region of it, or a Python file")
            ->group(group::optimize);
    verb_->add_option("task", options_.task, "A Python file with Model and get_inputs")
        ->required()
        ->type_name("TASK.py");
    verb_
        ->add_option("source", options_.source,
                     "Kernels and launches (docs/formats/source.md), or a .py with ModelNew or a function "
                     "(docs/formats/trial.md), - for stdin; without it the regions are listed")
        ->type_name("FILE");
    verb_->add_option("--region", options_.region, "What the source is for: task (the whole), r0, r1, …")
        ->capture_default_str();
    verb_->add_flag("--quick", options_.quick, "One seed instead of five and every kind of data");
    verb_->add_flag("--profile", options_.profile,
                    "Also read the GPU's counters of each launch with ncu, where it is there");
    verb_->add_flag("--watch", options_.watch, "Judge again whenever one of both files is saved, until Ctrl-C");
    add_target(verb_, options_.target);
    add_accuracy(verb_, options_.accuracy);
    add_task_timeout(verb_, options_.task_timeout);
    add_no_serve(verb_, options_.no_serve);
    add_output(verb_, output);
    add_examples(verb_, {{"planish try model.py", "list the regions there are kernels to write for"},
                         {"planish try model.py kernels.txt --region r0", "judge kernels for one of them"},
                         {"planish try model.py answer.py --quick", "a first look at a ModelNew"},
                         {"planish try model.py answer.py --quick --watch", "the same after each save"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return try_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  TryVerb options_;
};

}  // namespace

std::unique_ptr<Command> try_command(CLI::App& app, Output& output) {
  return std::make_unique<TryCommand>(app, output);
}

}  // namespace planish::cli
