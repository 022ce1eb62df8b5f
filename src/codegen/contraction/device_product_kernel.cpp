// The policy, the functors and the instantiation of the device file of products on warpgroups.
#include <fmt/format.h>

#include <optional>

#include "codegen/contraction/box_loads.h"
#include "codegen/contraction/cross_tile_text.h"
#include "codegen/contraction/product_printer.h"

namespace planish::codegen::contraction {
namespace {

class DevicePrinter : public ProductPrinter {
 public:
  DevicePrinter(const Product& product, const DeviceTiling& tiling, const DeviceGroups* groups)
      : ProductPrinter(multiplied(product), tiling.fast, groups, folded_of(product)), tiling_(tiling), whole_(product) {
    if (product.problem.boxed) boxes_.emplace(product, tiling_);
  }

 private:
  /// Nodes whose values are folded.
  static std::vector<int> folded_of(const Product& product) {
    std::vector<int> nodes;
    if (!product.cross_tile) return nodes;
    for (const CrossTileFold& fold : product.cross_tile->folds)
      nodes.push_back(product.kernel.reductions[static_cast<std::size_t>(fold.sum)].arg);
    return nodes;
  }

  void instructions() override {
    if (bits())
      return line(fmt::format("PL_WGMMA_{}(pl_multiply, {}, \"{}\", \"{}\")", bits()->integers() ? "INTEGER" : "EIGHT",
                              tiling_.tile_columns, factor_type(Operand::a), factor_type(Operand::b)));
    line(fmt::format("PL_WGMMA_BOTH(pl_multiply, {}, \"{}\", {:d}, {:d})", tiling_.tile_columns, bf16_ ? "bf16" : "f16",
                     across(Operand::a), across(Operand::b)));
  }

  /// As PTX names it.
  std::string_view factor_type(Operand operand) const {
    switch (bits()->type(operand)) {
      case DType::i8:
        return "s8";
      case DType::u8:
        return "u8";
      case DType::f8_e5m2:
        return "e5m2";
      default:
        return "e4m3";
    }
  }

  void policy() override {
    open("struct Policy {");
    line(fmt::format("static constexpr int rows = {}, columns = {}, depth = {}, units = {}, groups = {}, parts = 1;",
                     boxes_ ? rows_in_boxes(product_.problem, boxes_plan(tiling_)) : c_.rows, c_.columns,
                     product_.problem.k, c_.batches, groups_ != nullptr ? groups_->count : 0));
    line(fmt::format("static constexpr int tile_rows = {}, tile_columns = {}, consumers = {}, stages = {};",
                     tiling_.tile_rows, tiling_.tile_columns, tiling_.consumers, tiling_.stages));
    line(fmt::format("static constexpr int cluster = {}, splits = {}, raster = {}, result_bytes = {};", tiling_.cluster,
                     tiling_.splits, tiling_.raster, result_bytes()));
    line(fmt::format("static constexpr bool ping_pong = {}, share_b = {}, a_across = {}, b_across = {}, boxed = {};",
                     tiling_.ping_pong, tiling_.share_b, across(Operand::a), across(Operand::b), boxes_.has_value()));
    line(fmt::format("static constexpr bool words = {}, scales_a = {};", words(), bits() && bits()->scale_a));
    line(fmt::format("static constexpr int factor_bytes = {}, scales_b = {};", factor_bytes(), columns_of_scale()));
    line(fmt::format("static constexpr bool integer_sums = {};", integer_sums()));
    writer_.close_declaration();
  }

  void factors() override {
    line(fmt::format(
        "PL_DEVICE void multiply({} (&d)[{}], u64 a, u64 b, int keep) const {{ pl_multiply(d, a, b, keep); }}",
        sum_type(), tiling_.tile_columns / 2));
    if (boxes_) return boxes_->print(writer_, bf16_);
    operand(Operand::a);
    operand(Operand::b);
    for (const Operand each : {Operand::a, Operand::b}) {
      if (bits() && bits()->scale(each)) scale(each, bits()->scale(each)->node);
    }
  }

  const std::optional<EightBits>& bits() const { return product_.bits; }
  int factor_bytes() const { return bits() ? 1 : 2; }

  /// Columns that have one scale of b; all of a tile where it is the same everywhere, 0 where there is none.
  std::int64_t columns_of_scale() const {
    if (!bits() || !bits()->scale_b) return 0;
    return bits()->scale_b->rows != 0 ? bits()->scale_b->rows : tiling_.tile_columns;
  }

  /// The factor of the products of a row, or column, and a step.
  void scale(Operand operand, int node) {
    const int other = operand == Operand::a ? row() : column();
    open(fmt::format("PL_DEVICE float scale_{}(int unit, int at, int k) const {{", letter(operand)));
    writer_.decode("unit", c_.batch);
    line(fmt::format("const {0} d{1} = min(at, {2}), d{3} = k;", writer_.coordinate(), other,
                     kernel_.space.extent(other) - 1, c_.k.front()));
    writer_.nodes(std::vector<int>{node});
    line(fmt::format("return {};", writer_.name(node)));
    close();
  }

