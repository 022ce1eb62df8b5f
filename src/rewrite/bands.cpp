#include "rewrite/bands.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace planish::rewrite {
namespace {

constexpr int deepest = 16;  ///< nodes behind one another that are looked at

Band both(const Band& a, const Band& b) {
  return {std::max(a.least, b.least), std::min(a.most, b.most)};
}
Band either(const Band& a, const Band& b) {
  return {std::min(a.least, b.least), std::max(a.most, b.most)};
}
/// All other places, where they are a band.
std::optional<Band> others(const Band& band) {
  if (band.least <= -Band::unbounded && band.most < Band::unbounded) return Band{band.most + 1};
  if (band.most >= Band::unbounded && band.least > -Band::unbounded) return Band{-Band::unbounded, band.least - 1};
  return std::nullopt;
}

bool is(const ir::GraphNode& node, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, node.op) != ops.end();
}

bool same_matrix(const Editor& editor, int a, int b) {
  const auto& one = editor.value(a).shape;
  const auto& other = editor.value(b).shape;
  return one.size() >= 2 && other.size() >= 2 && std::equal(one.end() - 2, one.end(), other.end() - 2);
}

/// What a node moves to other dims in front of a matrix, which it leaves as it is; -1 for other nodes.
int moved(const Editor& editor, const ir::GraphNode& node) {
  if (!is(node, {"aten.view.default", "aten.expand.default", "aten.unsqueeze.default", "aten.clone.default"}))
    return -1;
  const int self = tensor(node, "self");
  return self >= 0 && node.outs[0] && same_matrix(editor, self, *node.outs[0]) ? self : -1;
}

/// What a node turns, so that rows are columns; -1 for other nodes.
int turned(const Editor& editor, const ir::GraphNode& node) {
  if (node.op != "aten.permute.default") return -1;
  const ir::Arg* arg = node.arg("dims");
  const auto* order = arg == nullptr ? nullptr : std::get_if<std::vector<std::int64_t>>(&arg->data);
  const int self = tensor(node, "self");
  if (order == nullptr || self < 0) return -1;
  const auto rank = static_cast<std::int64_t>(editor.value(self).shape.size());
  if (rank < 2 || std::ssize(*order) != rank) return -1;
  const auto at = [&](std::int64_t d) {
    const std::int64_t from = (*order)[static_cast<std::size_t>(d)];
    return from < 0 ? from + rank : from;
  };
  return at(rank - 1) == rank - 2 && at(rank - 2) == rank - 1 ? self : -1;
}

/// A number that all elements are.
std::optional<double> constant(const Editor& editor, int id) {
  const ir::GraphNode* node = editor.maker(id);
  if (node == nullptr || !is(*node, {"aten.full.default", "aten.scalar_tensor.default"})) return std::nullopt;
  const char* name = node->op == "aten.full.default" ? "fill_value" : "s";
  const ir::Arg* arg = node->arg(name);
  if (const auto* truth = arg == nullptr ? nullptr : std::get_if<bool>(&arg->data)) return *truth ? 1 : 0;
  return number(*node, name);
}
bool all_zero(const Editor& editor, int id) {
  return constant(editor, id) == 0.0;
}

/// Whole numbers that count rows and columns of a matrix: row · (the row) + column · (the column) + constant.
struct Count {
  std::int64_t row = 0, column = 0, constant = 0;
};

/// Of a value that has fewer dims, or extents of 1, and is broadcast to the matrix.
std::optional<Count> count(const Editor& editor, int id, int depth = 0) {
  const ir::GraphNode* node = editor.maker(id);
  if (node == nullptr || depth > deepest || editor.value(id).dtype != DType::i64) return std::nullopt;
  const auto& shape = editor.value(id).shape;
  if (node->op == "aten.arange.start_step") {
    const auto start = integer(*node, "start"), step = integer(*node, "step");
    // Of one element, which is broadcast, every place has the first.
    return start && step ? std::optional(Count{0, shape[0] == 1 ? 0 : *step, *start}) : std::nullopt;
  }
  const int self = tensor(*node, "self");
  if (self < 0) return std::nullopt;
  auto found = count(editor, self, depth + 1);
  if (!found) return std::nullopt;
  if (is(*node, {"aten.unsqueeze.default", "aten.view.default"})) {
    // A vector that becomes a row or a column.
    if (editor.value(self).shape.size() != 1 || shape.size() != 2) return std::nullopt;
    if (shape[1] == 1) return Count{found->column, 0, found->constant};
    return shape[0] == 1 ? found : std::nullopt;
  }
  const bool minus = node->op == "aten.sub.Tensor";
  if ((!minus && node->op != "aten.add.Tensor") || integer(*node, "alpha").value_or(1) != 1) return std::nullopt;
  const int other = tensor(*node, "other");
  const auto number = integer(*node, "other");
  const auto second = other >= 0 ? count(editor, other, depth + 1)
                      : number   ? std::optional(Count{0, 0, *number})
                                 : std::nullopt;
  if (!second) return std::nullopt;
  const std::int64_t sign = minus ? -1 : 1;
  return Count{found->row + sign * second->row, found->column + sign * second->column,
               found->constant + sign * second->constant};
}

