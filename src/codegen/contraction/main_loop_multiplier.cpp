// Who multiplies: stages as they come, sums that leave the tensor core on the way, and whose turn it is.
#include "codegen/contraction/main_loop_printer.h"

namespace planish::codegen::contraction {

/// The stage's products into an accumulator, which holds something before where `keep`, an expression.
void MainLoopPrinter::steps(int accumulator, const std::string& keep) {
  std::string kept = keep;
  for (const Step& each : steps_of(plan_)) {
    if (each.accumulator != accumulator) continue;
    const Descriptor a = descriptor_of(problem_, plan_, Operand::a, each.a_part, 0, each.k);
    for (int run = 0; run < problem_.runs(); ++run) {
      const Descriptor b = descriptor_of(problem_, plan_, Operand::b, each.b_part, 0, each.k, run);
      const std::string name = problem_.runs() > 1 ? "multiply<" + number(run) + ">" : "multiply";
      line(name + "(" + std::string(accumulator == 0 ? "high" : "small") + ", " + std::to_string(encode(a)) +
           "ull + at_a + " + number(a.start / 16) + ", " + std::to_string(encode(b)) + "ull + at + " +
           number(b.start / 16) + ", " + kept + ");");
      if (run + 1 == problem_.runs()) kept = "1";
    }
  }
}

/// Tells the producer that this warp is done with the stage before.
void MainLoopPrinter::release(const std::string& condition) {
  line("if (" + condition + "lane == 0) barrier_arrive(empty + (stage == 0 ? " + number(plan_.stages - 1) +
       " : stage - 1) * 8);");
}

/// The products of a stage whose first operand the threads split: of 16 k at a time, whose registers are free once the
/// products before the last are done.
void MainLoopPrinter::split_steps(bool first, bool last) {
  line("const u32 mine = own + stage * " + number(stage_step(problem_, plan_)) + ";");
  const auto second = [&](int k, int part) {
    const Descriptor b = descriptor_of(problem_, plan_, Operand::b, part, 0, k);
    return std::to_string(encode(b)) + "ull + at + " + number(b.start / 16);
  };
  for (int k = 0; k < plan_.bk; k += 16) {
    const std::string set = number(k / 16 % 2);
    line("split_rows(hi" + set + ", lo" + set + ", top, " + (k % 32 == 0 ? "mine" : "(mine ^ 16)") + " + " +
         number(k / 32 * plan_.bm * 128) + ");");
    line("wgmma_fence();");
    line("multiply(high, hi" + set + ", " + second(k, 0) + ", " + (first && k == 0 ? "0" : "1") + ");");
    const bool ends = last && k + 16 == plan_.bk;
    if (ends) line("wgmma_commit();");
    line("multiply(small, hi" + set + ", " + second(k, 1) + ", " + (first && k == 0 ? later() : "1") + ");");
    line("multiply(small, lo" + set + ", " + second(k, 0) + ", 1);");
    line("wgmma_commit();");
    // All but what was asked for last is done: so is the stage before.
    line("wgmma_wait<1>();");
    if (k == 0) release(first ? "k > 0 && " : "");
    if (ends) add_up();
  }
}

void MainLoopPrinter::add_up() {
  line("wgmma_hold(high);");
  if (!adds_up(problem_, plan_)) return;
  line("#pragma unroll");
  line("for (int i = 0; i < " + number(accumulator_registers(plan_)) + "; ++i) sum[i] += high[i];");
}

/// Sums of rows that have to be scaled, and sums that are not finite: a part that vanished may have met an Inf.
void MainLoopPrinter::flag_fallback() {
  line(splits_in_registers(plan_) ? "bool odd_ones = odd_rows_seen(top);" : "bool odd_ones = false;");
  line("#pragma unroll");
  line("for (int i = 0; i < " + number(accumulator_registers(plan_)) + "; ++i) odd_ones = odd_ones | !is_finite(" +
       (promotes(plan_) ? "sum" : "high") + "[i]);");
  line("if (odd_ones) fallbacks[" + (reads_strips(plan_) ? number(visitor_.images) : "blockIdx.x") + "] = 1;");
}

void MainLoopPrinter::stage(int turn, int turns) {
  const bool first = turn == 0, last = turn + 1 == turns;
  const auto kept = stationary_operand(plan_);
  line("{");
  wait("full + stage * 8", "parity");
  const std::string stage_at = "(u64)((base + stage * " + number(stage_step(problem_, plan_)) + ") >> 4)";
  const std::string slice_at = kept ? "(u64)(" + slice("k + " + number(turn)) + " >> 4)" : std::string();
  line("const u64 at = " + (kept == Operand::b ? slice_at : stage_at) + ";");
  if (splits_in_registers(plan_)) {
    split_steps(first, last);
    advance();
    line("}");
    return;
  }
  const int apart = descriptor_of(problem_, plan_, Operand::a, 0, 64, 0).start -
                    descriptor_of(problem_, plan_, Operand::a, 0, 0, 0).start;
  line("const u64 at_a = " +
       (kept == Operand::b ? stage_at
        : kept             ? slice_at
                           : std::string("at")) +
       (plan_.ping_pong != 0 ? "" : " + (group - 1) * " + number(apart / 16)) + ";");
  line("wgmma_fence();");
  steps(0, !first ? "1" : promotes(plan_) ? "0" : later());
  line("wgmma_commit();");
  // All but what was asked for last is done: so is the stage before.
  line("wgmma_wait<1>();");
  release(first ? "k > 0 && " : "");
  if (promotes(plan_)) {
    line("wgmma_fence();");
    steps(1, first ? later() : "1");
    line("wgmma_commit();");
    if (last) {
      line("wgmma_wait<1>();");
      add_up();
    }
  }
  advance();
  line("}");
}

void MainLoopPrinter::multiplier() {
  const int registers = accumulator_registers(plan_);
  line("} else {");
  const bool shares = plan_.consumers > 1 || plan_.blocks > 1;
  if (shares) line("registers_increase<" + number(consumer_registers(plan_)) + ">();");
  line("const int lane = threadIdx.x % 32;");
  if (plan_.ping_pong != 0) {
    // Stages of the tiles that others have are theirs.
    line("for (int other = 1; other < group; ++other) {");
    pass();
    line("}");
    line("const u32 turns = empty + " + number(8 * plan_.stages) + ";");
    line("u32 turn = group == 1 ? 1 : 0;");
  }
  if (plan_.stationary != 0) wait("there", "0");
  if (splits_in_registers(plan_)) {
    const std::string consumer = plan_.ping_pong != 0 ? "" : "(group - 1) * 64 + ";
    // Of a thread's row every other chunk of four k, whose neighbour the second 16 k have.
    line("const u32 own = base + (" + consumer +
         "threadIdx.x % 128 / 32 * 16 + lane / 4) * 128 + (lane % 4 * 2 ^ lane / 4) * 16;");
    line("u32 hi0[4], lo0[4], hi1[4], lo1[4];");
    line("float top[2] = {0.0f, 0.0f};");
  }
  walk(plan_.ping_pong != 0);
  ahead_of_store();
  if (plan_.ping_pong != 0) {
    // Not before whoever is before has seen all its stages: a parity tells a stage from the next in its place, not from
    // later ones.
    wait("turns + (group - 1) * 8", "turn");
    line("turn ^= 1;");
  }
  line("float high[" + number(registers) + "];");
  if (promotes(plan_)) line("float small[" + number(registers) + "];");
  if (adds_up(problem_, plan_)) {
    line("float sum[" + number(registers) + "];");
    line("#pragma unroll");
    line("for (int i = 0; i < " + number(registers) + "; ++i) sum[i] = 0.0f;");
  } else if (promotes(plan_)) {
    line("float (&sum)[" + number(registers) + "] = high;");
  }
  const int turns = promotes(plan_) ? plan_.promote_k / plan_.bk : 1;
  line("#pragma unroll 1");
  line("for (int k = 0; k < " + number(depth_) + "; k += " + number(turns) + ") {");
  for (int turn = 0; turn < turns; ++turn) stage(turn, turns);
  line("}");
  if (plan_.ping_pong != 0) line("if (lane == 0) barrier_arrive(turns + group % " + number(plan_.consumers) + " * 8);");
  line("wgmma_wait<0>();");
  line(promotes(plan_) ? "wgmma_hold(small);" : "wgmma_hold(high);");
  release("");
  if (splits_in_registers(plan_) || reads_strips(plan_)) flag_fallback();
  store();
  if (plan_.ping_pong != 0) {
    line("for (int other = 1; other < " + number(plan_.consumers) + "; ++other) {");
    pass();
    line("}");
  }
  line("}");
  line("}");
}

}  // namespace planish::codegen::contraction
