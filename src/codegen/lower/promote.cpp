#include "codegen/lower/promote.h"

#include <algorithm>

namespace planish::codegen {
namespace {

int kind(DType dtype) {
  return is_floating(dtype) ? 2 : is_integer(dtype) ? 1 : 0;
}

struct Promoted {
  DType dtype = DType::boolean;
  int rank = 0;  ///< 2 a tensor with dims, 1 a 0-dim tensor, 0 a number
};

Promoted operand(const Lowering& low, const ir::Arg* arg) {
  if (arg == nullptr) return {};
  if (const auto* ref = std::get_if<ir::ValueRef>(&arg->data)) {
    const auto& v = low.info(ref->id);
    return {v.dtype, v.shape.empty() ? 1 : 2};
  }
  // A number's own dtype counts only by its kind; the default floating dtype is f32.
  if (std::holds_alternative<double>(arg->data)) return {DType::f32, 0};
  if (std::holds_alternative<std::int64_t>(arg->data)) return {DType::i64, 0};
  return {};
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (kind(a) != kind(b)) return kind(a) > kind(b) ? a : b;
  if (kind(a) == 2) {
    if (size_of(a) == size_of(b)) return DType::f32;  // f16 with bf16
    return size_of(a) > size_of(b) ? a : b;
  }
  // u8 with i8 has no common 8-bit type.
  if (size_of(a) == 1 && size_of(b) == 1) return DType::i16;
  return size_of(a) > size_of(b) ? a : b;
}

DType result_type(const Lowering& low, const ir::Arg* a, const ir::Arg* b) {
  const Promoted x = operand(low, a), y = operand(low, b);
  if (x.rank == y.rank) return promote(x.dtype, y.dtype);
  const Promoted& strong = x.rank > y.rank ? x : y;
  const Promoted& weak = x.rank > y.rank ? y : x;
  return kind(weak.dtype) > kind(strong.dtype) ? weak.dtype : strong.dtype;
}

}  // namespace planish::codegen