/// Where sign · (column - row) + constant compares so with zero.
std::optional<Band> compared(std::string_view how, const Count& count) {
  if (count.row != -count.column || (count.column != 1 && count.column != -1)) return std::nullopt;
  if (count.constant <= -Band::unbounded || count.constant >= Band::unbounded) return std::nullopt;
  const bool falls = count.column < 0;
  // sign · t + c ≤ 0 is t ≤ -c, or t ≥ c.
  const auto at_most = [&](std::int64_t c) { return falls ? Band{c} : Band{-Band::unbounded, -c}; };
  const auto at_least = [&](std::int64_t c) { return falls ? Band{-Band::unbounded, c} : Band{-c}; };
  if (how == "le") return at_most(count.constant);
  if (how == "lt") return at_most(count.constant + 1);
  if (how == "ge") return at_least(count.constant);
  if (how == "gt") return at_least(count.constant - 1);
  if (how == "eq") return both(at_most(count.constant), at_least(count.constant));
  return std::nullopt;
}

/// A comparison of counts, or of a distance of counts with a number.
std::optional<Band> comparison(const Editor& editor, const ir::GraphNode& node, std::string_view how) {
  const int self = tensor(node, "self"), other = tensor(node, "other");
  const auto number = integer(node, "other");
  if (self < 0 || (other < 0 && !number)) return std::nullopt;
  const ir::GraphNode* distance = editor.maker(self);
  if (distance != nullptr && distance->op == "aten.abs.default" && number && (how == "le" || how == "lt")) {
    auto first = count(editor, tensor(*distance, "self"));
    if (!first) return std::nullopt;
    Count low = *first;
    first->constant -= *number;
    low.constant += *number;
    const auto below = compared(how, *first), above = compared(how == "le" ? "ge" : "gt", low);
    return below && above ? std::optional(both(*below, *above)) : std::nullopt;
  }
  auto first = count(editor, self);
  const auto second = other >= 0 ? count(editor, other) : std::optional(Count{0, 0, *number});
  if (!first || !second) return std::nullopt;
  first->row -= second->row;
  first->column -= second->column;
  first->constant -= second->constant;
  return compared(how, *first);
}

/// Where one of two constants is chosen that is not zero, by a mask: as `torch.ones(n, n).tril()` is.
std::optional<Band> chosen(const Editor& editor, int id) {
  const ir::GraphNode* node = editor.maker(id);
  if (node == nullptr || node->op != "aten.where.self") return std::nullopt;
  const auto self = constant(editor, tensor(*node, "self")), other = constant(editor, tensor(*node, "other"));
  const auto found = mask(editor, tensor(*node, "condition"));
  if (!self || !other || !found || (*self == 0) == (*other == 0)) return std::nullopt;
  return *self != 0 ? found : others(*found);
}

/// What `node` makes is zero where its one operand is.
bool keeps_zero(const ir::GraphNode& node) {
  if (is(node, {"aten.neg.default", "aten.relu.default", "aten.abs.default", "aten.tanh.default", "aten.sin.default"}))
    return true;
  const auto by = number(node, "other");
  if (!by || !std::isfinite(*by)) return false;
  return node.op == "aten.mul.Tensor" || (node.op == "aten.div.Tensor" && *by != 0);
}

/// Whether an element of the result depends on the element at the same place of each operand of its shape alone.
bool is_pointwise(const ir::GraphNode& node) {
  return is(node, {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.neg.default",
                   "aten.abs.default", "aten.relu.default", "aten.tanh.default", "aten.exp.default",
                   "aten.gelu.default", "aten.sigmoid.default", "aten.silu.default", "aten.pow.Tensor_Scalar"});
}

Band nonzero_of(const Editor& editor, int id, int depth) {
  const ir::GraphNode* node = editor.maker(id);
  if (node == nullptr || depth > deepest || editor.value(id).shape.size() < 2) return {};
  if (const int self = moved(editor, *node); self >= 0) return nonzero_of(editor, self, depth + 1);
  if (const int self = turned(editor, *node); self >= 0) {
    const Band band = nonzero_of(editor, self, depth + 1);
    return {-band.most, -band.least};
  }
  const auto behind = [&](int operand) {
    return operand >= 0 && same_matrix(editor, operand, id) ? nonzero_of(editor, operand, depth + 1) : Band{};
  };
  const int self = tensor(*node, "self"), other = tensor(*node, "other");
  if (node->op == "aten.where.self") {
    const int condition = tensor(*node, "condition");
    const auto at = same_matrix(editor, condition, id) ? mask(editor, condition) : std::nullopt;
    if (at && all_zero(editor, other)) return both(*at, behind(self));
    if (at && all_zero(editor, self)) return both(others(*at).value_or(Band{}), behind(other));
    return {};
  }
  if (keeps_zero(*node)) return behind(self);
  if ((node->op == "aten.add.Tensor" || node->op == "aten.sub.Tensor") && other >= 0 &&
      number(*node, "alpha").value_or(1) == 1)
    return either(behind(self), behind(other));
  return {};
}

