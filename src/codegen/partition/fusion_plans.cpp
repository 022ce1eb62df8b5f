#include "codegen/partition/fusion_plans.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "codegen/lower/lower.h"
#include "codegen/partition/regions.h"
#include "codegen/partition/statistics.h"
#include "codegen/partition/usage.h"

namespace planish::codegen {
namespace {

/// A kernel that is to take this many times as long as what it replaces is not worth searching, however far from its
/// own bound that one stays.
constexpr double most_times = 3;

/// A product takes what can join it unless less of it saves more than this: the model does not know what a kernel of
/// rows saves that computes its elements once and reads them again.
constexpr double worth_less = 0.9;

/// A printed main loop takes so many times what the device file of products does (docs/results/contraction.md).
constexpr double printed_times = 1.2;

using Nodes = std::set<int>;

class FusionPlanner {
 public:
  FusionPlanner(const ir::Graph& graph, const Partition& partition, const Device& device, const FusionOptions& options)
      : graph_(graph), partition_(partition), device_(device), options_(options), usage_(graph, stored_by(partition)) {
    for (const Item& item : partition.order) {
      if (item.is_region) continue;
      for (const int v : ir::reads(graph.nodes[static_cast<std::size_t>(item.index)])) read_elsewhere_.insert(v);
    }
    for (const auto& output : graph.outputs) read_elsewhere_.insert(output.value);
    for (const Region& region : partition.regions) keys_.push_back(schedule_key(region));
    find_waits();
  }

  /// Two kernels in place of one.
  void cut(std::size_t index) {
    const Region& region = partition_.regions[index];
    const Nodes all = members(region);
    // An equal kernel was cut before, in another layer: as it was, so is this one.
    const auto known = cuts_.find({keys_[index], all.size()});
    if (known != cuts_.end()) {
      for (const std::vector<bool>& behind : known->second) {
        auto by = split(region, all, picked(all, behind));
        if (!by) continue;
        result.push_back({{index}, std::move(*by), 0});
        result.back().seconds = seconds(result.back().by);
      }
      return;
    }
    const double limit = most_times * seconds(region);
    std::vector<FusionPlan> found;
    std::vector<Nodes> places_found;
    for (Nodes& behind : places(all, region.given)) {
      auto by = split(region, all, behind);
      if (!by || seconds(*by) > limit) continue;
      found.push_back({{index}, std::move(*by), 0});
      places_found.push_back(std::move(behind));
    }
    auto& kept = cuts_[{keys_[index], all.size()}];
    for (const std::size_t i : keep(std::move(found), options_.most_a_region)) {
      std::vector<bool>& behind = kept.emplace_back();
      for (const int n : all) behind.push_back(places_found[i].contains(n));
    }
  }

  /// One kernel in place of several: of two neighbours, of two that can be one launch, of all those that can.
  void join() {
    std::vector<FusionPlan> found;
    // What cannot be one kernel in one layer cannot in the next.
    std::map<std::vector<std::string>, bool> kinds;
    for (auto& group : groups()) {
      std::vector<std::string> kind;
      for (const std::size_t r : group) kind.push_back(keys_[r]);
      const auto known = kinds.find(kind);
      if (known == kinds.end() ? kinds.size() >= options_.most_tried : !known->second) continue;
      auto region = joined(group);
      const bool good = region && seconds(*region) <= most_times * seconds(group);
      kinds.try_emplace(std::move(kind), good);
      if (good) found.push_back({std::move(group), {std::move(*region)}, 0});
    }
    keep(std::move(found), options_.most_joined);
  }

  /// For each product, itself and a kernel behind it as one that has no rows, or whose rows are folded to what it
  /// stores, where that moves less. No two replace the same kernel.
  std::vector<FusionPlan> epilogues() {
    std::vector<FusionPlan> found;
    std::set<std::size_t> used;
    std::set<std::pair<std::string, std::string>> apart;
    const auto& regions = partition_.regions;
    for (std::size_t a = 0; a < regions.size(); ++a) {
      if (!is_product(a) || used.contains(a)) continue;
      for (const std::size_t b : readers_of(a)) {
        const Kernel& reader = regions[b].kernel;
        if (!may_join_product(b) || used.contains(b)) continue;
        if (reader.has_rows() && !folds_rows(reader)) continue;
        if (waits_between(a, b) || apart.contains({keys_[a], keys_[b]})) continue;
        auto region = joined({a, b});
        if (!region || !stays_product(*region) ||
            seconds(*region) * slowed(regions[a], *region) >= seconds(regions[a]) + seconds(regions[b])) {
          apart.emplace(keys_[a], keys_[b]);
          continue;
        }
        found.push_back({{std::min(a, b), std::max(a, b)}, {std::move(*region)}, 0});
        used.insert({a, b});
        break;
      }
    }
    return found;
  }

