// Atrex-Bench: a folder for each operator, with a model, a function that makes its inputs, and shapes for both.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "suite/formats/imported.h"
#include "suite/formats/python_text.h"

namespace planish::suite::formats {
namespace {

namespace fs = std::filesystem;

/// Keyword arguments that a shape gives; null stands for none.
Result<std::string> arguments_of(const Json& shape, const char* key, const std::string& where) {
  const auto found = shape.find(key);
  if (found == shape.end() || found->is_null()) return std::string("{}");
  if (!found->is_object()) return fail(bad_task, fmt::format("{}: {} must be an object or null", where, key));
  return python_literal(dump_json(*found));
}

Result<std::string> task_text(const std::string& about, const Sources& sources, const Json& shape,
                              const std::string& where) {
  PLANISH_TRY(const auto construction, arguments_of(shape, "init_kwargs", where));
  PLANISH_TRY(const auto inputs, arguments_of(shape, "input_kwargs", where));
  return python_head(about, sources) + fmt::format(R"py(
from atrex_input import _make_inputs
from atrex_reference import Model


def get_inputs():
    return _make_inputs(**{})


def get_init_inputs():
    return [[], {}]
)py",
                                                   inputs, construction);
}

Status add_operator(const fs::path& folder, Imported& out) {
  Sources sources;
  for (const char* name : {"reference", "input"}) {
    PLANISH_TRY(auto text, read_file(folder / fmt::format("{}.py", name)));
    sources.emplace_back(fmt::format("atrex_{}", name), std::move(text));
  }
  const std::string where = (folder / "shapes.json").string();
  PLANISH_TRY(const auto text, read_file(folder / "shapes.json"));
  PLANISH_TRY(const Json shapes, parse_json(text, bad_task, where));
  if (!shapes.is_object() || shapes.empty())
    return fail(bad_task, where + ": must be an object with a shape for each name", "see docs/suites.md");
  const std::string op = folder.filename().string();
  for (const auto& [id, shape] : shapes.items()) {
    const std::string here = fmt::format("{}, shape {}", where, id);
    if (!shape.is_object()) {
      out.left_out.push_back(here + ": must be an object");
      continue;
    }
    auto task = task_text(fmt::format("Atrex-Bench operator {}, shape {}", op, id), sources, shape, here);
    if (!task) {
      out.left_out.push_back(task.error().message);
      continue;
    }
    out.tasks.push_back(
        {file_name(fmt::format("{}-{}", op, id)), std::move(*task), dump_json(Json{{"operator", op}, {"shape", id}})});
  }
  return {};
}

}  // namespace

bool is_atrex(const fs::path& folder) {
  std::error_code ignored;
  return std::ranges::all_of(std::to_array({"reference.py", "input.py", "shapes.json"}),
                             [&](const char* file) { return fs::is_regular_file(folder / file, ignored); });
}

Result<std::vector<fs::path>> atrex_operators(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code failed;
  const fs::path whole = fs::is_directory(folder / "data", failed) ? folder / "data" : folder;
  for (auto it = fs::directory_iterator(whole, failed); !failed && it != fs::directory_iterator();
       it.increment(failed)) {
    if (is_atrex(it->path())) out.push_back(it->path());
  }
  if (failed) return std::unexpected(file_error(failed.value(), "read", whole));
  std::ranges::sort(out);
  return out;
}

Result<Imported> import_atrex(const fs::path& folder) {
  Imported out;
  out.format = "atrex-bench";
  if (is_atrex(folder)) {
    PLANISH_CHECK(add_operator(folder, out));
  } else {
    PLANISH_TRY(const auto below, atrex_operators(folder));
    for (const fs::path& one : below)
      if (auto added = add_operator(one, out); !added) out.left_out.push_back(added.error().message);
  }
  if (out.tasks.empty()) {
    return fail("no_tasks", folder.string() + " holds no operator of Atrex-Bench that can be read",
                out.left_out.empty() ? "name a folder with reference.py, input.py and shapes.json, or one of such"
                                     : out.left_out.front());
  }
  return out;
}

}  // namespace planish::suite::formats
