#include "suite/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/file.h"
#include "suite/kernelbench.h"

namespace planish::suite {
namespace {

namespace fs = std::filesystem;

struct Entry {
  fs::path path;
  bool folder = false;
};

Result<std::vector<Entry>> entries_of(const fs::path& folder) {
  std::vector<Entry> out;
  std::error_code failed;
  for (auto it = fs::directory_iterator(folder, failed); !failed && it != fs::directory_iterator();
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (name.starts_with('_') || name.starts_with('.')) continue;
    if (it->is_directory(ignored)) {
      out.push_back({it->path(), true});
    } else if (it->path().extension() == ".py" && it->is_regular_file(ignored)) {
      out.push_back({it->path(), false});
    }
  }
  if (failed) return std::unexpected(file_error(failed.value(), "read", folder));
  std::ranges::sort(out, {}, &Entry::path);
  return out;
}

bool holds_shipped(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "ship.json", ignored) || fs::exists(folder / "shipped" / "ship.json", ignored);
}

/// Names of Python files of a folder and of its folders of levels, relative.
Result<std::vector<std::string>> files_below(const fs::path& folder) {
  std::vector<std::string> out;
  PLANISH_TRY(const auto here, entries_of(folder));
  for (const Entry& entry : here) {
    const std::string name = entry.path.filename().string();
    if (!entry.folder) out.push_back(name);
    if (!entry.folder || kernelbench::level_of(name) == 0) continue;
    PLANISH_TRY(const auto below, entries_of(entry.path));
    for (const Entry& file : below) {
      if (!file.folder) out.push_back(name + "/" + file.path.filename().string());
    }
  }
  return out;
}

/// Python files in folders that are not looked into, by the folder they lie in, relative; a few levels deep.
std::map<std::string, int> elsewhere(const fs::path& folder) {
  constexpr int deepest = 4;
  std::map<std::string, int> out;
  std::error_code failed;
  auto it = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && it != fs::recursive_directory_iterator(); it.increment(failed)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      if (it.depth() >= deepest || name.starts_with('_') || name.starts_with('.')) it.disable_recursion_pending();
    } else if (it->path().extension() == ".py" && !name.starts_with('_') && !name.starts_with('.')) {
      ++out[it->path().parent_path().lexically_relative(folder).string()];
    }
  }
  return out;
}

Error no_tasks(const fs::path& folder) {
  constexpr std::size_t most = 3;
  std::string hint = "tasks are looked for directly in the folder, or in its folders level1, level2, …";
  const auto others = elsewhere(folder);
  std::vector<std::string> named;
  for (const auto& [name, files] : others) {
    if (named.size() == most) break;
    named.push_back(fmt::format("{} in {}", files, name));
  }
  if (!named.empty()) {
    hint += fmt::format("; Python files lie elsewhere: {}{}: name such a folder", fmt::join(named, ", "),
                        others.size() > most ? fmt::format(", and {} more folders", others.size() - most) : "");
  }
  return {"no_tasks", fmt::format("{} holds no Python files where tasks are looked for", folder.string()), {}, hint};
}

}  // namespace

Result<std::vector<Task>> tasks_in(const fs::path& folder) {
  PLANISH_TRY(const auto here, entries_of(folder));
  std::vector<Task> out;
  const fs::path plain = folder.lexically_normal();
  const int own = kernelbench::level_of((plain.has_filename() ? plain : plain.parent_path()).filename().string());
  const auto add = [&out](const fs::path& file, int level, const std::string& before) {
    const std::string stem = file.stem().string();
    out.push_back({before + stem, file, level, level > 0 ? kernelbench::problem_of(stem) : 0});
  };
  for (const Entry& entry : here) {
    if (!entry.folder) add(entry.path, own, "");
  }
  for (const Entry& entry : here) {
    const std::string name = entry.path.filename().string();
    const int level = entry.folder ? kernelbench::level_of(name) : 0;
    if (level == 0) continue;
    PLANISH_TRY(const auto below, entries_of(entry.path));
    for (const Entry& file : below) {
      if (!file.folder) add(file.path, level, name + "/");
    }
  }
  if (out.empty()) return std::unexpected(no_tasks(folder));
  std::ranges::sort(out, {}, [](const Task& task) { return std::tuple(task.level, task.problem, task.name); });
  return out;
}

std::string Work::name() const {
  return sample > 0 ? fmt::format("{}-{}", task.name, sample) : task.name;
}

Result<Solutions> solutions_in(const fs::path& folder, const std::vector<Task>& tasks) {
  PLANISH_TRY(const auto files, files_below(folder));
  std::map<std::pair<int, int>, std::map<int, fs::path>> numbered;
  std::set<std::string> left(files.begin(), files.end());
  for (const std::string& file : files) {
    kernelbench::AnswerFile answer;
    if (kernelbench::parse_answer_file(file, answer))
      numbered[{answer.level, answer.problem}][answer.sample] = folder / file;
  }
  Solutions out;
  std::set<int> levels;
  for (const Task& task : tasks) {
    std::vector<Work> mine;
    if (task.problem > 0) {
      for (const auto& [sample, path] : numbered[{task.level, task.problem}]) {
        mine.push_back({task, path, sample});
        left.erase(path.filename().string());
      }
    }
    if (mine.empty() && left.erase(task.name + ".py") > 0) mine.push_back({task, folder / (task.name + ".py"), 0});
    if (mine.empty() && holds_shipped(folder / task.name)) mine.push_back({task, folder / task.name, 0});
    if (!mine.empty()) levels.insert(task.level);
    if (mine.empty()) mine.push_back({task, {}, 0});
    out.work.insert(out.work.end(), mine.begin(), mine.end());
  }
  if (levels.empty()) {
    return fail(
        "no_solutions", fmt::format("{} holds no solution of any of the {} tasks", folder.string(), tasks.size()),
        "name files as the tasks are (softmax.py), or as KernelBench does (level_1_problem_2_sample_0_kernel.py)");
  }
  std::erase_if(out.work, [&levels](const Work& work) { return !levels.contains(work.task.level); });
  out.unmatched.assign(left.begin(), left.end());
  return out;
}

}  // namespace planish::suite
