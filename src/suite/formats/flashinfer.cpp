// FlashInfer-Bench: definitions, workloads (JSON lines) and solutions.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/file.h"
#include "base/json.h"
#include "suite/formats/imported.h"
#include "suite/formats/python_text.h"

namespace planish::suite::formats {
namespace {

namespace fs = std::filesystem;

struct Tensor {
  std::string name, dtype;
  std::optional<std::vector<std::string>> axes;  ///< nothing: a scalar
};

struct Definition {
  std::string name, reference;
  std::map<std::string, std::optional<std::int64_t>> axes;  ///< nothing: the workload says
  std::vector<Tensor> inputs, outputs;
};

Result<std::vector<fs::path>> files_below(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> out;
  std::error_code failed;
  if (!fs::exists(folder, failed)) return out;
  for (auto it = fs::recursive_directory_iterator(folder, failed); !failed && it != fs::recursive_directory_iterator();
       it.increment(failed)) {
    if (it->path().extension() == extension) out.push_back(it->path());
  }
  if (failed) return std::unexpected(file_error(failed.value(), "read", folder));
  std::ranges::sort(out);
  return out;
}

/// torch's name of a dtype of theirs; empty where there is none.
std::string torch_dtype(std::string_view dtype) {
  static const std::map<std::string, std::string, std::less<>> known = {
      {"float8_e4m3", "float8_e4m3fn"}, {"float8_e5m2", "float8_e5m2"}, {"float8_e4m3fn", "float8_e4m3fn"}};
  for (const char* same :
       {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}) {
    if (dtype == same) return std::string(dtype);
  }
  const auto found = known.find(dtype);
  return found == known.end() ? std::string() : found->second;
}

// The order of inputs is the order of the reference's arguments: an ordered document.
using Ordered = nlohmann::ordered_json;

Result<std::vector<Tensor>> read_tensors(const Ordered& list, const std::string& where) {
  std::vector<Tensor> out;
  for (const auto& [name, item] : list.items()) {
    if (!item.is_object() || !item.contains("dtype") || !item["dtype"].is_string())
      return fail(bad_task, fmt::format("{}: {} must have a dtype", where, name));
    Tensor tensor{name, torch_dtype(item["dtype"].get<std::string>()), {}};
    if (tensor.dtype.empty())
      return fail("unsupported", fmt::format("{}: {} is of dtype {}", where, name, item["dtype"].get<std::string>()));
    if (item.contains("shape") && item["shape"].is_array()) {
      tensor.axes.emplace();
      for (const auto& axis : item["shape"]) {
        if (axis.is_string())
          tensor.axes->push_back(axis.get<std::string>());
        else if (axis.is_number_integer())
          tensor.axes->push_back(axis.dump());
        else
          return fail(bad_task, fmt::format("{}: the shape of {} must name axes", where, name));
      }
    } else if (item.contains("shape") && !item["shape"].is_null()) {
      return fail(bad_task, fmt::format("{}: the shape of {} must be a list or null", where, name));
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

Result<Definition> read_definition(const fs::path& file) {
  PLANISH_TRY(const auto text, read_file(file));
  const Ordered json = Ordered::parse(text, nullptr, false);
  const std::string where = file.string();
  if (!json.is_object()) return fail(bad_task, where + ": is no JSON object");
  Definition out;
  for (const char* field : {"name", "reference"}) {
    if (!json.contains(field) || !json[field].is_string())
      return fail(bad_task, fmt::format("{}: has no text `{}`", where, field));
  }
  for (const char* field : {"axes", "inputs", "outputs"}) {
    if (!json.contains(field) || !json[field].is_object())
      return fail(bad_task, fmt::format("{}: has no object `{}`", where, field));
  }
  out.name = json["name"].get<std::string>();
  out.reference = json["reference"].get<std::string>();
  for (const auto& [name, axis] : json["axes"].items()) {
    const std::string type = axis.is_object() ? axis.value("type", std::string()) : "";
    if (type == "const" && axis.contains("value") && axis["value"].is_number_integer())
      out.axes[name] = axis["value"].get<std::int64_t>();
    else if (type == "var")
      out.axes[name] = std::nullopt;
    else
      return fail(type == "expr" ? "unsupported" : bad_task,
                  fmt::format("{}: axis {} must be const (with a value) or var", where, name));
  }
  PLANISH_TRY(out.inputs, read_tensors(json["inputs"], where));
  PLANISH_TRY(out.outputs, read_tensors(json["outputs"], where));
  return out;
}

/// "[4096, 128]" of a tensor, by a workload's axes.
Result<std::string> shape_of(const Definition& definition, const Tensor& tensor, const Json& axes,
                             const std::string& where) {
  std::string out;
  for (const std::string& axis : *tensor.axes) {
    std::int64_t size = -1;
    if (const auto known = definition.axes.find(axis); known != definition.axes.end() && known->second)
      size = *known->second;
    else if (axes.contains(axis) && axes[axis].is_number_integer())
      size = axes[axis].get<std::int64_t>();
    else if (!axis.empty() && axis.find_first_not_of("0123456789") == std::string::npos)
      size = std::stoll(axis.substr(0, 18));
    if (size < 0) return fail(bad_task, fmt::format("{}: says nothing of axis {}", where, axis));
    out += fmt::format("{}{}", out.empty() ? "" : ", ", size);
  }
  return "[" + out + "]";
}

constexpr const char* random_text = R"py(
def _random(shape, dtype):
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, dtype=dtype)
    if not dtype.is_floating_point:
        return torch.randint(0 if dtype is torch.uint8 else -100, 100, shape, dtype=dtype)
    return torch.randn(shape).to(dtype)


def _outputs(found):
    """In the definition's order, and one alone by itself."""
    if isinstance(found, dict):
        found = [found[name] for name in _NAMES]
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    return found[0] if len(found) == 1 else tuple(found)

)py";

std::string names_of(const std::vector<Tensor>& tensors) {
  std::string out;
  for (const Tensor& tensor : tensors) out += python_string(tensor.name) + ", ";
  return "_NAMES = [" + out + "]\n";
}

Result<std::string> task_text(const Definition& definition, const Json& workload, const fs::path& root,
                              const std::string& where) {
  const Json axes = workload.contains("axes") && workload["axes"].is_object() ? workload["axes"] : Json::object();
  if (!workload.contains("inputs") || !workload["inputs"].is_object())
    return fail(bad_task, where + ": has no object `inputs`");
  std::string inputs;
  for (const Tensor& tensor : definition.inputs) {
    const Json given = workload["inputs"].value(tensor.name, Json());
    const std::string type = given.is_object() ? given.value("type", std::string()) : "";
    if (type == "scalar" && given.contains("value") && !tensor.axes) {
      inputs += fmt::format("        {},\n", python_literal(dump_json(given["value"])));
    } else if (type == "random" && tensor.axes) {
      PLANISH_TRY(const auto shape, shape_of(definition, tensor, axes, where));
      inputs += fmt::format("        _random({}, torch.{}),\n", shape, tensor.dtype);
    } else if (type == "safetensors" && given.contains("path") && given["path"].is_string()) {
      const fs::path inside = fs::path(given["path"].get<std::string>()).lexically_normal();
      if (inside.empty() || inside.is_absolute() || *inside.begin() == "..")
        return fail(bad_task, fmt::format("{}: input {} lies outside of the traces", where, tensor.name));
      const std::string key = given.value("tensor_key", tensor.name);
      inputs += fmt::format("        load_file({})[{}],\n",
                            python_string((root / given["path"].get<std::string>()).string()), python_string(key));
    } else {
      return fail(
          bad_task,
          fmt::format("{}: input {} must be random or safetensors, or scalar with a value where it has no shape", where,
                      tensor.name));
    }
  }
  const bool loads = inputs.find("load_file(") != std::string::npos;
  return python_head("FlashInfer-Bench definition " + definition.name, {{"reference", definition.reference}}) +
         "\nimport reference\n" + (loads ? "from safetensors.torch import load_file\n" : "") + "\n" +
         names_of(definition.outputs) + random_text +
         fmt::format(
             "\nclass Model(nn.Module):\n    def forward(self, *inputs):\n        return "
             "_outputs(reference.run(*inputs))\n\n\n"
             "def get_inputs():\n    return [\n{}    ]\n\n\ndef get_init_inputs():\n    return []\n",
             inputs);
}

struct Solution {
  std::string name, definition, author, module, function;
  bool passes_outputs = true;
  Sources sources;
};

Result<Solution> read_solution(const fs::path& file) {
  PLANISH_TRY(const auto text, read_file(file));
  const std::string where = file.string();
  PLANISH_TRY(const Json json, parse_json(text, bad_task, where));
  if (!json.is_object() || !json.contains("spec") || !json["spec"].is_object() || !json.contains("sources") ||
      !json["sources"].is_array())
    return fail(bad_task, where + ": must have `spec` and `sources`");
  Solution out;
  std::string entry, language;
  {
    ObjectReader reader(json, bad_task, where);
    reader.lenient();
    reader.text("name", out.name);
    reader.text("definition", out.definition);
    reader.text("author", out.author, ObjectReader::Need::optional);
    PLANISH_CHECK(reader.finish());
    ObjectReader spec(json["spec"], bad_task, where + ", spec");
    spec.lenient();
    spec.text("language", language);
    spec.text("entry_point", entry);
    spec.boolean("destination_passing_style", out.passes_outputs, ObjectReader::Need::optional);
    PLANISH_CHECK(spec.finish());
  }
  if (language != "python" && language != "triton" && language != "pytorch")
    return fail("unsupported", fmt::format("{}: solutions in {} cannot be read", where, language),
                "python and triton can");
  const std::size_t split = entry.find("::");
  if (split == std::string::npos || !entry.substr(0, split).ends_with(".py"))
    return fail(bad_task, fmt::format("{}: entry_point '{}' must be FILE.py::FUNCTION", where, entry));
  const auto module_of = [](std::string path) {
    path = path.substr(0, path.size() - 3);
    std::ranges::replace(path, '/', '.');
    if (path.ends_with(".__init__")) path = path.substr(0, path.size() - 9);
    return path;
  };
  out.module = module_of(entry.substr(0, split));
  out.function = entry.substr(split + 2);
  const auto identifier = [](const std::string& name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    });
  };
  if (!identifier(out.module) || !identifier(out.function))
    return fail(bad_task, fmt::format("{}: '{}' is no entry point", where, entry));
  for (const Json& source : json["sources"]) {
    if (!source.is_object() || !source.contains("path") || !source["path"].is_string() || !source.contains("content") ||
        !source["content"].is_string())
      return fail(bad_task, where + ": each source must have `path` and `content`");
    const auto path = source["path"].get<std::string>();
    if (path.ends_with(".py")) out.sources.emplace_back(module_of(path), source["content"].get<std::string>());
  }
  if (std::ranges::none_of(out.sources, [&](const auto& item) { return item.first == out.module; }))
    return fail(bad_task, fmt::format("{}: no source is the entry point's file", where));
  return out;
}

Result<std::string> solution_text(const Definition& definition, const Solution& solution, const Json& axes,
                                  const std::string& where) {
  std::string call = fmt::format("        return _outputs(_run(*inputs))\n");
  if (solution.passes_outputs) {
    std::string made;
    for (const Tensor& tensor : definition.outputs) {
      if (!tensor.axes) return fail("unsupported", fmt::format("{}: a scalar output cannot be passed in", where));
      PLANISH_TRY(const auto shape, shape_of(definition, tensor, axes, where));
      made += fmt::format("torch.empty({}, dtype=torch.{}, device=device), ", shape, tensor.dtype);
    }
    call = fmt::format(
        "        device = next(x.device for x in inputs if isinstance(x, torch.Tensor))\n        outputs = [{}]\n"
        "        _run(*inputs, *outputs)\n        return _outputs(outputs)\n",
        made);
  }
  return python_head(fmt::format("FlashInfer-Bench solution {} of {}", solution.name, definition.name),
                     solution.sources) +
         fmt::format("\nfrom {} import {} as _run\n\n", solution.module, solution.function) +
         names_of(definition.outputs) + random_text +
         "\nclass ModelNew(nn.Module):\n    def forward(self, *inputs):\n" + call;
}

}  // namespace

