#include "codegen/contraction/tap_packing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>

#include "base/rounding.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/device/device_files.h"

namespace planish::codegen::contraction {
namespace {

constexpr int tap_threads = 256;
constexpr std::int64_t tap_chunk = 8, tap_line = 64;              // channels of 16 bytes, and of 128
constexpr std::int64_t most_staged = 8192, staged_wanted = 4096;  // elements of a block: see pack_taps.cuh
constexpr int loads_under_way = 8;                                // of a thread that are under way at once

/// How a row is cut: a block has these channels of all taps.
struct TapSlices {
  std::int64_t channels, count;
};

/// Whole lines where taps are few: they leave as such. More rows than one block could read are as many blocks.
TapSlices tap_slices_of(std::int64_t taps, std::int64_t depth) {
  const auto least = [&](std::int64_t of) { return std::max(std::min(staged_wanted / taps, depth) / of * of, of); };
  std::int64_t channels = least(tap_line);
  if (taps * (channels + tap_chunk) > most_staged) channels = least(tap_chunk);
  const std::int64_t count = ceil_div(depth, channels);
  channels =
      round_up(ceil_div(depth, count), channels % tap_line == 0 ? tap_line : tap_chunk);  // as even as they can be
  return {channels, ceil_div(depth, channels)};
}

/// Elements from one to the next of the variable in memory, the least of all loads.
std::int64_t least_tap_stride(const Kernel& kernel, int root, int variable) {
  std::int64_t least = 0;
  for (const int id : printing::closure(kernel, std::array{root}, [](int) { return false; })) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    if (node.op != Op::load || !node.index.is_affine()) continue;
    const std::int64_t stride = std::abs(node.index.coefficient_of(variable));
    if (stride > 0 && (least == 0 || stride < least)) least = stride;
  }
  return least;
}

class TapPackingPrinter {
 public:
  explicit TapPackingPrinter(const Product& product)
      : product_(product),
        kernel_(product.kernel),
        root_{product.c.second},
        channels_(product.boxes_a->channels),
        depth_(product.boxes_a->tap_depth()),
        channel_(product.boxes_a->channel),
        taps_(product.c.k.begin(), product.c.k.end() - 1),
        tap_count_(kernel_.extent_of(taps_)),
        slices_(tap_slices_of(tap_count_, depth_)),
        writer_(kernel_) {}

  Packing print() {
    const std::int64_t products = product_.problem.moves(Operand::b) ? product_.problem.batches : 1;
    Packing out;
    out.inputs = writer_.inputs(root_);
    out.threads = tap_threads;
    out.blocks = products * product_.problem.n * slices_.count;
    out.part_bytes = products * product_.problem.n * product_.problem.k * 2;
    static constexpr std::array<std::string_view, 1> files{"sm90/pack_taps.cuh"};
    writer_.out = place_prelude() + device_text(files);
    writer_.line("// ---- kernel ----");
    writer_.open(
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) planish_kernel({}unsigned char* "
                    "__restrict__ out0) {{",
                    tap_threads, writer_.parameters(root_)));
    writer_.line("u16* const staged = pl_staged();");
    writer_.line(fmt::format("constexpr int pitch = pl_staged_pitch({});", slices_.channels));
    writer_.line(fmt::format("const int slice = blockIdx.x % {0} * {1}, whole = blockIdx.x / {0};", slices_.count,
                             slices_.channels));
    writer_.line(fmt::format("const int batch = whole / {0}, row = whole % {0};", product_.problem.n));
    writer_.decode("batch", product_.c.batch);
    writer_.decode("row", product_.c.n);
    read();
    writer_.line("__syncthreads();");
    write();
    writer_.close();
    out.source = std::move(writer_.out);
    return out;
  }

 private:
  /// Variables of k as memory runs through them, the last one fastest.
  std::vector<int> in_memory() const {
    std::vector<int> all = product_.c.k;
    std::ranges::stable_sort(all, std::greater<>(), [&](int v) { return least_tap_stride(kernel_, root_[0], v); });
    return all;
  }

  std::int64_t extent(int v) const { return v == channel_ ? slices_.channels : kernel_.space.extent(v); }

  void read() {
    writer_.line(fmt::format("#pragma unroll {}", loads_under_way));
    writer_.open(
        fmt::format("for (int i = threadIdx.x; i < {}; i += {}) {{", tap_count_ * slices_.channels, tap_threads));
    std::int64_t later = 1;
    const std::vector<int> order = in_memory();
    for (std::size_t n = order.size(); n-- > 0;) {
      std::string at = later > 1 ? fmt::format("(unsigned)i / {}", later) : "(unsigned)i";
      if (n > 0) at += fmt::format(" % {}", extent(order[n]));
      if (order[n] == channel_)
        writer_.line(fmt::format("const int c = {};", at));
      else
        writer_.line(fmt::format("const {} d{} = {};", writer_.coordinate(), order[n], at));
      later *= extent(order[n]);
    }
    writer_.line(fmt::format("const {} d{} = slice + c;", writer_.coordinate(), channel_));
    writer_.line("u16 value = 0;");
    const bool whole = slices_.channels * slices_.count == channels_;
    if (!whole) writer_.open(fmt::format("if (d{} < {}) {{", channel_, channels_));
    writer_.nodes(root_);
    const DType dtype = *narrow_type(kernel_, product_.c);
    writer_.line(
        fmt::format("value = {}({});", dtype == DType::f16 ? "pl_to_f16" : "pl_to_bf16", writer_.name(root_[0])));
    if (!whole) writer_.close();
    writer_.line(fmt::format("staged[({}) * pitch + c] = value;", tap_of()));
    writer_.close();
  }

  /// The number of a tap, whose coordinates are declared.
  std::string tap_of() const {
    std::string out;
    for (const int v : taps_) {
      out = out.empty() ? fmt::format("(int)d{}", v)
                        : fmt::format("({}) * {} + (int)d{}", out, kernel_.space.extent(v), v);
    }
    return out.empty() ? "0" : out;
  }

  void write() {
    const std::int64_t chunks = slices_.channels / tap_chunk;
    writer_.open(fmt::format("for (int i = threadIdx.x; i < {}; i += {}) {{", tap_count_ * chunks, tap_threads));
    writer_.line(fmt::format("const int tap = (unsigned)i / {0}, c = (unsigned)i % {0} * {1};", chunks, tap_chunk));
    if (slices_.channels * slices_.count != depth_) writer_.line(fmt::format("if (slice + c >= {}) continue;", depth_));
    writer_.line(
        fmt::format("*(uint4*)(out0 + (((long long)whole * {} + tap) * {} + slice + c) * 2) = "
                    "*(const uint4*)(staged + tap * pitch + c);",
                    tap_count_, depth_));
    writer_.close();
  }

  const Product& product_;
  const Kernel& kernel_;
  const std::vector<int> root_;
  const std::int64_t channels_, depth_;
  const int channel_;
  const std::vector<int> taps_;
  const std::int64_t tap_count_;
  const TapSlices slices_;
  PlaceWriter writer_;
};

}  // namespace

bool can_pack_taps(const Product& product) {
  return product.problem.k / product.boxes_a->tap_depth() * 2 * tap_chunk <= most_staged;
}

Packing print_tap_packing(const Product& product) {
  return TapPackingPrinter(product).print();
}

}  // namespace planish::codegen::contraction
