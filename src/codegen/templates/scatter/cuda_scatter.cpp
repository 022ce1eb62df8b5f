#include "codegen/templates/scatter/cuda_scatter.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/architecture.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/expression.h"
#include "codegen/emit/point_text.h"

namespace planish::codegen::printing {

ScatterLaunch scatter_launch(const Kernel& kernel, const Device& device, std::int64_t threads) {
  const std::int64_t blocks = (kernel.outer_extent() + threads - 1) / threads;
  const bool takes_a_place = backend::architecture(device.arch).dependent_launch && blocks < device.sms;
  return takes_a_place ? ScatterLaunch{device.sms, half_shared(device)} : ScatterLaunch{blocks, 0};
}

Result<Emitted> emit_scatter(const Kernel& kernel, const Device& device, const Genome& genome) {
  const bool waits = backend::architecture(device.arch).dependent_launch;
  const std::int64_t threads = gene(genome, "threads", 128), points = kernel.outer_extent();
  const ScatterLaunch launch = scatter_launch(kernel, device, threads);
  if (launch.blocks > std::numeric_limits<std::int32_t>::max())
    return fail("unsupported", "a scatter of too many elements");
  Emitted out;
  std::string parameters;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    parameters += fmt::format("const {}* __restrict__ in{}, ", storage_type(kernel.inputs[i].dtype), i);
    out.args.push_back({Emitted::Argument::Kind::input, static_cast<int>(i)});
  }
  std::vector<int> roots;
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    const Output& output = kernel.outputs[o];
    parameters += fmt::format("{}* __restrict__ out{}, ", storage_type(output.dtype), o);
    out.args.push_back({Emitted::Argument::Kind::output, static_cast<int>(o)});
    roots.push_back(output.node);
    roots.insert(roots.end(), output.args.begin(), output.args.end());
  }
  parameters.resize(parameters.size() - 2);
  PointText writer(kernel, waits ? "load_visible" : "pl_ldg", !fits_int32(kernel));
  std::string text = std::string(prelude(true)) + std::string(cuda_memory_prelude());
  const std::array<std::string_view, 1> files{"sm90/dependent.cuh"};
  if (waits) text += device_text(files);
  text +=
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) planish_kernel({}) {{\n", threads, parameters);
  if (waits) text += "  dependency_launch();\n  dependency_wait();\n";
  const bool wide = points > std::numeric_limits<std::int32_t>::max() - threads;
  text += fmt::format("  const {0} point = ({0})blockIdx.x * {1} + (int)threadIdx.x;\n", wide ? "long long" : "int",
                      threads);
  if (points < launch.blocks * threads) text += fmt::format("  if (point >= {}) return;\n", points);
  text += writer.coordinates("point", all_variables(kernel));
  print_nodes(text, kernel, closure(kernel, roots, [](int) { return false; }), writer, "  ");
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) text += writer.store(o);
  out.language = "cuda";
  out.entry = "planish_kernel";
  out.source = std::move(text) + "}\n";
  out.grid[0] = launch.blocks;
  out.block[0] = threads;
  out.shared = launch.shared;
  if (waits) out.early.emplace();
  return out;
}

}  // namespace planish::codegen::printing
