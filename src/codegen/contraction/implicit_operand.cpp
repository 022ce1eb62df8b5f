#include "codegen/contraction/implicit_operand.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "codegen/emit/expression.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t even = 2;  // neighbouring columns of a fragment are of one image, whose exponent they share

/// The dim of a tensor that a variable with this coefficient moves along; -1 where there is none. A guess: whatever is
/// paired by it, place() says whether it slides.
int dim_of(const Input& input, std::int64_t coefficient) {
  int found = -1;
  for (std::size_t d = 0; d < input.shape.size(); ++d) {
    const std::int64_t stride = input.strides[d];
    if (input.shape[d] < 2 || stride < 1 || coefficient < 1 || coefficient % stride != 0) continue;
    if (found < 0 || stride > input.strides[static_cast<std::size_t>(found)]) found = static_cast<int>(d);
  }
  return found;
}

/// `e` with u for the slide's row variable and without its taps; nothing where it knows them otherwise.
std::optional<ir::IndexExpr> placed(const ir::IndexExpr& e, const ImplicitDim& slide) {
  const std::int64_t row = e.coefficient_of(slide.row), tap = e.coefficient_of(slide.tap);
  if (row * slide.dilation != tap * slide.stride || row % slide.stride != 0) return std::nullopt;
  std::vector<ir::IndexExpr::Term> terms;
  for (const auto& term : e.terms()) {
    if (term.atom.kind == ir::Atom::Kind::variable) {
      if (term.atom.variable == slide.row || term.atom.variable == slide.tap) continue;
    } else if (term.atom.inner->depends_on(slide.row) || term.atom.inner->depends_on(slide.tap)) {
      return std::nullopt;
    }
    terms.push_back(term);
  }
  if (row != 0) terms.push_back({ir::Atom{ir::Atom::Kind::variable, slide.row, 1, nullptr}, row / slide.stride});
  return ir::IndexExpr::build(e.constant_term(), std::move(terms));
}

/// Puts u into all that a node says of places; false where that cannot be.
bool place(Node& node, const ImplicitDim& slide) {
  if (slide.tap < 0) return true;
  const auto index = placed(node.index, slide);
  if (!index) return false;
  node.index = *index;
  for (ir::Bound& bound : node.where) {
    const auto e = placed(bound.e, slide);
    if (!e) return false;
    bound.e = *e;
  }
  return true;
}

/// A dim that is not slid along.
ImplicitDim still(const Kernel& kernel, int row) {
  ImplicitDim slide;
  slide.row = row;
  slide.rows = slide.reach = slide.places = kernel.space.extent(row);
  return slide;
}

/// Slides of the factor `root`, whose rows are `rows`.
std::vector<ImplicitDim> slides_of(const Kernel& kernel, const std::vector<int>& nodes, const std::vector<int>& rows,
                                   const std::vector<int>& sum) {
  std::vector<ImplicitDim> found;
  const auto load =
      std::ranges::find_if(nodes, [&](int id) { return kernel.nodes[static_cast<std::size_t>(id)].op == Op::load; });
  if (load == nodes.end()) return found;
  const Node& node = kernel.nodes[static_cast<std::size_t>(*load)];
  const Input& input = kernel.inputs[static_cast<std::size_t>(node.input)];
  const auto dim = [&](int v) { return dim_of(input, node.index.coefficient_of(v)); };
  for (const int row : rows) {
    const int d = dim(row);
    if (d < 0) continue;
    const auto along = [&](int v) { return dim(v) == d; };
    if (std::ranges::count_if(sum, along) != 1 || std::ranges::count_if(rows, along) != 1) continue;
    ImplicitDim slide;
    slide.row = row;
    slide.tap = *std::ranges::find_if(sum, along);
    slide.stride = node.index.coefficient_of(slide.row);
    slide.dilation = node.index.coefficient_of(slide.tap);
    const std::int64_t common = std::gcd(slide.stride, slide.dilation);
    slide.stride /= common;
    slide.dilation /= common;
    slide.rows = kernel.space.extent(slide.row);
    slide.taps = kernel.space.extent(slide.tap);
    slide.reach = slide.stride * (slide.rows - 1) + slide.dilation * (slide.taps - 1) + 1;
    slide.places = slide.rows + slide.dilation * (slide.taps - 1) / slide.stride;
    found.push_back(slide);
  }
  std::ranges::sort(found, {}, &ImplicitDim::row);
  if (found.empty()) return found;
  // What lies within the first of them stays there, so that neighbours in memory are neighbours.
  const int first = found.front().row;
  for (const int row : rows) {
    if (row > first && std::ranges::find(found, row, &ImplicitDim::row) == found.end())
      found.push_back(still(kernel, row));
  }
  std::ranges::sort(found, {}, &ImplicitDim::row);
  return found;
}

std::int64_t chunks_of(std::int64_t channels) {
  return (channels + 7) / 8;
}

/// Of all products of a row.
std::int64_t depth_of(const ImplicitOperand& implicit) {
  return implicit.taps * implicit.chunks * 8;
}

