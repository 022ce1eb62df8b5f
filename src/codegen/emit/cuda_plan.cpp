#include "codegen/emit/cuda_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>

#include "base/rounding.h"
#include "codegen/emit/cuda_down.h"
#include "codegen/emit/cuda_pieces.h"
#include "codegen/emit/early_stores.h"

namespace planish::codegen::printing {
namespace {

std::vector<int> range_of(int first, int last) {
  std::vector<int> out;
  for (int i = first; i < last; ++i) out.push_back(i);
  return out;
}

/// The part outside the domain that most linear accesses have; what vectors are aligned to.
std::optional<ir::IndexExpr> common_base(const Kernel& kernel, const std::vector<int>& domain) {
  std::vector<std::pair<ir::IndexExpr, int>> votes;
  const auto vote = [&](const ir::IndexExpr& e) {
    const bool inside = std::ranges::any_of(domain, [&](int v) { return e.depends_on(v); });
    if (!inside || !is_linear(e, domain, kernel.space)) return;
    const auto base = outside_domain(e, domain, kernel.space);
    for (auto& [known, count] : votes) {
      if (known == base) {
        ++count;
        return;
      }
    }
    votes.emplace_back(base, 1);
  };
  for (const auto& node : kernel.nodes) {
    if (node.op == Op::load) vote(node.index);
  }
  for (const auto& output : kernel.outputs) {
    if (!output.per_row) vote(output.index);
  }
  // The base that varies most: a weight's constant base must not win over the data's.
  const auto best = std::ranges::max_element(votes, [](const auto& a, const auto& b) {
    return std::pair(!a.first.is_constant(), a.second) < std::pair(!b.first.is_constant(), b.second);
  });
  if (best == votes.end()) return std::nullopt;
  return best->first;
}

void plan_lanes(const Kernel& kernel, const PlanFacts& facts, CudaPlan& plan) {
  const auto n = static_cast<int>(kernel.space.extents.size());
  const int outer = n - kernel.inner;
  const auto extent = [&](int v) { return kernel.space.extents[static_cast<std::size_t>(v)]; };
  Lanes& lanes = plan.lanes;
  if (n == 0) plan.width = 1;  // a scalar
  lanes.mode = Lanes::Mode::along;
  lanes.variable = plan.columns ? outer - 1 : n - 1;
  if (plan.columns) {
    while (plan.width > 1 && extent(lanes.variable) % plan.width != 0) plan.width /= 2;
    lanes.width = plan.width;
    return;
  }
  lanes.width = plan.width;
  if (plan.width == 1) return;
  lanes.domain = plan.row ? range_of(outer, n) : range_of(0, n);
  const bool divides = extent(lanes.variable) % plan.width == 0;
  const auto base = plan.row ? facts.base : std::nullopt;
  const bool aligned = !base || divisor_of(*base, plan.grain) == plan.grain;
  if (divides && aligned) return;
  lanes.primary = base;
  plan.shifted = !aligned;
  // Rows shifted by whole vectors, to begin at lines: what vectors have in common they have all the same.
  if (!divides || divisor_of(*base, plan.width) != plan.width) lanes.mode = Lanes::Mode::flat;
}

/// Clusters that surely run at the same time with so many blocks on a multiprocessor: one that had to wait for
/// another's end would double the time. A cluster lies within a group of multiprocessors, 16 of them at least; pairs
/// always fit.
std::int64_t resident_clusters(const Device& device, int blocks, int cluster) {
  constexpr int group = 16;
  if (cluster <= 2) return std::max(1, blocks * device.sms / cluster);
  return std::max(1, device.sms / group) * std::max(1, group * blocks / cluster);
}

/// A gather is loaded ahead of its use where all lanes lie side by side at a place that is known before any reduction;
/// else where it is used.
void plan_gather(const Kernel& kernel, CudaPlan& plan, std::size_t id) {
  const Node& node = kernel.nodes[id];
  Access& access = plan.loads[id];
  const bool wide = access.kind == Access::Kind::vector || access.kind == Access::Kind::reversed;
  const bool known = std::ranges::all_of(node.args, [&](int arg) {
    const auto a = static_cast<std::size_t>(arg);
    return !plan.lane[a] && plan.places[a].phase == 0;
  });
  if (!wide || !known) plan.swept[id] = false;
  for (const std::int64_t stride : node.strides)
    access.unit = static_cast<int>(std::gcd(static_cast<std::int64_t>(access.unit), stride));
}

void plan_strips(const Kernel& kernel, CudaPlan& plan) {
  std::vector<int> candidates;
  for (int id = 0; id < static_cast<int>(kernel.nodes.size()); ++id) {
    const auto i = static_cast<std::size_t>(id);
    if (plan.swept[i] && !gathers(kernel.nodes[i]) && plan.needs[i].empty()) candidates.push_back(id);
  }
  plan.strips = find_strips(kernel, plan.lanes, candidates);
  for (std::size_t s = 0; s < plan.strips.size(); ++s) {
    for (const int id : plan.strips[s].loads) plan.strip_of[static_cast<std::size_t>(id)] = static_cast<int>(s);
  }
}

/// By node: the first load of the vector that this one takes its lanes of, itself where it is the first, or alone.
std::vector<int> vectors_shared(const Kernel& kernel, const CudaPlan& plan) {
  std::vector<int> out, firsts;
  const auto same = [&](int a, int b) {
    const Node &one = kernel.nodes[static_cast<std::size_t>(a)], &other = kernel.nodes[static_cast<std::size_t>(b)];
    const Access &to = plan.loads[static_cast<std::size_t>(a)], &from = plan.loads[static_cast<std::size_t>(b)];
    const bool alike = (to.kind == Access::Kind::invariant) == (from.kind == Access::Kind::invariant);
    return alike && one.input == other.input && to.unit == from.unit &&
           common_bounds(one.where, kernel.space, plan.lanes) == common_bounds(other.where, kernel.space, plan.lanes) &&
           vector_begin(one.index, to, kernel.space, plan.lanes) ==
               vector_begin(other.index, from, kernel.space, plan.lanes);
  };
  const bool within = std::ranges::any_of(plan.loads, [](const Access& a) { return a.kind == Access::Kind::within; });
  for (int id = 0; id < static_cast<int>(kernel.nodes.size()); ++id) {
    out.push_back(id);
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    const Access::Kind kind = plan.loads[static_cast<std::size_t>(id)].kind;
    const bool whole = kind != Access::Kind::reversed && kind != Access::Kind::elements;
    if (!within || plan.predication != 0 || node.op != Op::load || gathers(node) || !whole) continue;
    if (plan.strip_of[static_cast<std::size_t>(id)] >= 0) continue;
    const auto first = std::ranges::find_if(firsts, [&](int other) { return same(other, id); });
    if (first == firsts.end())
      firsts.push_back(id);
    else
      out.back() = *first;
  }
  return out;
}

void plan_nodes(const Kernel& kernel, const PlanFacts& facts, CudaPlan& plan) {
  plan.places = facts.places;
  const std::size_t count = kernel.nodes.size();
  const int outer = static_cast<int>(kernel.space.extents.size()) - kernel.inner;
  plan.lane.assign(count, false);
  plan.swept.assign(count, false);
  plan.loads.assign(count, {});
  for (std::size_t i = 0; i < count; ++i) {
    const Node& node = kernel.nodes[i];
    bool lane = (plan.columns && node.op == Op::reduced) || node.op == Op::scanned;
    if (node.op == Op::load || node.op == Op::index) {
      lane = varies(node.index, plan.lanes) ||
             std::ranges::any_of(node.where, [&](const ir::Bound& b) { return varies(b.e, plan.lanes); });
    }
    for (const int arg : node.args) lane = lane || plan.lane[static_cast<std::size_t>(arg)];
    plan.lane[i] = lane;
    if (node.op != Op::load) continue;
    plan.swept[i] = !plan.row || plan.places[i].inner;
    const Input& input = kernel.inputs[static_cast<std::size_t>(node.input)];
    plan.loads[i] =
        plan.row || plan.columns || gathers(node)
            ? classify(node.index, node.where, input.dtype, kernel.space, plan.lanes)
            : classify_load(node.index, node.where, input.dtype, input.storage_elements, kernel.space, plan.lanes);
    if (gathers(node)) plan_gather(kernel, plan, i);
  }
  for (const int id : facts.asked) {
    if (plan.predication != 0 && plan.swept[static_cast<std::size_t>(id)]) plan.asked.push_back(id);
  }
  plan.strip_of.assign(count, -1);
  if (plan.strips_wanted) plan_strips(kernel, plan);
  plan.vector_of = vectors_shared(kernel, plan);
  for (const auto& output : kernel.outputs) {
    plan.stores.push_back(classify(output.index, {}, output.dtype, kernel.space, plan.lanes));
  }

  const int phase_count = phases(kernel);
  plan.store_sweep = plan.online.empty() ? facts.store_sweep : facts.store_sweep_online;
  const auto row_level = [&](int id) {
    return plan.row && !plan.columns && !plan.places[static_cast<std::size_t>(id)].inner;
  };
  for (int s = 0; s <= phase_count; ++s) {
    std::vector<int> roots;
    if (s < phase_count && plan.merged(kernel, s)) {
      // Nothing left to sweep for.
    } else if (s < phase_count) {
      for (const auto& reduction : kernel.reductions) {
        if (reduction.phase == s) roots.push_back(reduction.arg);
      }
    }
    for (const int o : plan.stored_in(s)) roots.push_back(kernel.outputs[static_cast<std::size_t>(o)].node);
    plan.sweeps.push_back(closure(kernel, roots, row_level));
  }
  if (!plan.row || plan.residency == Residency::reread) return;
  if (plan.stages != 0) {
    plan.resident = facts.own_streams;
    if (plan.operand_residency) std::ranges::copy(facts.shared_streams, std::back_inserter(plan.resident));
    return;
  }
  for (int id = 0; id < static_cast<int>(count); ++id) {
    if (!plan.swept[static_cast<std::size_t>(id)]) continue;
    // What is copied into shared memory cannot be looked at before more is asked for.
    if (plan.residency == Residency::shared && plan.asks(id)) continue;
    const auto uses = std::ranges::count_if(
        plan.sweeps, [&](const std::vector<int>& s) { return std::ranges::binary_search(s, id); });
    // What all rows share is read again from the caches; keeping it would only crowd out the row's own data.
    const bool own =
        (plan.places[static_cast<std::size_t>(id)].variables & ((std::uint64_t{1} << std::min(outer, 63)) - 1)) != 0 ||
        outer == 0;
    if (uses >= 2 && (own || plan.columns)) plan.resident.push_back(id);
  }
}

void plan_stages(const Kernel& kernel, const PlanFacts& facts, CudaPlan& plan) {
  std::int64_t held_bytes = 0;
  const auto& held = facts.shared_streams;
  for (const int id : plan.resident) {
    const int size =
        size_of(kernel.inputs[static_cast<std::size_t>(kernel.nodes[static_cast<std::size_t>(id)].input)].dtype);
    const std::int64_t unit = std::max(1, 16 / size);
    Stream stream;
    stream.load = id;
    stream.align = std::max<std::int64_t>(unit, plan.width);
    stream.held = std::ranges::find(held, id) != held.end();
    stream.offset = stream.held ? held_bytes : plan.stage_bytes;
    // Lanes before the row fall into the copy where vectors start where the tensor's do.
    const bool together = plan.loads[static_cast<std::size_t>(id)].kind == Access::Kind::vector &&
                          plan.loads[static_cast<std::size_t>(id)].unit == std::min<std::int64_t>(unit, plan.width);
    stream.front_bytes = plan.shifted && !(together && plan.width <= unit) ? stream.align * size : 0;
    const std::int64_t elements = plan.chunk * plan.width + 2 * stream.align + plan.width + unit;
    stream.capacity = ceil_div(elements * size + stream.front_bytes, 16) * 16;
    if (stream.held)
      held_bytes += stream.capacity;
    else
      plan.stage_bytes += stream.capacity * plan.rows;
    plan.streams.push_back(stream);
  }
  plan.dynamic_shared = plan.stage_bytes * plan.stages + held_bytes;
  plan.static_shared += 8 * (plan.stages + 1);
}

/// As many trips of a row as the multiprocessor's shared memory holds.
void keep_what_fits(const Kernel& kernel, const Device& device, CudaPlan& plan) {
  constexpr std::int64_t system = 1024;  // what each block takes beside its own
  std::int64_t trip = 0;
  for (const int id : plan.resident) trip += static_cast<std::int64_t>(plan.vector_bytes(kernel, id)) * plan.threads;
  const std::int64_t room = (device.shared_bytes + system) / std::max(1, plan.min_blocks) - system -
                            plan.static_shared - 16 * static_cast<std::int64_t>(plan.resident.size());
  plan.kept_trips = trip == 0 ? 0 : std::clamp<std::int64_t>(room / trip, 0, plan.trips) / plan.unroll * plan.unroll;
  plan.dynamic_shared = 0;
  plan.shared_offset.clear();
  for (const int id : plan.resident) {
    plan.shared_offset.push_back(plan.dynamic_shared);
    plan.dynamic_shared +=
        ceil_div(static_cast<std::int64_t>(plan.vector_bytes(kernel, id)) * plan.threads * plan.kept_trips, 16) * 16;
  }
}

void plan_resources(const Kernel& kernel, const PlanFacts& facts, const Device& device, CudaPlan& plan) {
  const auto words = [&](int load) {
    const int own = plan.strip_of[static_cast<std::size_t>(load)];
    if (plan.vector_of[static_cast<std::size_t>(load)] != load) return std::int64_t{0};
    if (own < 0) return ceil_div(plan.vector_bytes(kernel, load), 4);
    // The compiler loads of the outer units what is used.
    const Strip& strip = plan.strips[static_cast<std::size_t>(own)];
    return strip.loads.front() != load ? 0 : ceil_div(used_bytes(kernel, strip, plan.width), 4);
  };
  std::int64_t in_flight = 0;
  std::int64_t resident_words = 0;
  for (const int id : plan.resident) {
    // The compiler converts narrow elements once and keeps them as 32 bits between sweeps.
    const int element =
        size_of(kernel.inputs[static_cast<std::size_t>(kernel.nodes[static_cast<std::size_t>(id)].input)].dtype);
    const std::int64_t held = element < 4 ? plan.vector_bytes(kernel, id) / std::max(1, element) : words(id);
    resident_words += held * ceil_div(plan.trips, plan.unroll) * plan.unroll;
    if (plan.residency == Residency::shared && plan.stages == 0) {
      plan.shared_offset.push_back(plan.dynamic_shared);
      const std::int64_t bytes = static_cast<std::int64_t>(plan.vector_bytes(kernel, id)) * plan.threads * plan.trips;
      plan.dynamic_shared += ceil_div(bytes, 16) * 16;
    }
  }
  if (plan.stages != 0) plan_stages(kernel, facts, plan);
  std::int64_t live = 0;
  for (const auto& sweep : plan.sweeps) {
    std::int64_t flying = 0;
    std::int64_t doubles = 0;
    for (const int id : sweep) {
      const bool kept = std::ranges::find(plan.resident, id) != plan.resident.end();
      if (plan.swept[static_cast<std::size_t>(id)] && !kept) flying += words(id) * plan.unroll;
      if (kernel.nodes[static_cast<std::size_t>(id)].dtype == DType::f64) doubles = 12;
    }
    in_flight = std::max(in_flight, flying);
    live = std::max<std::int64_t>(live, std::min<std::int64_t>(24, static_cast<std::int64_t>(sweep.size())) + doubles);
  }
  std::int64_t accumulators = 0;
  for (const auto& reduction : kernel.reductions) {
    const int bytes = std::max(4, size_of(reduction.accumulate));
    accumulators += plan.width * bytes / 4;
    // Rows in flight alternate between two sets of slots, and moments carry a count beside them.
    const std::int64_t sets = (plan.takes_turns() ? 2 : 1) * (plan.online.empty() ? 1 : 2);
    plan.static_shared += plan.columns ? static_cast<std::int64_t>(plan.threads) * plan.width * bytes
                                       : sets * (plan.threads / 32 + 1) * bytes;
  }
  if (plan.push) {
    // Two sets of slots where rows alternate; a count beside moments; and the barriers.
    std::int64_t bytes = 0;
    for (const auto& reduction : kernel.reductions)
      bytes += (size_of(reduction.accumulate) > 4 ? 8 : 4) + (plan.online.empty() ? 0 : 4);
    const std::int64_t sets = plan.takes_turns() ? 2 : 1;
    plan.static_shared += sets * (plan.pushers() * bytes + 8 * static_cast<std::int64_t>(kernel.reductions.size()));
  }
  if (plan.partial_residency) keep_what_fits(kernel, device, plan);
  for (const int id : plan.staged)
    plan.static_shared += static_cast<std::int64_t>(plan.tile) * (plan.tile + 1) * plan.vector_bytes(kernel, id);
  std::int64_t stored = 0;
  for (const auto& output : kernel.outputs)
    stored += ceil_div(static_cast<std::int64_t>(plan.width) * size_of(output.dtype), 4);
  stored = ceil_div(stored, plan.down);  // one step is stored before the next one is computed
  if (plan.residency != Residency::registers) resident_words = 0;
  const std::int64_t addresses = 2 * static_cast<std::int64_t>(kernel.inputs.size() + kernel.outputs.size());
  plan.registers = static_cast<int>(std::min<std::int64_t>(1 << 20, 14 + addresses + in_flight + resident_words + live +
                                                                        accumulators + stored + (plan.wide ? 8 : 0) +
                                                                        (plan.shifted ? 6 : 0)));
  plan.least = static_cast<int>(std::min<std::int64_t>(
      plan.registers, 18 + in_flight / plan.unroll + resident_words + std::min<std::int64_t>(accumulators, 8) / 2 +
                          (plan.wide ? 4 : 0) + (plan.shifted ? 4 : 0)));
}

}  // namespace

int CudaPlan::vector_bytes(const Kernel& kernel, int load) const {
  const auto& node = kernel.nodes[static_cast<std::size_t>(load)];
  if (const int own = strip_of[static_cast<std::size_t>(load)]; own >= 0) {
    const Strip& strip = strips[static_cast<std::size_t>(own)];
    if (strip.loads.front() != load) return 0;
    return strip.length() * size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype);
  }
  const int lanes_held = loads[static_cast<std::size_t>(load)].kind == Access::Kind::invariant ? 1 : width;
  return lanes_held * size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype);
}

