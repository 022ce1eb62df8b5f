#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/values.h"
#include "cli/trajectories.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class ExportCommand : public Command {
 public:
  ExportCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("export", "Give what was shipped another form, or what was tried as data")
                ->group(group::runs);
    verb_->add_option("run", options_.what, "A run (its id, the beginning of it, or latest), or a shipped folder")
        ->required()
        ->type_name("RUN_OR_FOLDER");
    verb_
        ->add_option("--form", options_.form,
                     "folder: as shipped; file: one self-contained .py; source: a project to build; hub: a folder for "
                     "the package kernels")
        ->check(one_of({"folder", "file", "source", "hub"}))
        ->capture_default_str();
    verb_->add_option("--out", options_.out, "What to write; otherwise named after the task, here")->type_name("PATH");
    verb_
        ->add_option("--format", trajectories_.format,
                     "Of a run, as JSON lines: trajectories (all that was tried), or pairs (PyTorch and its best "
                     "kernel); csv: a "
                     "table of its trials")
        ->check(one_of({"trajectories", "pairs", "csv"}))
        ->excludes("--form");
    verb_->add_flag("--original", options_.original, "Also export what gained nothing: the original, as it ships");
    add_store(verb_, options_.store);
    add_output(verb_, output);
    add_examples(verb_,
                 {{"planish export latest --form file", "one .py that needs PyTorch alone"},
                  {"planish export latest --form source", "the kernels as a project to read and build"},
                  {"planish export latest --form hub", "a folder that the package kernels loads, and its hub takes"},
                  {"planish export latest --format pairs --out pairs.jsonl", "PyTorch and its best kernel, as data"},
                  {"planish export latest --format csv --out trials.csv", "what was tried, as a data frame reads it"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    if (trajectories_.format.empty()) return export_verb(options_, output);
    trajectories_.run = options_.what;
    trajectories_.out = options_.out;
    trajectories_.store = options_.store;
    return trajectories_verb(trajectories_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  ExportVerb options_;
  TrajectoriesVerb trajectories_;
};

}  // namespace

std::unique_ptr<Command> export_command(CLI::App& app, Output& output) {
  return std::make_unique<ExportCommand>(app, output);
}

}  // namespace planish::cli
