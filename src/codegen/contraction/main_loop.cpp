#include "codegen/contraction/main_loop.h"

#include <algorithm>
#include <utility>

#include "codegen/contraction/direct.h"
#include "codegen/contraction/main_loop_printer.h"

namespace planish::codegen::contraction {

std::string MainLoopPrinter::print() {
  out_ += machine_text();
  if (brings(plan_)) out_ += converts(plan_) ? std::string_view() : bringing_text();
  if (maps()) out_ += mapping_text();
  instruction();
  poll();
  if (problem_.columns) taps();
  out_ += attachment_.prelude;
  if (!reads_strips(plan_)) out_ += places_;
  if (doubts(plan_)) out_ += parting_text();
  if (converts(plan_) || reads_strips(plan_)) out_ += splitting_text();
  if (splits_in_registers(plan_)) out_ += register_text();
  if (reads_strips(plan_)) {
    out_ += strip_text();
    out_ += places_;  // which call these
  }
  if (brings(plan_)) {
    for (const Operand operand : unpacked()) out_ += print_bringing(problem_, plan_, operand);
  }
  out_ += "// ---- kernel ----\n";
  head();
  feeder();
  multiplier();
  line("}");
  return std::move(out_);
}

void MainLoopPrinter::instruction() {
  const int all = accumulator_registers(plan_), registers = all / problem_.runs();
  if (problem_.runs() > 1) line("template <int run>");
  const bool split = splits_in_registers(plan_);
  line("TC_FN void tc_product(float (&d)[" + number(all) + "], " + (split ? "const u32 (&a)[4]" : "u64 a") +
       ", u64 b, int keep) {");
  std::string places;
  for (int i = 0; i < registers; ++i) places += (i == 0 ? "%" : ", %") + number(i);
  const std::string type = plan_.element == Element::f16 ? "f16" : "bf16";
  // What lies along its rows is transposed as it is read.
  const auto turned = [&](Operand operand) { return carrier(plan_, operand) == Carrier::along_rows ? "1" : "0"; };
  const int behind = registers + (split ? 4 : 1);  // of what is multiplied
  std::string first = "%" + number(registers), transposed = turned(Operand::a) + std::string(", ");
  if (split) {
    first = "{";
    for (int i = registers; i < behind; ++i) first += (i == registers ? "%" : ", %") + number(i);
    first += "}";
    transposed.clear();  // registers are not
  }
  line("asm volatile(\"{.reg .pred p; setp.ne.b32 p, %" + number(behind + 1) +
       ", 0; wgmma.mma_async.sync.aligned.m64n" + number(run_columns(problem_, plan_)) + "k16.f32." + type + "." +
       type + " {" + places + "}, " + first + ", %" + number(behind) + ", p, 1, 1, " + transposed + turned(Operand::b) +
       ";}\" :");
  std::string operands;
  for (int i = 0; i < registers; ++i) {
    const std::string from = problem_.runs() > 1 ? "run * " + number(registers) + " + " : std::string();
    operands += (i == 0 ? "\"+f\"(d[" : ", \"+f\"(d[") + from + number(i) + "])";
    if (i % 8 == 7 || i + 1 == registers) {
      const std::string a = split ? R"("r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]))" : R"("l"(a))";
      line(operands + (i + 1 == registers ? " : " + a + ", \"l\"(b), \"r\"(keep) : \"memory\");" : ""));
      operands.clear();
    }
  }
  line("}");
}

void MainLoopPrinter::poll() {
  line("TC_FN void tc_poll(u32 barrier, u32 parity) {");
  if (plan_.spin_limit > 0) {
    line("for (int polls = 0; !tc_poll_once(barrier, parity); ++polls) if (polls > " + number(plan_.spin_limit) +
         ") tc_trap();");
  } else {
    line("while (!tc_poll_once(barrier, parity)) { }");
  }
  line("}");
}

