// Products of rows that belong to groups: lowered with a search for each row's group, read back, run by the device
// files of processors and (on the emulated machine) of Hopper.
#include "codegen/grouped/grouped.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/contraction/contraction.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/emit/expression.h"
#include "codegen/graph_builder.h"
#include "codegen/grouped/cpp_grouped.h"
#include "codegen/grouped/cuda_grouped.h"
#include "codegen/grouped_samples.h"
#include "codegen/half_numbers.h"
#include "codegen/interpreter.h"
#include "codegen/lower/lower.h"
#include "codegen/machine_math.h"
#include "codegen/partition/partition.h"
#include "codegen/sm90_machine.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

struct GroupedCase {
  std::int64_t rows, depth, columns;
  std::vector<int> ends;
  DType dtype = DType::f32;
  bool along_depth = true;  ///< the memory of matrices runs along k
  bool follows = false;     ///< with a weight for each row and a SiLU behind it
};

/// The same of float8, with scales of rows and of each matrix's columns; results are bf16.
GraphBuilder scaled_graph(const GroupedCase& c) {
  GraphBuilder g;
  const Shape shape{c.rows, c.columns};
  int y = samples::scaled_groups(g, {.rows = c.rows,
                                     .depth = c.depth,
                                     .columns = c.columns,
                                     .groups = static_cast<std::int64_t>(c.ends.size()),
                                     .dtype = c.dtype});
  if (c.follows) {
    y = g.node("silu.default", {V("self", y)}, shape, DType::bf16);
    y = g.node("mul.Tensor", {V("self", y), V("other", g.input({c.rows, 1}, DType::bf16))}, shape, DType::bf16);
  }
  g.output(y);
  return g;
}

/// Value ids of the graph: rows, matrices, ends; the last value is the result.
GraphBuilder grouped_graph(const GroupedCase& c) {
  if (is_float8(c.dtype)) return scaled_graph(c);
  GraphBuilder g;
  const auto groups = static_cast<std::int64_t>(c.ends.size());
  const int rows = g.input({c.rows, c.depth}, c.dtype);
  int matrices;
  if (c.along_depth) {
    const int stored = g.input({groups, c.columns, c.depth}, c.dtype);
    matrices = g.node("permute.default", {V("self", stored), L("dims", {0, 2, 1})}, {groups, c.depth, c.columns},
                      c.dtype, {c.depth * c.columns, 1, c.depth});
  } else {
    matrices = g.input({groups, c.depth, c.columns}, c.dtype);
  }
  const int ends = g.input({groups}, DType::i32);
  const Shape shape{c.rows, c.columns};
  int y = g.node("_grouped_mm.default",
                 {V("self", rows), V("mat2", matrices), V("offs", ends), N("bias"), N("out_dtype")}, shape, c.dtype);
  if (c.follows) {
    y = g.node("silu.default", {V("self", y)}, shape, c.dtype);
    y = g.node("mul.Tensor", {V("self", y), V("other", g.input({c.rows, 1}, c.dtype))}, shape, c.dtype);
  }
  g.output(y);
  return g;
}

Result<Kernel> grouped_kernel(const GroupedCase& c) {
  const GraphBuilder g = grouped_graph(c);
  LowerLimits limits;
  limits.grouped = true;
  return lower(g.graph, std::vector<bool>(g.graph.nodes.size(), true), std::vector{g.graph.outputs[0].value}, limits);
}

/// Memory of the inputs, and the same as numbers: ends where they are, else a sine.
struct GroupedData {
  std::vector<std::vector<unsigned char>> memory;
  std::vector<std::vector<double>> numbers;

  GroupedData(const Kernel& kernel, const std::vector<int>& ends) {
    for (const Input& input : kernel.inputs) {
      auto& bytes = memory.emplace_back(static_cast<std::size_t>(input.storage_elements * size_of(input.dtype)));
      auto& values = numbers.emplace_back();
      for (std::int64_t i = 0; i < input.storage_elements; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const double x = std::sin(static_cast<double>(i * 7 + input.value * 13 + 1));
        if (input.dtype == DType::i32) {
          std::memcpy(&bytes[at * 4], &ends[at], 4);
          values.push_back(ends[at]);
        } else if (is_float8(input.dtype)) {
          bytes[at] = to_code(x, input.dtype);
          values.push_back(of_code(bytes[at], input.dtype));
        } else if (input.dtype == DType::f32) {
          const auto single = static_cast<float>(x);
          std::memcpy(&bytes[at * 4], &single, 4);
          values.push_back(single);
        } else {
          const std::uint16_t half = to_bits(x, input.dtype);
          std::memcpy(&bytes[at * 2], &half, 2);
          values.push_back(of_bits(half, input.dtype));
        }
      }
    }
  }
};

