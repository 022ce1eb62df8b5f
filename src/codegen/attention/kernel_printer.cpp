#include "codegen/attention/kernel_printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/pack.h"
#include "codegen/contraction/place_writer.h"

namespace planish::codegen::attention {
namespace {

using contraction::Operand;
using contraction::PlaceWriter;

/// Weights are times 2^12, so that both of their parts are fp16 numbers that matter.
constexpr int weight_bits = 12;

/// Names in the text: `s` scores and then weights, `o` sums so far, `t` sums of a tile, `top0`/`top1` the maxima of a
/// thread's two rows, `base` what is taken from the scores of a row, in bits; `sum` a thread's share of the
/// exponentials.
class Printer {
 public:
  Printer(const Kernel& kernel, const Attention& a, const Tiling& plan)
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
    const std::string prelude = contraction::place_prelude() + std::string(contraction::machine_text());
    functions();
    std::string functions = std::move(writer_.out);
    writer_.out.clear();
    main();
    out.source = prelude + product("tc_scores", plan_.keys, false) + product("tc_weigh", layout_.columns, true) +
                 helpers() + epilogue_.text + functions + "// ---- kernel ----\n" + writer_.out;
    out.blocks = a_.scores.batches * (layout_.rows / layout_.scores.bm) * layout_.column_blocks;
    out.threads = contraction::threads(layout_.scores);
    out.shared_bytes = layout_.shared_bytes;
    return out;
  }

 private:
  void line(const std::string& text) {
    if (text.ends_with("{"))
      writer_.open(text);
    else if (text == "}")
      writer_.close();
    else
      writer_.line(text);
  }
  void open(const std::string& text) { writer_.open(text); }
  void close() { writer_.close(); }

  /// Inputs of scores, of factors (for rows that are computed again) and of the epilogue.
  void find_inputs() {
    inputs_ = writer_.inputs(std::vector<int>{a_.score, a_.scores.first, a_.scores.second, a_.values.second});
    for (const int each : epilogue_.inputs) {
      if (std::ranges::find(inputs_, each) == inputs_.end()) inputs_.push_back(each);
    }
    std::ranges::sort(inputs_);
  }

  std::string product(const std::string& name, int columns, bool from_registers) const;
  static std::string helpers();
  void functions();
  void main();
  void head();
  void feeder();
  void consumer();
  void scores();
  void soften();
  void weigh();
  void store();
  void again();
  void tile_loop();

  const Kernel& kernel_;
  const Attention& a_;
  const Tiling plan_;
  const Layout layout_;
  const contraction::Epilogue epilogue_;
  PlaceWriter writer_;
  std::vector<int> inputs_;
};

/// One tensor-core instruction as a function: its first factor a descriptor, or four registers.
std::string Printer::product(const std::string& name, int columns, bool from_registers) const {
  const int registers = columns / 2;
  std::string places, operands;
  for (int i = 0; i < registers; ++i) {
    places += fmt::format("{}%{}", i == 0 ? "" : ", ", i);
    operands += fmt::format("{}\"+f\"(d[{}])", i == 0 ? "" : ", ", i);
  }
  const int first = registers, count = from_registers ? 4 : 1;
  const std::string a = from_registers ? fmt::format("{{%{}, %{}, %{}, %{}}}", first, first + 1, first + 2, first + 3)
                                       : fmt::format("%{}", first);
  return fmt::format(
      "TC_FN void {}(float (&d)[{}], {}, u64 b, int keep) {{\n"
      "  asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{}, 0; wgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16 "
      "{{{}}}, "
      "{}, %{}, p, 1, 1{};}}\"\n    : {}\n    : {}, \"l\"(b), \"r\"(keep) : \"memory\");\n}}\n",
      name, registers, from_registers ? "const u32 (&a)[4]" : "u64 a", first + count + 1, columns, places, a,
      first + count, from_registers ? ", 0" : ", 0, 0", operands,
      from_registers ? "\"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3])" : "\"l\"(a)");
}

std::string Printer::helpers() {
  return R"(TC_FN void tc_poll(u32 barrier, u32 parity) { while (!tc_poll_once(barrier, parity)) { } }
TC_FN float tc_exp2(float x) { float y; asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
// Two numbers as fp16, and what is left of them.
TC_FN u32 tc_pair(float a, float b) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a)); return r; }
TC_FN u32 tc_left(float a, float b, u32 hi) {
  float x, y;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(x), "=f"(y) : "r"(hi));
  return tc_pair(a - x, b - y);
}
// 2^e: beyond what a float holds, its last.
TC_FN float tc_two(int e) { return __int_as_float((min(max(e, -126), 127) + 127) << 23); }
TC_FN float tc_over(float v) { v = fmaxf(v, __shfl_xor_sync(~0u, v, 1)); return fmaxf(v, __shfl_xor_sync(~0u, v, 2)); }
TC_FN float tc_all(float v) { v += __shfl_xor_sync(~0u, v, 1); return v + __shfl_xor_sync(~0u, v, 2); }
)";
}

