#include "codegen/contraction/pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/pack_text.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/cuda_access.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

/// How the 8 rows that lie together are shared: so many blocks side by side along k, each thread with so many chunks of
/// 8 columns, of which it holds some in registers at once. Where rows are very short a block has several such groups.
struct Sharing {
  int threads = 256;
  int groups = 1;  ///< of 8 rows, one a warp or more
  int blocks = 1;
  std::int64_t share = 0;  ///< chunks of a block
  std::int64_t trips = 0;  ///< chunks of a thread
  std::int64_t held = 0;   ///< at once
  bool kept() const { return held == trips; }
  int each() const { return threads / groups; }  ///< threads of a group
};

constexpr std::int64_t most_kept = 4;
/// Groups of 8 rows that give every multiprocessor of a large device something to do, and a good deal.
constexpr std::int64_t groups_for_all = 128, groups_for_several = 512;

/// Short rows are kept from the look at their magnitudes until they are rounded. Of long ones that would leave a
/// multiprocessor a block or two, which load, wait for each other and store in step.
Sharing share_of(std::int64_t chunks, std::int64_t groups) {
  Sharing out;
  const bool kept = chunks <= std::int64_t{out.threads} / 8 * most_kept;
  // Whole warps, none of which has less than a chunk for each thread.
  while (out.groups < 8 && groups % (2 * out.groups) == 0 && chunks * 2 * out.groups <= out.threads / 8)
    out.groups *= 2;
  while (!kept && out.blocks < 8 && groups * out.blocks < groups_for_all) out.blocks *= 2;
  if (!kept && groups * out.blocks < groups_for_several)
    out.threads = groups * out.blocks < groups_for_several / 2 ? 1024 : 512;
  out.share = (chunks + out.blocks - 1) / out.blocks;
  const std::int64_t sweep = out.each() / 8;
  out.trips = (out.share + sweep - 1) / sweep;
  // A thread of 1024 has 64 registers.
  out.held = std::min<std::int64_t>(out.trips, out.threads == 1024 ? most_kept / 2 : most_kept);
  out.trips = (out.trips + out.held - 1) / out.held * out.held;
  return out;
}

/// The variables of the sum that a packed row's columns go through: `fast` ones eight by eight for a setting of the
/// `slow` ones. Where the other factor slides both are found by its strips.
struct Sum {
  std::vector<int> slow, fast;
  std::int64_t slow_count = 1, fast_count = 1;
};

Sum sum_of(const Contraction& c, const ImplicitOperand* beside) {
  if (beside == nullptr) return {{}, c.k, 1, c.depth};
  Sum sum{{}, beside->channels, beside->taps, beside->channel_count};
  for (const ImplicitDim& slide : beside->dims) {
    if (slide.tap >= 0) sum.slow.push_back(slide.tap);
  }
  return sum;
}

/// Strips of a row with its stages' zeros, and of those with the same channels how many there may be.
struct Strips {
  std::int64_t all = 0, runs = 0, groups = 0, each = 0, zeros = 0;
  Strips(const Im2col& columns, const TilePlan& plan, std::int64_t depth)
      : all(depth / plan.bk * plan.strips),
        runs(columns.chunks / plan.strip_chunks),
        groups((all + runs - 1) / runs),
        each(std::int64_t{plan.strip_chunks} * columns.taps),
        zeros(plan.bk / 8 - plan.strips * each) {}
  /// Numbers that stand for strips, the rest of a stage behind them.
  std::int64_t numbers() const { return runs * groups * each; }
};

/// `tap` and the first channel, `k`, of the eight columns that begin at `k`; `none` where they are a stage's zeros.
void print_place_in_strips(PlaceWriter& writer, const Im2col& columns, const TilePlan& plan, std::int64_t depth) {
  const Strips strips(columns, plan, depth);
  writer.line(fmt::format("const int unit = k % {} / 8, within = unit % {};", plan.bk, strips.each));
  writer.line(fmt::format("const int strip = k / {} * {} + unit / {};", plan.bk, plan.strips, strips.each));
  writer.line(fmt::format("const bool none = unit >= {};", plan.strips * strips.each));
  writer.line(fmt::format("const int tap = strip / {} * {} + within % {};", strips.runs, columns.taps, columns.taps));
  writer.line(fmt::format("k = (strip % {} * {} + within / {}) * 8;", strips.runs, plan.strip_chunks, columns.taps));
}

/// The order in which threads side by side take the chunks of a packed row: as they lie there, or, where the factor's
/// memory runs along the taps of a channel, by channels and of each its taps. What 9 taps of 8 channels hold lies side
/// by side, and read tap after tap each load would take a sector of its own for one element.
struct Order {
  std::int64_t count = 0;  ///< numbers, some of which may stand for no chunk
  bool by_channel = false;
};

