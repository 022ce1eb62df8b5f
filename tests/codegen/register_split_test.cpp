// A factor of fp32 that is split by those who multiply: what each thread of the printed text reads of a stage is what
// the tensor core takes of it beside the other factor, whose columns are packed in another order; run on the CPU.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/pack.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction_executor.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"

namespace planish::codegen {
namespace {

using namespace contraction;

/// Lines of `text` that contain `what`, in order.
std::vector<std::string> lines_with(const std::string& text, const std::string& what) {
  std::vector<std::string> out;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    const std::size_t begin = text.rfind('\n', at) + 1;
    out.push_back(text.substr(begin, text.find('\n', at) - begin));
  }
  return out;
}

/// A function of a text, from its head to the closing brace in the first column.
std::string function_of(const std::string& text, const std::string& head) {
  const std::size_t begin = text.find(head);
  REQUIRE(begin != std::string::npos);
  return text.substr(begin, text.find("\n}\n", begin) + 3 - begin);
}

TilePlan plan_of_text(const std::string& text) {
  const auto plan = from_text(text);
  REQUIRE(plan);
  return *plan;
}

const std::vector<std::string> plans{
    "load_mode_a=registers maps=1 bm=128 consumers=2 bn=64 bk=64 stages=3 exchange=32",
    "load_mode_a=registers maps=1 bm=64 consumers=1 bn=128 bk=32 promote_k=64 stages=4 exchange=32",
    "load_mode_a=registers maps=1 bm=64 consumers=2 ping_pong=1 bn=32 bk=64 stages=3 exchange=32",
    "load_mode_a=registers maps=1 bm=128 consumers=2 bn=16 bk=128 promote_k=128 stages=2 exchange=32",
};

// Elements are numbers, whose halves are parts: what a thread has of both is the element.
constexpr const char* machine = R"(#include <cmath>
#include <cstdint>
#include <cstring>
typedef unsigned int u32;
typedef unsigned long long u64;
#define PL_DEVICE static inline
static float stages[1 << 18];
static struct { unsigned x; } threadIdx;
static void shared_load_floats(float (&x)[4], u32 from) { memcpy(x, (char*)stages + from, 16); }
static void split_pair(u32& hi, u32& lo, float a, float b) { hi = (u32)a; lo = (u32)b; }
static float larger_magnitude(float top, float x) { return fmaxf(top, fabsf(x)); }
)";

/// `run(thread, group, stage, elements, out, top)`: both elements of the four registers of each step of a stage.
std::string reading_source(const std::string& kernel, std::size_t number) {
  const auto own = lines_with(kernel, "const u32 own = "), mine = lines_with(kernel, "const u32 mine = own");
  const auto steps = lines_with(kernel, "split_rows(hi");
  REQUIRE(own.size() == 1);
  REQUIRE(!mine.empty());
  std::string text = fmt::format("namespace k{} {{\n", number) + function_of(kernel, "PL_DEVICE void split_rows");
  text += fmt::format(
      "extern \"C\" int run{}(int thread, int group, int stage, const float* elements, int count, "
      "u32* out, float* top_out) {{\n",
      number);
  text += "  memcpy(stages, elements, 4 * (size_t)count);\n  threadIdx.x = group * 128 + thread;\n";
  text += "  const u32 base = 0;\n  const int lane = thread % 32;\n  float top[2] = {};\n";
  text += "  u32 hi0[4], lo0[4], hi1[4], lo1[4];\n" + own.front() + "\n" + mine.front() + "\n";
  const std::size_t stages = mine.size(), each = steps.size() / stages;  // of a promotion
  REQUIRE(each * stages == steps.size());
  for (std::size_t i = 0; i < each; ++i) {
    text += steps[i] + "\n";
    text += fmt::format(
        "  for (int r = 0; r < 4; ++r) {{ out[{0} + 2 * r] = hi{1}[r]; out[{0} + 2 * r + 1] = "
        "lo{1}[r]; }}\n",
        8 * i, i % 2);
  }
  return text + fmt::format("  top_out[0] = top[0];\n  top_out[1] = top[1];\n  return {};\n}}\n}}\n", each);
}

