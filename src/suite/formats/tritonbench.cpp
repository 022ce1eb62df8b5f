// Files as TritonBench has them: functions, a line of `#`, and a test that calls them; predictions in JSON lines.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "suite/formats/imported.h"
#include "suite/formats/python_text.h"

namespace planish::suite::formats {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t least_hashes = 40;  // of its line, which has 146

struct Parts {
  std::string functions, test, test_name;
  std::vector<std::string> calls;  ///< functions of the upper part that the test calls
};

bool word_at(std::string_view text, std::size_t at, std::size_t size) {
  const auto inside = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_' || text[i] == '.');
  };
  return (at == 0 || !inside(at - 1)) && !inside(at + size);
}

/// Names after `def ` at the beginning of a line.
std::vector<std::string> functions_of(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at != std::string_view::npos && at < text.size();) {
    if (text.substr(at).starts_with("def ")) {
      std::size_t end = at + 4;
      while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
      out.emplace_back(text.substr(at + 4, end - at - 4));
    }
    at = text.find('\n', at);
    if (at != std::string_view::npos) ++at;
  }
  return out;
}

Result<Parts> split(const std::string& text, const std::string& where) {
  Parts out;
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.size() >= least_hashes && line.find_first_not_of('#') == std::string_view::npos) {
      out.functions = text.substr(0, at);
      out.test = text.substr(std::min(end + 1, text.size()));
      found = true;
      break;
    }
    at = end + 1;
  }
  if (!found) return fail(bad_task, where + ": has no line of # between functions and test");
  for (const std::string& name : functions_of(out.test)) {
    if (name.starts_with("test")) out.test_name = name;
  }
  if (out.test_name.empty()) return fail(bad_task, where + ": has no function test… below the line");
  for (const std::string& name : functions_of(out.functions)) {
    for (std::size_t at = out.test.find(name); at != std::string::npos; at = out.test.find(name, at + 1)) {
      const std::size_t next = out.test.find_first_not_of(' ', at + name.size());
      if (!word_at(out.test, at, name.size()) || next == std::string::npos || out.test[next] != '(') continue;
      if (std::ranges::find(out.calls, name) == out.calls.end()) out.calls.push_back(name);
      break;
    }
  }
  if (out.calls.empty()) return fail(bad_task, where + ": its test calls none of the functions above the line");
  return out;
}

/// How many times the test calls the function, by its text.
int calls_of(const Parts& parts, const std::string& function) {
  int count = 0;
  for (std::size_t at = parts.test.find(function); at != std::string::npos; at = parts.test.find(function, at + 1)) {
    const std::size_t next = parts.test.find_first_not_of(' ', at + function.size());
    count += word_at(parts.test, at, function.size()) && next != std::string::npos && parts.test[next] == '(';
  }
  return count;
}

std::string task_text(const Parts& parts, const std::string& file, const std::string& function, int call) {
  return python_head(fmt::format("TritonBench {}, call {} of {}", file, call, function),
                     {{"golden", parts.functions}, {"golden_test", parts.functions + "\n" + parts.test}}) +
         fmt::format(R"py(
import golden


class _Enough(Exception):
    pass


class Model(nn.Module):
    def forward(self, *args, **kwargs):
        return golden.{0}(*args, **kwargs)


def get_inputs():
    """What the test gives to the call with this number."""
    import golden_test

    original, seen = golden_test.{0}, []

    def record(*args, **kwargs):
        seen.append((args, kwargs))
        if len(seen) > {1}:
            raise _Enough
        return original(*args, **kwargs)

    golden_test.{0} = record
    # Tests seed the generator themselves: always the same data would be no test.
    seeded, torch.manual_seed = torch.manual_seed, lambda seed: torch.default_generator
    try:
        golden_test.{2}()
    except _Enough:
        pass
    finally:
        golden_test.{0}, torch.manual_seed = original, seeded
    if len(seen) <= {1}:
        raise RuntimeError("the test makes {0} no call {1}")
    args, kwargs = seen[{1}]
    return [list(args), kwargs]


def get_init_inputs():
    return []
)py",
                     function, call, parts.test_name);
}

