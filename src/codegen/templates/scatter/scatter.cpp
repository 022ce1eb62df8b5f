#include "codegen/cost.h"
#include "codegen/templates/common.h"
#include "codegen/templates/scatter/cuda_scatter.h"

namespace planish::codegen {
namespace {

/// A point a thread: what a step writes into a cache is a few thousand elements, and takes a launch whatever it does.
class ScatterOnCuda : public Schedule {
 public:
  ScatterOnCuda(const Kernel& kernel, const Device& device) : kernel_(kernel), device_(device) {}
  std::vector<Gene> genes() const override { return {{"threads", {64, 128, 256}}}; }
  std::string illegal(const Genome&) const override { return {}; }
  std::vector<Genome> seeds() const override { return {{{"threads", 128}}}; }
  Outline outline(const Genome& genome) const override {
    Outline out;
    out.threads = static_cast<double>(gene(genome, "threads", 128));
    const auto launch = printing::scatter_launch(kernel_, device_, gene(genome, "threads", 128));
    out.blocks = static_cast<double>(launch.blocks);
    out.registers = 16 + static_cast<double>(kernel_.nodes.size());
    out.shared_bytes = static_cast<double>(launch.shared);
    out.trips = 1;
    double bytes = 0;
    for (const Node& node : kernel_.nodes) {
      if (node.op == Op::load) bytes += size_of(kernel_.inputs[static_cast<std::size_t>(node.input)].dtype);
    }
    out.flight_bytes = out.threads * bytes;
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override { return printing::emit_scatter(kernel_, device_, genome); }

 private:
  const Kernel& kernel_;
  const Device& device_;
};

class Scatter : public Template {
 public:
  std::string_view name() const override { return "scatter"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::scatter; }
  /// Where places are known at run time alone, each point counts as one.
  Cost cost(const Kernel& kernel) const override {
    Kernel known = kernel;
    for (Output& output : known.outputs) {
      if (output.args.empty()) continue;
      output.index = {};
      std::int64_t stride = 1;
      for (std::size_t v = known.space.extents.size(); v-- > 0; stride *= known.space.extents[v])
        output.index =
            ir::add(output.index, ir::scale(ir::IndexExpr::variable(static_cast<int>(v)), stride), known.space);
    }
    return streaming_cost(known);
  }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    return std::make_unique<ScatterOnCuda>(kernel, device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel&, const Device&, const std::vector<Gene>&) const override {
    return nullptr;
  }
};

}  // namespace

const Template& scatter_template() {
  static const Scatter kind;
  return kind;
}

}  // namespace planish::codegen