std::int64_t used_bytes(const Kernel& kernel, const Strip& strip, int width) {
  const Node& node = kernel.nodes[static_cast<std::size_t>(strip.loads.front())];
  const std::int64_t elements = strip.shift.back() - strip.shift.front() + strip.slope * (width - 1) + 1;
  return elements * size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype);
}

const OnlinePair* CudaPlan::led_by(int reduction) const {
  const auto it = std::ranges::find(online, reduction, &OnlinePair::leader);
  return it == online.end() ? nullptr : &*it;
}
const OnlinePair* CudaPlan::followed_by(int reduction) const {
  const auto it = std::ranges::find(online, reduction, &OnlinePair::follower);
  return it == online.end() ? nullptr : &*it;
}
std::vector<int> CudaPlan::stored_in(int sweep) const {
  std::vector<int> out;
  for (std::size_t o = 0; o < store_sweep.size(); ++o) {
    if (store_sweep[o] == sweep) out.push_back(static_cast<int>(o));
  }
  return out;
}
bool CudaPlan::merged(const Kernel& kernel, int phase) const {
  return std::ranges::any_of(online, [&](const OnlinePair& pair) {
    return kernel.reductions[static_cast<std::size_t>(pair.follower)].phase == phase;
  });
}

int widest(const Kernel& kernel) {
  const auto n = static_cast<int>(kernel.space.extents.size());
  int bytes = 1;
  // Where threads sweep rows, what is one for a whole row is not among the elements.
  const bool rows = kernel.anchor == Anchor::row && !prefers_columns(kernel);
  const int first = rows ? n - kernel.inner : 0;
  // What only names places, once for many elements, is not among the elements.
  std::vector<int> places;
  for (const auto& node : kernel.nodes) {
    if (gathers(node)) places.insert(places.end(), node.args.begin(), node.args.end());
  }
  places = closure(kernel, places, [](int) { return false; });
  for (std::size_t i = 0; i < kernel.nodes.size(); ++i) {
    const auto& node = kernel.nodes[i];
    if (node.op != Op::load) continue;
    if (std::ranges::binary_search(places, static_cast<int>(i)) && !node.index.depends_on(n - 1)) continue;
    bool moves = false;
    for (int v = first; v < n; ++v) moves = moves || node.index.depends_on(v);
    if (moves) bytes = std::max(bytes, size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype));
  }
  for (const auto& output : kernel.outputs) {
    if (!output.per_row && !output.folded) bytes = std::max(bytes, size_of(output.dtype));
  }
  return bytes;
}

