#include "codegen/recurrence.h"

#include <utility>

#include "codegen/templates/common.h"
#include "codegen/templates/recurrence/cuda_recurrence.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

class PersistentRecurrence : public Schedule {
 public:
  PersistentRecurrence(const Kernel& kernel, const Device& device) : kernel_(kernel), device_(device) {}

  std::vector<Gene> genes() const override { return recurrence_genes(*kernel_.recurrence, device_); }
  std::string illegal(const Genome& genome) const override {
    return recurrence_illegal(*kernel_.recurrence, device_, genome);
  }
  std::vector<Genome> seeds() const override { return recurrence_seeds(*kernel_.recurrence, device_); }
  Outline outline(const Genome&) const override { return {}; }  // several launches: no one of them stands for all
  Result<Emitted> emit(const Genome& genome) const override { return emit_recurrence(kernel_, device_, genome); }

 private:
  const Kernel& kernel_;
  const Device& device_;
};

class RecurrenceTemplate : public Template {
 public:
  std::string_view name() const override { return "recurrence"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::recurrence; }
  bool streams() const override { return false; }
  /// Products with what a layer reads may be tensor cores' work, those with the state of the step before are not.
  Cost cost(const Kernel& kernel) const override {
    const Recurrence& network = *kernel.recurrence;
    Cost total;
    for (const Input& input : kernel.inputs)
      total.bytes += static_cast<double>(input.storage_elements) * static_cast<double>(size_of(input.dtype));
    for (const Output& output : kernel.outputs) {
      double elements = 1;
      for (const std::int64_t extent : output.shape) elements *= static_cast<double>(extent);
      total.bytes += elements * static_cast<double>(size_of(output.dtype));
    }
    const double points = static_cast<double>(network.steps) * static_cast<double>(network.batch) *
                          gates(network.cell) * static_cast<double>(network.hidden) * network.directions;
    for (int layer = 0; layer < network.layers; ++layer) {
      total.products += 2 * points * static_cast<double>(network.width_of(layer));
      total.flops += 2 * points * static_cast<double>(network.width_of(layer) + network.hidden);
    }
    total.tensor_flops = 3 * total.products;
    return total;
  }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    if (auto why = recurrence_lacks(kernel, device); !why.empty())
      return std::make_unique<NoSchedule>("recurrence", std::move(why));
    return std::make_unique<PersistentRecurrence>(kernel, device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel&, const Device&, const std::vector<Gene>&) const override {
    return nullptr;
  }
  std::unique_ptr<const Schedule> cpp(const Kernel&, const Device&) const override {
    return std::make_unique<NoSchedule>("recurrence", "no schedule for a processor");
  }
};

}  // namespace

const Template& recurrence_template() {
  static const RecurrenceTemplate kind;
  return kind;
}

}  // namespace planish::codegen
