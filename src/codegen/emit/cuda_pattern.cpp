#include "codegen/emit/cuda_pattern.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "codegen/emit/expression.h"
#include "codegen/operation.h"

namespace planish::codegen::printing {
namespace {

const Node& node_of(const Kernel& kernel, int id) {
  return kernel.nodes[static_cast<std::size_t>(id)];
}

/// True where `id` is the leader's result over the row's length.
bool is_mean(const Kernel& kernel, int id, int leader) {
  const Node& node = node_of(kernel, id);
  if ((node.op != Op::mul && node.op != Op::div) || node.args.size() != 2) return false;
  const auto length = static_cast<double>(kernel.inner_extent());
  const auto scaled = [&](int sum, int scale) {
    const Node& s = node_of(kernel, sum);
    const Node& c = node_of(kernel, scale);
    if (s.op != Op::reduced || s.reduction != leader || c.op != Op::constant) return false;
    const double times = node.op == Op::mul ? c.value * length : c.value / length;
    return std::abs(times - 1) < 1e-6;
  };
  return scaled(node.args[0], node.args[1]) || (node.op == Op::mul && scaled(node.args[1], node.args[0]));
}

/// The difference that a follower of this kind folds something of; -1 where that is not what it does.
int difference_in(const Kernel& kernel, const Reduction& follower, const JointInfo& kind) {
  const Node& arg = node_of(kernel, follower.arg);
  if (follower.kind != kind.follower || arg.op != kind.of || arg.dtype == DType::f64) return -1;
  if (arg.args.front() != arg.args.back()) return -1;
  const Node& sub = node_of(kernel, arg.args[0]);
  return sub.op == Op::sub && sub.dtype != DType::f64 ? arg.args[0] : -1;
}

std::optional<OnlinePair> pair_of(const Kernel& kernel, const std::vector<Place>& places, int follower) {
  const Reduction& r = kernel.reductions[static_cast<std::size_t>(follower)];
  if (r.accumulate != DType::f32 || r.phase == 0) return std::nullopt;
  for (const JointInfo& kind : table_of_joints::all) {
    const int difference = difference_in(kernel, r, kind);
    if (difference < 0) continue;
    OnlinePair pair;
    pair.kind = kind.kind;
    pair.follower = follower;
    pair.x = node_of(kernel, difference).args[0];
    pair.base = node_of(kernel, difference).args[1];
    const auto& base = places[static_cast<std::size_t>(pair.base)];
    if (base.inner || base.phase != r.phase) continue;
    for (int l = 0; l < static_cast<int>(kernel.reductions.size()); ++l) {
      const Reduction& leader = kernel.reductions[static_cast<std::size_t>(l)];
      if (leader.phase != r.phase - 1 || leader.arg != pair.x || leader.accumulate != DType::f32) continue;
      if (leader.kind != kind.leader || (kind.mean && !is_mean(kernel, pair.base, l))) continue;
      pair.leader = l;
      return pair;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<OnlinePair> online_pairs(const Kernel& kernel) {
  std::vector<OnlinePair> out;
  const auto places = place(kernel);
  const int count = phases(kernel);
  bool before = false;  // the phase before was merged into its own predecessor
  for (int p = 1; p < count; ++p) {
    std::vector<OnlinePair> mine;
    bool all = !before;
    for (int r = 0; r < static_cast<int>(kernel.reductions.size()); ++r) {
      if (kernel.reductions[static_cast<std::size_t>(r)].phase != p) continue;
      const auto pair = pair_of(kernel, places, r);
      // One follower a leader: the running state belongs to both.
      all = all && pair && std::ranges::find(mine, pair->leader, &OnlinePair::leader) == mine.end();
      if (pair) mine.push_back(*pair);
    }
    before = all && !mine.empty();
    if (before) out.insert(out.end(), mine.begin(), mine.end());
  }
  return out;
}

std::vector<std::vector<Condition>> needed_when(const Kernel& kernel) {
  using Guard = std::vector<Condition>;
  const std::size_t count = kernel.nodes.size();
  // Nothing is masked in most kernels.
  if (std::ranges::find(kernel.nodes, Op::select, &Node::op) == kernel.nodes.end()) return std::vector<Guard>(count);
  std::vector<bool> early(count);  // can be known before the elements are loaded
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = kernel.nodes[i];
    const bool given =
        node.op != Op::load || (kernel.has_rows() && !is_floating(node.dtype) && !gathers(node) && node.where.empty());
    early[i] = given && node.op != Op::reduced &&
               std::ranges::all_of(node.args, [&](int arg) { return early[static_cast<std::size_t>(arg)]; });
  }
  std::vector<std::optional<Guard>> guards(count);  // what all users seen so far agree on
  const auto meet = [&](int id, const Guard& use) {
    auto& guard = guards[static_cast<std::size_t>(id)];
    if (!guard) {
      guard = use;
    } else {
      std::erase_if(*guard, [&](const Condition& c) { return std::ranges::find(use, c) == use.end(); });
    }
  };
  for (const auto& reduction : kernel.reductions) meet(reduction.arg, {});
  for (const auto& output : kernel.outputs) meet(output.node, {});
  for (std::size_t i = count; i-- > 0;) {
    if (!guards[i]) continue;
    const Node& node = kernel.nodes[i];
    for (std::size_t a = 0; a < node.args.size(); ++a) {
      Guard use = *guards[i];
      if (node.op == Op::select && a > 0 && early[static_cast<std::size_t>(node.args[0])])
        use.push_back({node.args[0], a == 1});
      meet(node.args[a], use);
    }
  }
  // A load with bounds of its own leaves out what is masked already.
  std::vector<Guard> out;
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(guards[i] && kernel.nodes[i].where.empty() ? std::move(*guards[i]) : Guard{});
  for (const int load : asked_by(kernel, out)) out[static_cast<std::size_t>(load)].clear();
  return out;
}

std::optional<VectorPredicate> vector_predicate(const Kernel& kernel,
                                                const std::vector<std::vector<Condition>>& needs) {
  const auto places = place(kernel);
  const auto inner = [&](int id) { return places[static_cast<std::size_t>(id)].inner; };
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const bool masked = kernel.nodes[i].op == Op::load && places[i].inner && needs[i].size() == 1;
    if (!masked || !inner(needs[i][0].node)) continue;
    const Condition& condition = needs[i][0];
    for (std::size_t s = 0; s < kernel.nodes.size(); ++s) {
      const Node& node = kernel.nodes[s];
      if (node.op != Op::select || node.args[0] != condition.node) continue;
      const int hidden = node.args[condition.holds ? 2 : 1];
      if (!inner(hidden)) return VectorPredicate{static_cast<int>(i), static_cast<int>(s), hidden};
    }
  }
  return std::nullopt;
}

std::vector<int> asked_by(const Kernel& kernel, const std::vector<std::vector<Condition>>& needs) {
  std::vector<int> roots;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    if (kernel.nodes[i].op != Op::load) continue;
    for (const Condition& condition : needs[i]) roots.push_back(condition.node);
  }
  std::vector<int> out = closure(kernel, roots, [](int) { return false; });
  std::erase_if(out, [&](int id) { return node_of(kernel, id).op != Op::load; });
  return out;
}

std::vector<int> shared_along(const Kernel& kernel) {
  const int outer = static_cast<int>(kernel.space.extents.size()) - kernel.inner;
  std::vector<int> out;
  for (int v = 0; v + 1 < outer; ++v) {
    if (kernel.space.extents[static_cast<std::size_t>(v)] < 2) continue;
    const bool shares = std::ranges::any_of(kernel.nodes, [&](const Node& node) {
      if (node.op != Op::load || gathers(node) || node.index.depends_on(v)) return false;
      bool inside = false;
      bool outside = false;
      for (int u = 0; u < static_cast<int>(kernel.space.extents.size()); ++u)
        (u < outer ? outside : inside) |= node.index.depends_on(u);
      return inside && outside;
    });
    if (shares) out.push_back(v);
  }
  return out;
}

bool has_fast_form(const Node& node) {
  return is_floating(node.dtype) && node.dtype != DType::f64 && info(node.op).approximated;
}

bool fast_matters(const Kernel& kernel) {
  return std::ranges::any_of(kernel.nodes, has_fast_form);
}

}  // namespace planish::codegen::printing
