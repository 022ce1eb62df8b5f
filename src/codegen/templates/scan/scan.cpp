#include "codegen/templates/common.h"
#include "codegen/templates/scan/cuda_scan_plan.h"

namespace planish::codegen {
namespace {

/// Rows with running values.
class ScanOnCuda : public CudaSchedule {
 public:
  using CudaSchedule::CudaSchedule;
  std::vector<Gene> genes() const override { return printing::scan_genes(kernel_, device_); }
  std::string illegal(const Genome& genome) const override { return printing::scan_illegal(kernel_, device_, genome); }
  std::vector<Genome> seeds() const override { return printing::scan_seeds(kernel_, device_); }
  Outline outline(const Genome& genome) const override {
    const printing::ScanPlan plan = printing::make_scan_plan(kernel_, device_, genome);
    Outline out = cuda_outline(plan.column.base, genome);
    out.registers = plan.registers;
    out.shared_bytes = static_cast<double>(plan.totals_bytes + plan.column.meeting_bytes);
    out.trips = static_cast<double>(plan.chunks) * static_cast<double>(gene(genome, "unroll", 1));
    if (plan.ahead) out.flight_bytes *= 2;
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override { return printing::emit_scan(kernel_, device_, genome); }
};

class ScanTemplate : public Template {
 public:
  std::string_view name() const override { return "scan"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::scan; }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    return std::make_unique<ScanOnCuda>(kernel, device);
  }
};

}  // namespace

const Template& scan_template() {
  static const ScanTemplate kind;
  return kind;
}

}  // namespace planish::codegen
