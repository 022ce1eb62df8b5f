#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <vector>

#include "codegen/attention/cuda_half_attention.h"
#include "codegen/attention/half.h"
#include "codegen/attention/half_kernel.h"
#include "codegen/attention_samples.h"
#include "codegen/compiled.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/expression.h"
#include "codegen/half_attention_data.h"
#include "codegen/sm90_machine.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

using attention::HalfTiling;
using samples::attention_sample;
using samples::Heads;

struct HalfCase {
  Heads heads;
  HalfTiling plan;
  double offset = 0, roundings = 1.2;
};

/// All cases in one library: it is the compiler that takes the time.
TEST_CASE("the device file of attention computes the definition on a CPU, whatever the tiles") {
  const DType bf16 = DType::bf16, f16 = DType::f16;
  const std::vector<HalfCase> cases{
      {{.batch = 1, .heads = 3, .queries = 70, .keys = 90, .features = 24, .columns = 40, .dtype = bf16},
       {2, 32, 2, true, true, 1}},
      {{.batch = 1,
        .heads = 2,
        .queries = 140,
        .keys = 140,
        .features = 64,
        .causal = true,
        .dtype = f16,
        .beside = true},
       {1, 48, 1, false, false, 2}},
      {{.batch = 2,
        .heads = 4,
        .keyed = 2,
        .queries = 80,
        .keys = 80,
        .features = 16,
        .causal = true,
        .dtype = bf16,
        .beside = true},
       {2, 16, 3, true, false, 3}},
      {{.batch = 1, .heads = 1, .queries = 150, .keys = 130, .features = 16, .window = 40, .dtype = bf16},
       {1, 16, 2, true, false, 1}},
      {{.batch = 1, .heads = 1, .queries = 66, .keys = 50, .features = 72, .mask = 1, .dtype = bf16},
       {1, 16, 2, true, false, 1}},
      {{.batch = 1, .heads = 2, .queries = 130, .keys = 40, .features = 16, .mask = 2, .dtype = bf16},
       {3, 16, 2, false, true, 1}},
      {{.batch = 2, .heads = 3, .queries = 70, .keys = 50, .features = 16, .mask = 1, .dtype = bf16, .sink = true},
       {1, 16, 2, true, false, 1}},
      {{.batch = 1, .heads = 2, .queries = 66, .keys = 64, .features = 32, .dtype = f16, .sink = true},
       {1, 32, 2, false, false, 1}},
      // Scores of tens of thousands: the largest weight is 1, which no rounding moves.
      {{.batch = 1, .heads = 2, .queries = 100, .keys = 100, .features = 64, .causal = true, .dtype = f16},
       {1, 48, 1, false, false, 1},
       91,
       0.65},
  };
  static constexpr std::array<std::string_view, 1> files{"sm90/attention.cuh"};
  const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
  std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead);
  std::vector<samples::ContractionSample> kernels;
  std::vector<attention::HalfKernel> printed;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    kernels.push_back(attention_sample(cases[i].heads));
    const Kernel& kernel = kernels.back().kernel;
    const auto parts = attention_of(kernel);
    REQUIRE(parts);
    const auto half = attention::half_attention_of(kernel, *parts);
    REQUIRE_MESSAGE(half, half.error().message);
    CHECK(half->plain == (cases[i].heads.mask == 0));
    CHECK(half->tests.size() == (cases[i].heads.causal ? 1 : cases[i].heads.window > 0 ? 2 : 0));
    REQUIRE(attention::check(*half, cases[i].plan, 232448));
    printed.push_back(attention::print_half_kernel(kernel, *parts, *half, cases[i].plan, 232448));
    std::string call;
    for (const int input : printed.back().inputs) {
      const DType dtype = kernel.inputs[static_cast<std::size_t>(input)].dtype;
      call += fmt::format("(const {}*)args[{}], ", dtype == DType::boolean ? "unsigned char" : "unsigned short",
                          kernel.inputs[static_cast<std::size_t>(input)].value);
    }
    std::string text = printed.back().printed;
    text.replace(text.find("extern \"C\""), 10, "");
    source += fmt::format(
        "namespace case{0} {{\n{1}}}\nextern \"C\" bool run{0}(void** args, int blocks) {{\n  std::vector<char> "
        "maps(blocks * 384);\n  return run_blocks(blocks, {2}, [&] {{ case{0}::planish_kernel({3}(unsigned "
        "short*)args[5], maps.data()); }});\n}}\n",
        i, text, printed.back().threads, call);
  }
  // `extern` within a function of a namespace would be another array.
  for (std::size_t found = 0; (found = source.find("extern __shared__", found)) != source.npos;)
    source.replace(found, source.find('\n', found) - found, "using ::pl_smem;");
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const Heads& h = cases[i].heads;
    HalfData data = half_data_of(h, cases[i].offset);
    const std::int64_t columns = h.columns > 0 ? h.columns : h.features;
    std::vector<std::uint16_t> out(static_cast<std::size_t>(h.batch * h.heads * h.queries * columns), 0x7fff);
    void* const mask = h.mask == 1 ? static_cast<void*>(data.mask.data()) : data.bias.data();
    void* args[6] = {data.q.data(), data.k.data(), data.v.data(), h.sink ? data.sinks.data() : mask, mask, out.data()};
    // Blocks that do several tiles each.
    REQUIRE(library.function<bool(void**, int)>(fmt::format("run{}", i))(args,
                                                                         static_cast<int>((printed[i].tiles + 1) / 2)));
    compare_half(h, data, out, cases[i].roundings);
  }
}

