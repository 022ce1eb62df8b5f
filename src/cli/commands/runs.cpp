#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/values.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class RunsCommand : public Command {
 public:
  RunsCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("runs", "List what was run")->group(group::runs);
    verb_->add_option("--limit", limit_, "Most runs to list, the newest first")
        ->check(whole_number(1))
        ->capture_default_str();
    add_store(verb_, store_);
    add_output(verb_, output);
    add_examples(verb_, {{"planish runs", "the last 50"}, {"planish runs --json", "for a script"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return runs_verb(store_, limit_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  std::string store_;
  int limit_ = 50;
};

}  // namespace

std::unique_ptr<Command> runs_command(CLI::App& app, Output& output) {
  return std::make_unique<RunsCommand>(app, output);
}

}  // namespace planish::cli
