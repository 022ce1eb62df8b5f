// Elements of rows by their rank: what is lowered, and what its kernels find on a processor and, beside the language
// that a GPU has, by the device file of GPUs.
#include "codegen/order/order.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "codegen/device/device_files.h"
#include "codegen/devices.h"
#include "codegen/emit/cuda_emit.h"
#include "codegen/emit/expression.h"
#include "codegen/genome.h"
#include "codegen/order_samples.h"
#include "codegen/partition/partition.h"
#include "codegen/sm90_machine.h"
#include "codegen/templates/template.h"

namespace planish::codegen {
namespace {

using samples::order_graph;
using samples::order_kernel;
using samples::OrderCase;
using samples::places_in_order;

Device host() {
  Device device;
  device.target = &backend::cpu();
  device.arch = "haswell";
  device.sms = 2;
  return device;
}

/// Numbers that orders go wrong at: NaN of both signs, both zeros, infinities, subnormals, and many equal ones.
template <typename T>
std::vector<T> hostile(std::int64_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<T> out;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto pick = random() % 16;
    const int small = static_cast<int>(random() % 7) - 3;
    if constexpr (std::is_floating_point_v<T>) {
      using L = std::numeric_limits<T>;
      const T some[] = {L::quiet_NaN(),  -L::quiet_NaN(),  T{0},     -T{0},      L::infinity(), -L::infinity(),
                        L::denorm_min(), -L::denorm_min(), L::max(), L::lowest()};
      out.push_back(pick < 10   ? some[pick]
                    : pick < 13 ? static_cast<T>(small)
                                : static_cast<T>(std::sin(double(i * 37 + seed))));
    } else {
      using L = std::numeric_limits<T>;
      out.push_back(pick == 0   ? L::max()
                    : pick == 1 ? L::min()
                    : pick < 9  ? static_cast<T>(small)
                                : static_cast<T>(random()));
    }
  }
  return out;
}

/// As memory of that dtype has it.
struct Data {
  std::vector<std::byte> bytes;
  std::vector<double> values;          ///< floating
  std::vector<std::int64_t> integers;  ///< else
};

template <typename T>
void fill(Data& data, const std::vector<T>& from) {
  data.bytes.resize(from.size() * sizeof(T));
  std::memcpy(data.bytes.data(), from.data(), data.bytes.size());
  for (const T x : from) {
    if constexpr (std::is_floating_point_v<T>)
      data.values.push_back(static_cast<double>(x));
    else
      data.integers.push_back(static_cast<std::int64_t>(x));
  }
}

Data data_for(const OrderCase& c, int seed) {
  Data data;
  const std::int64_t count = c.rows * c.length;
  switch (c.dtype) {
    case DType::f32:
      fill(data, hostile<float>(count, seed));
      break;
    case DType::f64:
      fill(data, hostile<double>(count, seed));
      break;
    case DType::i64:
      fill(data, hostile<std::int64_t>(count, seed));
      break;
    case DType::i32:
      fill(data, hostile<std::int32_t>(count, seed));
      break;
    case DType::u8:
      fill(data, hostile<std::uint8_t>(count, seed));
      break;
    default: {
      std::mt19937 random(static_cast<unsigned>(seed));
      const bool brain = c.dtype == DType::bf16;
      const std::uint16_t inf = brain ? 0x7f80 : 0x7c00, sign = 0x8000;
      const std::uint16_t some[] = {0, sign, inf, static_cast<std::uint16_t>(inf | sign), 1, 0x3c00, 0xbc00};
      std::vector<std::uint16_t> bits;
      for (std::int64_t i = 0; i < count; ++i) {
        auto half = static_cast<std::uint16_t>(random());
        if (half % 3 != 0) half = some[half / 3 % 7];
        if ((half & inf) == inf && (half & ~(inf | sign)) != 0) half = brain ? 0x7fc0 : 0x7e00;
        bits.push_back(half);
        _Float16 narrow;
        std::memcpy(&narrow, &half, 2);
        data.values.push_back(brain ? std::bit_cast<float>(std::uint32_t{half} << 16) : static_cast<float>(narrow));
      }
      data.bytes.resize(bits.size() * 2);
      std::memcpy(data.bytes.data(), bits.data(), data.bytes.size());
    }
  }
  return data;
}

/// Whether what a kernel stored is the definition's, to the bit of each element.
void check_order_of(const OrderCase& c, const Data& data, const std::vector<std::byte>& values,
                    const std::vector<std::int64_t>& places) {
  const auto size = static_cast<std::size_t>(size_of(c.dtype));
  std::int64_t wrong_places = 0, wrong_values = 0;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const auto right = data.values.empty()
                           ? places_in_order(data.integers.data() + row * c.length, c.length, c.descending)
                           : places_in_order(data.values.data() + row * c.length, c.length, c.descending);
    for (std::int64_t rank = 0; rank < c.ranks; ++rank) {
      const auto at = static_cast<std::size_t>(row * c.ranks + rank);
      const auto from = static_cast<std::size_t>(row * c.length + right[static_cast<std::size_t>(rank)]);
      wrong_places += places[at] != right[static_cast<std::size_t>(rank)];
      if (c.only_places) continue;
      const bool nan = !data.values.empty() && std::isnan(data.values[from]);
      const bool same = std::memcmp(values.data() + at * size, data.bytes.data() + from * size, size) == 0;
      wrong_values += !same && !(nan && c.dtype != DType::f64);  // a NaN's bits may change on its way through a float
    }
  }
  CHECK(wrong_places == 0);
  CHECK(wrong_values == 0);
}