  /// For each product of which several kernels first compute the same, or one folds what it computes of elements, the
  /// product with that, and these without, where that moves less. No two replace the same kernel.
  std::vector<FusionPlan> shared_epilogues() {
    std::vector<FusionPlan> found;
    std::set<std::size_t> used;
    std::set<std::vector<std::string>> apart;
    const auto& regions = partition_.regions;
    for (std::size_t a = 0; a < regions.size(); ++a) {
      if (!is_product(a)) continue;
      std::vector<std::size_t> group = readers_of(a);
      if (group.empty() || !std::ranges::all_of(group, [&](std::size_t r) { return is_one_kernel(r); })) continue;
      if (group.size() == 1 && !only_folds(regions[group.front()].kernel)) continue;
      const std::vector<std::size_t> readers = group;
      group.push_back(a);
      std::vector<std::string> kind;
      for (const std::size_t r : group) kind.push_back(keys_[r]);
      if (apart.contains(kind) || std::ranges::any_of(group, [&](std::size_t r) { return used.contains(r); })) continue;
      auto by = hoisted(a, readers);
      if (!by || seconds(*by) >= seconds(group)) {
        apart.insert(std::move(kind));
        continue;
      }
      used.insert(group.begin(), group.end());
      std::ranges::sort(group);
      found.push_back({std::move(group), std::move(*by), 0});
    }
    return found;
  }

  /// Of a product and a kernel behind it that cannot be one: the part of the latter that can join the product does
  /// (what is computed before rows are folded, a pool), and the rest reads that. As much as can, where that moves the
  /// fewest bytes.
  void shift() {
    std::vector<FusionPlan> found;
    std::map<std::vector<std::string>, std::optional<std::vector<bool>>> known;
    const auto& regions = partition_.regions;
    for (std::size_t a = 0; a < regions.size(); ++a) {
      if (regions[a].kernel.anchor != Anchor::contraction || !regions[a].before.empty()) continue;
      for (const std::size_t b : readers_of(a)) {
        if (waits_between(a, b) || !regions[b].before.empty()) continue;
        const Nodes theirs = members(regions[b]);
        const Region both = union_of({a, b});
        const Nodes all = members(both);
        const double limit = most_times * (seconds(regions[a]) + seconds(regions[b]));
        std::optional<FusionPlan> best;
        const auto take = [&](const Nodes& behind) {
          auto by = split(both, all, behind);
          if (!by || by->front().kernel.anchor != Anchor::contraction) return false;
          const double mine = seconds(*by);
          if (mine > limit || (best && mine > worth_less * best->seconds)) return false;
          best = FusionPlan{{std::min(a, b), std::max(a, b)}, std::move(*by), mine};
          return true;
        };
        const std::vector<std::string> kind{keys_[a], keys_[b], std::to_string(theirs.size())};
        if (const auto before = known.find(kind); before != known.end()) {
          if (before->second) take(picked(theirs, *before->second));
        } else if (known.size() < options_.most_tried) {
          auto& flags = known[kind];
          if (joined({a, b})) continue;
          auto behind = places(theirs, regions[b].given);
          std::ranges::stable_sort(behind, {}, &Nodes::size);
          for (const Nodes& each : behind) {
            if (!take(each)) continue;
            flags.emplace();
            for (const int n : theirs) flags->push_back(each.contains(n));
          }
        }
        if (best) found.push_back(std::move(*best));
      }
    }
    keep(std::move(found), options_.most_joined);
  }

  /// Of a product whose results several kernels read: what all of these compute of them first, the product's kernel
  /// computes once and stores in place of its results.
  void hoist() {
    std::vector<FusionPlan> found;
    std::map<std::vector<std::string>, bool> kinds;
    const auto& regions = partition_.regions;
    for (std::size_t a = 0; a < regions.size(); ++a) {
      if (regions[a].kernel.anchor != Anchor::contraction || !regions[a].before.empty()) continue;
      const std::vector<std::size_t> readers = readers_of(a);
      if (readers.size() < 2 || std::ranges::any_of(readers, [&](std::size_t r) { return !regions[r].before.empty(); }))
        continue;
      std::vector<std::string> kind{keys_[a]};
      for (const std::size_t r : readers) kind.push_back(keys_[r]);
      const auto known = kinds.find(kind);
      if (known == kinds.end() ? kinds.size() >= options_.most_tried : !known->second) continue;
      auto by = hoisted(a, readers);
      const bool good = by && seconds(*by) <= most_times * (seconds(regions[a]) + seconds(readers));
      kinds.try_emplace(std::move(kind), good);
      if (!good) continue;
      FusionPlan plan{{a}, std::move(*by), 0};
      plan.replaces.insert(plan.replaces.end(), readers.begin(), readers.end());
      std::ranges::sort(plan.replaces);
      found.push_back(std::move(plan));
    }
    keep(std::move(found), options_.most_joined);
  }

