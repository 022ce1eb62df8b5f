#include "ship/source_model.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <vector>

#include "ship/embed.h"
#include "ship/source_build.h"

namespace planish::ship {
namespace {

const std::map<std::string, std::string> torch_names{
    {"f64", "float64"}, {"f32", "float32"}, {"f16", "float16"}, {"bf16", "bfloat16"}, {"i64", "int64"},
    {"i32", "int32"},   {"i16", "int16"},   {"i8", "int8"},     {"u8", "uint8"},      {"bool", "bool"}};

std::string dtype(const std::string& name) {
  const auto found = torch_names.find(name);
  return "torch." + (found == torch_names.end() ? name : found->second);
}

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// (1, 2), and (1,) for one.
std::string tuple(const Json& numbers) {
  std::vector<std::string> parts;
  for (const Json& n : numbers) parts.push_back(n.dump());
  return "(" + joined(parts) + (parts.size() == 1 ? ",)" : ")");
}

std::string floating(const std::string& hex) {
  return fmt::format("float.fromhex(\"{}\")", hex);
}

/// A value of a graph's argument as Python.
std::string value(const Json& arg) {
  for (const auto& [key, given] : arg.items()) {
    if (key == "name") continue;
    if (key == "buffer") return fmt::format("b{}", given.get<int>());
    if (key == "int") return given.dump();
    if (key == "bool") return given.get<bool>() ? "True" : "False";
    if (key == "float") return floating(given.get<std::string>());
    if (key == "str") return python_string(given.get<std::string>());
    if (key == "dtype") return dtype(given.get<std::string>());
    if (key == "enum") {
      const auto name = given.get<std::string>();
      return name.starts_with("torch.") ? name : "device";
    }
    if (key == "none") return "None";
    if (key == "numbers")
      return fmt::format("torch.tensor({}, dtype={}).reshape({})", given["ints"].dump(),
                         dtype(given["dtype"].get<std::string>()), tuple(given["shape"]));
    std::vector<std::string> parts;
    for (const Json& one : given) {
      if (one.is_null())
        parts.emplace_back("None");
      else if (key == "buffers")
        parts.push_back(fmt::format("b{}", one.get<int>()));
      else if (one.is_boolean())
        parts.emplace_back(one.get<bool>() ? "True" : "False");
      else
        parts.push_back(one.is_string() ? floating(one.get<std::string>()) : one.dump());
    }
    return "[" + joined(parts) + "]";
  }
  return "None";
}

class Writer {
 public:
  Writer(const Json& program, const Json& manifest)
      : program_(program),
        manifest_(manifest),
        target_(backend::named(program["target"].get<std::string>())),
        buffers_(program["buffers"]) {}

  Result<std::string> write() {
    PLANISH_CHECK(kernels());
    roles();
    steps();
    outputs();
    return text();
  }

 private:
  Status kernels() {
    PLANISH_TRY(const SourceBuild* build, source_build(target_));
    for (std::size_t k = 0; k < program_["kernels"].size(); ++k) {
      const Json& kernel = program_["kernels"][k];
      const backend::Language& language = language_of(kernel);
      // Whose flags decide a launch is a compiler of its own, which a makefile cannot call.
      if (language.threads != nullptr) {
        return fail("unsupported",
                    fmt::format("kernel {} is written in {}, which this form does not build", k, language.title),
                    "use --form folder or --form file");
      }
      kernels_ += fmt::format("k{0} = launch.{1}(\"build/k{0}.{2}\", {3})\n", k, build->kernel_class(), language.binary,
                              python_string(kernel["entry"].get<std::string>()));
    }
    return {};
  }

  std::string about(std::size_t b) const {
    return fmt::format("{} {}", buffers_[b]["dtype"].get<std::string>(), buffers_[b]["shape"].dump());
  }
  std::string layout(std::size_t b) const { return tuple(buffers_[b]["shape"]) + ", " + tuple(buffers_[b]["strides"]); }
  void line(const std::string& code) { body_ += "        " + code + "\n"; }

