// Weights of 8 and 4 bits in device/sm90/skinny.cuh, on a CPU (see skinny_kernel_test.cpp): every code of every form,
// in bf16 and f16, to the bit; and products whose scales belong to rows, steps and pieces, with zero points, orders of
// nibbles, words of rows beside each other, tails of rows and of k.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <string>

#include "codegen/compiled.h"
#include "codegen/device/device_files.h"

namespace planish::codegen {
namespace {

constexpr std::string_view codes_machine = "#include <skinny_cpu.h>\n";

constexpr std::string_view codes_cases = R"(
struct Args { const u16* x; const u8* codes; const float *scales, *zeros; float* y; };
inline float of(u16 v, bool bf16) { return cpu::value(v, 0, bf16); }
inline u16 rounded(float v, bool bf16) { return (u16)cpu::word_of(v, bf16); }
inline float e5m2(u32 code) { return cpu::value(code << 8, 0, false); }

// The number of a code, by its definition.
inline float meaning(SkinnyCode code, bool flipped, u32 v) {
  switch (code) {
    case code_i8: return (float)(signed char)v;
    case code_u8: return (float)v;
    case code_e4m3: return cpu::of_e4m3(v);
    case code_e5m2: return e5m2(v);
    default: return flipped ? (float)(v & 8 ? (int)v - 16 : (int)v) : (float)v;
  }
}

// ---- every code ----
template <SkinnyCode CODE, bool BF16, bool FLIPPED, int ZERO> struct One {
  struct Args {};
  static constexpr SkinnyCode code = CODE;
  static constexpr SkinnyScale scaling = scale_none;
  static constexpr bool bf16 = BF16, flipped = FLIPPED, zeroed = false;
  // What the generator gives: two's complement is read with 8 more, which the zero point takes off again.
  static constexpr int zero = ZERO + (FLIPPED ? 8 : 0);
  static constexpr int places[8] = {0, CODE == code_nibbles ? 4 : CODE < code_e4m3 ? 2 : 1, CODE == code_nibbles ? 1 : CODE < code_e4m3 ? 1 : 2, CODE == code_nibbles ? 5 : 3,
                                    CODE == code_nibbles ? 2 : 4, CODE == code_nibbles ? 6 : CODE < code_e4m3 ? 6 : 5, CODE == code_nibbles ? 3 : CODE < code_e4m3 ? 5 : 6, 7};
};
template <class P> int every_code() {
  int wrong = 0;
  const bool small = P::code == code_nibbles;
  for (int begin = 0; begin < 256; begin += 8) {
    uint4 raw{0, 0, 0, 0};
    u8 bytes[16] = {};
    for (int i = 0; i < 8; ++i) {
      if (small) bytes[i / 2] |= (u8)((begin / 8 + i) % 16) << i % 2 * 4;
      else bytes[i] = (u8)(begin + i);
    }
    std::memcpy(&raw, bytes, 16);
    u32 out[4];
    skinny_weights<P>({}, 0, 0, 0, raw, 0, 0, 0, out);
    for (int i = 0; i < 8; ++i) {
      const int place = P::places[i];
      const float exact = meaning(P::code, P::flipped, small ? (u32)((begin / 8 + place) % 16) : (u32)(begin + place)) - (P::zero - (P::flipped ? 8 : 0));
      const float got = cpu::value(out[i / 2], i % 2, P::bf16) * skinny_worth<P>;
      if (!(got == exact) && !(std::isnan(got) && std::isnan(exact))) ++wrong;
    }
  }
  return wrong;
}

// ---- products ----
template <int N, int K, int M, int PARTS, int TILES, int WARPS, int STAGES, int BLOCKS, bool RING, bool KEPT, SkinnyCode CODE, SkinnyScale SCALE, int GROUP, bool ZEROS, u32 ORDER, bool BF16 = true, bool ACROSS = false, u32 TURNED = 0, bool TABLE = SCALE == scale_step || SCALE == scale_piece || ZEROS>
struct Policy {
  static constexpr int rows = N, depth = K, count = M, parts = PARTS, tiles = TILES, warps = WARPS, stages = STAGES;
  static constexpr int blocks = BLOCKS, resident = 1, statistics = 0, group = GROUP;
  static constexpr bool bf16 = BF16, ring_shared = RING, x_shared = KEPT, chained = true;
  static constexpr SkinnyCode code = CODE;
  static constexpr SkinnyScale scaling = SCALE;
  static constexpr int bits = CODE == code_nibbles ? 4 : 8, zero = 0;
  static constexpr bool flipped = false, zeroed = ZEROS;
  static constexpr u32 order = ORDER;
  static constexpr bool across = ACROSS, turned = TURNED != 0;
  static constexpr u32 rows_of_word = TURNED;
  static constexpr long long pitch = PARTS * N * (turned ? 4 / 8. : 4);
  static constexpr bool table = TABLE;
  static constexpr int table_pieces = GROUP == K ? 0 : GROUP % (4 * 128 / bits) == 0 ? 4 : 1;
  // Where a row's word lies, with eight codes.
  static constexpr long long word_at(int part, int row, int k) {
    return turned ? (k * (PARTS * N / 8) + (part * N + row) / 8) * 4ll : (k / 8 * (PARTS * N) + part * N + row) * 4ll;
  }
  // Of the element at place `at` of a row.
  static u32 code_at(const u8* codes, int part, int row, int at) {
    if (turned) {
      int nibble = 0;
      while ((int)(TURNED >> 4 * nibble & 7) != row % 8) ++nibble;
      return codes[word_at(part, row, at) + nibble / 2] >> nibble % 2 * 4 & 15;
    }
    const size_t whole = (size_t)part * N + row;
    const u8 byte = codes[across ? word_at(part, row, at) + at % 8 / 2 : whole * (K * bits / 8) + at * bits / 8];
    return bits == 8 ? byte : byte >> at % 2 * 4 & 15;
  }
  using Args = ::Args;
  static void touch(const Args&, int, int) {}
  static void touch_row(const Args&, int, int, int) {}
  static const void* weight(const Args& a, int part, int row) { return a.codes + (across || turned ? word_at(part, row, 0) : ((long long)part * N + row) * (K * bits / 8)); }
  static int place(int part, int row, int piece) { return (part * N + row) * (K / GROUP) + piece * (128 / bits) / GROUP; }
  static float scale(const Args& a, int part, int row, int piece) { return a.scales[place(part, row, piece)]; }
  static float zero_point(const Args& a, int part, int row, int piece) { return a.zeros[place(part, row, piece)]; }
  static uint4 weights(const Args& a, int part, int row, int piece, const uint4& raw, int chunk) {
    u32 out[4];
    for (int i = 0; i < 4; ++i)
      out[i] = pack_bf16((float)code_byte(raw, 8 * chunk + 2 * i) * 0.5f, (float)code_byte(raw, 8 * chunk + 2 * i + 1) * 0.5f);
    return make_uint4(out[0], out[1], out[2], out[3]);
  }
  struct Held { uint4 x; };
  template <int> static Held held(const Args& a, int m, int k) { return {load_visible_16(a.x + m * K + k)}; }
  static uint4 operand(const Held& held, const Args&, int, int, const float*) { return held.x; }
  template <int> static float statistic(const Held&, const Args&, int, int, const float*) { return 0; }
  static void store(const Args& a, int m, int row, const float (&sums)[PARTS], const float*) {
    for (int p = 0; p < PARTS; ++p) pl_put(a.y + (p * M + m) * N + row, sums[p]);
  }
};

template <class P> int product() {
  constexpr int N = P::rows, K = P::depth, M = P::count, bytes = K * P::bits / 8;
  std::vector<u16> x(M * K);
  std::vector<u8> codes((size_t)P::parts * N * bytes);
  std::vector<float> scales((size_t)P::parts * N * (K / P::group)), zeros(scales.size()), y(P::parts * M * N, NAN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = rounded(std::sin(0.37 * i + 1) + 0.3, P::bf16);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = (u8)((i * 2654435761u >> 13) % (P::code == code_e5m2 ? 67 : 119));
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.25f * (float)(1 + i % 7), zeros[i] = (float)(i % 11);
  const Args args{x.data(), codes.data(), scales.data(), zeros.data(), y.data()};
  void* pointers[] = {x.data(), codes.data(), scales.data(), zeros.data(), y.data()};
  const size_t sizes[] = {x.size() * 2, codes.size(), scales.size() * 4, zeros.size() * 4, y.size() * 4};
  cpu::waits = cpu::launches = 0;
  cpu::asked_for_x = false;
  int wrong = emu_launch([&] { skinny_product<P>(args, emu::block->dynamic.data(), blockIdx.x, P::blocks); }, P::blocks, P::warps * 32, 1, false,
                         SkinnyLayout<P>::shared_bytes, pointers, sizes, 5);
  wrong += cpu::asked_for_x + (cpu::waits != P::blocks * P::warps * 32);
  // By place within eight: which element is there, as the policy's order says of what comes out of the word.
  int element_at[8];
  for (int i = 0; i < 8; ++i) {
    constexpr int nibbles[8] = {0, 4, 1, 5, 2, 6, 3, 7}, eights[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    const int place = P::code == code_nibbles ? nibbles[i] : P::code == code_i8 || P::code == code_u8 ? eights[i] : i;
    element_at[place] = P::order >> (4 * i) & 7;
  }
  for (int p = 0; p < P::parts; ++p)
    for (int n = 0; n < N; ++n)
      for (int m = 0; m < M; ++m) {
        double exact = 0;
        for (int at = 0; at < K; ++at) {
          const size_t row = (size_t)p * N + n;
          const u32 code = P::code_at(codes.data(), p, n, at);
          const int k = P::turned ? at : at / 8 * 8 + element_at[at % 8];
          const size_t g = row * (K / P::group) + k / P::group;
          double w = P::code == code_computed ? code * 0.5 : meaning(P::code, false, code);
          if (P::zeroed) w -= zeros[g];
          if (P::scaling != scale_none) w *= scales[g];
          exact += w * of(x[m * K + k], P::bf16);
        }
        const double got = y[(p * M + m) * N + n];
        if (!(std::abs(got - exact) <= 2e-5 * (1 + std::sqrt(K) * 100))) ++wrong;
      }
  return wrong;
}
constexpr u32 plain = 0x76543210u, bytes_order = 0x75643120u, nibbles_order = 0x73625140u, high_first = 0x62734051u;

extern "C" int code_0() { return every_code<One<code_i8, true, false, 0>>() + every_code<One<code_i8, false, false, 0>>(); }
extern "C" int code_1() { return every_code<One<code_u8, true, false, 0>>() + every_code<One<code_u8, false, false, 0>>(); }
extern "C" int code_2() { return every_code<One<code_u8, true, false, 128>>() + every_code<One<code_u8, false, false, 128>>(); }
extern "C" int code_3() { return every_code<One<code_e4m3, true, false, 0>>() + every_code<One<code_e4m3, false, false, 0>>(); }
extern "C" int code_4() { return every_code<One<code_e5m2, true, false, 0>>() + every_code<One<code_e5m2, false, false, 0>>(); }
extern "C" int code_5() { return every_code<One<code_nibbles, true, false, 8>>() + every_code<One<code_nibbles, false, false, 8>>(); }
extern "C" int code_6() { return every_code<One<code_nibbles, true, true, 0>>() + every_code<One<code_nibbles, false, true, 0>>(); }
//                                                 N   K   M parts tiles warps stages blocks ring  kept   code        scale       group zeros order
extern "C" int product_0() { return product<Policy<37, 128, 1, 1, 1, 2, 3, 2, true, true, code_i8, scale_row, 128, false, bytes_order>>(); }
extern "C" int product_1() { return product<Policy<32, 208, 3, 2, 1, 2, 2, 1, true, true, code_u8, scale_none, 208, true, bytes_order>>(); }
extern "C" int product_2() { return product<Policy<40, 512, 8, 1, 2, 2, 4, 1, false, true, code_e4m3, scale_step, 64, false, plain>>(); }
extern "C" int product_3() { return product<Policy<50, 256, 9, 1, 1, 2, 3, 1, true, false, code_e5m2, scale_piece, 16, false, plain, false>>(); }
extern "C" int product_4() { return product<Policy<33, 640, 5, 1, 1, 2, 9, 2, true, true, code_nibbles, scale_step, 128, true, nibbles_order>>(); }
extern "C" int product_5() { return product<Policy<20, 288, 16, 1, 1, 2, 2, 1, true, false, code_nibbles, scale_piece, 32, true, high_first, false>>(); }
extern "C" int product_6() { return product<Policy<16, 256, 1, 3, 1, 1, 1, 1, true, true, code_nibbles, scale_row, 256, false, nibbles_order>>(); }
extern "C" int product_8() { return product<Policy<36, 256, 3, 1, 2, 2, 2, 2, true, true, code_nibbles, scale_step, 128, true, nibbles_order, true, true>>(); }
extern "C" int product_9() { return product<Policy<100, 160, 9, 2, 4, 2, 1, 1, false, false, code_nibbles, scale_piece, 32, true, nibbles_order, false, true>>(); }
extern "C" int product_10() { return product<Policy<96, 256, 3, 1, 2, 2, 2, 2, true, true, code_nibbles, scale_step, 128, true, plain, true, false, 0x75316420u>>(); }
extern "C" int product_11() { return product<Policy<160, 160, 9, 2, 4, 2, 3, 1, true, false, code_nibbles, scale_piece, 32, true, plain, false, false, 0x01234567u>>(); }
extern "C" int product_12() { return product<Policy<33, 640, 5, 1, 1, 2, 9, 2, true, true, code_nibbles, scale_step, 128, true, nibbles_order, true, false, 0, false>>(); }
extern "C" int product_13() { return product<Policy<20, 288, 16, 1, 1, 2, 2, 1, true, false, code_nibbles, scale_piece, 32, true, high_first, true, false, 0, false>>(); }
extern "C" int product_14() { return product<Policy<50, 192, 2, 2, 3, 2, 2, 2, true, true, code_nibbles, scale_piece, 32, true, nibbles_order>>(); }
extern "C" int product_7() { return product<Policy<35, 128, 2, 1, 1, 1, 2, 1, true, true, code_computed, scale_row, 128, false, plain>>(); }
)";

TEST_CASE("products of weights in 8 and 4 bits are right on a CPU, and all codes exact") {
  const std::array<DeviceFile, 1> instead{{{"sm90/ptx.cuh", codes_machine}}};
  const std::array<std::string_view, 1> names{"sm90/skinny.cuh"};
  const std::string source = device_text(names, instead) + std::string(codes_cases);
  const Compiled compiled(source, fmt::format("-std=c++20 -O1 -w -I{}/tests/codegen/tools", PLANISH_SOURCE_DIR));
  for (int i = 0; i < 7; ++i) {
    CAPTURE(i);
    CHECK(compiled.function<int()>(fmt::format("code_{}", i))() == 0);
  }
  for (int i = 0; i < 15; ++i) {
    CAPTURE(i);
    CHECK(compiled.function<int()>(fmt::format("product_{}", i))() == 0);
  }
}

}  // namespace
}  // namespace planish::codegen
