#include "codegen/compose/kernel_origin.h"

#include <cstddef>
#include <variant>

namespace planish::codegen {

int buffer_of(const program::Launch& launch, const KernelOrigin& origin, Emitted::Argument::Kind kind, int index) {
  const auto& args = origin.emitted->args;
  for (std::size_t i = 0; i < args.size() && i < launch.args.size(); ++i) {
    const auto* const buffer = std::get_if<program::BufferArg>(&launch.args[i]);
    if (args[i].kind == kind && args[i].index == index && buffer != nullptr) return buffer->buffer;
  }
  return -1;
}

}  // namespace planish::codegen
