#include "codegen/emit/cuda_fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "codegen/emit/cuda_access.h"
#include "codegen/emit/expression.h"

namespace planish::codegen::printing {
namespace {

FoldField field(std::string suffix, DType dtype, std::string neutral) {
  return {std::move(suffix), std::string(computing_type(dtype)), std::move(neutral),
          dtype == DType::boolean ? 1 : std::max(4, size_of(dtype))};
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
      if (pair->kind == OnlinePair::Kind::exponentials) {
        fold.kind = Fold::Kind::exponentials;
        fold.fields = {field("m", DType::f32, std::string(fold_bottom)), field("s", DType::f32, "0.0f")};
      } else {
        fold.kind = Fold::Kind::deviations;
        fold.fields = {field("n", DType::f32, "0.0f"), field("t", DType::f32, "0.0f"), field("q", DType::f32, "0.0f")};
      }
    } else if (finds_position(reduction.kind)) {
      const DType value = kernel.nodes[static_cast<std::size_t>(reduction.arg)].dtype;
      fold.kind = Fold::Kind::position;
      fold.rising = rises(kernel, reduction.at);
      fold.fields = {
          field("v", value == DType::f16 || value == DType::bf16 ? DType::f32 : value, neutral(reduction.kind, value)),
          short_position(kernel, reduction.at) ? field("i", DType::i32, "2147483647")
                                               : field("i", DType::i64, "9223372036854775807LL")};
    } else {
      fold.fields = {field("", reduction.accumulate, neutral(reduction.kind, reduction.accumulate))};
    }
    out.push_back(std::move(fold));
  }
  return out;
}

std::string merge(const Kernel& kernel, const Fold& fold, std::string_view exponential, const FieldName& a,
                  const FieldName& b) {
  const Reduction& reduction = kernel.reductions[static_cast<std::size_t>(fold.reduction)];
  switch (fold.kind) {
    case Fold::Kind::plain:
      return fmt::format("{} = {};", a(""), combine(reduction.kind, reduction.accumulate, a(""), b("")));
    case Fold::Kind::position:
      return take(kernel, fold, a, b("v"), b("i"), false);
    case Fold::Kind::exponentials:
      return fmt::format(
          "{{ const float top = pl_max({0}, {1}); {2} = {2} * {4}({0} - top) + {3} * {4}({1} - top); {0} = top; }}",
          a("m"), b("m"), a("s"), b("s"), exponential);
    case Fold::Kind::deviations:
      return fmt::format("pl_deviations({}, {}, {}, {}, {}, {});", a("n"), a("t"), a("q"), b("n"), b("t"), b("q"));
  }
  return {};
}

std::string take(const Kernel& kernel, const Fold& fold, const FieldName& a, const std::string& value,
                 const std::string& at, bool element) {
  const Reduction& reduction = kernel.reductions[static_cast<std::size_t>(fold.reduction)];
  if (fold.kind == Fold::Kind::plain)
    return fmt::format("{} = {};", a(""), combine(reduction.kind, reduction.accumulate, a(""), value));
  return fmt::format("{}<{}>({}, {}, {}, {});", fold.rising && element ? "pl_later" : "pl_extreme",
                     info(reduction.kind).value == ReduceKind::max, a("v"), a("i"), value, at);
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