  /// Where the program's inputs come from, and what must hold of them.
  void roles() {
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      const std::string role = buffers_[b]["role"];
      if (role == "temp" || role == "output") continue;
      const Json& source = buffers_[b]["source"];
      if (role == "input" && source["kind"] == "generator") {
        generators_.insert(static_cast<int>(b));
        continue;
      }
      if (role == "const") {
        constants_ += fmt::format("        b{} = launch.constant({}, {}, {}, device)  # {}\n", b,
                                  python_string(source["blob"].get<std::string>()),
                                  dtype(buffers_[b]["dtype"].get<std::string>()), layout(b), about(b));
        continue;
      }
      std::string from;
      if (source["kind"] == "user") {
        from = fmt::format("leaves[{}]", source["index"].get<int>());
      } else {
        from = fmt::format("self.get_{}({})", source["kind"] == "param" ? "parameter" : "buffer",
                           python_string(source["name"].get<std::string>()));
      }
      names_.push_back(fmt::format("b{}", b));
      sources_ += fmt::format("            {},\n", from);
      expected_ += fmt::format(
          "    ({}, {}),  # b{}: {}\n", dtype(buffers_[b]["dtype"].get<std::string>()), layout(b), b,
          role == "input" ? fmt::format("argument {}", source["index"].get<int>()) : source["name"].get<std::string>());
    }
  }

  std::string launch_argument(const Json& arg) const {
    for (const auto& [key, given] : arg.items()) {
      if (key == "buffer") return fmt::format("b{}", given.get<int>());
      const bool integer = key == "i32" || key == "i64";
      const std::string type = key == "i32"   ? "c_int32"
                               : key == "i64" ? "c_int64"
                               : key == "f32" ? "c_float"
                                              : "c_double";
      return fmt::format("{}({})", type, integer ? given.dump() : floating(given.get<std::string>()));
    }
    return "None";
  }

  void launch(const Json& step) {
    std::vector<std::string> args;
    for (const Json& arg : step["args"]) args.push_back(launch_argument(arg));
    if (target_.has_grids) {
      args.push_back("grid=" + tuple(step["grid"]));
      args.push_back("block=" + tuple(step["block"]));
      if (step["cluster"] != Json::array({1, 1, 1})) args.push_back("cluster=" + tuple(step["cluster"]));
      if (step["shared"] != 0) args.push_back("shared=" + step["shared"].dump());
      if (step.value("cooperative", false)) args.emplace_back("cooperative=True");
      if (step.value("programmatic", false) && launched_) args.emplace_back("programmatic=True");
      launched_ = true;
    }
    line(fmt::format("k{}({})", step["kernel"].get<int>(), joined(args)));
  }

  void aten(const Json& step) {
    std::vector<std::string> args, outs;
    bool draws = false;  // from torch's own generator, whose state no code passes on
    for (const Json& arg : step["args"]) {
      if (arg.contains("buffer") && generators_.contains(arg["buffer"].get<int>())) {
        draws = true;
      } else {
        args.push_back(arg["name"].get<std::string>() + "=" + value(arg));
      }
    }
    for (const Json& out : step["outs"]) outs.push_back(out.is_null() ? "_" : fmt::format("b{}", out.get<int>()));
    if (draws) {
      if (!step["outs"].back().is_null()) generators_.insert(step["outs"].back().get<int>());
      outs.pop_back();
    }
    line(fmt::format("{} = torch.ops.{}({})", joined(outs), step["op"].get<std::string>(), joined(args)));
    for (const Json& out : step["outs"]) {
      if (!out.is_null() && native_.contains(out.get<int>())) {
        line(fmt::format("b{0} = launch.laid_out(b{0}, {1})", out.get<int>(), layout(out.get<std::size_t>())));
      }
    }
  }

  void steps() {
    std::set<int> made;
    for (const Json& step : program_["steps"]) {
      if (step["kind"] == "aten") {
        for (const Json& out : step["outs"]) {
          if (!out.is_null()) made.insert(out.get<int>());
        }
      } else if (step["kind"] == "launch") {
        for (const Json& arg : step["args"]) {
          if (arg.contains("buffer")) native_.insert(arg["buffer"].get<int>());
        }
      } else {
        native_.insert(step[step["kind"] == "copy" ? "to" : "buffer"].get<int>());
      }
    }
    for (const int b : native_) {
      const Json& buffer = buffers_[static_cast<std::size_t>(b)];
      if (made.contains(b) || (buffer["role"] != "temp" && buffer["role"] != "output")) continue;
      const auto at = static_cast<std::size_t>(b);
      line(fmt::format("b{} = torch.empty_strided({}, dtype={}, device=device)  # {} {}", b, layout(at),
                       dtype(buffer["dtype"].get<std::string>()), buffer["role"].get<std::string>(), about(at)));
    }
    for (const Json& step : program_["steps"]) {
      const std::string kind = step["kind"];
      if (kind == "launch") launch(step);
      if (kind == "aten") aten(step);
      if (kind == "copy") line(fmt::format("b{}.copy_(b{})", step["to"].get<int>(), step["from"].get<int>()));
      if (kind == "set") {
        line(fmt::format("b{}.fill_({})", step["buffer"].get<int>(), floating(step["value"].get<std::string>())));
      }
    }
  }