/// A stage as the copy engine leaves it: boxes of 32 k, a row of which are 128 bytes, whose chunks of 16 are swizzled.
std::vector<float> stage_of(const TilePlan& plan) {
  std::vector<float> out(static_cast<std::size_t>(plan.bm * plan.bk));
  for (int r = 0; r < plan.bm; ++r) {
    for (int k = 0; k < plan.bk; ++k) {
      const int place = k / 32 * plan.bm * 32 + r * 32 + (k % 32 / 4 ^ r % 8) * 4 + k % 4;
      out.at(static_cast<std::size_t>(place)) = static_cast<float>(r * plan.bk + k);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a thread splits the elements whose k the other factor has packed where the tensor core pairs them") {
  const Problem problem{300, 200, 500};
  std::string source = machine;
  std::vector<TilePlan> all;
  for (const auto& text : plans) {
    TilePlan plan = plan_of_text(text);
    REQUIRE(check(problem, plan));
    CHECK(scales(plan));
    CHECK(needs_fallback(plan));
    const auto loop = print_main_loop(problem, plan, plain_store(problem), 132, 232448,
                                      "PL_DEVICE void map_a(u32, const char*) {}\n");
    REQUIRE(loop);
    source += reading_source(loop->source, all.size());
    all.push_back(plan);
  }
  const Compiled compiled(source, "-O1 -w -std=c++20");
  for (std::size_t p = 0; p < all.size(); ++p) {
    const TilePlan& plan = all[p];
    CAPTURE(to_text(plan));
    auto* run =
        compiled.function<int(int, int, int, const float*, int, std::uint32_t*, float*)>(fmt::format("run{}", p));
    const auto elements = stage_of(plan);
    int wrong = 0;
    for (int group = 1; group <= plan.consumers; ++group) {
      for (int thread = 0; thread < 128; ++thread) {
        std::vector<std::uint32_t> found(static_cast<std::size_t>(plan.bk / 2));
        float top[2];
        REQUIRE(run(thread, group, 0, elements.data(), static_cast<int>(elements.size()), found.data(), top) ==
                plan.bk / 16);
        const int lane = thread % 32, first = plan.ping_pong != 0 ? 0 : (group - 1) * 64;
        for (int step = 0; step < plan.bk / 16; ++step) {
          for (int reg = 0; reg < 4; ++reg) {
            for (int half = 0; half < 2; ++half) {
              // PTX, fragments of wgmma's first operand of 16 bits.
              const int row = first + thread / 32 * 16 + lane / 4 + reg % 2 * 8;
              const int slot = step * 16 + lane % 4 * 2 + half + reg / 2 * 8;
              const auto id = static_cast<int>(found[static_cast<std::size_t>(step * 8 + reg * 2 + half)]);
              wrong += id / plan.bk != row || slot_of(plan, id % plan.bk) != slot;
            }
          }
        }
        for (int h = 0; h < 2; ++h)  // the last element of a row is its largest
          wrong += lane % 4 == 3 &&
                   top[h] != static_cast<float>((first + thread / 32 * 16 + lane / 4 + h * 8 + 1) * plan.bk - 1);
      }
    }
    CHECK(wrong == 0);
    // Each bank is asked for once by eight neighbours, who read at once.
    for (int lanes = 0; lanes < 32; lanes += 8) {
      std::uint32_t seen = 0;
      for (int lane = lanes; lane < lanes + 8; ++lane) {
        const int at = lane / 4 * 128 + (lane % 4 * 2 ^ lane / 4) * 16;
        seen |= 1u << (at / 16 % 8);
      }
      CHECK(seen == 0xff);
    }
  }
}

TEST_CASE("columns of the other factor are packed in that order, each once") {
  const auto product = product_of(samples::linear_sample(70, 96, 200).kernel);
  REQUIRE(product);
  for (const auto& text : plans) {
    const TilePlan plan = plan_of_text(text);
    CAPTURE(text);
    const auto extents = extents_of(product->problem, plan);
    const auto packing =
        print_packing(product->kernel, product->c, Operand::b, plan, extents.rows_b, extents.depth, nullptr, nullptr);
    CHECK(packing.part_bytes == extents.rows_b * extents.depth * 2);
    const auto places = lines_with(packing.source, "const long long place = ");
    REQUIRE(!places.empty());
    CHECK(lines_with(packing.source, "put_pairs(out1 + place, lo)").size() == places.size());
    const std::string source =
        "#define PL_DEVICE static\n#define __align__(x) alignas(x)\nstruct alignas(16) Chunk { unsigned short x[8]; "
        "};\n" +
        function_of(packing.source, "PL_DEVICE void put_pairs") +
        "extern \"C\" void put(unsigned char* out0, int batch, int row, int chunk, const unsigned short* v) {\n"
        "  const int r = row % 8;\n  Chunk hi;\n  for (int j = 0; j < 8; ++j) hi.x[j] = v[j];\n" +
        places.front() + "\n  put_pairs(out0 + place, hi);\n}\n";
    const Compiled compiled(source, "-O1 -w -std=c++20");
    auto* put = compiled.function<void(unsigned char*, int, int, int, const std::uint16_t*)>("put");
    std::vector<std::uint16_t> packed(static_cast<std::size_t>(packing.part_bytes / 2));
    const std::int64_t depth = extents.depth;
    for (std::int64_t row = 0; row < extents.rows_b; ++row) {
      for (std::int64_t chunk = 0; chunk < depth / 8; ++chunk) {
        std::uint16_t v[8];
        for (std::int64_t j = 0; j < 8; ++j) v[j] = static_cast<std::uint16_t>(row * depth + chunk * 8 + j + 1);
        put(reinterpret_cast<unsigned char*>(packed.data()), 0, static_cast<int>(row), static_cast<int>(chunk), v);
      }
    }
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < extents.rows_b; ++row) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const auto place = place_in_operand(plan, extents.rows_b, row, slot_of(plan, k)) / 2;
        wrong += packed.at(static_cast<std::size_t>(place)) != static_cast<std::uint16_t>(row * depth + k + 1);
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("what is split in registers needs a tensor map, three products and a packed factor beside it") {
  const Problem problem{256, 256, 256};
  const auto refusal = [&](const std::string& text) {
    const Status status = check(problem, plan_of_text(text));
    return status ? std::string() : status.error().message;
  };
  CHECK(refusal(plans[0]) == "");
  CHECK(refusal("load_mode_a=registers bm=128 bn=64 bk=64 exchange=32").find("tensor maps") != std::string::npos);
  CHECK(refusal("load_mode_a=registers maps=1 scheme=single bm=128 bn=64 bk=64 exchange=32").find("tensor maps") !=
        std::string::npos);
  CHECK(refusal("load_mode_a=registers load_mode_b=along_k maps=1 bm=128 bn=64 bk=64 exchange=32").find("packed") !=
        std::string::npos);
  CHECK(refusal("load_mode_a=along_k load_mode_b=registers maps=1 bm=128 bn=64 bk=64 exchange=32 scheme=plain") != "");
  CHECK(refusal("load_mode_a=registers maps=1 stationary=1 bm=128 bn=256 bk=64 exchange=32") != "");
}

TEST_CASE("operands are swapped for the factor that memory holds along k, and for few rows") {
  const auto genome_with = [](const Kernel& kernel, std::int64_t direct, std::int64_t swap) {
    for (const Genome& genome : seeds(kernel, h200())) {
      if (value_of(genome, "direct", 0) == direct && value_of(genome, "swap_operands", 0) == swap) return true;
    }
    return false;
  };
  // Weights of a linear layer lie along k, and so does its input; the second factor of a product does not.
  const auto linear = samples::linear_sample(128, 4096, 4096), mm = samples::mm_sample(128, 4096, 4096);
  CHECK(genome_with(linear.kernel, 3, 1));
  CHECK(genome_with(mm.kernel, 3, 0));
  CHECK_FALSE(genome_with(mm.kernel, 3, 1));
  // 16 rows are a quarter of the fewest that the first factor's tiles have.
  CHECK(genome_with(samples::mm_sample(16, 4096, 4096).kernel, 0, 1));
  CHECK_FALSE(genome_with(samples::mm_sample(4096, 4096, 4096).kernel, 0, 1));
  // Windows and what slides have one way.
  const auto slid = product_of(samples::conv_sample({.x = {4, 16, 32, 32}, .w = {32, 16, 3, 3}}).kernel);
  REQUIRE(slid);
  CHECK(slid->swapped == nullptr);
  const auto product = product_of(linear.kernel);
  REQUIRE(product);
  REQUIRE(product->swapped != nullptr);
  CHECK(product->swapped->problem.m == product->problem.n);
  CHECK(product->swapped->c.first == product->c.second);
  // 16 bits are read where they lie by maps already.
  const auto narrow = product_of(samples::linear_sample(128, 4096, 4096, DType::bf16).kernel);
  REQUIRE(narrow);
  CHECK_FALSE(can_split_in_registers(*narrow));
}

}  // namespace planish::codegen