  bool places(bool stored) override {
    if (boxes_) boxes_->places().print(writer_, "row", !stored);
    return boxes_.has_value();
  }

  bool packs() const { return boxes_ && !whole_.boxes_b; }
  std::pair<std::string, std::string> more() const override {
    return packs() ? std::pair<std::string, std::string>("const u16* __restrict__", "packed") : ProductPrinter::more();
  }

  /// Its map, and the copy of a box.
  void operand(Operand operand) {
    const Direct& direct = *product_.direct(operand);
    const int k = c_.k.front(), other = operand == Operand::a ? row() : column();
    const int first = across(operand) ? other : k, second = across(operand) ? k : other;
    std::vector<int> dims{first, second};
    std::string places;
    for (const int v : c_.batch) {
      dims.push_back(v);
      places += fmt::format(", (int)d{}", v);
    }
    const bool is_a = operand == Operand::a, grouped = !is_a && groups_ != nullptr;
    if (grouped) places += ", unit";
    open(fmt::format("PL_DEVICE void map_{}(u32 map, {}int rows) const {{", letter(operand), is_a ? "" : "int part, "));
    line(fmt::format("tensor_map_begin{}<{}{}>(map, in{} + {}ll);", bits() ? "_bytes" : "",
                     dims.size() + (grouped ? 1 : 0), bits() ? "" : fmt::format(", {}", bf16_), direct.input,
                     direct.row.constant_term()));
    for (std::size_t d = 0; d < dims.size(); ++d) {
      line(fmt::format("tensor_map_dim<{}>(map, {}, {});", d, kernel_.space.extent(dims[d]),
                       d == 0   ? std::to_string(128 / factor_bytes())
                       : d == 1 ? "rows"
                                : "1"));
      if (d > 0) line(fmt::format("tensor_map_stride<{}>(map, {}ull);", d, factor_bytes() * stride(direct, dims[d])));
    }
    if (grouped) {
      line(fmt::format("tensor_map_dim<{}>(map, {}, 1);", dims.size(), groups_->count));
      line(fmt::format("tensor_map_stride<{}>(map, {}ull);", dims.size(), factor_bytes() * groups_->stride));
    }
    close();
    line("template <int blocks>");
    open(fmt::format("PL_DEVICE void load_{}(u32 to, const void* map, u32 barrier, int unit, int x, int y) const {{",
                     letter(operand)));
    writer_.decode("unit", c_.batch);
    line(fmt::format("if constexpr (blocks != 0) tensor_share(to, map, barrier, blocks, x, y{});", places));
    line(fmt::format("else tensor_load(to, map, barrier, x, y{});", places));
    close();
  }

  void piece() override {
    if (boxes_) {
      open("PL_DEVICE bool inside(int row) const {");
      const std::string there = boxes_->places().print(writer_, "row");
      line(fmt::format("return {};", there.empty() ? "true" : there));
      close();
    }
    if (!whole_.cross_tile) return;
    const TilePlan plan = pieces_plan(tiling_);
    const Pieces pieces = pieces_of(*whole_.cross_tile, whole_.problem, plan);
    open("PL_DEVICE float* piece(int batch, int row, int column) const {");
    line(fmt::format("const int tile = {}, slot = column / {} - tile * {} / {};", piece_of(pieces, plan, "column"),
                     whole_.cross_tile->run, tiling_.tile_columns, whole_.cross_tile->run));
    line(fmt::format("return pieces + {};", place_of_piece(whole_, pieces, "row", "tile", "slot")));
    close();
  }

  /// ", ProductFolds<1, 128, 0>": of the file's template, behind the policy.
  std::string folds() const {
    if (!whole_.cross_tile) return {};
    unsigned centred = 0, bit = 1;
    for (const CrossTileFold& fold : whole_.cross_tile->folds) {
      centred |= fold.squares >= 0 ? bit : 0;
      bit *= 2;
    }
    return fmt::format(", ProductFolds<{}, {}, {}>", folded_.size(), whole_.cross_tile->run, centred);
  }

  void entry() override {
    const bool split = tiling_.splits > 1;
    kernel(128 * (tiling_.consumers + 1), 1,
           fmt::format("char* __restrict__ maps{}{}",
                       more().second.empty() ? "" : fmt::format(", {} {}", more().first, more().second),
                       split ? ", float* partial, u32* arrived" : ""),
           fmt::format("product<Policy{}>(f, pl_smem, maps, {});", folds(),
                       split ? "partial, arrived" : "nullptr, nullptr"));
  }

  const DeviceTiling tiling_;
  const Product& whole_;
  std::optional<BoxLoads> boxes_;
};

}  // namespace

DevicePrinted print_device_product(const Product& product, const DeviceTiling& tiling, const DeviceGroups* groups) {
  return DevicePrinter(product, tiling, groups).print();
}

}  // namespace planish::codegen::contraction
