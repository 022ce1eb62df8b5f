#include "codegen/contraction/cross_tile.h"

#include <algorithm>
#include <utility>

#include "codegen/emit/expression.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t least_run = 32;    ///< of columns: fewer leave more pieces than they save
constexpr std::int64_t most_phases = 16;  ///< each is asked for by itself which columns are elements

const Node& node_of(const Kernel& kernel, int id) {
  return kernel.nodes[static_cast<std::size_t>(id)];
}

/// The sum whose mean over `count` elements the node is; -1 where it is none.
int mean_of(const Kernel& kernel, int id, double count) {
  const Node& node = node_of(kernel, id);
  if (node.op != Op::div || node_of(kernel, node.args[1]).op != Op::constant) return -1;
  const Node& sum = node_of(kernel, node.args[0]);
  return sum.op == Op::reduced && node_of(kernel, node.args[1]).value == count ? sum.reduction : -1;
}

/// The sum from whose mean this fold's elements are squared distances; -1 where they are something else.
int squares_about(const Kernel& kernel, const Reduction& fold, double count) {
  const Node& square = node_of(kernel, fold.arg);
  if (square.op != Op::mul || square.args[0] != square.args[1]) return -1;
  const Node& distance = node_of(kernel, square.args[0]);
  if (distance.op != Op::sub) return -1;
  const int sum = mean_of(kernel, distance.args[1], count);
  return sum > 0 && kernel.reductions[static_cast<std::size_t>(sum)].arg == distance.args[0] ? sum : -1;
}

/// Sums of what is made of the results alone, and squared distances from their means. `count`: elements of each.
Result<std::vector<CrossTileFold>> folds_of(const Kernel& kernel, double count) {
  const auto no = [](const char* why) { return fail("unsupported", why); };
  std::vector<CrossTileFold> out;
  for (std::size_t i = 1; i < kernel.reductions.size(); ++i) {
    const Reduction& fold = kernel.reductions[i];
    if (fold.kind != ReduceKind::sum || fold.accumulate != DType::f32)
      return no("folds of a whole product's results that are not sums in f32");
    if (const int sum = squares_about(kernel, fold, count); sum > 0) {
      const auto first = std::ranges::find(out, sum, &CrossTileFold::sum);
      if (first == out.end() || first->squares >= 0) return no("distances from several means");
      first->squares = static_cast<int>(i);
      continue;
    }
    const std::vector<int> root{fold.arg};
    for (const int id : printing::closure(kernel, root, [](int) { return false; })) {
      if (node_of(kernel, id).op == Op::reduced && node_of(kernel, id).reduction != 0)
        return no("folds of folds of a whole product's results");
    }
    out.push_back({static_cast<int>(i), -1});
  }
  return out;
}

/// Whether there is one fold, of what each of the product's sums gives without knowing its column.
bool follows_from_rows(const Kernel& kernel, const Contraction& c, const std::vector<CrossTileFold>& folds) {
  if (folds.size() != 1) return false;
  const auto moves = variables_of(kernel);
  const std::vector<int> root{kernel.reductions[static_cast<std::size_t>(folds.front().sum)].arg};
  const auto nodes = printing::closure(kernel, root, [](int) { return false; });
  if (std::ranges::none_of(nodes, [&](int id) { return node_of(kernel, id).op == Op::reduced; })) return false;
  return std::ranges::none_of(nodes, [&](int id) {
    const Op op = node_of(kernel, id).op;
    return (op == Op::load || op == Op::index) && std::ranges::any_of(c.n, [&](int v) {
             return moves[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)];
           });
  });
}

}  // namespace

int phase_of(const ir::Bound& bound, const Contraction& c) {
  const auto found = std::ranges::find_if(c.m, [&](int v) { return bound.e.depends_on(v); });
  return found == c.m.end() ? -1 : *found;
}

int CrossTileReduction::states() const {
  int all = 0;
  for (const CrossTileFold& fold : folds) all += fold.states();
  return all;
}

CrossTileKernel cross_tile_kernel(const Kernel& kernel) {
  CrossTileKernel out{kernel, 0, {}, 1};
  const auto all = static_cast<int>(kernel.space.extents.size());
  for (int v = all - kernel.inner - kernel.across; v < all - kernel.inner; ++v)
    out.count *= static_cast<double>(kernel.space.extent(v));
  out.kernel.across = 0;
  out.kernel.outputs.clear();
  for (const bool folded : {false, true}) {
    for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
      if (kernel.outputs[o].per_column != folded) continue;
      out.order.push_back(static_cast<int>(o));
      out.kernel.outputs.push_back(kernel.outputs[o]);
    }
    if (!folded) out.elements = out.kernel.outputs.size();
  }
  return out;
}

