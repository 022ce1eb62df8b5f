#include "codegen/templates/common.h"
#include "codegen/templates/row_and_column/cuda_row_and_column_plan.h"

namespace planish::codegen {
namespace {

/// Rows that are folded along and across (codegen/row_and_column.h).
class CrossOnCuda : public CudaSchedule {
 public:
  using CudaSchedule::CudaSchedule;
  std::vector<Gene> genes() const override { return printing::row_column_genes(kernel_, device_); }
  std::string illegal(const Genome& genome) const override {
    return printing::row_column_illegal(kernel_, device_, genome);
  }
  std::vector<Genome> seeds() const override { return printing::row_column_seeds(kernel_, device_); }
  Outline outline(const Genome& genome) const override {
    const printing::RowColumnPlan plan = printing::make_row_column_plan(kernel_, device_, genome);
    Outline out = cuda_outline(plan.base, genome);
    out.registers = plan.registers;
    out.shared_bytes = static_cast<double>(plan.static_shared);
    out.trips = plan.trips;
    out.flight_bytes *= plan.trips;
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override {
    return printing::emit_row_and_column(kernel_, device_, genome);
  }
};

class RowAndColumn : public Template {
 public:
  std::string_view name() const override { return "row-and-column"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::row_and_column; }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    return std::make_unique<CrossOnCuda>(kernel, device);
  }
};

}  // namespace

const Template& row_and_column_template() {
  static const RowAndColumn kind;
  return kind;
}

}  // namespace planish::codegen
