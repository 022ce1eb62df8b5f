#include "session/shipped_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "program/program.h"
#include "ship/folder.h"
#include "ship/parts.h"
#include "worker/compiler.h"

namespace planish::session {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> altered(const fs::path& folder, const std::string& what,
                               std::string hint = "ship it again with `planish optimize`") {
  return fail("altered", fmt::format("{}: {}", folder.string(), what), std::move(hint));
}

constexpr std::uintmax_t most_of_manifest = std::uintmax_t{64} << 20U;

bool stays_inside(const std::string& path) {
  const fs::path relative(path);
  return !path.empty() && relative.is_relative() &&
         std::ranges::none_of(relative, [](const fs::path& part) { return part == ".."; });
}

/// Where this version has what it puts into a folder under that name; empty where it puts nothing there.
fs::path own_part(const fs::path& name, const worker::Toolbox& tools) {
  const fs::path package = tools.python_path / "planish", libraries = tools.rt_library.parent_path();
  if (name.has_parent_path()) return {};
  if (name == "libplanish_rt.so") return tools.rt_library;
  if (name == "planish_call.so") return libraries / name;
  if (name == "module.py") return package / "ship" / name;
  for (const std::string_view part : ship::python_parts) {
    if (fs::path(part).filename() == name) return package / part;
  }
  return {};
}

/// What is compared with the task, the program and the evidence.
bool is_of_the_task(const std::string& path) {
  constexpr std::string_view files[] = {"reference.py", "solution.py", "program.json", "evidence.json"};
  constexpr std::string_view folders[] = {"neighbours/", "kernels/", "blobs/"};
  return std::ranges::find(files, path) != std::ranges::end(files) ||
         std::ranges::any_of(folders, [&](std::string_view folder) { return path.starts_with(folder); });
}

/// Every file that is listed is one that Planish ships, and what it holds of ours is ours.
Status parts_are_known(const fs::path& folder, const Json& files, const worker::Toolbox& tools) {
  for (const auto& [path, digest] : files.items()) {
    if (path.starts_with("blobs/") && digest != Json(path.substr(std::string_view("blobs/").size())))
      return altered(folder, fmt::format("{} is not what its name says", path));
    if (is_of_the_task(path)) continue;
    const fs::path original = own_part(path, tools);
    if (original.empty()) return altered(folder, fmt::format("{} is nothing that Planish ships", path));
    PLANISH_TRY(const std::string shipped, read_file(folder / path));
    const auto ours = read_file(original);
    if (!ours.has_value() || *ours != shipped) {
      return altered(folder, fmt::format("{} is not what this version of Planish ships", path),
                     "verify it with the version that made it, or ship it again");
    }
  }
  return {};
}

/// A folder has all files of its mode, and none of another: what lies there unused today is what somebody imports
/// tomorrow.
Status only_what_is_due(const fs::path& folder, const Json& files, std::string_view mode,
                        const program::Program* program) {
  std::set<std::string> due{"evidence.json"};
  if (mode == "solution") {
    due.insert("solution.py");
  } else {
    due.insert("libplanish_rt.so");
    for (const std::string_view part : ship::python_parts) due.insert(fs::path(part).filename().string());
    if (files.contains("reference.py")) due.insert("module.py");
  }
  if (program != nullptr) {
    due.insert("program.json");
    for (std::size_t k = 0; k < program->kernels.size(); ++k) {
      const backend::Language* language = backend::find_language(program->kernels[k].language);
      if (language == nullptr) return altered(folder, fmt::format("kernel {} is in an unknown language", k));
      for (const auto& suffix : {language->suffix, language->binary})
        due.insert(fmt::format("kernels/k{}.{}", k, suffix));
    }
    for (const program::Buffer& buffer : program->buffers) {
      if (buffer.role == program::Role::constant) due.insert("blobs/" + buffer.source.blob);
    }
  }
  for (const std::string& path : due) {
    if (!files.contains(path)) return altered(folder, fmt::format("{} is missing", path));
  }
  for (const auto& [path, digest] : files.items()) {
    const bool optional =
        (path == "planish_call.so" && mode != "solution") || path == "reference.py" || path.starts_with("neighbours/");
    if (!optional && !due.contains(path))
      return altered(folder, fmt::format("{} is nothing that a folder of mode `{}` has", path, mode));
  }
  return {};
}

/// The compiler's name that g++ leaves in an object; empty where there is none.
std::string compiler_of(std::string_view binary) {
  const std::size_t at = binary.find("GCC: (");
  if (at == std::string_view::npos) return {};
  return std::string(binary.substr(at, std::min(binary.find('\0', at), binary.size()) - at));
}

Status compare_kernels(const fs::path& folder, const program::Program& program, const Json& manifest,
                       const worker::Toolbox& tools, ShippedFindings& findings) {
  const Json binaries = manifest.value("binaries", Json::array());
  if (!binaries.is_array() || binaries.size() != program.kernels.size())
    return altered(folder, fmt::format("{} binaries for {} kernels", binaries.size(), program.kernels.size()));
  const bool on_host = backend::named(program.target).on_host;
  std::optional<worker::Compiler> compiler;
  PLANISH_TRY(const auto scratch, TempDir::create("planish-verify-"));
  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    const program::KernelSource& kernel = program.kernels[k];
    const backend::Language* language = backend::find_language(kernel.language);
    if (language == nullptr) return altered(folder, fmt::format("kernel {} is in an unknown language", k));
    const std::string expected = fmt::format("kernels/k{}.{}", k, language->binary);
    if (binaries[k] != Json(expected)) return altered(folder, fmt::format("kernel {}'s binary is not {}", k, expected));
    PLANISH_TRY(const std::string source, read_file(folder / "kernels" / fmt::format("k{}.{}", k, language->suffix)));
    if (source != kernel.source) return altered(folder, fmt::format("kernel {}'s source is not the program's", k));
    PLANISH_TRY(const std::string binary, read_file(folder / expected));
    if (!compiler.has_value()) {
      PLANISH_TRY(compiler, worker::Compiler::start(tools));
    }
    // A cache of its own: what lies in the user's has been made before, and not by this.
    auto made = compiler->compile(
        {kernel.language, kernel.source, kernel.entry, kernel.flags, program.arch, scratch.path().string(), 120});
    if (!made.has_value()) {
      findings.notes.push_back(fmt::format("kernel {} could not be compiled here ({}): its binary was taken as it is",
                                           k, made.error().kind.name()));
      findings.untraced |= on_host;
      continue;
    }
    PLANISH_TRY(const std::string again, read_file(made->path));
    if (again == binary) continue;
    const std::string mark = compiler_of(binary);
    if (on_host && (mark.empty() || mark == compiler_of(again)))
      return altered(folder, fmt::format("kernel {}'s binary is not what its source compiles to", k));
    findings.notes.push_back(
        fmt::format("kernel {} was compiled by another compiler: its binary could not be compared with its source", k));
    findings.untraced |= on_host;  // the mark is in the binary, so a forger writes it as well
  }
  return {};
}

