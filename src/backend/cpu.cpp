#include <algorithm>
#include <array>

#include "backend/backend.h"
#include "backend/flags.h"

namespace planish::backend {
namespace {

bool cpp_flag(std::string_view flag) {
  constexpr std::array<std::string_view, 20> allowed{"-O1",
                                                     "-O2",
                                                     "-O3",
                                                     "-funroll-loops",
                                                     "-fno-unroll-loops",
                                                     "-ftree-vectorize",
                                                     "-fno-tree-vectorize",
                                                     "-fno-math-errno",
                                                     "-fno-trapping-math",
                                                     "-fopenmp",
                                                     "-fopenmp-simd",
                                                     "-ffp-contract=fast",
                                                     "-ffp-contract=off",
                                                     "-fno-signed-zeros",
                                                     "-mfma",
                                                     "-mavx2",
                                                     "-mavx512f",
                                                     "-fno-semantic-interposition",
                                                     "-fno-stack-protector",
                                                     "-fno-plt"};
  return is_definition(flag) || std::ranges::find(allowed, flag) != allowed.end() ||
         is_number_after("-mprefer-vector-width=", flag);
}

}  // namespace

const Backend& cpu() {
  // The bandwidth was measured within a quarter of a second, perhaps beside other work, and the last cache may be a
  // part of a larger one.
  static const Backend processor{.name = "cpu",
                                 .title = "CPU",
                                 .languages = {{"cpp", "C++", "cpp", "so", false, cpp_flag}},
                                 .on_host = true,
                                 .has_grids = false,
                                 .launch_seconds = 0.5e-6,
                                 .held = {},
                                 .certainty = {.bandwidth = 6, .caches = 4, .arithmetic = false}};
  return processor;
}

}  // namespace planish::backend
