#include "codegen/templates/column/column.h"

#include "codegen/templates/common.h"

namespace planish::codegen {
namespace {

/// Reductions along columns, of positions, and of few long rows.
class ColumnOnCuda : public CudaSchedule {
 public:
  using CudaSchedule::CudaSchedule;
  std::vector<Gene> genes() const override { return printing::column_genes(kernel_, device_); }
  std::string illegal(const Genome& genome) const override {
    return printing::column_illegal(kernel_, device_, genome);
  }
  std::vector<Genome> seeds() const override { return printing::column_seeds(kernel_, device_); }
  Outline outline(const Genome& genome) const override {
    return column_outline(printing::make_column_plan(kernel_, device_, genome), genome);
  }
  Result<Emitted> emit(const Genome& genome) const override { return printing::emit_column(kernel_, device_, genome); }
};

class Column : public Template {
 public:
  std::string_view name() const override { return "column"; }
  bool takes(const Kernel& kernel) const override { return printing::uses_column_schedule(kernel); }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    return std::make_unique<ColumnOnCuda>(kernel, device);
  }
};

}  // namespace

Outline column_outline(const printing::ColumnPlan& plan, const Genome& genome) {
  Outline out = cuda_outline(plan.base, genome);
  out.threads = plan.block_threads();
  out.shared_bytes = static_cast<double>(plan.base.dynamic_shared + plan.meeting_shared());
  return out;
}

const Template& column_template() {
  static const Column kind;
  return kind;
}

}  // namespace planish::codegen
