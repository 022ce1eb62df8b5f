#include <fmt/format.h>

#include <span>

#include "codegen/emit/cuda_writer.h"

namespace planish::codegen::printing {
namespace {

/// The outputs [first, last): computed for the vector at hand, and stored.
void write_outputs(const Kernel& kernel, CudaWriter& w, std::size_t first, std::size_t last, int width) {
  std::vector<int> roots;
  std::string body;
  for (std::size_t o = first; o < last; ++o) {
    w.line(fmt::format("PlVec<{}, {}> o{};", storage_type(kernel.outputs[o].dtype), width, o));
    roots.push_back(kernel.outputs[o].node);
    body += w.set_lane(static_cast<int>(o));
  }
  w.compute(closure(kernel, roots, [](int) { return false; }), body);
  for (std::size_t o = first; o < last; ++o) w.store_vector(static_cast<int>(o), "");
}

/// Step after step, so that no output waits in registers for the next one's. Rows that steps share are loaded by then.
void write_steps(const Kernel& kernel, const CudaPlan& plan, CudaWriter& w) {
  const std::size_t each = kernel.outputs.size() / static_cast<std::size_t>(plan.down);
  for (std::size_t first = 0; first < kernel.outputs.size(); first += each) {
    const auto& inside = plan.inside[first];
    w.open(inside ? fmt::format("if ({}) {{", w.condition(std::span(&*inside, 1))) : std::string("{"));
    write_outputs(kernel, w, first, first + each, plan.width);
    w.close();
  }
}

}  // namespace

void write_pointwise(const Kernel& kernel, const CudaPlan& plan, CudaWriter& w) {
  std::vector<int> all;
  for (int v = 0; v < static_cast<int>(kernel.space.extents.size()); ++v) all.push_back(v);
  const std::vector<int>& nodes = plan.sweeps.back();
  std::vector<int> loads;
  for (const int id : nodes) {
    const auto i = static_cast<std::size_t>(id);
    if (plan.swept[i] && plan.strip_of[i] < 0 && plan.vector_of[i] == id) loads.push_back(id);
  }
  const int strips = static_cast<int>(plan.strips.size());
  const std::int64_t tile = static_cast<std::int64_t>(plan.threads) * plan.unroll;
  const bool exact = plan.vectors % tile == 0;
  const bool flat = plan.lanes.mode == Lanes::Mode::flat;

  const auto header = [&] {
    w.line(fmt::format("const ix q = tile * {} + u * {} + (int)threadIdx.x;", w.literal_index(tile), plan.threads));
    if (!exact) {
      w.open(fmt::format("if (q < {}) {{", w.literal_index(plan.vectors)));
    } else {
      w.open("{");
    }
    if (flat) {
      w.line(fmt::format("const ix e0 = q * {};", plan.width));
    } else {
      w.decode("q", all, plan.lanes.variable);
    }
  };

  if (plan.vectors > 0) {
    if (plan.persistent != 0) {
      w.open(fmt::format("for (ix tile = blockIdx.x; tile < {}; tile += {}) {{", w.literal_index(plan.groups),
                         w.literal_index(plan.grid)));
    } else {
      w.open("{");
      w.line("const ix tile = blockIdx.x;");
    }
    for (const int id : loads) w.line(fmt::format("{} r{}[{}];", w.pack_type(id), id, plan.unroll));
    for (int s = 0; s < strips; ++s) w.line(fmt::format("{} s{}[{}];", w.strip_type(s), s, plan.unroll));
    if (!loads.empty() || strips > 0) {
      w.line("#pragma unroll");
      w.open(fmt::format("for (int u = 0; u < {}; ++u) {{", plan.unroll));
      header();
      w.load_vector(loads, "", false);
      w.near_strips();
      for (int s = 0; s < strips; ++s) w.load_strip(s);
      w.close();
      w.close();
    }
    w.line("#pragma unroll");
    w.open(fmt::format("for (int u = 0; u < {}; ++u) {{", plan.unroll));
    header();
    if (plan.down > 1)
      write_steps(kernel, plan, w);
    else
      write_outputs(kernel, w, 0, kernel.outputs.size(), plan.width);
    w.close();
    w.close();
    w.close();
  }

  const std::int64_t rest = plan.length - plan.vectors * plan.width;
  if (rest == 0) return;
  w.open(fmt::format("if (blockIdx.x == {} && threadIdx.x < {}) {{", plan.grid - 1, rest));
  w.scalar_tail = true;
  w.line("const int u = 0;");
  w.line(fmt::format("const ix e = {} + (int)threadIdx.x;", w.literal_index(plan.vectors * plan.width)));
  w.decode("e", all, -1);
  for (const int id : loads) w.line(fmt::format("{} r{}[1];", w.pack_type(id), id));
  w.load_vector(loads, "", false);
  write_outputs(kernel, w, 0, kernel.outputs.size(), 1);
  w.scalar_tail = false;
  w.close();
}

}  // namespace planish::codegen::printing
