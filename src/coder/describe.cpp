#include "coder/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <type_traits>

namespace planish::coder {
namespace {

bool is_contiguous(const ir::Value& value) {
  std::int64_t expected = 1;
  for (std::size_t d = value.shape.size(); d-- > 0;) {
    if (value.shape[d] != 1 && value.strides[d] != expected) return false;
    expected *= value.shape[d];
  }
  return true;
}

std::string buffer_text(const ir::Value& value) {
  const std::string layout =
      is_contiguous(value) ? "contiguous" : fmt::format("strides [{}]", fmt::join(value.strides, ", "));
  return fmt::format("{}[{}], {}", value.dtype_name, fmt::join(value.shape, ", "), layout);
}

class Names {
 public:
  explicit Names(const codegen::Region& region) {
    for (std::size_t i = 0; i < region.outputs.size(); ++i) names_[region.outputs[i]] = fmt::format("out{}", i);
    // What a region is given although it could make it is read, not written.
    for (std::size_t i = 0; i < region.inputs.size(); ++i) names_[region.inputs[i]] = fmt::format("in{}", i);
  }
  std::string of(std::optional<int> value) const {
    if (!value) return "none";
    const auto known = names_.find(*value);
    return known == names_.end() ? fmt::format("v{}", *value) : known->second;
  }
  std::string argument(const ir::Arg& arg) const {
    return fmt::format("{}={}", arg.name, std::visit([this](const auto& data) { return text(data); }, arg.data));
  }

 private:
  template <typename T>
  std::string text(const T& data) const {
    if constexpr (std::is_same_v<T, ir::None>) {
      return "none";
    } else if constexpr (std::is_same_v<T, ir::ValueRef>) {
      return of(data.id);
    } else if constexpr (std::is_same_v<T, ir::ValueList>) {
      std::string out;
      for (const auto& id : data.ids) out += (out.empty() ? "" : ", ") + of(id);
      return "[" + out + "]";
    } else if constexpr (std::is_same_v<T, ir::DTypeArg> || std::is_same_v<T, ir::EnumArg>) {
      return data.name;
    } else {
      return fmt::format("{}", data);
    }
  }
  std::map<int, std::string> names_;
};

}  // namespace

std::string describe(const ir::Graph& graph, const codegen::Region& region) {
  const Names names(region);
  const auto value = [&](int id) -> const ir::Value& { return graph.values[static_cast<std::size_t>(id)]; };
  std::string out;
  for (std::size_t i = 0; i < region.inputs.size(); ++i)
    out += fmt::format("in{}: {}\n", i, buffer_text(value(region.inputs[i])));
  for (std::size_t i = 0; i < region.outputs.size(); ++i)
    out += fmt::format("out{}: {}\n", i, buffer_text(value(region.outputs[i])));
  for (const int id : region.nodes) {
    const ir::GraphNode& node = graph.nodes[static_cast<std::size_t>(id)];
    std::string outs, args;
    for (const auto& made : node.outs) outs += (outs.empty() ? "" : ", ") + names.of(made);
    for (const ir::Arg& arg : node.args) args += (args.empty() ? "" : ", ") + names.argument(arg);
    out += fmt::format("{} = {}({})\n", outs, node.op, args);
  }
  return out;
}

std::string topic(const ir::Graph& graph, const codegen::Region& region, std::string kind) {
  static constexpr std::array<std::string_view, 12> silent{"view",    "reshape", "expand",    "unsqueeze",
                                                           "squeeze", "permute", "transpose", "clone",
                                                           "alias",   "detach",  "getitem",   "_to_copy"};
  std::vector<std::string> words;
  const auto add = [&words](std::string word) {
    if (!word.empty() && std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  };
  add(std::move(kind));
  for (const int id : region.nodes) {
    // "aten.mul.Tensor" is mul.
    std::string_view op = graph.nodes[static_cast<std::size_t>(id)].op;
    if (op.starts_with("aten.")) op.remove_prefix(5);
    op = op.substr(0, op.find('.'));
    if (std::ranges::find(silent, op) == silent.end()) add(std::string(op));
  }
  for (const auto* values : {&region.inputs, &region.outputs}) {
    for (const int id : *values) add(graph.values[static_cast<std::size_t>(id)].dtype_name);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

}  // namespace planish::coder
