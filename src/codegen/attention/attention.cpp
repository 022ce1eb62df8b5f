#include "codegen/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codegen/emit/expression.h"
#include "codegen/variables.h"

namespace planish::codegen {
namespace {

/// Looks for the parts, from the results backwards.
class AttentionFinder {
 public:
  explicit AttentionFinder(const Kernel& kernel) : k_(kernel), moves_(variables_of(kernel)) {}

  Result<Attention> find() {
    if (k_.reductions.size() != 4 || !k_.scans.empty() || k_.parts < 1 || k_.parts >= k_.inner || k_.outputs.empty())
      return no("not two products with a softmax between");
    PLANISH_CHECK(find_folds());
    PLANISH_CHECK(find_softmax());
    PLANISH_CHECK(find_variables());
    for (const Output& output : k_.outputs) {
      for (const int id : below(output.node)) {
        const Node& each = node(id);
        if (each.op == Op::reduced && each.reduction != a_.weighted) return no("results of the softmax's own sums");
      }
    }
    return a_;
  }

 private:
  static std::unexpected<Error> no(const char* why) { return fail("unsupported", why); }
  const Node& node(int id) const { return k_.nodes[static_cast<std::size_t>(id)]; }
  const Reduction& fold(int id) const { return k_.reductions[static_cast<std::size_t>(id)]; }
  /// Nodes that one is made of, folds' results among them but not what these are made of.
  std::vector<int> below(int id) const {
    return printing::closure(k_, std::vector<int>{id}, [](int) { return false; });
  }
  /// Whether a node is made of these folds' results and of what moves with rows alone: a sink beside the keys.
  bool only_of(int id, std::initializer_list<int> folds) const {
    const std::size_t inner = k_.space.extents.size() - static_cast<std::size_t>(k_.inner);
    return std::ranges::all_of(below(id), [&](int each) {
      const Node& one = node(each);
      if (one.op == Op::reduced) return std::ranges::find(folds, one.reduction) != folds.end();
      if (one.op != Op::load && one.op != Op::index) return one.op != Op::scanned;
      for (std::size_t v = inner; v < k_.space.extents.size(); ++v)
        if (moved(each, v)) return false;
      return true;
    });
  }

  Status find_folds() {
    for (int r = 0; r < 4; ++r) {
      const Reduction& each = fold(r);
      if (each.accumulate != DType::f32 || each.across) return no("folds in another type than f32");
      if (each.part) {
        if (a_.product >= 0 || each.kind != ReduceKind::sum) return no("more than one fold for each score");
        a_.product = r;
      } else if (each.kind == ReduceKind::max) {
        a_.maximum = r;
      } else if (each.kind == ReduceKind::sum && node(each.arg).op == Op::mul) {
        a_.weighted = r;
      } else if (each.kind == ReduceKind::sum && node(each.arg).op == Op::exp) {
        a_.total = r;
      }
    }
    if (std::min({a_.product, a_.maximum, a_.total, a_.weighted}) < 0) return no("not the folds of attention");
    const Node& product = node(fold(a_.product).arg);
    if (product.op != Op::mul || product.args.size() != 2) return no("not a sum of products");
    a_.scores.first = product.args[0];
    a_.scores.second = product.args[1];
    return {};
  }

  Status find_softmax() {
    const Node& terms = node(fold(a_.weighted).arg);
    for (const int side : {0, 1}) {
      // Weights stay in registers: a rounding that the graph asks for is left out, as that of a product's factor is.
      int id = terms.args[static_cast<std::size_t>(side)];
      const auto rounds = [](const Node& one) {
        return one.op == Op::cast && (one.dtype == DType::f32 || is_half(one.dtype));
      };
      while (rounds(node(id)) && is_floating(node(node(id).args[0]).dtype)) id = node(id).args[0];
      const Node& weight = node(id);
      if (weight.op != Op::div || weight.args[0] != fold(a_.total).arg) continue;
      a_.values.first = terms.args[static_cast<std::size_t>(side)];
      a_.values.second = terms.args[static_cast<std::size_t>(1 - side)];
      a_.divisor = weight.args[1];
    }
    if (a_.divisor < 0) return no("weights that are no softmax");
    const Node& difference = node(node(fold(a_.total).arg).args[0]);
    if (difference.op != Op::sub || difference.args[0] != fold(a_.maximum).arg) return no("no softmax of the scores");
    a_.score = difference.args[0];
    a_.shift = difference.args[1];
    if (!only_of(a_.shift, {a_.maximum}) || !only_of(a_.divisor, {a_.maximum, a_.total}))
      return no("a softmax with more than its own sums");
    for (const int id : below(a_.score)) {
      if (node(id).op == Op::reduced && node(id).reduction != a_.product) return no("scores made of other folds");
    }
    for (const int factor : {a_.scores.first, a_.scores.second, a_.values.second}) {
      for (const int id : below(factor)) {
        if (node(id).op == Op::reduced) return no("factors that are folds");
      }
    }
    return {};
  }