TEST_CASE("16-bit attention is read where it lies, by one launch") {
  Device device;
  device.target = &backend::cuda();
  device.arch = "sm_90a";
  const auto sample = attention_sample({.batch = 2,
                                        .heads = 8,
                                        .keyed = 2,
                                        .queries = 512,
                                        .keys = 512,
                                        .features = 128,
                                        .causal = true,
                                        .dtype = DType::bf16,
                                        .beside = true});
  const auto guesses = seeds(sample.kernel, device);
  REQUIRE_FALSE(guesses.empty());
  for (const Genome& guess : guesses) {
    const auto emitted = emit(sample.kernel, device, guess);
    REQUIRE(emitted);
    CHECK(emitted->after.empty());
    CHECK(emitted->args.size() == 5);
    CHECK(emitted->shared <= device.shared_bytes);
  }
  Genome wide = guesses.front();
  wide["tile_n"] = 256;
  CHECK_FALSE(illegal(sample.kernel, device, wide).empty());
  // Where a row is no multiple of 16 bytes tensor maps do not reach it: the form of fp32 packs it.
  const auto odd = attention_sample({.queries = 64, .keys = 64, .features = 20, .dtype = DType::bf16});
  const auto packed = seeds(odd.kernel, device);
  REQUIRE_FALSE(packed.empty());
  CHECK(emit(odd.kernel, device, packed.front())->after.size() == 3);
}

TEST_CASE("masks by place bound the keys that are walked through") {
  const auto sample = attention_sample(
      {.batch = 1, .heads = 2, .queries = 300, .keys = 300, .features = 64, .causal = true, .dtype = DType::bf16});
  const auto parts = attention_of(sample.kernel);
  REQUIRE(parts);
  const auto half = attention::half_attention_of(sample.kernel, *parts);
  REQUIRE(half);
  const HalfTiling plan{2, 64, 2, true, true, 1};
  CHECK(attention::key_tiles(*half, plan, 0).end == 2);
  CHECK(attention::key_tiles(*half, plan, 128).end == 4);
  CHECK(attention::key_tiles(*half, plan, 256).end == 5);
  auto window = *half;
  window.tests.push_back({-1, 1, 99});  // key ≥ row - 99
  CHECK(attention::key_tiles(window, plan, 256).begin == 2);
  CHECK(attention::key_tiles(window, plan, 128).begin == 0);
}

}  // namespace
}  // namespace planish::codegen
