#include "cli/stdin_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "cli/interrupt.h"
#include "cli/options.h"

namespace planish::cli {
namespace {

constexpr const char* from_stdin = "-";

Result<std::string> read_stdin() {
  constexpr std::size_t most = std::size_t{64} << 20U;  // as of files
  std::string text;
  std::array<char, std::size_t{1} << 16U> part{};
  for (;;) {
    const ssize_t got = ::read(STDIN_FILENO, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail("unreadable", fmt::format("stdin: {}", std::strerror(errno)), "pipe the file's text into it");
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > most) return fail("too_large", "stdin: more than 64 MiB", "pipe one Python file into it");
  }
}

}  // namespace

Result<GivenFile> file_or_stdin(const std::string& path, const char* what) {
  if (path != from_stdin) {
    PLANISH_TRY(auto file, existing_file(path, what));
    return GivenFile{std::move(file), std::nullopt};
  }
  PLANISH_TRY(const auto text, read_stdin());
  if (text.empty()) return fail("usage", "nothing came on stdin", "pipe the file's text into it, or name a file");
  (void)watch_interrupts();
  PLANISH_TRY(auto room, OwnedFolder::create(stdin_folder_prefix));
  const std::filesystem::path file = room.path() / "stdin.py";
  PLANISH_CHECK(write_file(file, text));
  return GivenFile{file, std::move(room)};
}

Status check_one_stdin(const std::string& task, const std::string& solution) {
  if (task != from_stdin || solution != from_stdin) return {};
  return fail("usage", "task and solution cannot both come on stdin", "name a file for one of them");
}

}  // namespace planish::cli
