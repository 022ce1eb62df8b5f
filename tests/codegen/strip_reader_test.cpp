// A factor that slides and is read where it lies: the producer's text, run on the CPU thread by thread, against the
// places that the plan says a stage's strips have; and what follows where magnitudes ask for another scale.
#include "codegen/contraction/strip_reader.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/factor_elements.h"

namespace planish::codegen {
namespace {

using namespace contraction;

// Elements are whole numbers, which both parts hold as they are.
constexpr const char* machine = R"(#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
using std::max;
using std::min;
typedef unsigned int u32;
#define PL_DEVICE static inline
#define __constant__ static const
#define __restrict__
#define __ldg(p) (*(p))
struct Eight { float v[8]; };
static struct { int x; } threadIdx;
static bool is_finite(float v) { return std::isfinite(v); }
static int __float_as_int(float v) { int i; memcpy(&i, &v, 4); return i; }
static void atomicMax(int* p, int v) { *p = max(*p, v); }
#define __shfl_xor_sync(mask, value, apart) (value)
static unsigned char stage[1 << 18];
static u32 pack_f16(float low, float high) { return (u32)(low / 128) | (u32)(high / 128) << 16; }
static void split_pair(u32& hi, u32& lo, float a, float b) { hi = pack_f16(a, b); lo = ~hi; }
template <int apart> static void load_eight(Eight& e, const float* from, bool there) {
  for (int j = 0; j < 8; ++j) e.v[j] = there ? from[j * apart] : 0.0f;
}
static void shared_store_words(u32 to, const u32 (&x)[4]) { memcpy(stage + to, x, 16); }
)";

struct Read {
  Product product;
  TilePlan plan;
};

std::vector<Read> all_read() {
  std::vector<Read> out;
  const auto add = [&](const samples::Convolved& how, int m, int n, int passes, int k = 64) {
    auto product = product_of(samples::conv_sample(how).kernel);
    REQUIRE(product);
    CAPTURE(out.size());
    REQUIRE(can_read_strips(*product));
    const Genome genome{{"direct", 1}, {"tile_m", m}, {"tile_n", n}, {"tile_k", k}, {"stages", 2}, {"passes", passes}};
    const TilePlan plan = plan_of(*product, genome, h200());
    const Status fits = check(product->problem, plan);
    REQUIRE_MESSAGE(fits, (fits ? std::string() : fits.error().message));
    out.push_back({std::move(*product), plan});
  };
  add({.x = {2, 16, 12, 12}, .w = {64, 16, 3, 3}, .padding = 1}, 64, 64, 1);
  add({.x = {2, 16, 12, 12}, .w = {64, 16, 3, 3}, .padding = 1}, 64, 32, 3, 32);
  add({.x = {3, 20, 11, 13}, .w = {72, 20, 3, 3}}, 64, 32, 1);  // channels that are no chunks
  add({.x = {2, 16, 23, 26}, .w = {64, 16, 3, 3}, .stride = 2, .padding = 1}, 64, 64, 1);  // phases
  add({.x = {2, 12, 21, 20}, .w = {64, 12, 5, 3}, .padding = 2, .dilation = 2}, 64, 64, 3);
  add({.x = {2, 32, 15, 15}, .w = {128, 16, 3, 3}, .padding = 1, .groups = 2}, 64, 64, 1);  // products of a batch
  add({.x = {2, 10, 100}, .w = {64, 10, 7}, .stride = 1}, 64, 64, 1);
  add({.x = {2, 8, 7, 9, 10}, .w = {64, 8, 3, 3, 3}, .padding = 1}, 64, 128, 1);
  add({.x = {2, 16, 14, 22}, .w = {64, 16, 3, 3}, .padding = 1, .pool = {2, 2}}, 64, 64, 1);  // runs of folded windows
  return out;
}

/// `runN(memory, product, first, strip, out, later, notes)`: a stage, and what was noted of it.
std::string source_of(const Read& one, std::size_t number) {
  const Product& p = one.product;
  return fmt::format("namespace k{} {{\n", number) +
         print_strip_reader(p.kernel, p.c, *p.implicit, p.problem, one.plan, noted_images(p)) +
         fmt::format(
             "extern \"C\" void run{0}(const float* memory, int product, int first, int strip, void* out, int* notes) "
             "{{\n"
             "  memset(stage, 0xee, sizeof stage);\n"
             "  for (int thread = 0; thread < 128; ++thread) {{\n"
             "    Eight v[{1}];\n    int place[{1}];\n    unsigned valid[{1}], later = 0;\n"
             "    float top[2] = {{0.0f, 0.0f}};\n    threadIdx.x = 0;\n"
             "    find_places(place, valid, later, product, first, thread);\n"
             "    ask_strip(v, memory, place, valid, strip, thread);\n"
             "    drop_strip(0, v, later, top, thread);\n    tell_magnitudes(notes, product, first, top);\n  }}\n"
             "  memcpy(out, stage, sizeof stage);\n}}\n}}\n",
             number, one.plan.rounds);
}

/// What the plan's place of a stage's strips holds, as packed planes do (see Im2col); and the largest of each image.
struct Expected {
  const Product& p;
  const Kernel by;
  const Node& load;
  std::vector<std::int64_t> values;

