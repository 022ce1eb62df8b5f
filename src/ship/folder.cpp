#include "ship/folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include "backend/backend.h"
#include "base/file.h"
#include "base/json.h"
#include "program/program.h"
#include "ship/manifest.h"
#include "ship/neighbours.h"
#include "ship/parts.h"

namespace planish::ship {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> baselines{"eager", "compile", "max_autotune_no_cudagraphs", "max_autotune"};

Status copy_to(const fs::path& from, const fs::path& to) {
  PLANISH_TRY(std::string bytes, read_file(from));
  return write_file(to, bytes);
}

/// Sources and binaries of every kernel as kernels/k0.cu, kernels/k0.cubin, …; returns the binaries' relative paths.
Result<std::vector<std::string>> write_kernels(const ShipRequest& request, const program::Program& program,
                                               const fs::path& folder) {
  if (request.binaries.size() != program.kernels.size()) {
    return fail("bad_request",
                fmt::format("{} binaries for {} kernels", request.binaries.size(), program.kernels.size()));
  }
  std::vector<std::string> binaries;
  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    const program::KernelSource& kernel = program.kernels[k];
    const backend::Language* language = backend::find_language(kernel.language);
    if (language == nullptr)
      return fail("bad_request", fmt::format("kernel {} is in the unknown language `{}`", k, kernel.language));
    PLANISH_CHECK(write_file(folder / "kernels" / fmt::format("k{}.{}", k, language->suffix), kernel.source));
    binaries.push_back(fmt::format("kernels/k{}.{}", k, language->binary));
    PLANISH_CHECK(copy_to(request.binaries[k], folder / binaries.back()));
  }
  return binaries;
}

Status write_constants(const ShipRequest& request, const program::Program& program, const fs::path& folder) {
  std::set<std::string> done;
  for (const program::Buffer& buffer : program.buffers) {
    if (buffer.role != program::Role::constant || !done.insert(buffer.source.blob).second) continue;
    PLANISH_CHECK(copy_to(request.blobs / buffer.source.blob, folder / "blobs" / buffer.source.blob));
  }
  return {};
}

/// The task's own file, and what it imports from beside it.
Status write_reference(const ShipRequest& request, const fs::path& folder) {
  PLANISH_CHECK(copy_to(request.task, folder / "reference.py"));
  PLANISH_TRY(const auto beside, neighbours(request.task));
  for (const auto& [path, file] : beside) PLANISH_CHECK(copy_to(file, folder / "neighbours" / path));
  return {};
}

Status finish(const ShipRequest& request, const fs::path& folder, const std::vector<std::string>& binaries) {
  PLANISH_CHECK(write_file(folder / "evidence.json", request.evidence));
  PLANISH_TRY(Json document, manifest(request, folder, binaries));
  return write_file(folder / "ship.json", document.dump(1) + "\n");
}

/// Somebody's Python, and nothing of ours that would run it unasked.
Status fill_with_solution(const ShipRequest& request, const fs::path& folder) {
  if (fs::is_directory(request.task))
    return fail("bad_request", "a solution takes the place of a task's file, not of a live module");
  PLANISH_CHECK(write_file(folder / "solution.py", request.solution));
  PLANISH_CHECK(write_reference(request, folder));
  return finish(request, folder, {});
}

