// A task folder of GPU MODE: task.yml, reference.py (generate_input, ref_kernel), and a submission with custom_kernel.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "suite/formats/imported.h"
#include "suite/formats/python_text.h"

namespace planish::suite::formats {
namespace {

namespace fs = std::filesystem;

struct Folder {
  std::string name;
  Sources sources;                                  ///< all but the submission and the harness that runs it
  std::vector<std::string> submissions;             ///< file names that stand for one
  std::vector<std::pair<std::string, Json>> cases;  ///< "test-0" → spec
};

Json spec_of(const YAML::Node& node) {
  Json out = Json::object();
  for (const auto& item : node) {
    const auto key = item.first.as<std::string>();
    const YAML::Node& value = item.second;
    long long integer = 0;
    double number = 0;
    bool flag = false;
    if (value.IsSequence() || value.IsMap()) throw YAML::Exception(value.Mark(), "a spec has plain values only");
    if (value.Tag() == "!")
      out[key] = value.as<std::string>();  // it stood in quotes
    else if (YAML::convert<long long>::decode(value, integer))
      out[key] = integer;
    else if (YAML::convert<double>::decode(value, number))
      out[key] = number;
    else if (YAML::convert<bool>::decode(value, flag))
      out[key] = flag;
    else
      out[key] = value.as<std::string>();
  }
  return out;
}

/// A file of the task's folder, or one that lies beside it, where tasks keep what they share. A task may be anybody's:
/// whatever else it names is not read into what is made of it.
Result<fs::path> source_in(const fs::path& folder, const std::string& source, const std::string& where) {
  std::error_code failed;
  const fs::path home = fs::canonical(folder, failed);
  const fs::path file = failed ? fs::path() : fs::canonical(home / source, failed);
  if (failed) return std::unexpected(file_error(failed.value(), "read", folder / source));
  const fs::path inside = file.lexically_relative(home);
  const bool below = !inside.empty() && *inside.begin() != "..";
  if (file.extension() == ".py" && (below || file.parent_path() == home.parent_path())) return file;
  return fail("bad_task",
              fmt::format("{}: the source {} is no Python file of its folder, or beside that", where, source),
              "copy it there");
}

Result<Folder> read_folder(const fs::path& folder) {
  PLANISH_TRY(const auto text, read_file(folder / "task.yml"));
  const std::string where = (folder / "task.yml").string();
  Folder out;
  out.name = file_name(folder.filename().string());
  std::vector<std::pair<std::string, std::string>> files;
  // The library throws; nothing of that leaves this function.
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root.IsMap()) return fail("bad_task", where + ": must be a mapping", "see docs/suites.md");
    if (root["lang"] && root["lang"].as<std::string>() != "py")
      return fail("unsupported", fmt::format("{}: its submissions are in '{}'", where, root["lang"].as<std::string>()),
                  "only tasks for Python submissions can be read");
    if (root["multi_gpu"] && root["multi_gpu"].as<bool>())
      return fail("unsupported", where + ": it needs several GPUs", "only tasks for one GPU can be read");
    for (const auto& file : root["files"])
      files.emplace_back(file["name"].as<std::string>(), file["source"].as<std::string>());
    const std::string main =
        root["config"] && root["config"]["main"] ? root["config"]["main"].as<std::string>() : "eval.py";
    std::erase_if(files, [&main](const auto& file) { return file.first == main; });
    for (const char* kind : {"tests", "benchmarks"}) {
      int number = 0;
      for (const auto& spec : root[kind]) {
        const std::string what = kind == std::string("tests") ? "test" : "benchmark";
        out.cases.emplace_back(fmt::format("{}-{}", what, number++), spec_of(spec));
      }
    }
  } catch (const YAML::Exception& error) {
    return fail("bad_task", fmt::format("{}: {}", where, error.what()), "see docs/suites.md");
  }
  if (out.cases.empty())
    return fail("bad_task", where + ": it has neither tests nor benchmarks", "add tests or benchmarks");
  for (const auto& [name, source] : files) {
    if (!name.ends_with(".py")) continue;
    if (source == "@SUBMISSION@") {
      out.submissions.push_back(name);
      continue;
    }
    PLANISH_TRY(const fs::path file, source_in(folder, source, where));
    PLANISH_TRY(auto body, read_file(file));
    out.sources.emplace_back(name.substr(0, name.size() - 3), std::move(body));
  }
  const bool whole = std::ranges::any_of(out.sources, [](const auto& item) { return item.first == "reference"; });
  if (!whole) return fail("bad_task", where + ": its files have no reference.py", "name it under `files`");
  return out;
}