const std::vector<OrderCase>& cases() {
  static const std::vector<OrderCase> all{
      {3, 5, 2},
      {4, 128, 8},
      {2, 24, 24, DType::f32, false},
      {2, 100, 100},
      {2, 256, 256, DType::bf16},
      {2, 300, 300, DType::f32, false},
      {1, 1000, 1000, DType::f64},
      {3, 257, 257, DType::i64, false},
      {2, 513, 40, DType::i32},
      {2, 300, 300, DType::u8, true, false, false, true},
      {2, 200, 7, DType::f16, false},
      {2, 3000, 20, DType::bf16},
      {1, 3000, 33, DType::i64},
      {1, 2500, 1200, DType::f32},
  };
  return all;
}

TEST_CASE("topk is a kernel of anchor order: ranks are counted by an outer variable") {
  const auto kernel = order_kernel({2, 100, 3, DType::bf16, true, true});
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  CHECK(text(*kernel) ==
        "order space [2, 3, 100] inner 1\n"
        "in0: bf16 [2, 100] strides [100, 1]\n"
        "%0 = load bf16 in0[100*d0 + d2]\n"
        "%1 = cast f32 %0\n"
        "%2 = constant f32 0x1p+1\n"
        "%3 = mul f32 %1 %2\n"
        "%4 = cast bf16 %3 rounds\n"
        "%5 = cast f32 %4\n"
        "%6 = index i64 d1\n"
        "%7 = reduced f32 r0\n"
        "%8 = index i64 d2\n"
        "%9 = reduced i64 r1\n"
        "r0 = nth_largest %5 in f32 phase 0 rank %6\n"
        "r1 = nth_largest %5 at %8 in i64 phase 0 rank %6\n"
        "out0: bf16 [2, 3] strides [3, 1] [3*d0 + d1] = %7 per row\n"
        "out1: i64 [2, 3] strides [3, 1] [3*d0 + d1] = %9 per row\n");
  const auto order = order_of(*kernel);
  REQUIRE(order.has_value());
  CHECK(order->dtype == DType::bf16);
  CHECK(order->rows == 2);
  CHECK(order->length == 100);
  CHECK(order->ranks() == 3);
  CHECK(template_of(*kernel).name() == "order");
}

TEST_CASE("a softmax and the topk of it are one kernel, with the softmax's folds before the order") {
  const auto kernel = order_kernel({4, 64, 8, DType::f32, true, false, true});
  REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
  const auto order = order_of(*kernel);
  REQUIRE_MESSAGE(order.has_value(), (order ? "" : order.error().message));
  CHECK(order->folds.size() == 2);
}