Status fill(const ShipRequest& request, const fs::path& folder) {
  if (!request.solution.empty()) return fill_with_solution(request, folder);
  std::vector<std::string> binaries;
  if (request.baseline.empty()) {
    PLANISH_TRY(const program::Program program, program::parse(request.program));
    PLANISH_CHECK(write_file(folder / "program.json", program::to_json(program)));
    PLANISH_TRY(binaries, write_kernels(request, program, folder));
    PLANISH_CHECK(write_constants(request, program, folder));
  }
  for (const std::string_view part : python_parts) {
    PLANISH_CHECK(copy_to(request.package / part, folder / fs::path(part).filename()));
  }
  PLANISH_CHECK(copy_to(request.runtime, folder / "libplanish_rt.so"));
  std::error_code ignored;
  if (const fs::path fast = request.runtime.parent_path() / "planish_call.so"; fs::exists(fast, ignored)) {
    PLANISH_CHECK(copy_to(fast, folder / "planish_call.so"));
  }
  // A live module has no source to fall back on but itself: its folder is loaded with planish.load(folder, module).
  if (!fs::is_directory(request.task)) {
    PLANISH_CHECK(write_reference(request, folder));
    PLANISH_CHECK(copy_to(request.package / "ship" / "module.py", folder / "module.py"));
  }
  return finish(request, folder, binaries);
}

/// Whether `folder` may be replaced: it is not there, empty, or made by us, as the file `mark` in it says.
Status may_replace(const fs::path& folder, const char* mark) {
  std::error_code error;
  if (!fs::exists(folder, error) || fs::exists(folder / mark, error)) return {};
  if (fs::is_directory(folder, error) && fs::is_empty(folder, error)) return {};
  return fail("not_shipped", fmt::format("{} exists and is not a shipped folder", folder.string()),
              "give another folder with --out, or remove it");
}

/// Every folder has something that is listed: Python takes an empty one for a package, and something may be put there
/// later.
Status check_folders(const fs::path& folder, const std::set<std::string>& files) {
  std::set<fs::path> expected;
  for (const std::string& file : files) {
    for (fs::path at = fs::path(file).parent_path(); !at.empty(); at = at.parent_path()) expected.insert(at);
  }
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path relative = it->path().lexically_relative(folder);
    if (it->is_directory(error) && !expected.contains(relative))
      return fail("altered", fmt::format("{}: the folder {} was added", folder.string(), relative.string()),
                  "remove it, or ship it again");
  }
  return error ? Status(std::unexpected(file_error(error.value(), "read", folder))) : Status();
}

Status put_in_place(const fs::path& made, const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    if (::rename(made.c_str(), folder.c_str()) == 0) return {};
    return std::unexpected(file_error(errno, "write", folder));
  }
  // Swaps the two in one step where the file system can (RENAME_EXCHANGE = 2), else there is a moment without a folder.
  if (::syscall(SYS_renameat2, AT_FDCWD, made.c_str(), AT_FDCWD, folder.c_str(), 2U) != 0) {
    const fs::path old = made.string() + "-old";
    if (::rename(folder.c_str(), old.c_str()) != 0) return std::unexpected(file_error(errno, "replace", folder));
    if (::rename(made.c_str(), folder.c_str()) != 0) {
      const int number = errno;
      (void)::rename(old.c_str(), folder.c_str());
      return std::unexpected(file_error(number, "write", folder));
    }
    fs::remove_all(old, error);
    return {};
  }
  fs::remove_all(made, error);
  return {};
}

}  // namespace

Status make_folder(const fs::path& wanted, const char* mark, const std::function<Status(const fs::path&)>& fill_in) {
  std::error_code error;
  fs::path folder = fs::absolute(wanted).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  PLANISH_CHECK(may_replace(folder, mark));
  PLANISH_CHECK(make_directories(folder.parent_path()));
  const fs::path made = folder.parent_path() / fmt::format(".tmp-{}-{}", folder.filename().string(), ::getpid());
  fs::remove_all(made, error);
  PLANISH_CHECK(make_directories(made));
  Status done = fill_in(made);
  if (done.has_value()) done = put_in_place(made, folder);
  if (!done.has_value()) fs::remove_all(made, error);
  return done;
}

Status write_folder(const ShipRequest& request) {
  if (request.folder.empty()) return fail("bad_request", "no folder to ship to was given");
  if (!request.baseline.empty() && std::ranges::find(baselines, request.baseline) == baselines.end()) {
    return fail("bad_request", fmt::format("unknown baseline '{}'", request.baseline));
  }
  return make_folder(request.folder, "ship.json", [&](const fs::path& made) { return fill(request, made); });
}

