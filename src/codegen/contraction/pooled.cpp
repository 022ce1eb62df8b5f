#include "codegen/contraction/pooled.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "codegen/emit/expression.h"
#include "codegen/phases.h"

namespace planish::codegen::contraction {
namespace {

using ir::IndexExpr;

constexpr std::size_t most_runs = 8;  ///< of a tile: each is a copy, and an instruction, of its own

/// The nodes that both factors are made of.
std::vector<int> nodes_of_both(const Kernel& kernel) {
  const std::vector<int> product{kernel.reductions[0].arg};
  return printing::closure(kernel, product, [](int) { return false; });
}

/// Whether an index that knows `within` knows `outer` as what counts its windows: both as size · outer + within.
bool counts(const IndexExpr& e, int outer, int within, std::int64_t size) {
  if (e.coefficient_of(outer) != size * e.coefficient_of(within)) return false;
  return std::ranges::all_of(e.terms(), [&](const IndexExpr::Term& term) {
    return term.atom.inner == nullptr || counts(*term.atom.inner, outer, within, size);
  });
}

/// The variable, of the first `results`, whose windows `within` lies in: a load moves with it, and none of what is
/// folded knows one of both alone. -1: there is none.
int windowed_by(const Kernel& kernel, const std::vector<int>& factors, int results, int within) {
  const std::int64_t size = kernel.space.extent(within);
  std::vector<int> folded = factors;
  for (const Reduction& reduction : kernel.reductions) {
    if (reduction.across) folded.push_back(reduction.arg);
  }
  const auto nodes = printing::closure(kernel, folded, [](int) { return false; });
  const auto is_window_of = [&](int v) {
    return std::ranges::all_of(nodes, [&](int id) {
      const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
      return counts(node.index, v, within, size) &&
             std::ranges::all_of(node.where, [&](const ir::Bound& bound) { return counts(bound.e, v, within, size); });
    });
  };
  for (const int id : factors) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    if (node.op != Op::load || node.index.coefficient_of(within) == 0) continue;
    for (int v = 0; v < results; ++v) {
      if (node.index.coefficient_of(v) != 0 && is_window_of(v)) return v;
    }
  }
  return -1;
}

}  // namespace

bool Pool::has(int variable) const {
  return std::ranges::find(windows, variable, &PoolWindow::variable) != windows.end();
}

std::int64_t Pool::size_along(int variable) const {
  const auto found = std::ranges::find(windows, variable, &PoolWindow::variable);
  return found == windows.end() ? 1 : found->size;
}

Result<Unpooled> unpooled(const Kernel& kernel, bool whole) {
  const auto no = [](const char* why) { return fail("unsupported", why); };
  Unpooled out{kernel, {}};
  for (std::size_t i = 0; i < kernel.reductions.size(); ++i) {
    if (kernel.reductions[i].across != (i > 0)) return no("folds of something else than one sum");
    if (kernel.reductions[i].at >= 0) return no("folds that look for positions");
    if (i > 0) out.pool.reductions.push_back(static_cast<int>(i));
  }
  const auto factors = nodes_of_both(kernel);
  const int end = static_cast<int>(kernel.space.extents.size()) - kernel.inner, results = end - kernel.across;
  // All are windows of others, or each is one by itself.
  for (int within = results; within < end; ++within)
    out.pool.whole = out.pool.whole || whole || windowed_by(kernel, factors, results, within) < 0;
  while (out.kernel.across > 0) {
    const int within = static_cast<int>(out.kernel.space.extents.size()) - out.kernel.inner - out.kernel.across;
    const std::int64_t size = out.kernel.space.extent(within);
    if (out.pool.whole) {
      --out.kernel.across;
      out.pool.windows.push_back({within, size});
      continue;
    }
    const int outer = windowed_by(out.kernel, factors, results, within);
    if (outer < 0) return no("windows of what is not one variable");
    if (out.pool.has(outer)) return no("two windows in one dim");
    join(out.kernel, outer, within);
    --out.kernel.across;
    out.pool.windows.push_back({outer, size});
  }
  if (!out.pool.whole && out.pool.reductions.size() != 1) return no("several folds of one window");
  std::ranges::sort(out.pool.windows, {}, &PoolWindow::variable);
  if (out.pool.whole) return out;
  for (const int id : factors) {
    const Node& node = out.kernel.nodes[static_cast<std::size_t>(id)];
    const bool affine = node.index.is_affine() &&
                        std::ranges::all_of(node.where, [](const ir::Bound& bound) { return bound.e.is_affine(); });
    if (!affine) return no("factors that know windows otherwise than by their elements");
  }
  return out;
}

Result<Folding> folding_of(const Pool& pool, const ImplicitOperand* implicit, const std::vector<int>& columns) {
  const auto no = [](const char* why) { return fail("unsupported", why); };
  Folding out;
  const auto folds_in_registers = [&] {
    out.in_registers = pool.whole || out.window % 8 == 0 || 8 % out.window == 0;
    return out;
  };
  if (pool.whole) {
    for (std::size_t i = 0; i < pool.windows.size(); ++i) {
      const PoolWindow& window = pool.windows[pool.windows.size() - 1 - i];
      if (i >= columns.size() || columns[columns.size() - 1 - i] != window.variable)
        return no("folds of rows that are not the last of their factor");
      out.window *= window.size;
    }
    return folds_in_registers();
  }
  if (implicit == nullptr) {
    if (pool.windows.size() != 1 || pool.windows[0].variable != columns.back())
      return no("windows over rows that are packed one by one");
    out.window = pool.windows[0].size;
    return folds_in_registers();
  }
  const auto& slides = implicit->dims;
  const bool slid = std::ranges::all_of(pool.windows, [&](const PoolWindow& window) {
    return std::ranges::find(slides, window.variable, &ImplicitDim::row) != slides.end();
  });
  if (!slid) return no("windows along a dim that nothing slides in");
  out.window = pool.size_along(slides.back().row);
  out.length = slides.back().rows;
  // Innermost first: how far neighbours of a dim are apart, and where the window's rows in it begin.
  std::int64_t step = slides.back().places;
  for (const ImplicitDim& slide : slides | std::views::reverse | std::views::drop(1)) {
    const std::int64_t size = pool.size_along(slide.row);
    out.lines.insert(out.lines.begin(), {slide.rows / size, size * step});
    std::vector<std::int64_t> runs;
    for (std::int64_t w = 0; w < size; ++w) {
      for (const std::int64_t run : out.runs) runs.push_back(w * step + run);
    }
    out.runs = std::move(runs);
    step *= slide.places;
  }
  out.lines.insert(out.lines.begin(), {implicit->images, implicit->plane});
  if (out.runs.size() > most_runs) return no("windows of more rows than a tile has room for");
  return folds_in_registers();
}

}  // namespace planish::codegen::contraction