/// What is computed of single places: a score, the factors, and what a row's sums are divided by.
void Printer::functions() {
  const auto folds = [&](std::string product, std::string maximum, std::string total) {
    writer_.of_fold = [=, this](int r) {
      return r == a_.product ? product : r == a_.maximum ? maximum : r == a_.total ? total : std::string("0.0f");
    };
  };
  const auto value = [&](const std::string& head, const std::vector<std::pair<std::string, std::vector<int>>>& at,
                         int root) {
    const std::vector<int> roots{root};
    open(fmt::format("TC_FN float {}({}", head.substr(0, head.find('(')), writer_.parameters(roots)) +
         head.substr(head.find('(') + 1) + ") {");
    for (const auto& [linear, variables] : at) {
      if (!variables.empty()) writer_.decode(linear, variables);
    }
    writer_.nodes(roots);
    line(fmt::format("return {};", writer_.name(root)));
    close();
  };
  folds("folded", "maximum", "total");
  value("tc_score(int batch, int row, int key, float folded",
        {{"batch", a_.scores.batch}, {"row", a_.scores.m}, {"key", a_.scores.n}}, a_.score);
  value("tc_query(int batch, int row, int k", {{"batch", a_.scores.batch}, {"row", a_.scores.m}, {"k", a_.scores.k}},
        a_.scores.first);
  value("tc_key(int batch, int key, int k", {{"batch", a_.scores.batch}, {"key", a_.scores.n}, {"k", a_.scores.k}},
        a_.scores.second);
  value("tc_value(int batch, int key, int column",
        {{"batch", a_.values.batch}, {"key", a_.values.k}, {"column", a_.values.n}}, a_.values.second);
  value("tc_shift(float maximum", {}, a_.shift);
  value("tc_divisor(float maximum, float total", {}, a_.divisor);
}

