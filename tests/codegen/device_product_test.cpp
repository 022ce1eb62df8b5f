#include "codegen/contraction/device_product.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/genome_plan.h"
#include "codegen/contraction_samples.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/half_numbers.h"
#include "codegen/interpreter.h"
#include "codegen/machine_math.h"
#include "codegen/sm90_machine.h"

namespace planish::codegen {
namespace {

using contraction::DeviceTiling;
using samples::ContractionSample;

/// x[0] · x[1] in a batch, with a bias of rows, and a residual of fp32, which the result is too.
ContractionSample residual_sample() {
  return samples::contraction_sample("bmm_residual", "", 1, [](GraphBuilder& g) {
    const DType half = DType::f16;
    const std::vector<std::int64_t> shape{2, 70, 54};
    const int a = g.input({2, 70, 72}, half), b = g.input({2, 54, 72}, half);
    const int t = g.node("permute.default", {V("self", b), L("dims", {0, 2, 1})}, {2, 72, 54}, half, {54 * 72, 1, 72});
    const int y = g.node("bmm.default", {V("self", a), V("mat2", t)}, shape, half);
    const int wide = g.node("mul.Tensor", {V("self", y), V("other", g.input({70, 1}, DType::f32))}, shape, DType::f32);
    return g.node("add.Tensor", {V("self", wide), V("other", g.input(shape, DType::f32))}, shape, DType::f32);
  });
}

struct PrintedCase {
  ContractionSample sample;
  DeviceTiling tiling;
};

std::vector<PrintedCase> printed_cases() {
  const DType bf16 = DType::bf16;
  std::vector<PrintedCase> out;
  out.push_back({samples::linear_sample(150, 88, 136, bf16), {.tile_columns = 64, .stages = 3, .cluster = 2}});
  out.push_back({samples::mm_sample(70, 40, 72, DType::f16), {.tile_rows = 64, .tile_columns = 64, .consumers = 1}});
  out.push_back({samples::transposed_sample(72, 50, 200, bf16),
                 {.tile_rows = 64, .tile_columns = 32, .ping_pong = true, .splits = 3}});
  out.push_back({samples::heads_sample(2, 3, 70, 24, bf16), {.tile_columns = 48, .cluster = 2, .share_b = false}});
  out.push_back({residual_sample(), {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .fast = true}});
  out.push_back({samples::linear_sample(64, 51, 80, bf16), {.tile_rows = 64, .tile_columns = 16, .consumers = 1}});
  return out;
}

/// All cases in one library: it is the compiler that takes the time.
TEST_CASE("kernels printed for the device file of products compute what the kernel says") {
  const auto cases = printed_cases();
  static constexpr std::array<std::string_view, 1> files{"sm90/product.cuh"};
  const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
  std::string source =
      std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead) + machine_math();
  std::vector<contraction::DevicePrinted> printed;
  std::vector<Emitted> emitted;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const Kernel& kernel = cases[i].sample.kernel;
    const auto product = contraction::product_of(kernel);
    REQUIRE(product);
    REQUIRE(contraction::device_product_lacks(*product) == "");
    REQUIRE(contraction::device_tiling_lacks(*product, cases[i].tiling, h200()) == "");
    printed.push_back(contraction::print_device_product(*product, cases[i].tiling));
    emitted.push_back(contraction::emit_device_product(*product, cases[i].tiling, h200()));
    std::string call, text = printed.back().text;
    for (const int input : printed.back().inputs) {
      const bool half = kernel.inputs[static_cast<std::size_t>(input)].dtype != DType::f32;
      call += fmt::format("(const {}*)args[{}], ", half ? "unsigned short" : "float", input);
    }
    text.replace(text.find("extern \"C\""), 10, "");
    text.replace(text.find("extern __shared__"),
                 text.find('\n', text.find("extern __shared__")) - text.find("extern __shared__"),
                 "unsigned char* const pl_smem = shared_memory();");
    const bool split = cases[i].tiling.splits > 1;
    source += fmt::format(
        "namespace case{0} {{\n{1}}}\nextern \"C\" bool run{0}(void** args) {{\n  std::vector<char> maps(6 * 256);\n  "
        "std::vector<float> partial({2});\n  std::vector<u32> arrived({3});\n  return run_blocks(6, {4}, [&] {{ "
        "case{0}::planish_kernel({5}({6}*)args[{7}], maps.data(){8}); }}, {9});\n}}\n",
        i, text, split ? emitted.back().scratch_bytes[1] / 4 : 0, split ? emitted.back().scratch_bytes[2] / 4 : 0,
        emitted.back().block[0], call, kernel.outputs[0].dtype == DType::f32 ? "float" : "unsigned short",
        kernel.inputs.size(), split ? ", partial.data(), arrived.data()" : "", cases[i].tiling.cluster);
  }
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const Kernel& kernel = cases[i].sample.kernel;
    std::vector<std::vector<double>> data;
    std::vector<std::vector<unsigned char>> memory;
    for (const Input& input : kernel.inputs) {
      std::vector<double> values;
      std::vector<unsigned char> bytes(static_cast<std::size_t>(input.storage_elements * size_of(input.dtype)));
      for (std::int64_t at = 0; at < input.storage_elements; ++at) {
        const double x = std::sin(static_cast<double>(at * 11 + input.value * 17 + 2));
        const auto place = static_cast<std::size_t>(at);
        if (input.dtype == DType::f32) {
          const auto single = static_cast<float>(x);
          std::memcpy(&bytes[place * 4], &single, 4);
          values.push_back(single);
        } else {
          const std::uint16_t half = to_bits(x, input.dtype);
          std::memcpy(&bytes[place * 2], &half, 2);
          values.push_back(of_bits(half, input.dtype));
        }
      }
      data.push_back(std::move(values));
      memory.push_back(std::move(bytes));
    }
    const auto wanted = Interpreter(kernel, data).run().front();
    const DType dtype = kernel.outputs[0].dtype;
    memory.emplace_back(wanted.size() * static_cast<std::size_t>(size_of(dtype)), '\x7f');
    std::vector<void*> args;
    for (auto& each : memory) args.push_back(each.data());
    REQUIRE(library.function<bool(void**)>(fmt::format("run{}", i))(args.data()));
    double worst = 0;
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      float got;
      std::uint16_t bits;
      if (dtype == DType::f32) {
        std::memcpy(&got, &memory.back()[at * 4], 4);
      } else {
        std::memcpy(&bits, &memory.back()[at * 2], 2);
        got = of_bits(bits, dtype);
      }
      worst = std::max(worst, std::abs(got - wanted[at]) / (1 + std::abs(wanted[at])));
    }
    // What the graph rounds in between, and the result.
    CHECK(worst < 0x1p-6);
  }
}

