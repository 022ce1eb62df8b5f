#include "codegen/attention/attention.h"

#include <algorithm>
#include <utility>

#include "codegen/attention/cuda_attention.h"
#include "codegen/attention/cuda_half_attention.h"
#include "codegen/attention/decode.h"
#include "codegen/attention/mma_attention.h"
#include "codegen/contraction/contraction.h"
#include "codegen/templates/attention/attention_cost.h"
#include "codegen/templates/common.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

/// Of 16-bit factors where they lie.
class HalfFusedAttention : public Schedule {
 public:
  HalfFusedAttention(const Kernel& kernel, Attention parts, attention::HalfAttention half, const Device& device)
      : kernel_(kernel), parts_(std::move(parts)), half_(std::move(half)), device_(device) {}

  std::vector<Gene> genes() const override { return half_attention_genes(half_, device_); }
  std::string illegal(const Genome& genome) const override { return half_attention_illegal(half_, device_, genome); }
  std::vector<Genome> seeds() const override { return half_attention_seeds(half_, device_); }
  Outline outline(const Genome&) const override { return {}; }
  Result<Emitted> emit(const Genome& genome) const override {
    return emit_half_attention(kernel_, parts_, half_, device_, genome);
  }

 private:
  const Kernel& kernel_;
  const Attention parts_;
  const attention::HalfAttention half_;
  const Device& device_;
};

/// The same at fp32's accuracy, of factors that are packed before.
class FusedAttention : public Schedule {
 public:
  FusedAttention(const Kernel& kernel, Attention parts, const Device& device)
      : kernel_(kernel), parts_(std::move(parts)), device_(device) {}

  std::vector<Gene> genes() const override { return attention_genes(parts_, device_); }
  std::string illegal(const Genome& genome) const override { return attention_illegal(parts_, device_, genome); }
  std::vector<Genome> seeds() const override { return attention_seeds(parts_, device_); }
  Outline outline(const Genome&) const override { return {}; }  // several launches: no one of them stands for all
  Result<Emitted> emit(const Genome& genome) const override { return emit_attention(kernel_, parts_, device_, genome); }

 private:
  const Kernel& kernel_;
  const Attention parts_;
  const Device& device_;
};

class AttentionTemplate : public Template {
 public:
  std::string_view name() const override { return "attention"; }
  bool takes(const Kernel& kernel) const override { return kernel.anchor == Anchor::attention; }
  bool streams() const override { return false; }
  Cost cost(const Kernel& kernel) const override { return attention_cost(kernel); }
  std::unique_ptr<const Schedule> cuda(const Kernel& kernel, const Device& device) const override {
    if (auto few = decode_schedule(kernel, device)) return few;
    if (auto half = half_schedule(kernel, device)) return half;
    if (auto warps = mma_attention_schedule(kernel, device)) return warps;
    if (auto why = attention_lacks(kernel, device); !why.empty())
      return std::make_unique<NoSchedule>("attention", std::move(why));
    return std::make_unique<FusedAttention>(kernel, *attention_of(kernel), device);
  }
  /// Null where factors are no 16-bit tensors, or none of its tiles fits.
  static std::unique_ptr<const Schedule> half_schedule(const Kernel& kernel, const Device& device) {
    if (tensor_cores(device) != TensorCores::warpgroups) return nullptr;
    auto parts = attention_of(kernel);
    if (!parts) return nullptr;
    auto half = attention::half_attention_of(kernel, *parts);
    if (!half || !half_attention_lacks(*half, device).empty()) return nullptr;
    return std::make_unique<HalfFusedAttention>(kernel, std::move(*parts), std::move(*half), device);
  }
  std::unique_ptr<const Schedule> triton(const Kernel&, const Device&, const std::vector<Gene>&) const override {
    return nullptr;
  }
  std::unique_ptr<const Schedule> cpp(const Kernel&, const Device&) const override {
    return std::make_unique<NoSchedule>("attention", "no schedule for a processor");
  }
};

}  // namespace

const Template& attention_template() {
  static const AttentionTemplate kind;
  return kind;
}

}  // namespace planish::codegen