  explicit Expected(const Product& product)
      : p(product),
        by(by_place(p.kernel, p.c, *p.implicit)),
        load(load_of(by, p.c.second)),
        values(by.space.extents.size(), 0) {}

  /// Whether a position is one of the results', whose columns are stored.
  bool is_real(std::int64_t position) const {
    if (position < 0 || position >= p.implicit->positions()) return false;
    std::int64_t later = p.implicit->plane;
    return std::ranges::all_of(p.implicit->dims, [&](const ImplicitDim& slide) {
      later /= slide.places;
      return position / later % slide.places < slide.rows;
    });
  }

  std::uint16_t at(const std::vector<float>& memory, std::int64_t product, std::int64_t phase, std::int64_t channel,
                   std::int64_t position) {
    const ImplicitOperand& s = *p.implicit;
    if (position >= s.positions() || channel >= s.channel_count) return 0;
    std::int64_t later = s.plane, phases = s.phases;
    for (const ImplicitDim& slide : s.dims) {
      later /= slide.places;
      phases /= slide.stride;
      const std::int64_t u = position / later % slide.places * slide.stride + phase / phases % slide.stride;
      if (u >= slide.reach) return 0;
      values[static_cast<std::size_t>(slide.row)] = u;
    }
    decode(by, p.c.batch, product, values);
    decode(by, s.apart, position / s.plane, values);
    decode(by, s.channels, channel, values);
    for (const ir::Bound& bound : load.where) {
      const std::int64_t e = bound.e.evaluate(values);
      if (e < bound.lo || e >= bound.hi) return 0;
    }
    return static_cast<std::uint16_t>(memory.at(static_cast<std::size_t>(load.index.evaluate(values))));
  }
};

}  // namespace

