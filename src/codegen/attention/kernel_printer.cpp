#include "codegen/attention/kernel_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/pack.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/device/device_files.h"

namespace planish::codegen::attention {
namespace {

using contraction::Operand;
using contraction::PlaceWriter;

/// Prints the policy and functors of sm90/split_attention.cuh, and its one instantiation.
class SplitPrinter {
 public:
  SplitPrinter(const Kernel& kernel, const Attention& a, const Tiling& plan)
      : kernel_(kernel),
        a_(a),
        plan_(plan),
        layout_(layout_of(a, plan)),
        epilogue_(contraction::print_epilogue(kernel, a.values)),
        writer_(kernel) {}

  MainKernel print() {
    MainKernel out;
    find_inputs();
    out.inputs = inputs_;
    line(fmt::format("PL_WGMMA_SHARED(pl_scores, {}, \"f16\", 0)", plan_.keys));
    line(fmt::format("PL_WGMMA_REGISTERS(pl_values, {}, \"f16\", 0)", layout_.columns));
    policy();
    functors();
    entry();
    static constexpr std::array<std::string_view, 1> files{"sm90/split_attention.cuh"};
    out.source = contraction::place_prelude() + device_text(files) + epilogue_.text + writer_.out;
    out.blocks = a_.scores.batches * (layout_.rows / layout_.scores.bm) * layout_.column_blocks;
    out.threads = contraction::threads(layout_.scores);
    out.shared_bytes = layout_.shared_bytes;
    return out;
  }

 private:
  void line(std::string_view text) { writer_.line(text); }
  void open(std::string_view text) { writer_.open(text); }
  void close() { writer_.close(); }

  /// Inputs of scores, of factors (for rows that are computed again) and of the epilogue.
  void find_inputs() {
    inputs_ = writer_.inputs(
        std::vector<int>{a_.score, a_.scores.first, a_.scores.second, a_.values.second, a_.shift, a_.divisor});
    for (const int each : epilogue_.inputs) {
      if (std::ranges::find(inputs_, each) == inputs_.end()) inputs_.push_back(each);
    }
    std::ranges::sort(inputs_);
  }

  std::string_view input_type(int input) const {
    return printing::storage_type(kernel_.inputs[static_cast<std::size_t>(input)].dtype);
  }

  void policy() {
    const bool shares = plan_.consumers > 1 || plan_.blocks > 1;
    const auto batched = [&](const Contraction& c, Operand operand) {
      return !contraction::is_shared(kernel_, c, operand);
    };
    open("struct Policy {");
    line(fmt::format("static constexpr int features = {}, columns = {}, depth = {}, value_columns = {};",
                     layout_.features, layout_.columns, a_.scores.depth, a_.values.columns));
    line(fmt::format("static constexpr int rows = {}, key_count = {}, keys = {}, consumers = {}, stages = {};",
                     a_.scores.rows, a_.scores.columns, plan_.keys, plan_.consumers, plan_.stages));
    line(fmt::format("static constexpr int row_blocks = {}, column_blocks = {}, key_tiles = {}, exchange = {};",
                     layout_.rows / layout_.scores.bm, layout_.column_blocks, layout_.keys / plan_.keys,
                     layout_.exchange));
    line(fmt::format("static constexpr bool batched_queries = {}, batched_keys = {}, batched_values = {}, shares = {};",
                     batched(a_.scores, Operand::a), batched(a_.scores, Operand::b), batched(a_.values, Operand::b),
                     shares));
    line(fmt::format("static constexpr int producer_registers = {}, consumer_registers = {};",
                     contraction::producer_registers(layout_.scores), contraction::consumer_registers(layout_.scores)));
    writer_.close_declaration();
  }

