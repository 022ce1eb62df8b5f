#include "codegen/emit/cuda_fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "codegen/emit/cuda_access.h"
#include "codegen/emit/expression.h"

namespace planish::codegen::printing {
namespace {

const Reduction& reduction_of(const Kernel& kernel, const Fold& fold) {
  return kernel.reductions[static_cast<std::size_t>(fold.reduction)];
}

FoldField field(std::string suffix, DType dtype, std::string neutral) {
  return {std::move(suffix), std::string(computing_type(dtype)), std::move(neutral),
          dtype == DType::boolean ? 1 : std::max(4, size_of(dtype)), false};
}

/// True where positions are those of the row itself, counted from 0 in the order in which it is swept.
bool rises(const Kernel& kernel, int at) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(at)];
  const int n = static_cast<int>(kernel.space.extents.size());
  std::vector<int> inner;
  for (int v = n - kernel.inner; v < n; ++v) inner.push_back(v);
  return node.op == Op::index && is_linear(node.index, inner, kernel.space) &&
         outside_domain(node.index, inner, kernel.space) == ir::IndexExpr{};
}

/// True where positions fit an int with one value to spare for "nowhere".
bool short_position(const Kernel& kernel, int at) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(at)];
  return node.op == Op::index && node.index.range(kernel.space).second < std::numeric_limits<std::int32_t>::max();
}

class Plain : public FoldState {
 public:
  std::vector<FoldField> identity(const Kernel&, const Reduction& reduction) const override {
    return {field("", reduction.accumulate, neutral(reduction.kind, reduction.accumulate))};
  }
  std::string absorb(const Kernel& kernel, const Fold& fold, const FieldName& a, const std::string& value,
                     const std::string&) const override {
    const DType from = kernel.nodes[static_cast<std::size_t>(fold.x)].dtype;
    return with(kernel, fold, a(""), convert(value, from, reduction_of(kernel, fold).accumulate));
  }
  std::string merge(const Kernel& kernel, const Fold& fold, std::string_view, const FieldName& a,
                    const FieldName& b) const override {
    return with(kernel, fold, a(""), b(""));
  }
  std::vector<std::string> finish(const Fold&, const FieldName& a, const std::string& result,
                                  const std::string&) const override {
    return {fmt::format("{} = {};", result, a(""))};
  }

 private:
  static std::string with(const Kernel& kernel, const Fold& fold, const std::string& a, const std::string& b) {
    const Reduction& reduction = reduction_of(kernel, fold);
    return fmt::format("{} = {};", a, combine(reduction.kind, reduction.accumulate, a, b));
  }
};

/// A value `v` and where it was seen, `i`.
class Position : public FoldState {
 public:
  std::vector<FoldField> identity(const Kernel& kernel, const Reduction& reduction) const override {
    const DType value = kernel.nodes[static_cast<std::size_t>(reduction.arg)].dtype;
    return {field("v", is_narrow(value) ? DType::f32 : value, neutral(reduction.kind, value)),
            short_position(kernel, reduction.at) ? field("i", DType::i32, "2147483647")
                                                 : field("i", DType::i64, "9223372036854775807LL")};
  }
  std::string absorb(const Kernel& kernel, const Fold& fold, const FieldName& a, const std::string& value,
                     const std::string& at) const override {
    return with(kernel, fold, fold.rising ? "pl_later" : "pl_extreme", a, value,
                fmt::format("({}){}", fold.fields[1].type, at));
  }
  std::string merge(const Kernel& kernel, const Fold& fold, std::string_view, const FieldName& a,
                    const FieldName& b) const override {
    return with(kernel, fold, "pl_extreme", a, b("v"), b("i"));
  }
  std::vector<std::string> finish(const Fold& fold, const FieldName& a, const std::string& result,
                                  const std::string&) const override {
    // Nothing beyond the start was seen: every element is as the first.
    return {fold.rising ? fmt::format("{0} = {1} == {2} ? 0 : {1};", result, a("i"), fold.fields[1].neutral)
                        : fmt::format("{} = {};", result, a("i"))};
  }

