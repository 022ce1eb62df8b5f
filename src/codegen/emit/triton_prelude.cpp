#include <array>
#include <string_view>

#include "codegen/emit/triton_value.h"

/// Helper functions of emitted Triton. A kernel carries those it calls.
namespace planish::codegen::printing {
namespace {

struct Helper {
  std::string_view name;
  std::string_view text;  ///< may call helpers that stand before it
};

constexpr std::array helpers{
    Helper{"pl_add", "def pl_add(a, b):\n    return a + b\n"},
    Helper{"pl_multiply", "def pl_multiply(a, b):\n    return a * b\n"},
    Helper{"pl_or", "def pl_or(a, b):\n    return a | b\n"},
    Helper{"pl_and", "def pl_and(a, b):\n    return a & b\n"},
    Helper{"pl_larger", "def pl_larger(a, b):\n    return tl.where(a > b, a, b)\n"},
    Helper{"pl_smaller", "def pl_smaller(a, b):\n    return tl.where(a < b, a, b)\n"},
    Helper{"pl_max", "def pl_max(a, b):\n    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"},
    Helper{"pl_min", "def pl_min(a, b):\n    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)\n"},
    // The machine's own maximum has no form for f64 that propagates NaN.
    Helper{"pl_max64", "def pl_max64(a, b):\n    return tl.where((a > b) | (a != a), a, b)\n"},
    Helper{"pl_min64", "def pl_min64(a, b):\n    return tl.where((a < b) | (a != a), a, b)\n"},
    Helper{"pl_modulo", R"(def pl_modulo(a, b):
    m = libdevice.fmod(a, b)
    return tl.where((m != 0) & ((b < 0) != (m < 0)), m + b, m)
)"},
    Helper{"pl_floor_divide", R"(def pl_floor_divide(a, b):
    m = libdevice.fmod(a, b)
    q = tl.div_rn(a - m, b)
    q = tl.where((m != 0) & ((b < 0) != (m < 0)), q - 1, q)
    f = tl.floor(q)
    f = tl.where(q - f > 0.5, f + 1, f)
    whole = tl.div_rn(a, b)
    f = tl.where(q == 0, libdevice.copysign(q - q, whole), f)
    return tl.where(b == 0, whole, f)
)"},
    Helper{"pl_floor_divide64", R"(def pl_floor_divide64(a, b):
    m = libdevice.fmod(a, b)
    q = (a - m) / b
    q = tl.where((m != 0) & ((b < 0) != (m < 0)), q - 1, q)
    f = tl.floor(q)
    f = tl.where(q - f > 0.5, f + 1, f)
    f = tl.where(q == 0, libdevice.copysign(q - q, a / b), f)
    return tl.where(b == 0, a / b, f)
)"},
    // Integers: division by zero gives 0 and by -1 wraps; neither may trap.
    Helper{"pl_trunc_div", R"(def pl_trunc_div(a, b):
    q = a // tl.where((b == 0) | (b == -1), 1, b)
    return tl.where(b == 0, 0, tl.where(b == -1, -a, q))
)"},
    Helper{"pl_fmod", R"(def pl_fmod(a, b):
    return tl.where((b == 0) | (b == -1), 0, a % tl.where((b == 0) | (b == -1), 1, b))
)"},
    Helper{"pl_floor_div", R"(def pl_floor_div(a, b):
    q = pl_trunc_div(a, b)
    r = pl_fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
)"},
    Helper{"pl_remainder", R"(def pl_remainder(a, b):
    r = pl_fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)
)"},
    Helper{"pl_pow", R"(def pl_pow(a, b):
    r = tl.full((), 1, tl.int64) + 0 * (a + b)
    x = a + 0 * b
    left = b + 0 * a
    for _ in range(63):
        r = tl.where((left & 1) != 0, r * x, r)
        x = x * x
        left = left >> 1
    unit = tl.where(a == 1, 1, tl.where(a == -1, 1 - 2 * (b & 1), 0))
    return tl.where(b < 0, unit, r)
)"},
    Helper{"pl_shift_left", R"(def pl_shift_left(a, b, bits: tl.constexpr):
    outside = (b < 0) | (b >= bits)
    return tl.where(outside, 0, a << tl.where(outside, 0, b))
)"},
    Helper{"pl_shift_right", R"(def pl_shift_right(a, b, bits: tl.constexpr):
    return a >> tl.where((b < 0) | (b >= bits), bits - 1, b)
)"},
    Helper{"pl_index_div", "def pl_index_div(a, k):\n    return a // k - (a % k < 0).to(a.dtype)\n"},
    Helper{"pl_index_mod", "def pl_index_mod(a, k):\n    return a % k + tl.where(a % k < 0, k, 0)\n"},
};

bool word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool names(std::string_view text, std::string_view name) {
  for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const auto end = at + name.size();
    if ((at == 0 || !word(text[at - 1])) && (end == text.size() || !word(text[end]))) return true;
  }
  return false;
}

}  // namespace

std::string triton_prelude(std::string_view body) {
  std::array<bool, helpers.size()> wanted{};
  for (std::size_t i = helpers.size(); i-- > 0;) {
    wanted[i] = names(body, helpers[i].name);
    for (std::size_t user = i + 1; user < helpers.size(); ++user)
      wanted[i] = wanted[i] || (wanted[user] && names(helpers[user].text, helpers[i].name));
  }
  std::string functions;
  for (std::size_t i = 0; i < helpers.size(); ++i) {
    if (wanted[i]) functions += "@triton.jit\n" + std::string(helpers[i].text) + "\n\n";
  }
  std::string out = "import triton\nimport triton.language as tl\n";
  if (names(body, "libdevice") || names(functions, "libdevice")) out += "from triton.language.extra import libdevice\n";
  return out + "\n\n" + functions;
}

}  // namespace planish::codegen::printing