std::string task_text(const Folder& folder, const std::string& what, const Json& spec) {
  Json arguments = spec;
  arguments.erase("seed");
  return python_head(fmt::format("GPU MODE task {}, {}", folder.name, what), folder.sources) +
         fmt::format(R"py(
import reference

_SPEC = {}


class Model(nn.Module):
    def forward(self, data):
        return reference.ref_kernel(data)


def get_inputs():
    return [reference.generate_input(**_SPEC, seed=int(torch.randint(0, 2**31 - 1, (1,))))]


def get_init_inputs():
    return []
)py",
                     python_literal(dump_json(arguments)));
}

std::string solution_text(const Folder& folder, const std::string& submission) {
  Sources sources = folder.sources;
  std::erase_if(sources, [](const auto& item) { return item.first == "reference"; });
  sources.emplace_back("submission", submission);
  return python_head("GPU MODE submission for " + folder.name, sources) + R"py(
import submission


class ModelNew(nn.Module):
    def forward(self, data):
        return submission.custom_kernel(data)
)py";
}

Status add_folder(const fs::path& path, Imported& out) {
  PLANISH_TRY(const Folder folder, read_folder(path));
  std::vector<std::pair<std::string, std::string>> submissions;
  std::error_code failed;
  for (auto it = fs::directory_iterator(path, failed); !failed && it != fs::directory_iterator();
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    // submission.py, and others beside it that people keep as submission_NAME.py or in submissions/.
    if (name.starts_with("submission") && name.ends_with(".py")) {
      PLANISH_TRY(auto text, read_file(it->path()));
      submissions.emplace_back(it->path().stem().string(), std::move(text));
    }
  }
  if (failed) return std::unexpected(file_error(failed.value(), "read", path));
  std::ranges::sort(submissions);
  for (const auto& [what, spec] : folder.cases) {
    const std::string name = folder.name + "-" + what;
    const Json origin = {{"task", folder.name}, {"case", what}, {"spec", spec}};
    out.tasks.push_back({name, task_text(folder, what, spec), dump_json(origin)});
    for (const auto& [author, text] : submissions) {
      if (text.find("custom_kernel") == std::string::npos) {
        out.left_out.push_back(fmt::format("{}.py of {}: it has no custom_kernel", author, folder.name));
        continue;
      }
      out.solutions.push_back({author, name, solution_text(folder, text), dump_json(origin)});
    }
  }
  return {};
}

}  // namespace

Result<Imported> import_gpu_mode(const fs::path& folder) {
  Imported out;
  out.format = "gpu-mode";
  std::error_code failed;
  if (fs::exists(folder / "task.yml", failed)) {
    PLANISH_CHECK(add_folder(folder, out));
    return out;
  }
  std::vector<fs::path> below;
  for (auto it = fs::directory_iterator(folder, failed); !failed && it != fs::directory_iterator();
       it.increment(failed)) {
    if (fs::exists(it->path() / "task.yml")) below.push_back(it->path());
  }
  if (failed) return std::unexpected(file_error(failed.value(), "read", folder));
  std::ranges::sort(below);
  for (const fs::path& path : below) {
    if (auto added = add_folder(path, out); !added) out.left_out.push_back(added.error().message);
  }
  if (out.tasks.empty()) {
    return fail("no_tasks", folder.string() + " holds no task of GPU MODE that can be read",
                out.left_out.empty() ? "name a folder with task.yml" : out.left_out.front());
  }
  return out;
}

}  // namespace planish::suite::formats