/// The median as it is taken of samples everywhere.
double median_of(std::vector<double> samples) {
  std::ranges::sort(samples);
  const std::size_t n = samples.size();
  return n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
}

Status check_times(const fs::path& folder, const Json& times) {
  for (const auto& [name, time] : times.items()) {
    if (!time.is_object()) return altered(folder, "evidence.json: no times under " + name);
    if (time.contains("error")) continue;
    const Json samples = time.value("samples_ms", Json::array());
    std::vector<double> values;
    for (const Json& sample : samples) {
      if (sample.is_number()) values.push_back(sample.get<double>());
    }
    if (values.empty() || values.size() != samples.size() || !time.contains("median_ms") ||
        !time["median_ms"].is_number())
      return altered(folder, fmt::format("evidence.json: the times of {} have no samples", name));
    const double median = median_of(values), stated = time["median_ms"].get<double>();
    if (!(std::fabs(median - stated) <= 1e-6 * std::max(std::fabs(median), 1e-12)))
      return altered(
          folder, fmt::format("evidence.json: {} ms are stated for {}, and its samples have a median of {} ms", stated,
                              name, median));
  }
  return {};
}

Status check_evidence(const fs::path& folder, const program::Program* program) {
  auto text = read_file(folder / "evidence.json");
  if (!text.has_value()) return altered(folder, "evidence.json is missing");
  auto parsed = parse_json(*text, "altered", (folder / "evidence.json").string());
  if (!parsed.has_value()) return altered(folder, "evidence.json is no JSON");
  const Json& evidence = *parsed;
  if (!evidence.is_object() || evidence.value("schema", Json()) != Json("planish.evidence/1") ||
      !evidence.contains("times") || !evidence["times"].is_object())
    return altered(folder, "evidence.json is no planish.evidence/1 document");
  PLANISH_CHECK(check_times(folder, evidence["times"]));
  if (program == nullptr) return {};
  const Json kernels = evidence.value("kernels", Json::array());
  if (!kernels.is_array() || kernels.size() != program->kernels.size())
    return altered(folder, "evidence.json speaks of other kernels");
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    const Json& kernel = kernels[k];
    const program::KernelSource& source = program->kernels[k];
    const backend::Language* language = backend::find_language(source.language);
    if (language == nullptr) return altered(folder, fmt::format("kernel {} is in an unknown language", k));
    const std::string path = fmt::format("kernels/k{}.{}", k, language->binary);
    PLANISH_TRY(const std::string binary, read_file(folder / path));
    if (!kernel.is_object() || kernel.value("source_sha256", Json()) != Json(sha256_hex(source.source)) ||
        (kernel.contains("binary_sha256") && kernel["binary_sha256"] != Json(sha256_hex(binary))))
      return altered(folder, fmt::format("evidence.json was made with another kernel {}", k));
  }
  return {};
}

}  // namespace

