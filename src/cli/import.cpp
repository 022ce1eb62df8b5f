#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/terminal.h"
#include "cli/exit_code.h"
#include "cli/verbs.h"
#include "suite/formats/imported.h"
#include "suite/formats/results.h"
#include "worker/printable.h"

namespace planish::cli {
namespace {

namespace fs = std::filesystem;
namespace formats = suite::formats;

Result<formats::Imported> read_collection(const ImportVerb& options) {
  PLANISH_TRY(const auto from, existing_file(options.from, "file or folder"));
  const std::string format = options.format == "auto" ? formats::format_of(from) : options.format;
  fs::path other;
  if (!options.solutions.empty()) {
    PLANISH_TRY(other, existing_file(options.solutions, "file or folder"));
  }
  if (format == "gpu-mode") return formats::import_gpu_mode(from);
  if (format == "flashinfer-bench") return formats::import_flashinfer(from);
  if (format == "backendbench") return formats::import_backendbench(from, other);
  if (format == "tritonbench") return formats::import_tritonbench(from, other);
  if (format == "atrex-bench") return formats::import_atrex(from);
  return fail("usage", fmt::format("what {} is cannot be told by what it holds", options.from),
              "name it: --format gpu-mode, flashinfer-bench, backendbench, tritonbench or atrex-bench");
}

Status write_collection(const formats::Imported& imported, const fs::path& out) {
  for (const auto& task : imported.tasks) PLANISH_CHECK(write_file(out / "tasks" / (task.name + ".py"), task.text));
  for (const auto& one : imported.solutions)
    PLANISH_CHECK(write_file(out / "solutions" / one.author / (one.task + ".py"), one.text));
  return write_file(out / "origin.json", formats::write_origin(imported));
}

}  // namespace

int import_verb(const ImportVerb& options, const Output& output) {
  LiveLines lines(LiveLines::detect(output.quiet));
  lines.redraw({fmt::format("reading {}", worker::printable(options.from))});
  auto imported = read_collection(options);
  if (!imported) return output.error(imported.error());
  std::error_code ignored;
  const fs::path out = fs::absolute(options.out.empty() ? fs::path("planish-import") : fs::path(options.out), ignored);
  lines.redraw({fmt::format("writing {} tasks", imported->tasks.size())});
  if (auto written = write_collection(*imported, out); !written) return output.error(written.error());
  std::set<std::string> authors;
  for (const auto& one : imported->solutions) authors.insert(one.author);
  const Json document = {{"schema_version", 1},
                         {"format", imported->format},
                         {"folder", out.string()},
                         {"tasks", imported->tasks.size()},
                         {"solutions", imported->solutions.size()},
                         {"authors", authors},
                         {"left_out", imported->left_out}};
  std::string text =
      fmt::format("{}: {} tasks in {}\n", imported->format, imported->tasks.size(), (out / "tasks").string());
  for (const std::string& one : imported->left_out) text += fmt::format("  left out: {}\n", one);
  output.result(dump_json(document), text);
  for (const std::string& author : authors)
    output.next({"suite", (out / "tasks").string(), "--solutions", (out / "solutions" / author).string()});
  if (authors.empty()) output.next({"suite", (out / "tasks").string()});
  return exit_code::success;
}

}  // namespace planish::cli
