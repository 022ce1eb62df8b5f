#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "codegen/attention_samples.h"
#include "codegen/compiled.h"
#include "codegen/contraction/mma_product.h"
#include "codegen/contraction_samples.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/graph_builder.h"
#include "codegen/half_numbers.h"
#include "codegen/interpreter.h"
#include "codegen/lower/lower.h"
#include "codegen/lower/narrow_products.h"
#include "codegen/machine_math.h"
#include "codegen/partition/partition.h"
#include "codegen/sm80_machine.h"
#include "codegen/sm90_machine.h"

namespace planish::codegen {
namespace {

using contraction::MmaTiling;
using samples::ContractionSample;

struct MmaPrinted {
  ContractionSample sample;
  MmaTiling tiling;
};

std::vector<MmaPrinted> mma_printed_cases() {
  const DType bf16 = DType::bf16;
  std::vector<MmaPrinted> out;
  out.push_back({samples::linear_sample(150, 88, 136, bf16), {.tile_columns = 64, .tile_depth = 64, .stages = 3}});
  out.push_back({samples::mm_sample(70, 40, 72, DType::f16), {.tile_rows = 64, .tile_columns = 64}});
  out.push_back({samples::transposed_sample(72, 50, 200, bf16), {.tile_rows = 64, .tile_columns = 32, .splits = 3}});
  out.back().tiling.warps_columns = 1;
  out.push_back({samples::heads_sample(2, 3, 70, 24, bf16), {.tile_rows = 32, .tile_columns = 32, .tile_depth = 64}});
  out.push_back({samples::linear_sample(64, 51, 80, bf16), {.tile_rows = 64, .tile_columns = 32, .fast = true}});
  return out;
}

/// Inputs as the interpreter has them, and as they lie in memory.
struct MmaInputs {
  explicit MmaInputs(const Kernel& kernel) {
    for (const Input& input : kernel.inputs) {
      std::vector<double> values;
      std::vector<unsigned char> bytes(static_cast<std::size_t>(input.storage_elements * size_of(input.dtype)));
      for (std::int64_t at = 0; at < input.storage_elements; ++at) {
        const double x = std::sin(static_cast<double>(at * 11 + input.value * 17 + 2));
        const std::uint16_t half = to_bits(x, input.dtype);
        REQUIRE(size_of(input.dtype) == 2);
        std::memcpy(&bytes[static_cast<std::size_t>(at) * 2], &half, 2);
        values.push_back(of_bits(half, input.dtype));
      }
      data.push_back(std::move(values));
      memory.push_back(std::move(bytes));
    }
  }
  std::vector<std::vector<double>> data;
  std::vector<std::vector<unsigned char>> memory;
};

/// The printed kernel in a namespace of its own, and a function that runs it.
std::string runnable(std::size_t number, const Kernel& kernel, const MmaTiling& tiling,
                     const contraction::DevicePrinted& printed, const Emitted& emitted) {
  std::string call, text = printed.text;
  for (const int input : printed.inputs) call += fmt::format("(const unsigned short*)args[{}], ", input);
  text.replace(text.find("extern \"C\""), 10, "");
  const auto shared = text.find("extern __shared__");
  text.replace(shared, text.find('\n', shared) - shared, "unsigned char* const pl_smem = shared_memory();");
  const bool split = tiling.splits > 1;
  return fmt::format(
      "namespace case{0} {{\n{1}}}\nextern \"C\" bool run{0}(void** args, bool late) {{\n  std::vector<float> "
      "partial({2});\n  std::vector<u32> arrived({3});\n  begin_copies(late);\n  return run_blocks(3, {4}, [&] {{ "
      "case{0}::planish_kernel({5}(unsigned short*)args[{6}]{7}); }});\n}}\n",
      number, text, split ? emitted.scratch_bytes[0] / 4 : 0, split ? emitted.scratch_bytes[1] / 4 : 0,
      emitted.block[0], call, kernel.inputs.size(), split ? ", partial.data(), arrived.data()" : "");
}

/// All cases in one library: it is the compiler that takes the time.
TEST_CASE("kernels printed for the mma.sync device file of products compute what the kernel says") {
  const auto cases = mma_printed_cases();
  const Device a100 = older("sm_80");
  static constexpr std::array<std::string_view, 1> files{"sm80/product.cuh"};
  const std::array<DeviceFile, 1> instead{{{"sm80/ptx.cuh", sm80_ptx}}};
  std::string source =
      std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead) + machine_math();
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const auto product = contraction::product_of(cases[i].sample.kernel);
    REQUIRE(product);
    REQUIRE(contraction::device_product_lacks(*product) == "");
    REQUIRE(contraction::mma_tiling_lacks(*product, cases[i].tiling, a100) == "");
    source += runnable(i, product->kernel, cases[i].tiling, contraction::print_mma_product(*product, cases[i].tiling),
                       contraction::emit_mma_product(*product, cases[i].tiling, a100));
  }
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const Kernel& kernel = cases[i].sample.kernel;
    MmaInputs inputs(kernel);
    const auto wanted = Interpreter(kernel, inputs.data).run().front();
    const DType dtype = kernel.outputs[0].dtype;
    std::vector<std::uint16_t> got(wanted.size(), 0x7f7f), again(wanted.size(), 0x7f7f);
    std::vector<void*> args;
    for (auto& each : inputs.memory) args.push_back(each.data());
    auto* const run = library.function<bool(void**, bool)>(fmt::format("run{}", i));
    args.push_back(got.data());
    REQUIRE(run(args.data(), true));
    args.back() = again.data();
    REQUIRE(run(args.data(), false));
    CHECK(got == again);
    double worst = 0;
    for (std::size_t at = 0; at < wanted.size(); ++at)
      worst = std::max(worst, std::abs(of_bits(got[at], dtype) - wanted[at]) / (1 + std::abs(wanted[at])));
    // What the graph rounds in between, and the result.
    CHECK(worst < 0x1p-6);
  }
}

