#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_sweep.h"
#include "codegen/templates/column/column.h"
#include "codegen/templates/column/cuda_column_plan.h"
#include "codegen/templates/common.h"
#include "codegen/templates/row/row_genes.h"

namespace planish::codegen {
namespace {

/// Rows that are folded, memory running along them, enough of them to fill the
/// device: blocks or clusters of blocks do whole rows. Very long rows may have
/// a cooperative group of blocks, which works as the column template does.
class RowOnCuda : public CudaSchedule {
 public:
  using CudaSchedule::CudaSchedule;
  std::vector<Gene> genes() const override { return printing::row_genes(kernel_, device_); }
  std::string illegal(const Genome& genome) const override {
    auto foreign = printing::foreign_to_cooperative(genome);
    if (foreign) return foreign->empty() ? printing::column_illegal(kernel_, device_, genome) : *foreign;
    return printing::sweep_illegal(kernel_, facts(), device_, genome);
  }
  std::vector<Genome> seeds() const override {
    const auto all = genes();
    auto out = printing::sweep_seeds(kernel_, facts(), device_, all);
    printing::add_row_seeds(kernel_, facts(), device_, all, out);
    return out;
  }
  Outline outline(const Genome& genome) const override {
    if (has_cooperative(genome)) return column_outline(printing::make_column_plan(kernel_, device_, genome), genome);
    return cuda_outline(printing::make_plan(kernel_, facts(), device_, genome), genome);
  }
  Result<Emitted> emit(const Genome& genome) const override {
    if (has_cooperative(genome)) return printing::emit_column(kernel_, device_, genome);
    return printing::emit_row(kernel_, facts(), device_, genome);
  }

 private:
  static bool has_cooperative(const Genome& genome) { return gene(genome, "cooperative", 0) != 0; }
};

class Row : public Template {
 public:
  std::string_view name() const override { return "row"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::row; }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    return std::make_unique<RowOnCuda>(kernel, device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel& kernel, const Device& device,
                                         const std::vector<Gene>& genes) const override {
    return triton_schedule(kernel, device, genes);
  }
};

}  // namespace

const Template& row_template() {
  static const Row kind;
  return kind;
}

}  // namespace planish::codegen
