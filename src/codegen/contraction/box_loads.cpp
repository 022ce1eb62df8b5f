#include "codegen/contraction/box_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

namespace planish::codegen::contraction {
namespace {

constexpr int step_of_k = 64;  ///< of k

/// Both ways of a copy, to coordinates that are the same.
void print_box_copy(PlaceWriter& writer, std::string_view places) {
  writer.line(fmt::format("if constexpr (blocks != 0) tensor_share(to, map, barrier, blocks, {});", places));
  writer.line(fmt::format("else tensor_load(to, map, barrier, {});", places));
}

void open_box_load(PlaceWriter& writer, Operand operand) {
  writer.line("template <int blocks>");
  writer.open(fmt::format(
      "PL_DEVICE void load_{}(u32 to, const void* map, u32 barrier, int unit, const Taps& taps, int row) const {{",
      letter(operand)));
}

void open_box_map(PlaceWriter& writer, Operand operand) {
  writer.open(fmt::format("PL_DEVICE void map_{}(u32 map, {}int) const {{", letter(operand),
                          operand == Operand::a ? "" : "int, "));
}

void print_box_dims(PlaceWriter& writer, const std::vector<MapDim>& dims) {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    writer.line(fmt::format("tensor_map_dim<{}>(map, {}, {}, {});", d, dims[d].extent, dims[d].box, dims[d].step));
    if (d > 0) writer.line(fmt::format("tensor_map_stride<{}>(map, {}ull);", d, dims[d].stride));
  }
}

}  // namespace

TilePlan boxes_plan(const DeviceTiling& tiling) {
  TilePlan plan;
  plan.bm = tiling.tile_rows;
  plan.bn = tiling.tile_columns;
  return plan;
}

BoxLoads::BoxLoads(const Product& product, const DeviceTiling& tiling)
    : product_(product),
      tiling_(tiling),
      places_(product.kernel, *product.boxes_a, product.problem, boxes_plan(tiling), Operand::a),
      depth_(product.boxes_a->tap_depth()) {}

void BoxLoads::print(PlaceWriter& writer, bool bf16) const {
  print_taps(writer);
  operand(writer, Operand::a, bf16);
  is_packed() ? packed(writer, bf16) : operand(writer, Operand::b, bf16);
}

std::vector<int> BoxLoads::taps() const {
  std::vector<int> out = product_.c.k;
  out.pop_back();  // the channels
  return out;
}

/// A value that goes on by additions alone: one thread asks for all copies, at each step of k.
void BoxLoads::print_taps(PlaceWriter& writer) const {
  const std::vector<int> all = taps();
  const bool several = depth_ > step_of_k;
  std::string values;
  const auto value = [&](std::string_view text) { values += fmt::format("{}{}", values.empty() ? "" : ", ", text); };
  writer.open("struct Taps {");
  if (is_packed()) writer.line("int k;");
  if (several) writer.line("int channel;");
  for (const int v : all) writer.line(fmt::format("int d{};", v));
  writer.open("PL_DEVICE void next() {");
  if (is_packed()) writer.line(fmt::format("k += {};", step_of_k));
  if (several) {
    writer.line(fmt::format("channel += {};", step_of_k));
    if (!all.empty()) {
      writer.line(fmt::format("if (channel < {}) return;", depth_));
      writer.line("channel = 0;");
    }
  }
  for (const int v : all | std::views::reverse) {
    if (v == all.front()) {
      writer.line(fmt::format("++d{};", v));
      break;
    }
    writer.line(fmt::format("if (++d{} < {}) return;", v, product_.kernel.space.extent(v)));
    writer.line(fmt::format("d{} = 0;", v));
  }
  writer.close();
  writer.close_declaration();
  writer.open("PL_DEVICE Taps taps(int k) const {");
  if (!all.empty()) {
    writer.line(fmt::format("const int tap = k / {};", depth_));
    writer.decode("tap", all);
  }
  if (is_packed()) value("k");
  if (several) value(all.empty() ? "k" : fmt::format("k % {}", depth_));
  for (const int v : all) value(fmt::format("(int)d{}", v));
  writer.line(fmt::format("return {{{}}};", values));
  writer.close();
}

void BoxLoads::operand(PlaceWriter& writer, Operand operand, bool bf16) const {
  const Boxes& boxes = *product_.boxes(operand);
  const bool is_a = operand == Operand::a, shares = tiling_.cluster > 1 && tiling_.share_b != is_a;
  const std::vector<int> sizes =
      is_a ? places_.sizes(shares) : std::vector<int>{tiling_.tile_columns / (shares ? tiling_.cluster : 1)};
  const auto dims = map_of(boxes, sizes);
  open_box_map(writer, operand);
  writer.line(fmt::format("tensor_map_begin<{}, {}>(map, in{} + {}ll);", dims.size(), bf16, boxes.input, boxes.base));
  print_box_dims(writer, dims);
  writer.close();
  open_box_load(writer, operand);
  if (std::ranges::any_of(boxes.dims, &BoxDim::of_batch)) writer.decode("unit", product_.c.batch);
  if (is_a)
    places_.print_tile(writer, "row", shares);
  else
    writer.line(fmt::format("const int d{} = row;", boxes.rows().front().row));
  print_box_copy(writer, coordinates_in_boxes(boxes, depth_ > step_of_k ? "taps.channel" : "0", "taps."));
  writer.close();
}

/// The second factor as a matrix of its rows and all k, zeros between taps included.
void BoxLoads::packed(PlaceWriter& writer, bool bf16) const {
  const Problem& problem = product_.problem;
  const bool moves = problem.moves(Operand::b);
  std::vector<MapDim> dims{{.extent = problem.k, .box = step_of_k}};
  dims.push_back({.extent = problem.n,
                  .box = tiling_.tile_columns / (tiling_.share_b ? tiling_.cluster : 1),
                  .stride = problem.k * 2});
  if (moves) dims.push_back({.extent = problem.batches, .stride = problem.n * problem.k * 2});
  open_box_map(writer, Operand::b);
  writer.line(fmt::format("tensor_map_begin<{}, {}>(map, packed);", dims.size(), bf16));
  print_box_dims(writer, dims);
  writer.close();
  open_box_load(writer, Operand::b);
  print_box_copy(writer, moves ? "taps.k, row, unit" : "taps.k, row");
  writer.close();
}

}  // namespace planish::codegen::contraction
