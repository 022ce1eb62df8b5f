#include "codegen/emit/cuda_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ranges>
#include <tuple>
#include <utility>

#include "codegen/emit/cuda_down.h"
#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/cuda_pieces.h"
#include "codegen/emit/early_stores.h"

// Genes of the schedules that sweep, which of their combinations may be emitted, and good first guesses.
namespace planish::codegen::printing {
namespace {

constexpr std::int64_t most_unrolled_trips = 64;

int narrowest(const Kernel& kernel) {
  int bytes = 16;
  for (const auto& input : kernel.inputs) bytes = std::min(bytes, size_of(input.dtype));
  for (const auto& output : kernel.outputs) bytes = std::min(bytes, size_of(output.dtype));
  return std::max(1, bytes);
}

/// Where some elements are masked, their loads may be left out (1), and their arithmetic (2).
std::vector<std::int64_t> skips(const Kernel& kernel) {
  const auto needs = needed_when(kernel);
  const auto places = place(kernel);
  for (std::size_t i = 0; i < kernel.nodes.size(); ++i) {
    const bool swept = !kernel.has_rows() || places[i].inner;
    if (kernel.nodes[i].op != Op::load || !swept || needs[i].empty()) continue;
    if (kernel.has_rows() && vector_predicate(kernel, needs)) return {0, 1, 2};
    return {0, 1};
  }
  return {0};
}

}  // namespace

std::vector<Gene> sweep_genes(const Kernel& kernel, std::int64_t least_threads, const std::vector<std::int64_t>& fast) {
  std::vector<Gene> out;
  const int wide_element = widest(kernel);
  out.push_back({"threads", doublings(least_threads, 1024)});
  // Up to two 16-byte accesses where a narrower type lies beside the widest.
  const std::int64_t most = narrowest(kernel) < wide_element ? 32 : 16;
  out.push_back({"vector", doublings(std::max(4, wide_element), most)});
  out.push_back({"unroll", {1, 2, 4, 8}});
  // Of loads and of stores; a kernel may have none of the latter.
  out.push_back(
      {"hints", writes_elements(kernel) ? std::vector<std::int64_t>{0, 1, 2, 3} : std::vector<std::int64_t>{0, 1}});
  out.push_back({"fast", fast});
  out.push_back({"predication", skips(kernel)});
  return out;
}

std::string sweep_illegal(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome) {
  const std::int64_t threads = gene(genome, "threads", 256);
  const std::int64_t rows = gene(genome, "rows", 1);
  const std::int64_t cluster = gene(genome, "cluster", 1);
  if (rows > threads) return "more rows a block than threads";
  if (cluster > 1 && rows > 1) return "a cluster shares one row";
  if (cluster > device.max_cluster) return "the cluster is larger than the device allows";

  const std::int64_t tile = gene(genome, "tile", 0);
  if (tile != 0) {
    // Decisions that a tile takes over must be at their first choice, so that equal code has one genome.
    if (gene(genome, "persistent", 0) != 0 || gene(genome, "unroll", 1) != 1)
      return "a tile decides unrolling and grid itself";
    if (gene(genome, "vector", 4) != std::max(4, facts.widest)) return "a tile moves single elements";
    if (threads < tile || tile * tile / threads > 16) return "the tile does not fit the threads";
  }
  const CudaPlan plan = make_plan(kernel, facts, device, genome);
  if (auto reason = pieces_illegal(kernel, plan); !reason.empty()) return reason;
  if (gene(genome, "down", 1) > 1) {
    if (plan.down == 1) return "no rows to share";
    if (tile != 0) return "a tile has rows of its own";
    if (plan.lanes.mode != Lanes::Mode::along) return "a vector would lie in two rows";
  }
  if (gene(genome, "stencil_reuse", 0) != 0 && plan.strips.empty()) return "no loads lie beside each other";
  if (plan.grid > 2147483647) return "the grid is too large";
  if (plan.row && (plan.vectors + plan.across * plan.cluster) * plan.width > 1073741824)
    return "rows are too long for 32-bit positions";
  if (plan.row && plan.across > 32 &&
      static_cast<std::int64_t>(plan.across) * cluster >= 2 * power_of_two_above(plan.vectors)) {
    return "half of the threads would idle";
  }
  if (plan.row && plan.trips < plan.unroll / 2) return "unrolled beyond the work of a thread";
  if (plan.row && gene(genome, "residency", 0) != 0) {
    if (plan.resident.empty()) return "nothing is read twice";
    if (plan.residency == Residency::registers && plan.trips > most_unrolled_trips)
      return "too much of the row for one thread's registers";
  }
  if (!plan.asked.empty() && (plan.persistent_rows != 0 || plan.stages != 0))
    return "a mask in memory is looked at before what it masks is asked for";
  if (plan.persistent_rows != 0) {
    if (plan.residency != Residency::shared) return "walking refills shared memory";
    if (plan.trips > longest_chain) return "too many portions of a row to walk";
    if (plan.groups < plan.persistent_rows * 2) return "too few rows to walk";
  }
  if (plan.partial_residency) {
    if (plan.residency != Residency::shared || plan.persistent_rows != 0 || plan.stages != 0)
      return "a part of a row is kept in the shared memory of a block that does one row";
    if (plan.kept_trips == 0 || plan.kept_trips >= plan.trips) return "none or all of the row fits on chip";
    if (plan.trips > longest_chain) return "too many portions of a row to keep some";
  }
  if (plan.reverse && plan.residency != Residency::reread && !plan.partial_residency)
    return "only rows that are read again are read backwards";
  if (plan.realign && !lies_across(kernel, device, gene(genome, "vector", 4))) return "no load lies across vectors";
  if (gene(genome, "lines", 0) != 0 && (plan.stages != 0 || !plan.shifted || plan.grain == plan.width))
    return "rows begin at lines as they are, or vectors do not";
  if (plan.realign && plan.stages != 0) return "the copy engine brings rows as they lie";
  if (plan.push && plan.cluster == 1) return "a block alone exchanges nothing";
  if (plan.operand_residency && plan.stages == 0) return "only persistent blocks hold what rows share";
  if (plan.stages != 0) {
    if (plan.residency != Residency::shared || plan.persistent_rows != 0)
      return "stages lie in shared memory and walk themselves";
    if (plan.groups < 2 * (plan.grid / plan.cluster)) return "too few rows for persistent blocks";
    if (plan.chunk * (cluster - 1) >= plan.vectors) return "a block of the cluster would have no part of the row";
  }
  if (plan.static_shared > static_shared_limit) return "reductions need too much shared memory";
  const std::int64_t shared = plan.dynamic_shared + plan.static_shared;
  if (shared > device.shared_bytes)
    return fmt::format("{} bytes of shared memory, the device has {}", shared, device.shared_bytes);
  const int wanted = plan.residency == Residency::registers ? plan.least : plan.registers;
  return does_not_hold(device, plan.min_blocks, threads, shared, wanted);
}

namespace {

struct Scored {
  double microseconds = 0;
  Genome genome;
};

/// Roofline with the effects that decide among schedules: bytes in flight, re-reading, waves, and a row's
/// synchronisation.
double predicted(const Kernel& whole, const PlanFacts& facts, const Device& device, const Genome& genome) {
  const CudaPlan plan = make_plan(whole, facts, device, genome);
  const Stepped* const stepped = facts.stepped(whole, genome);
  const Kernel& kernel = stepped != nullptr ? stepped->kernel : whole;
  const double sms = device.sms;
  // What stays in registers does so; the compiler makes room for the rest by loading it later.
  const int registers = plan.residency == Residency::registers ? plan.least + 8 : plan.registers;
  const double cap = static_cast<double>(registers_per_sm) / (std::max(24, (registers + 7) / 8 * 8) * plan.threads);
  double resident_blocks =
      std::min({32.0, 2048.0 / plan.threads, std::max(1.0, static_cast<double>(static_cast<int>(cap)))});
  const std::int64_t shared = plan.dynamic_shared + plan.static_shared;
  resident_blocks = std::min(resident_blocks, static_cast<double>((device.shared_bytes + block_overhead_bytes) /
                                                                  (shared + block_overhead_bytes)));

  double once = 0;    // bytes of loads that are not kept, a point, a sweep
  double kept = 0;    // bytes of resident loads, a point
  double flying = 0;  // bytes a thread asks for before it waits
  const double points = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
  const auto distinct = [&](int id) {
    const auto& input = kernel.inputs[static_cast<std::size_t>(kernel.nodes[static_cast<std::size_t>(id)].input)];
    return std::min<double>(plan.down, static_cast<double>(input.storage_elements) / points) * size_of(input.dtype);
  };
  double again = 0;  // bytes read a second time, a point
  std::vector<int> seen;
  for (const auto& sweep : plan.sweeps) {
    for (const int id : sweep) {
      if (!plan.swept[static_cast<std::size_t>(id)]) continue;
      const bool keep = std::ranges::find(plan.resident, id) != plan.resident.end();
      // Taps of a window read the same elements.
      const bool tap = !plan.row && std::ranges::any_of(seen, [&](int other) {
        return beside(kernel.nodes[static_cast<std::size_t>(other)], kernel.nodes[static_cast<std::size_t>(id)]);
      });
      if (std::ranges::find(seen, id) == seen.end()) {
        if (!tap) (keep ? kept : once) += distinct(id);
        flying += static_cast<double>(plan.vector_bytes(kernel, id)) *
                  static_cast<double>(keep ? plan.trips : std::min<std::int64_t>(plan.unroll, plan.trips));
        seen.push_back(id);
      } else if (!keep) {
        again += distinct(id);
      } else if (plan.kept_trips != 0) {
        again += distinct(id) * (1.0 - static_cast<double>(plan.kept_trips) / static_cast<double>(plan.trips));
      }
    }
  }
  double written = 0;
  for (const auto& output : kernel.outputs) {
    if (!output.per_row && !output.folded) written += size_of(output.dtype);
  }
  const double blocks = static_cast<double>(plan.grid);
  const double row_bytes =
      (once + again) * static_cast<double>(plan.length) * static_cast<double>(std::max(1, plan.rows)) / plan.cluster;
  const bool in_l2 = plan.row && row_bytes * resident_blocks * sms < 0.6 * static_cast<double>(device.l2_bytes);
  const double misses = in_l2 ? 0.4 : plan.reverse ? 0.8 : 1.0;
  const double bytes = points * (once + kept + written + again * misses);

  const double per_sm = std::min(resident_blocks, std::max(1.0, blocks / sms));
  const double in_flight = per_sm * plan.threads * flying;
  double efficiency = 1.0 - std::exp(-in_flight / 14000.0);
  // Warps to issue from while others wait at barriers; wide accesses; blocks that are worth their launch.
  efficiency *= std::min(1.0, std::sqrt(per_sm * plan.threads / 640.0));
  if (plan.width * widest(kernel) < 16 && plan.tile == 0) efficiency *= 0.95;
  if (plan.threads < 128) efficiency *= 0.94;
  if (plan.residency == Residency::shared) efficiency *= 0.98;
  if (plan.row && !plan.columns && plan.across * plan.width * widest(kernel) < 256) efficiency *= 0.85;
  if (plan.width * widest(kernel) > 16) efficiency *= 0.97;
  // Measured: blocks of a cluster wait for each other; then the next row had better be under way, but not otherwise.
  if (plan.cluster > 1 && plan.kept_trips == 0)
    efficiency *= plan.persistent_rows != 0 || plan.residency != Residency::shared ? 0.85 : 0.78;
  if (plan.cluster == 1 && plan.persistent_rows != 0) efficiency *= 0.92;
  // With one block a multiprocessor nothing is loaded while results are stored.
  if (plan.row && per_sm < 1.99) efficiency *= 0.8;
  // A transposed load without a tile moves a whole sector for each element.
  if (!plan.row && plan.tile == 0 && transposed_loads(kernel).first >= 0) efficiency *= 0.25;
  // Lanes of a warp side by side must cover whole sectors.
  if (plan.columns && plan.rows * plan.width * widest(kernel) < 128) efficiency *= 0.7;
  const double slots = sms * resident_blocks;
  const double waves = blocks / slots;
  const double used =
      waves < 1 ? std::min(1.0, blocks / sms) : waves / static_cast<double>(static_cast<std::int64_t>(waves + 0.999));
  const double idle =
      plan.row ? static_cast<double>(plan.trips) * plan.across * plan.cluster / static_cast<double>(plan.vectors) : 1.0;
  double microseconds =
      bytes / (device.bandwidth_gbs * 1e3 * efficiency * std::max(0.05, used)) * (1.0 + 0.15 * (idle - 1.0));
  // A block's own latency: launch, loads, barriers; hidden by the other resident blocks only in part.
  const double latency =
      1.2 + (plan.across > 32 ? 0.3 * phases(kernel) : 0.0) + (plan.cluster > 1 ? 0.8 * phases(kernel) : 0.0);
  microseconds += latency * std::max(1.0, waves) * (resident_blocks >= 2 ? 0.35 : 0.8);
  return microseconds;
}

/// What rows that are far apart share does not stay in the cache between them: let rows that share it run together.
std::int64_t preferred_raster(const Kernel& kernel, const Device& device) {
  const int outer = static_cast<int>(kernel.space.extents.size()) - kernel.inner;
  std::int64_t best = 0;
  double most = 0.25 * static_cast<double>(device.l2_bytes);
  for (const int v : shared_along(kernel)) {
    double bytes = 0;
    for (const auto& node : kernel.nodes) {
      if (node.op != Op::load || node.index.depends_on(v)) continue;
      bool own = false;
      for (int u = 0; u < outer; ++u) own = own || node.index.depends_on(u);
      const auto& input = kernel.inputs[static_cast<std::size_t>(node.input)];
      if (own) bytes += static_cast<double>(input.storage_elements) * size_of(input.dtype);
    }
    if (bytes > most) {
      most = bytes;
      best = v + 1;
    }
  }
  return best;
}

bool alike(const Genome& a, const Genome& b) {
  return differences(a, b) < 2 && gene(a, "residency", 0) == gene(b, "residency", 0) &&
         gene(a, "cluster", 1) == gene(b, "cluster", 1);
}

/// The best guesses: what the model can tell apart is enumerated and ranked, the rest follows from the kernel.
class SweepSeeds {
 public:
  SweepSeeds(const Kernel& kernel, const PlanFacts& facts, const Device& device, const std::vector<Gene>& all)
      : kernel_(kernel), facts_(facts), device_(device), all_(all), whole_(whole_vector()) {}