TEST_CASE("rows that are too long for a device's blocks are ordered there for a few ranks alone") {
  CHECK(order_kernel({1, 2000, 50}, 1000).has_value());
  CHECK_FALSE(order_kernel({1, 2000, 65}, 1000).has_value());
  CHECK_FALSE(order_kernel({1, 2000, 2000}, 1000).has_value());
  CHECK_FALSE(order_kernel({1, 2000, 5, DType::f32, true, false, true}, 1000).has_value());
  CHECK(order_kernel({1, 2000, 2000}, 2000).has_value());
}

TEST_CASE("topk of one element is the fold that it is, and two orders are two kernels") {
  GraphBuilder g;
  const int x = g.input({4, 64});
  const int value = g.value({4, 1}), place = g.value({4, 1}, DType::i64);
  g.graph.nodes.push_back({"aten.topk.default", {V("self", x), I("k", 1)}, {value, place}});
  const auto kernel = lower(g.graph, {true}, std::vector{value, place});
  REQUIRE(kernel.has_value());
  CHECK(kernel->anchor == Anchor::row);
  GraphBuilder two;
  const int y = two.input({4, 64});
  const int up = two.value({4, 64}), up_at = two.value({4, 64}, DType::i64), down = two.value({4, 64}),
            down_at = two.value({4, 64}, DType::i64);
  two.graph.nodes.push_back({"aten.sort.default", {V("self", y)}, {up, up_at}});
  two.graph.nodes.push_back({"aten.sort.default", {V("self", y), B("descending", true)}, {down, down_at}});
  LowerLimits limits;
  limits.longest_order = 4096;
  const auto both = lower(two.graph, {true, true}, std::vector{up, down}, limits);
  REQUIRE_FALSE(both.has_value());
  CHECK((both.error().kind == "unsupported"));
  CHECK(both.error().message == "elements of two orders, or of two ranks");
}

TEST_CASE("on a processor every order is the definition's, whatever the numbers") {
  int seed = 0;
  for (const OrderCase& c : cases()) {
    CAPTURE(c.length);
    CAPTURE(c.ranks);
    CAPTURE(name(c.dtype));
    const auto kernel = order_kernel(c);
    REQUIRE_MESSAGE(kernel.has_value(), (kernel ? "" : kernel.error().message));
    Genome genome = seeds(*kernel, host()).front();
    genome["threads"] = 1;  // OpenMP's library is not to be unloaded under its threads
    const auto emitted = emit(*kernel, host(), genome);
    REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
    const Compiled compiled(emitted->source, "-O1 -march=haswell -std=c++17 -fno-math-errno -Wno-psabi");
    Data data = data_for(c, ++seed);
    const auto results = static_cast<std::size_t>(c.rows * c.ranks);
    std::vector<std::byte> values(results * static_cast<std::size_t>(size_of(c.dtype)));
    std::vector<std::int64_t> places(results, -1);
    std::vector<std::byte> room(static_cast<std::size_t>(emitted->scratch_bytes.at(0)));
    std::vector<void*> args{data.bytes.data()};
    if (!c.only_places) args.push_back(values.data());
    args.insert(args.end(), {places.data(), room.data()});
    compiled.function<void(void**)>("k0")(args.data());
    check_order_of(c, data, values, places);
  }
}

constexpr const char* machine = R"(
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int atomicAdd(int* to, int more) { const int before = *to; *to += more; return before; }
template <typename T> static T pl_ldg(const T* p) { return *p; }
)";