double number_at(const std::vector<unsigned char>& bytes, std::size_t at, DType dtype) {
  if (dtype == DType::f32) {
    float single;
    std::memcpy(&single, &bytes[at * 4], 4);
    return single;
  }
  std::uint16_t half;
  std::memcpy(&half, &bytes[at * 2], 2);
  return of_bits(half, dtype);
}

/// Largest difference of the rows that belong to a group.
double worst_of(const Kernel& kernel, const GroupedCase& c, const std::vector<unsigned char>& got,
                const GroupedData& data) {
  const auto wanted = Interpreter(kernel, data.numbers).run().front();
  double worst = 0;
  for (std::size_t at = 0; at < static_cast<std::size_t>(c.ends.back() * c.columns); ++at) {
    const double x = number_at(got, at, kernel.outputs[0].dtype);
    worst = std::max(worst, std::isfinite(x) ? std::abs(x - wanted[at]) / (1 + std::abs(wanted[at])) : 1e9);
  }
  return worst;
}

TEST_CASE("a grouped product is lowered with a search for each row's group, which is read back") {
  for (const int groups : {2, 3, 5, 8, 13, 64}) {
    CAPTURE(groups);
    std::vector<int> ends;
    for (int g = 0; g < groups; ++g) ends.push_back(40 * (g + 1) / groups);
    const GroupedCase c{40, 24, 16, ends};
    const auto kernel = grouped_kernel(c);
    REQUIRE(kernel);
    CHECK(kernel->anchor == Anchor::contraction);
    CHECK(template_of(*kernel).name() == "grouped");
    const auto grouped = grouped_of(*kernel);
    REQUIRE(grouped);
    CHECK(grouped->ends.count == groups);
    CHECK(grouped->ends.stride == 1);
    CHECK(grouped->ends.first == 0);
    CHECK(grouped->stride == 24 * 16);
    CHECK(grouped->rows == 40);
    // What a search finds is what counting finds: empty groups, and ends at the first and the last row.
    const GroupedData data(*kernel, ends);
    const auto got = Interpreter(*kernel, data.numbers).run().front();
    const auto numbers = [&](int value) -> const std::vector<double>& {
      const auto at = std::ranges::find(kernel->inputs, value, &Input::value) - kernel->inputs.begin();
      return data.numbers[static_cast<std::size_t>(at)];
    };
    for (std::size_t r = 0; r < 40; ++r) {
      const auto before = [&](int end) { return end <= static_cast<int>(r); };
      const auto group = static_cast<std::size_t>(std::ranges::count_if(ends, before));
      double sum = 0;
      for (std::size_t k = 0; k < 24; ++k) sum += numbers(0)[r * 24 + k] * numbers(1)[(group * 16 + 3) * 24 + k];
      CHECK(std::abs(got[r * 16 + 3] - sum) < 1e-9);
    }
  }
}

TEST_CASE("what is no search among ends is no grouped product") {
  const auto kernel = grouped_kernel({40, 24, 16, {3, 9, 9, 40}});
  REQUIRE(kernel);
  const Grouped grouped = *grouped_of(*kernel);
  const auto changed = [&](const std::function<bool(Node&)>& change) {
    Kernel other = *kernel;
    for (Node& node : other.nodes)
      if (change(node)) break;
    return grouped_of(other).has_value();
  };
  CHECK(changed([](Node&) { return false; }));
  CHECK_FALSE(changed([](Node& n) { return n.op == Op::le ? (n.op = Op::lt, true) : false; }));
  CHECK_FALSE(changed([](Node& n) { return n.op == Op::constant && n.bits == 2 ? (n.bits = 3, true) : false; }));
  CHECK_FALSE(changed([](Node& n) {
    if (n.op != Op::index) return false;
    n.index = ir::IndexExpr::build(1, n.index.terms());
    return true;
  }));
  CHECK_FALSE(end_search_of(*kernel, grouped.weights, 4));
  CHECK_FALSE(grouped_kernel({8, 8, 8, {8}}));  // of one group it is an ordinary product
  GraphBuilder g;
  const int a = g.input({8, 8}), b = g.input({8, 8});
  g.output(g.node("mm.default", {V("self", a), V("mat2", b)}, {8, 8}));
  LowerLimits limits;
  limits.grouped = true;
  CHECK_FALSE(
      lower(g.graph, {true}, std::vector{g.graph.outputs[0].value}, limits));  // by whom nothing else is lowered
}