 private:
  static std::string with(const Kernel& kernel, const Fold& fold, std::string_view function, const FieldName& a,
                          const std::string& value, const std::string& at) {
    return fmt::format("{}<{}>({}, {}, {}, {});", function,
                       info(reduction_of(kernel, fold).kind).value == ReduceKind::max, a("v"), a("i"), value, at);
  }
};

/// The maximum `m`, and the sum `s` of exp(x - m).
class Exponentials : public JointState {
 public:
  JointKind kind() const override { return JointKind::exponentials; }
  std::vector<FoldField> identity(const Kernel&, const Reduction&) const override {
    return {field("m", DType::f32, std::string(fold_bottom)), field("s", DType::f32, "0.0f")};
  }
  std::string merge(const Kernel&, const Fold&, std::string_view exponential, const FieldName& a,
                    const FieldName& b) const override {
    return fmt::format(
        "{{ const float top = pl_max({0}, {1}); {2} = {2} * {4}({0} - top) + {3} * {4}({1} - top); {0} = top; }}",
        a("m"), b("m"), a("s"), b("s"), exponential);
  }
  std::vector<std::string> finish(const Fold&, const FieldName& a, const std::string& result,
                                  const std::string& follower) const override {
    // The element that is the maximum adds 1 to the sum: a sum of 0 saw nothing above -inf.
    return {fmt::format("{} = {} == 0.0f ? -PL_INF_F32 : {};", result, a("s"), a("m")),
            fmt::format("{} = {};", follower, a("s"))};
  }
  std::string begin_chunk(int r, int width) const override {
    return fmt::format("float top{}[{}] = {{{}}};", r, width, each_lane(fold_bottom, width));
  }
  std::string first_look(int r, const std::string& x) const override {
    return fmt::format("top{0}[j] = pl_max(top{0}[j], {1});", r, x);
  }
  std::vector<std::string> join_chunk(int r, std::string_view exponential) const override {
    return {fmt::format("const float next{0} = pl_max(a{0}m[j], top{0}[j]);", r),
            fmt::format("a{0}s[j] *= {1}(a{0}m[j] - next{0});", r, exponential), fmt::format("a{0}m[j] = next{0};", r)};
  }
  std::string second_look(int r, const std::string& x, std::string_view exponential) const override {
    return fmt::format("a{0}s[j] += {1}({2} - a{0}m[j]);", r, exponential, x);
  }
  bool relative() const override { return true; }
  /// What the kernel subtracts may be made of the maximum; and an infinite or NaN one decides the sum alone.
  std::string rebase(const std::string& leader, const std::string& follower, const std::string& base) const override {
    return base.empty() ? fmt::format("if (!(fabsf({}) < PL_INF_F32)) {} = PL_NAN_F32;", leader, follower)
                        : fmt::format("{0} = fabsf({1}) < PL_INF_F32 ? {0} * expf({1} - {2}) : expf({1} - {2});",
                                      follower, leader, base);
  }
};

