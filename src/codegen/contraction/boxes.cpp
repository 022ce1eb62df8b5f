#include "codegen/contraction/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "codegen/contraction/direct.h"
#include "codegen/passes.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t map_line = 64;    ///< elements of a row of 128 bytes
constexpr std::int64_t aligned = 8;      ///< elements of the 16 bytes that dims are multiples of
constexpr std::int64_t most_step = 8;    ///< of a dim of one
constexpr std::int64_t least_share = 2;  ///< at least a half of a tap's k are channels

bool contains(const std::vector<int>& all, int variable) {
  return std::ranges::find(all, variable) != all.end();
}

/// Finds the dims of one factor.
class Finder {
 public:
  Finder(const Kernel& kernel, const Contraction& c, Operand operand, const Node& load)
      : kernel_(kernel), c_(c), rows_(operand == Operand::a ? c.m : c.n), load_(load) {}

  std::optional<Boxes> find() {
    out_.input = load_.input;
    out_.base = load_.index.constant_term();
    for (const auto& term : load_.index.terms()) {
      if (term.coefficient < 1) return std::nullopt;
      if (contains(c_.k, term.atom.variable) && term.coefficient == 1) out_.channel = term.atom.variable;
    }
    if (out_.channel < 0) return std::nullopt;
    out_.channels = kernel_.space.extent(out_.channel);
    if (out_.channels % aligned != 0 || out_.tap_depth() > least_share * out_.channels) return std::nullopt;
    for (const auto& term : load_.index.terms()) {
      if (term.atom.variable != out_.channel) left_.push_back(term.atom.variable);
    }
    if (!std::ranges::all_of(load_.where, [&](const ir::Bound& bound) { return take(bound); })) return std::nullopt;
    // A dim for each variable, if there may be so many: strides of one for two make boxes long.
    const bool joins = out_.dims.size() + left_.size() + 1 > most_map_dims;
    take_rest(joins);
    std::ranges::sort(out_.dims, {}, &BoxDim::stride);
    const bool fits = std::ranges::all_of(out_.dims, [](const BoxDim& dim) {
      constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
      return dim.stride % aligned == 0 && dim.step <= most_step && dim.extent <= most && dim.begin >= -most;
    });
    if (!fits || out_.base < 0 || out_.base % aligned != 0 || out_.dims.size() + 1 > most_map_dims ||
        out_.rows().empty())
      return std::nullopt;
    return std::move(out_);
  }

 private:
  std::int64_t stride_of(int variable) const { return load_.index.coefficient_of(variable); }

  /// A dim whose bounds are known: they are of one row, one tap, or both, as memory is.
  bool take(const ir::Bound& bound) {
    if (!bound.e.is_affine()) return false;
    BoxDim dim;
    dim.stride = 0;
    for (const auto& term : bound.e.terms()) {
      const int v = term.atom.variable;
      const auto found = std::ranges::find(left_, v);
      if (found == left_.end() || term.coefficient < 1 || stride_of(v) % term.coefficient != 0) return false;
      const std::int64_t stride = stride_of(v) / term.coefficient;
      if (dim.stride != 0 && dim.stride != stride) return false;
      dim.stride = stride;
      const bool of_sum = contains(c_.k, v);
      if ((of_sum ? dim.tap : dim.row) >= 0 || (!of_sum && !contains(rows_, v))) return false;
      (of_sum ? dim.tap : dim.row) = v;
      (of_sum ? dim.dilation : dim.step) = term.coefficient;
      left_.erase(found);
    }
    if (dim.stride == 0) return false;
    dim.begin = bound.e.constant_term() - bound.lo;
    dim.extent = bound.hi - bound.lo;
    out_.base -= dim.stride * dim.begin;
    out_.dims.push_back(dim);
    return true;
  }

  /// The row that a tap without bounds is nearest to in memory: a dim for both, whichever they are of the tensor.
  int beside(int tap) const {
    int best = -1;
    std::int64_t least = 0;
    for (const int v : left_) {
      if (!contains(rows_, v)) continue;
      const std::int64_t a = stride_of(v), b = stride_of(tap), low = std::min(a, b), high = std::max(a, b);
      if (high % low != 0 || a / low > most_step) continue;
      if (best >= 0 && high / low >= least) continue;
      best = v;
      least = high / low;
    }
    return best;
  }

