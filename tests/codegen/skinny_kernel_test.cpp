// device/sm90/skinny.cuh on a CPU: one fiber a thread, the instructions of tools/skinny_cpu.h. Sums, tails of rows and
// of k, rings in shared memory and in registers, operands kept or computed, norms, and who waits for the launch before.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <string>

#include "codegen/compiled.h"
#include "codegen/device/device_files.h"

namespace planish::codegen {
namespace {

constexpr std::string_view machine = R"(#include <skinny_cpu.h>
)";

/// Policies, each run and compared with sums in double; `check` gives the number of those that are wrong.
constexpr std::string_view cases = R"(
struct Args { const u16 *x, *weights; float* y; };
inline float of(u16 v) { return cpu::value(v, 0, true); }
inline u16 rounded(float v) { unsigned u; std::memcpy(&u, &v, 4); return (u16)((u + 0x7fff + (u >> 16 & 1)) >> 16); }

template <int N, int K, int M, int PARTS, int TILES, int WARPS, int STAGES, int BLOCKS, bool RING, bool KEPT, int NORM>
struct Policy {
  static constexpr int rows = N, depth = K, count = M, parts = PARTS, tiles = TILES, warps = WARPS, stages = STAGES;
  static constexpr int blocks = BLOCKS, resident = 1, statistics = NORM;
  static constexpr bool bf16 = true, ring_shared = RING, x_shared = KEPT, chained = true;
  static constexpr SkinnyCode code = code_none;
  static constexpr bool across = false, turned = false;
  static constexpr long long pitch = 0;
  static constexpr bool table = false;
  static constexpr int table_pieces = 0;
  static constexpr SkinnyScale scaling = scale_none;
  static constexpr int bits = 16, zero = 0;
  static constexpr bool flipped = false, zeroed = false;
  static constexpr u32 order = 0x76543210u;
  using Args = ::Args;
  static void touch(const Args&, int, int) {}
  static const void* weight(const Args& a, int part, int row) { return a.weights + ((long long)part * N + row) * K; }
  struct Held {
    uint4 x;
  };
  template <int> static Held held(const Args& a, int m, int k) { return {load_visible_16(a.x + m * K + k)}; }
  static uint4 operand(const Held& held, const Args&, int m, int k, const float* statistics) {
    uint4 v = held.x;
    u16 e[8];
    std::memcpy(e, &v, 16);
    // What is kept is computed of both sums: the second, of squares less the mean, needs the first.
    if (NORM == 2)
      for (u16& one : e) one = rounded((of(one) - statistics[m] / K) * statistics[M + m] / K);
    std::memcpy(&v, e, 16);
    return v;
  }
  template <int s> static float statistic(const Held& held, const Args&, int m, int k, const float* statistics) {
    const uint4 v = held.x;
    u16 e[8];
    std::memcpy(e, &v, 16);
    float sum = 0;
    for (const u16 one : e) sum += s == 0 ? of(one) : (of(one) - statistics[m] / K) * (of(one) - statistics[m] / K);
    return sum;
  }
  static void store(const Args& a, int m, int row, const float (&sums)[PARTS], const float*) {
    for (int p = 0; p < PARTS; ++p) pl_put(a.y + (p * M + m) * N + row, sums[p]);
  }
};

template <class P> int check() {
  std::vector<u16> x(P::count * P::depth), w((size_t)P::parts * P::rows * P::depth);
  std::vector<float> y(P::parts * P::count * P::rows, NAN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = rounded(std::sin(0.37 * i + 1) + 0.3);
  for (size_t i = 0; i < w.size(); ++i) w[i] = rounded(std::cos(0.11 * i * (1 + i % 3)));
  void* pointers[] = {x.data(), w.data(), y.data()};
  const size_t bytes[] = {x.size() * 2, w.size() * 2, y.size() * 4};
  const Args args{x.data(), w.data(), y.data()};
  cpu::waits = cpu::launches = 0;
  cpu::asked_for_x = false;
  int wrong = emu_launch([&] { skinny_product<P>(args, emu::block->dynamic.data(), blockIdx.x, P::blocks); }, P::blocks, P::warps * 32, 1, false,
                         SkinnyLayout<P>::shared_bytes, pointers, bytes, 3);
  wrong += cpu::asked_for_x + (cpu::waits != P::blocks * P::warps * 32) + (cpu::launches != P::blocks * P::warps * 32);
  for (int m = 0; m < P::count; ++m) {
    std::vector<double> row(P::depth);
    double sum = 0, squares = 0;
    for (int k = 0; k < P::depth; ++k) sum += of(x[m * P::depth + k]);
    for (int k = 0; k < P::depth; ++k) squares += std::pow(of(x[m * P::depth + k]) - sum / P::depth, 2);
    for (int k = 0; k < P::depth; ++k) {
      row[k] = of(x[m * P::depth + k]);
      if (P::statistics == 2) row[k] = of(rounded((row[k] - sum / P::depth) * squares / P::depth));
    }
    for (int p = 0; p < P::parts; ++p) {
      for (int n = 0; n < P::rows; ++n) {
        double exact = 0;
        for (int k = 0; k < P::depth; ++k) exact += row[k] * of(w[((size_t)p * P::rows + n) * P::depth + k]);
        const double got = y[(p * P::count + m) * P::rows + n];
        // A rounding of x in 16 bits may fall the other way where its sums differ in their last bits.
        if (!(std::abs(got - exact) <= (P::statistics == 2 ? 0.02 : 1e-4) * (1 + std::sqrt(P::depth)))) ++wrong;
      }
    }
  }
  return wrong;
}
//                                  N   K  M parts tiles warps stages blocks ring   kept  norm
extern "C" int check_0() { return check<Policy<37, 128, 1, 1, 1, 2, 3, 2, true, true, 0>>(); }    // a tail of rows
extern "C" int check_1() { return check<Policy<32, 104, 3, 2, 1, 2, 2, 1, true, true, 0>>(); }    // and of k, two parts
extern "C" int check_2() { return check<Policy<70, 256, 8, 1, 2, 2, 4, 1, false, true, 0>>(); }   // in registers
extern "C" int check_3() { return check<Policy<50, 256, 9, 1, 2, 4, 3, 1, true, false, 0>>(); }   // x at every step
extern "C" int check_4() { return check<Policy<33, 192, 5, 1, 1, 3, 9, 2, true, true, 2>>(); }    // more stages than steps
extern "C" int check_5() { return check<Policy<20, 264, 16, 1, 1, 4, 2, 1, true, false, 2>>(); }  // a norm at every step
extern "C" int check_6() { return check<Policy<16, 64, 1, 3, 1, 1, 1, 1, true, true, 0>>(); }     // three parts, one stage
)";

TEST_CASE("skinny products are right on a CPU, and read nothing but weights before they wait") {
  const std::array<DeviceFile, 1> instead{{{"sm90/ptx.cuh", machine}}};
  const std::array<std::string_view, 1> names{"sm90/skinny.cuh"};
  const std::string source = device_text(names, instead) + std::string(cases);
  const Compiled compiled(source, fmt::format("-std=c++20 -O1 -w -I{}/tests/codegen/tools", PLANISH_SOURCE_DIR));
  for (int i = 0; i < 7; ++i) {
    CAPTURE(i);
    CHECK(compiled.function<int()>(fmt::format("check_{}", i))() == 0);
  }
}

}  // namespace
}  // namespace planish::codegen
