#include <string_view>

#include "codegen/lower/lower.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/recurrence.h"
#include "codegen/lower/writes.h"

// The kinds of operators, by who lowers them.
namespace planish::codegen {

bool contracts(std::string_view op) {
  const auto name = base_name(op);
  return contraction_handlers().contains(name) || grouped_handlers().contains(name) ||
         attention_handlers().contains(name) || name == "convolution" ||
         (name.starts_with("conv") && window_handlers().contains(name)) || recurs(op);
}

OpClass classify(std::string_view op) {
  const auto name = base_name(op);
  if (overwrites(name)) return OpClass::write;
  if (view_handlers().contains(name)) return OpClass::view;
  if (creation_handlers().contains(name)) return OpClass::creation;
  if (movement_handlers().contains(name) || gather_handlers().contains(name) || pointwise_handlers().contains(name) ||
      window_handlers().contains(name))
    return OpClass::pointwise;
  if (row_handlers().contains(name) || norm_handlers().contains(name) || order_handlers().contains(name))
    return OpClass::row;
  if (scan_handlers().contains(name)) return OpClass::scan;
  return OpClass::other;
}

}  // namespace planish::codegen
