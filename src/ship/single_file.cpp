#include "ship/single_file.h"

#include <fmt/core.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "ship/embed.h"
#include "ship/export.h"
#include "ship/folder.h"
#include "ship/manifest.h"
#include "ship/parts.h"

namespace planish::ship {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view contents_begin = "# ---- contents ----\n";
constexpr std::string_view contents_end = "# ---- end of contents ----\n";
constexpr std::string_view module_mark = "# ---- the module ----\n";
/// By this first line a later export knows that it may replace the file.
constexpr std::string_view first_line = "\"\"\"A module made faster by Planish, in one file.";

Result<std::string> after(const std::string& text, std::string_view mark, const char* what) {
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) return fail("internal", fmt::format("{} has no mark '{}'", what, mark.substr(0, 30)));
  return text.substr(at + mark.size());
}

/// Everything that the file holds, by its name in the folder.
struct Contents {
  std::map<std::string, std::string> texts, binaries;
};

Result<Contents> collect(const ExportRequest& request, const Json& manifest) {
  Contents out;
  std::uintmax_t constants = 0;
  for (const auto& [path, digest] : manifest["files"].items()) {
    (void)digest;
    if (path.starts_with("neighbours/")) {
      return fail("unsupported",
                  fmt::format("the task imports {} from its own folder, which one file cannot bring", path.substr(11)),
                  "use --form folder, or put what it needs into the task file");
    }
    const bool binary = path.ends_with(".so") || path.ends_with(".cubin") || path.starts_with("blobs/");
    if (path.starts_with("blobs/")) {
      std::error_code ignored;
      constants += fs::file_size(request.folder / path, ignored);
      if (constants > max_embedded_bytes) {
        return fail("too_large",
                    fmt::format("the program's constants are more than the {} MB that one file takes",
                                max_embedded_bytes >> 20U),
                    "use --form folder");
      }
    }
    if (binary) {
      PLANISH_TRY(const std::string bytes, read_file(request.folder / path));
      PLANISH_TRY(out.binaries[path], packed(bytes));
    } else if (path.starts_with("kernels/") || path == "program.json" || path == "reference.py") {
      PLANISH_TRY(out.texts[path], read_file(request.folder / path));
    }
  }
  if (!out.texts.contains("reference.py")) {
    return fail("live_module",
                fmt::format("{} was made from a live module, whose code is not in it", request.folder.string()),
                "load it with planish.load(folder, module)");
  }
  if (std::string& task = out.texts["reference.py"]; task.starts_with("\xEF\xBB\xBF")) task.erase(0, 3);
  for (const std::string_view part : python_parts) {
    PLANISH_TRY(out.texts[fs::path(part).filename().string()], read_file(request.package / part));
  }
  Json about = manifest;
  about.erase("files");
  out.texts["ship.json"] = about.dump(1) + "\n";
  if (const auto program = out.texts.find("program.json"); program != out.texts.end()) {
    // The kernels' sources are there to be read, each once.
    PLANISH_TRY(Json document, parse_json(program->second, "bad_program", "program.json"));
    for (Json& kernel : document["kernels"]) kernel["source"] = "";
    program->second = document.dump() + "\n";
  }
  return out;
}

/// What is for people comes first.
std::vector<std::string> reading_order(const Contents& contents) {
  std::vector<std::string> order{"reference.py"};
  for (const auto& [name, text] : contents.texts) {
    if (name.starts_with("kernels/")) order.push_back(name);
  }
  for (const auto& [name, text] : contents.texts) {
    if (name != "reference.py" && !name.starts_with("kernels/")) order.push_back(name);
  }
  return order;
}

std::string docstring(const Json& manifest) {
  const std::string task = manifest.contains("task") ? manifest["task"].value("name", "") : "";
  const std::string how = manifest.value("mode", "") == "program"
                              ? fmt::format("program {}", manifest.value("program", "").substr(0, 16))
                              : fmt::format("torch.compile mode {}", manifest.value("baseline", ""));
  return fmt::format(
      "{}\n\nTask {}, {}; made with Planish {} and PyTorch {}. `ModelNew` is the task's own `Model` with the same "
      "constructor,\n"
      "parameters and state_dict. Where a call is what the program was made and proved for, the program runs; in every "
      "other case the\n"
      "original forward does. Everything is in this text, the binaries as zlib data in base64: it needs PyTorch and "
      "nothing else.\n\"\"\"\n",
      first_line, task, how, manifest.value("planish", ""), manifest.value("torch", ""));
}

Status may_replace_file(const fs::path& out) {
  std::error_code ignored;
  if (!fs::exists(out, ignored)) return {};
  const auto old = fs::is_regular_file(out, ignored) ? read_file(out) : Result<std::string>(std::string());
  if (old && old->starts_with(first_line)) return {};
  return fail("in_the_way", fmt::format("{} exists and is not a shipped file", out.string()),
              "give another name with --out");
}

}  // namespace

Result<std::string> single_file(const ExportRequest& request) {
  PLANISH_CHECK(check_folder(request.folder));
  PLANISH_TRY(const std::string manifest_text, read_file(request.folder / "ship.json"));
  PLANISH_TRY(const Json manifest, parse_json(manifest_text, "not_shipped", "ship.json"));
  PLANISH_CHECK(only_our_code(request.folder, manifest));
  PLANISH_TRY(const Contents contents, collect(request, manifest));
  PLANISH_TRY(const std::string frame, read_file(request.package / "ship" / "single.py"));
  PLANISH_TRY(const std::string module, read_file(request.package / "ship" / "module.py"));
  PLANISH_TRY(const std::string loader, after(frame, contents_end, "single.py"));
  PLANISH_TRY(const std::string body, after(module, module_mark, "module.py"));

  std::string parts;
  for (const std::string& name : reading_order(contents)) {
    PLANISH_TRY(const std::string literal, python_text(contents.texts.at(name)));
    parts += fmt::format("_TEXTS[{}] = {}\n", python_string(name), literal);
  }
  for (const auto& [name, text] : contents.binaries) {
    parts += fmt::format("_BINARIES[{}] = \"\"\"\n{}\n\"\"\"\n", python_string(name), text);
  }
  const std::string key = sha256_hex(parts + loader + body).substr(0, 16);
  std::string text = docstring(manifest);
  text += fmt::format("{}_KEY, _TEXTS, _BINARIES = {}, {{}}, {{}}\n{}{}{}{}", contents_begin, python_string(key), parts,
                      contents_end, loader, body);
  return text;
}

Status export_file(const ExportRequest& request) {
  PLANISH_CHECK(may_replace_file(request.out));
  PLANISH_TRY(const std::string text, single_file(request));
  return write_file(request.out, text);
}

}  // namespace planish::ship
