#include "codegen/contraction/main_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "codegen/contraction/direct.h"
#include "codegen/contraction/main_loop_printer.h"
#include "codegen/device/device_files.h"

namespace planish::codegen::contraction {

std::string MainLoopPrinter::print() {
  static constexpr std::array<std::string_view, 1> files{"sm90/contraction.cuh"};
  out_ += device_text(files);
  instruction();
  if (plan_.spin_limit > 0) wait_or_trap();
  if (problem_.im2col) taps();
  out_ += visitor_.prelude;
  out_ += places_;
  if (brings(plan_)) {
    for (const Operand operand : unpacked()) out_ += print_bringing(problem_, plan_, operand);
  }
  out_ += "// ---- kernel ----\n";
  head();
  producer();
  multiplier();
  line("}");
  return std::move(out_);
}

/// The product's one instruction, or one for each run of columns.
void MainLoopPrinter::instruction() {
  const int runs = problem_.runs(), registers = accumulator_registers(plan_) / runs;
  const bool split = splits_in_registers(plan_);
  const std::string_view type = plan_.element == Element::f16 ? "f16" : "bf16";
  // What lies along its rows is transposed as it is read.
  const auto across = [&](Operand operand) { return load_mode(plan_, operand) == LoadMode::along_rows ? 1 : 0; };
  const std::int64_t columns = run_columns(problem_, plan_);
  if (split) {
    line(fmt::format("PL_WGMMA_REGISTERS(multiply_rows, {}, \"{}\", {})", columns, type, across(Operand::b)));
    line(fmt::format("PL_DEVICE void multiply(float (&d)[{}], const u32 (&a)[4], u64 b, int keep) {{", registers));
    line("multiply_rows(d, a[0], a[1], a[2], a[3], b, keep);");
    line("}");
    return;
  }
  line(fmt::format("PL_WGMMA_BOTH({}, {}, \"{}\", {}, {})", runs > 1 ? "multiply_run" : "multiply", columns, type,
                   across(Operand::a), across(Operand::b)));
  if (runs == 1) return;
  line("template <int run>");
  line(fmt::format("PL_DEVICE void multiply(float (&d)[{}], u64 a, u64 b, int keep) {{", registers * runs));
  line(fmt::format("multiply_run(*(float (*)[{0}])&d[run * {0}], a, b, keep);", registers));
  line("}");
}

void MainLoopPrinter::wait_or_trap() {
  line("PL_DEVICE void wait_or_trap(u32 barrier, u32 parity) {");
  line(fmt::format("for (int polls = 0; !barrier_try_wait(barrier, parity); ++polls) if (polls > {}) __trap();",
                   plan_.spin_limit));
  line("}");
}

/// Waits until a barrier's phase of this parity has ended.
void MainLoopPrinter::wait(std::string_view barrier, std::string_view parity) {
  line(fmt::format("{}({}, {});", plan_.spin_limit > 0 ? "wait_or_trap" : "barrier_wait", barrier, parity));
}

void MainLoopPrinter::taps() {
  std::string all;
  for (const std::int64_t offset : problem_.im2col->offsets) all += (all.empty() ? "" : ", ") + number(offset) + "ll";
  line("__constant__ long long tap_offsets[" + number(static_cast<std::int64_t>(problem_.im2col->offsets.size())) +
       "] = {" + all + "};");
}

void MainLoopPrinter::head() {
  std::string operands;
  for (const char* const name : {"a", "b"}) {
    const bool whole = converts(plan_) || (*name == 'a' ? splits_in_registers(plan_) : reads_strips(plan_));
    for (int part = 0; part < (whole ? 1 : parts(plan_)); ++part) {
      operands += "const char* __restrict__ " + std::string(name) + number(part) + ", ";
    }
  }
  line("extern \"C\" __global__ void __launch_bounds__(" + number(threads(plan_)) + ", " + number(plan_.blocks) +
       ") planish_kernel(" + operands + visitor_.parameters + (maps() ? ", char* __restrict__ maps" : "") +
       (needs_fallback(plan_) ? ", int* __restrict__ fallbacks" : "") + ") {");
  line("extern __shared__ __align__(16) unsigned char pl_smem[];");
  const std::string mask = reads(plan_) ? "1023u" : "127u";
  line("const u32 base = (shared_address(pl_smem) + " + mask + ") & ~" + mask + ";");
  const std::int64_t stages = std::int64_t{plan_.stages} * stage_step(problem_, plan_);
  line("const u32 full = base + " + number(stages + stationary_bytes(problem_, plan_)) + ", empty = full + " +
       number(plan_.stages * 8) + ";");
  if (plan_.stationary != 0)
    line("const u32 slices = base + " + number(stages) + ", there = empty + " +
         number(plan_.stages * 8 + (plan_.ping_pong != 0 ? 32 : 0)) + ";");
  line("const int group = warpgroup_number();");
  line("if (threadIdx.x == 0) {");
  line("for (int i = 0; i < " + number(plan_.stages) + "; ++i) {");
  // Whoever asks for bulk copies, and each warp whose own copies are there.
  const std::size_t own = brings(plan_) || reads_strips(plan_) ? unpacked().size() : 0;
  line("barrier_init(full + i * 8, " + number((own < 2 ? 1 : 0) + (own > 0 ? 4 : 0)) + ");");
  // Each warp leaves a stage when its own reads are done.
  line("barrier_init(empty + i * 8, " + number(plan_.ping_pong != 0 ? 4 : 4 * plan_.consumers) + ");");
  line("}");
  for (int w = 0; plan_.ping_pong != 0 && w < plan_.consumers; ++w)
    line("barrier_init(empty + " + number(8 * (plan_.stages + w)) + ", 4);");
  if (plan_.stationary != 0) line("barrier_init(there, 1);");
  line("barrier_init_fence();");
  line("}");
  if (problem_.im2col) zeros();
  if (maps()) maps_of_operands();
  if (needs_fallback(plan_) && !reads_strips(plan_)) line("if (threadIdx.x == 0) fallbacks[blockIdx.x] = 0;");
  scales_columns() ? read_column_scales() : line("__syncthreads();");
  line("int stage = 0;");
  line("u32 parity = 0;");
}

/// Each block has its own, made where the first stage will lie.
void MainLoopPrinter::maps_of_operands() {
  line("char* const map = maps + blockIdx.x * " + number(map_bytes) + ";");
  line("if (threadIdx.x < 32) {");
  line("if (threadIdx.x < 16) shared_clear(base + threadIdx.x * 16);");
  line("__syncwarp();");
  for (const Operand operand : unpacked()) {
    const std::string name = name_of(operand), offset = place_of_map(operand);
    line("if (threadIdx.x == 0) map_" + name + "(base + " + offset + ", " + name + "0);");
    line("__syncwarp();");
    line("tensor_map_publish(map + " + offset + ", base + " + offset + ");");
  }
  line("if (threadIdx.x == 0) {");
  for (const Operand operand : unpacked()) line("tensor_map_acquire(map + " + place_of_map(operand) + ");");
  line("barrier_init_fence();");
  line("}");
  line("}");
}

/// What no copy brings.
void MainLoopPrinter::zeros() {
  for (int part = 0; part < parts(plan_); ++part) {
    const Zeros lacking = zeros_of(problem_, plan_, part);
    if (lacking.bytes == 0) continue;
    const std::string each = number(lacking.bytes / 16);
    line("for (int i = threadIdx.x; i < " + number(plan_.stages) + " * " + each + "; i += " + number(threads(plan_)) +
         ") {");
    line("shared_clear(base + i / " + each + " * " + number(stage_step(problem_, plan_)) + " + " +
         number(lacking.target) + " + i % " + each + " * 16);");
    line("}");
    if (part + 1 == parts(plan_)) line("barrier_init_fence();");
  }
}

void MainLoopPrinter::walk(bool turns) {
  const std::int64_t down = extents_.rows_a / plan_.bm;
  const std::int64_t across = extents_.rows_b / plan_.bn;
  const std::int64_t each = down * across;
  if (stationary_operand(plan_) == Operand::a) {
    // Blocks that share columns have them at the same time.
    line("const int beside = gridDim.x / " + number(down) + ";");
    line("for (int tile = blockIdx.x / " + number(down) + (turns ? " + (group - 1) * beside" : "") + "; tile < " +
         number(across) + "; tile += " + (turns ? number(plan_.consumers) + " * " : "") + "beside) {");
    line("const int row = " + own_rows() + ", column = tile * " + number(tile_step(plan_)) + ";");
    if (problem_.has_runs()) line_of_tile();
    return;
  }
  const bool sliced = problem_.batches * plan_.split_k > 1;
  const std::string count = sliced ? "whole" : "tile";
  line("for (int " + count + " = blockIdx.x" + (turns ? " + (group - 1) * gridDim.x" : "") + "; " + count + " < " +
       number(extents_.tiles) + "; " + count + " += " + (turns ? number(plan_.consumers) + " * " : "") +
       "gridDim.x) {");
  if (sliced) line("const int slice = whole / " + number(each) + ", tile = whole % " + number(each) + ";");
  const std::string band = number(plan_.raster * across);
  line("const int band = tile / " + band + " * " + number(plan_.raster) + ", within = tile % " + band + ";");
  line("const int height = min(" + number(plan_.raster) + ", " + number(down) + " - band);");
  line("const int row = (band + within % height) * " + number(plan_.bm) + ";");
  line("const int column = within / height * " + number(tile_step(plan_)) + ";");
  if (problem_.has_runs()) line_of_tile();
}

/// Where the first run of a tile begins, in positions.
void MainLoopPrinter::line_of_tile() {
  const Folding& folding = *problem_.folding;
  const std::int64_t tiles = line_tiles(problem_, plan_), width = plan_.bn;
  line("const int line = column / " + number(tiles * width) + ";");
  std::string text =
      "column % " + number(tiles * width) + " / " + number(width) + " * " + number(run_step(problem_, plan_));
  std::int64_t later = folding.line_count();
  for (const Folding::Dim& dim : folding.lines) {
    if (dim.count == 1) continue;
    later /= dim.count;
    text += " + line / " + number(later) + " % " + number(dim.count) + " * " + number(dim.step);
  }
  line("const int first = " + text + ";");
}

void MainLoopPrinter::advance() {
  line("if (++stage == " + number(plan_.stages) + ") {");
  line("stage = 0;");
  line("parity ^= 1;");
  line("}");
}

/// On to where the next tile's stages begin.
void MainLoopPrinter::pass() {
  line("stage += " + number(depth_ % plan_.stages) + ";");
  if (depth_ / plan_.stages % 2 != 0) line("parity ^= 1;");
  line("if (stage >= " + number(plan_.stages) + ") {");
  line("stage -= " + number(plan_.stages) + ";");
  line("parity ^= 1;");
  line("}");
}

std::vector<Operand> MainLoopPrinter::unpacked() const {
  std::vector<Operand> out;
  for (const Operand operand : {Operand::a, Operand::b}) {
    if (load_mode(plan_, operand) != LoadMode::packed) out.push_back(operand);
  }
  return out;
}

EpilogueVisitor plain_store(const Problem& problem) {
  const std::string n = number(problem.n);
  EpilogueVisitor visitor;
  visitor.prelude =
      "template <int rows, int columns, bool all, typename Sums>\n"
      "PL_DEVICE void store_sums(float* c, int slice, int y, int x, int end, int lane, Sums sums) {\n"
      "  float* const p = c + ((long long)slice * " +
      number(problem.m) + " + y) * " + n +
      " + x;\n"
      "#pragma unroll\n"
      "  for (int r = 0; r < rows; ++r)\n"
      "#pragma unroll\n"
      "    for (int i = lane; i < columns; i += 32)\n"
      "      if ((all || y + r < " +
      number(problem.m) + ") && x + i < end) p[(long long)r * " + n + " + i] = sums(r, i);\n}\n";
  visitor.parameters = "float* __restrict__ c";
  visitor.arguments = "c, ";
  return visitor;
}

std::string only_if_any(std::string source, const std::string& name, std::int64_t count, const std::string& condition) {
  constexpr std::string_view entry = "planish_kernel(", body = ") {\n";
  const std::size_t begin = source.find(entry) + entry.size();
  const std::size_t inside = source.find(body, begin) + body.size();
  source.insert(inside, "  {\n    int any = 0;\n    for (int i = threadIdx.x; i < " + number(count) +
                            "; i += blockDim.x) any |= " + (condition.empty() ? name + "[i]" : condition) +
                            ";\n    if (!__syncthreads_or(any)) return;\n  }\n");
  source.insert(begin, "const int* __restrict__ " + name + ", ");
  return source;
}

Result<MainLoop> print_main_loop(const Problem& problem, const TilePlan& plan, const EpilogueVisitor& visitor,
                                 int multiprocessors, std::int64_t shared_limit, const std::string& places) {
  PLANISH_CHECK(check(problem, plan, shared_limit));
  MainLoop loop;
  loop.source = MainLoopPrinter(problem, plan, visitor, places).print();
  loop.threads = threads(plan);
  loop.shared_bytes = shared_bytes(problem, plan);
  loop.blocks = blocks_of(problem, plan, std::int64_t{multiprocessors} * plan.blocks);
  if (loop.blocks < 1) return fail("illegal_plan", "the device has fewer blocks than there are rows of tiles");
  return loop;
}

}  // namespace planish::codegen::contraction
