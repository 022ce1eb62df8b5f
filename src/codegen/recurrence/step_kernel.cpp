#include "codegen/recurrence/step_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "codegen/device/device_files.h"

namespace planish::codegen::recurrence {
namespace {

constexpr int up(std::int64_t a, std::int64_t b) {
  return static_cast<int>((a + b - 1) / b);
}

/// Elements of a block's part of the state: parts begin on banks of their own.
int part_of(int slice, int padded) {
  const int rows = slice * padded;
  return rows + ((padded - rows) % 32 + 32) % 32;
}

int padded_units(const StepLayout& layout) {
  return up(layout.block_units, 4) * 4;
}

/// Sums of a unit: of GRU's new state, what comes of its input and what comes of its state are apart.
int sums(const Recurrence& network, const StepPlan& plan) {
  return network.cell == Cell::gru && plan.stacked ? 4 : gates(network.cell);
}

constexpr int bars_bytes = 128, zeros_at = 96;  // 16 bytes of zeros behind the barriers and the counter

}  // namespace

StepLayout layout_of(const Recurrence& network, const StepPlan& plan) {
  StepLayout out;
  const int g = gates(network.cell);
  out.slices = up(network.batch, plan.slice);
  out.block_units = up(network.hidden, plan.cluster);
  const int padded = padded_units(out), part = part_of(plan.slice, padded);
  out.chunks = up(std::int64_t{plan.cluster} * (padded / 4), 16);
  out.warps = up(out.block_units, 2 * plan.units);
  const int summing = 32 * out.warps;
  out.hands_registers = plan.stacked && out.warps == 8;
  out.threads = summing + (plan.stacked ? out.hands_registers ? 128 : 32 : 0);
  out.most_registers = out.hands_registers ? 240 : std::min(255, 65536 / out.threads / 8 * 8);
  const int turns = up(plan.slice, plan.rows);
  const int others = sums(network, plan) * plan.units * plan.rows + turns * (4 + g) + g + out.chunks / 2 + 36;
  const int chunk = 4 * plan.units * g;
  const int below = plan.stacked ? chunk * out.chunks : 0;
  const int room = out.most_registers - others - below;
  constexpr int under_way = 16;  // addresses, besides a chunk's weights, where these come from shared memory
  out.kept_chunks = room >= chunk * out.chunks ? out.chunks : std::max(0, (room - under_way) / chunk - 1);
  out.registers = others + below + chunk * out.kept_chunks + (out.kept_chunks < out.chunks ? chunk : 0);
  out.state_bytes = std::int64_t{plan.cluster} * part * 4;
  out.shared_bytes = bars_bytes + (plan.stacked ? 4 : 2) * out.state_bytes + 2 * std::int64_t{plan.slice} * padded * 4 +
                     std::int64_t{out.chunks - out.kept_chunks} * plan.units * g * summing * 16;
  if (plan.stacked) {
    out.exchange_elements = std::int64_t{plan.cells - 1} * network.steps * out.slices * plan.cluster * part;
    out.flags = std::int64_t{plan.cells} * out.slices * plan.cluster;
  }
  return out;
}

namespace {

class Printer {
 public:
  Printer(const Recurrence& network, const StepPlan& plan, const StepTask& task)
      : network_(network), plan_(plan), task_(task), layout_(layout_of(network, plan)) {}

  std::string print() {
    static constexpr std::array<std::string_view, 1> files{"sm90/recurrence.cuh"};
    out_ = device_text(files);
    policy();
    functors();
    entry();
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    out_ += fmt::format(text, std::forward<Args>(args)...) + "\n";
  }

  void policy() {
    line("struct Policy {{");
    line("  static constexpr int gates = {}, steps = {}, batch = {}, hidden = {}, cells = {};", gates(network_.cell),
         network_.steps, network_.batch, network_.hidden, plan_.cells);
    line("  static constexpr int cluster = {}, slices = {}, slice = {}, units = {}, rows = {}, exchange = {};",
         plan_.cluster, layout_.slices, plan_.slice, plan_.units, plan_.rows, static_cast<int>(plan_.exchange));
    line("  static constexpr int block_units = {}, kept = {}, warps = {}, threads = {};", layout_.block_units,
         layout_.kept_chunks, layout_.warps, layout_.threads);
    line("  static constexpr bool stacked = {}, hands_registers = {}, all = {};", plan_.stacked,
         layout_.hands_registers, task_.all);
    line("}};");
  }

  static std::string at(std::string_view tensor, const Strides& s, std::string_view outer, std::string_view unit) {
    return fmt::format("{}[{}ll + {} * {}ll + b * {}ll + {} * {}ll]", tensor, s.offset, outer, s.outer, s.batch, unit,
                       s.unit);
  }