void Printer::head() {
  std::string inputs;
  for (const int i : inputs_) {
    inputs += fmt::format(", const {}* __restrict__ in{}",
                          printing::storage_type(kernel_.inputs[static_cast<std::size_t>(i)].dtype), i);
  }
  std::string outputs = writer_.output_parameters();
  outputs.resize(outputs.size() - 2);
  open(fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}, {}) planish_kernel(const char* __restrict__ q0, "
      "const char* __restrict__ q1, const char* __restrict__ k0, const char* __restrict__ k1, const char* "
      "__restrict__ v0, const char* __restrict__ v1, const int* __restrict__ eq, const int* __restrict__ ek, "
      "const int* __restrict__ ev{}, {}) {{",
      contraction::threads(layout_.scores), plan_.blocks, inputs, outputs));
  line("extern __shared__ __align__(16) unsigned char pl_smem[];");
  line("const u32 base = (tc_shared(pl_smem) + 127u) & ~127u;");
  line(
      fmt::format("const u32 stages = base + {}, ready = base + {}, keys_in = ready + 8, keys_out = keys_in + {}, "
                  "values_in = keys_out + {}, values_out = values_in + {};",
                  layout_.stages_at, layout_.barriers_at, 8 * plan_.stages, 8 * plan_.stages, 8 * plan_.stages));
  line("const int group = tc_group();");
  open("if (threadIdx.x == 0) {");
  line("tc_init(ready, 1);");
  open(fmt::format("for (int i = 0; i < {}; ++i) {{", plan_.stages));
  line("tc_init(keys_in + i * 8, 1);");
  line("tc_init(values_in + i * 8, 1);");
  line(fmt::format("tc_init(keys_out + i * 8, {});", 4 * plan_.consumers));
  line(fmt::format("tc_init(values_out + i * 8, {});", 4 * plan_.consumers));
  close();
  line("tc_ready();");
  close();
  line("__syncthreads();");
  const std::int64_t down = layout_.rows / layout_.scores.bm;
  // The last rows first: where keys are masked by their place these have the most.
  line(fmt::format(
      "const int part = blockIdx.x % {0}, batch = blockIdx.x / {0} / {1}, row = ({1} - 1 - (int)(blockIdx.x / "
      "{0} % {1})) * {2};",
      layout_.column_blocks, down, layout_.scores.bm));
  const std::int64_t all = layout_.keys / plan_.keys;
  if (const auto causal = causal_of(kernel_, a_)) {
    const std::int64_t extent = kernel_.space.extents[static_cast<std::size_t>(causal->row)];
    line(fmt::format("const int within = row % {};", extent));
    line(fmt::format("const long long last = within + {0} > {1} ? {1} - 1 : within + {0} - 1;", layout_.scores.bm,
                     extent));
    line(fmt::format("const long long reach = last * {}ll + {}ll;", causal->step, causal->offset));
    line(fmt::format("const int tiles = reach < 0 ? 0 : (int)min({}ll, reach / {}ll / {} + 1);", all, causal->fall,
                     plan_.keys));
  } else {
    line(fmt::format("const int tiles = {};", all));
  }
  line("int stage = 0;");
  line("u32 parity = 0;");
}

void Printer::tile_loop() {
  line("if (++stage == " + std::to_string(plan_.stages) + ") {");
  line("stage = 0;");
  line("parity ^= 1;");
  close();
}

void Printer::feeder() {
  const auto product = [&](Operand operand, const Contraction& c) {
    return contraction::is_shared(kernel_, c, operand) ? "0" : "batch";
  };
  open("if (group == 0) {");
  const bool shares = plan_.consumers > 1 || plan_.blocks > 1;
  if (shares) line(fmt::format("tc_fewer<{}>();", contraction::feeder_registers(layout_.scores)));
  open("if (threadIdx.x == 0) {");
  line(fmt::format("const long long q = ((long long){} * {} + row) * {};", product(Operand::a, a_.scores), layout_.rows,
                   layout_.features * 2));
  line(fmt::format("const long long k = (long long){} * {}ll;", product(Operand::b, a_.scores),
                   layout_.keys * layout_.features * 2));
  const std::int64_t columns = std::int64_t{layout_.columns} * layout_.column_blocks;
  line(fmt::format("const long long v = (long long){} * {}ll + part * {};", product(Operand::b, a_.values),
                   layout_.keys * columns * 2, layout_.value_bytes));
  line(fmt::format("tc_expect(ready, {});", 2 * layout_.query_bytes));
  line(fmt::format("tc_copy(base, q0 + q, {}, ready);", layout_.query_bytes));
  line(fmt::format("tc_copy(base + {0}, q1 + q, {0}, ready);", layout_.query_bytes));
  open("for (int tile = 0; tile < tiles; ++tile) {");
  line(fmt::format("const u32 to = stages + stage * {};", layout_.stage_bytes()));
  const auto bring = [&](const std::string& what, const std::string& from, int bytes, int at, std::int64_t step) {
    line(fmt::format("tc_poll({}_out + stage * 8, parity ^ 1);", what));
    line(fmt::format("tc_expect({}_in + stage * 8, {});", what, 2 * bytes));
    for (const int part : {0, 1}) {
      line(fmt::format("tc_copy(to + {}, {}{} + {} + tile * {}ll, {}, {}_in + stage * 8);", at + part * bytes, from,
                       part, from, step, bytes, what));
    }
  };
  bring("keys", "k", layout_.key_bytes, 0, layout_.key_bytes);
  bring("values", "v", layout_.value_bytes, 2 * layout_.key_bytes, std::int64_t{plan_.keys} * columns * 2);
  tile_loop();
  close();
  close();
}