/// What a block of a GPU runs, as a function of a CPU: the launch's text behind what the file of device code has.
std::string on_machine(const Emitted& launch, const std::string& name) {
  std::string text = launch.source;
  const std::string before = std::string(printing::prelude(true)) + std::string(printing::cuda_memory_prelude());
  REQUIRE(text.starts_with(before));
  text.erase(0, before.size());
  static constexpr std::array<std::string_view, 1> files{"order.cuh"};
  const std::string device = device_text(files);
  REQUIRE(text.starts_with(device));
  text.erase(0, device.size());
  text.replace(text.find("extern \"C\""), 10, "");
  for (std::size_t at = 0; (at = text.find("extern __shared__", at)) != text.npos;)
    text.replace(at, text.find('\n', at) - at, "unsigned char* const pl_smem = shared_memory();");
  return fmt::format("namespace space_{} {{\n{}}}\n", name, text);
}

TEST_CASE("the device file of GPUs finds the definition's order, whatever the genome") {
  static constexpr std::array<std::string_view, 1> files{"order.cuh"};
  std::string source =
      std::string(sm90_language) + std::string(printing::prelude(false)) + machine + device_text(files);
  struct Run {
    OrderCase c;
    Emitted launch;
  };
  std::vector<Run> runs;
  std::set<std::string> kinds;
  for (const OrderCase& c : cases()) {
    const auto kernel = order_kernel(c);
    REQUIRE(kernel.has_value());
    std::mt19937_64 random(static_cast<std::uint64_t>(c.length));
    const std::vector<Genome> some = seeds(*kernel, h200());
    REQUIRE_FALSE(some.empty());
    std::vector<Genome> tried{some.front(), some.back()};
    tried.push_back(random_genome(*kernel, h200(), random));
    const auto slices = find_gene(genes(*kernel, h200()), "grid_split")->choices;
    for (const std::int64_t split : slices) {
      const Genome genome{{"threads", 128}, {"unroll", 8}, {"grid_split", split}};
      if (split <= 4 && illegal(*kernel, h200(), genome).empty()) tried.push_back(genome);
    }
    for (const Genome& genome : tried) {
      if (genome.at("threads") > 512) continue;  // more than the machine has
      const auto emitted = emit(*kernel, h200(), genome);
      REQUIRE_MESSAGE(emitted.has_value(), (emitted ? "" : emitted.error().message));
      kinds.insert(genome.at("grid_split") == 0 ? "whole" : genome.at("grid_split") == 1 ? "one slice" : "slices");
      const std::string name = fmt::format("run{}", runs.size());
      const auto call = [&](const Emitted& launch, const std::string& space) {
        std::string args;
        std::size_t number = 0;
        const auto type = [&](const Emitted::Argument& a) {
          using Kind = Emitted::Argument::Kind;
          const auto at = static_cast<std::size_t>(a.index);
          if (a.kind == Kind::scratch) return fmt::format("space_{}::Policy::Item*", space);
          return fmt::format("{}*", printing::storage_type(a.kind == Kind::input ? kernel->inputs[at].dtype
                                                                                 : kernel->outputs[at].dtype));
        };
        for (const auto& a : launch.args)
          args += fmt::format("{}({})args[{}]", number > 0 ? ", " : "", type(a), number), ++number;
        return fmt::format("run_blocks({}, {}, [&] {{ space_{}::planish_kernel({}); }})", launch.grid[0],
                           launch.block[0], space, args);
      };
      source += on_machine(*emitted, name);
      std::string body = call(*emitted, name);
      for (std::size_t i = 0; i < emitted->after.size(); ++i) {
        source += on_machine(emitted->after[i], name + "after");
        body += " && " + call(emitted->after[i], name + "after");
      }
      source += fmt::format("extern \"C\" bool {}(void** args) {{ return {}; }}\n", name, body);
      runs.push_back({c, *emitted});
    }
  }
  CHECK(kinds.size() == 3);
  const Compiled library(source, "-std=c++20 -O1 -w");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const OrderCase& c = runs[i].c;
    CAPTURE(c.length);
    CAPTURE(c.ranks);
    CAPTURE(name(c.dtype));
    CAPTURE(i);
    Data data = data_for(c, static_cast<int>(i) + 100);
    const auto results = static_cast<std::size_t>(c.rows * c.ranks);
    std::vector<std::byte> values(results * static_cast<std::size_t>(size_of(c.dtype)));
    std::vector<std::int64_t> places(results, -1);
    std::vector<std::byte> room(
        runs[i].launch.scratch_bytes.empty() ? 0 : static_cast<std::size_t>(runs[i].launch.scratch_bytes[0]));
    std::vector<void*> args{data.bytes.data()};
    if (!c.only_places) args.push_back(values.data());
    args.insert(args.end(), {places.data(), room.data()});
    REQUIRE(library.function<bool(void**)>(fmt::format("run{}", i))(args.data()));
    check_order_of(c, data, values, places);
  }
}

