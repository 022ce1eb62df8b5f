#include "codegen/templates/pointwise/pointwise.h"

#include <utility>

#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/cuda_pattern.h"
#include "codegen/emit/cuda_sweep.h"
#include "codegen/emit/whole_vectors.h"
#include "codegen/templates/common.h"

namespace planish::codegen {
namespace {

/// Every output has one element for each point of the space.
class PointwiseOnCuda : public CudaSchedule {
 public:
  using CudaSchedule::CudaSchedule;
  std::vector<Gene> genes() const override { return printing::pointwise_genes(kernel_); }
  std::string illegal(const Genome& genome) const override {
    return printing::sweep_illegal(kernel_, facts(), device_, genome);
  }
  std::vector<Genome> seeds() const override { return printing::sweep_seeds(kernel_, facts(), device_, genes()); }
  Outline outline(const Genome& genome) const override {
    return cuda_outline(printing::make_plan(kernel_, facts(), device_, genome), genome);
  }
  Result<Emitted> emit(const Genome& genome) const override {
    return printing::emit_pointwise(kernel_, facts(), device_, genome);
  }
};

class Pointwise : public Template {
 public:
  std::string_view name() const override { return "pointwise"; }
  bool takes(const Kernel&) const override { return true; }  // the last of all
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    if (auto joined = printing::with_whole_vectors(kernel))
      return ScheduleOfChanged::made(std::move(*joined),
                                     [&](const Kernel& own) { return template_of(own).cuda(own, device); });
    return std::make_unique<PointwiseOnCuda>(kernel, device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel& kernel, const Device& device,
                                         const std::vector<Gene>& genes) const override {
    return triton_schedule(kernel, device, genes);
  }
};

}  // namespace

namespace printing {

std::vector<Gene> pointwise_genes(const Kernel& kernel) {
  std::vector<Gene> out = sweep_genes(kernel, 64, either(fast_matters(kernel)));
  out.push_back({"persistent", {0, 2, 4, 8, 16}});
  if (transposed_loads(kernel).first >= 0) out.push_back({"tile", {0, 32, 64}});
  return out;
}

}  // namespace printing

const Template& pointwise_template() {
  static const Pointwise kind;
  return kind;
}

}  // namespace planish::codegen
