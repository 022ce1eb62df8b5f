#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class DoctorCommand : public Command {
 public:
  DoctorCommand(CLI::App& app, Output& output) {
    verb_ =
        app.add_subcommand("doctor", "Say what this machine has, and what to do about the rest")->group(group::machine);
    verb_->add_flag("--models", models_,
                    "Look at the language models of planish.toml: key, server, name, what they can (asks each, for a "
                    "few tokens)");
    add_store(verb_, store_);
    add_output(verb_, output);
    add_examples(
        verb_, {{"planish doctor", "devices, compilers, PyTorch"}, {"planish doctor --models", "language models too"}});
  }
  std::optional<int> run(const CommandLine& line, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    return models_ ? doctor_models_verb(line.config, output) : doctor_verb(store_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  std::string store_;
  bool models_ = false;
};

}  // namespace

std::unique_ptr<Command> doctor_command(CLI::App& app, Output& output) {
  return std::make_unique<DoctorCommand>(app, output);
}

}  // namespace planish::cli