TEST_CASE("a product of two 16-bit tensors has guesses for the device file, first") {
  const auto sample = samples::linear_sample(2048, 4096, 1024, DType::bf16);
  const auto guesses = seeds(sample.kernel, h200());
  REQUIRE_FALSE(guesses.empty());
  CHECK(guesses.front().at("direct") == contraction::by_file);
  const auto emitted = emit(sample.kernel, h200(), guesses.front());
  REQUIRE(emitted);
  CHECK(emitted->after.empty());
  CHECK(emitted->cluster[0] == (guesses.front().at("multicast") == 0 ? 1 : 2));
  Genome changed = guesses.front();
  const auto refused = [&](const char* gene, std::int64_t value) {
    Genome other = guesses.front();
    other[gene] = value;
    return illegal(sample.kernel, h200(), other);
  };
  CHECK(refused("min_blocks", 2) == "a multiprocessor has one block of the device file");
  CHECK(refused("tile_k", 128) == "steps of the device file have 64 k");
  CHECK(refused("swap_operands", 1) == "results of the device file lie along columns");
  CHECK(refused("stages", 8) == "more shared memory than a block can have");
  changed["direct"] = contraction::by_maps;
  changed["multicast"] = 1;
  CHECK(illegal(sample.kernel, h200(), changed) == "the device file alone does that");
}

TEST_CASE("what the device file of products does not take keeps its kernels") {
  const auto lacks = [](const ContractionSample& sample) {
    return contraction::device_product_lacks(*contraction::product_of(sample.kernel));
  };
  CHECK(lacks(samples::mm_sample(64, 64, 64)) == "factors of another type than 16 bits");
  CHECK(lacks(samples::mm_sample(64, 63, 64, DType::bf16)) == "a factor that tensor maps do not reach");
  const auto odd = samples::mm_sample(64, 64, 60, DType::bf16);
  CHECK(lacks(odd) == "a factor that tensor maps do not reach");
  for (const Genome& guess : seeds(odd.kernel, h200())) CHECK(guess.at("direct") != contraction::by_file);
}

}  // namespace
}  // namespace planish::codegen
