#include "codegen/grouped/grouped.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "codegen/contraction/contraction.h"

namespace planish::codegen {
namespace {

/// Takes a search apart, whose first step looks at the largest power of two of ends, and each next one at half as many.
class SearchReader {
 public:
  SearchReader(const Kernel& kernel, std::int64_t count)
      : kernel_(kernel), largest_(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count)))) {
    out_.count = count;
  }

  std::optional<EndSearch> read(int found) {
    if (!read(found, 1)) return std::nullopt;
    if (largest_ == 1) out_.first = probed_;
    if (out_.first + (largest_ - 1) * out_.stride != probed_) return std::nullopt;
    return std::move(out_);
  }

 private:
  const Node& node(int id) const { return kernel_.nodes[static_cast<std::size_t>(id)]; }
  bool is_number(int id, std::int64_t bits) const { return node(id).op == Op::constant && node(id).bits == bits; }
  /// Whether it is `before` and so many more.
  bool is_sum(int id, int before, std::int64_t more) const {
    if (more == 0) return id == before;
    return node(id).op == Op::add && node(id).args[0] == before && is_number(node(id).args[1], more);
  }

  /// The step that looks at so many ends, and those before it.
  bool read(int found, std::int64_t step) {
    const Node& choice = node(found);
    if (choice.op != Op::select || choice.dtype != DType::i64) return false;
    const int test = choice.args[0], more = choice.args[1], before = choice.args[2];
    if (step == largest_) {
      if (!is_number(more, step) || !is_number(before, 0)) return false;
      const Node* const end = end_before_row(test);
      if (end == nullptr || !end->args.empty()) return false;
      probed_ = end->index.constant_term();
      out_.input = end->input;
      return true;
    }
    if (!read(before, step * 2) || !is_sum(more, before, step) || node(test).op != Op::logical_and) return false;
    const Node& there = node(node(test).args[0]);
    if (there.op != Op::lt || !is_sum(there.args[0], before, step - 1) || !is_number(there.args[1], out_.count))
      return false;
    const Node* const end = end_before_row(node(test).args[1]);
    if (end == nullptr || end->args.size() != 1 || !is_sum(end->args[0], before, step - 1)) return false;
    if (end->input != out_.input || end->limits[0] != out_.count) return false;
    const bool same = !gathered_ || (out_.first == end->index.constant_term() && out_.stride == end->strides[0]);
    gathered_ = true;
    out_.first = end->index.constant_term();
    out_.stride = end->strides[0];
    return same;
  }

  /// The load of an end that the node compares with the row, which all steps compare with.
  const Node* end_before_row(int id) {
    const Node& test = node(id);
    if (test.op != Op::le || node(test.args[1]).op != Op::index) return nullptr;
    const Node* end = &node(test.args[0]);
    if (end->op == Op::cast && end->dtype == DType::i64) end = &node(end->args[0]);
    if (end->op != Op::load || !end->where.empty() || !end->index.is_constant()) return nullptr;
    if (end->dtype != DType::i32 && end->dtype != DType::i64) return nullptr;
    const ir::IndexExpr& row = node(test.args[1]).index;
    if (row_seen_ && !(row == out_.row)) return nullptr;
    row_seen_ = true;
    out_.row = row;
    return end;
  }

  const Kernel& kernel_;
  const std::int64_t largest_;
  EndSearch out_;
  std::int64_t probed_ = 0;  ///< where the first step looks
  bool gathered_ = false, row_seen_ = false;
};

/// The gathering load that a factor is, perhaps a cast of it, or times another: the one whose elements move with the
/// sum; −1 where it is none.
int gathered_load(const Kernel& kernel, int factor) {
  const Node* node = &kernel.nodes[static_cast<std::size_t>(factor)];
  if (node->op == Op::mul) {
    const int first = gathered_load(kernel, node->args[0]), second = gathered_load(kernel, node->args[1]);
    const auto moves = [&](int load) {
      const int all = static_cast<int>(kernel.space.extents.size());
      for (int v = all - kernel.inner; load >= 0 && v < all; ++v) {
        if (kernel.nodes[static_cast<std::size_t>(load)].index.depends_on(v)) return true;
      }
      return false;
    };
    return moves(first) == moves(second) ? -1 : moves(first) ? first : second;
  }
  if (node->op == Op::cast) factor = node->args[0], node = &kernel.nodes[static_cast<std::size_t>(factor)];
  return node->op == Op::load && node->args.size() == 1 && node->where.empty() ? factor : -1;
}

/// Has the load read what the first group has.
void read_first(Node& load) {
  load.args.clear();
  load.strides.clear();
  load.limits.clear();
}

}  // namespace

std::optional<EndSearch> end_search_of(const Kernel& kernel, int node, std::int64_t count) {
  if (count < 1) return std::nullopt;
  return SearchReader(kernel, count).read(node);
}

Result<Grouped> grouped_of(const Kernel& kernel) {
  const auto no = [](const char* why) { return fail("unsupported", why); };
  if (kernel.anchor != Anchor::row && kernel.anchor != Anchor::contraction) return no("another kind of kernel");
  if (kernel.reductions.size() != 1 || kernel.across != 0 || kernel.parts != 0) return no("not one fold of rows");
  const Node& product = kernel.nodes[static_cast<std::size_t>(kernel.reductions[0].arg)];
  if (product.op != Op::mul || product.args.size() != 2) return no("not a sum of products");
  Grouped out;
  for (const int factor : product.args) {
    const int load = gathered_load(kernel, factor);
    if (load < 0) continue;
    const Node& node = kernel.nodes[static_cast<std::size_t>(load)];
    auto found = end_search_of(kernel, node.args[0], node.limits[0]);
    if (!found) continue;
    if (out.weights >= 0) return no("two factors of groups");
    out.ends = std::move(*found);
    out.weights = load;
    out.stride = node.strides[0];
  }
  if (out.weights < 0) return no("no factor whose matrix is the row's group");
  out.plain = kernel;
  const int group = kernel.nodes[static_cast<std::size_t>(out.weights)].args[0];
  for (std::size_t id = 0; id < kernel.nodes.size(); ++id) {
    const Node& node = kernel.nodes[id];
    if (!gathers(node) || node.args != std::vector{group}) continue;
    if (static_cast<int>(id) != out.weights) {
      if (!node.where.empty() || node.limits[0] != out.ends.count) return no("tables of another number of groups");
      out.others.push_back({.node = static_cast<int>(id), .stride = node.strides[0]});
    }
    read_first(out.plain.nodes[id]);
  }
  PLANISH_TRY(const Contraction c, contraction_of(out.plain));
  // The row that is looked up is the product's row: its variables, the last fastest.
  const bool second = c.second == product.args[0] ? gathered_load(kernel, product.args[0]) == out.weights
                                                  : gathered_load(kernel, product.args[1]) == out.weights;
  const std::vector<int>& rows = second ? c.m : c.n;
  if (!c.batch.empty()) return no("products of a batch");
  ir::IndexExpr row;
  std::int64_t stride = 1;
  for (std::size_t i = rows.size(); i-- > 0;) {
    row = ir::add(row, ir::scale(ir::IndexExpr::variable(rows[i]), stride), kernel.space);
    stride *= kernel.space.extent(rows[i]);
  }
  if (!(row == out.ends.row)) return no("groups of something other than rows");
  out.rows = stride;
  return out;
}

}  // namespace planish::codegen
