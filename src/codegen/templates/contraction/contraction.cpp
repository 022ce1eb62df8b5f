#include "codegen/contraction/contraction.h"

#include <algorithm>
#include <utility>

#include "codegen/contraction/cross_tile.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction/device_schedule.h"
#include "codegen/contraction/eight_bits.h"
#include "codegen/contraction/mma_product.h"
#include "codegen/cost.h"
#include "codegen/passes.h"
#include "codegen/phases.h"
#include "codegen/templates/common.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

/// On Hopper's tensor cores.
class OnTensorCores : public Schedule {
 public:
  OnTensorCores(contraction::Product product, const Device& device) : product_(std::move(product)), device_(device) {}

  std::vector<Gene> genes() const override { return contraction_genes(product_, device_); }
  TensorLoop tensor_loop() const override {
    return contraction::warpgroup_way(product_) != nullptr ? TensorLoop::file : TensorLoop::printed;
  }
  std::string illegal(const Genome& genome) const override { return contraction_illegal(product_, device_, genome); }
  std::vector<Genome> seeds() const override { return contraction_seeds(product_, device_); }
  Outline outline(const Genome&) const override { return {}; }  // several launches: no one of them stands for all
  Result<Emitted> emit(const Genome& genome) const override { return emit_contraction(product_, device_, genome); }

 private:
  contraction::Product product_;
  const Device& device_;
};

/// Of two tensors of 8 bits, whose sums are integers: by the device file alone.
class IntegersOnTensorCores : public Schedule {
 public:
  IntegersOnTensorCores(contraction::Product product, const Device& device)
      : product_(std::move(product)), device_(device) {}

  std::vector<Gene> genes() const override { return contraction::device_genes(product_, device_); }
  TensorLoop tensor_loop() const override { return TensorLoop::file; }
  std::string illegal(const Genome& genome) const override {
    return contraction::device_illegal(product_, device_, genome);
  }
  std::vector<Genome> seeds() const override { return contraction::device_seeds(product_, device_); }
  Outline outline(const Genome& genome) const override {
    const auto tiling = contraction::device_tiling_of(genome);
    Outline out;
    out.threads = 128.0 * (tiling.consumers + 1);
    out.shared_bytes = static_cast<double>(contraction::device_layout_of(product_, tiling).shared_bytes);
    return out;
  }
  Result<Emitted> emit(const Genome& genome) const override {
    if (const auto why = illegal(genome); !why.empty()) return fail("illegal_genome", why);
    return contraction::emit_device_product(product_, contraction::device_tiling_of(genome), device_);
  }

 private:
  const contraction::Product product_;
  const Device& device_;
};

/// Matrix products.
class ContractionTemplate : public Template {
 public:
  std::string_view name() const override { return "contraction"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::contraction; }
  bool streams() const override { return false; }
  Cost cost(const Kernel& kernel) const override {
    Cost total = streaming_cost(kernel);
    const double points = points_of(kernel);
    // Where a phase of a transposed convolution has no tap nothing is multiplied.
    const Kernel plain = in_phases(kernel), apart = contraction::windows_apart(plain);
    total.products =
        2 * points * (points_of(apart) / points_of(plain)) * contraction::tapped(contraction::phased(apart));
    total.flops -= 2 * points - total.products;
    // Windows, and what else folds across, fold what was summed up.
    const auto folds = static_cast<double>(std::ranges::count_if(kernel.reductions, &Reduction::across));
    total.flops -= folds * (points - points / static_cast<double>(kernel.inner_extent()));
    total.tensor_flops = total.products * least_passes(kernel);
    return total;
  }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    if (auto integers = of_integers(kernel, device)) return integers;
    if (tensor_cores_lack(kernel, device).empty())
      return std::make_unique<OnTensorCores>(*contraction::product_of(kernel), device);
    if (auto warps = by_warps(kernel, device)) return warps;
    return as_rows_by(kernel, device, [&](const Kernel& rows) { return template_of(rows).cuda(rows, device); });
  }
  std::unique_ptr<const Schedule> triton(const Kernel& kernel, const Device& device,
                                         const std::vector<Gene>& genes) const override {
    if (of_integers(kernel, device) || tensor_cores_lack(kernel, device).empty() || by_warps(kernel, device))
      return nullptr;
    return as_rows_by(kernel, device,
                      [&](const Kernel& rows) { return template_of(rows).triton(rows, device, genes); });
  }
  std::unique_ptr<const Schedule> cpp(const Kernel& kernel, const Device& device) const override {
    return as_rows_by(kernel, device, [&](const Kernel& rows) { return template_of(rows).cpp(rows, device); });
  }

 private:
  /// On warpgroups; null where the kernel sums no integers, or there is no such schedule.
  static std::unique_ptr<const Schedule> of_integers(const Kernel& kernel, const Device& device) {
    if (!contraction::sums_integers(kernel) || tensor_cores(device) != TensorCores::warpgroups) return nullptr;
    auto product = contraction::product_of(kernel);
    if (!product || contraction::device_seeds(*product, device).empty()) return nullptr;
    return std::make_unique<IntegersOnTensorCores>(std::move(*product), device);
  }

  /// By mma.sync; null where there is no such schedule.
  static std::unique_ptr<const Schedule> by_warps(const Kernel& kernel, const Device& device) {
    if (tensor_cores(device) != TensorCores::warps) return nullptr;
    auto product = contraction::product_of(kernel);
    return product ? contraction::mma_schedule(std::move(*product), std::nullopt, device) : nullptr;
  }

  static double points_of(const Kernel& kernel) {
    double points = 1;
    for (const std::int64_t extent : kernel.space.extents) points *= static_cast<double>(extent);
    return points;
  }

  /// What its phases are found of: sums over results know nothing of these, and are no reason not to look for them.
  static Kernel in_phases(const Kernel& kernel) {
    if (kernel.across == 0) return kernel;
    const auto product = contraction::product_of(kernel);
    return product && product->cross_tile ? contraction::cross_tile_kernel(kernel).kernel : kernel;
  }

  /// One where a convolution's factors may be rounded as PyTorch rounds them, unless it was told otherwise: the gate
  /// says whether it did. What is called a bound must not be passed by what is right.
  static double least_passes(const Kernel& kernel) {
    const double passes = contraction::tensor_passes(kernel);
    return may_round(kernel) ? std::min(1.0, passes) : passes;
  }

  /// Folds of sums are no rows to fold.
  template <class Make>
  static std::unique_ptr<const Schedule> as_rows_by(const Kernel& kernel, const Device& device, const Make& make) {
    if (kernel.across == 0) return ScheduleOfChanged::made(as_rows(kernel), make);
    return std::make_unique<NoSchedule>("folds of products", tensor_cores_lack(kernel, device));
  }
};

}  // namespace

const Template& contraction_template() {
  static const ContractionTemplate kind;
  return kind;
}

}  // namespace planish::codegen
