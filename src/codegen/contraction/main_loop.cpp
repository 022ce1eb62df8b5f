#include "codegen/contraction/main_loop.h"

#include <algorithm>
#include <functional>

#include "codegen/contraction/direct.h"
#include "codegen/contraction/exponents.h"

namespace planish::codegen::contraction {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

constexpr int moderate = 63;  ///< of exponents: two of them make a factor that is normal

/// Prints one kernel. Names in the text: `at` a stage's address, `full`/`empty` barriers, `high`/`small` what the
/// tensor core adds to, `sum` what ordinary additions do, or `high` itself.
class Printer {
 public:
  Printer(const Problem& problem, const TilePlan& plan, const Attachment& attachment, const std::string& places)
      : problem_(problem),
        plan_(plan),
        attachment_(attachment),
        places_(places),
        extents_(extents_of(problem, plan)),
        depth_(extents_.depth / plan.bk / plan.split_k) {}

  std::string print() {
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

 private:
  void line(const std::string& text) {
    if (text.starts_with("}")) --indent_;
    out_ += std::string(static_cast<std::size_t>(indent_) * 2, ' ') + text + "\n";
    if (text.ends_with("{")) ++indent_;
  }

  void instruction();
  void poll();
  void taps();
  void head();
  void zeros();
  void walk(bool turns);
  void line_of_tile();
  void maps_of_operands();
  bool maps() const { return plan_.maps != 0 && reads(plan_); }
  std::vector<Operand> unpacked() const;
  static std::string name_of(Operand operand) { return {letter(operand)}; }
  /// Where a tile's rows of the operand begin.
  static std::string origin(Operand operand) { return operand == Operand::a ? "row" : "column"; }
  static std::string place_of_map(Operand operand) { return operand == Operand::a ? "0" : "128"; }
  /// The number of the product that a tile is of.
  std::string product() const {
    if (problem_.batches == 1) return "0";
    return plan_.split_k > 1 ? "slice / " + number(plan_.split_k) : std::string("slice");
  }
  void feeder();
  void strip_feeder();
  std::string source_of(Operand operand) const;
  void sources();
  void bring_slices();
  std::string own_rows() const;
  std::string slice(const std::string& k) const;
  void copies(const std::string& k = "k");
  void bring();
  void load(Operand operand, const std::string& k);
  void put(Operand operand);
  void put_both();
  void slide();
  void advance();
  void pass();
  void multiplier();
  void stage(int turn, int turns);
  void split_steps(bool first, bool last);
  void add_up();
  /// Whether an accumulator that is a tile's holds anything before a turn's first stage.
  std::string later() const { return adds_up(problem_, plan_) || !promotes(plan_) ? "k > 0" : "0"; }
  void doubt();
  void steps(int accumulator, const std::string& keep);
  void release(const std::string& condition);
  bool lifts() const { return attachment_.scaled && lift_bytes(problem_, plan_) > 0; }
  void lift_columns();
  void lift_far();
  std::string raw(const std::string& i) const;
  std::string exponent(Operand operand, const std::string& row) const;
  bool two_images() const;
  void ahead_of_store();
  bool knows_images() const { return problem_.has_runs() || two_images() || reads_strips(plan_); }
  bool may_be_plain() const;
  std::string across() const;
  void ask_whether_plain();
  void exchange_part(const std::string& before, const std::function<std::string(const std::string&, int)>& of);
  void exchange_any();
  void results();
  void store();

  const Problem& problem_;
  const TilePlan& plan_;
  const Attachment& attachment_;
  const std::string& places_;
  bool settles_ = false;  ///< results are left in the first accumulator's registers
  Extents extents_;
  std::int64_t depth_;  ///< stages that a tile takes
  std::string out_;
  int indent_ = 0;
};

void Printer::instruction() {
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

void Printer::poll() {
  line("TC_FN void tc_poll(u32 barrier, u32 parity) {");
  if (plan_.spin_limit > 0) {
    line("for (int polls = 0; !tc_poll_once(barrier, parity); ++polls) if (polls > " + number(plan_.spin_limit) +
         ") tc_trap();");
  } else {
    line("while (!tc_poll_once(barrier, parity)) { }");
  }
  line("}");
}

void Printer::taps() {
  std::string all;
  for (const std::int64_t offset : problem_.columns->offsets) all += (all.empty() ? "" : ", ") + number(offset) + "ll";
  line("__constant__ long long tc_taps[" + number(static_cast<std::int64_t>(problem_.columns->offsets.size())) +
       "] = {" + all + "};");
}

void Printer::head() {
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

/// Factors of columns that all tiles have, as bits to which a row's exponent is added, where both are moderate.
void Printer::lift_columns() {
  line("int* const lift = (int*)(pl_smem + (base - tc_shared(pl_smem)) + " + number(lift_offset(problem_, plan_)) +
       ");");
  line("bool immoderate = false;");
  line("for (int i = threadIdx.x; i < " + number(plan_.bn) + "; i += " + number(threads(plan_)) + ") {");
  line("const int e = eb[i];");
  line("immoderate = immoderate | (abs(e) > " + number(moderate) + ");");
  line("lift[i] = (int)((unsigned)(127 + e) << 23);");
  line("}");
  line("const bool far_columns = __syncthreads_or(immoderate);");
}

/// Results of rows or columns with other exponents are multiplied back here, and with 1 later.
void Printer::lift_far() {
  line("const bool far = far_columns | __any_sync(~0u, (abs(up0) > " + number(moderate) + ") | (abs(up1) > " +
       number(moderate) + "));");
  line("const int row0 = far ? 0 : up0 << 23, row1 = far ? 0 : up1 << 23;");
  line("if (far) {");
  line("#pragma unroll");
  line("for (int i = 0; i < " + number(accumulator_registers(plan_)) + "; ++i) {");
  line("const int e = (i / 2 % 2 == 0 ? up0 : up1) + eb[i / 4 * 8 + lane % 4 * 2 + i % 2];");
  line(promotes(plan_) ? "sum[i] = tc_scale(" + raw("i") + ", e);" : "high[i] = tc_scale(high[i], e);");
  if (promotes(plan_)) line("small[i] = 0.0f;");
  line("}");
  line("}");
}

/// A register's sum. Where hi·hi is not finite the small products say nothing: lo is 0 beside an Inf, and Inf · 0 is
/// NaN.
std::string Printer::raw(const std::string& i) const {
  if (!promotes(plan_)) return "high[" + i + "]";
  return "tc_finite(sum[" + i + "]) ? fmaf(small[" + i + "], 0x1p-11f, sum[" + i + "]) : sum[" + i + "]";
}

/// Each block has its own, made where the first stage will lie.
void Printer::maps_of_operands() {
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
void Printer::zeros() {
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

void Printer::walk(bool turns) {
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
void Printer::line_of_tile() {
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

void Printer::advance() {
  line("if (++stage == " + number(plan_.stages) + ") {");
  line("stage = 0;");
  line("parity ^= 1;");
  line("}");
}

/// On to where the next tile's stages begin.
void Printer::pass() {
  line("stage += " + number(depth_ % plan_.stages) + ";");
  if (depth_ / plan_.stages % 2 != 0) line("parity ^= 1;");
  line("if (stage >= " + number(plan_.stages) + ") {");
  line("stage -= " + number(plan_.stages) + ";");
  line("parity ^= 1;");
  line("}");
}

std::vector<Operand> Printer::unpacked() const {
  std::vector<Operand> out;
  for (const Operand operand : {Operand::a, Operand::b}) {
    if (carrier(plan_, operand) != Carrier::packed) out.push_back(operand);
  }
  return out;
}

/// One thread asks for bulk copies. What threads bring all of the group do, and tell of it some stages later.
void Printer::feeder() {
  line("if (group == 0) {");
  if (reads_strips(plan_)) return strip_feeder();
  const bool shares = plan_.consumers > 1 || plan_.blocks > 1;
  if (shares) line("tc_fewer<" + number(feeder_registers(plan_)) + ">();");
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
      line("TcEight v_" + name_of(operand) + "[" + number(chunks_converted(plan_, operand)) + "];");
    load(Operand::a, "0");
  }
  line("for (int k = 0; k < " + number(depth_) + "; ++k) {");
  if (splits) load(Operand::b, "k");
  line("tc_poll(empty + stage * 8, parity ^ 1);");
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
      line("tc_doubt_" + name_of(operand) + "(top_" + name_of(operand) + ", doubts + blockIdx.x);");
  }
  line("}");
  if (all && under_way > 0) {
    line("tc_show<0>();");
    line("__syncwarp();");
    line("if (threadIdx.x % 32 == 0) for (int i = max(0, news - " + number(under_way) + "); i < news; ++i) {");
    line("tc_leave(full + told * 8);");
    line("told = told + 1 == " + number(plan_.stages) + " ? 0 : told + 1;");
    line("}");
  }
  if (!all) line("}");
}

/// All of the group read strips, of the next stage while those at hand are rounded; one also asks for bulk copies.
void Printer::strip_feeder() {
  line("tc_fewer<" + number(feeder_registers(plan_)) + ">();");
  const std::string rounds = number(plan_.rounds), each = number(plan_.strips);
  if (stationary_operand(plan_)) {
    line("if (threadIdx.x == 0) {");
    bring_slices();
    line("}");
  }
  line("TcEight mine[" + rounds + "], next[" + rounds + "];");
  line("float top[2] = {0.0f, 0.0f};");
  walk(false);
  line("const long long from_a = " + source_of(Operand::a) + ";");
  const std::string begin = problem_.has_runs() ? "first" : "column";
  const std::string strip =
      plan_.split_k > 1 ? "slice % " + number(plan_.split_k) + " * " + number(depth_ * plan_.strips) : std::string("0");
  line("const int strip = " + strip + ";");
  line("int place[" + rounds + "];");
  line("unsigned valid[" + rounds + "], later;");
  line("tc_find(place, valid, later, " + product() + ", " + begin + ", threadIdx.x);");
  line("tc_ask(mine, (const float*)b0, place, valid, strip, threadIdx.x);");
  // Two stages a turn, where they come in pairs: what was read need not be moved.
  const bool pairs = depth_ % 2 == 0;
  const auto stage = [&](const std::string& at_hand, const std::string& asked, const std::string& k) {
    line("if (" + k + " + 1 < " + number(depth_) + ") tc_ask(" + asked + ", (const float*)b0, place, valid, strip + (" +
         k + " + 1) * " + each + ", threadIdx.x);");
    line("tc_poll(empty + stage * 8, parity ^ 1);");
    line("{");
    line("const u32 at = base + stage * " + number(stage_step(problem_, plan_)) + ";");
    line("if (threadIdx.x == 0) {");
    copies(k);
    line("}");
    line("tc_drop(at, " + at_hand + ", later, top, threadIdx.x);");
    line("}");
    line("tc_shown();");
    line("__syncwarp();");
    line("if (threadIdx.x % 32 == 0) tc_leave(full + stage * 8);");
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
  line("tc_tell(doubts, " + product() + ", " + begin + ", top);");
  line("}");
}

/// Where a tile's operand begins in memory.
std::string Printer::source_of(Operand operand) const {
  if (problem_.slides(operand)) {
    const auto& columns = *problem_.columns;
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
void Printer::sources() {
  const std::string part = "slice % " + number(plan_.split_k);
  if (!reads(plan_)) {
    line("const long long from_a = " + source_of(Operand::a) + ", from_b = " + source_of(Operand::b) + ";");
  } else {
    for (const Operand operand : {Operand::a, Operand::b}) {
      const std::string name = name_of(operand);
      if (carrier(plan_, operand) == Carrier::packed) {
        line("const long long from_" + name + " = " + source_of(operand) + ";");
        continue;
      }
      if (maps()) continue;
      line("int at_" + name + "[" + number(bringing_places(plan_, operand)) + "];");
      line("tc_find_" + name + "(at_" + name + ", " + product() + ", " + origin(operand) + ", threadIdx.x);");
    }
    line("const int begin = " + (plan_.split_k > 1 ? part + " * " + number(depth_ * plan_.bk) : "0") + ";");
  }
  if (!problem_.columns) return;
  const std::int64_t runs = problem_.columns->chunks / plan_.strip_chunks;  // of each strip
  if (plan_.split_k > 1) {
    line("const int first = " + part + " * " + number(depth_ * plan_.strips) + ";");
    line("int taps = first / " + number(runs) + ", run = first % " + number(runs) + ";");
  } else {
    line("int taps = 0, run = 0;");
  }
}

/// All that is stationary, before any tile.
void Printer::bring_slices() {
  const Operand kept = *stationary_operand(plan_);
  const bool first = kept == Operand::a;
  line("tc_expect(there, " + number(stationary_bytes(problem_, plan_)) + ");");
  if (first) line("const long long kept = " + own_rows() + " * " + number(plan_.bk * 2) + "ll;");
  line("for (int k = 0; k < " + number(depth_) + "; ++k) {");
  for (const Copy& copy : copies_of(problem_, plan_)) {
    if (copy.operand != kept) continue;
    line("tc_copy(" + slice("k") + " + " + number(copy.target) + ", " + name_of(kept) + number(copy.part) +
         (first ? " + kept" : "") + " + k * " + number((first ? extents_.rows_a : extents_.rows_b) * plan_.bk * 2) +
         "ll, " + number(copy.bytes) + ", there);");
  }
  line("}");
}

/// The first row of the block's tiles, where the first operand is stationary.
std::string Printer::own_rows() const {
  return "(int)(blockIdx.x % " + number(rows_of_tiles(problem_, plan_)) + ") * " + number(plan_.bm);
}

/// The address to which what is said of a stage's stationary operand is added.
std::string Printer::slice(const std::string& k) const {
  return "(slices + (" + k + ") * " + number(slice_bytes(problem_, plan_)) + " - " +
         number(part_offset(problem_, plan_, *stationary_operand(plan_), 0)) + ")";
}

/// A stage's bulk copies.
void Printer::copies(const std::string& k) {
  if (brings(plan_)) line("if (threadIdx.x == 0) {");
  line("tc_expect(full + stage * 8, " + number(copied_bytes(problem_, plan_) - slice_bytes(problem_, plan_)) + ");");
  for (const Copy& copy : copies_of(problem_, plan_)) {
    if (problem_.slides(copy.operand) || copy.operand == stationary_operand(plan_)) continue;
    const std::string name = name_of(copy.operand);
    const std::int64_t rows = copy.operand == Operand::a ? extents_.rows_a : extents_.rows_b;
    line("tc_copy(at + " + number(copy.target) + ", " + name + number(copy.part) + " + from_" + name + " + " + k +
         " * " + number(rows * plan_.bk * 2) + "ll, " + number(copy.bytes) + ", full + stage * 8);");
  }
  if (problem_.columns && !reads_strips(plan_)) slide();
  if (maps()) {
    for (const Operand operand : unpacked()) {
      line("tc_fetch_" + name_of(operand) + "(at + " + number(part_offset(problem_, plan_, operand, 0)) + ", map + " +
           place_of_map(operand) + ", " + product() + ", " + origin(operand) + ", begin + k * " + number(plan_.bk) +
           ", full + stage * 8);");
    }
  }
  if (brings(plan_)) line("}");
}

/// Asks for an operand's chunks of the stage `k`, of fp32, into registers.
void Printer::load(Operand operand, const std::string& k) {
  const std::string name = name_of(operand);
  line("tc_load_" + name + "(v_" + name + ", " + name + "0, at_" + name + ", begin + " + k + " * " + number(plan_.bk) +
       ", threadIdx.x);");
}

/// The same split and stored.
void Printer::put(Operand operand) {
  const std::string name = name_of(operand);
  line("tc_put_" + name + "(at + " + number(part_offset(problem_, plan_, operand, 0)) + ", v_" + name + ", top_" +
       name + ", threadIdx.x);");
}

/// A stage of both: one is on its way while the other is split.
void Printer::put_both() {
  put(Operand::a);
  line("if (k + 1 < " + number(depth_) + ") {");
  load(Operand::a, "(k + 1)");
  line("}");
  put(Operand::b);
  line("tc_shown();");
  line("__syncwarp();");
  line("if (threadIdx.x % 32 == 0) tc_leave(full + stage * 8);");
}

/// A stage of what is not packed, and the news of the one that was asked for some stages ago.
void Printer::bring() {
  for (const Operand operand : unpacked()) {
    const std::string name = name_of(operand);
    line("tc_bring_" + name + "(at + " + number(part_offset(problem_, plan_, operand, 0)) + ", " + name + "0, at_" +
         name + ", begin + k * " + number(plan_.bk) + ", threadIdx.x);");
  }
  const int under_way = stages_under_way(plan_);
  line("tc_brought();");
  line("if (++news > " + number(under_way) + ") {");
  line("tc_show<" + number(under_way) + ">();");
  line("__syncwarp();");
  line("if (threadIdx.x % 32 == 0) tc_leave(full + told * 8);");
  line("told = told + 1 == " + number(plan_.stages) + " ? 0 : told + 1;");
  line("}");
}

/// Copies of the operand whose rows slide: strip by strip of the stage, one run of a strip's chunks after the other.
void Printer::slide() {
  const Columns& columns = *problem_.columns;
  const std::string name = name_of(columns.operand);
  const std::int64_t products = problem_.moves(columns.operand) ? problem_.batches : 1;
  const std::string inside = "taps < " + number(static_cast<std::int64_t>(columns.offsets.size()));
  line("#pragma unroll");
  line("for (int i = 0; i < " + number(plan_.strips) + "; ++i) {");
  line("const long long place = " + inside + " ? from_" + name + " + tc_taps[taps] + run * " +
       number(columns.positions * plan_.strip_chunks) + "ll : " + number(columns.zeros(products)) + "ll;");
  line("const long long next = " + inside + " ? " + number(columns.positions) + "ll : 0ll;");
  for (const Copy& copy : copies_of(problem_, plan_)) {
    if (!problem_.slides(copy.operand) || copy.chunk >= plan_.strip_chunks) continue;
    const std::int64_t run = problem_.has_runs() ? problem_.folding->runs[static_cast<std::size_t>(copy.run)] : 0;
    const std::string apart = run == 0 ? "" : " + (" + inside + " ? " + number(run) + " : 0)";
    line("tc_copy(at + " + number(copy.target) + " + i * " +
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

/// The stage's products into an accumulator, which holds something before where `keep`, an expression.
void Printer::steps(int accumulator, const std::string& keep) {
  std::string kept = keep;
  for (const Step& each : steps_of(plan_)) {
    if (each.accumulator != accumulator) continue;
    const Descriptor a = descriptor_of(problem_, plan_, Operand::a, each.a_part, 0, each.k);
    for (int run = 0; run < problem_.runs(); ++run) {
      const Descriptor b = descriptor_of(problem_, plan_, Operand::b, each.b_part, 0, each.k, run);
      const std::string name = problem_.runs() > 1 ? "tc_product<" + number(run) + ">" : "tc_product";
      line(name + "(" + std::string(accumulator == 0 ? "high" : "small") + ", " + std::to_string(encode(a)) +
           "ull + at_a + " + number(a.start / 16) + ", " + std::to_string(encode(b)) + "ull + at + " +
           number(b.start / 16) + ", " + kept + ");");
      if (run + 1 == problem_.runs()) kept = "1";
    }
  }
}

/// Tells the feeder that this warp is done with the stage before.
void Printer::release(const std::string& condition) {
  line("if (" + condition + "lane == 0) tc_leave(empty + (stage == 0 ? " + number(plan_.stages - 1) +
       " : stage - 1) * 8);");
}

/// The products of a stage whose first operand the threads split: of 16 k at a time, whose registers are free once the
/// products before the last are done.
void Printer::split_steps(bool first, bool last) {
  line("const u32 mine = own + stage * " + number(stage_step(problem_, plan_)) + ";");
  const auto second = [&](int k, int part) {
    const Descriptor b = descriptor_of(problem_, plan_, Operand::b, part, 0, k);
    return std::to_string(encode(b)) + "ull + at + " + number(b.start / 16);
  };
  for (int k = 0; k < plan_.bk; k += 16) {
    const std::string set = number(k / 16 % 2);
    line("tc_part_rows(hi" + set + ", lo" + set + ", top, " + (k % 32 == 0 ? "mine" : "(mine ^ 16)") + " + " +
         number(k / 32 * plan_.bm * 128) + ");");
    line("tc_begin();");
    line("tc_product(high, hi" + set + ", " + second(k, 0) + ", " + (first && k == 0 ? "0" : "1") + ");");
    const bool ends = last && k + 16 == plan_.bk;
    if (ends) line("tc_commit();");
    line("tc_product(small, hi" + set + ", " + second(k, 1) + ", " + (first && k == 0 ? later() : "1") + ");");
    line("tc_product(small, lo" + set + ", " + second(k, 0) + ", 1);");
    line("tc_commit();");
    // All but what was asked for last is done: so is the stage before.
    line("tc_finish<1>();");
    if (k == 0) release(first ? "k > 0 && " : "");
    if (ends) add_up();
  }
}

void Printer::add_up() {
  line("tc_hold(high);");
  if (!adds_up(problem_, plan_)) return;
  line("#pragma unroll");
  line("for (int i = 0; i < " + number(accumulator_registers(plan_)) + "; ++i) sum[i] += high[i];");
}

/// Sums of rows that have to be scaled, and sums that are not finite: a part that vanished may have met an Inf.
void Printer::doubt() {
  line(splits_in_registers(plan_) ? "bool odd_ones = tc_odd(top);" : "bool odd_ones = false;");
  line("#pragma unroll");
  line("for (int i = 0; i < " + number(accumulator_registers(plan_)) + "; ++i) odd_ones = odd_ones | !tc_finite(" +
       (promotes(plan_) ? "sum" : "high") + "[i]);");
  line("if (odd_ones) doubts[" + (reads_strips(plan_) ? number(attachment_.images) : "blockIdx.x") + "] = 1;");
}

void Printer::stage(int turn, int turns) {
  const bool first = turn == 0, last = turn + 1 == turns;
  const auto kept = stationary_operand(plan_);
  line("{");
  line("tc_poll(full + stage * 8, parity);");
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
       (plan_.turns != 0 ? "" : " + (group - 1) * " + number(apart / 16)) + ";");
  line("tc_begin();");
  steps(0, !first ? "1" : promotes(plan_) ? "0" : later());
  line("tc_commit();");
  // All but what was asked for last is done: so is the stage before.
  line("tc_finish<1>();");
  release(first ? "k > 0 && " : "");
  if (promotes(plan_)) {
    line("tc_begin();");
    steps(1, first ? later() : "1");
    line("tc_commit();");
    if (last) {
      line("tc_finish<1>();");
      add_up();
    }
  }
  advance();
  line("}");
}

/// The power of two that a row of an operand was multiplied by.
std::string Printer::exponent(Operand operand, const std::string& row) const {
  return exponent_of(problem_, plan_, operand, {operand == Operand::a ? "ea" : "eb", "slice", true}, row);
}

/// Whether a tile reaches into two images at most, so that their exponents are asked for once.
bool Printer::two_images() const {
  return attachment_.scaled && !problem_.has_runs() && problem_.slides(Operand::b) && !reads_strips(plan_) &&
         problem_.columns->image >= plan_.bn;
}

/// What the store needs and the product does not: it is on its way while that is made.
void Printer::ahead_of_store() {
  line("const int warp = threadIdx.x % 128 / 32;");
  line(std::string("const int m = row + ") + (plan_.turns != 0 ? "" : "(group - 1) * 64 + ") + "warp * 16;");
  if (!attachment_.scaled) return;
  line("const int up0 = " + exponent(Operand::a, "m + lane / 4") +
       ", up1 = " + exponent(Operand::a, "m + lane / 4 + 8") + ";");
  if (problem_.has_runs() && !reads_strips(plan_)) line("const int before = " + exponent(Operand::b, "first") + ";");
  if (!two_images()) return;
  const std::string image = number(problem_.columns->image);
  line("const int border = (column / " + image + " + 1) * " + image + ";");
  line("const int before = " + exponent(Operand::b, "column") + ", behind = " + exponent(Operand::b, "border") + ";");
}

/// Whether a warp asks if its rows and the tile's images have moderate exponents and all sums are finite, so that one
/// factor does for a row's results.
bool Printer::may_be_plain() const {
  return attachment_.scaled && !attachment_.crowded && !lifts() && knows_images();
}

/// The power of two of a tile's columns, where it has one; the first image's where it reaches into two.
std::string Printer::across() const {
  return reads_strips(plan_) ? exponent(Operand::b, "") : std::string("before");
}

void Printer::ask_whether_plain() {
  const auto moderate_up = [&](const std::string& up) {
    return "(abs(" + up + " + " + across() + ") <= " + number(moderate) + ")";
  };
  std::string all = moderate_up("up0") + " & " + moderate_up("up1");
  if (two_images()) all += " & (column + " + number(plan_.bn) + " <= border)";
  if (promotes(plan_)) {
    // 0 · x is NaN where x is not finite; several sums, which do not wait for each other.
    line("float odd[4] = {0.0f, 0.0f, 0.0f, 0.0f};");
    line("#pragma unroll");
    line("for (int i = 0; i < " + number(accumulator_registers(plan_)) +
         "; ++i) odd[i % 4] = fmaf(small[i], 0.0f, odd[i % 4]);");
    all += " & (odd[0] + odd[1] + odd[2] + odd[3] == 0.0f)";
  }
  line("const bool plain = __all_sync(~0u, " + all + ");");
  for (const std::string half : {"0", "1"})
    line("const float factor" + half + " = __int_as_float((int)(127u + up" + half + " + " + across() + ") << 23);");
}

/// A part's results of half a warp's rows into shared memory, by these expressions of a register's number, behind the
/// lines `before`.
void Printer::exchange_part(const std::string& before, const std::function<std::string(const std::string&, int)>& of) {
  const std::string width = number(plan_.exchange), all = number(plan_.bn);
  line("#pragma unroll");
  line(settles_ ? "for (int j = 0; j < " + all + "; j += 8) {"
                : "for (int j = part; j < min(part + " + width + ", " + all + "); j += 8) {");
  if (!before.empty()) line(before);
  line("const float left = " + of("j / 2 + h * 2", 0) + ";");
  line("const float right = " + of("j / 2 + h * 2 + 1", 1) + ";");
  line(settles_ ? "high[j / 2 + h * 2] = left, high[j / 2 + h * 2 + 1] = right;"
                : "*(float2*)(mine + j - part) = make_float2(left, right);");
  line("}");
}

/// Results of rows and columns of any exponents.
void Printer::exchange_any() {
  const std::string x = "column + j + lane % 4 * 2";
  if (lifts()) {
    exchange_part("const int2 by = far ? make_int2(127 << 23, 127 << 23) : *(const int2*)(lift + j + lane % 4 * 2);",
                  [&](const std::string& i, int side) {
                    return "(" + raw(i) + ") * __int_as_float(" + (side == 0 ? "by.x" : "by.y") +
                           " + (h == 0 ? row0 : row1))";
                  });
    return;
  }
  if (!attachment_.scaled) {
    exchange_part("", [&](const std::string& i, int) { return raw(i); });
    return;
  }
  if (knows_images()) {
    const std::string behind = two_images() ? "(" + x + " < border ? before : behind)" : across();
    exchange_part("const TcFactors factors = tc_factors((h == 0 ? up0 : up1) + " + behind + ");",
                  [&](const std::string& i, int) { return "(" + raw(i) + ") * factors.one * factors.other"; });
    return;
  }
  exchange_part("", [&](const std::string& i, int side) {
    const std::string place = side == 0 ? x : x + " + 1";
    return "tc_scale(" + raw(i) + ", (h == 0 ? up0 : up1) + " + exponent(Operand::b, place) + ")";
  });
}

/// What the accumulators hold, multiplied back, by these lines for each half of a warp's rows.
void Printer::results() {
  if (may_be_plain()) {
    line("if (plain) {");
    exchange_part("const float factor = h == 0 ? factor0 : factor1;", [&](const std::string& i, int) {
      if (!promotes(plan_)) return "high[" + i + "] * factor";
      return "fmaf(small[" + i + "], factor * 0x1p-11f, sum[" + i + "] * factor)";
    });
    line("} else {");
  }
  exchange_any();
  if (may_be_plain()) line("}");
}

/// Results go through shared memory: threads that are neighbours store neighbours. Where they are folded they are left
/// in registers besides.
void Printer::store() {
  const bool whole_m = extents_.rows_a == problem_.m;
  const bool whole_n = extents_.rows_b == problem_.n;
  const bool sliced = problem_.batches * plan_.split_k > 1;
  const std::string width = number(plan_.exchange), all = number(plan_.bn), slice = sliced ? "slice" : "0";
  const std::string end = "min(column + " + number(tile_step(plan_)) + ", " + number(problem_.n) + ")",
                    inside = whole_m ? "true" : "false";
  if (lifts()) lift_far();
  if (may_be_plain()) ask_whether_plain();
  if (attachment_.folds) {
    settles_ = true;
    line("#pragma unroll");
    line("for (int h = 0; h < 2; ++h) {");
    results();
    line("}");
    settles_ = false;
  }
  if (attachment_.stores) {
    const std::string pitch = number(exchange_pitch(plan_));
    line("float* const exchange = (float*)(pl_smem + (base - tc_shared(pl_smem)) + " +
         number(exchange_offset(problem_, plan_)) + ") + ((group - 1) * 4 + warp) * " + number(exchange_floats(plan_)) +
         ";");
    line("float* const mine = exchange + lane / 4 * " + pitch + " + lane % 4 * 2;");
    line("#pragma unroll");
    line("for (int part = 0; part < " + all + "; part += " + width + ") {");
    line("#pragma unroll");
    line("for (int h = 0; h < 2; ++h) {");
    line("__syncwarp();");
    attachment_.folds ? exchange_part("", [&](const std::string& i, int) { return "high[" + i + "]"; }) : results();
    line("__syncwarp();");
    // Columns of this part, and the first that is not there.
    const std::int64_t last = std::min<std::int64_t>(plan_.exchange, plan_.bn);
    const bool even = plan_.bn % plan_.exchange == 0 || plan_.exchange > plan_.bn;
    const bool begins = plan_.overlap > 0;
    const bool endless = problem_.has_runs() || (whole_n && even && last % 32 == 0 && !begins);
    line("tc_store<8, " + number((last + 31) / 32 * 32) + ", " + inside + ">(" + attachment_.arguments + slice +
         ", m + h * 8, column + part, " + (endless ? "0x7fffffff" : end) + ", lane, TcExchange<" + pitch +
         ">{exchange}" + (begins ? ", column" : "") + ");");
    line("}");
    line("}");
  }
  if (attachment_.folds)
    line("tc_fold<" + all + ", " + inside + ">(" + attachment_.arguments + slice + ", m, column, " + end +
         ", lane, high);");
}

void Printer::multiplier() {
  const int registers = accumulator_registers(plan_);
  line("} else {");
  const bool shares = plan_.consumers > 1 || plan_.blocks > 1;
  if (shares) line("tc_more<" + number(consumer_registers(plan_)) + ">();");
  line("const int lane = threadIdx.x % 32;");
  if (plan_.turns != 0) {
    // Stages of the tiles that others have are theirs.
    line("for (int other = 1; other < group; ++other) {");
    pass();
    line("}");
    line("const u32 turns = empty + " + number(8 * plan_.stages) + ";");
    line("u32 turn = group == 1 ? 1 : 0;");
  }
  if (plan_.stationary != 0) line("tc_poll(there, 0);");
  if (splits_in_registers(plan_)) {
    const std::string consumer = plan_.turns != 0 ? "" : "(group - 1) * 64 + ";
    // Of a thread's row every other chunk of four k, whose neighbour the second 16 k have.
    line("const u32 own = base + (" + consumer +
         "threadIdx.x % 128 / 32 * 16 + lane / 4) * 128 + (lane % 4 * 2 ^ lane / 4) * 16;");
    line("u32 hi0[4], lo0[4], hi1[4], lo1[4];");
    line("float top[2] = {0.0f, 0.0f};");
  }
  walk(plan_.turns != 0);
  ahead_of_store();
  if (plan_.turns != 0) {
    // Not before whoever is before has seen all its stages: a parity tells a stage from the next in its place, not from
    // later ones.
    line("tc_poll(turns + (group - 1) * 8, turn);");
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
  if (plan_.turns != 0) line("if (lane == 0) tc_leave(turns + group % " + number(plan_.consumers) + " * 8);");
  line("tc_finish<0>();");
  line(promotes(plan_) ? "tc_hold(small);" : "tc_hold(high);");
  release("");
  if (splits_in_registers(plan_) || reads_strips(plan_)) doubt();
  store();
  if (plan_.turns != 0) {
    line("for (int other = 1; other < " + number(plan_.consumers) + "; ++other) {");
    pass();
    line("}");
  }
  line("}");
  line("}");
}

}  // namespace

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
  loop.source = Printer(problem, plan, attachment, places).print();
  loop.threads = threads(plan);
  loop.shared_bytes = shared_bytes(problem, plan);
  loop.blocks = blocks_of(problem, plan, std::int64_t{multiprocessors} * plan.blocks);
  if (loop.blocks < 1) return fail("illegal_plan", "the device has fewer blocks than there are rows of tiles");
  return loop;
}

}  // namespace planish::codegen::contraction