/// What is stored of a softmax: the largest elements, and where they are.
void check_softmax(const OrderCase& c, const std::vector<float>& x, const std::vector<float>& values,
                   const std::vector<std::int64_t>& places) {
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const float* const own = x.data() + row * c.length;
    const auto right = places_in_order(own, c.length, true);
    double sum = 0;
    for (std::int64_t i = 0; i < c.length; ++i) sum += std::exp(static_cast<double>(own[i]));
    for (std::int64_t rank = 0; rank < c.ranks; ++rank) {
      const auto at = static_cast<std::size_t>(row * c.ranks + rank);
      CHECK(places[at] == right[static_cast<std::size_t>(rank)]);
      CHECK(static_cast<double>(values[at]) ==
            doctest::Approx(std::exp(static_cast<double>(own[right[static_cast<std::size_t>(rank)]])) / sum)
                .epsilon(1e-5));
    }
  }
}

TEST_CASE("the largest of a softmax, on a processor and by the device file of GPUs") {
  for (const OrderCase& c :
       {OrderCase{5, 64, 8, DType::f32, true, false, true}, OrderCase{3, 300, 16, DType::f32, true, false, true}}) {
    const auto kernel = order_kernel(c);
    REQUIRE(kernel.has_value());
    std::vector<float> x;
    for (std::int64_t i = 0; i < c.rows * c.length; ++i)
      x.push_back(static_cast<float>(3 * std::sin(static_cast<double>(i * i + 7 * i))));
    std::vector<float> values(static_cast<std::size_t>(c.rows * c.ranks));
    std::vector<std::int64_t> places(values.size(), -1);
    Genome genome = seeds(*kernel, host()).front();
    genome["threads"] = 1;
    const auto emitted = emit(*kernel, host(), genome);
    REQUIRE(emitted.has_value());
    {
      const Compiled compiled(emitted->source, "-O1 -march=haswell -std=c++17 -fno-math-errno -Wno-psabi");
      std::vector<std::byte> room(static_cast<std::size_t>(emitted->scratch_bytes.at(0)));
      void* args[] = {x.data(), values.data(), places.data(), room.data()};
      compiled.function<void(void**)>("k0")(args);
      check_softmax(c, x, values, places);
    }
    static constexpr std::array<std::string_view, 1> files{"order.cuh"};
    std::string source =
        std::string(sm90_language) + std::string(printing::prelude(false)) + machine + device_text(files);
    std::size_t number = 0;
    for (const Genome& each : seeds(*kernel, h200())) {
      if (each.at("threads") > 512) continue;
      const auto launch = emit(*kernel, h200(), each);
      REQUIRE(launch.has_value());
      const std::string name = fmt::format("run{}", number++);
      source += on_machine(*launch, name) +
                fmt::format(
                    "extern \"C\" bool {0}(void** args) {{ return run_blocks({1}, {2}, [&] {{ "
                    "space_{0}::planish_kernel((float*)args[0], (float*)args[1], (long long*)args[2]); }}); }}\n",
                    name, launch->grid[0], launch->block[0]);
    }
    REQUIRE(number > 2);
    const Compiled library(source, "-std=c++20 -O1 -w");
    for (std::size_t i = 0; i < number; ++i) {
      std::ranges::fill(places, -1);
      void* args[] = {x.data(), values.data(), places.data()};
      REQUIRE(library.function<bool(void**)>(fmt::format("run{}", i))(args));
      check_softmax(c, x, values, places);
    }
  }
}

}  // namespace
}  // namespace planish::codegen