/// The smallest distance in memory that one of `variables` moves any load of the factor; 0 where none does, or where
/// some index is no sum of them.
std::int64_t least_stride(const Kernel& kernel, int root, const std::vector<int>& variables) {
  std::int64_t least = 0;
  for (const int id : printing::closure(kernel, std::vector<int>{root}, [](int) { return false; })) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    if (node.op != Op::load) continue;
    if (!node.index.is_affine()) return 0;
    for (const int variable : variables) {
      const std::int64_t stride = std::abs(node.index.coefficient_of(variable));
      if (stride > 0 && (least == 0 || stride < least)) least = stride;
    }
  }
  return least;
}

Order order_of(const Kernel& kernel, int root, const Sum& sum, const Im2col* columns, const TilePlan& plan,
               std::int64_t depth) {
  const Order packed{depth / 8, false};
  if (columns == nullptr || sum.slow_count == 1 || columns->chunks % plan.strip_chunks != 0) return packed;
  const std::int64_t taps = least_stride(kernel, root, sum.slow), channels = least_stride(kernel, root, sum.fast);
  if (taps == 0 || taps >= channels) return packed;
  const Strips strips(*columns, plan, depth);
  return {strips.numbers() + depth / plan.bk * strips.zeros, true};
}

/// chunk_at(): the place in a packed row of what comes `number`th; -1 for none.
void print_order(PlaceWriter& writer, const Im2col& columns, const TilePlan& plan, std::int64_t depth) {
  const Strips strips(columns, plan, depth);
  const std::int64_t stage = plan.bk / 8;
  writer.open("PL_DEVICE int chunk_at(int number) {");
  if (strips.zeros > 0) {
    writer.line(fmt::format("const int zero = number - {};", strips.numbers()));
    writer.line(fmt::format("if (zero >= 0) return zero / {0} * {1} + {2} + zero % {0};", strips.zeros, stage,
                            plan.strips * strips.each));
  }
  writer.line(fmt::format("const int within = number % {0}, group = number / {0} % {1};", columns.taps, strips.groups));
  writer.line(fmt::format("const int chunk = number / {};", columns.taps * strips.groups));
  writer.line(fmt::format("const int strip = group * {} + chunk / {};", strips.runs, plan.strip_chunks));
  if (strips.groups * strips.runs > strips.all) writer.line(fmt::format("if (strip >= {}) return -1;", strips.all));
  writer.line(fmt::format("return strip / {0} * {1} + strip % {0} * {2} + chunk % {3} * {4} + within;", plan.strips,
                          stage, strips.each, plan.strip_chunks, columns.taps));
  writer.close();
}