TEST_CASE("strips that are read where they lie are what copies of packed planes would bring") {
  const auto all = all_read();
  std::string source = machine;
  for (std::size_t i = 0; i < all.size(); ++i) source += source_of(all[i], i);
  const Compiled compiled(source, "-O1 -w -std=c++20");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto& [p, plan] = all[i];
    CAPTURE(i);
    CAPTURE(to_text(plan));
    CHECK(reads_strips(plan));
    CHECK(scales(plan));
    auto* run = compiled.function<void(const float*, int, int, int, void*, int*)>(fmt::format("run{}", i));
    Expected expected(p);
    const auto elements = p.kernel.inputs[static_cast<std::size_t>(expected.load.input)].storage_elements;
    std::vector<float> memory(static_cast<std::size_t>(elements));
    for (std::size_t e = 0; e < memory.size(); ++e) memory[e] = static_cast<float>(e * 7 % 60013 + 1);
    const Im2col& columns = *p.problem.im2col;
    const std::int64_t runs = columns.chunks / plan.strip_chunks, count = columns.strip(run_columns(p.problem, plan));
    const std::int64_t plane = columns.chunks * columns.positions, images = noted_images(p);
    const std::int64_t stages = extents_of(p.problem, plan).depth / plan.bk;
    std::int64_t wrong = 0, elements_seen = 0;
    std::vector<unsigned char> stage(1 << 18);
    std::vector<int> notes(static_cast<std::size_t>(images) + 1);
    std::vector<float> tops(static_cast<std::size_t>(images));
    for (std::int64_t product = 0; product < p.problem.batches; ++product) {
      for (std::int64_t first = 0; first < columns.positions; first += plan.bn) {
        for (std::int64_t k = 0; k < stages; ++k) {
          run(memory.data(), static_cast<int>(product), static_cast<int>(first), static_cast<int>(k * plan.strips),
              stage.data(), notes.data());
          std::vector<bool> written(stage.size() / 2);
          for (int part = 0; part < parts(plan); ++part) {
            std::int64_t place = part_offset(p.problem, plan, Operand::b, part) / 2;
            for (std::int64_t strip = k * plan.strips; strip < (k + 1) * plan.strips; ++strip) {
              const std::int64_t tap = strip / runs;
              const bool inside = tap < static_cast<std::int64_t>(columns.offsets.size());
              for (int chunk = 0; chunk < plan.strip_chunks; ++chunk) {
                for (std::int64_t item = 0; item < p.problem.runs() * count; ++item) {
                  const std::int64_t j = item % count;
                  const std::int64_t begin =
                      first +
                      (p.problem.has_runs() ? p.problem.folding->runs[static_cast<std::size_t>(item / count)] : 0);
                  // Columns that are dropped may hold anything.
                  bool stored = false;
                  for (int t = 0; t < columns.taps; ++t) {
                    const std::int64_t column = j - std::int64_t{t} * columns.shift;
                    stored = stored ||
                             (column >= 0 && column < run_columns(p.problem, plan) && expected.is_real(begin + column));
                  }
                  for (int x = 0; x < 8; ++x, ++place) {
                    written[static_cast<std::size_t>(place)] = true;
                    if (!stored) continue;
                    std::uint16_t wanted = 0;
                    const std::int64_t offset = inside ? columns.offsets[static_cast<std::size_t>(tap)] : 0;
                    const std::int64_t position = begin + offset % plane + j;
                    if (inside) {
                      wanted = expected.at(memory, product, offset / plane,
                                           (strip % runs * plan.strip_chunks + chunk) * 8 + x, position);
                    }
                    if (wanted != 0) {
                      const std::int64_t image = position / p.implicit->plane +
                                                 (p.problem.moves(Operand::b) ? product * p.implicit->images : 0);
                      float& top = tops.at(static_cast<std::size_t>(image));
                      top = std::max(top, static_cast<float>(wanted));
                    }
                    if (part == 1) wanted = static_cast<std::uint16_t>(~wanted);
                    std::uint16_t seen = 0;
                    std::memcpy(&seen, stage.data() + 2 * place, 2);
                    wrong += seen != wanted;
                    ++elements_seen;
                  }
                }
              }
            }
          }
          // Nothing else is written: the other factor lies there, and zeros that stay.
          for (std::size_t e = 0; e < written.size(); ++e) wrong += !written[e] && stage[2 * e] != 0xee;
        }
      }
    }
    CHECK(wrong == 0);
    CHECK(elements_seen > 3000);
    for (std::size_t image = 0; image < tops.size(); ++image) {
      float noted = 0;
      std::memcpy(&noted, &notes[image], 4);
      CHECK(noted == tops[image]);
    }
    CHECK(notes.back() == 0);
    // A number that is not finite is none of an image's magnitudes.
    std::ranges::fill(notes, 0);
    std::ranges::fill(memory, INFINITY);
    for (std::int64_t k = 0; k < stages; ++k)
      run(memory.data(), 0, 0, static_cast<int>(k * plan.strips), stage.data(), notes.data());
    CHECK(std::ranges::count(notes, 0) == static_cast<std::ptrdiff_t>(images));
    CHECK(notes.back() != 0);
  }
}

