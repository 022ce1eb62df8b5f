#include "codegen/skinny/skinny.h"

#include <algorithm>
#include <utility>

#include "codegen/contraction/contraction.h"
#include "codegen/cost.h"
#include "codegen/skinny/cuda_skinny.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

class SkinnyOnTensorCores : public Schedule {
 public:
  SkinnyOnTensorCores(const Kernel& kernel, Skinny parts, const Device& device)
      : kernel_(kernel), parts_(std::move(parts)), device_(device) {}

  std::vector<Gene> genes() const override { return skinny_genes(kernel_, parts_, device_); }
  TensorLoop tensor_loop() const override { return TensorLoop::file; }
  std::string illegal(const Genome& genome) const override { return skinny_illegal(parts_, device_, genome); }
  std::vector<Genome> seeds() const override { return skinny_seeds(kernel_, parts_, device_); }
  Outline outline(const Genome& genome) const override { return skinny_outline(parts_, device_, genome); }
  Result<Emitted> emit(const Genome& genome) const override { return emit_skinny(kernel_, parts_, device_, genome); }

 private:
  const Kernel& kernel_;
  const Skinny parts_;
  const Device& device_;
};

/// Products of a few rows with weights that are all that is read. Where there are no such tensor cores they are what
/// the other templates make of them.
class SkinnyTemplate : public Template {
 public:
  std::string_view name() const override { return "skinny"; }
  bool takes(const Kernel& kernel) const override { return skinny_of(kernel).has_value(); }
  bool streams() const override { return false; }
  Cost cost(const Kernel& kernel) const override {
    if (kernel.anchor != Anchor::row) return template_beside(*this, kernel).cost(kernel);
    Cost total;
    total.bytes = least_bytes(kernel);
    const auto moves = skinny_variables(kernel);
    const auto times = [&](int node) {
      double points = 1;
      for (std::size_t v = 0; v < kernel.space.extents.size(); ++v)
        if (moves[static_cast<std::size_t>(node)][v]) points *= static_cast<double>(kernel.space.extents[v]);
      return points;
    };
    for (std::size_t n = 0; n < kernel.nodes.size(); ++n)
      total.flops += weight(info(kernel.nodes[n].op).cost) * times(static_cast<int>(n));
    for (const Reduction& reduction : kernel.reductions) total.flops += times(reduction.arg);
    const auto skinny = skinny_of(kernel);
    total.products = 2 * static_cast<double>(skinny->count) * static_cast<double>(skinny->rows) *
                     static_cast<double>(skinny->depth) * static_cast<double>(skinny->parts.size());
    total.tensor_flops = total.products;  // of 16 bits, as they are
    return total;
  }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    if (schedules_contractions(device)) {
      auto schedule = std::make_unique<SkinnyOnTensorCores>(kernel, *skinny_of(kernel), device);
      if (std::ranges::any_of(schedule->seeds(), [&](const Genome& seed) { return schedule->illegal(seed).empty(); }))
        return schedule;
    }
    return template_beside(*this, kernel).cuda(kernel, device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel& kernel, const Device& device,
                                         const std::vector<Gene>& genes) const override {
    return schedules_contractions(device) ? nullptr : template_beside(*this, kernel).triton(kernel, device, genes);
  }
  std::unique_ptr<const Schedule> cpp(const Kernel& kernel, const Device& device) const override {
    return template_beside(*this, kernel).cpp(kernel, device);
  }
};

}  // namespace

const Template& skinny_template() {
  static const SkinnyTemplate kind;
  return kind;
}

}  // namespace planish::codegen
