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

namespace planish::codegen::printing {
namespace {

/// Text at one point, whose coordinates are `d0`, `d1`, …
class PointText : public Speller {
 public:
  /// `waits`: the launches before may still run when this one begins, so that all is read behind a wait.
  PointText(const Kernel& kernel, bool waits)
      : kernel_(kernel), wide_(!fits_int32(kernel)), read_(waits ? "load_visible" : "pl_ldg") {
    for (std::size_t v = 0; v < kernel.space.extents.size(); ++v) names_.push_back(fmt::format("d{}", v));
  }

  /// The coordinates of the point that `linear` counts.
  std::string coordinates(std::string_view linear) const {
    std::string out;
    std::int64_t later = 1;
    for (std::size_t v = names_.size(); v-- > 0;) {
      const std::int64_t extent = kernel_.space.extents[v];
      std::string text(linear);
      if (later > 1) text += fmt::format(" / {}", later);
      if (v > 0) text = fmt::format("{} % {}", text, extent);
      out += fmt::format("  const {} d{} = {};\n", wide_ ? "long long" : "int", v, text);
      later *= extent;
    }
    return out;
  }

  std::string store(std::size_t o) const {
    const Output& output = kernel_.outputs[o];
    const DType from = kernel_.nodes[static_cast<std::size_t>(output.node)].dtype;
    const std::string inside = in_range(output.args, output.arg_limits);
    return fmt::format("  {}out{}[{}{}] = {};\n", inside.empty() ? "" : fmt::format("if ({}) ", inside), o,
                       text(output.index), moved(output.args, output.arg_strides),
                       store_form(name(output.node), from, output.dtype));
  }

  std::string load(const Kernel& kernel, int id) override {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    const DType stored = kernel.inputs[static_cast<std::size_t>(node.input)].dtype;
    const std::string place =
        fmt::format("in{} + ({}){}", node.input, text(node.index), moved(node.args, node.strides));
    std::string value = convert(load_form(fmt::format("{}({})", read_, place), stored), stored, node.dtype);
    if (gathers(node)) {
      const OutOfRange missing = out_of_range(node.dtype);
      value = fmt::format("({} ? {} : {})", in_range(node.args, node.limits), value,
                          literal(node.dtype, missing.value, missing.bits));
    }
    const std::string where = where_text(node.where, kernel.space, names_, wide_);
    if (where.empty()) return value;
    return fmt::format("({} ? {} : {})", where, value, literal(node.dtype, node.value, node.bits));
  }
  std::string reduced(const Kernel&, int) override { return {}; }  // nothing is folded
  std::string scanned(const Kernel&, int) override { return {}; }
  std::string index(const Kernel&, const ir::IndexExpr& e) override { return text(e); }

 private:
  std::string text(const ir::IndexExpr& e) const { return index_text(e, kernel_.space, names_, wide_); }
  std::string moved(const std::vector<int>& args, const std::vector<std::int64_t>& strides) const {
    std::string out;
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (strides[i] != 0) out += fmt::format(" + {} * {}LL", name(args[i]), strides[i]);
    }
    return out;
  }
  std::string in_range(const std::vector<int>& args, const std::vector<std::int64_t>& limits) const {
    std::string out;
    for (std::size_t i = 0; i < args.size(); ++i)
      out += fmt::format("{}(unsigned long long){} < {}ULL", i > 0 ? " && " : "", name(args[i]), limits[i]);
    return out;
  }

  const Kernel& kernel_;
  const bool wide_;
  const std::string_view read_;
  std::vector<std::string> names_;
};

}  // namespace

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
  PointText writer(kernel, waits);
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
  text += writer.coordinates("point");
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