TEST_CASE("products of two 16-bit tensors have guesses for mma.sync from sm_80 on, which fit") {
  const auto sample = samples::linear_sample(2048, 4096, 1024, DType::bf16);
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a"}) {
    CAPTURE(arch);
    const Device device = older(arch);
    const auto guesses = seeds(sample.kernel, device);
    REQUIRE(guesses.size() > 3);
    for (const Genome& guess : guesses) {
      const auto emitted = emit(sample.kernel, device, guess);
      REQUIRE(emitted);
      CHECK(emitted->source.contains("product_by_mma<Policy>"));
      CHECK_FALSE(emitted->source.contains("griddepcontrol"));
      CHECK(emitted->shared <= device.shared_bytes);
      CHECK(emitted->grid[0] <= device.sms * guess.at("min_blocks"));
    }
    Genome wide = guesses.front();
    wide["tile_m"] = 256, wide["tile_n"] = 256, wide["threads"] = 128;
    CHECK(illegal(sample.kernel, device, wide) == "a warp's sums are more than its registers");
  }
  // Before sm_80 there is no such instruction.
  for (const Genome& guess : seeds(sample.kernel, older("sm_75")))
    CHECK_FALSE(emit(sample.kernel, older("sm_75"), guess)->source.contains("mma.sync"));
}

TEST_CASE(
    "few rows and few queries have kernels from sm_80 on, which are launched in turn where that is all there is") {
  const auto skinny = samples::linear_sample(4, 2048, 2048, DType::bf16);
  const samples::Heads one_token{
      .heads = 8, .keyed = 2, .queries = 1, .keys = 2048, .features = 128, .dtype = DType::bf16};
  const auto decode = samples::attention_sample(one_token);
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_100a"}) {
    for (const auto& [sample, call] : {std::pair{&skinny, "skinny_product<"}, {&decode, "decode_attention<"}}) {
      CAPTURE(arch);
      CAPTURE(call);
      const Device device = older(arch);
      const auto guesses = seeds(sample->kernel, device);
      REQUIRE_FALSE(guesses.empty());
      const auto emitted = emit(sample->kernel, device, guesses.front());
      REQUIRE(emitted);
      const bool chained = backend::architecture(arch).dependent_launch;
      CHECK(emitted->source.contains(call));
      CHECK(emitted->source.contains(fmt::format("chained = {};", chained)));
      CHECK(emitted->early.has_value() == chained);
      CHECK(emitted->shared <= device.shared_bytes);
    }
  }
}

TEST_CASE("where warps ask for products, a partition has those of 16-bit tensors, and leaves others to PyTorch") {
  PartitionOptions options;
  options.limits.contractions = options.limits.narrow_products = true;
  const auto regions = [&](DType dtype) {
    GraphBuilder g;
    const int a = g.input({256, 512}, dtype), b = g.input({512, 384}, dtype);
    const int y = g.node("mm.default", {V("self", a), V("mat2", b)}, {256, 384}, dtype);
    g.output(g.node("relu.default", {V("self", y)}, {256, 384}, dtype));
    const auto found = partition(g.graph, options);
    REQUIRE(found);
    return std::ranges::count_if(found->regions,
                                 [](const Region& one) { return one.kernel.anchor == Anchor::contraction; });
  };
  CHECK(regions(DType::bf16) == 1);
  CHECK(regions(DType::f16) == 1);
  CHECK(regions(DType::f32) == 0);
  CHECK_FALSE(multiplies_wide(samples::linear_sample(256, 384, 512, DType::bf16).kernel));
  CHECK(multiplies_wide(samples::mm_sample(64, 63, 64, DType::bf16).kernel));
  CHECK(multiplies_wide(samples::mm_sample(64, 64, 64).kernel));
}

}  // namespace
}  // namespace planish::codegen