  /// Arguments of all cells that a launch has once.
  std::vector<std::pair<std::string_view, std::string_view>> shared_arguments() const {
    std::vector<std::pair<std::string_view, std::string_view>> list;
    if (task_.h0) list.emplace_back("const float*", "h0");
    if (task_.c0) list.emplace_back("const float*", "c0");
    if (task_.all) list.emplace_back("float*", "every");
    if (task_.last_h) list.emplace_back("float*", "last_h");
    if (task_.last_c) list.emplace_back("float*", "last_c");
    return list;
  }

  void functors() {
    line("struct Functors {{");
    line("  int cell;");
    line("  const float *made, *hidden_weights, *hidden_bias, *input_weights, *input_bias;");
    for (const auto& [type, name] : shared_arguments()) line("  {} {};", type, name);
    line("  float* handed;\n  u32* flags;");
    const auto first = [&](std::string_view name, bool there, std::string_view tensor, const Strides& s) {
      line("  PL_DEVICE float {}(int b, int k) const {{ return {}; }}", name,
           there ? at(tensor, s, "cell", "k") : "0.0f");
    };
    first("first_h", task_.h0, "h0", task_.h0_at);
    first("first_c", task_.c0, "c0", task_.c0_at);
    line("  PL_DEVICE void give(int t, int b, int k, float h) const {{ {} }}",
         task_.all ? at("every", task_.all_at, "t", "k") + " = h;" : "");
    const auto last = [&](bool there, std::string_view name, const Strides& s, std::string_view value) {
      return there ? fmt::format("{} = {}; ", at(name, s, "cell", "k"), value) : std::string();
    };
    line("  PL_DEVICE void last(int b, int k, float h, float c) const {{ {}{}}}",
         last(task_.last_h, "last_h", task_.last_h_at, "h"), last(task_.last_c, "last_c", task_.last_c_at, "c"));
    line("  PL_DEVICE float plain(float x) const {{ return {}; }}",
         network_.cell == Cell::relu ? "x > 0.0f || x != x ? x : 0.0f" : "tanhf(x)");
    line("}};");
  }

  void entry() {
    line("// ---- kernel ----");
    line("extern \"C\" __global__ void __launch_bounds__({}, 1) planish_kernel({}) {{", layout_.threads, parameters());
    line("  extern __shared__ __align__(128) unsigned char pl_smem[];");
    line("  Functors f;");
    line("  f.cell = blockIdx.x / {};", plan_.cluster * layout_.slices);
    const auto reads_below = [&](int c) { return plan_.stacked && c > 0; };
    pointer("made", "made", [&](int c) { return !reads_below(c); }, {});
    pointer("hidden_weights", "wh", [](int) { return true; }, task_.hidden_weights);
    pointer("hidden_bias", "bh", [&](int) { return task_.biases; }, task_.hidden_bias);
    pointer("input_weights", "wx", reads_below, task_.input_weights);
    pointer("input_bias", "bx", [&](int c) { return task_.biases && reads_below(c); }, task_.input_bias);
    for (const auto& [type, name] : shared_arguments()) line("  f.{0} = {0};", name);
    line("  f.handed = {}, f.flags = {};", plan_.stacked ? "handed" : "0", plan_.stacked ? "flags" : "0");
    line("  recurrence<Policy>(f, shared_address(pl_smem));");
    line("}}");
  }

  /// The pointer of the cell at hand: of each cell that has one, the next of the offsets, if there are any.
  template <typename Has>
  void pointer(std::string_view name, std::string_view prefix, const Has& has,
               const std::vector<std::int64_t>& offsets) {
    std::string choice;
    std::size_t next = 0;
    for (int c = 0; c < plan_.cells; ++c) {
      if (!has(c)) continue;
      choice += fmt::format("f.cell == {} ? {}{} + {}ll : ", c, prefix, c, offsets.empty() ? 0 : offsets[next++]);
    }
    line("  f.{} = {}(const float*)0;", name, choice);
  }

  std::string parameters() const {
    std::string list;
    const auto add = [&](std::string_view what) { list += fmt::format("{}{}", list.empty() ? "" : ", ", what); };
    for (int c = 0; c < plan_.cells; ++c) {
      const bool beforehand = !plan_.stacked || c == 0;
      if (beforehand) add(fmt::format("const float* __restrict__ made{}", c));
      add(fmt::format("const float* __restrict__ wh{}", c));
      if (task_.biases) add(fmt::format("const float* __restrict__ bh{}", c));
      if (beforehand) continue;
      add(fmt::format("const float* __restrict__ wx{}", c));
      if (task_.biases) add(fmt::format("const float* __restrict__ bx{}", c));
    }
    for (const auto& [type, name] : shared_arguments()) add(fmt::format("{} __restrict__ {}", type, name));
    if (plan_.stacked) {
      add("float* handed");
      add("u32* flags");
    }
    return list;
  }

  const Recurrence& network_;
  const StepPlan& plan_;
  const StepTask& task_;
  const StepLayout layout_;
  std::string out_;
};

}  // namespace

std::string step_kernel(const Recurrence& network, const StepPlan& plan, const StepTask& task) {
  return Printer(network, plan, task).print();
}

}  // namespace planish::codegen::recurrence