/// Queries times a tile's keys, into `s`.
void Printer::scores() {
  line("tc_poll(keys_in + stage * 8, parity);");
  line(fmt::format("const u64 from = (u64)((stages + stage * {}) >> 4);", layout_.stage_bytes()));
  line("tc_begin();");
  bool keep = false;
  for (const auto& step : contraction::steps_of(layout_.scores)) {
    const auto a = layout_.queries_of(step.a_part, step.k), b = layout_.keys_of(step.b_part, step.k);
    line(fmt::format("tc_scores(s, {}ull + at + {}, {}ull + from + {}, {});", contraction::encode(a), a.start / 16,
                     contraction::encode(b), b.start / 16, keep ? 1 : 0));
    keep = true;
  }
  line("tc_commit();");
  line("tc_finish<0>();");
  line("tc_hold(s);");
  line("if (lane == 0) tc_leave(keys_out + stage * 8);");
}

/// Scores become weights, of the maximum so far.
void Printer::soften() {
  const bool ragged = a_.scores.columns % plan_.keys != 0;
  std::string of_score;
  for (const int i : writer_.inputs(std::vector<int>{a_.score})) of_score += fmt::format("in{}, ", i);
  line(fmt::format("const int first = tile * {};", plan_.keys));
  line("const float before0 = top0, before1 = top1;");
  line("float new0 = top0, new1 = top1;");
  line("#pragma unroll");
  open(fmt::format("for (int j = 0; j < {}; ++j) {{", plan_.keys / 8));
  line("const int key = first + j * 8 + lane % 4 * 2;");
  line(fmt::format("const int2 e = *(const int2*)(ek + {} + key);",
                   contraction::is_shared(kernel_, a_.scores, Operand::b)
                       ? "0"
                       : fmt::format("(long long)batch * {}", layout_.keys)));
  line("const float f[2] = {tc_two(e.x), tc_two(e.y)};");
  line("#pragma unroll");
  open("for (int i = 0; i < 4; ++i) {");
  const std::string last = std::to_string(a_.scores.columns - 1);
  const std::string at = ragged ? fmt::format("min(key + i % 2, {})", last) : "key + i % 2";
  line(fmt::format(
      "float x = tc_score({}batch, i < 2 ? row0 : row1, {}, s[j * 4 + i] * f[i % 2] * (i < 2 ? up0 : up1));", of_score,
      at));
  if (ragged) line(fmt::format("if (key + i % 2 > {}) x = __int_as_float(0xff800000);", last));
  line("s[j * 4 + i] = x;");
  close();
  line("new0 = fmaxf(new0, fmaxf(s[j * 4], s[j * 4 + 1]));");
  line("new1 = fmaxf(new1, fmaxf(s[j * 4 + 2], s[j * 4 + 3]));");
  close();
  line("top0 = tc_over(new0);");
  line("top1 = tc_over(new1);");
  for (const int r : {0, 1}) {
    // A row of which every key so far counts nothing has no maximum yet, and no sums.
    line(fmt::format(
        "const float now{0} = fmaf(top{0} == __int_as_float(0xff800000) ? 0.0f : top{0}, 0x1.715476p+0f, -{1}.0f), "
        "less{0} = before{0} == __int_as_float(0xff800000) ? 0.0f : tc_exp2(base{0} - now{0});",
        r, weight_bits));
    line(fmt::format("base{0} = now{0};", r));
    line(fmt::format("sum{0} *= less{0};", r));
  }
  line("#pragma unroll");
  open(fmt::format("for (int j = 0; j < {}; ++j) {{", plan_.keys / 8));
  line("#pragma unroll");
  line(
      "for (int i = 0; i < 4; ++i) s[j * 4 + i] = tc_exp2(fmaf(s[j * 4 + i], 0x1.715476p+0f, i < 2 ? -base0 : "
      "-base1));");
  line("sum0 += s[j * 4] + s[j * 4 + 1];");
  line("sum1 += s[j * 4 + 2] + s[j * 4 + 3];");
  close();
}

