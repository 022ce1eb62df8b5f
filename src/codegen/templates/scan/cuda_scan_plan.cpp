#include "codegen/templates/scan/cuda_scan_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/emit/expression.h"
#include "codegen/fold.h"

namespace planish::codegen::printing {
namespace {

constexpr std::int64_t parts(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

ScanState state_of(const Kernel& kernel, const Scan& scan, bool fast) {
  ScanState out;
  const std::string value(computing_type(scan.accumulate));
  const int bytes = size_of(scan.accumulate);
  out.words = bytes / 4;
  out.carry_bytes = bytes;
  const ScanInfo& kind = info(scan.kind);
  if (kind.exponents) {
    out.type = fmt::format(fmt::runtime(kind.cuda), value, fast && bytes == 4);
    out.none = fmt::format("{}{{{}, 0}}", out.type, bytes == 4 ? "-0x1.fffffep+127f" : "-0x1.fffffffffffffp+1023");
    out.words *= 2;
    out.carry_bytes *= 2;
  } else if (scan.at >= 0) {
    const Node& at = kernel.nodes[static_cast<std::size_t>(scan.at)];
    const bool narrow =
        at.op == Op::index && at.index.range(kernel.space).second < std::numeric_limits<std::int32_t>::max();
    out.type = fmt::format(fmt::runtime(kind.cuda_position), value, narrow ? "int" : "long long");
    out.none = fmt::format("{}{{{}, -1}}", out.type, neutral(kind.fold, scan.accumulate));
    out.words += narrow ? 1 : 2;
    out.carry_bytes = bytes == 4 && narrow ? 8 : 16;
  } else {
    const Identity nothing = info(kind.fold).identity;
    const bool number = nothing == Identity::zero || nothing == Identity::one;
    out.type = fmt::format(fmt::runtime(kind.cuda), value);
    out.none = number ? fmt::format("{}{{{:d}}}", out.type, nothing == Identity::one)
                      : fmt::format("{}{{{}}}", out.type, neutral(kind.fold, scan.accumulate));
  }
  out.carry = out.type;
  if (kind.totals && scan.accumulate == DType::f32) {
    out.carry = fmt::format(fmt::runtime(kind.cuda), "double");
    out.carry_bytes = 8;
  }
  return out;
}

}  // namespace

ScanPlan make_scan_plan(const Kernel& kernel, const Device& device, const Genome& genome) {
  ScanPlan plan;
  plan.column = make_column_plan(kernel, device, genome);
  const CudaPlan& base = plan.column.base;
  for (const Scan& scan : kernel.scans) plan.states.push_back(state_of(kernel, scan, base.fast));
  plan.ahead = gene(genome, "pipeline_depth", 0) != 0;
  plan.segment = std::min(32, base.across);
  plan.chunks = parts(plan.column.slice_length, static_cast<std::int64_t>(base.across) * base.unroll);

  const auto row_level = [&](int id) { return !base.columns && !base.places[static_cast<std::size_t>(id)].inner; };
  std::vector<int> roots;
  for (const Scan& scan : kernel.scans) {
    roots.push_back(scan.arg);
    if (scan.at >= 0) roots.push_back(scan.at);
  }
  plan.folded = closure(kernel, roots, row_level);
  roots.clear();
  for (const Output& output : kernel.outputs) {
    if (!output.per_row) roots.push_back(output.node);
  }
  plan.stored = closure(kernel, roots, row_level);
  std::int64_t held = 0;
  for (int id = 0; id < static_cast<int>(kernel.nodes.size()); ++id) {
    if (!base.swept[static_cast<std::size_t>(id)]) continue;
    if (!std::ranges::binary_search(plan.folded, id) && !std::ranges::binary_search(plan.stored, id)) continue;
    plan.loads.push_back(id);
    held += parts(base.vector_bytes(kernel, id), 4) * base.unroll;
  }

  std::int64_t state_words = 0;
  for (const ScanState& state : plan.states) {
    plan.scratch_bytes += parts(plan.column.slices * plan.column.cells * state.carry_bytes, 16) * 16;
    plan.state_bytes += state.carry_bytes;
    state_words += state.words;
  }
  // Two sets of totals: one is written while the other may still be read.
  if (base.columns && base.across > 1) plan.totals_bytes = 2 * plan.state_bytes * base.threads * base.width;
  if (!base.columns && base.across > 32) plan.totals_bytes = 2 * plan.state_bytes * (base.threads / 32);
  const std::int64_t own = base.columns ? base.width : base.unroll;  // totals and bases a thread
  const std::int64_t partial = state_words * (static_cast<std::int64_t>(base.width) * base.unroll + 2 * own + 3);
  plan.registers =
      static_cast<int>(std::min<std::int64_t>(1 << 20, base.registers + held * (plan.ahead ? 1 : 0) + partial + 6));
  return plan;
}

std::string_view scan_prelude() {
  return R"(// Running values: `pl_join` of the state of earlier elements and that of later ones, `pl_value` of what they hold.
template <typename T> PL_FN T pl_plus(T a, T b) { return a + b; }
PL_FN long long pl_plus(long long a, long long b) { return (long long)((unsigned long long)a + (unsigned long long)b); }
template <typename T> PL_FN T pl_times(T a, T b) { return a * b; }
PL_FN long long pl_times(long long a, long long b) { return (long long)((unsigned long long)a * (unsigned long long)b); }
template <int HOW, typename T> PL_FN T pl_moved(T v, int a) {
  if constexpr (HOW == 0) return pl_up(v, a); else if constexpr (HOW == 1) return pl_from_lane(v, a); else return pl_xor(v, a);
}
template <typename T> struct PlRunSum { T v; };
template <int HOW, typename T> PL_FN PlRunSum<T> pl_each(PlRunSum<T> s, int a) { return {pl_moved<HOW>(s.v, a)}; }
template <typename T> PL_FN PlRunSum<T> pl_join(PlRunSum<T> a, PlRunSum<T> b) { return {pl_plus(a.v, b.v)}; }
template <typename T> PL_FN T pl_value(PlRunSum<T> s) { return s.v; }
template <typename T> struct PlRunProduct { T v; };
template <int HOW, typename T> PL_FN PlRunProduct<T> pl_each(PlRunProduct<T> s, int a) { return {pl_moved<HOW>(s.v, a)}; }
template <typename T> PL_FN PlRunProduct<T> pl_join(PlRunProduct<T> a, PlRunProduct<T> b) { return {pl_times(a.v, b.v)}; }
template <typename T> PL_FN T pl_value(PlRunProduct<T> s) { return s.v; }
template <bool MAX, typename T> struct PlRunExtreme { T v; };
template <int HOW, bool MAX, typename T> PL_FN PlRunExtreme<MAX, T> pl_each(PlRunExtreme<MAX, T> s, int a) { return {pl_moved<HOW>(s.v, a)}; }
template <bool MAX, typename T> PL_FN PlRunExtreme<MAX, T> pl_join(PlRunExtreme<MAX, T> a, PlRunExtreme<MAX, T> b) {
  return {((MAX ? a.v > b.v : a.v < b.v) | (a.v != a.v)) ? a.v : b.v};
}
template <bool MAX, typename T> PL_FN T pl_value(PlRunExtreme<MAX, T> s) { return s.v; }
// The last NaN, else the extreme value with the largest position.
template <bool MAX, typename T, typename I> struct PlRunAt { T v; I i; };
template <int HOW, bool MAX, typename T, typename I> PL_FN PlRunAt<MAX, T, I> pl_each(PlRunAt<MAX, T, I> s, int a) { return {pl_moved<HOW>(s.v, a), pl_moved<HOW>(s.i, a)}; }
template <bool MAX, typename T, typename I> PL_FN PlRunAt<MAX, T, I> pl_join(PlRunAt<MAX, T, I> a, PlRunAt<MAX, T, I> b) {
  const bool odd = b.v != b.v, none = a.v != a.v, later = b.i > a.i;
  const bool beyond = MAX ? b.v > a.v : b.v < a.v;
  return (none ? odd & later : odd | beyond | ((b.v == a.v) & later)) ? b : a;
}
template <bool MAX, typename T, typename I> PL_FN T pl_value(PlRunAt<MAX, T, I> s) { return s.v; }
template <bool MAX, typename T, typename I> PL_FN I pl_place(PlRunAt<MAX, T, I> s) { return s.i; }
// The sum of exp(x - m), m the largest x: m is finite unless some x is +Inf or NaN, which then decides alone.
template <typename T, bool FAST> struct PlRunExps { T m, s; };
template <int HOW, typename T, bool FAST> PL_FN PlRunExps<T, FAST> pl_each(PlRunExps<T, FAST> s, int a) { return {pl_moved<HOW>(s.m, a), pl_moved<HOW>(s.s, a)}; }
template <bool FAST> PL_FN float pl_run_exp(float x) { return FAST ? pl_fast_exp(x) : expf(x); }
template <bool FAST> PL_FN double pl_run_exp(double x) { return exp(x); }
PL_FN float pl_run_log(float x) { return logf(x); }
PL_FN double pl_run_log(double x) { return log(x); }
template <typename S, typename T> PL_FN S pl_exps_of(T x, S none) {
  return {x < none.m ? none.m : x, x < none.m ? (T)0 : (T)1};
}
template <typename T, bool FAST> PL_FN PlRunExps<T, FAST> pl_join(PlRunExps<T, FAST> a, PlRunExps<T, FAST> b) {
  const T m = ((a.m > b.m) | (a.m != a.m)) ? a.m : b.m;
  return {m, a.s * pl_run_exp<FAST>(a.m - m) + b.s * pl_run_exp<FAST>(b.m - m)};
}
template <typename T, bool FAST> PL_FN T pl_value(PlRunExps<T, FAST> s) {
  return (s.m - s.m == 0) | (s.m != s.m) ? s.m + pl_run_log(s.s) : s.m;
}
// The state that the lane d before this one holds, the one at `lane`, the one at the other side of bit m.
template <typename S> PL_FN S pl_state_up(S s, int d) { return pl_each<0>(s, d); }
template <typename S> PL_FN S pl_state_at(S s, int lane) { return pl_each<1>(s, lane); }
template <typename S> PL_FN S pl_state_xor(S s, int m) { return pl_each<2>(s, m); }
)";
}

}  // namespace planish::codegen::printing
