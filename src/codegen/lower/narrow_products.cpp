#include "codegen/lower/narrow_products.h"

#include <algorithm>

#include "codegen/attention/attention.h"
#include "codegen/attention/decode.h"
#include "codegen/attention/half.h"
#include "codegen/contraction/device_product.h"
#include "codegen/skinny/skinny.h"

namespace planish::codegen {
namespace {

bool is_narrow_attention(const Kernel& kernel) {
  const auto parts = attention_of(kernel);
  if (!parts) return false;
  if (decode_of(kernel, *parts)) return true;
  return std::ranges::none_of(kernel.nodes, gathers) && attention::half_attention_of(kernel, *parts).has_value();
}

bool is_narrow_product(const Kernel& kernel) {
  if (skinny_of(kernel)) return true;
  const auto product = contraction::product_of(kernel);
  return product && contraction::device_product_lacks(*product).empty();
}

}  // namespace

bool multiplies_wide(const Kernel& kernel) {
  switch (kernel.anchor) {
    case Anchor::attention:
      return !is_narrow_attention(kernel);
    case Anchor::contraction:
      return !contraction::sums_integers(kernel) && !is_narrow_product(kernel);
    case Anchor::recurrence:
      return true;
    default:
      return false;
  }
}

}  // namespace planish::codegen
