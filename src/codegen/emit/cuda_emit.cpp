#include "codegen/emit/cuda_emit.h"

#include <utility>

#include "codegen/emit/cuda_down.h"
#include "codegen/emit/cuda_writer.h"

namespace planish::codegen::printing {
namespace {

CudaWriter begun(const Kernel& kernel, const CudaPlan& plan) {
  CudaWriter writer(kernel, plan);
  writer.out = std::string(prelude(true)) + std::string(cuda_memory_prelude());
  writer.function_head();
  return writer;
}

/// `kernel` as the caller knows it: what is printed may have more outputs.
Emitted finished(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer) {
  writer.close();
  Emitted emitted;
  emitted.language = "cuda";
  emitted.source = std::move(writer.out);
  emitted.entry = "planish_kernel";
  emitted.grid[0] = plan.grid;
  emitted.block[0] = plan.threads;
  emitted.cluster[0] = plan.cluster;
  emitted.shared = plan.dynamic_shared;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i)
    emitted.args.push_back({Emitted::Argument::Kind::input, static_cast<int>(i)});
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i)
    emitted.args.push_back({Emitted::Argument::Kind::output, static_cast<int>(i)});
  return emitted;
}

}  // namespace

Result<Emitted> emit_pointwise(const Kernel& kernel, const PlanFacts& facts, const Device& device,
                               const Genome& genome) {
  const CudaPlan plan = make_plan(kernel, facts, device, genome);
  CudaWriter writer = begun(kernel, plan);
  if (plan.tile != 0) {
    write_tiled(kernel, plan, writer);
  } else {
    write_pointwise(kernel, plan, writer);
  }
  return finished(kernel, plan, writer);
}

Result<Emitted> emit_window(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome) {
  const Stepped* const stepped = facts.stepped(kernel, genome);
  if (stepped == nullptr) return emit_pointwise(kernel, facts, device, genome);
  const CudaPlan plan = make_plan(kernel, facts, device, genome);
  CudaWriter writer = begun(stepped->kernel, plan);
  write_pointwise(stepped->kernel, plan, writer);
  return finished(kernel, plan, writer);
}

Result<Emitted> emit_row(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome) {
  const CudaPlan plan = make_plan(kernel, facts, device, genome);
  CudaWriter writer = begun(kernel, plan);
  write_row(kernel, plan, writer);
  return finished(kernel, plan, writer);
}

}  // namespace planish::codegen::printing