  void outputs() {
    std::vector<std::string> user;
    for (const Json& out : program_["outputs"]) {
      if (out["kind"] == "user") {
        user.push_back(fmt::format("b{}", out["buffer"].get<int>()));
      } else if (out["kind"] == "scalar") {
        user.push_back(value(out["arg"]));
      } else if (out["kind"] == "mutate_buffer") {
        line(fmt::format("self.get_buffer({}).copy_(b{})", python_string(out["target"].get<std::string>()),
                         out["buffer"].get<int>()));
      } else if (out["kind"] == "mutate_input") {
        line(fmt::format("leaves[{}].copy_(b{})", out["target"].get<int>(), out["buffer"].get<int>()));
      }
    }
    line(fmt::format("return pytree.tree_unflatten([{}], OUTPUTS)", joined(user)));
  }

  std::string text() const {
    std::vector<std::string> scalars;
    for (const Json& scalar : manifest_["scalars"])
      scalars.push_back(fmt::format("{}: {}", scalar["index"].get<int>(), value(scalar["arg"])));
    const std::string target = program_["target"];
    std::string out = fmt::format(
        "\"\"\"The task's Model with kernels in front of its forward. `ModelNew` is used as `reference.Model` is.\n\n"
        "Every other call than the one the kernels were made for (EXPECTED, SCALARS) runs the original "
        "forward.\n\"\"\"\n\n"
        "from ctypes import c_double, c_float, c_int32, c_int64  # noqa: F401\n\n"
        "import launch\nimport reference\nimport torch\nfrom torch.utils import _pytree as pytree\n\n"
        "TARGET = {}\nHAS_KERNELS = {}\n\n{}\n",
        python_string(target), program_["kernels"].empty() ? "False" : "True", kernels_);
    out += fmt::format("# What the kernels were made for: dtype, shape and strides.\nEXPECTED = [\n{}]\n", expected_);
    out += fmt::format("SCALARS = {{{}}}  # arguments that are no tensors, by their place\n", joined(scalars));
    out += fmt::format("INPUTS = pytree.treespec_loads({})\nOUTPUTS = pytree.treespec_loads({})\n\n\n",
                       python_string(manifest_["input_tree"].get<std::string>()),
                       python_string(manifest_["output_tree"].get<std::string>()));
    out +=
        "class ModelNew(reference.Model):\n"
        "    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n"
        "        self._as_captured = launch.made_as_captured(reference, args, kwargs)\n"
        "        self._modes = [m.training for m in self.modules()]\n\n"
        "    def forward(self, *args, **kwargs):\n"
        "        if launch.plain_context() and self._as_captured and self._modes == [m.training for m in "
        "self.modules()]:\n"
        "            leaves, tree = pytree.tree_flatten((args, kwargs))\n"
        "            if tree == INPUTS and all(launch.same(leaves[i], v) for i, v in "
        "SCALARS.items()):\n"
        "                tensors = self.tensors(leaves)\n"
        "                if launch.fits(tensors, EXPECTED, TARGET):\n"
        "                    return self.run(leaves, tensors)\n"
        "        return super().forward(*args, **kwargs)\n\n";
    out += fmt::format("    def tensors(self, leaves):\n        return [\n{}        ]\n\n", sources_);
    out += "    def run(self, leaves, tensors):\n";
    if (!names_.empty()) out += fmt::format("        {}{} = tensors\n", joined(names_), names_.size() == 1 ? "," : "");
    out += fmt::format("        device = {}\n{}{}", names_.empty() ? "torch.device(TARGET)" : "tensors[0].device",
                       constants_, body_);
    return out;
  }

  const Json &program_, &manifest_;
  const backend::Backend& target_;
  const Json& buffers_;
  bool launched_ = false;     ///< a launch was printed before: the one at hand is not the call's first
  std::set<int> native_;      ///< buffers that kernels, copies and sets touch
  std::set<int> generators_;  ///< buffers that stand for the state of torch's generator
  std::vector<std::string> names_;
  std::string kernels_, sources_, expected_, constants_, body_;
};

}  // namespace

Result<std::string> source_model(const Json& program, const Json& manifest) {
  return Writer(program, manifest).write();
}

}  // namespace planish::ship