void MainLoopPrinter::taps() {
  std::string all;
  for (const std::int64_t offset : problem_.columns->offsets) all += (all.empty() ? "" : ", ") + number(offset) + "ll";
  line("__constant__ long long tc_taps[" + number(static_cast<std::int64_t>(problem_.columns->offsets.size())) +
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
       ") planish_kernel(" + operands + attachment_.parameters + (maps() ? ", char* __restrict__ maps" : "") +
       (doubts(plan_) ? ", int* __restrict__ doubts" : "") + ") {");
  line("extern __shared__ __align__(16) unsigned char pl_smem[];");
  const std::string mask = reads(plan_) ? "1023u" : "127u";
  line("const u32 base = (tc_shared(pl_smem) + " + mask + ") & ~" + mask + ";");
  const std::int64_t stages = std::int64_t{plan_.stages} * stage_step(problem_, plan_);
  line("const u32 full = base + " + number(stages + stationary_bytes(problem_, plan_)) + ", empty = full + " +
       number(plan_.stages * 8) + ";");
  if (plan_.stationary != 0)
    line("const u32 slices = base + " + number(stages) + ", there = empty + " +
         number(plan_.stages * 8 + (plan_.turns != 0 ? 32 : 0)) + ";");
  line("const int group = tc_group();");
  line("if (threadIdx.x == 0) {");
  line("for (int i = 0; i < " + number(plan_.stages) + "; ++i) {");
  // Whoever asks for bulk copies, and each warp whose own copies are there.
  const std::size_t own = brings(plan_) || reads_strips(plan_) ? unpacked().size() : 0;
  line("tc_init(full + i * 8, " + number((own < 2 ? 1 : 0) + (own > 0 ? 4 : 0)) + ");");
  // Each warp leaves a stage when its own reads are done.
  line("tc_init(empty + i * 8, " + number(plan_.turns != 0 ? 4 : 4 * plan_.consumers) + ");");
  line("}");
  for (int w = 0; plan_.turns != 0 && w < plan_.consumers; ++w)
    line("tc_init(empty + " + number(8 * (plan_.stages + w)) + ", 4);");
  if (plan_.stationary != 0) line("tc_init(there, 1);");
  line("tc_ready();");
  line("}");
  if (problem_.columns) zeros();
  if (maps()) maps_of_operands();
  if (doubts(plan_) && !reads_strips(plan_)) line("if (threadIdx.x == 0) doubts[blockIdx.x] = 0;");
  lifts() ? lift_columns() : line("__syncthreads();");
  line("int stage = 0;");
  line("u32 parity = 0;");
}

/// Each block has its own, made where the first stage will lie.
void MainLoopPrinter::maps_of_operands() {
  line("char* const map = maps + blockIdx.x * " + number(map_bytes) + ";");
  line("if (threadIdx.x < 32) {");
  line("if (threadIdx.x < 16) tc_clear(base + threadIdx.x * 16);");
  line("__syncwarp();");
  for (const Operand operand : unpacked()) {
    const std::string name = name_of(operand), offset = place_of_map(operand);
    line("if (threadIdx.x == 0) tc_map_" + name + "(base + " + offset + ", " + name + "0);");
    line("__syncwarp();");
    line("tc_publish(map + " + offset + ", base + " + offset + ");");
  }
  line("if (threadIdx.x == 0) {");
  for (const Operand operand : unpacked()) line("tc_acquire(map + " + place_of_map(operand) + ");");
  line("tc_ready();");
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
    line("tc_clear(base + i / " + each + " * " + number(stage_step(problem_, plan_)) + " + " + number(lacking.target) +
         " + i % " + each + " * 16);");
    line("}");
    if (part + 1 == parts(plan_)) line("tc_ready();");
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
    if (carrier(plan_, operand) != Carrier::packed) out.push_back(operand);
  }
  return out;
}

Attachment plain_store(const Problem& problem) {
  const std::string n = number(problem.n);
  Attachment attachment;
  attachment.prelude =
      "template <int rows, int columns, bool all, typename Sums>\n"
      "TC_FN void tc_store(float* c, int slice, int y, int x, int end, int lane, Sums sums) {\n"
      "  float* const p = c + ((long long)slice * " +
      number(problem.m) + " + y) * " + n +
      " + x;\n"
      "#pragma unroll\n"
      "  for (int r = 0; r < rows; ++r)\n"
      "#pragma unroll\n"
      "    for (int i = lane; i < columns; i += 32)\n"
      "      if ((all || y + r < " +
      number(problem.m) + ") && x + i < end) p[(long long)r * " + n + " + i] = sums(r, i);\n}\n";
  attachment.parameters = "float* __restrict__ c";
  attachment.arguments = "c, ";
  return attachment;
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

Result<MainLoop> print_main_loop(const Problem& problem, const TilePlan& plan, const Attachment& attachment,
                                 int multiprocessors, std::int64_t shared_limit, const std::string& places) {
  PLANISH_CHECK(check(problem, plan, shared_limit));
  MainLoop loop;
  loop.source = MainLoopPrinter(problem, plan, attachment, places).print();
  loop.threads = threads(plan);
  loop.shared_bytes = shared_bytes(problem, plan);
  loop.blocks = blocks_of(problem, plan, std::int64_t{multiprocessors} * plan.blocks);
  if (loop.blocks < 1) return fail("illegal_plan", "the device has fewer blocks than there are rows of tiles");
  return loop;
}

}  // namespace planish::codegen::contraction