bool prefers_columns(const Kernel& kernel) {
  const auto n = static_cast<int>(kernel.space.extents.size());
  const int outer = n - kernel.inner;
  if (!kernel.has_rows() || outer < 1) return false;
  if (kernel.space.extents[static_cast<std::size_t>(outer - 1)] < 8) return false;
  int along_rows = 0;
  int along_columns = 0;
  const auto places = place(kernel);
  const auto look = [&](const ir::IndexExpr& e, int weight) {
    if (e.coefficient_of(outer - 1) == 1) along_columns += weight;
    for (int v = outer; v < n; ++v) {
      if (e.coefficient_of(v) == 1 || e.coefficient_of(v) == -1) along_rows += weight;
    }
  };
  for (const auto& node : kernel.nodes) {
    if (node.op != Op::load) continue;
    bool inner = false;
    bool outside = false;
    for (int v = 0; v < n; ++v) (v < outer ? outside : inner) |= node.index.depends_on(v);
    if (inner && outside) look(node.index, 2);
    // Rows of a table that the reduced variables choose: what is contiguous is contiguous for each of them.
    if (gathers(node) && outside && places[static_cast<std::size_t>(&node - kernel.nodes.data())].inner)
      look(node.index, 4);
  }
  for (const auto& output : kernel.outputs) {
    if (!output.per_row) look(output.index, 2);
  }
  return along_columns > along_rows;
}

