#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class CacheCommand : public Command {
 public:
  CacheCommand(CLI::App& app, Output& output) {
    verb_ = app.add_subcommand("cache", "The cache of compiled kernels")->group(group::machine);
    verb_->require_subcommand(1);
    dir_ = add_action(verb_, "dir", "Where it is");
    size_ = add_action(verb_, "size", "How large it is");
    clean_ = add_action(verb_, "clean", "Delete what is in it");
    for (CLI::App* action : {dir_, size_, clean_}) add_output(action, output);
  }
  std::optional<int> run(const CommandLine& /*line*/, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    if (dir_->parsed()) return cache_verb(CacheAction::dir, output);
    if (size_->parsed()) return cache_verb(CacheAction::size, output);
    return cache_verb(CacheAction::clean, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  CLI::App* dir_ = nullptr;
  CLI::App* size_ = nullptr;
  CLI::App* clean_ = nullptr;
};

}  // namespace

std::unique_ptr<Command> cache_command(CLI::App& app, Output& output) {
  return std::make_unique<CacheCommand>(app, output);
}

}  // namespace planish::cli
