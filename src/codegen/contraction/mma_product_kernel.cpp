// The policy, the functors and the instantiation of the device file of products by mma.sync.
#include <fmt/format.h>

#include "codegen/contraction/mma_product.h"
#include "codegen/contraction/product_printer.h"

namespace planish::codegen::contraction {
namespace {

class MmaPrinter : public ProductPrinter {
 public:
  MmaPrinter(const Product& product, const MmaTiling& tiling, const DeviceGroups* groups)
      : ProductPrinter(product, tiling.fast, groups), tiling_(tiling) {}

 private:
  void policy() override {
    const MmaTiling& t = tiling_;
    open("struct Policy {");
    line(fmt::format("static constexpr int rows = {}, columns = {}, depth = {}, units = {}, groups = {}, parts = 1;",
                     c_.rows, c_.columns, c_.depth, c_.batches, groups_ != nullptr ? groups_->count : 0));
    line(fmt::format("static constexpr int tile_rows = {}, tile_columns = {}, tile_depth = {}, stages = {};",
                     t.tile_rows, t.tile_columns, t.tile_depth, t.stages));
    line(fmt::format("static constexpr int warps_rows = {}, warps_columns = {}, resident = {};", t.warps_rows,
                     t.warps_columns, t.resident));
    line(fmt::format("static constexpr int splits = {}, raster = {}, result_bytes = {};", t.splits, t.raster,
                     result_bytes()));
    line(fmt::format("static constexpr bool a_across = {}, b_across = {}, bf16 = {}, words = {};", across(Operand::a),
                     across(Operand::b), bf16_, words()));
    for (const Operand operand : {Operand::a, Operand::b}) {
      const Direct& direct = *product_.direct(operand);
      line(fmt::format("static constexpr long long {0}_row = {1}, {0}_depth = {2};", letter(operand),
                       stride(direct, operand == Operand::a ? row() : column()), stride(direct, c_.k.front())));
    }
    writer_.close_declaration();
  }

  void factors() override {
    for (const Operand operand : {Operand::a, Operand::b}) {
      const Direct& direct = *product_.direct(operand);
      const bool is_a = operand == Operand::a;
      open(fmt::format("PL_DEVICE const u16* {}({}int unit) const {{", letter(operand), is_a ? "" : "int part, "));
      writer_.decode("unit", c_.batch);
      std::string place = fmt::format("in{} + {}ll", direct.input, direct.row.constant_term());
      for (const int v : c_.batch)
        if (const std::int64_t apart = stride(direct, v); apart != 0) place += fmt::format(" + {}ll * d{}", apart, v);
      if (!is_a && groups_ != nullptr) place += fmt::format(" + {}ll * unit", groups_->stride);
      line(fmt::format("return (const u16*)({});", place));
      close();
    }
  }

  void entry() override {
    const bool split = tiling_.splits > 1;
    kernel(tiling_.threads(), tiling_.resident, split ? "float* partial, u32* arrived" : "",
           fmt::format("product_by_mma<Policy>(f, pl_smem, {});", split ? "partial, arrived" : "nullptr, nullptr"));
  }

  const MmaTiling tiling_;
};

}  // namespace

DevicePrinted print_mma_product(const Product& product, const MmaTiling& tiling, const DeviceGroups* groups) {
  return MmaPrinter(product, tiling, groups).print();
}

}  // namespace planish::codegen::contraction
