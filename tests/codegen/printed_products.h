#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction_samples.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/half_numbers.h"
#include "codegen/machine_math.h"
#include "codegen/sm90_machine.h"

/// Kernels printed for warpgroups' device file of products, which run on a CPU.
namespace planish::codegen {

struct PrintedCase {
  samples::ContractionSample sample;
  contraction::DeviceTiling tiling;
};

/// All cases in one library: it is the compiler that takes the time.
class PrintedProducts {
 public:
  explicit PrintedProducts(std::vector<PrintedCase> cases) : cases_(std::move(cases)) {
    static constexpr std::array<std::string_view, 1> files{"sm90/product.cuh"};
    const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
    std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) +
                         device_text(files, instead) + machine_math();
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      CAPTURE(i);
      auto product = contraction::product_of(cases_[i].sample.kernel);
      REQUIRE(product);
      REQUIRE(contraction::warpgroup_product_lacks(*product) == "");
      REQUIRE(contraction::device_tiling_lacks(*product, cases_[i].tiling, h200()) == "");
      emitted_.push_back(contraction::emit_device_product(*product, cases_[i].tiling, h200()));
      source += text_of(i, *product);
      products_.push_back(std::move(*product));
    }
    library_ = std::make_unique<Compiled>(source, "-std=c++20 -O1 -w");
    for (std::size_t i = 0; i < cases_.size(); ++i) make_inputs(i);
  }

  std::size_t size() const { return cases_.size(); }
  const Kernel& kernel(std::size_t i) const { return cases_[i].sample.kernel; }
  const contraction::DeviceTiling& tiling(std::size_t i) const { return cases_[i].tiling; }
  const contraction::Product& product(std::size_t i) const { return products_[i]; }
  const Emitted& emitted(std::size_t i) const { return emitted_[i]; }
  const std::vector<std::vector<double>>& inputs(std::size_t i) const { return data_[i]; }

  struct Results {
    std::vector<double> elements;
    std::vector<float> pieces;  ///< of what is folded
  };
  Results run(std::size_t i) const {
    auto memory = memory_[i];
    const Output& output = kernel(i).outputs.front();
    std::int64_t count = 1;
    for (const std::int64_t extent : output.shape) count *= extent;
    memory.emplace_back(static_cast<std::size_t>(count * size_of(output.dtype)), '\x7f');
    Results out;
    if (products_[i].spread) out.pieces.resize(static_cast<std::size_t>(emitted_[i].scratch_bytes[1] / 4), NAN);
    std::vector<void*> args;
    for (auto& each : memory) args.push_back(each.data());
    args.push_back(out.pieces.data());
    REQUIRE(library_->function<bool(void**)>(fmt::format("run{}", i))(args.data()));
    for (std::int64_t at = 0; at < count; ++at)
      out.elements.push_back(value_at(memory.back(), static_cast<std::size_t>(at), output.dtype));
    return out;
  }

 private:
  static double value_at(const std::vector<unsigned char>& memory, std::size_t at, DType dtype) {
    if (dtype == DType::f32) {
      float got;
      std::memcpy(&got, &memory[at * 4], 4);
      return got;
    }
    std::uint16_t bits;
    std::memcpy(&bits, &memory[at * 2], 2);
    return of_bits(bits, dtype);
  }

  /// The case's kernel, and the function that runs six blocks of it.
  std::string text_of(std::size_t i, const contraction::Product& product) const {
    const Kernel& kernel = cases_[i].sample.kernel;
    const auto printed = contraction::print_device_product(product, cases_[i].tiling);
    std::string call, text = printed.text;
    for (const int input : printed.inputs) {
      const bool half = kernel.inputs[static_cast<std::size_t>(input)].dtype != DType::f32;
      call += fmt::format("(const {}*)args[{}], ", half ? "unsigned short" : "float", input);
    }
    text.replace(text.find("extern \"C\""), 10, "");
    text.replace(text.find("extern __shared__"),
                 text.find('\n', text.find("extern __shared__")) - text.find("extern __shared__"),
                 "unsigned char* const pl_smem = shared_memory();");
    const bool split = cases_[i].tiling.splits > 1;
    const auto scratch = [&](std::size_t from_last) {
      const auto& bytes = emitted_[i].scratch_bytes;
      return split ? bytes[bytes.size() - from_last] / 4 : 0;
    };
    return fmt::format(
        "namespace case{0} {{\n{1}}}\nextern \"C\" bool run{0}(void** args) {{\n  std::vector<char> maps(6 * 256);\n  "
        "std::vector<float> partial({2});\n  std::vector<u32> arrived({3});\n  return run_blocks(6, {4}, [&] {{ "
        "case{0}::planish_kernel({5}({6}*)args[{7}], maps.data(){8}{9}); }}, {10});\n}}\n",
        i, text, scratch(2), scratch(1), emitted_[i].block[0], call,
        kernel.outputs[0].dtype == DType::f32 ? "float" : "unsigned short", kernel.inputs.size(),
        product.spread ? fmt::format(", (float*)args[{}]", kernel.inputs.size() + 1) : "",
        split ? ", partial.data(), arrived.data()" : "", cases_[i].tiling.cluster);
  }

  void make_inputs(std::size_t i) {
    data_.emplace_back();
    memory_.emplace_back();
    for (const Input& input : kernel(i).inputs) {
      std::vector<double> values;
      std::vector<unsigned char> bytes(static_cast<std::size_t>(input.storage_elements * size_of(input.dtype)));
      for (std::int64_t at = 0; at < input.storage_elements; ++at) {
        const double x = std::sin(static_cast<double>(at * 11 + input.value * 17 + 2));
        const auto place = static_cast<std::size_t>(at);
        if (input.dtype == DType::f32) {
          const auto single = static_cast<float>(x);
          std::memcpy(&bytes[place * 4], &single, 4);
        } else {
          const std::uint16_t half = to_bits(x, input.dtype);
          std::memcpy(&bytes[place * 2], &half, 2);
        }
        values.push_back(value_at(bytes, place, input.dtype));
      }
      data_.back().push_back(std::move(values));
      memory_.back().push_back(std::move(bytes));
    }
  }

  std::vector<PrintedCase> cases_;
  std::vector<contraction::Product> products_;
  std::vector<Emitted> emitted_;
  std::vector<std::vector<std::vector<double>>> data_;
  std::vector<std::vector<std::vector<unsigned char>>> memory_;
  std::unique_ptr<Compiled> library_;
};

}  // namespace planish::codegen
