#include "cli/task_syntax.h"

#include <fmt/format.h>

#include <system_error>

#include "base/subprocess.h"
#include "worker/toolbox.h"

namespace planish::cli {
namespace {

/// Compiles and runs nothing; exit status 9 says that the error printed is the file's.
constexpr const char* script = R"(
import sys
try:
    compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')
except SyntaxError as error:
    line = f', line {error.lineno}: {(error.text or "").strip()}' if error.lineno else ''
    print(f'{type(error).__name__}: {error.msg}{line}')
    sys.exit(9)
except ValueError as error:
    print(f'{type(error).__name__}: {error}')
    sys.exit(9)
)";
constexpr int files_fault = 9;
constexpr double patience_seconds = 20;

}  // namespace

Status check_syntax(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  SpawnOptions options;
  // -I -S: nothing of the current folder and no site packages.
  options.command = {
      worker::Toolbox::resolve().python.string(), "-I", "-S", "-W", "ignore", "-c", script, file.string()};
  const auto ended = run_command(options, patience_seconds);
  if (!ended || ended->status.code != files_fault || ended->status.signal != 0) return {};
  std::string said = ended->output;
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return fail("not_python", fmt::format("{}: not Python: {}", file.string(), said), "mend the file, then try again");
}

}  // namespace planish::cli
