#include "codegen/contraction/eight_bits.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "codegen/contraction/product.h"
#include "codegen/emit/expression.h"
#include "codegen/phases.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t chunk = 16;  ///< elements of a tensor map's smallest step

const Node& node_at(const Kernel& kernel, int id) {
  return kernel.nodes[static_cast<std::size_t>(id)];
}

/// Behind casts, which keep what 8 bits hold.
int without_casts(const Kernel& kernel, int id) {
  while (node_at(kernel, id).op == Op::cast &&
         (node_at(kernel, id).dtype == DType::f32 || is_half(node_at(kernel, id).dtype)))
    id = node_at(kernel, id).args[0];
  return id;
}

bool is_eight_bit_load(const Kernel& kernel, int id) {
  const Node& node = node_at(kernel, id);
  return node.op == Op::load && !gathers(node) && node.where.empty() &&
         (node.dtype == DType::f8_e4m3 || node.dtype == DType::f8_e5m2) &&
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
  std::optional<BlockScale> scale;
};

std::optional<Factor> factor_of(const Kernel& kernel, const Contraction& c, Operand operand) {
  const int root = without_casts(kernel, operand == Operand::a ? c.first : c.second);
  if (is_eight_bit_load(kernel, root)) return Factor{.load = root, .scale = std::nullopt};
  const Node& node = node_at(kernel, root);
  if (node.op != Op::mul || node.dtype == DType::f64) return std::nullopt;
  for (const int side : {0, 1}) {
    const int load = without_casts(kernel, node.args[static_cast<std::size_t>(side)]);
    const int scale = node.args[static_cast<std::size_t>(1 - side)];
    if (!is_eight_bit_load(kernel, load) || node_at(kernel, scale).dtype != DType::f32) continue;
    if (run_of(kernel, scale, c.k.front()) % eight_bit_step != 0) return std::nullopt;
    const int row = (operand == Operand::a ? c.m : c.n).front();
    return Factor{.load = load, .scale = BlockScale{.node = scale, .rows = run_of(kernel, scale, row)}};
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

}  // namespace

std::shared_ptr<const Product> eight_bit_product(const Product& from) {
  if (from.implicit || from.pool || from.cross_tile || !from.taps.empty() || from.kernel.outputs.size() != 1 ||
      !is_half(from.kernel.outputs.front().dtype) || from.kernel.across > 0)
    return nullptr;
  if (std::ranges::count_if(from.kernel.inputs, [](const Input& input) { return is_float8(input.dtype); }) < 2)
    return nullptr;
  auto out = with_parts_joined(from);
  if (!out || out->c.rows != from.c.rows) return nullptr;
  const Kernel& kernel = out->kernel;
  const auto a = factor_of(kernel, out->c, Operand::a), b = factor_of(kernel, out->c, Operand::b);
  if (!a || !b) return nullptr;
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
  return std::make_shared<const Product>(std::move(*out));
}

}  // namespace planish::codegen::contraction