  /// A product that is computed twice and never stored: with each of two kernels that read it (a norm's statistics and
  /// what follows from them), or for what the one kernel behind it folds and once more for the rest.
  void repeat() {
    std::vector<FusionPlan> found;
    std::map<std::vector<std::string>, bool> kinds;
    const auto& regions = partition_.regions;
    for (std::size_t a = 0; a < regions.size(); ++a) {
      if (!is_product(a)) continue;
      const std::vector<std::size_t> readers = readers_of(a);
      if (readers.empty() || readers.size() > 2) continue;
      if (!std::ranges::all_of(readers, [&](std::size_t r) { return may_join_product(r); })) continue;
      std::vector<std::size_t> group{a};
      group.insert(group.end(), readers.begin(), readers.end());
      if (stores_results_for_others(a, group)) continue;
      std::vector<std::string> kind{keys_[a]};
      for (const std::size_t r : readers) kind.push_back(keys_[r]);
      const auto known = kinds.find(kind);
      if (known == kinds.end() ? kinds.size() >= options_.most_tried : !known->second) continue;
      auto by = readers.size() == 1 ? repeated(a, readers.front()) : with_each(a, readers);
      if (by) join_reader(*by, group);
      const bool good = by && seconds(*by) <= most_times * seconds(group);
      kinds.try_emplace(std::move(kind), good);
      if (!good) continue;
      std::ranges::sort(group);
      found.push_back({std::move(group), std::move(*by), 0});
    }
    keep(std::move(found), options_.most_joined);
  }

  std::vector<FusionPlan> result;

 private:
  /// Whether a region is one kernel of ours, which begins with a product; one that does not, which a product may take
  /// along.
  bool is_product(std::size_t r) const {
    return is_one_kernel(r) && partition_.regions[r].kernel.anchor == Anchor::contraction;
  }
  bool may_join_product(std::size_t r) const {
    return is_one_kernel(r) && partition_.regions[r].kernel.anchor != Anchor::contraction;
  }
  bool is_one_kernel(std::size_t r) const {
    return partition_.regions[r].before.empty() && !partition_.regions[r].library;
  }

  /// Whether what the product has become with more behind it is a product that gives values of one graph.
  bool stays_product(const Region& more) const {
    if (more.kernel.anchor != Anchor::contraction) return false;
    const auto local =
        std::ranges::count_if(more.outputs, [&](int v) { return static_cast<std::size_t>(v) >= options_.local; });
    return local == 0 || local == std::ssize(more.outputs);
  }

  /// How many times as long its sums take then: on a printed loop in place of the device file, or without tensor cores.
  double slowed(const Region& product, const Region& more) const {
    const TensorLoop before = tensor_loop(product.kernel, device_), after = tensor_loop(more.kernel, device_);
    if (after >= before) return 1;
    return after == TensorLoop::none ? std::numeric_limits<double>::infinity() : printed_times;
  }

  /// Whether all that a kernel stores is what rows are folded to.
  static bool folds_rows(const Kernel& kernel) {
    return kernel.anchor == Anchor::row && std::ranges::all_of(kernel.outputs, &Output::per_row);
  }

  /// Whether a kernel needs no element again once it knows what rows are folded to, though it may store what it folds.
  static bool only_folds(const Kernel& kernel) {
    if (kernel.anchor != Anchor::row && kernel.anchor != Anchor::row_and_column) return false;
    return std::ranges::all_of(kernel.outputs, [&](const Output& output) {
      if (output.per_row || output.per_column) return true;
      std::vector<int> open{output.node};
      while (!open.empty()) {
        const Node& node = kernel.nodes[static_cast<std::size_t>(open.back())];
        open.pop_back();
        if (node.op == Op::reduced) return false;
        open.insert(open.end(), node.args.begin(), node.args.end());
      }
      return true;
    });
  }

  static std::vector<int> stored_by(const Partition& partition) {
    std::vector<int> values;
    for (const Region& region : partition.regions)
      values.insert(values.end(), region.outputs.begin(), region.outputs.end());
    return values;
  }

  double seconds(const Region& region) const {
    return bytes_worth(cost(region), device_) / (device_.bandwidth_gbs * 1e9) +
           static_cast<double>(1 + region.before.size()) * device_.target->launch_seconds;
  }
  double seconds(const std::vector<Region>& regions) const {
    double total = 0;
    for (const Region& region : regions) total += seconds(region);
    return total;
  }

  /// Takes those over that may save the most, if they can stand in the whole: so many that do different things,
  /// wherever they do them.
  /// Their places in `found`.
  std::vector<std::size_t> keep(std::vector<FusionPlan> found, std::size_t most) {
    std::vector<std::size_t> kept;
    std::vector<std::pair<double, std::size_t>> rank;
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].seconds = seconds(found[i].by);
      double before = 0;
      for (const std::size_t r : found[i].replaces) before += seconds(partition_.regions[r]);
      rank.emplace_back(found[i].seconds - before, i);
    }
    std::ranges::sort(rank);
    std::set<std::string> kinds;
    for (const auto& [worse, i] : rank) {
      std::string kind;
      for (const std::size_t r : found[i].replaces) kind += keys_[r];
      for (const Region& region : found[i].by) kind += schedule_key(region);
      if (!kinds.contains(kind)) {
        if (kinds.size() >= most || !fuse_by(graph_, partition_, {&found[i]})) continue;
        kinds.insert(std::move(kind));
      }
      result.push_back(std::move(found[i]));
      kept.push_back(i);
    }
    return kept;
  }

