#include "codegen/contraction/eight_bits.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "codegen/contraction/product.h"
#include "codegen/emit/expression.h"
#include "codegen/passes.h"
#include "codegen/phases.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t chunk = 16;  ///< elements of a tensor map's smallest step

const Node& node_at(const Kernel& kernel, int id) {
  return kernel.nodes[static_cast<std::size_t>(id)];
}

/// Behind casts, which keep what 8 bits hold.
int without_casts(const Kernel& kernel, int id) {
  const auto keeps = [](DType dtype) { return dtype == DType::f32 || dtype == DType::i32 || is_half(dtype); };
  while (node_at(kernel, id).op == Op::cast && keeps(node_at(kernel, id).dtype)) id = node_at(kernel, id).args[0];
  return id;
}

bool is_eight_bit_integer(DType dtype) {
  return dtype == DType::i8 || dtype == DType::u8;
}

/// Types that these tensor cores multiply.
bool is_eight_bit_factor(DType dtype) {
  return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || is_eight_bit_integer(dtype);
}

bool is_eight_bit_load(const Kernel& kernel, int id) {
  const Node& node = node_at(kernel, id);
  return node.op == Op::load && !gathers(node) && node.where.empty() && is_eight_bit_factor(node.dtype) &&
         kernel.inputs[static_cast<std::size_t>(node.input)].dtype == node.dtype;
}

/// For how many values of `variable` from a multiple of these on the index stays as it is: 0 for all of them.
std::int64_t run_of(const ir::IndexExpr& e, int variable) {
  std::int64_t run = 0;
  for (const auto& term : e.terms()) {
    const ir::Atom& atom = term.atom;
    if (atom.kind == ir::Atom::Kind::variable) {
      if (atom.variable == variable) return 1;
      continue;
    }
    if (!atom.inner->depends_on(variable)) continue;
    const bool quotient = atom.kind == ir::Atom::Kind::div && *atom.inner == ir::IndexExpr::variable(variable);
    run = std::gcd(run, quotient ? atom.divisor : run_of(*atom.inner, variable));
  }
  return run;
}

/// The same of all that a node's value depends on; 1 where it is not known.
std::int64_t run_of(const Kernel& kernel, int root, int variable) {
  std::int64_t run = 0;
  for (const int id : printing::closure(kernel, std::vector<int>{root}, [](int) { return false; })) {
    const Node& node = node_at(kernel, id);
    if (gathers(node) || node.op == Op::reduced || node.op == Op::scanned) return 1;
    run = std::gcd(run, run_of(node.index, variable));
    for (const ir::Bound& bound : node.where) run = std::gcd(run, run_of(bound.e, variable));
  }
  return run;
}

struct Factor {
  int load = -1;
  int widened = -1;  ///< the load, as it is multiplied
  std::optional<BlockScale> scale;
  int behind = -1;  ///< node: a scale that is the same for all k, so that it may multiply the sum; -1: there is none
};

std::optional<Factor> factor_of(const Kernel& kernel, const Contraction& c, Operand operand) {
  const int root = without_casts(kernel, operand == Operand::a ? c.first : c.second);
  if (is_eight_bit_load(kernel, root)) return Factor{.load = root, .scale = std::nullopt};
  const Node& node = node_at(kernel, root);
  if (node.op != Op::mul || node.dtype == DType::f64) return std::nullopt;
  for (const int side : {0, 1}) {
    const int load = without_casts(kernel, node.args[static_cast<std::size_t>(side)]);
    const int scale = node.args[static_cast<std::size_t>(1 - side)];
    if (!is_eight_bit_load(kernel, load) || !is_float8(node_at(kernel, load).dtype) ||
        node_at(kernel, scale).dtype != DType::f32)
      continue;
    const std::int64_t run = run_of(kernel, scale, c.k.front());
    if (run % eight_bit_step != 0) return std::nullopt;
    Factor out{.load = load, .widened = node.args[static_cast<std::size_t>(side)], .scale = std::nullopt};
    if (run == 0) {
      out.behind = scale;
    } else {
      const int row = (operand == Operand::a ? c.m : c.n).front();
      out.scale = BlockScale{.node = scale, .rows = run_of(kernel, scale, row)};
    }
    return out;
  }
  return std::nullopt;
}

/// As a tensor map reaches it, in chunks along k.
std::optional<Direct> direct_in_chunks(const Kernel& kernel, const Contraction& c, int load) {
  const Node& node = node_at(kernel, load);
  const int k = c.k.front();
  if (!node.index.is_affine() || node.index.coefficient_of(k) != 1 || node.index.constant_term() < 0 ||
      node.index.constant_term() % chunk != 0 || kernel.space.extent(k) % chunk != 0)
    return std::nullopt;
  auto [depth, row] = parted(node.index, c.k);
  if (std::ranges::any_of(row.terms(),
                          [](const auto& term) { return term.coefficient < 0 || term.coefficient % chunk != 0; }))
    return std::nullopt;
  return Direct{.load_mode = LoadMode::along_k, .input = node.input, .row = std::move(row), .depth = std::move(depth)};
}

