#include "codegen/skinny/skinny.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "codegen/contraction/direct.h"
#include "codegen/emit/expression.h"
#include "codegen/passes.h"

namespace planish::codegen {
namespace {

/// Less is worth no schedule of its own: it is read in the time of a launch.
constexpr std::int64_t least_weights = std::int64_t{1} << 19;  // bytes
/// Weights beside all else that is read or written.
constexpr double dominate = 8;

/// Sorts a kernel's reductions and variables out; each step says why it cannot.
class SkinnyFinder {
 public:
  explicit SkinnyFinder(const Kernel& kernel) : kernel_(kernel), moves_(skinny_variables(kernel)) {}

  Result<Skinny> find() {
    if (kernel_.anchor != Anchor::row && kernel_.anchor != Anchor::contraction) return no("another kind of kernel");
    if (kernel_.across != 0 || kernel_.parts != 0 || !kernel_.scans.empty() || kernel_.inner < 1)
      return no("not folds of rows alone");
    if (!std::ranges::all_of(kernel_.outputs, &Output::per_row)) return no("outputs of its factors' size");
    if (std::ranges::any_of(kernel_.nodes, [](const Node& node) { return node.dtype == DType::f64; }))
      return no("numbers of 64 bits");
    for (std::size_t r = 0; r < kernel_.reductions.size(); ++r) {
      const Reduction& one = kernel_.reductions[r];
      if (one.kind != ReduceKind::sum || one.accumulate != DType::f32) return no("not a sum in f32");
      if (!take_part(static_cast<int>(r))) out_.statistics.push_back(static_cast<int>(r));
    }
    if (out_.parts.empty()) return no("no sum of products with weights");
    if (out_.parts.size() > most_skinny_parts) return no("too many products");
    PLANISH_CHECK(places());
    PLANISH_CHECK(variables());
    PLANISH_CHECK(weights());
    PLANISH_CHECK(operand());
    PLANISH_CHECK(sizes());
    return std::move(out_);
  }

 private:
  static std::unexpected<Error> no(const char* why) { return fail("unsupported", why); }

  const Node& node(int id) const { return kernel_.nodes[static_cast<std::size_t>(id)]; }
  bool moves(int id, int v) const { return moves_[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)]; }
  bool moves(int id, const std::vector<int>& variables) const {
    return std::ranges::any_of(variables, [&](int v) { return moves(id, v); });
  }
  int outer() const { return static_cast<int>(kernel_.space.extents.size()) - kernel_.inner; }

  /// Elements that a factor reads.
  double elements(int factor) const {
    double product = 1;
    for (int v = 0; v < static_cast<int>(kernel_.space.extents.size()); ++v)
      if (moves(factor, v)) product *= static_cast<double>(kernel_.space.extent(v));
    return product;
  }

  /// Of a product, the factor that is the larger one, and loaded as it is or made of one that is not folded: those are
  /// the weights.
  bool take_part(int r) {
    const Node& product = node(kernel_.reductions[static_cast<std::size_t>(r)].arg);
    if (product.op != Op::mul || product.args.size() != 2 || product.rounds) return false;
    int x = product.args[0], weights = product.args[1];
    if (elements(x) > elements(weights)) std::swap(x, weights);
    if (x == weights) return false;
    const auto half = common_half_type(kernel_, weights, x);
    if (!half) return false;
    if (out_.operand >= 0 && (x != out_.operand || half != out_.half)) return false;
    Skinny::Part part{r, weights, -1, nullptr};
    if (contraction::plain_load(kernel_, weights) != nullptr) {
      const Node& factor = node(weights);
      part.load = factor.op == Op::load ? weights : factor.args[0];
    } else if (elements(weights) <= elements(x)) {
      return false;
    }
    out_.operand = x;
    out_.half = *half;
    out_.parts.push_back(std::move(part));
    return true;
  }