  static Nodes picked(const Nodes& from, const std::vector<bool>& flags) {
    Nodes out;
    std::size_t i = 0;
    for (const int n : from) {
      if (flags[i++]) out.insert(n);
    }
    return out;
  }

  Nodes members(const Region& region) const {
    Nodes nodes;
    for (const int n : region.nodes) {
      if (!usage_.inlined[static_cast<std::size_t>(n)]) nodes.insert(n);
    }
    return nodes;
  }

  /// Readers of what a node makes, among these.
  Nodes readers(int node, const Nodes& among) const {
    Nodes found;
    for (const auto& out : graph_.nodes[static_cast<std::size_t>(node)].outs) {
      if (!out) continue;
      for (const int user : usage_.users[static_cast<std::size_t>(*out)]) {
        if (among.contains(user)) found.insert(user);
      }
    }
    return found;
  }

  /// All that follows from these, themselves included.
  Nodes closure(Nodes from, const Nodes& among) const {
    std::vector<int> todo(from.begin(), from.end());
    while (!todo.empty()) {
      const int n = todo.back();
      todo.pop_back();
      for (const int reader : readers(n, among)) {
        if (from.insert(reader).second) todo.push_back(reader);
      }
    }
    return from;
  }

  /// What may lie behind a cut: all that follows from a node's results, and parts that have nothing to do with the
  /// others. Results of rows first: that is where kernels have their seams.
  std::vector<Nodes> places(const Nodes& all, const std::vector<int>& given) const {
    std::vector<int> seams(all.begin(), all.end());
    std::stable_partition(seams.begin(), seams.end(), [&](int n) { return is_row(n, given); });
    std::vector<Nodes> found;
    const auto add = [&](Nodes behind) {
      if (behind.empty() || behind.size() == all.size() || found.size() >= options_.most_tried) return;
      if (std::ranges::find(found, behind) == found.end()) found.push_back(std::move(behind));
    };
    Nodes left = all;
    while (!left.empty()) {
      Nodes part = closure({*left.begin()}, all);
      // Followed both ways until nothing is added, it is a part that stands alone.
      for (std::size_t size = 0; size != part.size();) {
        size = part.size();
        for (const int n : all) {
          const Nodes next = readers(n, all);
          if (std::ranges::any_of(next, [&](int r) { return part.contains(r); })) part.insert(n);
        }
        part = closure(std::move(part), all);
      }
      for (const int n : part) left.erase(n);
      // Cutting off the first of them cuts off the others.
      if (!part.contains(*all.begin())) add(std::move(part));
    }
    for (const int n : seams) add(closure(readers(n, all), all));
    // Before a row: what it reads is stored.
    for (const int n : seams) {
      if (is_row(n, given)) add(closure({n}, all));
    }
    return found;
  }

  bool is_row(int node, const std::vector<int>& given) const {
    const OpClass c = classify(graph_.nodes[static_cast<std::size_t>(node)].op);
    return (c == OpClass::row || c == OpClass::scan) && !has_statistics(node, given);
  }

  /// Whether this is a norm that folds nothing, because its statistics are given.
  bool has_statistics(int node, const std::vector<int>& given) const {
    if (given.empty()) return false;
    const std::vector<int> needed = statistics_of(graph_, graph_.nodes[static_cast<std::size_t>(node)]);
    return !needed.empty() && std::ranges::all_of(needed, [&](int v) { return std::ranges::binary_search(given, v); });
  }

  /// Nothing where the device has no way to run it, too.
  std::optional<Region> lowered(const Nodes& nodes, const std::vector<int>& outputs,
                                const std::vector<int>& given) const {
    if (outputs.empty()) return std::nullopt;
    std::vector<bool> inside = usage_.inlined;
    for (const int n : nodes) inside[static_cast<std::size_t>(n)] = true;
    auto kernel = lower(graph_, inside, outputs, options_.limits, given);
    if (!kernel || !schedule_lacks(*kernel, device_).empty()) return std::nullopt;
    return region_of(graph_, usage_, nodes, std::move(*kernel), given);
  }

  /// Whether a value is made by one of these, or is a view of such.
  bool made_by(int value, const Nodes& nodes) const {
    const int producer = usage_.producers[static_cast<std::size_t>(value)];
    if (producer < 0) return false;
    if (!usage_.inlined[static_cast<std::size_t>(producer)]) return nodes.contains(producer);
    return std::ranges::any_of(usage_.sources(graph_, producer), [&](int v) {
      const int n = usage_.producers[static_cast<std::size_t>(v)];
      return n >= 0 && nodes.contains(n);
    });
  }