  void functors() {
    open("struct Functors {");
    for (const int i : inputs_) line(fmt::format("const {}* in{};", input_type(i), i));
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      line(fmt::format("{}* out{};", printing::storage_type(kernel_.outputs[o].dtype), o));
    open(
        fmt::format("PL_DEVICE void multiply_scores(float (&d)[{}], u64 a, u64 b, int keep) const {{", plan_.keys / 2));
    line("pl_scores(d, a, b, keep);");
    close();
    open(
        fmt::format("PL_DEVICE void multiply_values(float (&d)[{}], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) "
                    "const {{",
                    layout_.columns / 2));
    line("pl_values(d, a0, a1, a2, a3, b, keep);");
    close();
    tiles();
    writer_.of_fold = [this](int r) {
      return std::string(r == a_.product ? "product" : r == a_.maximum ? "maximum" : r == a_.total ? "total" : "0.0f");
    };
    value("score(int batch, int row, int key, float product)",
          {{"batch", a_.scores.batch}, {"row", a_.scores.m}, {"key", a_.scores.n}}, a_.score);
    value("query(int batch, int row, int k)", {{"batch", a_.scores.batch}, {"row", a_.scores.m}, {"k", a_.scores.k}},
          a_.scores.first);
    value("key(int batch, int key, int k)", {{"batch", a_.scores.batch}, {"key", a_.scores.n}, {"k", a_.scores.k}},
          a_.scores.second);
    value("value(int batch, int key, int column)",
          {{"batch", a_.values.batch}, {"key", a_.values.k}, {"column", a_.values.n}}, a_.values.second);
    const std::vector<std::pair<std::string, std::vector<int>>> rows{{"batch", a_.scores.batch}, {"row", a_.scores.m}};
    value("shift(int batch, int row, float maximum)", rows, a_.shift);
    value("divisor(int batch, int row, float maximum, float total)", rows, a_.divisor);
    line("template <int rows, int columns, bool all, typename Sums>");
    open("PL_DEVICE void store(int batch, int row, int column, int end, int lane, const Sums& sums) const {");
    line(fmt::format("store_sums<rows, columns, all>({}batch, row, column, end, lane, sums);", epilogue_.arguments));
    close();
    writer_.close_declaration();
  }

  void tiles() {
    open("PL_DEVICE int tiles(int row) const {");
    const std::int64_t all = layout_.keys / plan_.keys;
    if (const auto causal = causal_of(kernel_, a_)) {
      const std::int64_t extent = kernel_.space.extents[static_cast<std::size_t>(causal->row)];
      line(fmt::format("const int within = row % {};", extent));
      line(fmt::format("const long long last = within + {0} > {1} ? {1} - 1 : within + {0} - 1;", layout_.scores.bm,
                       extent));
      line(fmt::format("const long long reach = last * {}ll + {}ll;", causal->step, causal->offset));
      line(fmt::format("return reach < 0 ? 0 : (int)min({}ll, reach / {}ll / {} + 1);", all, causal->fall, plan_.keys));
    } else {
      line(fmt::format("return {};", all));
    }
    close();
  }

  /// Functor of a single place: a score, a factor, or what a row's sums are divided by.
  void value(std::string_view head, const std::vector<std::pair<std::string, std::vector<int>>>& at, int root) {
    open(fmt::format("PL_DEVICE float {} const {{", head));
    for (const auto& [linear, variables] : at) {
      if (!variables.empty() && writer_.has_place(root)) writer_.decode(linear, variables);
    }
    writer_.nodes(std::vector<int>{root});
    line(fmt::format("return {};", writer_.name(root)));
    close();
  }

  void entry() {
    std::string parameters, members;
    for (const std::string_view name : {"q0", "q1", "k0", "k1", "v0", "v1"})
      parameters += fmt::format("const char* __restrict__ {}, ", name);
    for (const std::string_view name : {"eq", "ek", "ev"})
      parameters += fmt::format("const int* __restrict__ {}, ", name);
    for (const int i : inputs_) {
      parameters += fmt::format("const {}* __restrict__ in{}, ", input_type(i), i);
      members += fmt::format("{}in{}", members.empty() ? "" : ", ", i);
    }
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      members += fmt::format("{}out{}", members.empty() ? "" : ", ", o);
    parameters += writer_.output_parameters();
    parameters.resize(parameters.size() - 2);
    line("// ---- kernel ----");
    open(fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {}) planish_kernel({}) {{",
                     contraction::threads(layout_.scores), plan_.blocks, parameters));
    line("extern __shared__ __align__(16) unsigned char pl_smem[];");
    line("const u32 begin = shared_address(pl_smem);");
    line("const SplitOperands operands{{q0, q1}, {k0, k1}, {v0, v1}, eq, ek, ev};");
    line(fmt::format("split_attention<Policy>(Functors{{{}}}, operands, pl_smem + (((begin + 127u) & ~127u) - begin));",
                     members));
    close();
  }

  const Kernel& kernel_;
  const Attention& a_;
  const Tiling plan_;
  const Layout layout_;
  const contraction::Epilogue epilogue_;
  PlaceWriter writer_;
  std::vector<int> inputs_;
};

}  // namespace

MainKernel print_kernel(const Kernel& kernel, const Attention& attention, const Tiling& plan) {
  return SplitPrinter(kernel, attention, plan).print();
}

}  // namespace planish::codegen::attention