  void take_rest(bool joins) {
    const std::vector<int> all = left_;
    for (const int tap : all) {
      if (!contains(c_.k, tap)) continue;
      BoxDim dim{.tap = tap, .extent = kernel_.space.extent(tap), .stride = stride_of(tap)};
      if (joins) dim.row = beside(tap);
      if (dim.row >= 0) {
        dim.stride = std::min(stride_of(tap), stride_of(dim.row));
        dim.dilation = stride_of(tap) / dim.stride;
        dim.step = stride_of(dim.row) / dim.stride;
        dim.extent = dim.step * (kernel_.space.extent(dim.row) - 1) + dim.dilation * (dim.extent - 1) + 1;
        std::erase(left_, dim.row);
      }
      std::erase(left_, tap);
      out_.dims.push_back(dim);
    }
    for (const int v : left_)
      out_.dims.push_back(
          {.row = v, .of_batch = contains(c_.batch, v), .extent = kernel_.space.extent(v), .stride = stride_of(v)});
  }

  const Kernel& kernel_;
  const Contraction& c_;
  const std::vector<int>& rows_;
  const Node& load_;
  std::vector<int> left_;  ///< variables that no dim has yet
  Boxes out_;
};

/// "a · x", without what says nothing.
std::string multiple(std::int64_t factor, const std::string& x) {
  return factor == 1 ? x : fmt::format("{} * {}", factor, x);
}

}  // namespace

std::vector<BoxDim> Boxes::rows() const {
  std::vector<BoxDim> out;
  for (const BoxDim& dim : dims) {
    if (dim.row >= 0 && !dim.of_batch) out.push_back(dim);
  }
  return out;
}

std::int64_t Boxes::tap_depth() const {
  return (channels + map_line - 1) / map_line * map_line;
}

std::optional<Boxes> boxes_of(const Kernel& kernel, const Contraction& c, Operand operand) {
  const int factor = operand == Operand::a ? c.first : c.second;
  const Node* const load = plain_load(kernel, factor);
  // What is not read is 0.
  if (load == nullptr || !half_type(kernel, factor) || load->value != 0 || load->bits != 0 || !load->index.is_affine())
    return std::nullopt;
  return Finder(kernel, c, operand, *load).find();
}

std::vector<int> sum_in_boxes(const Contraction& c, const Boxes& boxes) {
  std::vector<int> out = c.k;
  std::erase(out, boxes.channel);
  out.push_back(boxes.channel);
  return out;
}

Boxed boxed_of(const Kernel& kernel, const Boxes& boxes, Operand operand) {
  Boxed out{operand, {}};
  for (const BoxDim& dim : boxes.rows()) {
    const std::int64_t taps = dim.tap < 0 ? 1 : kernel.space.extent(dim.tap);
    out.dims.push_back({kernel.space.extent(dim.row), dim.step, dim.dilation * (taps - 1) + 1});
  }
  return out;
}

namespace {

/// Of each dim of rows, so many of a tile.
std::vector<int> sizes_of(const Problem& problem, const TilePlan& plan, Operand operand) {
  return problem.in_boxes(operand) ? box_of(problem, plan) : std::vector<int>{tile_rows(plan, operand)};
}

}  // namespace

std::vector<MapDim> map_of(const Boxes& boxes, const std::vector<int>& sizes) {
  std::vector<MapDim> map{{.extent = boxes.channels, .box = map_line}};
  std::size_t row = 0;
  for (const BoxDim& dim : boxes.dims) {
    MapDim& one = map.emplace_back(MapDim{.extent = dim.extent, .stride = dim.stride * 2});
    if (dim.row < 0 || dim.of_batch) continue;
    one.box = sizes[row++] * dim.step;
    one.step = dim.step;
  }
  return map;
}

std::string coordinates_in_boxes(const Boxes& boxes, std::string_view channel, std::string_view taps) {
  std::string out(channel);
  for (const BoxDim& dim : boxes.dims) {
    out += fmt::format(", {}", dim.begin);
    if (dim.row >= 0) out += " + " + multiple(dim.step, fmt::format("(int)d{}", dim.row));
    if (dim.tap >= 0) out += " + " + multiple(dim.dilation, fmt::format("(int){}d{}", taps, dim.tap));
  }
  return out;
}