/// plane_values(): eight values of a row, from column k on; zeros outside.
void print_values(PlaceWriter& writer, const Kernel& kernel, const Contraction& c, Operand operand, const Sum& sum,
                  const Im2col* columns, const TilePlan& plan, std::int64_t depth) {
  const bool is_a = operand == Operand::a;
  const std::vector<int> root{is_a ? c.first : c.second};
  const auto& rows = is_a ? c.m : c.n;
  const std::int64_t last = kernel.space.extents[static_cast<std::size_t>(sum.fast.back())];
  const bool whole = last % 8 == 0;  // a chunk lies in one run of the innermost variable
  writer.open(fmt::format("PL_DEVICE void plane_values(float (&v)[8], {}int batch, int row, int k) {{",
                          writer.parameters(root)));
  if (columns != nullptr) print_place_in_strips(writer, *columns, plan, depth);
  // Eight columns that begin outside are all outside, as packed rows are longer
  // by whole chunks where `whole` holds.
  writer.open(fmt::format("if (row >= {} || k >= {}{}) {{", is_a ? c.rows : c.columns, sum.fast_count,
                          columns != nullptr ? fmt::format(" || none || tap >= {}", sum.slow_count) : ""));
  writer.line("#pragma unroll");
  writer.line("for (int j = 0; j < 8; ++j) v[j] = 0.0f;");
  writer.line("return;");
  writer.close();
  writer.decode("batch", c.batch);
  writer.decode("row", rows);
  if (columns != nullptr) writer.decode("tap", sum.slow);
  const printing::Lanes lanes{printing::Lanes::Mode::along, 8, sum.fast.back(), {}, {}};
  for (const int id : printing::closure(kernel, root, [](int) { return false; })) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    if (node.op != Op::load) continue;
    const DType stored = kernel.inputs[static_cast<std::size_t>(node.input)].dtype;
    const auto access = printing::classify(node.index, node.where, stored, kernel.space, lanes);
    const std::string outside = printing::literal(node.dtype, node.value, node.bits);
    writer.line(fmt::format("{} r{}[8];", printing::computing_type(node.dtype), id));
    if (whole && access.kind == printing::Access::Kind::vector && access.unit > 1) {
      writer.open("{");
      writer.decode("k", sum.fast);
      const std::string where = writer.condition(node.where);
      writer.line(fmt::format("__align__(16) {} raw[8];", printing::storage_type(stored)));
      if (!where.empty()) writer.line(fmt::format("const bool there = {};", where));
      writer.line(fmt::format("{}read_eight<{}>(raw, in{} + ({}));", where.empty() ? "" : "if (there) ", access.unit,
                              node.input, writer.place_of(node.index)));
      writer.line("#pragma unroll");
      const std::string value = printing::load_form("raw[j]", stored);
      writer.line(fmt::format("for (int j = 0; j < 8; ++j) r{}[j] = {};", id,
                              where.empty() ? value : fmt::format("there ? {} : {}", value, outside)));
      writer.close();
      continue;
    }
    writer.line("#pragma unroll");
    writer.open("for (int j = 0; j < 8; ++j) {");
    writer.decode("k + j", sum.fast);
    std::string where = writer.condition(node.where);
    if (!whole) where = fmt::format("k + j < {}{}", sum.fast_count, where.empty() ? "" : " && (" + where + ")");
    const std::string value =
        printing::load_form(fmt::format("pl_ldg(in{} + ({}))", node.input, writer.place_of(node.index)), stored);
    writer.line(
        fmt::format("r{}[j] = {};", id, where.empty() ? value : fmt::format("{} ? {} : {}", where, value, outside)));
    writer.close();
  }
  writer.line("#pragma unroll");
  writer.open("for (int j = 0; j < 8; ++j) {");
  writer.decode("k + j", sum.fast);
  writer.at_hand = [](int id) { return fmt::format("r{}[j]", id); };
  writer.nodes(root);
  const std::string value = writer.name(root[0]);
  writer.line(whole ? fmt::format("v[j] = {};", value)
                    : fmt::format("v[j] = k + j < {} ? {} : 0.0f;", sum.fast_count, value));
  writer.close();
  writer.close();
}

}  // namespace

bool is_shared(const Kernel& kernel, const Contraction& c, Operand operand) {
  const auto moves = variables_of(kernel);
  const auto& own = moves[static_cast<std::size_t>(operand == Operand::a ? c.first : c.second)];
  return std::ranges::none_of(c.batch, [&](int v) { return own[static_cast<std::size_t>(v)]; });
}

namespace {

/// Prints one packing kernel. Names in the text: `v` the values of the chunks that a thread has at hand, `own` which of
/// its block's chunks one is, `f * g` the power of two that the row is multiplied by.
///
/// Rows that are kept are read once: their magnitudes decide the power. Longer ones are rounded as they come, by the
/// power of two that suits most data, and again where the magnitudes that were seen meanwhile say that it does not.
class PackingPrinter {
 public:
  PackingPrinter(const Kernel& kernel, const Contraction& c, Operand operand, const TilePlan& plan, std::int64_t rows,
                 std::int64_t depth, const ImplicitOperand* beside, const Im2col* columns, Notes notes)
      : kernel_(kernel),
        c_(c),
        operand_(operand),
        plan_(plan),
        rows_(rows),
        depth_(depth),
        notes_(notes),
        columns_(columns),
        sum_(sum_of(c, beside)),
        order_(order_of(kernel, operand == Operand::a ? c.first : c.second, sum_, columns, plan, depth)),
        splits_(parts(plan) == 2),
        in_pairs_(operand == Operand::b && splits_in_registers(plan)),
        joint_(plan.scheme == Scheme::joint ? "_joint" : ""),
        scaled_(scales(plan)),
        sharing_(share_of(order_.count, rows / 8 * (is_shared(kernel, c, operand) ? 1 : c.batches))),
        root_{operand == Operand::a ? c.first : c.second},
        writer_(kernel) {}

  Packing print() {
    describe();
    static constexpr std::array<std::string_view, 1> files{"sm90/pack.cuh"};
    writer_.out = place_prelude() + device_text(files);
    writer_.line("// ---- kernel ----");
    print_values(writer_, kernel_, c_, operand_, sum_, columns_, plan_, depth_);
    if (order_.by_channel) print_order(writer_, *columns_, plan_, depth_);
    head();
    if (!scaled_) {
      sweep(true, [&] { round(""); });
    } else {
      look();
      find_exponents();
      if (sharing_.kept())
        sweep(false, [&] { round("f * g"); });
      else
        round_again();
    }
    // Others may still be reading this block's shared memory.
    if (packing_.cluster > 1) writer_.line("cluster_wait();");
    writer_.close();
    packing_.source = std::move(writer_.out);
    return std::move(packing_);
  }

