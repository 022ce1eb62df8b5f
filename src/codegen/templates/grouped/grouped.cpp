#include "codegen/grouped/grouped.h"

#include <algorithm>
#include <set>
#include <utility>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/eight_bits.h"
#include "codegen/contraction/mma_product.h"
#include "codegen/cost.h"
#include "codegen/grouped/cpp_grouped.h"
#include "codegen/grouped/cuda_grouped.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

class GroupedOnTensorCores : public Schedule {
 public:
  GroupedOnTensorCores(DeviceGrouped grouped, const Device& device) : grouped_(std::move(grouped)), device_(device) {}

  std::vector<Gene> genes() const override { return device_grouped_genes(grouped_, device_); }
  TensorLoop tensor_loop() const override { return TensorLoop::file; }
  std::string illegal(const Genome& genome) const override { return device_grouped_illegal(grouped_, device_, genome); }
  std::vector<Genome> seeds() const override { return device_grouped_seeds(grouped_, device_); }
  Outline outline(const Genome& genome) const override {
    Outline out;
    const auto tiling = contraction::device_tiling_of(genome);
    out.threads = 128.0 * (tiling.consumers + 1);
    out.shared_bytes =
        static_cast<double>(contraction::device_layout_of(grouped_.product, tiling, &grouped_.groups).shared_bytes);
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override { return emit_device_grouped(grouped_, device_, genome); }

 private:
  const DeviceGrouped grouped_;
  const Device& device_;
};

class GroupedOnProcessor : public Schedule {
 public:
  GroupedOnProcessor(const Kernel& kernel, Grouped grouped, const Device& device)
      : kernel_(kernel), grouped_(std::move(grouped)), device_(device) {}

  std::vector<Gene> genes() const override { return cpp_grouped_genes(kernel_, grouped_, device_); }
  std::string illegal(const Genome& genome) const override { return cpp_grouped_illegal(kernel_, grouped_, genome); }
  std::vector<Genome> seeds() const override { return cpp_grouped_seeds(kernel_, grouped_, device_); }
  Outline outline(const Genome& genome) const override {
    Outline out;
    out.threads = static_cast<double>(gene(genome, "threads", 1));
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override {
    return emit_cpp_grouped(kernel_, grouped_, device_, genome);
  }

 private:
  const Kernel& kernel_;
  const Grouped grouped_;
  const Device& device_;
};

/// Products of rows that belong to groups. What no schedule of its own computes is what other templates make of it: a
/// kernel of rows that reads a matrix once for each row.
class GroupedTemplate : public Template {
 public:
  std::string_view name() const override { return "grouped"; }
  bool takes(const Kernel& kernel) const override {
    return (kernel.anchor == Anchor::contraction || kernel.anchor == Anchor::row) && grouped_of(kernel).has_value();
  }
  bool streams() const override { return false; }

  /// Each matrix is read once, if it has rows.
  Cost cost(const Kernel& kernel) const override {
    const Grouped grouped = *grouped_of(kernel);
    const Contraction c = *contraction_of(grouped.plain);
    Cost total = streaming_cost(grouped.plain);
    const double points = static_cast<double>(c.rows) * static_cast<double>(c.columns) * static_cast<double>(c.depth);
    const Node& weights = grouped.plain.nodes[static_cast<std::size_t>(grouped.weights)];
    const double others = static_cast<double>(std::min(grouped.ends.count, grouped.rows) - 1);
    const auto matrix = static_cast<double>(size_of(weights.dtype)) * points / static_cast<double>(grouped.rows);
    total.bytes += others * matrix;
    total.products = 2 * points;
    total.tensor_flops = total.products * contraction::tensor_passes(grouped.plain);
    return total;
  }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    if (schedules_contractions(device)) {
      auto grouped = device_grouped_of(*grouped_of(kernel));
      if (grouped && tensor_cores(device) == TensorCores::warps) {
        if (auto warps = contraction::mma_schedule(std::move(grouped->product), grouped->groups, device)) return warps;
      } else if (grouped && !device_grouped_seeds(*grouped, device).empty()) {
        return std::make_unique<GroupedOnTensorCores>(std::move(*grouped), device);
      }
    }
    return template_beside(*this, kernel).cuda(kernel, device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel& kernel, const Device& device,
                                         const std::vector<Gene>& genes) const override {
    if (schedules_contractions(device) && device_grouped_of(*grouped_of(kernel))) return nullptr;
    return template_beside(*this, kernel).triton(kernel, device, genes);
  }
  std::unique_ptr<const Schedule> cpp(const Kernel& kernel, const Device& device) const override {
    Grouped grouped = *grouped_of(kernel);
    if (cpp_grouped_lacks(kernel, grouped).empty())
      return std::make_unique<GroupedOnProcessor>(kernel, std::move(grouped), device);
    return template_beside(*this, kernel).cpp(kernel, device);
  }
};

}  // namespace

const Template& grouped_template() {
  static const GroupedTemplate kind;
  return kind;
}

}  // namespace planish::codegen