  std::vector<Genome> seeds() const {
    std::vector<Scored> scored = ranked();
    for (Scored& one : scored) leave_registers(one.genome);
    std::vector<Genome> out = varied(scored);
    add_without(out);
    return out;
  }

 private:
  /// True where what the kernel moves does not stay in the cache.
  bool streams() const {
    double moved = 0;
    for (const auto& input : kernel_.inputs)
      moved += static_cast<double>(input.storage_elements) * size_of(input.dtype);
    const double points = static_cast<double>(kernel_.outer_extent()) * static_cast<double>(kernel_.inner_extent());
    for (const auto& output : kernel_.outputs)
      moved += output.per_row || output.folded ? 0.0 : points * size_of(output.dtype);
    return moved > 0.5 * static_cast<double>(device_.l2_bytes);
  }

  /// Accesses that fall apart into single elements where vectors have so many bytes.
  std::ptrdiff_t apart(std::int64_t vector) const {
    const CudaPlan plan = make_plan(kernel_, facts_, device_, {{"vector", vector}});
    if (plan.width < 2) return std::numeric_limits<std::ptrdiff_t>::max();
    std::ptrdiff_t count = std::ranges::count(plan.stores, Access::Kind::elements, &Access::kind);
    for (std::size_t id = 0; id < plan.loads.size(); ++id)
      count += plan.swept[id] && plan.loads[id].kind == Access::Kind::elements ? 1 : 0;
    return count;
  }

