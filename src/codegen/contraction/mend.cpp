#include "codegen/contraction/mend.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/place_writer.h"

namespace planish::codegen::contraction {
namespace {

constexpr int mending_threads = 256;
constexpr std::int64_t mending_blocks = 16;  // of a multiprocessor, where there are so many results

/// Where it is noted that a result's image has such elements: behind what is noted of magnitudes.
std::string noted(const Product& product) {
  if (!product.sliding) return "0";
  const Contraction& c = product.c;
  std::string text = "0";  // an image of a batch, digit by digit
  const auto digit = [&](int v) {
    text = fmt::format("({} * {} + (int)d{})", text, product.kernel.space.extent(v), v);
  };
  if (!is_shared(product.kernel, c, product.sliding->operand)) std::ranges::for_each(c.batch, digit);
  std::ranges::for_each(product.sliding->apart, digit);
  return fmt::format("{} + {}", noted_images(product), text);
}

}  // namespace

Packing print_mending(const Product& product, int multiprocessors) {
  const Kernel& kernel = product.kernel;
  const Contraction& c = product.c;
  PlaceWriter writer(kernel);
  std::vector<int> results, all{c.first, c.second};
  for (const Output& output : kernel.outputs) results.push_back(output.node);
  all.insert(all.end(), results.begin(), results.end());
  const std::int64_t points = kernel.outer_extent();
  Packing mending;
  mending.inputs = writer.inputs(all);
  mending.threads = mending_threads;
  mending.blocks = std::min((points + mending_threads - 1) / mending_threads, mending_blocks * multiprocessors);

  writer.out = place_prelude() + std::string(machine_text()) +
               "template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }\n";
  writer.line("// ---- kernel ----");
  writer.open(
      fmt::format("extern \"C\" __global__ void __launch_bounds__({}) planish_kernel({}{}const int* __restrict__ "
                  "notes) {{",
                  mending_threads, writer.parameters(all), writer.output_parameters()));
  writer.line("int any = 0;");
  const std::int64_t images = noted_images(product);
  writer.line(fmt::format("for (int i = {} + (int)threadIdx.x; i < {}; i += {}) any |= notes[i];",
                          product.sliding ? images : 0, product.sliding ? 2 * images : images, mending_threads));
  writer.line("if (!__syncthreads_or(any)) return;");
  writer.open(
      fmt::format("for (long long point = (long long)blockIdx.x * {0} + threadIdx.x; point < {1}ll; point += "
                  "{2}ll) {{",
                  mending_threads, points, mending.blocks * mending_threads));
  const int outer = static_cast<int>(kernel.space.extents.size()) - kernel.inner;
  std::int64_t later = points;
  for (int v = 0; v < outer; ++v) {
    const std::int64_t extent = kernel.space.extent(v);
    later /= extent;
    writer.line(fmt::format("const {} d{} = (int)(point / {}ll % {}ll);", writer.coordinate(), v, later, extent));
  }
  writer.line(fmt::format("if (notes[{}] == 0) continue;", noted(product)));
  if (const auto there = writer.condition(kernel.outputs[0].where); !there.empty())
    writer.line(fmt::format("if (!({})) continue;", there));
  writer.line("double sum = 0.0;");
  writer.line("bool met = false;");
  for (const int v : c.k) {
    writer.line("#pragma unroll 1");
    writer.open(
        fmt::format("for ({0} d{1} = 0; d{1} < {2}; ++d{1}) {{", writer.coordinate(), v, kernel.space.extent(v)));
  }
  writer.nodes(std::vector<int>{c.first, c.second});
  const int idle = wasted(product) == Operand::a ? c.first : c.second;
  writer.line(fmt::format("if ({}) sum += (double){} * (double){};", writer.condition(product.taps),
                          writer.name(c.first), writer.name(c.second)));
  writer.line(fmt::format("else met = met || !tc_finite({});", writer.name(idle)));
  for (std::size_t i = 0; i < c.k.size(); ++i) writer.close();
  writer.line("if (!met) continue;");
  writer.line("const float folded = (float)sum;");
  writer.fold = "folded";
  writer.nodes(results);
  writer.stores();
  writer.close();
  writer.close();
  mending.source = std::move(writer.out);
  return mending;
}

}  // namespace planish::codegen::contraction