TEST_CASE("a grouped product is a region of its own, and PyTorch's step where it is not asked for") {
  const GraphBuilder g = grouped_graph({40, 24, 16, {3, 9, 9, 40}, DType::f32, true, true});
  PartitionOptions options;
  const auto plain = partition(g.graph, options);
  REQUIRE(plain);
  CHECK(plain->regions.size() == 1);  // what follows
  options.limits.grouped = true;
  const auto found = partition(g.graph, options);
  REQUIRE(found);
  CHECK(found->regions.size() == 2);
  CHECK(std::ranges::count_if(found->regions, [](const Region& r) { return grouped_of(r.kernel).has_value(); }) == 1);
}

std::vector<GroupedCase> processor_cases() {
  return {{37, 100, 52, {5, 5, 20, 36, 37}},
          {37, 96, 70, {0, 0, 37, 37}, DType::f32, false},
          {5, 33, 9, {0, 5}, DType::f32, true},
          {64, 160, 130, {64, 64, 64}, DType::bf16, true},
          {20, 48, 100, {1, 2, 2, 9, 20}, DType::f16, false},
          {16, 64, 64, {0, 0, 3, 11}, DType::f32, true}};  // rows behind the last group
}

TEST_CASE("grouped products on a processor compute what the kernel says, whatever the genome") {
  // The threads of OpenMP outlive the library that asked for them.
  REQUIRE(dlopen("libgomp.so.1", RTLD_NOW | RTLD_NODELETE) != nullptr);
  Device device;
  device.arch = "x86-64-v3";
  device.sms = 3;
  device.l2_bytes = 1 << 20;
  for (const GroupedCase& c : processor_cases()) {
    CAPTURE(c.rows);
    CAPTURE(c.columns);
    const auto kernel = grouped_kernel(c);
    REQUIRE(kernel);
    const auto schedule = schedule_of(*kernel, device);
    auto genomes = schedule->seeds();
    REQUIRE_FALSE(genomes.empty());
    genomes.resize(std::min<std::size_t>(genomes.size(), 1));
    Genome small = genomes.front();
    small["tile_m"] = 32;
    small["tile_k"] = 256;
    small["threads"] = 3;
    if (schedule->illegal(small).empty()) genomes.push_back(small);
    const GroupedData data(*kernel, c.ends);
    for (const Genome& genome : genomes) {
      CAPTURE(text(genome));
      REQUIRE(schedule->illegal(genome) == "");
      const auto emitted = schedule->emit(genome);
      REQUIRE(emitted);
      const Compiled library(emitted->source, "-O1 -march=x86-64-v3 -std=c++17 -fopenmp -fno-math-errno -w");
      std::vector<std::vector<unsigned char>> memory = data.memory;
      const DType dtype = kernel->outputs[0].dtype;
      memory.emplace_back(static_cast<std::size_t>(c.rows * c.columns * size_of(dtype)), '\x7f');
      memory.emplace_back(static_cast<std::size_t>(emitted->scratch_bytes[0]));
      std::vector<void*> args;
      for (const auto& arg : emitted->args) {
        using Kind = Emitted::Argument::Kind;
        const std::size_t inputs = kernel->inputs.size();
        args.push_back(memory[arg.kind == Kind::input    ? static_cast<std::size_t>(arg.index)
                              : arg.kind == Kind::output ? inputs
                                                         : inputs + 1]
                           .data());
      }
      library.function<void(void**)>("k0")(args.data());
      const auto& got = memory[kernel->inputs.size()];
      CHECK(worst_of(*kernel, c, got, data) < (dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 0x1p-9 : 0x1p-7));
      for (auto at = static_cast<std::size_t>(c.ends.back() * c.columns);
           at < static_cast<std::size_t>(c.rows * c.columns); ++at)
        REQUIRE(number_at(got, at, dtype) == 0);
    }
  }
}

