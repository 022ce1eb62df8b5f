#include "codegen/emit/cpp_emit.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/triton_emit.h"
#include "codegen/genome.h"

namespace planish::codegen {

Result<Emitted> emit(const Kernel& kernel, const Device& device, const Genome& genome) {
  if (kernel.outputs.empty()) return fail("unsupported", "the kernel has no outputs");
  for (const auto& input : kernel.inputs) {
    if (input.dtype == DType::other)
      return fail("unsupported", "a kernel input has an element type that kernels do not know");
  }
  if (kernel.outer_extent() == 0 || kernel.inner_extent() == 0)
    return fail("unsupported", "the kernel's space is empty");
  if (const auto reason = illegal(kernel, device, genome); !reason.empty()) {
    return fail("illegal_genome", "the schedule cannot be used: " + reason, "draw another genome");
  }
  if (device.target != Target::cuda) return emit_cpp(kernel, device, genome);
  const auto language = genome.find("language");
  const bool triton =
      language != genome.end() && language->second == static_cast<std::int64_t>(printing::Language::triton);
  return triton ? printing::emit_triton(kernel, genome) : printing::emit_cuda(kernel, device, genome);
}

}  // namespace planish::codegen
