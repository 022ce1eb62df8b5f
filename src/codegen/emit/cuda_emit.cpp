#include "codegen/emit/cuda_emit.h"

#include <fmt/format.h>

#include "codegen/emit/cuda_column_plan.h"
#include "codegen/emit/cuda_cross_plan.h"
#include "codegen/emit/cuda_down.h"
#include "codegen/emit/cuda_parts.h"
#include "codegen/emit/cuda_scan_plan.h"
#include "codegen/emit/cuda_writer.h"

namespace planish::codegen::printing {

Result<Emitted> emit_cuda(const Kernel& kernel, const Device& device, const Genome& genome) {
  if (kernel.anchor == Anchor::scan) return emit_scan(kernel, device, genome);
  if (kernel.anchor == Anchor::cross) return emit_cross(kernel, device, genome);
  if (kernel.anchor == Anchor::parts) return emit_parts(kernel, device, genome);
  if (uses_column_schedule(kernel) || gene(genome, "team", 0) != 0) return emit_column(kernel, device, genome);
  const PlanFacts facts(kernel);
  const Stepped* const stepped = facts.stepped(kernel, genome);
  const Kernel& printed = stepped != nullptr ? stepped->kernel : kernel;
  const CudaPlan plan = make_plan(kernel, facts, device, genome);
  CudaWriter writer(printed, plan);
  writer.out = std::string(prelude(true)) + std::string(cuda_memory_prelude());
  writer.function_head();
  if (plan.row) {
    write_row(kernel, plan, writer);
  } else if (plan.tile != 0) {
    write_tiled(kernel, plan, writer);
  } else {
    write_pointwise(printed, plan, writer);
  }
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

}  // namespace planish::codegen::printing