/// Weights times a tile's values, into `t`, and that to `o`.
void Printer::weigh() {
  line(fmt::format("u32 hi[{0}][4], lo[{0}][4];", plan_.keys / 16));
  line("#pragma unroll");
  open(fmt::format("for (int i = 0; i < {}; ++i) {{", plan_.keys / 16));
  line("#pragma unroll");
  open("for (int j = 0; j < 4; ++j) {");
  line("hi[i][j] = tc_pair(s[i * 8 + j * 2], s[i * 8 + j * 2 + 1]);");
  line("lo[i][j] = tc_left(s[i * 8 + j * 2], s[i * 8 + j * 2 + 1], hi[i][j]);");
  close();
  close();
  line("tc_poll(values_in + stage * 8, parity);");
  line(fmt::format("float t[{}];", layout_.columns / 2));
  line("tc_begin();");
  bool keep = false;
  for (const auto& step : contraction::steps_of(layout_.values)) {
    const auto b = layout_.values_of(step.b_part, step.k);
    line(fmt::format("tc_weigh(t, {}[{}], {}ull + from + {}, {});", step.a_part == 0 ? "hi" : "lo", step.k / 16,
                     contraction::encode(b), b.start / 16, keep ? 1 : 0));
    keep = true;
  }
  line("tc_commit();");
  line("tc_finish<0>();");
  line("tc_hold(t);");
  line("if (lane == 0) tc_leave(values_out + stage * 8);");
  line("#pragma unroll");
  line(fmt::format("for (int i = 0; i < {}; ++i) o[i] = fmaf(o[i], i % 4 < 2 ? less0 : less1, t[i]);",
                   layout_.columns / 2));
}

