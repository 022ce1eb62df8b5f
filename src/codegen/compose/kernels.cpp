#include "codegen/compose/kernels.h"

#include <map>
#include <utility>
#include <variant>
#include <vector>

namespace planish::codegen {

int kernel_number(program::Program& program, program::KernelSource kernel) {
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    const program::KernelSource& known = program.kernels[i];
    if (known.language == kernel.language && known.entry == kernel.entry && known.source == kernel.source &&
        known.flags == kernel.flags)
      return static_cast<int>(i);
  }
  program.kernels.push_back(std::move(kernel));
  return static_cast<int>(program.kernels.size()) - 1;
}

bool is_never_written(const program::Program& program, int buffer) {
  using program::Role;
  const Role role = program.buffers[static_cast<std::size_t>(buffer)].role;
  return role == Role::input || role == Role::param || role == Role::constant;
}

void drop_kernels(program::Program& program) {
  std::map<int, int> kept;  // old and new numbers
  for (const auto& step : program.steps)
    if (const auto* launch = std::get_if<program::Launch>(&step)) kept.emplace(launch->kernel, 0);
  std::vector<program::KernelSource> kernels;
  for (auto& [old, number] : kept) {
    number = static_cast<int>(kernels.size());
    kernels.push_back(std::move(program.kernels[static_cast<std::size_t>(old)]));
  }
  for (auto& step : program.steps)
    if (auto* launch = std::get_if<program::Launch>(&step)) launch->kernel = kept[launch->kernel];
  program.kernels = std::move(kernels);
}

}  // namespace planish::codegen
