#include "suite/formats/python_text.h"

#include <fmt/format.h>

#include <cctype>

#include "base/json.h"

namespace planish::suite::formats {
namespace {

std::string literal(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return python_string(value.get<std::string>());
  std::string out;
  if (value.is_array()) {
    for (const Json& item : value) out += (out.empty() ? "" : ", ") + literal(item);
    return "[" + out + "]";
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items())
      out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", python_string(key), literal(item));
    return "{" + out + "}";
  }
  return dump_json(value);
}

/// Modules of the names in FILES, for whoever asks for one that is not installed.
constexpr const char* finder = R"py(
class _Files(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        package = any(other.startswith(name + ".") for other in self.files)
        if name not in self.files and not package:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=package)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        text = self.files.get(module.__name__, "")
        module.__file__ = f"<{module.__name__}.py>"
        linecache.cache[module.__file__] = (len(text), None, text.splitlines(True), module.__file__)
        exec(compile(text, module.__file__, "exec"), module.__dict__)

sys.meta_path.append(_Files(_FILES))
)py";

}  // namespace

std::string python_string(std::string_view text) {
  return dump_json(Json(text));
}

std::string python_literal(std::string_view json) {
  const auto parsed = parse_json(json, "bad_task", "value");
  return parsed ? literal(*parsed) : "None";
}

std::string python_head(std::string_view about, const Sources& sources) {
  std::string out = fmt::format(
      "# {}\n# Made by `planish import`.\nimport importlib.abc\nimport importlib.util\nimport linecache\nimport sys\n\n"
      "import torch\nfrom torch import nn\n\n",
      std::string(about.substr(0, about.find('\n'))));
  out += "_FILES = {\n";
  for (const auto& [name, text] : sources)
    out += fmt::format("    {}: {},\n", python_string(name), python_string(text));
  out += "}\n";
  return out + finder;
}

std::string file_name(std::string_view name) {
  std::string out;
  for (const char c : name)
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ? c : '_';
  while (out.starts_with('.') || out.starts_with('_')) out.erase(0, 1);  // such files are no tasks
  return out.empty() ? "task" : out;
}

}  // namespace planish::suite::formats