/// Sums, divided, go through shared memory to the epilogue.
void Printer::store() {
  line("sum0 = tc_all(sum0);");
  line("sum1 = tc_all(sum1);");
  for (const int r : {0, 1}) {
    // The exponentials' own base, against what the definition takes from the scores.
    line(fmt::format(
        "const float own{0} = top{0} == __int_as_float(0xff800000) ? 0.0f : top{0}, shift{0} = tc_shift(top{0}), "
        "scale{0} = own{0} == shift{0} ? {1} : {1} * expf(own{0} - shift{0});",
        r, fmt::format("0x1p-{}f", weight_bits)));
    line(fmt::format("const float factor{0} = scale{0} / tc_divisor(top{0}, sum{0} * scale{0});", r));
    line(fmt::format("bool odd{0} = !tc_finite(sum{0});", r));
  }
  line("#pragma unroll");
  line(fmt::format("for (int i = 0; i < {}; ++i) (i % 4 < 2 ? odd0 : odd1) |= !tc_finite(o[i]);", layout_.columns / 2));
  line("const int warp = threadIdx.x % 128 / 32;");
  line(fmt::format(
      "float* const exchange = (float*)(pl_smem + (base - tc_shared(pl_smem)) + {}) + ((group - 1) * 4 + warp) * {};",
      layout_.exchange_at, 8 * layout_.exchange_pitch()));
  line(fmt::format("float* const mine = exchange + lane / 4 * {} + lane % 4 * 2;", layout_.exchange_pitch()));
  const bool whole = layout_.rows == a_.scores.rows;
  const std::int64_t columns = a_.values.columns;
  line("#pragma unroll");
  open(fmt::format("for (int part_ = 0; part_ < {}; part_ += {}) {{", layout_.columns, layout_.exchange));
  line("#pragma unroll");
  open("for (int h = 0; h < 2; ++h) {");
  line("__syncwarp();");
  line("#pragma unroll");
  open(fmt::format("for (int j = part_; j < min(part_ + {}, {}); j += 8) {{", layout_.exchange, layout_.columns));
  line(fmt::format("const int2 e = *(const int2*)(ev + {} + part * {} + j + lane % 4 * 2);",
                   contraction::is_shared(kernel_, a_.values, Operand::b)
                       ? "0"
                       : fmt::format("(long long)batch * {}", std::int64_t{layout_.columns} * layout_.column_blocks),
                   layout_.columns));
  line("const float by = h == 0 ? factor0 : factor1;");
  line(
      "*(float2*)(mine + j - part_) = make_float2(tc_scale(o[j / 2 + h * 2], e.x) * by, tc_scale(o[j / 2 + h * 2 + 1], "
      "e.y) * by);");
  close();
  line("__syncwarp();");
  line(
      fmt::format("tc_store<8, {}, {}>({}batch, rows + h * 8, part * {} + part_, min(part * {} + {}, {}), lane, "
                  "TcExchange<{}>{{exchange}});",
                  layout_.exchange, whole ? "true" : "false", epilogue_.arguments, layout_.columns, layout_.columns,
                  layout_.columns, columns, layout_.exchange_pitch()));
  close();
  close();
}

/// Rows that hold what is not finite, by the definition: a warp a row, a lane a key.
void Printer::again() {
  const auto arguments = [&](int root) { return writer_.arguments(std::vector<int>{root}); };
  line("const unsigned both0 = __ballot_sync(~0u, odd0), both1 = __ballot_sync(~0u, odd1);");
  open("if ((both0 | both1) != 0) {");
  line("__syncwarp();");
  line("#pragma unroll 1");
  open("for (int r = 0; r < 16; ++r) {");
  line("const unsigned mask = 15u << r % 8 * 4;");
  line(fmt::format("const int y = rows + r;"));
  line(fmt::format("if (((r < 8 ? both0 : both1) & mask) == 0 || y >= {}) continue;", a_.scores.rows));
  writer_.line("const auto score = [&](int key) {");
  line("  float sum = 0.0f;");
  line("#pragma unroll 1");
  line(fmt::format("  for (int k = 0; k < {}; ++k) sum = fmaf(tc_query({}batch, y, k), tc_key({}batch, key, k), sum);",
                   a_.scores.depth, arguments(a_.scores.first), arguments(a_.scores.second)));
  line(fmt::format("  return tc_score({}batch, y, key, sum);", arguments(a_.score)));
  line("};");
  line("float top = __int_as_float(0xff800000);");
  line("#pragma unroll 1");
  open(fmt::format("for (int key = lane; key < {}; key += 32) {{", a_.scores.columns));
  line("const float x = score(key);");
  line("top = x != x || top != top ? x + top : fmaxf(top, x);");
  close();
  line("#pragma unroll");
  open("for (int apart = 1; apart < 32; apart *= 2) {");
  line("const float x = __shfl_xor_sync(~0u, top, apart);");
  line("top = x != x || top != top ? x + top : fmaxf(top, x);");
  close();
  line("const float shift = tc_shift(top);");
  const int each = (layout_.columns + 31) / 32;
  line(fmt::format("float total = 0.0f, z[{0}];", each));
  line("#pragma unroll");
  line(fmt::format("for (int c = 0; c < {}; ++c) z[c] = 0.0f;", each));
  line("#pragma unroll 1");
  open(fmt::format("for (int first = 0; first < {}; first += 32) {{", a_.scores.columns));
  line(fmt::format("const float w = first + lane < {} ? expf(score(min(first + lane, {})) - shift) : 0.0f;",
                   a_.scores.columns, a_.scores.columns - 1));
  line("total += w;");
  line("#pragma unroll 1");
  open(fmt::format("for (int key = first; key < min(first + 32, {}); ++key) {{", a_.scores.columns));
  line("const float by = __shfl_sync(~0u, w, key - first);");
  line("#pragma unroll");
  open(fmt::format("for (int c = 0; c < {}; ++c) {{", each));
  line(fmt::format("const int column = part * {} + c * 32 + lane;", layout_.columns));
  line(fmt::format("if (column < {}) z[c] = fmaf(by, tc_value({}batch, key, column), z[c]);", a_.values.columns,
                   arguments(a_.values.second)));
  close();
  close();
  close();
  line("#pragma unroll");
  line("for (int apart = 1; apart < 32; apart *= 2) total += __shfl_xor_sync(~0u, total, apart);");
  line("const float divisor = tc_divisor(top, total);");
  line("#pragma unroll");
  open(fmt::format("for (int c = 0; c < {}; ++c) {{", each));
  line("const float result = z[c] / divisor;");
  line(fmt::format(
      "tc_store<1, 32, true>({}batch, y, part * {} + c * 32, min(part * {} + {}, {}), lane, [&](int, int) {{ return "
      "result; }});",
      epilogue_.arguments, layout_.columns, layout_.columns, layout_.columns, a_.values.columns));
  close();
  close();
  close();
}