TEST_CASE("genomes of grouped products that make no sense on a processor are refused") {
  const auto kernel = grouped_kernel({300, 600, 96, {100, 300}});
  REQUIRE(kernel);
  Device device;
  device.arch = "x86-64-v3";
  const auto schedule = schedule_of(*kernel, device);
  const Genome genome = schedule->seeds().front();
  const auto refused = [&](const char* name, std::int64_t value) {
    Genome other = genome;
    other[name] = value;
    return schedule->illegal(other);
  };
  CHECK(refused("tile_n", 384) == "a panel is twice what there is");
  CHECK(refused("tile_k", 4096) == "a step is twice what there is");
  CHECK_FALSE(emit_cpp_grouped(*kernel, *grouped_of(*kernel), device, [&] {
    Genome other = genome;
    other["tile_k"] = 4096;
    return other;
  }()));
}

struct DeviceCase {
  GroupedCase product;
  contraction::DeviceTiling tiling;
};

std::vector<DeviceCase> device_cases() {
  const DType bf16 = DType::bf16;
  return {
      {{150, 136, 88, {10, 10, 100, 150}, bf16}, {.tile_columns = 64, .stages = 3}},
      {{70, 72, 48, {0, 33, 70}, DType::f16, false}, {.tile_rows = 64, .tile_columns = 64, .consumers = 1}},
      {{140, 72, 96, {7, 140, 140}, bf16, true, true}, {.tile_rows = 64, .tile_columns = 32, .ping_pong = true}},
      {{90, 64, 40, {90, 90}, bf16, true, true}, {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .cluster = 2}},
      {{150, 144, 88, {10, 10, 100, 150}, DType::f8_e4m3}, {.tile_columns = 64, .stages = 3}},
      {{90, 272, 40, {33, 33, 90}, DType::f8_e4m3, true, true},
       {.tile_rows = 64, .tile_columns = 32, .consumers = 1, .cluster = 2}}};
}

/// All cases in one library: it is the compiler that takes the time.
TEST_CASE("kernels printed for the device file of products, of groups, compute what the kernel says") {
  const auto cases = device_cases();
  static constexpr std::array<std::string_view, 1> files{"sm90/product.cuh"};
  const std::array<DeviceFile, 2> instead{{{"sm90/ptx.cuh", sm90_ptx}, {"sm90/wgmma.cuh", sm90_wgmma}}};
  std::string source =
      std::string(sm90_language) + std::string(printing::prelude(false)) + device_text(files, instead) + machine_math();
  std::vector<Kernel> kernels;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const auto kernel = grouped_kernel(cases[i].product);
    REQUIRE(kernel);
    kernels.push_back(*kernel);
    const auto grouped = device_grouped_of(*grouped_of(*kernel));
    REQUIRE(grouped);
    const auto& tiling = cases[i].tiling;
    REQUIRE(contraction::device_tiling_lacks(grouped->product, tiling, h200(), &grouped->groups) == "");
    const auto printed = contraction::print_device_product(grouped->product, tiling, &grouped->groups);
    const Emitted emitted = contraction::emit_device_product(grouped->product, tiling, h200(), &grouped->groups);
    std::string call, text = printed.text;
    for (const int input : printed.inputs) {
      const DType dtype = kernel->inputs[static_cast<std::size_t>(input)].dtype;
      const char* const type = dtype == DType::i32   ? "int"
                               : dtype == DType::f32 ? "float"
                               : is_float8(dtype)    ? "unsigned char"
                                                     : "unsigned short";
      call += fmt::format("(const {}*)args[{}], ", type, input);
    }
    text.replace(text.find("extern \"C\""), 10, "");
    const std::size_t shared = text.find("extern __shared__");
    text.replace(shared, text.find('\n', shared) - shared, "unsigned char* const pl_smem = shared_memory();");
    source += fmt::format(
        "namespace case{0} {{\n{1}}}\nextern \"C\" bool run{0}(void** args) {{\n  std::vector<char> maps(6 * 256);\n  "
        "return run_blocks(6, {2}, [&] {{ case{0}::planish_kernel({3}(unsigned short*)args[{4}], maps.data()); }}, "
        "{5});\n}}\n",
        i, text, emitted.block[0], call, kernel->inputs.size(), tiling.cluster);
  }
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(i);
    const GroupedCase& c = cases[i].product;
    GroupedData data(kernels[i], c.ends);
    std::vector<unsigned char> got(static_cast<std::size_t>(c.rows * c.columns * 2), '\x7f');
    std::vector<void*> args;
    for (auto& each : data.memory) args.push_back(each.data());
    args.push_back(got.data());
    REQUIRE(library.function<bool(void**)>(fmt::format("run{}", i))(args.data()));
    CHECK(worst_of(kernels[i], c, got, data) < 0x1p-6);
  }
}