std::string print_box_copies(const Kernel& kernel, const Contraction& c, const Problem& problem, const TilePlan& plan,
                             Operand operand, const Boxes& boxes) {
  const std::vector<int> sizes = sizes_of(problem, plan, operand);
  PlaceWriter writer(kernel);
  print_map(writer, plan, operand, boxes.base * 2, map_of(boxes, sizes));
  writer.open(
      fmt::format("PL_DEVICE void fetch_{}(u32 to, const void* map, int product, int row, int k, u32 barrier) {{",
                  letter(operand)));
  std::vector<int> taps = sum_in_boxes(c, boxes);
  taps.pop_back();
  if (std::ranges::any_of(boxes.dims, &BoxDim::of_batch)) writer.decode("product", c.batch);
  BoxPlaces(kernel, boxes, problem, plan, operand).print_tile(writer, "row");
  writer.line("#pragma unroll");
  writer.open(fmt::format("for (int i = 0; i < {}; ++i) {{", plan.bk / map_line));
  const std::int64_t depth = boxes.tap_depth();
  writer.line(fmt::format("const unsigned at = k + i * {};", map_line));
  if (!taps.empty()) {
    writer.line(fmt::format("const int tap = at / {};", depth));
    writer.decode("tap", taps);
  }
  // Beyond the last tap there are zeros.
  const std::string channel = taps.empty() ? "at" : fmt::format("at % {}", depth);
  const bool deeper = extents_of(problem, plan).depth > problem.k;
  const std::string places = deeper ? fmt::format("(int)(at < {} ? {} : {})", problem.k, channel, boxes.channels)
                                    : fmt::format("(int)({})", channel);
  writer.line(fmt::format("tensor_load(to + i * {}, map, barrier, {});", tile_rows(plan, operand) * 128,
                          coordinates_in_boxes(boxes, places)));
  writer.close();
  writer.close();
  return std::move(writer.out);
}

BoxPlaces::BoxPlaces(const Kernel& kernel, const Boxes& boxes, const Problem& problem, const TilePlan& plan,
                     Operand operand)
    : operand_(operand), rows_(tile_rows(plan, operand)) {
  const std::vector<int> sizes = sizes_of(problem, plan, operand);
  const auto rows = boxes.rows();
  for (std::size_t d = 0; d < rows.size(); ++d) {
    const std::int64_t extent = kernel.space.extent(rows[d].row), size = sizes[d];
    dims_.push_back({rows[d].row, extent, size, (extent + size - 1) / size});
  }
}

std::size_t BoxPlaces::last() const {
  std::size_t found = 0;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    if (dims_[d].size > 1) found = d;
  }
  return found;
}

std::vector<int> BoxPlaces::sizes(bool half) const {
  std::vector<int> out;
  for (const Dim& dim : dims_) out.push_back(static_cast<int>(dim.size));
  if (!half) return out;
  if (out[last()] % 2 != 0) return {};
  out[last()] /= 2;
  return out;
}

void BoxPlaces::print_tile(PlaceWriter& writer, std::string_view linear, bool half) const {
  std::int64_t before = 1;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const Dim& dim = dims_[d];
    std::string at = fmt::format("(unsigned){} / {}", linear, rows_);
    if (before > 1) at += fmt::format(" / {}", before);
    if (d + 1 < dims_.size()) at += fmt::format(" % {}", dim.count);
    std::string place = fmt::format("{} * {}", at, dim.size);
    if (half && d == last())
      place += fmt::format(" + (unsigned){} % {} / {} * {}", linear, rows_, rows_ / 2, dim.size / 2);
    writer.line(fmt::format("const int d{} = {};", dim.variable, place));
    before *= dim.count;
  }
}

std::string BoxPlaces::print(PlaceWriter& writer, std::string_view linear, bool clamped) const {
  std::int64_t inside = 1, before = rows_;
  std::string there;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const Dim& dim = dims_[d];
    const auto digit = [&](std::int64_t by, std::int64_t count, bool last) {
      return fmt::format("(unsigned)({}){}{}", linear, by == 1 ? "" : fmt::format(" / {}", by),
                         last ? "" : fmt::format(" % {}", count));
    };
    std::string place =
        dim.count == 1 ? "" : fmt::format("{} * {}", digit(before, dim.count, d + 1 == dims_.size()), dim.size);
    if (dim.size > 1) place += (place.empty() ? "" : " + ") + digit(inside, dim.size, false);
    const bool beyond = dim.size * dim.count > dim.extent;
    if (place.empty()) place = "0";
    if (clamped && beyond) place = fmt::format("min((int)({}), {})", place, dim.extent - 1);
    writer.line(fmt::format("const {} d{} = {};", writer.coordinate(), dim.variable, place));
    if (beyond) there += fmt::format("{}(d{} < {})", there.empty() ? "" : " & ", dim.variable, dim.extent);
    inside *= dim.size;
    before *= dim.count;
  }
  return there;
}

bool BoxPlaces::are_neighbours(int variable, std::int64_t count) const {
  const Dim& first = dims_.front();
  return first.variable == variable && first.size % count == 0 && first.extent % count == 0;
}

}  // namespace planish::codegen::contraction