  std::optional<std::vector<Region>> split(const Region& region, const Nodes& all, const Nodes& behind) const {
    Nodes before;
    std::ranges::set_difference(all, behind, std::inserter(before, before.end()));
    auto stored = halves(region, before, behind, behind);
    // The reader makes pointwise values again from what is stored besides (or was given).
    Nodes again = behind;
    for (bool grown = true; grown;) {
      grown = false;
      for (const int n : before) {
        const OpClass c = classify(graph_.nodes[static_cast<std::size_t>(n)].op);
        if (again.contains(n) || (c != OpClass::pointwise && !has_statistics(n, region.given))) continue;
        if (readers(n, again).empty()) continue;
        grown = again.insert(n).second;
      }
    }
    if (again.size() == behind.size()) return stored;
    auto repeated = halves(region, before, again, behind);
    if (!stored || (repeated && seconds(*repeated) < seconds(*stored))) return repeated;
    return stored;
  }

  /// Adds to `outputs` what `first` makes and `second` reads, but does not make itself and was not given.
  void hand_on(const Nodes& first, const Nodes& second, const std::vector<int>& given,
               std::vector<int>& outputs) const {
    for (const int n : first) {
      if (second.contains(n)) continue;
      for (const auto& out : graph_.nodes[static_cast<std::size_t>(n)].outs) {
        if (!out || std::ranges::find(outputs, *out) != outputs.end()) continue;
        if (std::ranges::binary_search(given, *out)) continue;
        const auto& users = usage_.users[static_cast<std::size_t>(*out)];
        if (std::ranges::any_of(users, [&](int user) { return second.contains(user); })) outputs.push_back(*out);
      }
    }
  }

  /// `second` may hold nodes of `first`, and makes their values for itself; of the region's outputs those that
  /// `behind` makes are its own.
  std::optional<std::vector<Region>> halves(const Region& region, const Nodes& first, const Nodes& second,
                                            const Nodes& behind) const {
    std::vector<int> ours, theirs;
    for (const int v : region.outputs) (made_by(v, behind) ? theirs : ours).push_back(v);
    hand_on(first, second, region.given, ours);
    auto one = lowered(first, ours, region.given);
    if (!one) return std::nullopt;
    auto two = lowered(second, theirs, region.given);
    if (!two) return std::nullopt;
    return std::vector<Region>{std::move(*one), std::move(*two)};
  }

  /// By step of the order: the steps that it waits for, at first or second hand.
  void find_waits() {
    place_.resize(partition_.regions.size());
    for (std::size_t i = 0; i < partition_.order.size(); ++i) {
      const Item& item = partition_.order[i];
      const auto index = static_cast<std::size_t>(item.index);
      std::vector<bool>& before = waits_.emplace_back(partition_.order.size(), false);
      for (const int v : item.is_region ? partition_.regions[index].inputs : ir::reads(graph_.nodes[index])) {
        const auto from = makers_.find(v);
        if (from == makers_.end()) continue;
        before[from->second] = true;
        for (std::size_t s = 0; s < i; ++s) before[s] = before[s] || waits_[from->second][s];
      }
      if (item.is_region) {
        place_[index] = i;
        for (const int v : partition_.regions[index].outputs) makers_.emplace(v, i);
      } else {
        for (const auto& out : graph_.nodes[index].outs) {
          if (out) makers_.emplace(*out, i);
        }
      }
    }
  }

  /// Whether a step that makes one of these values waits for `region`.
  bool waits_for(const std::vector<int>& values, std::size_t region) const {
    return std::ranges::any_of(values, [&](int v) {
      const auto from = makers_.find(v);
      return from != makers_.end() && waits_[from->second][place_[region]];
    });
  }

  /// Whether some other step waits for `a`, and `b` for that one.
  bool waits_between(std::size_t a, std::size_t b) const {
    const std::vector<bool>& before = waits_[place_[b]];
    for (std::size_t s = 0; s < before.size(); ++s) {
      if (before[s] && waits_[s][place_[a]]) return true;
    }
    return false;
  }

  static std::int64_t points(const Region& region) {
    return region.kernel.outer_extent() * region.kernel.inner_extent();
  }

  /// What join() looks at, the most promising first.
  std::vector<std::vector<std::size_t>> groups() const {
    const auto& regions = partition_.regions;
    std::vector<std::vector<std::size_t>> neighbours, alike, all;
    std::vector<bool> grouped(regions.size(), false);
    for (std::size_t a = 0; a < regions.size(); ++a) {
      std::vector<std::size_t> apart{a};
      for (std::size_t b = a + 1; b < regions.size(); ++b) {
        if (waits_between(a, b) || waits_between(b, a)) continue;
        const bool near = waits_[place_[b]][place_[a]] || waits_[place_[a]][place_[b]];
        if (near) {
          neighbours.push_back({a, b});
        } else if (points(regions[a]) == points(regions[b])) {
          alike.push_back({a, b});
          if (std::ranges::all_of(apart, [&](std::size_t r) { return independent(r, b); })) apart.push_back(b);
        }
      }
      if (apart.size() < 3 || grouped[a]) continue;
      for (const std::size_t r : apart) grouped[r] = true;
      all.push_back(std::move(apart));
    }
    std::ranges::move(chains(), std::back_inserter(all));
    std::ranges::move(neighbours, std::back_inserter(all));
    std::ranges::move(alike, std::back_inserter(all));
    return all;
  }