TEST_CASE("scales of float8 factors in groups multiply their sums, those of columns by the row's group") {
  const auto kernel = grouped_kernel({4096, 1024, 2048, {100, 900, 900, 4096}, DType::f8_e4m3});
  REQUIRE(kernel);
  const auto grouped = grouped_of(*kernel);
  REQUIRE(grouped);
  CHECK(grouped->others.size() == 1);
  CHECK(cpp_grouped_lacks(*kernel, *grouped) == "factors of which something is computed");
  const auto device = device_grouped_of(*grouped);
  REQUIRE(device);
  REQUIRE(device->product.bits);
  CHECK_FALSE(device->product.bits->scale_a);
  CHECK_FALSE(device->product.bits->scale_b);
  CHECK(device->groups.strides.size() == 1);
  const auto schedule = schedule_of(*kernel, h200());
  const auto guesses = schedule->seeds();
  REQUIRE_FALSE(guesses.empty());
  for (const Genome& guess : guesses) CHECK(schedule->illegal(guess) == "");
  const auto emitted = schedule->emit(guesses.front());
  REQUIRE(emitted);
  CHECK(emitted->source.contains("factor_bytes = 1"));
  CHECK(emitted->source.contains(" + 2048ll * unit"));
  CHECK(emitted->after.empty());
  Genome turns = guesses.front();
  turns["pingpong"] = 1;
  CHECK(schedule->illegal(turns) == "what each step gives is added by two consumers of one tile");
  // Rows of k that are no whole chunks of 16 bytes are folded, each with the matrix of its group.
  CHECK_FALSE(grouped_kernel({64, 40, 48, {10, 64}, DType::f8_e4m3}));
}

TEST_CASE("a first guess makes one kernel of float8 groups with their scales, on a processor several") {
  const GraphBuilder g = grouped_graph({4096, 1024, 2048, {100, 900, 900, 4096}, DType::f8_e4m3});
  PartitionOptions options;
  options.limits.grouped = true;
  const auto plain = partition(g.graph, options);
  REQUIRE(plain);
  CHECK(std::ranges::count_if(plain->regions, [](const Region& r) {
          const auto grouped = grouped_of(r.kernel);
          return grouped && cpp_grouped_lacks(r.kernel, *grouped).empty();
        }) == 1);
  options.limits.contractions = true;
  const auto found = partition(g.graph, options);
  REQUIRE(found);
  REQUIRE(found->regions.size() == 1);
  CHECK(device_grouped_of(*grouped_of(found->regions.front().kernel)));
}

TEST_CASE("grouped products have guesses for the device file on Hopper, and rows elsewhere") {
  const auto kernel = grouped_kernel({4096, 1024, 2048, {100, 900, 900, 4096}, DType::bf16, true, true});
  REQUIRE(kernel);
  const auto schedule = schedule_of(*kernel, h200());
  const auto guesses = schedule->seeds();
  REQUIRE_FALSE(guesses.empty());
  for (const Genome& guess : guesses) CHECK(schedule->illegal(guess) == "");
  const auto emitted = schedule->emit(guesses.front());
  REQUIRE(emitted);
  CHECK(emitted->source.contains("groups = 4, parts = 1"));
  CHECK(emitted->after.empty());
  Genome wrong = guesses.front();
  wrong["tile_m"] = 256;
  wrong["tile_n"] = 256;
  CHECK(schedule->illegal(wrong) == "a consumer's sums are more than its registers");
  // fp32 has no such file: rows are folded, each with the matrix of its group.
  // By warps before Hopper: one launch of as many blocks as there may be tiles.
  const Device a100 = older("sm_80");
  const auto by_warps = seeds(*kernel, a100);
  REQUIRE_FALSE(by_warps.empty());
  const auto launch = emit(*kernel, a100, by_warps.front());
  REQUIRE(launch);
  CHECK(launch->source.contains("product_by_mma<Policy>"));
  CHECK(launch->source.contains("PL_DEVICE int group_end(int i) const"));
  CHECK(launch->after.empty());
  const auto fp32 = grouped_kernel({64, 32, 48, {10, 64}});
  REQUIRE(fp32);
  const auto rows = schedule_of(*fp32, h200());
  REQUIRE_FALSE(rows->seeds().empty());
  CHECK(rows->emit(rows->seeds().front()));
  // What follows the product is its own kernel where no file computes both.
  CHECK_FALSE(grouped_kernel({64, 32, 48, {10, 64}, DType::f32, true, true}));
}

}  // namespace
}  // namespace planish::codegen