Result<Imported> import_flashinfer(const fs::path& root) {
  Imported out;
  out.format = "flashinfer-bench";
  std::map<std::string, Definition> definitions;
  PLANISH_TRY(const auto definition_files, files_below(root / "definitions", ".json"));
  for (const fs::path& file : definition_files) {
    auto read = read_definition(file);
    if (read)
      definitions[read->name] = std::move(*read);
    else
      out.left_out.push_back(read.error().message);
  }
  struct Made {
    std::string name;
    Json axes, origin;
  };
  std::map<std::string, std::vector<Made>> workloads;  // by definition
  for (const char* folder : {"workloads", "traces"}) {
    PLANISH_TRY(const auto files, files_below(root / folder, ".jsonl"));
    for (const fs::path& file : files) {
      PLANISH_TRY(const auto text, read_file(file));
      int line = 0;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string one = text.substr(at, end - at);
        at = end + 1;
        const std::string where = fmt::format("{}, line {}", file.string(), ++line);
        if (one.find_first_not_of(" \t\r") == std::string::npos) continue;
        const auto json = parse_json(one, bad_task, where);
        if (!json || !json->is_object() || !json->contains("definition") || !(*json)["definition"].is_string() ||
            !json->contains("workload") || !(*json)["workload"].is_object()) {
          out.left_out.push_back(where + ": must have `definition` and `workload`");
          continue;
        }
        const auto name = (*json)["definition"].get<std::string>();
        const Json& workload = (*json)["workload"];
        const auto found = definitions.find(name);
        if (found == definitions.end()) {
          out.left_out.push_back(fmt::format("{}: there is no definition {}", where, name));
          continue;
        }
        const std::string uuid = workload.contains("uuid") && workload["uuid"].is_string()
                                     ? workload["uuid"].get<std::string>()
                                     : std::to_string(line);
        const std::string task = file_name(name + "-" + uuid);
        if (std::ranges::any_of(out.tasks, [&task](const ImportedTask& known) { return known.name == task; })) continue;
        auto made = task_text(found->second, workload, root, where);
        if (!made) {
          out.left_out.push_back(made.error().message);
          continue;
        }
        const Json origin = {{"definition", name}, {"workload", workload}};
        out.tasks.push_back({task, std::move(*made), dump_json(origin)});
        workloads[name].push_back({task, workload.value("axes", Json::object()), origin});
      }
    }
  }
  if (out.tasks.empty()) {
    return fail("no_tasks", root.string() + " has no definition with a workload that can be read",
                out.left_out.empty() ? "name a folder with definitions/ and workloads/" : out.left_out.front());
  }
  PLANISH_TRY(const auto solution_files, files_below(root / "solutions", ".json"));
  for (const fs::path& file : solution_files) {
    auto read = read_solution(file);
    if (!read) {
      out.left_out.push_back(read.error().message);
      continue;
    }
    for (const Made& made : workloads[read->definition]) {
      auto text = solution_text(definitions[read->definition], *read, made.axes, file.string());
      if (!text) {
        out.left_out.push_back(text.error().message);
        break;
      }
      Json origin = made.origin;
      origin["solution"] = read->name;
      out.solutions.push_back({file_name(read->name), made.name, std::move(*text), dump_json(origin)});
    }
  }
  return out;
}

}  // namespace planish::suite::formats