std::pair<int, std::vector<int>> transposed_loads(const Kernel& kernel) {
  const auto n = static_cast<int>(kernel.space.extents.size());
  if (kernel.has_rows() || n < 2) return {-1, {}};
  constexpr std::int64_t least = 16;  // shorter runs do not fill a memory transaction either way
  if (kernel.space.extents.back() < least) return {-1, {}};
  std::map<int, std::vector<int>> found;
  for (int id = 0; id < static_cast<int>(kernel.nodes.size()); ++id) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    if (node.op != Op::load || gathers(node) || !node.index.depends_on(n - 1)) continue;
    const std::int64_t own = node.index.coefficient_of(n - 1);
    if (own == 1 || own == -1) continue;
    for (int v = 0; v + 1 < n; ++v) {
      if (node.index.coefficient_of(v) == 1 && kernel.space.extents[static_cast<std::size_t>(v)] >= least)
        found[v].push_back(id);
    }
  }
  std::pair<int, std::vector<int>> best{-1, {}};
  for (auto& [v, loads] : found) {
    if (loads.size() > best.second.size()) best = {v, loads};
  }
  return best;
}

std::vector<int> streamable(const Kernel& kernel, bool shared_by_rows) {
  std::vector<int> out;
  const auto n = static_cast<int>(kernel.space.extents.size());
  const int outer = n - kernel.inner;
  if (kernel.anchor != Anchor::row || outer < 1 || prefers_columns(kernel)) return out;
  const auto domain = range_of(outer, n);
  const auto places = place(kernel);
  for (int id = 0; id < static_cast<int>(kernel.nodes.size()); ++id) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    if (node.op != Op::load || !places[static_cast<std::size_t>(id)].inner || !node.where.empty() || gathers(node))
      continue;
    bool own = false;
    for (int v = 0; v < outer; ++v) own = own || node.index.depends_on(v);
    if (own != shared_by_rows && is_linear(node.index, domain, kernel.space)) out.push_back(id);
  }
  return out;
}

