// Who brings operands into shared memory: a thread that asks for copies, or a warpgroup of its own.
#include <algorithm>

#include "codegen/contraction/direct.h"
#include "codegen/contraction/main_loop_printer.h"

namespace planish::codegen::contraction {

/// One thread asks for bulk copies. What threads bring all of the group do, and tell of it some stages later.
void MainLoopPrinter::producer() {
  line("if (group == 0) {");
  if (reads_strips(plan_)) return strip_producer();
  const bool shares = plan_.consumers > 1 || plan_.blocks > 1;
  if (shares) line("registers_decrease<" + number(producer_registers(plan_)) + ">();");
  const bool all = brings(plan_), splits = converts(plan_);
  const int under_way = stages_under_way(plan_);
  if (splits) {
    for (const Operand operand : unpacked())
      line("unsigned top_" + name_of(operand) + "[" + number(splitting_tops(plan_, operand)) + "] = {};");
  } else if (all) {
    line("int news = 0, told = 0;");
  } else {
    line("if (threadIdx.x == 0) {");
    if (plan_.stationary != 0) bring_slices();
  }
  walk(false);
  sources();
  if (splits) {
    for (const Operand operand : unpacked())
      line("Eight v_" + name_of(operand) + "[" + number(chunks_converted(plan_, operand)) + "];");
    load(Operand::a, "0");
  }
  line("for (int k = 0; k < " + number(depth_) + "; ++k) {");
  if (splits) load(Operand::b, "k");
  wait("empty + stage * 8", "parity ^ 1");
  line("const u32 at = base + stage * " + number(stage_step(problem_, plan_)) + ";");
  if (!all || unpacked().size() < 2) copies();
  if (splits)
    put_both();
  else if (all)
    bring();
  advance();
  line("}");
  if (splits) {
    for (const Operand operand : unpacked())
      line("flag_" + name_of(operand) + "(top_" + name_of(operand) + ", fallbacks + blockIdx.x);");
  }
  line("}");
  if (all && under_way > 0) {
    line("cp_async_show<0>();");
    line("__syncwarp();");
    line("if (threadIdx.x % 32 == 0) for (int i = max(0, news - " + number(under_way) + "); i < news; ++i) {");
    line("barrier_arrive(full + told * 8);");
    line("told = told + 1 == " + number(plan_.stages) + " ? 0 : told + 1;");
    line("}");
  }
  if (!all) line("}");
}

/// All of the group read strips, of the next stage while those at hand are rounded; one also asks for bulk copies.
void MainLoopPrinter::strip_producer() {
  line("registers_decrease<" + number(producer_registers(plan_)) + ">();");
  const std::string rounds = number(plan_.rounds), each = number(plan_.strips);
  if (stationary_operand(plan_)) {
    line("if (threadIdx.x == 0) {");
    bring_slices();
    line("}");
  }
  line("Eight mine[" + rounds + "], next[" + rounds + "];");
  line("float top[2] = {0.0f, 0.0f};");
  walk(false);
  line("const long long from_a = " + source_of(Operand::a) + ";");
  const std::string begin = problem_.has_runs() ? "first" : "column";
  const std::string strip =
      plan_.split_k > 1 ? "slice % " + number(plan_.split_k) + " * " + number(depth_ * plan_.strips) : std::string("0");
  line("const int strip = " + strip + ";");
  line("int place[" + rounds + "];");
  line("unsigned valid[" + rounds + "], later;");
  line("find_places(place, valid, later, " + product() + ", " + begin + ", threadIdx.x);");
  line("ask_strip(mine, (const float*)b0, place, valid, strip, threadIdx.x);");
  // Two stages a turn, where they come in pairs: what was read need not be moved.
  const bool pairs = depth_ % 2 == 0;
  const auto stage = [&](const std::string& at_hand, const std::string& asked, const std::string& k) {
    line("if (" + k + " + 1 < " + number(depth_) + ") ask_strip(" + asked +
         ", (const float*)b0, place, valid, strip + (" + k + " + 1) * " + each + ", threadIdx.x);");
    wait("empty + stage * 8", "parity ^ 1");
    line("{");
    line("const u32 at = base + stage * " + number(stage_step(problem_, plan_)) + ";");
    line("if (threadIdx.x == 0) {");
    copies(k);
    line("}");
    line("drop_strip(at, " + at_hand + ", later, top, threadIdx.x);");
    line("}");
    line("fence_shared_copies();");
    line("__syncwarp();");
    line("if (threadIdx.x % 32 == 0) barrier_arrive(full + stage * 8);");
    advance();
  };
  line("for (int k = 0; k < " + number(depth_) + "; k += " + (pairs ? "2" : "1") + ") {");
  stage("mine", "next", "k");
  if (pairs) {
    stage("next", "mine", "(k + 1)");
  } else {
    line("#pragma unroll");
    line("for (int i = 0; i < " + rounds + "; ++i) mine[i] = next[i];");
  }
  line("}");
  line("tell_magnitudes(fallbacks, " + product() + ", " + begin + ", top);");
  line("}");
}

/// Where a tile's operand begins in memory.
std::string MainLoopPrinter::source_of(Operand operand) const {
  if (problem_.is_implicit(operand)) {
    const auto& columns = *problem_.im2col;
    std::string text = problem_.has_runs() ? "first" : origin(operand);
    if (problem_.moves(operand)) text += " + " + product() + " * " + number(columns.planes * columns.positions) + "ll";
    return text;
  }
  const std::int64_t rows = operand == Operand::a ? extents_.rows_a : extents_.rows_b;
  std::string text =
      problem_.moves(operand) ? product() + " * " + number(rows * extents_.depth * 2) + "ll + " : std::string();
  if (plan_.split_k > 1)
    text += "slice % " + number(plan_.split_k) + " * " + number(depth_ * rows * plan_.bk * 2) + "ll + ";
  return text + origin(operand) + " * " + number(plan_.bk * 2) + "ll";
}

/// Where a tile's operands begin in memory, and what is counted on the way.
void MainLoopPrinter::sources() {
  const std::string part = "slice % " + number(plan_.split_k);
  if (!reads(plan_)) {
    line("const long long from_a = " + source_of(Operand::a) + ", from_b = " + source_of(Operand::b) + ";");
  } else {
    for (const Operand operand : {Operand::a, Operand::b}) {
      const std::string name = name_of(operand);
      if (load_mode(plan_, operand) == LoadMode::packed) {
        line("const long long from_" + name + " = " + source_of(operand) + ";");
        continue;
      }
      if (maps()) continue;
      line("int at_" + name + "[" + number(bringing_places(plan_, operand)) + "];");
      line("find_" + name + "(at_" + name + ", " + product() + ", " + origin(operand) + ", threadIdx.x);");
    }
    line("const int begin = " + (plan_.split_k > 1 ? part + " * " + number(depth_ * plan_.bk) : "0") + ";");
  }
  if (!problem_.im2col) return;
  const std::int64_t runs = problem_.im2col->chunks / plan_.strip_chunks;  // of each strip
  if (plan_.split_k > 1) {
    line("const int first = " + part + " * " + number(depth_ * plan_.strips) + ";");
    line("int taps = first / " + number(runs) + ", run = first % " + number(runs) + ";");
  } else {
    line("int taps = 0, run = 0;");
  }
}

/// All that is stationary, before any tile.
void MainLoopPrinter::bring_slices() {
  const Operand kept = *stationary_operand(plan_);
  const bool first = kept == Operand::a;
  line("barrier_expect(there, " + number(stationary_bytes(problem_, plan_)) + ");");
  if (first) line("const long long kept = " + own_rows() + " * " + number(plan_.bk * 2) + "ll;");
  line("for (int k = 0; k < " + number(depth_) + "; ++k) {");
  for (const Copy& copy : copies_of(problem_, plan_)) {
    if (copy.operand != kept) continue;
    line("bulk_load(" + slice("k") + " + " + number(copy.target) + ", " + name_of(kept) + number(copy.part) +
         (first ? " + kept" : "") + " + k * " + number((first ? extents_.rows_a : extents_.rows_b) * plan_.bk * 2) +
         "ll, " + number(copy.bytes) + ", there);");
  }
  line("}");
}

/// The first row of the block's tiles, where the first operand is stationary.
std::string MainLoopPrinter::own_rows() const {
  return "(int)(blockIdx.x % " + number(rows_of_tiles(problem_, plan_)) + ") * " + number(plan_.bm);
}

/// The address to which what is said of a stage's stationary operand is added.
std::string MainLoopPrinter::slice(const std::string& k) const {
  return "(slices + (" + k + ") * " + number(slice_bytes(problem_, plan_)) + " - " +
         number(part_offset(problem_, plan_, *stationary_operand(plan_), 0)) + ")";
}

/// A stage's bulk copies.
void MainLoopPrinter::copies(const std::string& k) {
  if (brings(plan_)) line("if (threadIdx.x == 0) {");
  line("barrier_expect(full + stage * 8, " + number(copied_bytes(problem_, plan_) - slice_bytes(problem_, plan_)) +
       ");");
  for (const Copy& copy : copies_of(problem_, plan_)) {
    if (problem_.is_implicit(copy.operand) || copy.operand == stationary_operand(plan_)) continue;
    const std::string name = name_of(copy.operand);
    const std::int64_t rows = copy.operand == Operand::a ? extents_.rows_a : extents_.rows_b;
    line("bulk_load(at + " + number(copy.target) + ", " + name + number(copy.part) + " + from_" + name + " + " + k +
         " * " + number(rows * plan_.bk * 2) + "ll, " + number(copy.bytes) + ", full + stage * 8);");
  }
  if (problem_.im2col && !reads_strips(plan_)) slide();
  if (maps()) {
    for (const Operand operand : unpacked()) {
      line("fetch_" + name_of(operand) + "(at + " + number(part_offset(problem_, plan_, operand, 0)) + ", map + " +
           place_of_map(operand) + ", " + product() + ", " + origin(operand) + ", begin + k * " + number(plan_.bk) +
           ", full + stage * 8);");
    }
  }
  if (brings(plan_)) line("}");
}

/// Asks for an operand's chunks of the stage `k`, of fp32, into registers.
void MainLoopPrinter::load(Operand operand, const std::string& k) {
  const std::string name = name_of(operand);
  line("load_" + name + "(v_" + name + ", " + name + "0, at_" + name + ", begin + " + k + " * " + number(plan_.bk) +
       ", threadIdx.x);");
}

/// The same split and stored.
void MainLoopPrinter::put(Operand operand) {
  const std::string name = name_of(operand);
  line("put_" + name + "(at + " + number(part_offset(problem_, plan_, operand, 0)) + ", v_" + name + ", top_" + name +
       ", threadIdx.x);");
}

/// A stage of both: one is on its way while the other is split.
void MainLoopPrinter::put_both() {
  put(Operand::a);
  line("if (k + 1 < " + number(depth_) + ") {");
  load(Operand::a, "(k + 1)");
  line("}");
  put(Operand::b);
  line("fence_shared_copies();");
  line("__syncwarp();");
  line("if (threadIdx.x % 32 == 0) barrier_arrive(full + stage * 8);");
}

/// A stage of what is not packed, and the news of the one that was asked for some stages ago.
void MainLoopPrinter::bring() {
  for (const Operand operand : unpacked()) {
    const std::string name = name_of(operand);
    line("bring_" + name + "(at + " + number(part_offset(problem_, plan_, operand, 0)) + ", " + name + "0, at_" + name +
         ", begin + k * " + number(plan_.bk) + ", threadIdx.x);");
  }
  const int under_way = stages_under_way(plan_);
  line("cp_async_commit();");
  line("if (++news > " + number(under_way) + ") {");
  line("cp_async_show<" + number(under_way) + ">();");
  line("__syncwarp();");
  line("if (threadIdx.x % 32 == 0) barrier_arrive(full + told * 8);");
  line("told = told + 1 == " + number(plan_.stages) + " ? 0 : told + 1;");
  line("}");
}

/// Copies of the operand whose rows slide: strip by strip of the stage, one run of a strip's chunks after the other.
void MainLoopPrinter::slide() {
  const Im2col& columns = *problem_.im2col;
  const std::string name = name_of(columns.operand);
  const std::int64_t products = problem_.moves(columns.operand) ? problem_.batches : 1;
  const std::string inside = "taps < " + number(static_cast<std::int64_t>(columns.offsets.size()));
  line("#pragma unroll");
  line("for (int i = 0; i < " + number(plan_.strips) + "; ++i) {");
  line("const long long place = " + inside + " ? from_" + name + " + tap_offsets[taps] + run * " +
       number(columns.positions * plan_.strip_chunks) + "ll : " + number(columns.zeros(products)) + "ll;");
  line("const long long next = " + inside + " ? " + number(columns.positions) + "ll : 0ll;");
  for (const Copy& copy : copies_of(problem_, plan_)) {
    if (!problem_.is_implicit(copy.operand) || copy.chunk >= plan_.strip_chunks) continue;
    const std::int64_t run = problem_.has_runs() ? problem_.folding->runs[static_cast<std::size_t>(copy.run)] : 0;
    const std::string apart = run == 0 ? "" : " + (" + inside + " ? " + number(run) + " : 0)";
    line("bulk_load(at + " + number(copy.target) + " + i * " +
         number(std::int64_t{copy.bytes} * problem_.runs() * plan_.strip_chunks) + ", " + name + number(copy.part) +
         " + (place + " + number(copy.chunk) + " * next" + apart + ") * 16, " + number(copy.bytes) +
         ", full + stage * 8);");
  }
  line("if (++run == " + number(columns.chunks / plan_.strip_chunks) + ") {");
  line("run = 0;");
  line("++taps;");
  line("}");
  line("}");
}

}  // namespace planish::codegen::contraction