/// Sets what follows from slides, apart and channels.
void count(const Kernel& kernel, ImplicitOperand& out) {
  ImplicitDim& last = out.dims.back();
  last.places = (last.places + even - 1) / even * even;
  out.images = out.channel_count = out.plane = out.phases = out.taps = 1;
  for (const int v : out.apart) out.images *= kernel.space.extent(v);
  for (const int v : out.channels) out.channel_count *= kernel.space.extent(v);
  for (const ImplicitDim& slide : out.dims) {
    out.plane *= slide.places;
    out.phases *= slide.stride;
    out.taps *= slide.taps;
  }
  out.chunks = chunks_of(out.channel_count);
}

/// The same with the taps of that slide among the channels; nothing where that does not shorten the sum by a quarter,
/// or makes the stored array larger than it is worth.
std::optional<ImplicitOperand> with_taps_as_channels(const Kernel& kernel, const ImplicitOperand& implicit,
                                                     std::size_t which) {
  ImplicitOperand out = implicit;
  ImplicitDim& slide = out.dims[which];
  if (slide.tap < 0) return std::nullopt;
  // Without a stride neighbouring taps share what a tile reads: only arithmetic is saved, and that rarely bounds.
  const std::int64_t most = slide.stride == 1 ? 1 : 2;
  out.channels.push_back(slide.tap);
  std::ranges::sort(out.channels);
  slide = still(kernel, slide.row);
  if (std::ranges::all_of(out.dims, [](const ImplicitDim& one) { return one.tap < 0; })) return std::nullopt;
  count(kernel, out);
  const auto stored = [](const ImplicitOperand& one) { return one.phases * one.plane * one.chunks; };
  if (depth_of(out) * 4 > depth_of(implicit) * 3 || stored(out) > most * stored(implicit)) return std::nullopt;
  return out;
}

/// Few channels are filled up to chunks with the taps of that dim that leaves the shortest sum; the last of equal ones,
/// whose places then have no phases.
ImplicitOperand with_full_chunks(const Kernel& kernel, ImplicitOperand implicit) {
  ImplicitOperand best = implicit;
  for (std::size_t i = implicit.dims.size(); i-- > 0;) {
    auto tried = with_taps_as_channels(kernel, implicit, i);
    if (tried && depth_of(*tried) < depth_of(best)) best = std::move(*tried);
  }
  return best;
}

std::optional<ImplicitOperand> slide_factor(const Kernel& kernel, const Contraction& c, Operand operand) {
  const std::vector<int> root{operand == Operand::a ? c.first : c.second};
  const auto& rows = operand == Operand::a ? c.m : c.n;
  const auto nodes = printing::closure(kernel, root, [](int) { return false; });
  ImplicitOperand out;
  out.operand = operand;
  out.dims = slides_of(kernel, nodes, rows, c.k);
  if (out.dims.empty()) return std::nullopt;
  for (const int id : nodes) {
    Node node = kernel.nodes[static_cast<std::size_t>(id)];
    if (!std::ranges::all_of(out.dims, [&](const ImplicitDim& slide) { return place(node, slide); }))
      return std::nullopt;
  }
  for (const int v : rows) {
    if (std::ranges::find(out.dims, v, &ImplicitDim::row) == out.dims.end()) out.apart.push_back(v);
  }
  for (const int v : c.k) {
    if (std::ranges::find(out.dims, v, &ImplicitDim::tap) == out.dims.end()) out.channels.push_back(v);
  }
  if (out.channels.empty()) return std::nullopt;
  count(kernel, out);
  std::int64_t unfolded = out.channel_count;
  for (const ImplicitDim& slide : out.dims) unfolded *= slide.rows * slide.taps;
  out = with_full_chunks(kernel, std::move(out));
  if (out.phases * out.plane * out.chunks * 8 >= unfolded) return std::nullopt;
  return out;
}

}  // namespace

std::int64_t ImplicitOperand::longest_shift() const {
  std::int64_t shift = 0;
  for (const ImplicitDim& slide : dims) shift = shift * slide.places + slide.dilation * (slide.taps - 1) / slide.stride;
  return shift;
}

std::vector<std::int64_t> ImplicitOperand::offsets() const {
  std::vector<std::int64_t> out;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    std::int64_t phase = 0, shift = 0, left = taps, at = tap;
    for (const ImplicitDim& slide : dims) {
      left /= slide.taps;
      const std::int64_t u = at / left * slide.dilation;
      at %= left;
      phase = phase * slide.stride + u % slide.stride;
      shift = shift * slide.places + u / slide.stride;
    }
    out.push_back(phase * chunks * positions() + shift);
  }
  return out;
}

std::optional<ImplicitOperand> implicit_operand_of(const Kernel& kernel, const Contraction& c) {
  auto b = slide_factor(kernel, c, Operand::b);
  return b ? std::move(b) : slide_factor(kernel, c, Operand::a);
}

Kernel by_place(const Kernel& kernel, const Contraction& c, const ImplicitOperand& implicit) {
  Kernel out = kernel;
  const std::vector<int> root{implicit.operand == Operand::a ? c.first : c.second};
  const auto nodes = printing::closure(kernel, root, [](int) { return false; });
  for (const ImplicitDim& slide : implicit.dims) {
    if (slide.tap < 0) continue;
    for (const int id : nodes) place(out.nodes[static_cast<std::size_t>(id)], slide);
    out.space.extents[static_cast<std::size_t>(slide.row)] = slide.reach;
    out.space.extents[static_cast<std::size_t>(slide.tap)] = 1;
  }
  return out;
}

}  // namespace planish::codegen::contraction
