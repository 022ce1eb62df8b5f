#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class ShowCommand : public Command {
 public:
  ShowCommand(CLI::App& app, Output& output) {
    verb_ =
        app.add_subcommand("show", "Show a run, or one candidate of it with what the judge says")->group(group::runs);
    verb_->add_option("run", options_.run, "Its id, the beginning of it, or latest")->required()->type_name("RUN");
    verb_->add_option("candidate", options_.candidate, "A program's hash, or the beginning of it")
        ->type_name("CANDIDATE");
    verb_->add_flag("--replay", options_.replay, "Derive every decision again from the store, and compare");
    add_store(verb_, options_.store);
    add_output(verb_, output);
    add_examples(verb_, {{"planish show latest", "the last run"},
                         {"planish show latest 3f9a", "one of its candidates, with its source"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return show_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  ShowVerb options_;
};

}  // namespace

std::unique_ptr<Command> show_command(CLI::App& app, Output& output) {
  return std::make_unique<ShowCommand>(app, output);
}

}  // namespace planish::cli