void Printer::consumer() {
  writer_.close();
  open("else {");
  const bool shares = plan_.consumers > 1 || plan_.blocks > 1;
  if (shares) line(fmt::format("tc_more<{}>();", contraction::consumer_registers(layout_.scores)));
  line("const int lane = threadIdx.x % 32;");
  line("const int rows = row + (group - 1) * 64 + threadIdx.x % 128 / 32 * 16;");
  const std::string last = std::to_string(a_.scores.rows - 1);
  line(fmt::format("const int row0 = min(rows + lane / 4, {0}), row1 = min(rows + lane / 4 + 8, {0});", last));
  const std::string exponents = contraction::is_shared(kernel_, a_.scores, Operand::a)
                                    ? "eq"
                                    : fmt::format("eq + (long long)batch * {}", layout_.rows);
  line(fmt::format("const int* const mine_ = {} + rows + lane / 4;", exponents));
  line("const float up0 = tc_two(mine_[0]), up1 = tc_two(mine_[8]);");
  line(fmt::format("const u64 at = (u64)((base + (group - 1) * {}) >> 4);", 64 * layout_.features * 2));
  line("float top0 = __int_as_float(0xff800000), top1 = top0, base0 = 0.0f, base1 = 0.0f, sum0 = 0.0f, sum1 = 0.0f;");
  line(fmt::format("float o[{}];", layout_.columns / 2));
  line("#pragma unroll");
  line(fmt::format("for (int i = 0; i < {}; ++i) o[i] = 0.0f;", layout_.columns / 2));
  line("tc_poll(ready, 0);");
  line("#pragma unroll 1");
  open("for (int tile = 0; tile < tiles; ++tile) {");
  line(fmt::format("float s[{}];", plan_.keys / 2));
  scores();
  soften();
  weigh();
  tile_loop();
  close();
  store();
  again();
  close();
}

void Printer::main() {
  head();
  feeder();
  consumer();
  close();
}

}  // namespace

MainKernel print_kernel(const Kernel& kernel, const Attention& attention, const Tiling& plan) {
  return Printer(kernel, attention, plan).print();
}

}  // namespace planish::codegen::attention