bool has_neighbours(const Kernel& kernel) {
  if (kernel.has_rows()) return false;
  std::vector<const Node*> loads;
  for (const Node& node : kernel.nodes) {
    if (node.op != Op::load) continue;
    if (std::ranges::any_of(loads, [&](const Node* other) { return beside(*other, node); })) return true;
    loads.push_back(&node);
  }
  return false;
}

bool reads_strips(const Kernel& kernel, const Device& device) {
  if (!has_neighbours(kernel)) return false;
  for (const std::int64_t vector : {16, 8, 32}) {
    if (!make_plan(kernel, device, {{"vector", vector}}).strips.empty()) return true;
  }
  return false;
}

bool off_lines(const Kernel& kernel, const Device& device, std::int64_t vector) {
  const CudaPlan plan = make_plan(kernel, device, {{"vector", vector}, {"lines", 1}});
  return plan.row && plan.shifted && plan.grain > plan.width;
}

bool lies_across(const Kernel& kernel, const Device& device, std::int64_t vector) {
  const CudaPlan plan = make_plan(kernel, device, {{"vector", vector}});
  if (!plan.row || !plan.shifted) return false;
  for (std::size_t id = 0; id < kernel.nodes.size(); ++id) {
    const Node& node = kernel.nodes[id];
    if (node.op != Op::load || !plan.swept[id]) continue;
    const int size = size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype);
    if (plan.loads[id].kind == Access::Kind::vector && plan.width * size % 16 == 0 && plan.loads[id].unit * size < 16)
      return true;
  }
  return false;
}