/// A count `n`, the sum `t`, and the sum `q` of squared deviations from t / n.
class Deviations : public JointState {
 public:
  JointKind kind() const override { return JointKind::deviations; }
  std::vector<FoldField> identity(const Kernel&, const Reduction&) const override {
    FoldField count = field("n", DType::f32, "0.0f");
    count.counts = true;
    return {count, field("t", DType::f32, "0.0f"), field("q", DType::f32, "0.0f")};
  }
  std::string merge(const Kernel&, const Fold&, std::string_view, const FieldName& a,
                    const FieldName& b) const override {
    return fmt::format("pl_deviations({}, {}, {}, {}, {}, {});", a("n"), a("t"), a("q"), b("n"), b("t"), b("q"));
  }
  std::vector<std::string> finish(const Fold&, const FieldName& a, const std::string& result,
                                  const std::string& follower) const override {
    return {fmt::format("{} = {};", result, a("t")), fmt::format("{} = {};", follower, a("q"))};
  }
  std::string begin_chunk(int r, int width) const override {
    return fmt::format("float part{0}[{1}] = {{{2}}}, seen{0}[{1}] = {{{2}}};", r, width, each_lane("0.0f", width));
  }
  std::string first_look(int r, const std::string& x) const override {
    return fmt::format("part{0}[j] += {1}; seen{0}[j] += 1.0f;", r, x);
  }
  std::vector<std::string> join_chunk(int r, std::string_view) const override {
    return {fmt::format("pl_deviations(a{0}n[j], a{0}t[j], a{0}q[j], seen{0}[j], part{0}[j], 0.0f);", r),
            fmt::format("part{0}[j] /= seen{0}[j];", r)};
  }
  std::string second_look(int r, const std::string& x, std::string_view) const override {
    return fmt::format("{{ const float off = {1} - part{0}[j]; a{0}q[j] += off * off; }}", r, x);
  }
};

const Plain plain_state;
const Position position_state;
const Exponentials exponentials_state;
const Deviations deviations_state;
/// In the order of JointKind.
const auto joints = std::to_array<const JointState*>({&exponentials_state, &deviations_state});
static_assert(joints.size() == table_of_joints::all.size());

}  // namespace

std::vector<Fold> folds_of(const Kernel& kernel, const std::vector<OnlinePair>& pairs, int phase) {
  std::vector<Fold> out;
  for (int r = 0; r < static_cast<int>(kernel.reductions.size()); ++r) {
    const Reduction& reduction = kernel.reductions[static_cast<std::size_t>(r)];
    if (reduction.phase != phase || std::ranges::find(pairs, r, &OnlinePair::follower) != pairs.end()) continue;
    Fold fold;
    fold.reduction = r;
    fold.x = reduction.arg;
    const auto pair = std::ranges::find(pairs, r, &OnlinePair::leader);
    if (pair != pairs.end()) {
      fold.follower = pair->follower;
      fold.base = pair->base;
      fold.joint = joints[static_cast<std::size_t>(pair->kind)];
      fold.state = fold.joint;
    } else if (finds_position(reduction.kind)) {
      fold.state = &position_state;
      fold.rising = rises(kernel, reduction.at);
    } else {
      fold.state = &plain_state;
    }
    fold.fields = fold.state->identity(kernel, reduction);
    out.push_back(std::move(fold));
  }
  return out;
}

std::string each_lane(std::string_view value, int width) {
  std::string out;
  for (int j = 0; j < width; ++j) out += fmt::format("{}{}", j ? ", " : "", value);
  return out;
}

std::string_view fold_prelude() {
  return R"(// The first NaN, else the extreme value with the smallest position.
template <bool MAX, typename T, typename I> PL_FN void pl_extreme(T& best, I& at, T x, I i) {
  const bool odd = x != x, none = best != best;
  const bool beyond = MAX ? x > best : x < best;
  if (none ? odd & (i < at) : odd | beyond | ((x == best) & (i < at))) {
    best = x;
    at = i;
  }
}
// The same where what comes lies behind all that came before. What is not beyond the start is not taken.
template <bool MAX, typename T, typename I> PL_FN void pl_later(T& best, I& at, T x, I i) {
  const bool beyond = MAX ? !(x <= best) : !(x >= best);
  if (beyond & (best == best)) {
    best = x;
    at = i;
  }
}
// Chan's merge of counts, sums and squared deviations from the mean.
PL_FN void pl_deviations(float& n, float& t, float& q, float m, float u, float r) {
  const float both = n + m;
  const float gap = n > 0.0f && m > 0.0f ? u / m - t / n : 0.0f;
  q += r + gap * gap * (both > 0.0f ? n * (m / both) : 0.0f);
  t += u;
  n = both;
}
)";
}

}  // namespace planish::codegen::printing