Status check_folder(const fs::path& folder) {
  const char* hint = "ship it again";
  auto text = read_file(folder / "ship.json", most_bytes("ship.json"));
  if (!text.has_value())
    return fail("not_shipped", fmt::format("{} is not a shipped folder: {}", folder.string(), text.error().message),
                hint);
  PLANISH_TRY(Json document, parse_json(*text, "not_shipped", (folder / "ship.json").string()));
  if (!document.is_object() || document.value("schema", Json()) != Json("planish.ship/1") ||
      !document.contains("files") || !document["files"].is_object()) {
    return fail("not_shipped", fmt::format("{}: ship.json is not a planish.ship/1 document", folder.string()), hint);
  }
  // By their names first: what nobody lists is not read, whatever its size.
  PLANISH_TRY(const auto files, files_in(folder));
  const Json& listed = document["files"];
  std::set<std::string> present;
  for (const fs::path& file : files) {
    const std::string path = file.lexically_relative(folder).generic_string();
    if (!listed.contains(path)) return fail("altered", fmt::format("{}: {} was added", folder.string(), path), hint);
    present.insert(path);
  }
  for (const auto& [path, digest] : listed.items()) {
    if (!present.contains(path)) return fail("altered", fmt::format("{}: {} is missing", folder.string(), path), hint);
  }
  PLANISH_CHECK(check_folders(folder, present));
  for (const auto& [path, digest] : listed.items()) {
    auto found = digest_of_file(folder / path, most_bytes(path));
    if (!found.has_value() && found.error().kind == "too_large")
      return fail("altered", found.error().message, "ship it again");
    if (!found.has_value()) return std::unexpected(std::move(found).error());
    if (Json(*found) != digest)
      return fail("altered", fmt::format("{}: {} has changed since it was shipped", folder.string(), path), hint);
  }
  return {};
}

Status check_reference(const fs::path& folder, const fs::path& task) {
  const auto differs = [&](const std::string& path) {
    return fail("altered", fmt::format("{}: {} is not what {} has", folder.string(), path, task.string()),
                "verify it against the task that it was made of, or ship it again");
  };
  std::map<std::string, fs::path> expected;
  if (!fs::is_directory(task)) {
    PLANISH_TRY(const auto beside, neighbours(task));
    for (const auto& [path, file] : beside) expected["neighbours/" + path] = file;
    expected["reference.py"] = task;
  }
  PLANISH_TRY(const auto present, files_in(folder));
  for (const fs::path& file : present) {
    const std::string path = file.lexically_relative(folder).generic_string();
    if (path != "reference.py" && !path.starts_with("neighbours/")) continue;
    const auto original = expected.find(path);
    if (original == expected.end()) return differs(path);
    PLANISH_TRY(const std::string theirs, digest_of_file(file, most_bytes(path)));
    PLANISH_TRY(const std::string ours, digest_of_file(original->second));
    if (theirs != ours) return differs(path);
    expected.erase(original);
  }
  return expected.empty() ? Status() : differs(expected.begin()->first);
}

Status check_graph(const fs::path& folder, const std::string& graph) {
  PLANISH_TRY(const std::string text, read_file(folder / "ship.json"));
  PLANISH_TRY(const Json shipped, parse_json(text, "not_shipped", (folder / "ship.json").string()));
  PLANISH_TRY(const Json document, parse_json(graph, "bad_graph", "graph"));
  PLANISH_TRY(const Json expected, graph_fields(document));
  for (const auto& [field, value] : expected.items()) {
    if (shipped.is_object() && shipped.value(field, Json()) == value) continue;
    return fail("altered", fmt::format("{}: `{}` in ship.json is not the task's", folder.string(), field),
                "ship it again");
  }
  return {};
}

}  // namespace planish::ship