  /// Whether a kernel has what a softmax needs: other rows between two products are no attention, and not tried.
  static bool is_softmax(const Kernel& kernel) {
    return std::ranges::find(kernel.reductions, ReduceKind::max, &Reduction::kind) != kernel.reductions.end() &&
           std::ranges::find(kernel.nodes, Op::exp, &Node::op) != kernel.nodes.end();
  }

  /// Two products with a softmax between them, and with the one kernel that reads the second: what attention is when
  /// it is written down.
  std::vector<std::vector<std::size_t>> chains() const {
    constexpr std::size_t most_between = 3;
    const auto& regions = partition_.regions;
    const auto is_product = [&](std::size_t r) { return regions[r].kernel.anchor == Anchor::contraction; };
    std::vector<std::vector<std::size_t>> found;
    for (std::size_t a = 0; a < regions.size(); ++a) {
      for (std::size_t b = 0; b < regions.size(); ++b) {
        if (!is_product(a) || !is_product(b) || !waits_[place_[b]][place_[a]]) continue;
        std::vector<std::size_t> chain{a};
        std::vector<std::size_t> readers;
        for (std::size_t r = 0; r < regions.size(); ++r) {
          if (r != a && r != b && waits_[place_[r]][place_[a]] && waits_[place_[b]][place_[r]]) chain.push_back(r);
          const auto& inputs = regions[r].inputs;
          if (std::ranges::find_first_of(inputs, regions[b].outputs) != inputs.end()) readers.push_back(r);
        }
        const bool folds = std::ranges::any_of(chain, [&](std::size_t r) { return is_softmax(regions[r].kernel); });
        if (!folds || chain.size() > 1 + most_between) continue;
        chain.push_back(b);
        std::ranges::sort(chain);
        found.push_back(chain);
        if (readers.size() != 1 || regions[readers[0]].kernel.has_rows()) continue;
        chain.push_back(readers[0]);
        std::ranges::sort(chain);
        found.push_back(std::move(chain));
      }
    }
    return found;
  }

  bool independent(std::size_t a, std::size_t b) const {
    return !waits_[place_[a]][place_[b]] && !waits_[place_[b]][place_[a]];
  }

  /// The kernels that read what this one stores, in the order in which they run.
  std::vector<std::size_t> readers_of(std::size_t region) const {
    const auto& regions = partition_.regions;
    std::vector<std::size_t> found;
    for (std::size_t r = 0; r < regions.size(); ++r) {
      if (r != region &&
          std::ranges::find_first_of(regions[r].inputs, regions[region].outputs) != regions[r].inputs.end())
        found.push_back(r);
    }
    std::ranges::sort(found, {}, [&](std::size_t r) { return place_[r]; });
    return found;
  }

  /// What all of `readers` compute element by element of what `region` makes, and of what none of them makes.
  Nodes shared_work(std::size_t region, const std::vector<std::size_t>& readers) const {
    Nodes common = members(partition_.regions[readers.front()]), theirs, shared;
    for (const std::size_t r : readers) {
      const Nodes nodes = members(partition_.regions[r]);
      std::erase_if(common, [&](int n) { return !nodes.contains(n); });
      theirs.insert(nodes.begin(), nodes.end());
    }
    const Nodes made = members(partition_.regions[region]);
    for (const int n : made) theirs.erase(n);
    for (const int n : common) {
      const ir::GraphNode& node = graph_.nodes[static_cast<std::size_t>(n)];
      const auto waits = [&](int v) {
        return std::ranges::any_of(theirs, [&](int m) { return !shared.contains(m) && made_by(v, {m}); });
      };
      if (made.contains(n) || classify(node.op) != OpClass::pointwise || std::ranges::any_of(ir::reads(node), waits))
        continue;
      shared.insert(n);
    }
    return shared;
  }

  std::optional<std::vector<Region>> hoisted(std::size_t region, const std::vector<std::size_t>& readers) const {
    const Nodes shared = shared_work(region, readers);
    if (shared.empty()) return std::nullopt;
    std::vector<std::size_t> group = readers;
    group.push_back(region);
    Nodes first = members(partition_.regions[region]), rest;
    first.insert(shared.begin(), shared.end());
    for (const std::size_t r : readers) {
      for (const int n : members(partition_.regions[r])) {
        if (!first.contains(n)) rest.insert(n);
      }
    }
    // What a reader gave out that the product's kernel makes now, that kernel gives out.
    std::vector<int> outputs;
    std::vector<std::vector<int>> left;
    const auto give_out = [&](int v) {
      if (needed_beside(v, group) && std::ranges::find(outputs, v) == outputs.end()) outputs.push_back(v);
    };
    std::ranges::for_each(partition_.regions[region].outputs, give_out);
    for (const std::size_t r : readers) {
      auto& own = left.emplace_back();
      for (const int v : partition_.regions[r].outputs) made_by(v, first) ? give_out(v) : own.push_back(v);
    }
    hand_on(first, rest, partition_.regions[region].given, outputs);
    std::vector<Region> by;
    auto whole = lowered(first, outputs, partition_.regions[region].given);
    if (!whole || !stays_product(*whole) || slowed(partition_.regions[region], *whole) > 1 ||
        waits_for(whole->inputs, region))
      return std::nullopt;
    by.push_back(std::move(*whole));
    for (std::size_t i = 0; i < readers.size(); ++i) {
      const Region& reader = partition_.regions[readers[i]];
      if (left[i].empty()) continue;
      Nodes nodes = members(reader);
      for (const int n : first) nodes.erase(n);
      auto one = lowered(nodes, left[i], reader.given);
      if (!one) return std::nullopt;
      by.push_back(std::move(*one));
    }
    return by;
  }

