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
    static constexpr std::array<std::string_view, 2> files{"sm90/product.cuh", "sm90/pack_taps.cuh"};
    const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
    std::string source = std::string(sm90_language) + std::string(printing::prelude(false)) +
                         device_text(files, instead) + machine_math();
    for (std::size_t i = 0; i < cases_.size(); ++i) {
      CAPTURE(i);
      auto product = contraction::product_of(cases_[i].sample.kernel);
      REQUIRE(product);
      const contraction::Product* const way = contraction::warpgroup_way(*product);
      REQUIRE(way != nullptr);
      REQUIRE(contraction::device_tiling_lacks(*way, cases_[i].tiling, h200()) == "");
      emitted_.push_back(contraction::emit_device_product(*way, cases_[i].tiling, h200()));
      source += text_of(i, *way);
      products_.push_back(*way);
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
    std::vector<float> pieces;  ///< of what is folded; or what is packed
  };
  Results run(std::size_t i) const {
    auto memory = memory_[i];
    const Output& output = kernel(i).outputs.front();
    std::int64_t count = 1;
    for (const std::int64_t extent : output.shape) count *= extent;
    memory.emplace_back(static_cast<std::size_t>(count * size_of(output.dtype)), '\x7f');
    Results out;
    if (has_more(i)) out.pieces.resize(static_cast<std::size_t>(emitted_[i].scratch_bytes[1] / 4), NAN);
    std::vector<void*> args;
    for (auto& each : memory) args.push_back(each.data());
    args.push_back(out.pieces.data());
    if (emitted_[i].packs) REQUIRE(library_->function<bool(void**)>(fmt::format("pack{}", i))(args.data()));
    REQUIRE(library_->function<bool(void**)>(fmt::format("run{}", i))(args.data()));
    for (std::int64_t at = 0; at < count; ++at)
      out.elements.push_back(value_at(memory.back(), static_cast<std::size_t>(at), output.dtype));
    return out;
  }

 private:
  static double value_at(const std::vector<unsigned char>& memory, std::size_t at, DType dtype) {
    if (is_float8(dtype)) return of_code(memory[at], dtype);
    if (dtype == DType::u8) return memory[at];
    if (dtype == DType::i8) return static_cast<signed char>(memory[at]);
    if (dtype == DType::i32) {
      std::int32_t got;
      std::memcpy(&got, &memory[at * 4], 4);
      return got;
    }
    if (dtype == DType::f32) {
      float got;
      std::memcpy(&got, &memory[at * 4], 4);
      return got;
    }
    std::uint16_t bits;
    std::memcpy(&bits, &memory[at * 2], 2);
    return of_bits(bits, dtype);
  }

  static const char* c_type(DType dtype) {
    if (dtype == DType::i8) return "signed char";
    if (dtype == DType::i32) return "int";
    return size_of(dtype) == 1 ? "unsigned char" : size_of(dtype) == 2 ? "unsigned short" : "float";
  }

  /// Whether a case has scratch memory that is handed on.
  bool has_more(std::size_t i) const { return products_[i].cross_tile || emitted_[i].packs; }

  /// A kernel's text as C++.
  static std::string as_function(std::string text) {
    text.replace(text.find("extern \"C\""), 10, "");
    const std::size_t dynamic = text.find("extern __shared__");
    if (dynamic != std::string::npos)
      text.replace(dynamic, text.find('\n', dynamic) - dynamic, "unsigned char* const pl_smem = shared_memory();");
    return text;
  }

  /// `packN`: the launch before it.
  std::string packing_of(std::size_t i) const {
    const Emitted& first = emitted_[i];
    if (!first.packs) return {};
    static constexpr std::string_view begin = "// ---- kernel ----\n";
    std::string call;
    for (const auto& arg : first.args) {
      if (arg.kind != Emitted::Argument::Kind::input) continue;
      const bool half = kernel(i).inputs[static_cast<std::size_t>(arg.index)].dtype != DType::f32;
      call += fmt::format("(const {}*)args[{}], ", half ? "unsigned short" : "float", arg.index);
    }
    return fmt::format(
        "namespace packing{0} {{\n{1}}}\nextern \"C\" bool pack{0}(void** args) {{\n  return run_blocks({2}, {3}, [&] "
        "{{ "
        "packing{0}::planish_kernel({4}(unsigned char*)args[{5}]); }});\n}}\n",
        i, as_function(first.source.substr(first.source.find(begin) + begin.size())), first.grid[0], first.block[0],
        call, kernel(i).inputs.size() + 1);
  }

  /// The case's kernel, and the function that runs six blocks of it.
  std::string text_of(std::size_t i, const contraction::Product& product) const {
    const Kernel& kernel = cases_[i].sample.kernel;
    const auto printed = contraction::print_device_product(product, cases_[i].tiling);
    std::string call;
    const Emitted& main = emitted_[i].packs ? emitted_[i].after.front() : emitted_[i];
    for (const int input : printed.inputs) {
      const DType dtype = kernel.inputs[static_cast<std::size_t>(input)].dtype;
      const char* const type = c_type(dtype);
      call += fmt::format("(const {}*)args[{}], ", type, input);
    }
    const bool split = cases_[i].tiling.splits > 1;
    const auto scratch = [&](std::size_t from_last) {
      const auto& bytes = emitted_[i].scratch_bytes;
      return split ? bytes[bytes.size() - from_last] / 4 : 0;
    };
    const std::string more = fmt::format("args[{}]", kernel.inputs.size() + 1);
    return packing_of(i) +
           fmt::format(
               "namespace case{0} {{\n{1}}}\nextern \"C\" bool run{0}(void** args) {{\n  std::vector<char> maps(6 * "
               "256);\n  "
               "std::vector<float> partial({2});\n  std::vector<u32> arrived({3});\n  return run_blocks(6, {4}, [&] {{ "
               "case{0}::planish_kernel({5}({6}*)args[{7}], maps.data(){8}{9}); }}, {10});\n}}\n",
               i, as_function(printed.text), scratch(2), scratch(1), main.block[0], call,
               c_type(kernel.outputs[0].dtype), kernel.inputs.size(),
               product.cross_tile  ? ", (float*)" + more
               : emitted_[i].packs ? ", (const u16*)" + more
                                   : "",
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
        if (is_float8(input.dtype)) {
          bytes[place] = to_code(x, input.dtype);
        } else if (size_of(input.dtype) == 1) {  // integers, the least one included
          bytes[place] = static_cast<unsigned char>(static_cast<int>(std::floor(x * 128.5)) & 255);
        } else if (input.dtype == DType::f32) {
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