  Status variables() {
    for (int v = 0; v < static_cast<int>(kernel_.space.extents.size()); ++v) {
      const bool weighs = moves(out_.parts[0].weights, v);
      for (const auto& part : out_.parts)
        if (moves(part.weights, v) != weighs) return no("weights that move with different variables");
      if (v >= outer()) {
        if (!weighs || !moves(out_.operand, v)) return no("a factor that does not move with the sum");
        out_.k.push_back(v);
      } else if (weighs) {
        if (moves(out_.operand, v)) return no("weights for each row");
        out_.n.push_back(v);
      } else {
        out_.m.push_back(v);
      }
    }
    if (out_.n.empty()) return no("one vector of weights");
    along_memory();
    words_last();
    out_.count = kernel_.extent_of(out_.m);
    out_.rows = kernel_.extent_of(out_.n);
    out_.depth = kernel_.extent_of(out_.k);
    return {};
  }

  /// Weights alone may be looked up.
  Status places() const {
    std::vector<int> roots{out_.operand};
    for (const int r : out_.statistics) roots.push_back(kernel_.reductions[static_cast<std::size_t>(r)].arg);
    for (const Output& output : kernel_.outputs) roots.push_back(output.node);
    for (const int id : printing::closure(kernel_, roots, [](int) { return false; }))
      if (gathers(node(id))) return no("places known at run time alone");
    return {};
  }

  /// Variables of k in the order in which memory runs along them where x is loaded: of nibbles beside each other the
  /// kernel's own order has the pair's first.
  void along_memory() {
    const Node* const load = largest_load(out_.operand);
    if (load == nullptr) return;
    std::ranges::stable_sort(out_.k, std::ranges::greater{}, [&](int v) { return load->index.coefficient_of(v); });
  }

  /// Variables of n that move weights, but not where the largest tensor that these are made of is loaded, count the
  /// rows of one word: they come last, so that such rows are neighbours.
  void words_last() {
    const Node* const load = largest_load(out_.parts[0].weights);
    if (load == nullptr) return;
    std::ranges::stable_partition(out_.n, [&](int v) { return load->index.depends_on(v); });
  }

  /// The load of most elements, at an affine index, that `root` is made of; null where there is none.
  const Node* largest_load(int root) const {
    const std::vector<int> roots{root};
    double most = 0;
    const Node* load = nullptr;
    for (const int id : printing::closure(kernel_, roots, [](int) { return false; })) {
      const double all = elements(id);
      if (node(id).op == Op::load && node(id).index.is_affine() && all > most) most = all, load = &node(id);
    }
    return load;
  }

  /// Memory runs along k, and each row begins at a multiple of 16 bytes.
  Status weights() {
    for (auto& part : out_.parts) {
      if (part.load < 0) {
        PLANISH_TRY(auto codes, skinny::codes_of(kernel_, part.weights, out_.n, out_.k, out_.half));
        part.codes = std::make_shared<const skinny::Codes>(std::move(codes));
      }
      const auto& first = out_.parts.front().codes;
      if ((first == nullptr) != (part.codes == nullptr) || (first && !skinny::alike(*first, *part.codes)))
        return no("weights of several forms");
      if (part.codes) continue;
      const Node& load = node(part.load);
      if (!load.where.empty() || !load.index.is_affine() || load.index.constant_term() < 0 ||
          load.index.constant_term() % 8 != 0)
        return no("weights that do not lie in whole rows");
      std::int64_t later = 1;
      for (std::size_t i = out_.k.size(); i-- > 0;) {
        if (load.index.coefficient_of(out_.k[i]) != later) return no("weights whose memory does not run along the sum");
        later *= kernel_.space.extent(out_.k[i]);
      }
      for (const int v : out_.n) {
        const std::int64_t step = load.index.coefficient_of(v);
        if (step < 0 || step % 8 != 0) return no("rows of weights that are not aligned");
      }
    }
    return {};
  }

  /// x and its sums have nothing of n; an output needs no element of x.
  Status operand() const {
    if (moves(out_.operand, out_.n)) return no("a factor that moves with the rows of weights");
    for (const int r : out_.statistics) {
      const int arg = kernel_.reductions[static_cast<std::size_t>(r)].arg;
      if (moves(arg, out_.n)) return no("another fold of the results' size");
      if (!made_of_statistics(arg, r)) return no("a sum of what products gave");
    }
    if (!made_of_statistics(out_.operand, static_cast<int>(kernel_.reductions.size())))
      return no("products of what products gave");
    for (const Output& output : kernel_.outputs)
      if (moves(output.node, out_.k)) return no("an output that moves with the sum");
    return {};
  }

