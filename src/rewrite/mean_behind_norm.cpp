#include <numeric>
#include <string>

#include "rewrite/norms.h"
#include "rewrite/pools.h"
#include "rewrite/products.h"
#include "rewrite/rules.h"

namespace planish::rewrite {
namespace {

using Extents = std::vector<std::int64_t>;

/// Whether a node gives means of all places, and of nothing else: which dims it folds besides, the first two at most.
std::optional<Extents> mean_of_places(const Editor& editor, const ir::GraphNode& node, const ir::Value& data) {
  if (node.outs.size() != 1 || !node.outs[0]) return std::nullopt;
  const ir::Value& result = editor.value(*node.outs[0]);
  if (result.dtype != data.dtype) return std::nullopt;
  Extents others;
  if (node.op.starts_with("aten.adaptive_avg_pool")) {
    const std::string dims = std::to_string(data.shape.size() - 2);
    if (node.op != "aten.adaptive_avg_pool" + dims + "d.default" || places(result) != 1) return std::nullopt;
    return others;
  }
  const auto fold = linear_fold(editor, node);
  if (!fold || !fold->mean) return std::nullopt;
  std::size_t folded = 0;
  for (const std::int64_t d : fold->dims) {
    if (d < 2)
      others.push_back(d);
    else
      ++folded;
  }
  if (folded != data.shape.size() - 2) return std::nullopt;
  return others;
}

}  // namespace

bool mean_behind_norm(Editor& editor, int index) {
  const ir::GraphNode node = editor.node(index);  // copies: new nodes move what is there
  const auto norm = norm_of(editor, node);
  if (!norm || !node.outs[0] || editor.is_output(*node.outs[0])) return false;
  const ir::Value x = editor.value(norm->x);
  if (!is_contiguous(x) || places(x) < 2) return false;
  if (!one_dtype(editor,
                 {norm->x, *node.outs[0], norm->weight, norm->bias, norm->running_mean, norm->running_variance}))
    return false;
  std::vector<std::pair<int, Extents>> means;
  for (const int reader : editor.readers(*node.outs[0])) {
    const auto others = mean_of_places(editor, editor.node(reader), x);
    if (!others) return false;
    means.emplace_back(*editor.node(reader).outs[0], *others);
  }
  if (means.empty()) return false;

  const std::int64_t images = x.shape[0], channels = x.shape[1];
  Extents over(x.shape.size() - 2), plane(x.shape.size(), 1), each(x.shape.size(), 1);
  std::iota(over.begin(), over.end(), 2);
  plane[0] = images, plane[1] = each[1] = channels;
  Steps s(editor, norm->x);
  auto [variance, mean] = s.variance(norm->x, over);
  // As (images, groups, channels of one), or as they are: what is folded then has one mean.
  const bool grouped = norm->groups > 0;
  const std::int64_t dim = grouped ? 2 : 0;
  if (grouped) {
    const Extents split{images, norm->groups, channels / norm->groups};
    mean = s.view(mean, split), variance = s.view(variance, split);
  }
  const auto [middle, away, spread, rstd] = s.joined(mean, variance, dim, norm->eps);
  int normed = s.view(s.multiply(away, rstd), plane);
  if (norm->weight >= 0) normed = s.multiply(normed, s.view(norm->weight, each));
  if (norm->bias >= 0) normed = s.add(normed, s.view(norm->bias, each));

  std::vector<std::pair<int, int>> made;
  const auto gives = [&](int id, int value) {
    // A view of its own: each result has a maker of its own.
    const Extents as = editor.value(id).shape;
    made.emplace_back(id, editor.add("aten.view.default", {of("self", value), {"size", as}}, as, norm->x));
  };
  for (const auto& [id, others] : means) gives(id, others.empty() ? normed : s.mean(normed, others));
  const auto wanted = [&](std::size_t out) {
    return out < node.outs.size() && node.outs[out] &&
           (!editor.readers(*node.outs[out]).empty() || editor.is_output(*node.outs[out]));
  };
  if (wanted(1)) gives(*node.outs[1], middle);
  if (wanted(2)) gives(*node.outs[2], rstd);
  // Of the running variance PyTorch has a sample's: n / (n - 1) of what the batch has.
  const auto others = static_cast<double>(x.elements() / channels - 1);
  for (std::size_t i = 0; i < 2; ++i) {
    if (grouped || !wanted(3 + i)) continue;
    int now = s.view(i == 0 ? middle : spread, {channels});
    if (i == 1) now = s.add(now, s.divide(now, others));
    const int old = i == 0 ? norm->running_mean : norm->running_variance;
    gives(*node.outs[3 + i], s.add(s.multiply(old, 1 - norm->momentum), s.multiply(now, norm->momentum)));
  }
  editor.replace(index, made);
  return true;
}

}  // namespace planish::rewrite
