#include "evaluate/needed_work.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <vector>

namespace planish {
namespace {

constexpr double needed_share = 0.5, operations_share = 0.125;

/// Ends of names are left out: `aten.add.Tensor` is add.
std::string_view base_name(std::string_view op) {
  constexpr std::string_view prefix = "aten.";
  if (!op.starts_with(prefix)) return {};
  op.remove_prefix(prefix.size());
  return op.substr(0, op.find('.'));
}

template <std::size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& names) {
  return std::ranges::find(names, name) != names.end();
}

/// Every element goes on, in the same number.
constexpr std::array<std::string_view, 13> whole_views{
    "view",      "reshape", "_unsafe_view", "permute", "transpose", "t", "squeeze",
    "unsqueeze", "flatten", "contiguous",   "clone",   "_to_copy",  "to"};
/// Every element of the result follows from one of each operand. Not here: where, masked_fill, clamp and whatever else
/// may look away.
constexpr std::array<std::string_view, 22> pointwise{
    "add",  "sub",  "mul",  "div",  "neg", "exp", "log", "tanh",     "sqrt",  "rsqrt",  "sigmoid",
    "silu", "gelu", "mish", "relu", "abs", "pow", "erf", "softplus", "log1p", "square", "reciprocal"};
/// Every element of the result follows from all of a row, or of everything.
constexpr std::array<std::string_view, 14> folds{"sum",          "mean",       "amax",     "amin",      "var",
                                                 "std",          "logsumexp",  "softmax",  "_softmax",  "log_softmax",
                                                 "_log_softmax", "layer_norm", "rms_norm", "group_norm"};
constexpr std::array<std::string_view, 5> products{"mm", "bmm", "matmul", "linear", "addmm"};

double bytes_of(const ir::Value& value) {
  return static_cast<double>(value.elements()) * static_cast<double>(size_of(value.dtype));
}

/// One pass from the inputs and one from the outputs.
class Audit {
 public:
  explicit Audit(const ir::Graph& graph)
      : graph_(graph),
        dense_(graph.values.size(), false),
        given_(graph.values.size(), false),
        reaches_(graph.values.size(), false),
        alone_(graph.values.size(), false) {}

  NeededWork work() {
    forward();
    backward();
    NeededWork out;
    std::set<int> counted;
    for (const ir::GraphOutput& output : graph_.outputs) {
      if (output.value >= 0 && !is_input(output.value) && counted.insert(output.value).second)
        out.output_bytes += bytes_of(value(output.value));
    }
    for (const ir::GraphInput& input : graph_.inputs) {
      if (input.kind != "const" && reaches_[at(input.value)])
        out.input_bytes += needed_share * bytes_of(value(input.value));
    }
    for (const ir::GraphNode& node : graph_.nodes) out.flops += operations_share * operations_of(node);
    return out;
  }

 private:
  static std::size_t at(int id) { return static_cast<std::size_t>(id); }
  const ir::Value& value(int id) const { return graph_.values[at(id)]; }
  bool is_input(int id) const {
    return std::ranges::any_of(graph_.inputs, [id](const ir::GraphInput& input) { return input.value == id; });
  }
  static bool looks_at_all(const ir::GraphNode& node) {
    const std::string_view op = base_name(node.op);
    return is_one_of(op, whole_views) || is_one_of(op, pointwise) || is_one_of(op, folds) || is_one_of(op, products);
  }
  bool all_dense(const ir::GraphNode& node) const {
    return std::ranges::all_of(ir::reads(node), [this](int id) { return dense_[at(id)]; });
  }

  /// Dense: no element is zero, or the same, wherever the data come from. A constant may be a mask.
  void forward() {
    for (const ir::GraphInput& input : graph_.inputs)
      dense_[at(input.value)] = given_[at(input.value)] = input.kind != "const";
    for (const ir::GraphNode& node : graph_.nodes) {
      const bool whole = looks_at_all(node) && all_dense(node);
      const auto read = ir::reads(node);
      const bool view = is_one_of(base_name(node.op), whole_views) && read.size() == 1;
      for (const auto& out : node.outs) {
        if (!out) continue;
        dense_[at(*out)] = whole;
        given_[at(*out)] = view && given_[at(read.front())];
      }
    }
  }

  /// reaches: every element can move an output. alone: each by itself, so that none can be had without the others'.
  void backward() {
    for (const ir::GraphOutput& output : graph_.outputs) {
      if (output.value >= 0) reaches_[at(output.value)] = alone_[at(output.value)] = true;
    }
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (!looks_at_all(*node) || !all_dense(*node)) continue;
      const auto one = [](const std::optional<int>& out, const std::vector<bool>& which) {
        return out && which[static_cast<std::size_t>(*out)];
      };
      const bool reached = std::ranges::any_of(node->outs, [&](const auto& out) { return one(out, reaches_); });
      const std::string_view op = base_name(node->op);
      const bool each = (is_one_of(op, whole_views) || is_one_of(op, pointwise)) &&
                        std::ranges::any_of(node->outs, [&](const auto& out) { return one(out, alone_); });
      for (const int id : ir::reads(*node)) {
        if (reached) reaches_[at(id)] = true;
        if (each) alone_[at(id)] = true;
      }
    }
  }

  double operations_of(const ir::GraphNode& node) const {
    const std::string_view op = base_name(node.op);
    if (!is_one_of(op, products) || node.outs.empty() || !node.outs.front() || !alone_[at(*node.outs.front())])
      return 0;
    std::vector<int> read = ir::reads(node);
    if (op == "addmm" && read.size() == 3) read.erase(read.begin());
    if (read.size() < 2 || !given_[at(read[0])] || !given_[at(read[1])] || read[0] == read[1]) return 0;
    const ir::Value& left = value(read[0]);
    if (left.shape.empty() || !is_floating(left.dtype)) return 0;
    return 2 * static_cast<double>(value(*node.outs.front()).elements()) * static_cast<double>(left.shape.back());
  }

  const ir::Graph& graph_;
  std::vector<bool> dense_, given_, reaches_, alone_;
};

}  // namespace

NeededWork needed_work_of(const ir::Graph& graph) {
  return Audit(graph).work();
}

}  // namespace planish