  bool moved(int id, std::size_t v) const { return moves_[static_cast<std::size_t>(id)][v]; }

  /// Whether a score itself, or what is read beside its row's sums, moves with a variable: not through the product,
  /// which counts as moving with all results.
  bool scored(std::size_t v) const {
    return std::ranges::any_of(std::array{a_.score, a_.shift, a_.divisor}, [&](int root) {
      return std::ranges::any_of(below(root), [&](int id) {
        const Node& each = node(id);
        return (each.op == Op::load || each.op == Op::index) && moved(id, v);
      });
    });
  }

  Status find_variables() {
    const auto count = k_.space.extents.size(), inner = count - static_cast<std::size_t>(k_.inner),
               features = count - static_cast<std::size_t>(k_.parts);
    Contraction &s = a_.scores, &o = a_.values;
    // The queries' factor is the one that does not move with the keys.
    for (std::size_t v = inner; v < features; ++v) {
      if (moved(s.first, v)) {
        std::swap(s.first, s.second);
        break;
      }
    }
    for (std::size_t v = 0; v < count; ++v) {
      const int variable = static_cast<int>(v);
      const bool q = moved(s.first, v), k = moved(s.second, v), value = moved(o.second, v), score = scored(v);
      if (v >= features) {
        if (!q || !k || value || score) return no("features that are not summed");
        s.k.push_back(variable);
      } else if (v >= inner) {
        if (q || !k || !value) return no("keys that a factor does not move with");
        s.n.push_back(variable);
        o.k.push_back(variable);
      } else if (k && value) {
        s.batch.push_back(variable);
        o.batch.push_back(variable);
      } else if (q && !k && !value) {
        s.m.push_back(variable);
        o.m.push_back(variable);
      } else if (value && !q && !k && !score) {
        o.n.push_back(variable);
      } else {
        return no("factors over batches that do not match");
      }
    }
    if (o.n.empty()) return no("attention of values without columns");
    const auto extent = [&](const std::vector<int>& variables) {
      std::int64_t all = 1;
      for (const int v : variables) all *= k_.space.extents[static_cast<std::size_t>(v)];
      return all;
    };
    s.batches = o.batches = extent(s.batch);
    s.rows = o.rows = extent(s.m);
    s.columns = o.depth = extent(s.n);
    s.depth = extent(s.k);
    o.columns = extent(o.n);
    return {};
  }

  const Kernel& k_;
  const std::vector<std::vector<bool>> moves_;
  Attention a_;
};

/// An integer node as an index; nothing where it is more.
std::optional<ir::IndexExpr> index_of(const Kernel& kernel, int id) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
  if (node.op == Op::index) return node.index;
  if (node.op == Op::constant && !is_floating(node.dtype)) return ir::IndexExpr::constant(node.bits);
  return std::nullopt;
}

}  // namespace

Result<Attention> attention_of(const Kernel& kernel) {
  return AttentionFinder(kernel).find();
}

std::optional<Causal> causal_of(const Kernel& kernel, const Attention& a) {
  const Node& choice = kernel.nodes[static_cast<std::size_t>(a.score)];
  if (choice.op != Op::select || a.scores.n.size() != 1 || a.scores.m.empty()) return std::nullopt;
  const Node& otherwise = kernel.nodes[static_cast<std::size_t>(choice.args[2])];
  const bool masks = otherwise.op == Op::constant && otherwise.value == -std::numeric_limits<double>::infinity();
  const Node& test = kernel.nodes[static_cast<std::size_t>(choice.args[0])];
  const bool grows = test.op == Op::ge || test.op == Op::gt;
  if (!masks || (!grows && test.op != Op::le && test.op != Op::lt)) return std::nullopt;
  const auto left = index_of(kernel, test.args[grows ? 0 : 1]), right = index_of(kernel, test.args[grows ? 1 : 0]);
  if (!left || !right) return std::nullopt;
  // left - right, which must be at least 0, or 1.
  const ir::IndexExpr e = ir::add(*left, ir::scale(*right, -1), kernel.space);
  Causal out;
  out.row = a.scores.m.back();
  out.step = e.coefficient_of(out.row);
  out.fall = -e.coefficient_of(a.scores.n[0]);
  out.offset = e.constant_term() - (test.op == Op::gt || test.op == Op::lt ? 1 : 0);
  const ir::IndexExpr rest = ir::add(e, ir::IndexExpr::build(-e.constant_term(), {}), kernel.space);
  const auto expected = ir::add(ir::scale(ir::IndexExpr::variable(out.row), out.step),
                                ir::scale(ir::IndexExpr::variable(a.scores.n[0]), -out.fall), kernel.space);
  if (out.fall <= 0 || out.step <= 0 || !(rest == expected)) return std::nullopt;
  return out;
}

}  // namespace planish::codegen