  /// The widest vectors, of 16 bytes at most, of which the fewest fall apart: pieces of memory that are shorter (ten
  /// channels of each place) come whole where vectors are as narrow as what divides them.
  std::int64_t whole_vector() const {
    const auto& choices = find_gene(all_, "vector")->choices;
    std::int64_t best = std::min<std::int64_t>(16, choices.back());
    std::ptrdiff_t least = apart(best);
    for (const std::int64_t vector : choices | std::views::reverse) {
      if (vector >= best || least == 0) continue;
      if (const std::ptrdiff_t count = apart(vector); count < least) best = vector, least = count;
    }
    return best;
  }

  /// The values of a gene that are ranked.
  std::vector<std::int64_t> values_of(const Gene& one) const {
    const auto& all = one.choices;
    const auto is = [&](auto... names) { return ((one.name == std::string_view(names)) || ...); };
    // One chunk must be worth moving the running state.
    if (is("unroll") && !online_pairs(kernel_).empty()) return {2, 4, 1};
    if (is("unroll")) return {1, 2, 4};
    if (is("vector") && whole_ < std::min<std::int64_t>(16, all.back())) return {whole_};
    if (is("vector") && all.size() > 2 && transposed_loads(kernel_).first < 0) return {all.end() - 2, all.end()};
    if (is("threads") && all.front() == 32 && kernel_.inner_extent() > 1024) return {128, 256, 512, 1024};
    if (is("hints")) return {streams() && writes_elements(kernel_) ? 2 : 0};
    if (is("raster")) return {preferred_raster(kernel_, device_)};
    if (is("persistent_rows") && all.size() > 1) return {0, kernel_.inner_extent() > 16384 ? 4 : 16};
    // A row that even a cluster's shared memory does not hold.
    if (is("partial_residency") &&
        kernel_.inner_extent() * widest(kernel_) < device_.max_cluster * device_.shared_bytes)
      return {0};
    if (is("persistent", "min_blocks")) return {all.front()};
    if (is("fast", "online", "predication", "stencil_reuse", "lines")) return {all.back()};
    if (is("stages", "operand_residency", "exchange", "reverse", "realign")) return {0};
    if (in_cooperative(one.name) == InCooperative::own) return {0};
    return all;
  }