  double seconds(const std::vector<std::size_t>& group) const {
    double total = 0;
    for (const std::size_t r : group) total += seconds(partition_.regions[r]);
    return total;
  }

  std::int64_t elements(int value) const { return graph_.values[static_cast<std::size_t>(value)].elements(); }

  /// Of what a product's kernel stores, what is no fold of its results: all but what is much less than the most.
  bool is_result(std::size_t product, int value) const {
    std::int64_t most = 0;
    for (const int v : partition_.regions[product].outputs) most = std::max(most, elements(v));
    return elements(value) > most / 2;
  }

  bool stores_results_for_others(std::size_t product, const std::vector<std::size_t>& group) const {
    return std::ranges::any_of(partition_.regions[product].outputs,
                               [&](int v) { return is_result(product, v) && needed_beside(v, group); });
  }

  /// The product of `product` for what its results are folded to, and again for what `reader` makes of both.
  std::optional<std::vector<Region>> repeated(std::size_t product, std::size_t reader) const {
    const Region both = union_of({product, reader});
    const Nodes all = members(both);
    // What the product's kernel stores of folds already.
    std::vector<int> folds, rest;
    Nodes first = members(partition_.regions[product]);
    std::ranges::copy_if(partition_.regions[product].outputs, std::back_inserter(folds),
                         [&](int v) { return !is_result(product, v); });
    std::vector<int> given = both.given;
    if (folds.empty()) {
      // Or what its reader needs of them.
      const auto& outputs = partition_.regions[reader].kernel.outputs;
      for (const Output& output : outputs) (output.per_row || output.per_part ? folds : rest).push_back(output.value);
      if (rest.empty()) std::swap(folds, rest);  // all it stores is folded
      const auto statistics = statistics_between(graph_, usage_, all, both.given, rest, true);
      if (!statistics) return std::nullopt;
      for (const int v : statistics->values) {
        if (std::ranges::find(folds, v) == folds.end()) folds.push_back(v);
      }
      first = all;
      first.insert(statistics->nodes.begin(), statistics->nodes.end());
    } else {
      rest = partition_.regions[reader].outputs;
    }
    given.insert(given.end(), folds.begin(), folds.end());
    std::ranges::sort(given);
    auto one = lowered(first, folds, both.given);
    if (!one || one->kernel.anchor != Anchor::contraction) return std::nullopt;
    auto two = lowered(all, rest, given);
    if (!two || two->kernel.anchor != Anchor::contraction) return std::nullopt;
    return std::vector<Region>{std::move(*one), std::move(*two)};
  }

  /// The product with each of these, which need nothing of it from memory.
  std::optional<std::vector<Region>> with_each(std::size_t product, const std::vector<std::size_t>& readers) const {
    std::vector<std::size_t> all = readers;
    all.push_back(product);
    const Region& first = partition_.regions[product];
    if (std::ranges::any_of(first.outputs, [&](int v) { return needed_beside(v, all); })) return std::nullopt;
    std::vector<Region> by;
    for (const std::size_t r : readers) {
      const Region& reader = partition_.regions[r];
      Nodes nodes = members(reader);
      for (const int n : members(first)) nodes.insert(n);
      std::set<int> given(reader.given.begin(), reader.given.end());
      given.insert(first.given.begin(), first.given.end());
      for (const int v : first.outputs) given.erase(v);
      auto one = lowered(nodes, reader.outputs, {given.begin(), given.end()});
      if (!one || one->kernel.anchor != Anchor::contraction) return std::nullopt;
      by.push_back(std::move(*one));
    }
    return by;
  }

  /// Of a product computed twice, in place of the `group`: the one kernel that reads what they make joins the second,
  /// where it can.
  void join_reader(std::vector<Region>& twice, std::vector<std::size_t>& group) const {
    const std::vector<std::size_t> readers = readers_of(group.back());
    if (readers.size() != 1 || !may_join_product(readers.front())) return;
    const Region& reader = partition_.regions[readers.front()];
    std::vector<std::size_t> all = group;
    all.push_back(readers.front());
    const Region together = union_of(all);
    if (together.outputs != reader.outputs) return;
    std::set<int> given(together.given.begin(), together.given.end());
    given.insert(twice.front().outputs.begin(), twice.front().outputs.end());
    auto joined = lowered(members(together), together.outputs, {given.begin(), given.end()});
    if (!joined || joined->kernel.anchor != Anchor::contraction || seconds(*joined) > seconds(twice.back())) return;
    twice.back() = std::move(*joined);
    group = std::move(all);
  }

