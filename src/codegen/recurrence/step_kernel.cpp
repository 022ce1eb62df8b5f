#include "codegen/recurrence/step_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "codegen/recurrence/step_text.h"

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
    constants();
    functions_of_tensors();
    out_ += step_machine();
    out_ += "// ---- kernel ----\n";
    out_ += step_functions();
    out_ += fmt::format("extern \"C\" __global__ void __launch_bounds__({}, 1) planish_kernel({}) ", layout_.threads,
                        parameters());
    out_ += step_body();
    return std::move(out_);
  }

 private:
  void define(std::string_view name, std::int64_t value) { out_ += fmt::format("#define {} {}\n", name, value); }

  void constants() {
    const int padded = padded_units(layout_), part = part_of(plan_.slice, padded);
    const std::int64_t send = std::int64_t{plan_.slice} * padded * 4;
    define("GATES", gates(network_.cell));
    define("STEPS", network_.steps);
    define("BATCH", network_.batch);
    define("HIDDEN", network_.hidden);
    define("CELLS", plan_.cells);
    define("STACKED", plan_.stacked ? 1 : 0);
    define("CLUSTER", plan_.cluster);
    define("SLICES", layout_.slices);
    define("SLICE", plan_.slice);
    define("UNITS", plan_.units);
    define("ROWS", plan_.rows);
    define("TURNS", up(plan_.slice, plan_.rows));
    define("SUMS", sums(network_, plan_));
    define("EXCHANGE", static_cast<int>(plan_.exchange));
    define("BLOCK_UNITS", layout_.block_units);
    define("PADDED", padded);
    define("PART", part);
    define("QUADS", padded / 4);
    define("ALL_CHUNKS", plan_.cluster * (padded / 4));
    define("CHUNKS", layout_.chunks);
    define("KEPT", layout_.kept_chunks);
    define("WARPS", layout_.warps);
    define("SUMMING", 32 * layout_.warps);
    define("THREADS", layout_.threads);
    define("HANDS_REGISTERS", layout_.hands_registers ? 1 : 0);
    define("GIVES_ALL", task_.all ? 1 : 0);
    define("STATE_BYTES", layout_.state_bytes);
    define("SEND_BYTES", send);
    define("ZEROS_AT", zeros_at);
    std::int64_t at = bars_bytes;
    define("STATE_AT", at);
    define("BELOW_AT", at += 2 * layout_.state_bytes);
    define("MINE_AT", at += plan_.stacked ? 2 * layout_.state_bytes : 0);
    define("WEIGHTS_AT", at + 2 * send);
  }

  static std::string at(std::string_view tensor, const Strides& s, std::string_view outer) {
    return fmt::format("{}[{}LL + {} * {}LL + (b) * {}LL + (k) * {}LL]", tensor, s.offset, outer, s.outer, s.batch,
                       s.unit);
  }

  void functions_of_tensors() {
    out_ += fmt::format("#define FIRST_H(b, k) {}\n", task_.h0 ? at("h0", task_.h0_at, "cell") : "0.0f");
    out_ += fmt::format("#define FIRST_C(b, k) {}\n", task_.c0 ? at("c0", task_.c0_at, "cell") : "0.0f");
    out_ += fmt::format("#define ALL(t, b, k) {}\n", task_.all ? at("all", task_.all_at, "(t)") : "handed[0]");
    out_ += fmt::format("#define PLAIN(x) {}\n",
                        network_.cell == Cell::relu ? "((x) > 0.0f || (x) != (x) ? (x) : 0.0f)" : "tanhf(x)");
    const auto last = [&](bool there, std::string_view name, const Strides& s, std::string_view value) {
      return there ? fmt::format("{}[{}LL + cell * {}LL + b * {}LL + unit * {}LL] = {};", name, s.offset, s.outer,
                                 s.batch, s.unit, value)
                   : "";
    };
    out_ += fmt::format("#define GIVE_LAST {} {}\n", last(task_.last_h, "last_h", task_.last_h_at, "h_before[turn]"),
                        last(task_.last_c, "last_c", task_.last_c_at, "c[turn]"));
    out_ += "#define CELL_POINTERS ";
    if (!plan_.stacked) out_ += "float* const handed = 0; u32* const flags = 0; ";
    pointer("made", "made", [&](int c) { return !plan_.stacked || c == 0; }, {});
    pointer("hidden_weights", "wh", [](int) { return true; }, task_.hidden_weights);
    pointer("hidden_bias", "bh", [&](int) { return task_.biases; }, task_.hidden_bias);
    const auto reads_below = [&](int c) { return plan_.stacked && c > 0; };
    pointer("input_weights", "wx", reads_below, task_.input_weights);
    pointer("input_bias", "bx", [&](int c) { return task_.biases && reads_below(c); }, task_.input_bias);
    out_ += "\n";
  }

  /// The pointer of the cell at hand: of each cell that has one, the next of the offsets, if there are any.
  template <typename Has>
  void pointer(std::string_view name, std::string_view prefix, const Has& has,
               const std::vector<std::int64_t>& offsets) {
    out_ += fmt::format("const float* const {} = ", name);
    std::size_t next = 0;
    for (int c = 0; c < plan_.cells; ++c) {
      if (!has(c)) continue;
      out_ += fmt::format("cell == {} ? {}{} + {}LL : ", c, prefix, c, offsets.empty() ? 0 : offsets[next++]);
    }
    out_ += "(const float*)0; ";
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
    if (task_.h0) add("const float* __restrict__ h0");
    if (task_.c0) add("const float* __restrict__ c0");
    if (task_.all) add("float* __restrict__ all");
    if (task_.last_h) add("float* __restrict__ last_h");
    if (task_.last_c) add("float* __restrict__ last_c");
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