  std::vector<Genome> combinations() const {
    std::vector<Genome> out{{}};
    for (const Gene& one : all_) {
      const std::vector<std::int64_t> values = values_of(one);
      std::vector<Genome> extended;
      for (const Genome& genome : out) {
        for (const std::int64_t value : values) {
          Genome next = genome;
          next[one.name] = value;
          extended.push_back(std::move(next));
        }
      }
      out = std::move(extended);
    }
    return out;
  }

  /// Sets what goes with the genome's choices. False where these are of no use together.
  bool settle(Genome& genome, std::int64_t widest_vector) const {
    // Cheaper than a barrier of the whole cluster, which waits for all stores under way.
    if (gene(genome, "cluster", 1) > 1) genome["exchange"] = 1;
    if (gene(genome, "partial_residency", 0) != 0) genome["reverse"] = 1;
    if (gene(genome, "lines", 0) != 0 && !off_lines(kernel_, device_, gene(genome, "vector", 4))) genome["lines"] = 0;
    if (gene(genome, "stencil_reuse", 0) != 0 && make_plan(kernel_, facts_, device_, genome).strips.empty())
      genome["stencil_reuse"] = 0;
    if (gene(genome, "residency", 0) != in_registers) return true;
    // A row in registers is swept again for nothing; what it is worth is wide accesses.
    genome["online"] = 0;
    return gene(genome, "vector", 4) >= std::min<std::int64_t>(whole_, widest_vector);
  }

