// BackendBench: traced calls of PyTorch's operators, and a folder of kernels for each operator.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "suite/formats/imported.h"
#include "suite/formats/python_text.h"

namespace planish::suite::formats {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::string, std::less<>> dtypes = {
    {"f64", "float64"}, {"f32", "float32"}, {"f16", "float16"},   {"bf16", "bfloat16"},
    {"i64", "int64"},   {"i32", "int32"},   {"i16", "int16"},     {"i8", "int8"},
    {"u8", "uint8"},    {"b8", "bool"},     {"c64", "complex64"}, {"c128", "complex128"}};

/// Why a traced call is none: nothing but values and T(shape, dtype) may stand in it, since it becomes a part of a
/// task.
std::string problem_of(std::string_view call) {
  std::string open;
  for (std::size_t i = 0; i < call.size();) {
    const char c = call[i];
    if (c == '(' || c == '[' || c == '{') {
      open += c;
      ++i;
    } else if (c == ')' || c == ']' || c == '}') {
      const char wanted = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.empty() || open.back() != wanted) return "brackets do not match";
      open.pop_back();
      ++i;
    } else if (c == '\'' || c == '"') {
      const std::size_t end = call.find(c, i + 1);
      if (end == std::string_view::npos) return "a text does not end";
      if (call.substr(i, end - i).find('\\') != std::string_view::npos) return "a text with an escape";
      i = end + 1;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      std::size_t end = i;
      while (end < call.size() &&
             (std::isalnum(static_cast<unsigned char>(call[end])) || call[end] == '_' || call[end] == '.'))
        ++end;
      const std::string word(call.substr(i, end - i));
      static const std::set<std::string, std::less<>> values = {"T", "True", "False", "None", "inf", "nan"};
      const bool torchs = word.starts_with("torch.") && word.find('.', 6) == std::string::npos;  // a dtype or a layout
      if (!values.contains(word) && !dtypes.contains(word) && !torchs) return fmt::format("'{}' is no value", word);
      const std::size_t next = call.find_first_not_of(' ', end);
      if (word != "T" && next != std::string_view::npos && call[next] == '(')
        return fmt::format("'{}' is called", word);
      i = end;
    } else if (std::isdigit(static_cast<unsigned char>(c)) ||
               std::string_view(" ,:+-.").find(c) != std::string_view::npos) {
      // Of a number, its exponent as well.
      const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
      ++i;
      if (digit && i + 1 < call.size() && (call[i] == 'e' || call[i] == 'E')) ++i;
    } else {
      return fmt::format("'{}' does not belong there", c);
    }
  }
  if (!open.empty()) return "a bracket is not closed";
  return call.starts_with("((") ? std::string() : std::string("it must be ((arguments), {keywords})");
}

/// `add__Tensor` of `aten.add.Tensor`: how folders are called.
std::string folder_name(std::string_view op) {
  std::string name(op.substr(op.starts_with("aten.") ? 5 : 0));
  const std::size_t dot = name.find('.');
  if (dot != std::string::npos) name = name.substr(0, dot) + "__" + name.substr(dot + 1);
  return name;
}

bool is_operator(std::string_view op) {
  if (!op.starts_with("aten.")) return false;
  const auto dots = std::ranges::count(op, '.');
  return dots >= 1 && dots <= 2 && !op.ends_with('.') && std::ranges::all_of(op, [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
         });
}

std::string task_text(const std::string& op, const std::string& call) {
  std::string names;
  for (const auto& [name, dtype] : dtypes) names += fmt::format("{} = torch.{}\n", name, dtype);
  return python_head("BackendBench " + op, {}) + "\ninf, nan = float(\"inf\"), float(\"nan\")\n" + names +
         fmt::format(R"py(

def T(shape, dtype, strides=None):
    if dtype is torch.bool:
        made = torch.randint(0, 2, shape, dtype=dtype)
    elif dtype.is_floating_point or dtype.is_complex:
        made = torch.rand(shape, dtype=torch.float32).to(dtype)
    else:
        made = torch.randint(0, 100, shape, dtype=dtype)
    return made if strides is None else torch.empty_strided(shape, strides, dtype=dtype).copy_(made)


class Model(nn.Module):
    def forward(self, *args, **kwargs):
        return torch.ops.{}(*args, **kwargs)


def get_inputs():
    args, kwargs = {}
    return [list(args), kwargs]


def get_init_inputs():
    return []
)py",
                     op, call);
}

/// The kernel of an operator: the first of its files by name.
Result<std::string> solution_of(const fs::path& folder, const std::string& name) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (auto it = fs::directory_iterator(folder / name, failed); !failed && it != fs::directory_iterator();
       it.increment(failed)) {
    const std::string file = it->path().filename().string();
    if (file.starts_with(name + "_implementation") && file.ends_with(".py")) files.push_back(it->path());
  }
  if (failed || files.empty()) return std::string();
  std::ranges::sort(files);
  PLANISH_TRY(auto text, read_file(files.front()));
  const std::string function = name + "_kernel_impl";
  if (text.find("def " + function) == std::string::npos)
    return fail(bad_task, fmt::format("{}: defines no {}", files.front().string(), function));
  return python_head("BackendBench kernel for " + name, {{"implementation", std::move(text)}}) + fmt::format(R"py(
from implementation import {0}


class ModelNew(nn.Module):
    def forward(self, *args, **kwargs):
        return {0}(*args, **kwargs)
)py",
                                                                                                             function);
}

}  // namespace

Result<Imported> import_backendbench(const fs::path& traces, const fs::path& operators) {
  Imported out;
  out.format = "backendbench";
  PLANISH_TRY(const auto text, read_file(traces));
  std::map<std::string, int> counted;
  std::map<std::string, std::string> kernels;  // operator → made solution
  std::string op;
  int line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string one = text.substr(at, end - at);
    at = end + 1;
    const std::string where = fmt::format("{}, line {}", traces.string(), ++line);
    one.erase(0, one.find_first_not_of(" \t"));
    one.erase(one.find_last_not_of(" \t\r") + 1);
    if (one.empty()) continue;
    if (one.starts_with("Operator: ")) {
      op = one.substr(10);
      if (!is_operator(op)) {
        out.left_out.push_back(fmt::format("{}: '{}' is no operator of aten", where, op));
        op.clear();
      } else if (!operators.empty() && !kernels.contains(op)) {
        auto made = solution_of(operators, folder_name(op));
        if (!made) out.left_out.push_back(made.error().message);
        kernels[op] = made.value_or("");
      }
      continue;
    }
    const std::size_t comma = one.find(", ");
    const bool call = one.starts_with("cnt: ") && comma != std::string::npos;
    const std::string arguments = call ? one.substr(comma + 2) : std::string();
    const std::string problem = call ? problem_of(arguments) : "neither `Operator: …` nor `cnt: N, (…)`";
    if (!problem.empty()) {
      out.left_out.push_back(fmt::format("{}: {}", where, problem));
      continue;
    }
    if (op.empty()) continue;
    const std::string name = fmt::format("{}-{}", file_name(folder_name(op)), counted[op]++);
    const Json origin = {{"operator", op}, {"arguments", arguments}};
    out.tasks.push_back({name, task_text(op, arguments), dump_json(origin)});
    if (!kernels[op].empty()) out.solutions.push_back({"kernels", name, kernels[op], dump_json(origin)});
  }
  if (out.tasks.empty()) {
    return fail("no_tasks", traces.string() + " has no call that can be read",
                out.left_out.empty() ? "name a file of traced calls" : out.left_out.front());
  }
  return out;
}

}  // namespace planish::suite::formats
