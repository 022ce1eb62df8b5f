#include "codegen/cost.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "codegen/variables.h"

namespace planish::codegen {
namespace {

/// Distinct elements that an index reaches at most: the product of the extents it depends on, and its range.
double touched(const ir::IndexExpr& e, const ir::Space& space) {
  double points = 1;
  for (std::size_t v = 0; v < space.extents.size(); ++v) {
    if (e.depends_on(static_cast<int>(v))) points *= static_cast<double>(space.extents[v]);
  }
  const auto [lo, hi] = e.range(space);
  return std::min(points, static_cast<double>(hi) - static_cast<double>(lo) + 1);
}

/// How much of the space some condition lets through, and so how much of an input is ever read. Conditions that need
/// memory to decide count as open.
class Shares {
 public:
  Shares(const Kernel& kernel, const std::vector<std::vector<bool>>& variables)
      : kernel_(kernel), variables_(variables), needs_(kernel.nodes.size()) {
    for (const Node& node : kernel.nodes) {
      const auto known = [&](int a) { return positional_[static_cast<std::size_t>(a)]; };
      positional_.push_back(is_positional(node) && std::ranges::all_of(node.args, known));
    }
    follow_uses();
  }

  /// Of the points at which anything uses the node. `moving`: the variables that lead to other elements; a condition on
  /// others closes no element for good.
  double needed(int node, const std::vector<bool>& moving) {
    double sum = 0;
    for (const Guard& guard : needs_[static_cast<std::size_t>(node)]) {
      const bool closes = guard != always && within_of(variables_[static_cast<std::size_t>(guard.first)], moving);
      sum += closes ? open(guard) : 1;
    }
    return std::min(sum, 1.0);
  }

  /// Of the points at which all bounds hold.
  double within(const std::vector<ir::Bound>& bounds, const std::vector<bool>& moving) const {
    double share = 1;
    std::vector<ir::Bound> joint;
    std::vector<bool> used(kernel_.space.extents.size(), false);
    for (const auto& bound : bounds) {
      std::vector<bool> mine;
      for (std::size_t v = 0; v < used.size(); ++v) mine.push_back(bound.e.depends_on(static_cast<int>(v)));
      if (!within_of(mine, moving)) continue;
      if (std::ranges::count(mine, true) > 1) {
        for (std::size_t v = 0; v < used.size(); ++v) used[v] = used[v] || mine[v];
        joint.push_back(bound);
        continue;
      }
      const auto [lo, hi] = bound.e.range(kernel_.space);
      const double range = static_cast<double>(hi) - static_cast<double>(lo) + 1;
      const double inside =
          static_cast<double>(std::min(hi, bound.hi - 1)) - static_cast<double>(std::max(lo, bound.lo)) + 1;
      share *= std::clamp(inside / range, 0.0, 1.0);
    }
    if (joint.empty()) return share;
    return share * sampled(used, [&](const std::vector<std::int64_t>& point) {
             return std::ranges::all_of(joint, [&](const ir::Bound& bound) {
               const std::int64_t e = bound.e.evaluate(point);
               return bound.lo <= e && e < bound.hi;
             });
           });
  }

 private:
  /// A condition and the value it must have; node −1 is always open.
  using Guard = std::pair<int, bool>;
  static constexpr Guard always{-1, true};

  /// Whether all that are set in `some` are set in `all`.
  static bool within_of(const std::vector<bool>& some, const std::vector<bool>& all) {
    for (std::size_t v = 0; v < some.size(); ++v) {
      if (some[v] && !all[v]) return false;
    }
    return true;
  }

  static bool is_positional(const Node& node) {
    if (is_floating(node.dtype)) return false;
    switch (node.op) {
      case Op::index:
      case Op::constant:
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::eq:
      case Op::ne:
      case Op::lt:
      case Op::le:
      case Op::gt:
      case Op::ge:
      case Op::logical_not:
      case Op::logical_and:
      case Op::logical_or:
      case Op::logical_xor:
        return true;
      default:
        return false;
    }
  }

  /// From the results backwards: a branch of a select is used where its condition says so.
  void follow_uses() {
    const auto use = [&](int node) { needs_[static_cast<std::size_t>(node)].insert(always); };
    for (const Output& output : kernel_.outputs) use(output.node);
    for (const Reduction& reduction : kernel_.reductions) {
      use(reduction.arg);
      if (reduction.at >= 0) use(reduction.at);
      if (reduction.rank >= 0) use(reduction.rank);
    }
    for (const Scan& scan : kernel_.scans) {
      use(scan.arg);
      if (scan.at >= 0) use(scan.at);
    }
    for (std::size_t n = kernel_.nodes.size(); n-- > 0;) {
      const Node& node = kernel_.nodes[n];
      const std::set<Guard> mine = needs_[n];
      for (std::size_t k = 0; k < node.args.size(); ++k) {
        auto& theirs = needs_[static_cast<std::size_t>(node.args[k])];
        const bool branch = node.op == Op::select && k > 0 && positional_[static_cast<std::size_t>(node.args[0])];
        for (const Guard& guard : mine) {
          const Guard inner = branch ? Guard{node.args[0], k == 1} : guard;
          // Under both conditions, no more than under either.
          theirs.insert(open(inner) < open(guard) ? inner : guard);
        }
      }
    }
  }

