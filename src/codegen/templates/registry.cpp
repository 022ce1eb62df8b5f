#include <algorithm>

#include "codegen/templates/emission.h"
#include "codegen/templates/template.h"

namespace planish::codegen {

// One word a template, the more particular first: each is defined in its folder.
// clang-format off
#define PLANISH_TEMPLATES(X) X(scan) X(recurrence) X(attention) X(grouped) X(skinny) X(contraction) X(row_and_column) \
  X(segmented_row) X(column) X(row) X(scatter) X(order) X(window) X(pointwise)

#define PLANISH_DECLARE(name) const Template& name##_template();
PLANISH_TEMPLATES(PLANISH_DECLARE)
// clang-format on
#undef PLANISH_DECLARE

const std::vector<const Template*>& all_templates() {
#define PLANISH_LIST(name) &name##_template(),
  static const std::vector<const Template*> all{PLANISH_TEMPLATES(PLANISH_LIST)};
#undef PLANISH_LIST
  return all;
}

const Template& template_beside(const Template& one, const Kernel& kernel) {
  return **std::ranges::find_if(all_templates(),
                                [&](const Template* other) { return other != &one && other->takes(kernel); });
}

const Template& template_of(const Kernel& kernel) {
  for (const Template* one : all_templates()) {
    if (one->takes(kernel)) return *one;
  }
  return *all_templates().back();  // the last takes every kernel
}

Cost cost(const Kernel& kernel) {
  return template_of(kernel).cost(kernel);
}

double operations(const Cost& cost, const Device& device) {
  if (device.tensor_rate * cost.products <= cost.tensor_flops) return cost.flops;
  return cost.flops - cost.products + cost.tensor_flops / device.tensor_rate;
}

double bytes_worth(const Cost& cost, const Device& device) {
  return std::max(cost.bytes, operations(cost, device) / flops_per_byte);
}

std::unique_ptr<const Schedule> schedule_of(const Kernel& kernel, const Device& device) {
  return emission_of(device).schedule(template_of(kernel), kernel, device);
}

}  // namespace planish::codegen
