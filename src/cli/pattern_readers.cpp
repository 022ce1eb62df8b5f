#include "cli/pattern_readers.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/owned_folder.h"
#include "base/subprocess.h"
#include "worker/printable.h"

namespace planish::cli {
namespace {

namespace fs = std::filesystem;

constexpr double limit_seconds = 600;
constexpr std::size_t most_memory = 4ULL << 30U;
/// More than the readers write (python/planish/patterns/rows.py): what is larger, something else wrote.
constexpr std::uintmax_t most_bytes = 600ULL << 20U;

/// Runs `python -m module ARGUMENTS… scratch/rows` as a guest, and gives what it wrote there.
Result<std::string> run_reader(const worker::Toolbox& tools, const std::string& module, const fs::path& scratch,
                               std::vector<std::string> arguments) {
  const fs::path rows = scratch / "rows.jsonl";
  arguments.push_back(rows.string());
  SpawnOptions options = tools.guest_module(module, arguments, {scratch, "cpu", most_memory, false});
  PLANISH_TRY(auto ended, run_command(std::move(options), limit_seconds));
  const auto failed = [&](std::string why) {
    return fail(
        "reader_failed", fmt::format("{} did not read the files: {}", module, why),
        "`planish doctor` says whether Python is there; import a part of the folder to find the file that stops it");
  };
  if (!ended.status.ok()) {
    const std::string said = worker::printable(ended.output);
    return failed(said.empty() ? ended.status.text()
                               : fmt::format("{}: {}", ended.status.text(),
                                             said.substr(said.size() > 600 ? said.size() - 600 : 0)));
  }
  std::error_code ignored;
  if (!fs::is_regular_file(fs::symlink_status(rows, ignored))) return failed("it left nothing");
  if (fs::file_size(rows, ignored) > most_bytes) return failed("it left more than an import may hold");
  return read_file(rows);
}

}  // namespace

patterns::Readers pattern_readers(const worker::Toolbox& tools) {
  patterns::Readers out;
  out.triton = [tools](const std::vector<patterns::SourceFile>& files) -> Result<std::string> {
    PLANISH_TRY(auto scratch, OwnedFolder::create(worker::guest_folder_prefix));
    std::string list;
    for (const auto& file : files) {
      // A name with a line end in it would be two: such a file is left out.
      if (file.path.string().find_first_of("\n\t") == std::string::npos)
        list += fmt::format("{}\t{}\n", fs::absolute(file.path).string(), file.name);
    }
    const fs::path listing = scratch.path() / "files.txt";
    PLANISH_CHECK(write_file(listing, list));
    return run_reader(tools, "planish.patterns.triton", scratch.path(), {listing.string()});
  };
  out.generator = [tools](const fs::path& folder) -> Result<std::string> {
    PLANISH_TRY(auto scratch, OwnedFolder::create(worker::guest_folder_prefix));
    return run_reader(tools, "planish.patterns.cutlass", scratch.path(), {fs::absolute(folder).string()});
  };
  return out;
}

}  // namespace planish::cli