  double open(const Guard& guard) {
    if (guard == always) return 1;
    const auto [it, fresh] = known_.try_emplace(guard.first, 0.0);
    if (fresh) {
      const std::vector<std::size_t> steps = ancestors(guard.first);
      std::vector<std::int64_t> values(static_cast<std::size_t>(guard.first) + 1, 0);
      it->second = sampled(variables_[static_cast<std::size_t>(guard.first)],
                           [&](const std::vector<std::int64_t>& point) { return value(steps, values, point) != 0; });
    }
    return guard.second ? it->second : 1 - it->second;
  }

  /// What a node is computed of, in order, and the node itself: of a concatenation of many parts, each has a few of
  /// a kernel's hundreds.
  std::vector<std::size_t> ancestors(int wanted) const {
    std::vector<bool> used(static_cast<std::size_t>(wanted) + 1, false);
    used.back() = true;
    std::vector<std::size_t> out;
    for (std::size_t n = used.size(); n-- > 0;) {
      if (!used[n]) continue;
      out.push_back(n);
      for (const int arg : kernel_.nodes[n].args) used[static_cast<std::size_t>(arg)] = true;
    }
    std::ranges::reverse(out);
    return out;
  }

  /// Of the last of these nodes; `values` has a place for each node up to it.
  std::int64_t value(const std::vector<std::size_t>& steps, std::vector<std::int64_t>& values,
                     const std::vector<std::int64_t>& point) const {
    for (const std::size_t n : steps) {
      const Node& node = kernel_.nodes[n];
      const auto arg = [&](std::size_t k) { return values[static_cast<std::size_t>(node.args[k])]; };
      // Wide enough for places; what would overflow is no mask.
      const auto wrapped = [](std::int64_t a, std::int64_t b, auto f) {
        return static_cast<std::int64_t>(f(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b)));
      };
      switch (node.op) {
        case Op::index:
          values[n] = node.index.evaluate(point);
          break;
        case Op::constant:
          values[n] = node.bits;
          break;
        case Op::add:
          values[n] = wrapped(arg(0), arg(1), std::plus());
          break;
        case Op::sub:
          values[n] = wrapped(arg(0), arg(1), std::minus());
          break;
        case Op::mul:
          values[n] = wrapped(arg(0), arg(1), std::multiplies());
          break;
        case Op::eq:
          values[n] = arg(0) == arg(1);
          break;
        case Op::ne:
          values[n] = arg(0) != arg(1);
          break;
        case Op::lt:
          values[n] = arg(0) < arg(1);
          break;
        case Op::le:
          values[n] = arg(0) <= arg(1);
          break;
        case Op::gt:
          values[n] = arg(0) > arg(1);
          break;
        case Op::ge:
          values[n] = arg(0) >= arg(1);
          break;
        case Op::logical_not:
          values[n] = arg(0) == 0;
          break;
        case Op::logical_and:
          values[n] = arg(0) != 0 && arg(1) != 0;
          break;
        case Op::logical_or:
          values[n] = arg(0) != 0 || arg(1) != 0;
          break;
        default:  // logical_xor: the last that is_positional knows
          values[n] = (arg(0) != 0) != (arg(1) != 0);
          break;
      }
    }
    return values[steps.back()];
  }

  /// The share of points at which the test holds, from a grid over the variables that matter: exact for short ones,
  /// and for half of a square to within a hundredth.
  template <typename Test>
  double sampled(const std::vector<bool>& matter, const Test& test) const {
    constexpr double most = 4096;
    const auto& extents = kernel_.space.extents;
    const auto count = static_cast<double>(std::ranges::count(matter, true));
    if (count == 0) return test(std::vector<std::int64_t>(extents.size(), 0)) ? 1 : 0;
    const auto each = std::max<std::int64_t>(2, static_cast<std::int64_t>(std::pow(most, 1 / count) + 1e-9));
    std::vector<std::int64_t> steps(extents.size(), 1), at(extents.size(), 0), point(extents.size(), 0);
    for (std::size_t v = 0; v < extents.size(); ++v) {
      if (extents[v] == 0) return 0;
      if (matter[v]) steps[v] = std::min(extents[v], each);
    }
    const auto place = [&](std::size_t v) {
      if (!matter[v]) return;
      // The middles of equal parts.
      const double middle = (static_cast<double>(at[v]) + 0.5) / static_cast<double>(steps[v]);
      point[v] = static_cast<std::int64_t>(middle * static_cast<double>(extents[v]));
    };
    for (std::size_t v = 0; v < extents.size(); ++v) place(v);
    std::int64_t inside = 0, all = 0;
    while (true) {
      inside += test(point) ? 1 : 0;
      ++all;
      std::size_t v = extents.size();
      while (v-- > 0) {
        const bool more = ++at[v] < steps[v];
        if (!more) at[v] = 0;
        place(v);
        if (more) break;
      }
      if (v >= extents.size()) break;
    }
    return static_cast<double>(inside) / static_cast<double>(all);
  }