Band wanted_of(const Editor& editor, int id, int depth) {
  if (depth > deepest || editor.is_output(id) || editor.readers(id).empty()) return {};
  Band all{Band::unbounded, -Band::unbounded};
  for (const int reader : editor.readers(id)) {
    const ir::GraphNode& node = editor.node(reader);
    if (node.outs.size() != 1 || !node.outs[0] || editor.value(*node.outs[0]).shape != editor.value(id).shape)
      return {};
    const int self = tensor(node, "self"), other = tensor(node, "other"), condition = tensor(node, "condition");
    if (node.op == "aten.where.self" && condition != id && self != other) {
      // A kernel of ours may be attention whose scores such a mask follows, which is worth more.
      const bool zero = all_zero(editor, self == id ? other : self);
      if (!editor.options().library_products && !zero) return {};
      const auto at = same_matrix(editor, condition, id) ? mask(editor, condition) : std::nullopt;
      const auto part = !at ? Band{} : self == id ? *at : others(*at).value_or(Band{});
      all = either(all, both(part, wanted_of(editor, *node.outs[0], depth + 1)));
    } else if (is_pointwise(node)) {
      all = either(all, wanted_of(editor, *node.outs[0], depth + 1));
    } else {
      return {};
    }
  }
  return all;
}

}  // namespace

std::optional<Band> mask(const Editor& editor, int id) {
  const ir::GraphNode* node = editor.maker(id);
  if (node == nullptr || editor.value(id).dtype != DType::boolean) return std::nullopt;
  if (const int self = moved(editor, *node); self >= 0 && editor.value(self).dtype == DType::boolean)
    return mask(editor, self);
  if (const auto truth = constant(editor, id)) return *truth != 0 ? std::optional(Band{}) : std::nullopt;
  const int self = tensor(*node, "self"), other = tensor(*node, "other");
  if (is(*node, {"aten.bitwise_not.default", "aten.logical_not.default"})) {
    const auto found = mask(editor, self);
    return found ? others(*found) : std::nullopt;
  }
  if (is(*node, {"aten.logical_and.default", "aten.bitwise_and.Tensor"})) {
    if (other < 0 || !same_matrix(editor, self, other)) return std::nullopt;
    const auto one = mask(editor, self), two = mask(editor, other);
    return one && two ? std::optional(both(*one, *two)) : std::nullopt;
  }
  if (node->op == "aten._to_copy.default") return chosen(editor, self);
  if (is(*node, {"aten.eq.Scalar", "aten.ne.Scalar"}) && number(*node, "other") == 0.0) {
    if (const auto found = chosen(editor, self)) return node->op == "aten.ne.Scalar" ? found : others(*found);
  }
  for (const std::string_view how : {"le", "lt", "ge", "gt", "eq"}) {
    const std::string op = "aten." + std::string(how);
    if (node->op == op + ".Scalar" || node->op == op + ".Tensor") return comparison(editor, *node, how);
  }
  return std::nullopt;
}

Band nonzero(const Editor& editor, int id) {
  return nonzero_of(editor, id, 0);
}

Band nonzero_but_nan_rows(const Editor& editor, int id) {
  const ir::GraphNode* node = editor.maker(id);
  if (node == nullptr || node->op != "aten._softmax.default") return nonzero(editor, id);
  const auto dim = integer(*node, "dim");
  const auto& shape = editor.value(id).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const ir::GraphNode* masked = editor.maker(tensor(*node, "self"));
  if (rank < 2 || !dim || (*dim != -1 && *dim != rank - 1) || masked == nullptr || masked->op != "aten.where.self")
    return {};
  const int condition = tensor(*masked, "condition");
  const auto at = same_matrix(editor, condition, id) ? mask(editor, condition) : std::nullopt;
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  const bool first = constant(editor, tensor(*masked, "self")) == nothing;
  if (!at || (!first && constant(editor, tensor(*masked, "other")) != nothing)) return {};
  const Band band = first ? others(*at).value_or(Band{}) : *at;
  // Each row has an element there: one without is NaN everywhere, and no product of a block might say so.
  const bool all_rows = band.most >= 0 && band.least + shape[shape.size() - 2] <= shape.back();
  return all_rows && band.least <= band.most ? band : Band{};
}

Band wanted(const Editor& editor, int id) {
  return wanted_of(editor, id, 0);
}

bool is_finite(const Editor& editor, int id) {
  for (int depth = 0; depth <= deepest; ++depth) {
    if (editor.is_parameter(id)) return true;
    const ir::GraphNode* node = editor.maker(id);
    if (node == nullptr) return false;
    int behind = -1;
    if (node->op == "aten.where.self") {
      const int self = tensor(*node, "self"), other = tensor(*node, "other");
      behind = all_zero(editor, other) ? self : all_zero(editor, self) ? other : -1;
    } else if (is(*node, {"aten.permute.default", "aten.view.default", "aten.expand.default", "aten.unsqueeze.default",
                          "aten.neg.default"})) {
      behind = tensor(*node, "self");
    }
    if (behind < 0) return false;
    id = behind;
  }
  return false;
}

}  // namespace planish::rewrite