  /// What these make together, without a kernel: nodes, outputs and what is given.
  Region union_of(const std::vector<std::size_t>& group) const {
    Region all;
    Nodes nodes, given;
    for (const std::size_t r : group) {
      const Region& region = partition_.regions[r];
      nodes.insert(region.nodes.begin(), region.nodes.end());
      given.insert(region.given.begin(), region.given.end());
      for (const int v : region.outputs) {
        if (needed_beside(v, group)) all.outputs.push_back(v);
      }
    }
    // What one of them stores for another is made inside now.
    for (const std::size_t r : group) {
      for (const int v : partition_.regions[r].outputs) given.erase(v);
    }
    all.nodes.assign(nodes.begin(), nodes.end());
    all.given.assign(given.begin(), given.end());
    return all;
  }

  std::optional<Region> joined(const std::vector<std::size_t>& group) const {
    const Region all = union_of(group);
    return lowered(members(all), all.outputs, all.given);
  }

  bool needed_beside(int value, const std::vector<std::size_t>& group) const {
    if (read_elsewhere_.contains(value)) return true;
    for (std::size_t r = 0; r < partition_.regions.size(); ++r) {
      const auto& inputs = partition_.regions[r].inputs;
      if (std::ranges::find(group, r) == group.end() && std::ranges::find(inputs, value) != inputs.end()) return true;
    }
    return false;
  }

  const ir::Graph& graph_;
  const Partition& partition_;
  const Device& device_;
  const FusionOptions& options_;
  Usage usage_;
  std::vector<std::string> keys_;         ///< by region: equal ones are scheduled alike
  std::vector<std::vector<bool>> waits_;  ///< find_waits()
  std::vector<std::size_t> place_;        ///< by region: its place in the order
  std::map<int, std::size_t> makers_;     ///< by value: the place of the step that makes it
  /// By kernel and number of nodes: which of the nodes lie behind each cut that was kept.
  std::map<std::pair<std::string, std::size_t>, std::vector<std::vector<bool>>> cuts_;
  Nodes read_elsewhere_;  ///< values that must be in memory for others than kernels
};

}  // namespace

std::vector<FusionPlan> fusion_plans(const ir::Graph& graph, const Partition& partition, const Device& device,
                                     const FusionOptions& options) {
  FusionPlanner cutter(graph, partition, device, options);
  cutter.join();
  cutter.shift();
  cutter.hoist();
  cutter.repeat();
  for (std::size_t r = 0; r < partition.regions.size(); ++r) cutter.cut(r);
  return std::move(cutter.result);
}

Partition with_epilogues(const ir::Graph& graph, Partition partition, const Device& device,
                         const FusionOptions& options) {
  while (true) {
    FusionPlanner planner(graph, partition, device, options);
    std::vector<FusionPlan> found = planner.shared_epilogues();
    if (found.empty()) found = planner.epilogues();
    if (found.empty()) return partition;
    std::vector<const FusionPlan*> chosen;
    for (const FusionPlan& plan : found) chosen.push_back(&plan);
    auto all = fuse_by(graph, partition, chosen);
    // Two that wait for each other: those before them alone.
    while (!all && chosen.size() > 1) {
      chosen.resize(chosen.size() / 2);
      all = fuse_by(graph, partition, chosen);
    }
    if (!all) return partition;
    partition = std::move(*all);
  }
}

Result<Partition> rewritten_with_epilogues(const ir::Graph& graph, const Partition& base, const ir::Graph& rewritten,
                                           std::size_t local, const Device& device, const FusionOptions& options) {
  PartitionOptions cutting;
  cutting.limits = options.limits;
  PLANISH_TRY(const Partition apart, partition(rewritten, cutting));
  FusionOptions own = options;
  own.local = local;
  auto joined =
      partition_rewritten(graph, base, rewritten, local, with_epilogues(rewritten, apart, device, own), cutting);
  if (joined) return joined;
  PLANISH_TRY(Partition plain, partition_rewritten(graph, base, rewritten, local, apart, cutting));
  return with_epilogues(graph, std::move(plain), device, options);
}

Result<Partition> fuse_by(const ir::Graph& graph, const Partition& partition,
                          const std::vector<const FusionPlan*>& chosen) {
  std::vector<Region> regions;
  for (std::size_t r = 0; r < partition.regions.size(); ++r) {
    const bool replaced = std::ranges::any_of(
        chosen, [&](const FusionPlan* c) { return std::ranges::find(c->replaces, r) != c->replaces.end(); });
    if (!replaced) regions.push_back(partition.regions[r]);
  }
  for (const FusionPlan* one : chosen) regions.insert(regions.end(), one->by.begin(), one->by.end());
  return arrange(graph, std::move(regions));
}

}  // namespace planish::codegen
