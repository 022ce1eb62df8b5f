#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/commands/values.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class RmCommand : public Command {
 public:
  RmCommand(CLI::App& app, Output& output) {
    verb_ =
        app.add_subcommand("rm", "Remove runs from the store; what they shipped stays where it is")->group(group::runs);
    verb_->add_option("run", options_.runs, "Their ids, the beginnings of them, or latest")->type_name("RUN");
    verb_->add_option("--keep", options_.keep, "Remove all but so many of the newest")->check(whole_number(0));
    verb_
        ->add_option("--to", options_.megabytes,
                     "Remove the oldest until the store takes no more than so many megabytes")
        ->check(whole_number(0));
    add_store(verb_, options_.store);
    add_output(verb_, output);
    add_examples(verb_, {{"planish rm 20261127-222216-fc89", "one run"},
                         {"planish rm --keep 20", "all but the last 20"},
                         {"planish rm --to 500", "the oldest, until 500 MB are left"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return rm_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  RmVerb options_;
};

}  // namespace

std::unique_ptr<Command> rm_command(CLI::App& app, Output& output) {
  return std::make_unique<RmCommand>(app, output);
}

}  // namespace planish::cli