Result<CrossTileReduction> cross_tile_of(const Kernel& kernel, const CrossTileKernel& from, const Contraction& c,
                                         const ImplicitOperand* implicit) {
  const auto no = [](const char* why) { return fail("unsupported", why); };
  CrossTileReduction out;
  out.elements = from.elements;
  out.order = from.order;
  const int results = static_cast<int>(kernel.space.extents.size()) - kernel.inner;
  std::vector<bool> kept(static_cast<std::size_t>(results), false);
  for (std::size_t o = from.elements; o < kernel.outputs.size(); ++o) {
    for (int v = 0; v < results; ++v)
      kept[static_cast<std::size_t>(v)] = kept[static_cast<std::size_t>(v)] || kernel.outputs[o].index.depends_on(v);
  }
  for (int v = 0; v < results; ++v) {
    const bool of_columns = std::ranges::find(c.n, v) != c.n.end();
    if (kept[static_cast<std::size_t>(v)]) {
      out.kept.push_back(v);
      if (of_columns) out.columns.push_back(v);
    } else if (!of_columns) {
      out.folded.push_back(v);
    }
  }
  // What is computed beside results, and dropped, is no element.
  for (const ir::Bound& bound : kernel.outputs.front().where) {
    bool moves = false, stays = false;
    for (int v = 0; v < results; ++v) {
      if (bound.e.depends_on(v)) (kept[static_cast<std::size_t>(v)] ? stays : moves) = true;
    }
    const auto in = [&](const std::vector<int>& variables) {
      return std::ranges::count_if(variables, [&](int v) { return bound.e.depends_on(v); });
    };
    if (in(c.n) > 0 && in(c.m) > 0) {
      const bool few = kernel.space.extent(phase_of(bound, c)) <= most_phases;
      if (in(c.m) > 1 || in(c.batch) > 0 || !few) return no("results that are there by several phases");
    }
    if (stays) return no(moves ? "results that are there by what is folded and by what is not" : "phases that stay");
  }
  std::vector<int> order = c.n;
  if (implicit != nullptr) {
    if (implicit->operand != Operand::b) return no("folds along rows that do not slide");
    order = implicit->apart;
    for (const ImplicitDim& slide : implicit->dims) {
      order.push_back(slide.row);
      // Behind the rows of a dim there are places that are none: what is kept then is no whole number of columns.
      if (kept[static_cast<std::size_t>(slide.row)] && slide.places != slide.rows)
        return no("folds that keep a dim which is slid along");
    }
  }
  if (!std::equal(out.columns.begin(), out.columns.end(), order.begin()))
    return no("folds of columns that do not lie together");
  std::int64_t columns = implicit != nullptr ? implicit->positions() : c.columns;
  for (const int v : out.columns) columns /= kernel.space.extent(v);
  out.run = columns;
  if (out.run < least_run) return no("folds of few columns");
  PLANISH_TRY(out.folds, folds_of(kernel, from.count));
  out.in_registers = follows_from_rows(kernel, c, out.folds);
  return out;
}

Pieces pieces_of(const CrossTileReduction& cross_tile, const Problem& problem, const TilePlan& plan) {
  Pieces out;
  out.width = cross_tile.in_registers ? plan.bn : std::min(plan.exchange, plan.bn);
  const std::int64_t step = tile_step(plan);
  out.of_tile = (step + out.width - 1) / out.width;
  out.count = (problem.n + step - 1) / step * out.of_tile;
  // Tiles begin at multiples of that.
  const bool whole = cross_tile.run >= problem.n || cross_tile.run % step == 0;
  out.slots = whole ? 1 : (out.width - 2 + cross_tile.run) / cross_tile.run + 1;
  return out;
}

std::int64_t cross_tile_bytes(const CrossTileReduction& cross_tile, const Problem& problem, const TilePlan& plan) {
  const Pieces pieces = pieces_of(cross_tile, problem, plan);
  return problem.batches * problem.m * pieces.count * pieces.slots * cross_tile.states() * 4;
}

}  // namespace planish::codegen::contraction