Result<ShippedFindings> check_shipped(const fs::path& folder, const fs::path& task, const worker::Toolbox& tools) {
  ShippedFindings findings;
  auto read = read_file(folder / "ship.json", most_of_manifest);
  if (!read.has_value() && read.error().kind == "too_large") return altered(folder, read.error().message);
  if (!read.has_value()) return std::unexpected(std::move(read).error());
  const std::string text = std::move(*read);
  PLANISH_TRY(const Json manifest, parse_json(text, "not_shipped", (folder / "ship.json").string()));
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object())
    return altered(folder, "ship.json is no planish.ship/1 document");
  for (const auto& [path, digest] : manifest["files"].items()) {
    if (!stays_inside(path)) return altered(folder, fmt::format("ship.json lists {}, which lies outside", path));
  }
  PLANISH_CHECK(ship::check_folder(folder));
  PLANISH_CHECK(parts_are_known(folder, manifest["files"], tools));
  PLANISH_CHECK(ship::check_reference(folder, task));
  const Json mode = manifest.value("mode", Json());
  if (mode != Json("program") && mode != Json("baseline") && mode != Json("solution"))
    return altered(folder, "ship.json names no mode");
  findings.mode = mode.get<std::string>();
  findings.manifest = text;
  if (findings.mode == "solution") {
    PLANISH_TRY(const std::string solution, read_file(folder / "solution.py"));
    if (manifest.value("solution", Json()) != Json(sha256_hex(solution)))
      return altered(folder, "solution.py is not the solution that ship.json names");
  }
  if (findings.mode != "program") {
    PLANISH_CHECK(only_what_is_due(folder, manifest["files"], findings.mode, nullptr));
    PLANISH_CHECK(check_evidence(folder, nullptr));
    PLANISH_CHECK(ship::check_manifest(folder));
    return findings;
  }
  PLANISH_TRY(const std::string program_text, read_file(folder / "program.json"));
  auto program = program::parse(program_text);
  if (!program.has_value()) return altered(folder, "program.json: " + program.error().message);
  if (manifest.value("program", Json()) != Json(program::hash(*program)))
    return altered(folder, "program.json is not the program that ship.json names");
  PLANISH_CHECK(only_what_is_due(folder, manifest["files"], findings.mode, &*program));
  PLANISH_CHECK(check_evidence(folder, &*program));
  PLANISH_CHECK(compare_kernels(folder, *program, manifest, tools, findings));
  PLANISH_CHECK(ship::check_manifest(folder));
  return findings;
}

}  // namespace planish::session