  const Kernel& kernel_;
  const std::vector<std::vector<bool>>& variables_;
  std::vector<bool> positional_;
  std::vector<std::set<Guard>> needs_;
  std::map<int, double> known_;
};

/// How many settings these variables have.
double settings(const Kernel& kernel, const std::vector<bool>& variables) {
  double times = 1;
  for (std::size_t v = 0; v < variables.size(); ++v) {
    if (variables[v]) times *= static_cast<double>(kernel.space.extents[v]);
  }
  return times;
}

}  // namespace

double least_bytes(const Kernel& kernel) {
  double bytes = 0;
  const auto variables = variables_of(kernel);
  // One input read at several places of the same elements (x and its mean) counts once; different parts add up to no
  // more than the whole.
  Shares shares(kernel, variables);
  struct Place {
    const Node* load;
    double elements, share;
  };
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    std::vector<Place> places;
    for (std::size_t n = 0; n < kernel.nodes.size(); ++n) {
      const Node& node = kernel.nodes[n];
      if (node.op != Op::load || node.input != static_cast<int>(i)) continue;
      std::vector<bool> moving(kernel.space.extents.size(), false);
      for (std::size_t v = 0; v < moving.size(); ++v) {
        moving[v] = gathers(node) ? variables[n][v] : node.index.depends_on(static_cast<int>(v));
      }
      const double share = std::min(shares.within(node.where, moving), shares.needed(static_cast<int>(n), moving));
      const auto again = std::ranges::find_if(places, [&](const Place& other) {
        return other.load->index == node.index && other.load->args == node.args && other.load->strides == node.strides;
      });
      if (again != places.end()) {
        again->share = std::max(again->share, share);
        continue;
      }
      double part = 1;
      if (gathers(node)) {
        // Each setting of the variables may meet another place.
        for (std::size_t v = 0; v < kernel.space.extents.size(); ++v) {
          if (moving[v]) part *= static_cast<double>(kernel.space.extents[v]);
        }
      } else {
        part = touched(node.index, kernel.space);
      }
      places.push_back({&node, part, share});
    }
    double elements = 0;
    for (const Place& place : places) elements += place.elements * place.share;
    double stored = 1;
    for (std::size_t d = 0; d < kernel.inputs[i].shape.size(); ++d) {
      if (kernel.inputs[i].strides[d] != 0) stored *= static_cast<double>(kernel.inputs[i].shape[d]);
    }
    bytes += std::min(elements, stored) * size_of(kernel.inputs[i].dtype);
  }
  for (const Output& output : kernel.outputs) bytes += touched(output.index, kernel.space) * size_of(output.dtype);
  return bytes;
}

Cost streaming_cost(const Kernel& kernel) {
  Cost total;
  total.bytes = least_bytes(kernel);
  const auto variables = variables_of(kernel);
  double points = 1;
  for (const std::int64_t extent : kernel.space.extents) points *= static_cast<double>(extent);
  // Which variables each node moves with decides how often it is computed.
  for (std::size_t n = 0; n < kernel.nodes.size(); ++n)
    total.flops += weight(info(kernel.nodes[n].op).cost) * settings(kernel, variables[n]);
  total.flops += static_cast<double>(kernel.reductions.size()) * points;
  for (const Scan& scan : kernel.scans) total.flops += info(scan.kind).operations * points;
  return total;
}

double operations_again(const Kernel& kernel) {
  const auto variables = variables_of(kernel);
  const auto outer = kernel.space.extents.size() - static_cast<std::size_t>(kernel.inner);
  double total = 0;
  for (std::size_t n = 0; n < kernel.nodes.size(); ++n) {
    const Node& node = kernel.nodes[n];
    const bool wide =
        node.op == Op::cast && (node.dtype == DType::f64 || kernel.nodes[node.args[0]].dtype == DType::f64);
    // Few units convert doubles: as dear as a function.
    const OperationCost costs = wide ? OperationCost::function : info(node.op).cost;
    std::vector<bool> moves = variables[n];
    const bool again = costs >= OperationCost::function && std::ranges::find(moves, true) != moves.end();
    if (again) std::fill_n(moves.begin(), outer, true);
    total += weight(costs) * settings(kernel, moves);
  }
  return total;
}

}  // namespace planish::codegen