  std::vector<Scored> ranked() const {
    const std::int64_t widest_vector = find_gene(all_, "vector")->choices.back();
    std::vector<Scored> out;
    for (Genome& genome : combinations()) {
      if (!settle(genome, widest_vector) || !sweep_illegal(kernel_, facts_, device_, genome).empty()) continue;
      out.push_back({predicted(kernel_, facts_, device_, genome), std::move(genome)});
    }
    std::ranges::stable_sort(out, {}, &Scored::microseconds);
    return out;
  }

  /// Left alone, the compiler spends every register of a block alone on its multiprocessor on hoisting: asks for the
  /// blocks that the model counted on, with room for what its estimate misses.
  void leave_registers(Genome& genome) const {
    if (gene(genome, "residency", 0) != in_registers) return;
    const CudaPlan plan = make_plan(kernel_, facts_, device_, genome);
    for (const std::int64_t blocks : {8, 6, 4, 3, 2}) {
      if (blocks * plan.threads > 1536 || blocks * plan.threads * (plan.least + 2) > registers_per_sm) continue;
      genome["min_blocks"] = blocks;
      return;
    }
  }

  static std::vector<Genome> varied(const std::vector<Scored>& scored) {
    constexpr std::size_t most = 8, least = 4;
    std::vector<Genome> out;
    const auto take = [&](const Genome& genome, const auto& too_near) {
      if (std::ranges::none_of(out, [&](const Genome& other) { return too_near(other, genome); }))
        out.push_back(genome);
    };
    // One of each kind that the model does not find far worse: it is too coarse to tell them apart.
    const auto kind = [](const Genome& g) {
      return std::tuple(gene(g, "residency", 0), gene(g, "persistent_rows", 0) != 0, gene(g, "partial_residency", 0));
    };
    for (const Scored& one : scored) {
      if (one.microseconds > 1.3 * scored.front().microseconds) break;
      take(one.genome, [&](const Genome& a, const Genome& b) { return kind(a) == kind(b); });
    }
    for (const Scored& one : scored) {
      if (out.size() >= most) break;
      take(one.genome, alike);
    }
    for (const Scored& one : scored) {
      if (out.size() >= least) break;
      take(one.genome, std::equal_to<>());
    }
    return out;
  }

  /// The best again without what the model takes for granted: the measurement decides, or the accuracy gate.
  static void add_without(std::vector<Genome>& out) {
    if (out.empty()) return;
    const Genome best = out.front();
    for (const std::string_view name :
         {"fast", "online", "raster", "predication", "lines", "hints", "stencil_reuse", "down"}) {
      Genome without = best;
      const std::int64_t first = name == "down" ? 1 : 0;
      if (value_of(without, name, first) == first) continue;
      std::int64_t& value = without.find(name)->second;
      const bool graded = name == "predication" || name == "fast";
      if (graded && std::exchange(value, 1) == 2) out.push_back(without);
      value = first;
      out.push_back(std::move(without));
    }
  }

  static constexpr auto in_registers = static_cast<std::int64_t>(Residency::registers);
  const Kernel& kernel_;
  const PlanFacts& facts_;
  const Device& device_;
  const std::vector<Gene>& all_;
  const std::int64_t whole_;
};

}  // namespace

std::vector<Genome> sweep_seeds(const Kernel& kernel, const PlanFacts& facts, const Device& device,
                                const std::vector<Gene>& all) {
  return SweepSeeds(kernel, facts, device, all).seeds();
}

}  // namespace planish::codegen::printing