PlanFacts::PlanFacts(const Kernel& kernel) : places(place(kernel)), pairs(online_pairs(kernel)) {
  columns = prefers_columns(kernel);
  constexpr std::int64_t room = 64;  // copies look at positions rounded up
  wide = !fits_int32(kernel) || std::ranges::any_of(kernel.inputs, [](const Input& input) {
    return input.storage_elements > 2147483647 - room;
  });
  widest = printing::widest(kernel);
  const auto n = static_cast<int>(kernel.space.extents.size());
  if (kernel.has_rows()) base = common_base(kernel, range_of(n - kernel.inner, n));
  own_streams = streamable(kernel, false);
  shared_streams = streamable(kernel, true);
  needs = needed_when(kernel);
  asked = asked_by(kernel, needs);
  if (kernel.has_rows()) predicate = vector_predicate(kernel, needs);
  steps = std::make_shared<StepsMade>();
  store_sweep = store_sweep_online = store_sweeps(kernel);
  if (!pairs.empty()) {
    CudaPlan online;
    online.online = pairs;
    store_sweep_online = store_sweeps(kernel, [&](int phase) { return !online.merged(kernel, phase); });
  }
}

const Stepped* PlanFacts::stepped(const Kernel& kernel, const Genome& genome) const {
  const auto wanted = gene(genome, "down", 1);
  return wanted <= 1 ? nullptr : steps->get(kernel, static_cast<int>(wanted));
}