std::string solution_text(const std::string& predicted, const std::string& function) {
  return python_head("TritonBench prediction", {{"predicted", predicted}}) + fmt::format(R"py(
from predicted import {0}


class ModelNew(nn.Module):
    def forward(self, *args, **kwargs):
        return {0}(*args, **kwargs)
)py",
                                                                                         function);
}

/// The code of a prediction: between the first fence and the next, or all of it.
std::string code_of(const std::string& text) {
  const std::size_t fence = text.find("```");
  if (fence == std::string::npos) return text;
  const std::size_t line = text.find('\n', fence);
  if (line == std::string::npos) return text;
  return text.substr(line + 1, text.find("```", line) - line - 1);
}

std::string stripped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) out += c;
  }
  return out;
}

}  // namespace

Result<Imported> import_tritonbench(const fs::path& folder, const fs::path& predictions) {
  Imported out;
  out.format = "tritonbench";
  std::vector<fs::path> files;
  std::error_code failed;
  for (auto it = fs::directory_iterator(folder, failed); !failed && it != fs::directory_iterator();
       it.increment(failed)) {
    if (it->path().extension() == ".py") files.push_back(it->path());
  }
  if (failed) return std::unexpected(file_error(failed.value(), "read", folder));
  std::ranges::sort(files);
  struct Known {
    std::string task, function, file;
  };
  std::map<std::string, std::vector<Known>> by_functions;  // by what stands above the line
  for (const fs::path& file : files) {
    PLANISH_TRY(const auto text, read_file(file));
    auto parts = split(text, file.string());
    if (!parts) {
      out.left_out.push_back(parts.error().message);
      continue;
    }
    for (const std::string& function : parts->calls) {
      for (int call = 0; call < calls_of(*parts, function); ++call) {
        const std::string stem = file.stem().string();
        const std::string name = file_name(fmt::format("{}-{}-{}", stem, function, call));
        const Json origin = {{"file", file.filename().string()}, {"function", function}, {"call", call}};
        out.tasks.push_back({name, task_text(*parts, stem, function, call), dump_json(origin)});
        by_functions[stripped(parts->functions)].push_back({name, function, file.filename().string()});
      }
    }
  }
  if (out.tasks.empty()) {
    return fail("no_tasks", folder.string() + " holds no file with functions, a line of # and a test",
                out.left_out.empty() ? "name a folder of such files" : out.left_out.front());
  }
  if (predictions.empty()) return out;
  PLANISH_TRY(const auto lines, read_file(predictions));
  int line = 0;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string one = lines.substr(at, end - at);
    at = end + 1;
    const std::string where = fmt::format("{}, line {}", predictions.string(), ++line);
    if (one.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto json = parse_json(one, bad_task, where);
    const auto text = [&json](const char* field) {
      return json && json->is_object() && json->contains(field) && (*json)[field].is_string()
                 ? (*json)[field].get<std::string>()
                 : std::string();
    };
    const std::string predicted = code_of(text("predict")), label = text("label"), file = text("file");
    if (predicted.empty() || (label.empty() && file.empty())) {
      out.left_out.push_back(where + ": must have `predict`, and `label` or `file`");
      continue;
    }
    std::vector<Known> answered;
    for (const auto& [functions, known] : by_functions) {
      for (const Known& task : known) {
        if (!file.empty() ? task.file == file : functions == stripped(label)) answered.push_back(task);
      }
    }
    if (answered.empty()) out.left_out.push_back(where + ": answers none of the files");
    for (const Known& task : answered)
      out.solutions.push_back({"predictions", task.task, solution_text(predicted, task.function),
                               dump_json({{"line", line}, {"file", task.file}})});
  }
  return out;
}

}  // namespace planish::suite::formats
