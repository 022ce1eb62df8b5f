#include "codegen/contraction/window_places.h"

#include <fmt/format.h>

namespace planish::codegen::contraction {

WindowPlaces::WindowPlaces(const Product& product, const TilePlan& plan)
    : product_(product), plan_(plan), window_(product.problem.folding->window) {
  for (const int v : product.c.n) {
    (product.pool->whole && product.pool->has(v) ? inner_ : outer_).push_back(v);
  }
}

void WindowPlaces::of_tile(PlaceWriter& writer) const {
  if (!product_.problem.has_runs()) return;
  // Runs lie along a line, of which `along` is the tile's first place.
  const Folding& folding = *product_.problem.folding;
  const std::int64_t width = plan_.bn, tiles = line_tiles(product_.problem, plan_);
  writer.line(fmt::format("const int line = x / {};", tiles * width));
  writer.line(
      fmt::format("const int along = x % {} / {} * {};", tiles * width, width, run_step(product_.problem, plan_)));
  const auto& slides = product_.implicit->dims;
  std::int64_t later = folding.line_count() / folding.lines.front().count;
  writer.decode(fmt::format("line / {}", later), product_.implicit->apart);
  for (std::size_t i = 0; i + 1 < slides.size(); ++i) {
    const std::int64_t count = folding.lines[i + 1].count;
    later /= count;
    writer.line(fmt::format("const {} first{} = line / {} % {} * {};", writer.coordinate(), slides[i].row, later, count,
                            product_.pool->size_along(slides[i].row)));
  }
}

std::string WindowPlaces::of_window(PlaceWriter& writer, std::string_view window) const {
  if (product_.pool->whole) {
    writer.line(fmt::format("const int begin = x / {} + {};", window_, window));
    writer.decode("begin", outer_);
    return fmt::format("begin < {}", product_.c.columns / window_);
  }
  const bool runs = product_.problem.has_runs();
  writer.line(fmt::format("const int begin = {} + {} * {};", runs ? "along" : "x", window, window_));
  of_element(writer, "0", "0");
  return fmt::format("begin < {}", runs ? product_.problem.folding->length : product_.c.columns);
}

void WindowPlaces::of_element(PlaceWriter& writer, std::string_view run, std::string_view c) const {
  if (product_.pool->whole) return writer.decode(c, inner_);
  if (!product_.problem.has_runs()) return writer.decode(fmt::format("begin + {}", c), product_.c.n);
  const auto& slides = product_.implicit->dims;
  std::size_t later = product_.problem.folding->runs.size();
  for (std::size_t i = 0; i + 1 < slides.size(); ++i) {
    const int row = slides[i].row;
    const std::int64_t size = product_.pool->size_along(row);
    later /= static_cast<std::size_t>(size);
    const std::string inside = size == 1 ? std::string() : fmt::format(" + {} / {} % {}", run, later, size);
    writer.line(fmt::format("const {0} d{1} = first{1}{2};", writer.coordinate(), row, inside));
  }
  writer.line(fmt::format("const {} d{} = begin + {};", writer.coordinate(), slides.back().row, c));
}

}  // namespace planish::codegen::contraction
