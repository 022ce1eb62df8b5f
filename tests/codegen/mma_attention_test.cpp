#include "codegen/attention/mma_attention.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "codegen/attention/half_kernel.h"
#include "codegen/compiled.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/emit/expression.h"
#include "codegen/half_attention_data.h"
#include "codegen/sm80_machine.h"
#include "codegen/sm90_machine.h"

namespace planish::codegen {
namespace {

using attention::MmaAttentionTiling;
using samples::Heads;

struct MmaAttentionCase {
  Heads heads;
  MmaAttentionTiling plan;
};

std::vector<MmaAttentionCase> mma_attention_cases() {
  const DType bf16 = DType::bf16, f16 = DType::f16;
  std::vector<MmaAttentionCase> out;
  out.push_back({{.batch = 1, .heads = 3, .queries = 70, .keys = 90, .features = 24, .columns = 40, .dtype = bf16},
                 {.row_blocks = 2, .keys = 32, .stages = 2}});
  Heads heads{.batch = 1, .heads = 2, .queries = 140, .keys = 140, .features = 64, .dtype = f16};
  heads.causal = heads.beside = true;
  out.push_back({heads, {.keys = 48, .section = 2}});
  heads = {.batch = 2, .heads = 4, .keyed = 2, .queries = 80, .keys = 80, .features = 16, .dtype = bf16};
  heads.causal = heads.beside = true;
  out.push_back({heads, {.keys = 16, .stages = 3, .section = 3}});
  out.push_back({{.batch = 1, .heads = 1, .queries = 150, .keys = 130, .features = 16, .window = 40, .dtype = bf16},
                 {.keys = 16, .stages = 2}});
  out.push_back({{.batch = 1, .heads = 1, .queries = 66, .keys = 50, .features = 72, .mask = 1, .dtype = bf16},
                 {.keys = 16, .stages = 2}});
  out.push_back({{.batch = 1, .heads = 2, .queries = 130, .keys = 40, .features = 16, .mask = 2, .dtype = bf16},
                 {.row_blocks = 2, .keys = 16}});
  out.push_back({{.batch = 1, .heads = 1, .queries = 40, .keys = 64, .features = 144, .dtype = bf16}, {.keys = 32}});
  heads = {.batch = 1, .heads = 2, .queries = 66, .keys = 64, .features = 32, .dtype = f16};
  heads.sink = true;
  out.push_back({heads, {.keys = 32, .stages = 2}});
  return out;
}

/// All cases in one library: it is the compiler that takes the time.
TEST_CASE("the mma.sync device file of attention computes the definition on a CPU, whatever the tiles") {
  const auto cases = mma_attention_cases();
  static constexpr std::array<std::string_view, 1> files{"sm80/attention.cuh"};
  const std::array<DeviceFile, 1> instead{{{"sm80/ptx.cuh", sm80_ptx}}};
  std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead);
  std::vector<attention::HalfKernel> printed;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const auto sample = samples::attention_sample(cases[i].heads);
    const Kernel& kernel = sample.kernel;
    const auto parts = attention_of(kernel);
    REQUIRE(parts);
    const auto half = attention::half_attention_of(kernel, *parts);
    REQUIRE_MESSAGE(half, half.error().message);
    REQUIRE(attention::mma_attention_lacks(*half, cases[i].plan, older("sm_80")) == "");
    printed.push_back(attention::print_mma_kernel(kernel, *parts, *half, cases[i].plan));
    std::string call, text = printed.back().printed;
    for (const int input : printed.back().inputs) {
      const DType dtype = kernel.inputs[static_cast<std::size_t>(input)].dtype;
      call += fmt::format("(const {}*)args[{}], ", dtype == DType::boolean ? "unsigned char" : "unsigned short",
                          kernel.inputs[static_cast<std::size_t>(input)].value);
    }
    text.replace(text.find("extern \"C\""), 10, "");
    const auto shared = text.find("extern __shared__");
    text.replace(shared, text.find('\n', shared) - shared, "using ::pl_smem;");
    source += fmt::format(
        "namespace case{0} {{\n{1}}}\nextern \"C\" long run{0}(void** args, int blocks, bool late) {{\n  "
        "begin_copies(late);\n  conflicts = 0;\n  const bool ended = run_blocks(blocks, {2}, [&] {{ "
        "case{0}::planish_kernel({3}(unsigned short*)args[5]); }});\n  return ended ? conflicts : -1;\n}}\n",
        i, text, printed.back().threads, call);
  }
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const Heads& h = cases[i].heads;
    HalfData data = half_data_of(h);
    const std::int64_t columns = h.columns > 0 ? h.columns : h.features;
    std::vector<std::uint16_t> out(static_cast<std::size_t>(h.batch * h.heads * h.queries * columns), 0x7fff);
    auto again = out;
    void* const mask = h.mask == 1 ? static_cast<void*>(data.mask.data()) : data.bias.data();
    void* args[6] = {data.q.data(), data.k.data(), data.v.data(), h.sink ? data.sinks.data() : mask, mask, out.data()};
    auto* const run = library.function<long(void**, int, bool)>(fmt::format("run{}", i));
    // A block for each tile, and blocks that do several.
    REQUIRE(run(args, static_cast<int>(printed[i].tiles), true) == 0);
    compare_half(h, data, out);
    args[5] = again.data();
    REQUIRE(run(args, static_cast<int>((printed[i].tiles + 1) / 2), false) == 0);
    CHECK(out == again);
  }
}

TEST_CASE("16-bit attention has guesses for mma.sync from sm_80 on, which fit; heads of 32 to 256") {
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_100a", "sm_120a"}) {
    for (const std::int64_t features : {32, 64, 96, 128, 192, 256}) {
      CAPTURE(arch);
      CAPTURE(features);
      Heads heads{.batch = 2, .heads = 8, .keyed = 2, .queries = 512, .keys = 512, .features = features};
      heads.dtype = DType::bf16;
      heads.causal = heads.beside = true;
      const auto sample = samples::attention_sample(heads);
      const Device device = older(arch);
      const auto guesses = seeds(sample.kernel, device);
      REQUIRE_FALSE(guesses.empty());
      for (const Genome& guess : guesses) {
        const auto emitted = emit(sample.kernel, device, guess);
        REQUIRE(emitted);
        CHECK(emitted->source.contains("attention_by_mma<Policy>"));
        CHECK_FALSE(emitted->source.contains("griddepcontrol"));
        CHECK(emitted->args.size() == 4);
        CHECK(emitted->shared <= device.shared_bytes);
      }
    }
  }
}

}  // namespace
}  // namespace planish::codegen
