#include <fmt/format.h>

#include <algorithm>

#include "codegen/emit/cuda_writer.h"

/// Pointwise kernels with transposed loads: a block owns a square of the last variable and of the one those loads are
/// contiguous in. They are read along the latter into padded shared memory, and used along the former.
namespace planish::codegen::printing {

void write_tiled(const Kernel& kernel, const CudaPlan& plan, CudaWriter& w) {
  const int last = static_cast<int>(kernel.space.extents.size()) - 1;
  const int other = plan.tile_variable;
  const auto extent = [&](int v) { return kernel.space.extents[static_cast<std::size_t>(v)]; };
  const int rows = plan.threads / plan.tile;  // rows of the square that the block covers at a time
  std::vector<int> rest;
  for (int v = 0; v < last; ++v) {
    if (v != other) rest.push_back(v);
  }
  const auto tiles = [&](int v) { return (extent(v) + plan.tile - 1) / plan.tile; };
  const std::vector<int>& nodes = plan.sweeps.back();
  std::vector<int> loads;
  for (const int id : nodes) {
    const bool staged = std::ranges::find(plan.staged, id) != plan.staged.end();
    if (plan.swept[static_cast<std::size_t>(id)] && !staged) loads.push_back(id);
  }

  w.line(fmt::format("const int x = (int)threadIdx.x % {}, y = (int)threadIdx.x / {};", plan.tile, plan.tile));
  w.line("const ix block = blockIdx.x;");
  w.line(fmt::format("const ix first{} = (block % {}) * {};", last, tiles(last), plan.tile));
  w.line(fmt::format("const ix first{} = ((block / {}) % {}) * {};", other, tiles(last), tiles(other), plan.tile));
  w.line(fmt::format("const ix others = block / {};", w.literal_index(tiles(last) * tiles(other))));
  w.decode("others", rest, -1);
  for (const int id : plan.staged) {
    const auto& input = kernel.inputs[static_cast<std::size_t>(kernel.nodes[static_cast<std::size_t>(id)].input)];
    w.line(fmt::format("__shared__ {} t{}[{}];", storage_type(input.dtype), id, plan.tile * (plan.tile + 1)));
  }
  for (const int id : loads) w.line(fmt::format("{} r{}[{}];", w.pack_type(id), id, plan.unroll));

  // `along`: the variable that neighbouring threads step.
  const auto each = [&](int along, int across) {
    w.line("#pragma unroll");
    w.open(fmt::format("for (int u = 0; u < {}; ++u) {{", plan.unroll));
    w.line(fmt::format("const int yu = y + u * {};", rows));
    w.line(fmt::format("const ix d{0} = first{0} + x, d{1} = first{1} + yu;", along, across));
    w.open(fmt::format("if (d{} < {} && d{} < {}) {{", along, w.literal_index(extent(along)), across,
                       w.literal_index(extent(across))));
  };
  if (!loads.empty()) {
    each(last, other);
    w.load_vector(loads, "", false);
    w.close();
    w.close();
  }
  each(other, last);
  for (const int id : plan.staged) w.stage(id);
  w.close();
  w.close();
  w.line("__syncthreads();");
  each(last, other);
  std::string body;
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    w.line(fmt::format("PlVec<{}, 1> o{};", storage_type(kernel.outputs[o].dtype), o));
    body += w.set_lane(static_cast<int>(o));
  }
  w.compute(nodes, body);
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) w.store_vector(static_cast<int>(o), "");
  w.close();
  w.close();
}

}  // namespace planish::codegen::printing