  /// Whether a node's value needs no fold but statistics before `limit`.
  bool made_of_statistics(int root, int limit) const {
    const std::vector<int> roots{root};
    return std::ranges::all_of(printing::closure(kernel_, roots, [](int) { return false; }), [&](int id) {
      const Node& one = node(id);
      return one.op != Op::reduced ||
             (one.reduction < limit && std::ranges::find(out_.statistics, one.reduction) != out_.statistics.end());
    });
  }

  Status sizes() const {
    if (out_.count > most_skinny_rows) return no("many rows");
    if (out_.depth % 8 != 0) return no("a sum that is no multiple of 8 long");
    const auto parts = static_cast<std::int64_t>(out_.parts.size());
    const std::int64_t bytes = out_.rows * out_.depth * parts * out_.weight_bits() / 8;
    if (bytes < least_weights || out_.rows < 16) return no("few weights");
    constexpr std::int64_t most_rows = std::int64_t{1} << 30;
    if (out_.rows > most_rows || out_.depth > most_rows) return no("more than places count");
    double others = 0;
    for (const Output& output : kernel_.outputs)
      others += static_cast<double>(out_.rows * out_.count * size_of(output.dtype));
    for (std::size_t n = 0; n < kernel_.nodes.size(); ++n) {
      const Node& load = kernel_.nodes[n];
      // Scales come with the weights.
      const auto is = [&](const Skinny::Part& part) {
        return part.codes ? moves(static_cast<int>(n), out_.n) : part.load == static_cast<int>(n);
      };
      if (load.op == Op::load && std::ranges::none_of(out_.parts, is))
        others += elements(static_cast<int>(n)) * size_of(kernel_.inputs[static_cast<std::size_t>(load.input)].dtype);
    }
    if (static_cast<double>(bytes) < dominate * others) return no("other operands as large as the weights");
    return {};
  }

  const Kernel& kernel_;
  const std::vector<std::vector<bool>> moves_;
  Skinny out_;
};

}  // namespace

std::vector<int> Skinny::inputs(const Kernel& kernel, const Part& part) {
  if (!part.codes) return {kernel.nodes[static_cast<std::size_t>(part.load)].input};
  std::vector<int> out{part.codes->input};
  const std::vector<int> roots{part.weights};
  for (const int id : printing::closure(kernel, roots, [](int) { return false; })) {
    const Node& one = kernel.nodes[static_cast<std::size_t>(id)];
    if (one.op == Op::load && std::ranges::find(out, one.input) == out.end()) out.push_back(one.input);
  }
  return out;
}

std::vector<std::vector<bool>> skinny_variables(const Kernel& kernel) {
  const std::size_t count = kernel.space.extents.size(), outer = count - static_cast<std::size_t>(kernel.inner);
  std::vector<std::vector<bool>> all;
  for (const Node& node : kernel.nodes) {
    std::vector<bool> mine(count, false);
    if (node.op == Op::reduced) {
      mine = all[static_cast<std::size_t>(kernel.reductions[static_cast<std::size_t>(node.reduction)].arg)];
      std::fill(mine.begin() + static_cast<std::ptrdiff_t>(outer), mine.end(), false);
    }
    for (std::size_t v = 0; v < count; ++v) {
      mine[v] = mine[v] || node.index.depends_on(static_cast<int>(v));
      for (const auto& bound : node.where) mine[v] = mine[v] || bound.e.depends_on(static_cast<int>(v));
      for (const int a : node.args) mine[v] = mine[v] || all[static_cast<std::size_t>(a)][v];
    }
    all.push_back(std::move(mine));
  }
  return all;
}

Result<Skinny> skinny_of(const Kernel& kernel) {
  return SkinnyFinder(kernel).find();
}

}  // namespace planish::codegen
