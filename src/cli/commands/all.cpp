#include "cli/commands/command.h"

namespace planish::cli {

const std::vector<MakeCommand>& all_commands() {
  static const std::vector<MakeCommand> all{
      optimize_command,    verify_command,   try_command,    runs_command,   show_command,      report_command,
      export_command,      rm_command,       suite_command,  import_command, serve_command,     mcp_command,
      environment_command, patterns_command, doctor_command, cache_command,  completion_command};
  return all;
}

}  // namespace planish::cli
