#include "codegen/templates/common.h"

#include <utility>

#include "codegen/cost.h"
#include "codegen/emit/cpp_emit.h"
#include "codegen/emit/triton_emit.h"
#include "codegen/emit/triton_plan.h"

namespace planish::codegen {
namespace {

/// The processor's schedule: one for every kind of kernel that is swept.
class OnProcessor : public Schedule {
 public:
  OnProcessor(const Kernel& kernel, const Device& device) : kernel_(kernel), device_(device) {
    points_ = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
    for (const auto& input : kernel.inputs) widest_ = std::max(widest_, size_of(input.dtype));
    for (const auto& output : kernel.outputs) widest_ = std::max(widest_, size_of(output.dtype));
  }
  std::vector<Gene> genes() const override { return cpp_genes(kernel_, device_); }
  std::string illegal(const Genome& genome) const override { return cpp_illegal(kernel_, device_, genome); }
  std::vector<Genome> seeds() const override { return cpp_seeds(kernel_, device_); }
  Result<Emitted> emit(const Genome& genome) const override { return emit_cpp(kernel_, device_, genome); }

  Outline outline(const Genome& genome) const override {
    Outline out;
    out.threads = static_cast<double>(gene(genome, "threads", 1));
    if (const auto chunk = gene(genome, "chunk", 0); chunk > 0)
      out.chunks = points_ / static_cast<double>(chunk) / out.threads;
    const double lanes = static_cast<double>(gene(genome, "bits", 128)) / (8.0 * widest_);
    const auto& extents = kernel_.space.extents;
    const auto vary = static_cast<std::size_t>(gene(genome, "vary", 0));
    if (vary < extents.size()) {
      const auto unroll = static_cast<double>(gene(genome, "unroll", 1));
      out.vectors = static_cast<double>(extents[vary]) / (lanes * unroll);
      out.vary_is_last = vary + 1 == extents.size() ? 1 : 0;
    }
    return out;
  }

 private:
  const Kernel& kernel_;
  const Device& device_;
  double points_ = 0;
  int widest_ = 1;
};

class InTriton : public Schedule {
 public:
  InTriton(const Kernel& kernel, const Device& device, std::vector<Gene> genes)
      : kernel_(kernel), device_(device), genes_(std::move(genes)) {}
  std::vector<Gene> genes() const override { return genes_; }
  std::string illegal(const Genome& genome) const override { return printing::triton_illegal(kernel_, genes_, genome); }
  std::vector<Genome> seeds() const override { return printing::triton_seeds(kernel_, device_, genes_); }
  Result<Emitted> emit(const Genome& genome) const override { return printing::emit_triton(kernel_, genome); }

  Outline outline(const Genome& genome) const override {
    const printing::TritonPlan plan = printing::make_triton_plan(kernel_, genome);
    Outline out;
    out.threads = static_cast<double>(plan.threads);
    out.registers = static_cast<double>(plan.words);
    out.blocks = static_cast<double>(plan.programs);
    out.trips = static_cast<double>(plan.trips);
    out.flight_bytes = static_cast<double>(plan.rows * plan.block) * printing::widest(kernel_);
    return out;
  }

 private:
  const Kernel& kernel_;
  const Device& device_;
  std::vector<Gene> genes_;
};

}  // namespace

Cost Template::cost(const Kernel& kernel) const {
  return streaming_cost(kernel);
}

std::unique_ptr<const Schedule> Template::triton(const Kernel&, const Device&, const std::vector<Gene>&) const {
  return nullptr;
}

std::unique_ptr<const Schedule> Template::cpp(const Kernel& kernel, const Device& device) const {
  return std::make_unique<OnProcessor>(kernel, device);
}

std::unique_ptr<const Schedule> triton_schedule(const Kernel& kernel, const Device& device, std::vector<Gene> genes) {
  if (!printing::triton_lacks(kernel).empty()) return nullptr;
  return std::make_unique<InTriton>(kernel, device, std::move(genes));
}

Outline cuda_outline(const printing::CudaPlan& plan, const Genome& genome) {
  Outline out;
  out.threads = plan.threads;
  out.registers = plan.registers;
  out.shared_bytes = static_cast<double>(plan.dynamic_shared + plan.static_shared);
  out.blocks = static_cast<double>(plan.grid);
  out.trips = static_cast<double>(plan.trips);
  out.flight_bytes = static_cast<double>(plan.threads) * static_cast<double>(gene(genome, "vector", 4)) *
                     static_cast<double>(gene(genome, "unroll", 1));
  return out;
}

const printing::PlanFacts& CudaSchedule::facts() const {
  std::call_once(found_, [this] { facts_ = std::make_unique<const printing::PlanFacts>(kernel_); });
  return *facts_;
}

Status append_launches(const Kernel& kernel, const Device& device, const std::vector<Emitted::Argument>& buffers,
                       const std::vector<Emitted::Argument>& outputs, Emitted& whole) {
  using Kind = Emitted::Argument::Kind;
  const auto schedule = template_of(kernel).cuda(kernel, device);
  for (const Genome& genome : schedule->seeds()) {
    if (!schedule->illegal(genome).empty()) continue;
    PLANISH_TRY(Emitted made, schedule->emit(genome));
    if (made.cooperative) continue;
    const int scratch = static_cast<int>(whole.scratch_bytes.size());
    whole.scratch_bytes.insert(whole.scratch_bytes.end(), made.scratch_bytes.begin(), made.scratch_bytes.end());
    for (const int place : made.zeroed) whole.zeroed.push_back(place + scratch);
    for (auto& [place, tensor] : made.tensors) whole.tensors.emplace(place + scratch, std::move(tensor));
    std::vector<Emitted> launches = std::move(made.after);
    made.after.clear();
    made.scratch_bytes.clear();
    made.zeroed.clear();
    made.tensors.clear();
    launches.insert(launches.begin(), std::move(made));
    for (Emitted& one : launches) {
      for (auto& arg : one.args) {
        const auto i = static_cast<std::size_t>(arg.index);
        if (arg.kind == Kind::input) {
          arg = buffers[i];
          one.packs = one.packs && arg.kind == Kind::input;
          one.derives = one.derives && arg.kind == Kind::input;
        } else if (arg.kind == Kind::output) {
          arg = outputs[i];
        } else if (arg.kind == Kind::scratch) {
          arg.index += scratch;
        }
      }
      whole.after.push_back(std::move(one));
    }
    return {};
  }
  return fail("unsupported", "no schedule for a kernel behind others");
}

std::vector<Emitted::Argument> output_arguments(const std::vector<int>& outputs) {
  std::vector<Emitted::Argument> out;
  for (const int o : outputs) out.push_back({Emitted::Argument::Kind::output, o});
  return out;
}

}  // namespace planish::codegen
