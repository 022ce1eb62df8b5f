#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class ServeCommand : public Command {
 public:
  ServeCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("serve",
                               "Keep an evaluator warm for optimize, verify and try commands started in this folder "
                               "(runs until it is idle)")
                ->group(group::serve);
    verb_->add_option("--idle", options_.idle, "Time without a command after which it ends")
        ->type_name("TIME")
        ->capture_default_str();
    verb_->add_flag("--stop", options_.stop, "End the one that runs, after the commands that use it");
    add_output(verb_, output);
    add_examples(verb_, {{"planish serve &", "later commands in this folder start in a tenth of a second"},
                         {"planish serve --stop", "end it"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return serve_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  ServeVerb options_;
};

}  // namespace

std::unique_ptr<Command> serve_command(CLI::App& app, Output& output) {
  return std::make_unique<ServeCommand>(app, output);
}

}  // namespace planish::cli
