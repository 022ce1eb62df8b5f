#include "codegen/contraction/sectors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/contraction/epilogue.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t sector_bytes = 32;

/// Puts what these variables say of a place into `column`, the rest into `row`; false where a place knows one of them
/// otherwise than by a coefficient.
bool part(Sectors& out, const ir::IndexExpr& place, const std::vector<int>& variables) {
  std::vector<ir::IndexExpr::Term> rows, columns;
  for (const auto& term : place.terms()) {
    const bool plain = term.atom.kind == ir::Atom::Kind::variable;
    const bool of_columns = std::ranges::any_of(
        variables, [&](int v) { return plain ? term.atom.variable == v : term.atom.inner->depends_on(v); });
    if (of_columns && !plain) return false;
    (of_columns ? columns : rows).push_back(term);
  }
  out.row = ir::IndexExpr::build(place.constant_term(), std::move(rows));
  out.column = ir::IndexExpr::build(0, std::move(columns));
  return true;
}

/// Whether columns that follow each other lie behind each other, whatever lies between: `step` is from one column to
/// the next, of a line.
bool ascends(const Kernel& kernel, const ir::IndexExpr& place, const ImplicitOperand& implicit, std::int64_t step) {
  std::int64_t within = step;
  for (std::size_t i = implicit.dims.size(); i-- > 0;) {
    const ImplicitDim& slide = implicit.dims[i];
    if (place.coefficient_of(slide.row) < within) return false;
    within = place.coefficient_of(slide.row) * slide.rows;
  }
  for (std::size_t i = implicit.apart.size(); i-- > 0;) {
    const std::int64_t count = kernel.space.extent(implicit.apart[i]);
    if (count > 1 && place.coefficient_of(implicit.apart[i]) < within) return false;
    if (count > 1) within = place.coefficient_of(implicit.apart[i]) * count;
  }
  return true;
}

/// The variable before the last dim's, of those that move; -1 where there is none.
int next_of(const Kernel& kernel, const ImplicitOperand& implicit) {
  if (implicit.dims.size() > 1) return implicit.dims[implicit.dims.size() - 2].row;
  for (std::size_t i = implicit.apart.size(); i-- > 0;) {
    if (kernel.space.extent(implicit.apart[i]) > 1) return implicit.apart[i];
  }
  return -1;
}

/// Whether every row's columns that are multiples of 8 begin a sector.
bool is_aligned(const Kernel& kernel, const Contraction& c, const ir::IndexExpr& place, const ImplicitOperand& implicit,
                std::int64_t elements) {
  const auto whole = [&](int v) { return place.coefficient_of(v) % elements == 0 || kernel.space.extent(v) == 1; };
  const bool dense = std::ranges::all_of(implicit.dims, [](const ImplicitDim& one) { return one.places == one.rows; });
  return dense && place.is_affine() && place.constant_term() % elements == 0 && std::ranges::all_of(c.m, whole) &&
         std::ranges::all_of(c.batch, whole) && std::ranges::all_of(implicit.apart, whole) &&
         implicit.plane % elements == 0;
}

}  // namespace

std::optional<Sectors> sectors_of(const Kernel& kernel, const Contraction& c, const ImplicitOperand* implicit) {
  if (implicit == nullptr || implicit->operand != Operand::b || kernel.outputs.empty()) return std::nullopt;
  const Output& output = kernel.outputs.front();
  const ir::IndexExpr& place = output.index;
  const std::int64_t elements = sector_bytes / size_of(output.dtype);
  const ImplicitDim& last = implicit->dims.back();
  const std::int64_t step = place.coefficient_of(last.row);
  Sectors out;
  out.elements = static_cast<int>(elements);
  if (step != 1) {
    const int phase = c.m.back();
    if (place.coefficient_of(phase) != 1 || kernel.space.extent(phase) != step) return std::nullopt;
    out.phase = phase;
  }
  if (elements < 2 || step < 1 || step >= elements || last.rows < elements) return std::nullopt;
  std::vector<int> along = implicit->apart;
  for (const ImplicitDim& slide : implicit->dims) along.push_back(slide.row);
  if (out.phase >= 0) along.push_back(out.phase);
  if (!part(out, place, along) || !ascends(kernel, place, *implicit, step)) return std::nullopt;
  if (out.phase < 0 && is_aligned(kernel, c, place, *implicit, elements)) return std::nullopt;
  std::int64_t overlap = (elements - 1 + step - 1) / step;
  out.next = next_of(kernel, *implicit);
  out.crosses = out.next >= 0 && place.coefficient_of(out.next) < step * last.rows + elements;
  if (out.crosses) overlap += last.places - last.rows;
  // Tiles begin where threads that store or fold four neighbours at once do.
  constexpr std::int64_t to = 4;
  out.overlap = static_cast<int>((overlap + to - 1) / to * to);
  return out;
}

void print_edge(PlaceWriter& writer, const Sectors& sectors, const Kernel& kernel, const ImplicitOperand& implicit) {
  const ir::IndexExpr& place = kernel.outputs.front().index;
  writer.open(fmt::format("PL_DEVICE {} edge_of(int position, int& mask) {{", writer.coordinate()));
  // Behind the last tile there is nothing.
  writer.line(fmt::format("if (position >= {}) return mask = 0, {};", implicit.positions(),
                          writer.coordinate() == "int" ? "0x7fffffff" : "0x7fffffffffffffffll"));
  print_position(writer, implicit, "position");
  // From the last dim on: a place behind a line's last one is the next line's first.
  std::string at, inside = "(position > 0)";
  for (std::size_t i = implicit.dims.size(); i-- > 0;) {
    const ImplicitDim& slide = implicit.dims[i];
    const std::int64_t step = place.coefficient_of(slide.row);
    if (at.empty()) {
      at = fmt::format("min((int)d{}, {}) * {}", slide.row, slide.rows, step);
      continue;
    }
    at = fmt::format("((int)d{0} < {1} ? d{0} * {2} + {3} : {4})", slide.row, slide.rows, step, at, slide.rows * step);
    inside += fmt::format(" & ((int)d{} < {})", slide.row, slide.rows);
  }
  if (sectors.crosses) {
    const ImplicitDim& last = implicit.dims.back();
    inside += fmt::format(" & (((int)d{} + {} < {}) | ((int)d{} + 1 < {}))", last.row, sectors.elements - 1, last.rows,
                          sectors.next, kernel.space.extent(sectors.next));
  }
  writer.line(fmt::format("mask = {} ? {} : 0;", inside, sectors.elements - 1));
  for (const int v : implicit.apart) at += fmt::format(" + d{} * {}", v, place.coefficient_of(v));
  writer.line(fmt::format("return {};", at));
  writer.close();
}

}  // namespace planish::codegen::contraction