TEST_CASE("images are packed after all where one has to be scaled, and only then") {
  const std::string source =
      "#include <cstring>\nstatic float __int_as_float(int i) { float v; memcpy(&v, &i, 4); return v; }\n"
      "extern \"C\" bool unusual(const int* notes) { bool any = false; for (int i = 0; i < 4; ++i) any |= " +
      is_unusual_text("notes", 3) + "; return any; }\n";
  const Compiled compiled(source, "-O1 -w -std=c++20");
  auto* unusual = compiled.function<bool(const int*)>("unusual");
  const auto with = [&](float top, int flag = 0) {
    int notes[4] = {0, 0, 0, flag};
    std::memcpy(notes + 1, &top, 4);
    return unusual(notes);
  };
  CHECK_FALSE(with(0.0f));
  for (const float top : {0x1p-8f, 1.0f, 479.0f}) CHECK_FALSE(with(top));
  for (const float top : {0x1.fp-9f, 480.0f, 1e30f, 1e-38f}) CHECK(with(top));
  CHECK(with(1.0f, 1));
}

TEST_CASE("where the sum is split a fallback is no image's note, and what strips call comes before them") {
  const auto product =
      product_of(samples::conv_sample({.x = {1, 128, 16, 16}, .w = {64, 128, 3, 3}, .padding = 1}).kernel);
  REQUIRE(product);
  for (const std::int64_t passes : {1, 3}) {
    Genome genome{{"direct", 1}, {"tile_m", 64}, {"tile_n", 64},    {"tile_k", 64},
                  {"stages", 3}, {"split", 4},   {"passes", passes}};
    if (passes == 3) genome["tile_n"] = 32;
    REQUIRE(contraction_illegal(*product, h200(), genome) == "");
    const auto emitted = emit_contraction(*product, h200(), genome);
    REQUIRE(emitted);
    const std::string& loop = emitted->after.front().source;
    REQUIRE(loop.find("drop_strip(at, mine") != std::string::npos);
    CHECK(loop.find("if (odd_ones) fallbacks[1] = 1;") != std::string::npos);
    // Weights packed, the parts, their sums, and in case: images packed in two launches, and both again.
    CHECK(emitted->after.size() == 6);
  }
}

TEST_CASE("strips are offered where the factor is a load of fp32, tiles reach two images, and nothing is mended") {
  const auto ways = [](const samples::Convolved& how) {
    const auto sample = samples::conv_sample(how);
    const auto genes = contraction_genes(*product_of(sample.kernel), h200());
    const auto found = std::ranges::find(genes, "direct", &Gene::name);
    return found == genes.end() ? std::size_t{1} : found->choices.size();
  };
  CHECK(ways({.x = {2, 16, 32, 32}, .w = {64, 16, 3, 3}}) == 2);
  CHECK(ways({.x = {2, 16, 32, 32}, .w = {64, 16, 3, 3}, .dtype = DType::bf16}) == 1);
  // A tile of 256 positions of images of 9 x 9 is of four of them.
  const auto small = product_of(samples::conv_sample({.x = {32, 16, 9, 9}, .w = {64, 16, 3, 3}, .padding = 1}).kernel);
  REQUIRE(small);
  Genome genome{{"direct", 1}, {"tile_m", 64}, {"tile_n", 256}, {"tile_k", 64}, {"stages", 3}, {"passes", 1}};
  CHECK(contraction_illegal(*small, h200(), genome).find("three images") != std::string::npos);
  genome["tile_n"] = 64;
  CHECK(contraction_illegal(*small, h200(), genome) == "");
  const auto emitted = emit_contraction(*small, h200(), genome);
  REQUIRE(emitted);
  // Weights packed, the product, and in case: both launches that pack images, and the product of those.
  REQUIRE(emitted->after.size() == 4);
  for (std::size_t i = 1; i < 4; ++i) {
    CHECK(emitted->after[i].source.find("if (!__syncthreads_or(any)) return;") != std::string::npos);
    CHECK_FALSE(emitted->after[i].packs);
  }
  CHECK(emitted->after[0].source.find("drop_strip(at, mine, later, top, threadIdx.x);") != std::string::npos);
}

}  // namespace planish::codegen
