#include "cli/commands/command.h"
#include "cli/commands/help.h"
#include "cli/commands/shared_options.h"
#include "cli/verbs.h"

namespace planish::cli {
namespace {

class McpCommand : public Command {
 public:
  McpCommand(CLI::App& app, Output& /*output*/) {
    verb_ = app.add_subcommand("mcp",
                               "Serve an agent: a Model Context Protocol server on stdin and stdout (docs/agents.md)")
                ->group(group::serve);
    add_patterns_file(verb_, "--patterns", options_.patterns);
    add_task_timeout(verb_, options_.task_timeout);
    add_store(verb_, options_.store);
    verb_->set_help_flag("-h,--help", "Print this");
    add_examples(verb_, {{"planish mcp", "as the command of a server, in an agent's settings"}});
  }
  std::optional<int> run(const CommandLine& line, const Output& output) override {
    if (!verb_->parsed()) return std::nullopt;
    options_.settings = line.settings;
    return mcp_verb(options_, output);
  }

 private:
  CLI::App* verb_ = nullptr;
  McpVerb options_;
};

}  // namespace

std::unique_ptr<Command> mcp_command(CLI::App& app, Output& output) {
  return std::make_unique<McpCommand>(app, output);
}

}  // namespace planish::cli