CudaPlan make_plan(const Kernel& kernel, const Device& device, const Genome& genome) {
  return make_plan(kernel, PlanFacts(kernel), device, genome);
}

namespace {

/// What the genome says by itself.
void take_genes(const Kernel& kernel, const PlanFacts& facts, const Genome& genome, CudaPlan& plan) {
  plan.threads = static_cast<int>(gene(genome, "threads", 256));
  plan.unroll = static_cast<int>(gene(genome, "unroll", 1));
  plan.cluster = static_cast<int>(gene(genome, "cluster", 1));
  plan.min_blocks = static_cast<int>(gene(genome, "min_blocks", 1));
  const auto hints = gene(genome, "hints", 0);
  plan.stream_loads = (hints & 1) != 0;
  plan.stream_stores = (hints & 2) != 0;
  plan.residency = static_cast<Residency>(gene(genome, "residency", 0));
  plan.width = static_cast<int>(std::max<std::int64_t>(1, gene(genome, "vector", 4) / facts.widest));
  plan.fast = gene(genome, "fast", 0) != 0;
  plan.near = gene(genome, "fast", 0) == 2;
  if (gene(genome, "online", 0) != 0 && !plan.columns) plan.online = facts.pairs;
  plan.persistent_rows = gene(genome, "persistent_rows", 0);
  plan.stages = static_cast<int>(gene(genome, "stages", 0));
  plan.push = gene(genome, "exchange", 0) != 0;
  plan.operand_residency = gene(genome, "operand_residency", 0) != 0;
  plan.partial_residency = gene(genome, "partial_residency", 0) != 0;
  plan.realign = gene(genome, "realign", 0) != 0;
  constexpr int line_bytes = 128;
  plan.grain = gene(genome, "lines", 0) != 0 ? std::max(plan.width, line_bytes / facts.widest) : plan.width;
  plan.reverse = gene(genome, "reverse", 0) != 0;
  plan.raster = static_cast<int>(gene(genome, "raster", 0)) - 1;
  plan.predication = static_cast<int>(gene(genome, "predication", 0));
  plan.needs.resize(kernel.nodes.size());
  if (plan.predication != 0) plan.needs = facts.needs;
  if (plan.predication == 2) plan.predicate = facts.predicate;
  plan.tile = static_cast<int>(gene(genome, "tile", 0));
  plan.strips_wanted = !kernel.has_rows() && plan.tile == 0 && gene(genome, "stencil_reuse", 1) != 0;
  if (plan.tile != 0) {
    plan.width = 1;
    plan.unroll = std::max(1, plan.tile * plan.tile / plan.threads);
    std::tie(plan.tile_variable, plan.staged) = transposed_loads(kernel);
  }
}

/// Pointwise: how many blocks take how many vectors.
void lay_out_points(const Kernel& kernel, const Device& device, std::int64_t per_multiprocessor, CudaPlan& plan) {
  const std::int64_t points = kernel.outer_extent() * kernel.inner_extent();
  plan.length = points;
  plan.vectors = points / plan.width;  // what is left is done one element at a time by the last block
  plan.groups =
      std::max<std::int64_t>(1, ceil_div(plan.vectors, static_cast<std::int64_t>(plan.threads) * plan.unroll));
  plan.persistent = per_multiprocessor == 0 ? 0 : std::min<std::int64_t>(plan.groups, per_multiprocessor * device.sms);
  plan.grid = plan.persistent != 0 ? plan.persistent : plan.groups;
  if (plan.tile != 0) {
    const auto tiles = [&](std::int64_t extent) { return ceil_div(extent, plan.tile); };
    const std::int64_t last = kernel.space.extents.back();
    const std::int64_t other = kernel.space.extents[static_cast<std::size_t>(plan.tile_variable)];
    plan.persistent = 0;
    plan.groups = plan.grid = points / last / other * tiles(last) * tiles(other);
  }
  plan.trips = plan.unroll;
}

/// Threads that lie across rows: who folds which column, in how many blocks.
void lay_out_columns(const Kernel& kernel, std::int64_t threads_of_one, CudaPlan& plan) {
  plan.across = static_cast<int>(threads_of_one);
  plan.rows = plan.threads / std::max(1, plan.across);
  plan.length = kernel.inner_extent();
  plan.vectors = plan.length;
  plan.groups = ceil_div(kernel.outer_extent() / plan.width, std::max(1, plan.rows));
}

/// Threads that lie along rows: which vectors a row has, and how many blocks share how many rows.
void lay_out_rows(const Kernel& kernel, std::int64_t side_by_side, CudaPlan& plan) {
  plan.rows = static_cast<int>(side_by_side);
  plan.across = plan.threads / std::max(1, plan.rows);
  plan.length = kernel.inner_extent();
  const int head = plan.shifted ? plan.grain - divisor_of(*plan.lanes.primary, plan.grain) : 0;
  plan.front = (head + plan.width - 1) / plan.width;
  plan.vectors = ceil_div(plan.length + head, plan.width);
  plan.partial = plan.shifted || plan.length % plan.width != 0;
  plan.groups = ceil_div(kernel.outer_extent(), plan.rows);
}

/// Rows and columns: trips of a thread, the portions that are waited for one by one, and the grid.
void plan_trips(const Device& device, CudaPlan& plan) {
  plan.trips = std::max<std::int64_t>(
      1, ceil_div(plan.vectors, static_cast<std::int64_t>(std::max(1, plan.across)) * plan.cluster));
  if (plan.stages != 0) {
    plan.chunk = ceil_div(plan.vectors, plan.cluster);
    plan.trips = ceil_div(plan.chunk, std::max(1, plan.across));
    plan.grid = std::min(plan.groups, resident_clusters(device, plan.min_blocks, plan.cluster)) * plan.cluster;
  } else {
    plan.grid = (plan.persistent_rows != 0 ? ceil_div(plan.groups, plan.persistent_rows) : plan.groups) * plan.cluster;
  }
  const std::int64_t chunks = ceil_div(plan.trips, plan.unroll);
  if (plan.residency == Residency::shared && plan.trips <= longest_chain && plan.stages == 0 && !plan.partial_residency)
    plan.parts = chunks >= 8 ? 8 : chunks >= 4 ? chunks : plan.persistent_rows != 0 ? chunks : 1;
  plan.part_trips = ceil_div(chunks, plan.parts) * plan.unroll;
  plan.parts = ceil_div(chunks * plan.unroll, plan.part_trips);
}

CudaPlan plan_of(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome,
                 const Stepped* stepped) {
  CudaPlan plan;
  if (stepped != nullptr) {
    plan.down = stepped->steps;
    plan.output_of = stepped->output_of;
    plan.inside = stepped->inside;
  }
  plan.row = kernel.has_rows();
  plan.columns = facts.columns;
  plan.wide = facts.wide;
  plan.narrow = std::ranges::all_of(kernel.outputs, [](const Output& o) { return is_half(o.dtype); });
  plan.inner_domain = range_of(static_cast<int>(kernel.space.extents.size()) - kernel.inner,
                               static_cast<int>(kernel.space.extents.size()));
  take_genes(kernel, facts, genome, plan);
  plan_lanes(kernel, facts, plan);
  if (!plan.row) {
    lay_out_points(kernel, device, gene(genome, "persistent", 0), plan);
  } else if (plan.columns) {
    lay_out_columns(kernel, gene(genome, "split", 1), plan);
  } else {
    lay_out_rows(kernel, gene(genome, "rows", 1), plan);
  }
  if (plan.row) plan_trips(device, plan);
  plan_nodes(kernel, facts, plan);
  plan_resources(kernel, facts, device, plan);
  if (plan.row && kernel.parts != 0) plan_pieces(kernel, 0, plan.kept_trips, plan);
  return plan;
}

}  // namespace

CudaPlan make_plan(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome) {
  if (const Stepped* one = facts.stepped(kernel, genome)) return plan_of(one->kernel, *one->facts, device, genome, one);
  return plan_of(kernel, facts, device, genome, nullptr);
}

}  // namespace planish::codegen::printing
