#include "cli/serve.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/channel.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "cli/evaluator.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/verbs.h"

extern char** environ;  // NOLINT: POSIX has it without a header

namespace planish::cli {
namespace {

namespace fs = std::filesystem;

/// Variables that say where a command stands and how it talks, not what is computed. PLANISH_HIDDEN has what --store
/// and --out name, which each command tells whoever it joins.
bool says_nothing(std::string_view entry) {
  constexpr std::string_view prefixes[] = {
      "PLANISH_EVALUATOR=", "PLANISH_BUDGET=",   "PLANISH_EVALS=",    "PLANISH_SEED=",  "PLANISH_STORE=",
      "PLANISH_OUT=",       "PLANISH_MAX_TIME=", "PLANISH_NO_SERVE=", "PLANISH_HIDDEN="};
  constexpr std::string_view matter[] = {
      "PLANISH_", "CUDA", "NVIDIA", "TORCH", "PYTORCH",   "TRITON", "PYTHON", "OMP_", "MKL",
      "KMP_",     "LD_",  "PATH=",  "HOME=", "XDG_CACHE", "TMPDIR", "CC=",    "CXX=", "GOMP"};
  const auto starts = [entry](std::string_view prefix) { return entry.starts_with(prefix); };
  return std::ranges::any_of(prefixes, starts) || std::ranges::none_of(matter, starts);
}

std::string fingerprint() {
  std::error_code ignored;
  const fs::path program = executable_path();
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!says_nothing(*entry)) entries.emplace_back(*entry);
  }
  std::ranges::sort(entries);
  std::string all = program.string();
  struct stat info{};
  if (::stat(program.c_str(), &info) == 0) all += fmt::format("\n{}.{}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  all += "\n" + fs::current_path(ignored).string();
  for (const std::string& entry : entries) all += "\n" + entry;
  return sha256_hex(all).substr(0, 24);
}

int stop(const fs::path& socket, const Output& output) {
  auto channel = Channel::connect(socket);
  if (!channel) {
    return output.error({"no_server",
                         "no evaluator of this build, folder and environment is being served",
                         {},
                         "planish serve starts one"});
  }
  const auto asked = channel->send(dump_json(Json{{"id", 1}, {"method", "stop"}}), {}, deadline_in(10));
  const auto answered = asked ? channel->receive(deadline_in(10)) : Result<std::string>(std::unexpected(asked.error()));
  if (!answered) return output.error(answered.error());
  output.result(dump_json(Json{{"schema_version", 1}, {"stopped", socket.string()}}),
                "it ends with its last command\n");
  return exit_code::success;
}

}  // namespace

Result<fs::path> serve_socket() {
  const fs::path folder = runtime_dir() / fmt::format("planish-serve-{}", ::geteuid());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return std::unexpected(file_error(errno, "create", folder));
  struct stat info{};
  if (::lstat(folder.c_str(), &info) != 0) return std::unexpected(file_error(errno, "read", folder));
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 022) != 0) {
    return fail("permission_denied", fmt::format("{} is not this user's alone", folder.string()), "remove it");
  }
  return folder / (fingerprint() + ".sock");
}

int serve_verb(const ServeVerb& options, const Output& output) {
  const auto socket = serve_socket();
  if (!socket) return output.error(socket.error());
  if (options.stop) return stop(*socket, output);
  const auto idle = parse_limit(options.idle);
  if (!idle) return output.error(idle.error());
  // Of two that start at once the second would take the first one's place.
  const auto only = FileLock::try_acquire(socket->string() + ".lock");
  if (!only && only.error().kind != "busy") return output.error(only.error());
  if (!only) return output.error({"busy", "one is being served already", {}, "planish serve --stop ends it"});
  output.result(
      dump_json(Json{{"schema_version", 1}, {"socket", socket->string()}, {"idle_seconds", *idle}}),
      fmt::format("an evaluator stays warm for commands started in this folder, with this environment, until none "
                  "came for {}\n",
                  options.idle));
  return run_evaluator({"--socket", socket->string(), "--idle", fmt::format("{}", *idle), "--ready", "1"});
}

}  // namespace planish::cli
