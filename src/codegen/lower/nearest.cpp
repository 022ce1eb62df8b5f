#include "codegen/lower/nearest.h"

#include <algorithm>
#include <cmath>

// The nearest element as an index: exact, although PyTorch finds it by a product in floating point.
namespace planish::codegen {
namespace {

/// The factor that the caller names for dim d of `dims`; 0: none, or one that PyTorch takes for none.
double named_factor(const Site& s, std::size_t d, std::size_t dims) {
  double factor = 0;
  if (const ir::Arg* given = s.args.get("scale_factors")) {
    const auto* all = std::get_if<std::vector<double>>(&given->data);
    if (all != nullptr && d < all->size()) factor = (*all)[d];
  } else if (dims == 1) {
    factor = s.args.number("scales").value_or(0);
  } else {
    constexpr const char* names[] = {"scales_d", "scales_h", "scales_w"};
    factor = s.args.number(names[3 - dims + d]).value_or(0);
  }
  return std::max(factor, 0.0);
}

/// PyTorch's index, in a type that one of its kernels may compute in.
template <typename T>
std::int64_t in_floating_point(std::int64_t at, std::int64_t from, std::int64_t to, double factor, bool exact) {
  const T scale = factor > 0 ? static_cast<T>(1 / factor) : static_cast<T>(from) / static_cast<T>(to);
  const T place = (static_cast<T>(at) + (exact ? T(0.5) : T(0))) * scale;
  return std::min(static_cast<std::int64_t>(std::floor(place)), from - 1);
}

}  // namespace

Result<int> nearest(const Site& s) {
  const int input = std::max(s.args.value("self"), s.args.value("input"));
  const bool exact = base_name(s.node.op).contains("exact");
  const auto& from = s.low.info(input).shape;
  const auto& to = s.low.info(s.out_id).shape;
  if (from.size() != to.size() || from.size() < 3) return unsupported("an image of another rank");
  Coords coords = s.coords;
  for (std::size_t d = 2; d < from.size(); ++d) {
    const double factor = named_factor(s, d - 2, from.size() - 2);
    // In halves, so that an exact one looks from the middle of an element.
    const std::int64_t step = 2 * from[d], half = exact ? from[d] : 0;
    for (std::int64_t at = 0; at < to[d]; ++at) {
      const std::int64_t whole = (at * step + half) / (2 * to[d]);
      if (whole != in_floating_point<float>(at, from[d], to[d], factor, exact) ||
          whole != in_floating_point<double>(at, from[d], to[d], factor, exact))
        return unsupported("nearest elements that are not those of whole numbers");
    }
    if (from[d] == to[d]) continue;
    // Where each stands for f results, halves change nothing: (2n + 1) / 2f is n / f.
    const bool repeated = to[d] % from[d] == 0;
    coords[d] = repeated ? ir::floor_div(coords[d], to[d] / from[d], s.low.space())
                         : ir::floor_div(s.low.plus(ir::scale(coords[d], step), half), 2 * to[d], s.low.space());
  }
  return s.low.value(input, std::move(coords));
}

}  // namespace planish::codegen