/// The product of `reduced` and a node before it, in place of the former wherever it is used. Places of nodes behind it
/// move up by one.
void multiply_sum(Kernel& kernel, int reduced, int scale) {
  const auto moved = [&](int id) { return id >= reduced ? id + 1 : id; };
  for (std::size_t id = static_cast<std::size_t>(reduced) + 1; id < kernel.nodes.size(); ++id) {
    for (int& arg : kernel.nodes[id].args) arg = moved(arg);
  }
  for (Output& output : kernel.outputs) {
    output.node = moved(output.node);
    for (int& arg : output.args) arg = moved(arg);
  }
  Node product;
  product.op = Op::mul;
  product.dtype = node_at(kernel, reduced).dtype;
  product.args = {reduced, scale};
  kernel.nodes.insert(kernel.nodes.begin() + reduced + 1, std::move(product));
}

/// Has the sum multiplied with what scales a factor alike for all k, in place of the factor.
void move_scales_behind(Product& product, const Factor& a, const Factor& b) {
  Kernel& kernel = product.kernel;
  const auto sum = std::ranges::find(kernel.nodes, Op::reduced, &Node::op);
  const int reduced = static_cast<int>(sum - kernel.nodes.begin());
  Node& multiplied = kernel.nodes[static_cast<std::size_t>(kernel.reductions.front().arg)];
  for (const auto& [factor, node] : {std::pair(&a, &product.c.first), std::pair(&b, &product.c.second)}) {
    if (factor->behind < 0) continue;
    std::ranges::replace(multiplied.args, *node, factor->widened);
    *node = factor->widened;
  }
  for (const Factor* const factor : {&b, &a}) {
    if (factor->behind >= 0) multiply_sum(kernel, reduced, factor->behind);
  }
}

/// Blocks of scales part rows, columns and k into variables of their own: each of them as one again. Nothing where they
/// do not lie beside each other.
std::optional<Product> with_parts_joined(const Product& from) {
  Product out;
  out.kernel = from.kernel;
  const Contraction& c = from.c;
  std::vector<std::pair<int, int>> pairs;
  for (const auto* const part : {&c.m, &c.n, &c.k}) {
    for (std::size_t i = 1; i < part->size(); ++i) {
      if ((*part)[i] != (*part)[i - 1] + 1) return std::nullopt;
      pairs.emplace_back((*part)[i - 1], (*part)[i]);
    }
  }
  std::ranges::sort(pairs, std::greater{});
  for (const auto& [first, second] : pairs) join(out.kernel, first, second);
  auto joined = oriented(out.kernel);
  if (!joined) return std::nullopt;
  out.c = std::move(*joined);
  out.problem = from.problem;
  return out;
}

/// True if these factors' sums are the kernel's: floats' have fewer bits than f32, integers' those of i32, which wraps
/// around as the kernel's does.
bool can_sum(const Product& product, DType a, DType b) {
  if (is_float8(a) != is_float8(b)) return false;
  if (is_float8(a)) return is_half(product.kernel.outputs.front().dtype);
  const auto largest = [](DType dtype) { return std::int64_t{dtype == DType::i8 ? 128 : 255}; };
  return sums_integers(product.kernel) ||
         product.c.depth <= std::numeric_limits<std::int32_t>::max() / (largest(a) * largest(b));
}

}  // namespace

bool multiplies_eight_bits(const Kernel& kernel) {
  const Node& product = node_at(kernel, kernel.reductions.front().arg);
  return product.args.size() == 2 && std::ranges::all_of(product.args, [&](int factor) {
           const int root = without_casts(kernel, factor);
           if (is_eight_bit_load(kernel, root)) return true;
           const Node& node = node_at(kernel, root);
           return node.op == Op::mul && std::ranges::any_of(node.args, [&](int arg) {
                    return is_eight_bit_load(kernel, without_casts(kernel, arg));
                  });
         });
}

double tensor_passes(const Kernel& kernel) {
  return multiplies_eight_bits(kernel) ? 0.5 : contraction_passes(kernel);
}

bool sums_integers(const Kernel& kernel) {
  return !kernel.reductions.empty() && kernel.reductions.front().accumulate == DType::i32;
}

std::shared_ptr<const Product> eight_bit_product(const Product& from) {
  if (from.implicit || from.pool || from.cross_tile || !from.taps.empty() || from.kernel.outputs.size() != 1 ||
      from.kernel.across > 0)
    return nullptr;
  if (std::ranges::count_if(from.kernel.inputs, is_eight_bit_factor, &Input::dtype) < 2) return nullptr;
  auto out = with_parts_joined(from);
  if (!out || out->c.rows != from.c.rows) return nullptr;
  const Kernel& kernel = out->kernel;
  const auto a = factor_of(kernel, out->c, Operand::a), b = factor_of(kernel, out->c, Operand::b);
  if (!a || !b || !can_sum(*out, node_at(kernel, a->load).dtype, node_at(kernel, b->load).dtype)) return nullptr;
  out->direct_a = direct_in_chunks(kernel, out->c, a->load);
  out->direct_b = direct_in_chunks(kernel, out->c, b->load);
  for (const Operand operand : {Operand::a, Operand::b}) {
    const auto& direct = out->direct(operand);
    if (!direct || !is_box(out->c, operand, *direct)) return nullptr;
  }
  out->bits = EightBits{.a = node_at(kernel, a->load).dtype,
                        .b = node_at(kernel, b->load).dtype,
                        .scale_a = a->scale,
                        .scale_b = b->scale};
  if (a->behind >= 0 || b->behind >= 0) move_scales_behind(*out, *a, *b);
  return std::make_shared<const Product>(std::move(*out));
}

}  // namespace planish::codegen::contraction
