#include <cstdio>

#include "cli/commands/command.h"
#include "cli/commands/completion_script.h"
#include "cli/commands/help.h"
#include "cli/commands/values.h"
#include "cli/exit_code.h"

namespace planish::cli {
namespace {

class CompletionCommand : public Command {
 public:
  explicit CompletionCommand(CLI::App& app) : app_(app) {
    verb_ =
        app.add_subcommand("completion", "Print a script that completes commands in your shell")->group(group::machine);
    verb_->add_option("shell", shell_, "Shell to complete in")->required()->check(one_of({"bash", "zsh", "fish"}));
    verb_->set_help_flag("-h,--help", "Print this");
    add_examples(verb_, {{"source <(planish completion bash)", "in ~/.bashrc, or ~/.zshrc with zsh"},
                         {"planish completion fish > ~/.config/fish/completions/planish.fish", "once"}});
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& /*output*/) override {
    if (!verb_->parsed()) return std::nullopt;
    std::fputs(completion_script(app_, shell_).c_str(), stdout);
    return exit_code::success;
  }

 private:
  CLI::App& app_;
  CLI::App* verb_ = nullptr;
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> completion_command(CLI::App& app, Output& /*output*/) {
  return std::make_unique<CompletionCommand>(app);
}

}  // namespace planish::cli