 private:
  void describe() {
    const std::int64_t products = is_shared(kernel_, c_, operand_) ? 1 : c_.batches;
    packing_.threads = sharing_.threads;
    packing_.cluster = scaled_ ? sharing_.blocks : 1;
    packing_.blocks = rows_ / 8 * products / sharing_.groups * sharing_.blocks;
    packing_.part_bytes = products * rows_ * depth_ * 2;
    packing_.exponents = scaled_ ? products * rows_ : 0;
    packing_.notes = scaled_ && (notes_.cleared > 0 || notes_.odd);
    packing_.inputs = writer_.inputs(root_);
  }

  /// The kernel's name and parameters, and which rows and chunks a thread is for.
  void head() {
    writer_.open(
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) "
                    "planish_kernel({}unsigned char* __restrict__ out0{}{}{}) {{",
                    packing_.threads, writer_.parameters(root_), splits_ ? ", unsigned char* __restrict__ out1" : "",
                    scaled_ ? ", int* __restrict__ out2" : "", packing_.notes ? ", int* __restrict__ notes" : ""));
    if (packing_.notes && notes_.cleared > 0) {
      writer_.line(fmt::format("if (blockIdx.x == 0) for (int i = threadIdx.x; i < {}; i += {}) notes[i] = 0;",
                               notes_.cleared, packing_.threads));
    }
    if (scaled_) writer_.line(fmt::format("__shared__ float most[{}];", packing_.threads / 32 * 8));
    if (packing_.cluster > 1) writer_.line("__shared__ float common[8];");
    writer_.line("const int r = threadIdx.x % 8;");
    if (sharing_.groups == 1) {
      writer_.line(fmt::format("const int part = blockIdx.x % {0}, whole = blockIdx.x / {0};", sharing_.blocks));
    } else {
      writer_.line(fmt::format("const int part = 0, whole = blockIdx.x * {} + threadIdx.x / {};", sharing_.groups,
                               sharing_.each()));
    }
    writer_.line(fmt::format("const int batch = whole / {0}, row = whole % {0} * 8 + r;", rows_ / 8));
    writer_.line(fmt::format("float v[{}][8];", sharing_.held));
  }

  /// Behind a thread's number in its block: what makes it that in its group.
  std::string within() const { return sharing_.groups == 1 ? "" : fmt::format(" % {}", sharing_.each()); }

  /// Over the chunks of a thread, whose values are computed where it `computes`: those that it holds at once first, so
  /// that all of their loads are under way.
  void sweep(bool computes, const std::function<void()>& body) {
    writer_.open(fmt::format("for (int at = 0; at < {}; at += {}) {{", sharing_.trips, sharing_.held));
    if (computes) {
      each_held(
          [&] { writer_.line(fmt::format("plane_values(v[i], {}batch, row, chunk * 8);", writer_.arguments(root_))); });
    }
    each_held(body);
    writer_.close();
  }

  void each_held(const std::function<void()>& body) {
    const std::int64_t step = sharing_.each() / 8;
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for (int i = 0; i < {}; ++i) {{", sharing_.held));
    const std::string_view name = order_.by_channel ? "number" : "chunk";
    writer_.line(
        fmt::format("const int own = (int)threadIdx.x{} / 8 + (at + i) * "
                    "{}, {} = part * {} + own;",
                    within(), step, name, sharing_.share));
    const bool ragged = order_.by_channel || sharing_.trips * step != sharing_.share ||
                        sharing_.share * sharing_.blocks != order_.count;
    if (ragged) writer_.open(fmt::format("if (own < {} && {} < {}) {{", sharing_.share, name, order_.count));
    if (order_.by_channel) {
      writer_.line("const int chunk = chunk_at(number);");
      writer_.open("if (chunk >= 0) {");
    }
    body();
    if (order_.by_channel) writer_.close();
    if (ragged) writer_.close();
    writer_.close();
  }

  /// The largest finite magnitude of a thread's chunks; those that are not kept are rounded on the way.
  void look() {
    writer_.line("float top = 0.0f;");
    if (notes_.odd) writer_.line("bool odd = false;");
    sweep(true, [&] {
      writer_.line("#pragma unroll");
      writer_.line(
          "for (int j = 0; j < 8; ++j) top = fmaxf(top, "
          "is_finite(v[i][j]) ? fabsf(v[i][j]) : 0.0f);");
      if (notes_.odd) {
        writer_.line("#pragma unroll");
        writer_.line("for (int j = 0; j < 8; ++j) odd = odd || !is_finite(v[i][j]);");
      }
      if (!sharing_.kept()) round(fmt::format("usual_factor{}()", joint_));
    });
    if (notes_.odd) writer_.line("if (odd) notes[0] = 1;");
  }

  /// Of each row, by all threads and blocks that share it.
  void find_exponents() {
    writer_.line("top = most_of_lanes(most_of_lanes(top, 8), 16);");
    writer_.line("if (threadIdx.x % 32 < 8) most[threadIdx.x / 32 * 8 + r] = top;");
    writer_.line("__syncthreads();");
    const int warps = sharing_.each() / 32;
    const std::string first =
        sharing_.groups == 1 ? "" : fmt::format("(threadIdx.x / {} * {} + w) * 8", sharing_.each(), warps);
    writer_.line(fmt::format("for (int w = 0; w < {}; ++w) top = fmaxf(top, most[{} + r]);", warps,
                             first.empty() ? "w * 8" : first));
    if (packing_.cluster > 1) {
      writer_.line("if (threadIdx.x < 8) common[r] = top;");
      writer_.line("cluster_arrive();");
      writer_.line("cluster_wait();");
      writer_.line(
          fmt::format("for (int p = 0; p < {}; ++p) top = fmaxf(top, "
                      "cluster_load(common + r, p));",
                      sharing_.blocks));
      writer_.line("cluster_arrive();");
    }
    if (!sharing_.kept()) writer_.line(fmt::format("const bool usual = is_usual{}(top);", joint_));
    writer_.line(sharing_.kept()
                     ? "const int e = scaling_exponent(top);"
                     : fmt::format("const int e = usual ? usual_exponent{}() : scaling_exponent(top);", joint_));
    writer_.line(fmt::format("if (part == 0 && threadIdx.x{} < 8) out2[batch * {} + row] = e;", within(), rows_));
    writer_.line("const float f = power_of_two(-e / 2), g = power_of_two(-e - -e / 2);");
  }

  /// What another power suits than the one that it was rounded by.
  void round_again() {
    writer_.open("if (__syncthreads_or(!usual)) {");
    sweep(true, [&] {
      writer_.open("if (!usual) {");
      round("f * g");
      writer_.close();
    });
    writer_.close();
  }

  /// A chunk, times the power of two, to its place.
  void round(std::string_view power) {
    writer_.line(splits_ ? "Chunk hi, lo;" : "Chunk hi;");
    print_rounding(writer_, plan_, "v[i]", power);
    // As place_in_operand(): slabs of bk columns, groups of 8 rows, chunks, rows.
    const std::string within = in_pairs_ ? fmt::format("chunk % {} / 4 * 512 + chunk % 4 * 4", plan_.bk / 8)
                                         : fmt::format("chunk % {} * 128", plan_.bk / 8);
    writer_.line(
        fmt::format("const long long place = batch * {}ll + chunk / {} * {}ll "
                    "+ row / 8 * {}ll + {} + r * 16;",
                    rows_ * depth_ * 2, plan_.bk / 8, rows_ * plan_.bk * 2, plan_.bk * 16, within));
    const std::string_view put = in_pairs_ ? "put_pairs" : "put_chunk";
    writer_.line(fmt::format("{}(out0 + place, hi);", put));
    if (splits_) writer_.line(fmt::format("{}(out1 + place, lo);", put));
  }

  const Kernel& kernel_;
  const Contraction& c_;
  const Operand operand_;
  const TilePlan& plan_;
  const std::int64_t rows_, depth_;
  const Notes notes_;
  const Im2col* const columns_;  ///< null where the other factor does not slide
  const Sum sum_;
  const Order order_;
  const bool splits_;
  const bool in_pairs_;           ///< each pair of a chunk beside those of its neighbours (see slot_of())
  const std::string_view joint_;  ///< what functions of the scheme have behind their names
  const bool scaled_;
  const Sharing sharing_;
  const std::vector<int> root_;
  PlaceWriter writer_;
  Packing packing_;
};

}  // namespace

Packing print_packing(const Kernel& kernel, const Contraction& c, Operand operand, const TilePlan& plan,
                      std::int64_t rows, std::int64_t depth, const ImplicitOperand* beside, const Im2col* columns,
                      Notes notes) {
  return PackingPrinter(kernel, c, operand, plan, rows, depth, beside, columns, notes).print();
}

}  // namespace planish::codegen::contraction
