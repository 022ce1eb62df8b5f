#include <algorithm>
#include <utility>

#include "codegen/emit/cuda_down.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/cuda_sweep.h"
#include "codegen/emit/whole_vectors.h"
#include "codegen/templates/common.h"
#include "codegen/templates/pointwise/pointwise.h"

namespace planish::codegen {
namespace {

using printing::down_variable;

bool reads_windows(const Kernel& kernel) {
  return printing::has_neighbours(kernel) || down_variable(kernel) >= 0;
}

std::vector<Gene> window_genes(const Kernel& kernel, const Device& device) {
  std::vector<Gene> out = printing::pointwise_genes(kernel);
  if (printing::reads_strips(kernel, device)) out.push_back({"stencil_reuse", {0, 1}});
  if (const int down = down_variable(kernel); down >= 0) {
    const std::int64_t extent = kernel.space.extents[static_cast<std::size_t>(down)];
    out.push_back({"down", printing::doublings(1, std::min<std::int64_t>(printing::most_steps, extent))});
  }
  return out;
}

/// Pointwise kernels whose loads overlap from one output to the next: stencils, pooling windows, differences.
class WindowOnCuda : public CudaSchedule {
 public:
  using CudaSchedule::CudaSchedule;
  std::vector<Gene> genes() const override { return window_genes(kernel_, device_); }
  std::string illegal(const Genome& genome) const override {
    return printing::sweep_illegal(kernel_, facts(), device_, genome);
  }
  std::vector<Genome> seeds() const override { return printing::sweep_seeds(kernel_, facts(), device_, genes()); }
  Outline outline(const Genome& genome) const override {
    return cuda_outline(printing::make_plan(kernel_, facts(), device_, genome), genome);
  }
  Result<Emitted> emit(const Genome& genome) const override {
    return printing::emit_window(kernel_, facts(), device_, genome);
  }
};

class WindowTemplate : public Template {
 public:
  std::string_view name() const override { return "window"; }
  bool takes(const Kernel& kernel) const override { return !kernel.has_rows() && reads_windows(kernel); }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    if (auto joined = printing::with_whole_vectors(kernel))
      return ScheduleOfChanged::made(std::move(*joined),
                                     [&](const Kernel& own) { return template_of(own).cuda(own, device); });
    return std::make_unique<WindowOnCuda>(kernel, device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel& kernel, const Device& device,
                                         const std::vector<Gene>& genes) const override {
    return triton_schedule(kernel, device, genes);
  }
};

}  // namespace

const Template& window_template() {
  static const WindowTemplate kind;
  return kind;
}

}  // namespace planish::codegen
