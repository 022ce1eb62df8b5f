#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <utility>

#include "codegen/emit/cuda_limits.h"
#include "codegen/emit/cuda_pieces.h"
#include "codegen/emit/early_stores.h"
#include "codegen/templates/column/cuda_column_plan.h"

// Genes of the column schedule, which of their combinations may be emitted, and good first guesses.
namespace planish::codegen::printing {
namespace {

constexpr std::int64_t least_threads = 64;
constexpr std::int64_t most_kept_trips = 64;
constexpr std::int64_t most_slices = 4096;

/// True where some load serves two sweeps.
bool keeps_something(const Kernel& kernel, const Device& device) {
  return !make_column_plan(kernel, device, {{"residency", 1}, {"threads", 128}, {"split", 8}}).base.resident.empty();
}

/// Bytes that several sweeps read of one row, or of as many columns as one block takes at least; 0 where none are.
std::int64_t kept_bytes(const Kernel& kernel, const Device& device) {
  const ColumnPlan plan = make_column_plan(kernel, device, {{"residency", 1}, {"threads", 128}, {"split", 8}});
  std::int64_t element = 0;
  for (const int id : plan.base.resident) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    element += size_of(kernel.inputs[static_cast<std::size_t>(node.input)].dtype);
  }
  return element * kernel.inner_extent() * (plan.base.columns ? 8 : 1);
}

/// Rows that a block alone is too small for, though all multiprocessors and the cache hold some.
bool suits_cooperative(const Kernel& kernel, const Device& device) {
  if (kernel.anchor != Anchor::row || kernel.outer_extent() < 2) return false;
  const std::int64_t bytes = kept_bytes(kernel, device);
  return bytes > 2 * device.shared_bytes && bytes < device.sms * device.shared_bytes + device.l2_bytes / 2;
}

}  // namespace

std::vector<Gene> cooperative_genes(const Kernel& kernel, const Device& device) {
  if (!suits_cooperative(kernel, device)) return {};
  std::vector<std::int64_t> sizes{0};
  for (const std::int64_t parts : {12, 6, 4, 3, 2, 1}) {
    if (device.sms / parts > std::max<std::int64_t>(1, sizes.back())) sizes.push_back(device.sms / parts);
  }
  for (const std::int64_t blocks : {2, 3, 4}) sizes.push_back(blocks * device.sms);
  return {{"cooperative", sizes},
          {"pipeline_depth", {0, 1, 2}},
          {"prefetch", {0, 1, 2, 4, 8}},
          {"register_residency", {0, 1}}};
}

std::vector<Gene> column_genes(const Kernel& kernel, const Device& device) {
  std::vector<Gene> out;
  const int wide = widest(kernel);
  const std::int64_t length = kernel.inner_extent();
  out.push_back({"threads", doublings(least_threads, 1024)});
  out.push_back({"vector", doublings(std::max(4, wide), narrowest_moved(kernel) < wide ? 32 : 16)});
  out.push_back({"unroll", doublings(1, 16)});
  // Of loads and of stores; a kernel may have none of the latter.
  out.push_back(
      {"hints", writes_elements(kernel) ? std::vector<std::int64_t>{0, 1, 2, 3} : std::vector<std::int64_t>{0, 1}});
  out.push_back({"fast", either(fast_matters(kernel))});
  out.push_back({"min_blocks", {1, 2, 3, 4, 6, 8}});
  // Threads of a block that share the reduced extent, and blocks that do.
  out.push_back({"split", doublings(1, std::min<std::int64_t>(1024, power_of_two_above(length)))});
  out.push_back({"grid_split", doublings(1, std::clamp<std::int64_t>(length / 64, 1, most_slices))});
  out.push_back(
      {"online", online_pairs(kernel).empty() ? std::vector<std::int64_t>{0} : std::vector<std::int64_t>{0, 1}});
  out.push_back({"residency",
                 keeps_something(kernel, device) ? std::vector<std::int64_t>{0, 1, 2} : std::vector<std::int64_t>{0}});
  out.push_back({"reverse", stores_last(kernel) && keeps_something(kernel, device) ? std::vector<std::int64_t>{0, 1}
                                                                                   : std::vector<std::int64_t>{0}});
  std::ranges::move(cooperative_genes(kernel, device), std::back_inserter(out));
  return out;
}

namespace {

std::string cooperative_illegal(const ColumnPlan& plan, const Device& device, const Genome& genome) {
  const std::int64_t team = gene(genome, "cooperative", 0);
  const std::int64_t ahead = gene(genome, "pipeline_depth", 0), prefetch = gene(genome, "prefetch", 0);
  const std::int64_t rest = gene(genome, "register_residency", 0);
  if (team == 0) return ahead != 0 || prefetch != 0 || rest != 0 ? "only teams begin with a row ahead" : "";
  if (ahead != 0 && (prefetch != 0 || rest != 0)) return "with a row ahead nothing waits for memory";
  if (prefetch != 0 && (plan.base.columns || plan.base.resident.empty())) return "no slice to ask for";
  if (rest != 0 && (plan.base.columns || plan.held_trips == 0)) return "nothing is left over of a slice";
  const CudaPlan& base = plan.base;
  if (gene(genome, "grid_split", 1) != 1) return "slices of a row are a team's, or a launch's of their own";
  if (base.groups < 2) return "one row alone needs no team";
  if (!base.columns && (base.rows != 1 || base.threads < 32)) return "a team does one row at a time";
  if (team > std::int64_t{device.sms} * base.min_blocks || plan.teams < 1)
    return "more blocks than run at the same time would wait for each other";
  if (plan.slices < 2 || plan.slices < team * 7 / 8) return "blocks of the team would have no part of the row";
  if (plan.slice_length < base.across) return "a slice is shorter than its threads";
  if (plan.ahead > 0) {
    if (plan.sweeps != 1 || !plan.stores) return "only rows of one fold that are written have another ahead";
    if (base.residency == Residency::registers) return "registers hold one slice";
    if (base.residency == Residency::reread && plan.ahead > 1) return "rows further ahead wait on chip";
  }
  if (base.residency == Residency::shared) {
    if (plan.kept_trips == 0) return "nothing of a slice fits on chip";
    if (base.trips > longest_chain) return "too many portions of a slice to keep";
  }
  const std::int64_t comings = (base.groups / plan.teams + 2) * plan.sweeps * plan.slices;
  return comings > 2147483647 ? "more comings than a counter counts" : "";
}

}  // namespace

std::string column_illegal(const Kernel& kernel, const Device& device, const Genome& genome) {
  const std::int64_t threads = gene(genome, "threads", 256), split = gene(genome, "split", 1);
  if (split > threads) return "more threads share the reduced extent than a block has";
  const std::int64_t slices = gene(genome, "grid_split", 1), residency = gene(genome, "residency", 0);
  if (slices > 1 && residency != 0) return "nothing stays on chip between the launches of a sliced reduction";
  if (gene(genome, "reverse", 0) != 0 && residency != 0) return "only rows that are read again are read backwards";
  const ColumnPlan plan = make_column_plan(kernel, device, genome);
  const CudaPlan& base = plan.base;
  if (auto reason = pieces_illegal(kernel, base); !reason.empty()) return reason;
  if (const auto reason = cooperative_illegal(plan, device, genome); !reason.empty()) return reason;
  if (base.grid > 2147483647) return "the grid is too large";
  if (base.vectors + static_cast<std::int64_t>(base.across) * base.unroll > 2147483647 || base.length > 4294967295)
    return "the reduced extent is too long for 32-bit positions";
  const std::int64_t columns = base.columns ? kernel.outer_extent() / base.width : kernel.outer_extent();
  // The smallest block may have more threads than there are rows: tiny kernels have no other.
  if (threads > least_threads && base.rows >= 2 * power_of_two_above(columns))
    return "half of the threads would have no row";
  if (base.columns && base.rows * base.width < std::min<std::int64_t>(8, kernel.outer_extent()))
    return "fewer than 8 columns a block";
  if (base.across >= 2 * power_of_two_above(plan.slice_length)) return "half of the threads would idle";
  if (slices > 1 && plan.slice_length < base.across) return "a slice is shorter than its threads";
  if (plan.scratch_bytes > (std::int64_t{1} << 31)) return "partial results would need over 2 GB";
  if (base.trips < base.unroll / 2) return "unrolled beyond the work of a thread";
  if (residency != 0 && base.resident.empty()) return "nothing is read twice";
  if (base.residency == Residency::registers && base.trips > most_kept_trips)
    return "too much of the row for one thread's registers";
  if (plan.meeting_bytes > static_shared_limit) return "the threads' states do not fit where they meet";
  const std::int64_t shared = base.dynamic_shared + plan.meeting_shared();
  if (shared > device.shared_bytes)
    return fmt::format("{} bytes of shared memory, the device has {}", shared, device.shared_bytes);
  const std::int64_t blocks = base.min_blocks, beside = plan.block_threads();
  if (beside > 1024) return "no room for the warp that meets the team";
  // What blocks take is rounded up. A multiprocessor holds 32 of them, and 64 of their barriers: a block has one.
  const std::int64_t taken = (shared + block_overhead_bytes + shared_unit - 1) / shared_unit * shared_unit;
  if (blocks * taken > device.shared_bytes + block_overhead_bytes)
    return "shared memory for fewer blocks than asked for";
  if (blocks * beside > 2048) return "more threads than a multiprocessor holds";
  // A multiprocessor has four parts, each with its own registers: an odd warp takes one of them more.
  const std::int64_t held = plan.scouts() ? (blocks * beside + 127) / 128 * 128 : blocks * threads;
  const std::int64_t cap = std::min<std::int64_t>(255, registers_per_sm / held / 8 * 8);
  int wanted = base.residency == Residency::registers ? base.least : base.registers;
  // The estimate is up to a third above what a team's kernel takes, and warps are what hides a team's waits.
  if (plan.teams != 0) wanted = wanted * 3 / 4;
  if (wanted > cap) return fmt::format("about {} registers a thread, {} are there", wanted, cap);
  return {};
}

namespace {

struct Guess {
  double microseconds = 0;
  Genome genome;
};

/// Roofline with what decides among these schedules: bytes in flight, what is read again, full waves, whole memory
/// lines, and the launches that a sliced reduction adds.
double expected(const Kernel& kernel, const Device& device, const Genome& genome) {
  const ColumnPlan plan = make_column_plan(kernel, device, genome);
  const CudaPlan& base = plan.base;
  const double sms = device.sms,
               points = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
  const double by_registers =
      std::floor(static_cast<double>(registers_per_sm) / (std::max(24, (base.registers + 7) / 8 * 8) * base.threads));
  const std::int64_t shared = base.dynamic_shared + plan.meeting_bytes;
  const double resident =
      std::min({32.0, std::floor(2048.0 / base.threads), std::max(1.0, by_registers),
                static_cast<double>((device.shared_bytes + block_overhead_bytes) / (shared + block_overhead_bytes))});
  const auto element = [&](int id) {
    const auto& input = kernel.inputs[static_cast<std::size_t>(kernel.nodes[static_cast<std::size_t>(id)].input)];
    return std::min(1.0, static_cast<double>(input.storage_elements) / points) * size_of(input.dtype);
  };
  double fresh = 0, again = 0, flying = 0;
  std::vector<int> seen;
  for (const auto& sweep : base.sweeps) {
    double now = 0;
    for (const int id : sweep) {
      if (!base.swept[static_cast<std::size_t>(id)]) continue;
      const bool kept = std::ranges::find(base.resident, id) != base.resident.end();
      const bool first = std::ranges::find(seen, id) == seen.end();
      if (first) seen.push_back(id);
      if (first) {
        fresh += element(id);
      } else if (!kept) {
        again += element(id);
      }
      if (first || !kept)
        now += static_cast<double>(base.vector_bytes(kernel, id)) *
               static_cast<double>(kept ? base.trips : std::min<std::int64_t>(base.unroll, base.trips));
    }
    if (now > 0) flying = flying == 0 ? now : std::min(flying, now);
  }
  double written = 0;
  for (const auto& output : kernel.outputs) {
    if (!output.per_row && !output.folded) written += size_of(output.dtype);
  }
  const double blocks = static_cast<double>(base.grid);
  const double footprint = (fresh + again) * static_cast<double>(kernel.inner_extent()) *
                           static_cast<double>(base.rows * (base.columns ? base.width : 1)) *
                           std::min(resident * sms, blocks);
  const bool in_l2 = plan.slices == 1 && footprint < 0.6 * static_cast<double>(device.l2_bytes);
  const double bytes = points * (fresh + written + again * (in_l2 ? 0.4 : 1.0)) +
                       3.0 * static_cast<double>(plan.slices > 1 ? plan.scratch_bytes : 0);
  const double per_sm = std::min(resident, std::max(1.0, blocks / sms));
  double efficiency = 1.0 - std::exp(-per_sm * base.threads * flying / 14000.0);
  efficiency *= std::min(1.0, std::sqrt(per_sm * base.threads / 640.0));
  if (base.width * widest(kernel) < 16) efficiency *= 0.95;
  // Threads side by side must cover whole lines, unless what is behind them in memory is another thread's.
  const double run = base.columns ? static_cast<double>(base.rows) * base.width * widest(kernel)
                                  : static_cast<double>(base.across) * base.width * widest(kernel);
  if (run < 128 && (!base.columns || base.rows * base.width < kernel.outer_extent())) efficiency *= 0.75;
  if (base.residency != Residency::reread && per_sm < 1.99) efficiency *= 0.8;
  const double waves = blocks / (sms * resident);
  // Multiprocessors are not equally far from memory: with one wave the last ones are waited for.
  if (waves < 2) efficiency *= 0.96;
  const double used = waves < 1 ? std::min(1.0, blocks / sms) : waves / std::ceil(waves);
  double microseconds = bytes / (device.bandwidth_gbs * 1e3 * efficiency * std::max(0.02, used));
  const double meeting = 0.2 * std::log2(static_cast<double>(std::max(2, base.across)));
  microseconds += (1.2 + meeting * plan.sweeps) * std::max(1.0, waves) * (resident >= 2 ? 0.35 : 0.8);
  if (plan.slices > 1) {
    const double gathered = static_cast<double>(plan.slices) / std::max(1, base.across);
    microseconds += plan.sweeps * (2.0 + 0.15 * gathered);
  }
  return microseconds;
}

/// A team's time: what its multiprocessors move, or a row's own chain of folding, meeting and writing, whichever is
/// longer. Blocks of other teams on the same multiprocessor and rows ahead fill the waits.
double expected_cooperative(const Kernel& kernel, const Device& device, const Genome& genome) {
  const ColumnPlan plan = make_column_plan(kernel, device, genome);
  const CudaPlan& base = plan.base;
  double element = 0, again = 0;
  std::vector<int> seen;
  for (const auto& sweep : base.sweeps) {
    for (const int id : sweep) {
      if (!base.swept[static_cast<std::size_t>(id)]) continue;
      const Place& place = base.places[static_cast<std::size_t>(id)];
      const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
      const auto& input = kernel.inputs[static_cast<std::size_t>(node.input)];
      const double points = static_cast<double>(kernel.outer_extent()) * static_cast<double>(kernel.inner_extent());
      const double bytes = std::min(1.0, static_cast<double>(input.storage_elements) / points) * size_of(input.dtype);
      const bool first = std::ranges::find(seen, id) == seen.end();
      const bool kept = std::ranges::find(base.resident, id) != base.resident.end();
      const double left = base.residency != Residency::shared || base.trips == 0 || plan.held_trips != 0
                              ? 0.0
                              : 1.0 - static_cast<double>(plan.kept_trips) / static_cast<double>(base.trips);
      if (first) {
        element += bytes;
      } else if (place.inner) {
        again += bytes * (kept ? left : 1.0);
      }
      seen.push_back(id);
    }
  }
  const double read = element;
  for (const auto& output : kernel.outputs) element += output.per_row || output.folded ? 0 : size_of(output.dtype);
  const double row =
      static_cast<double>(kernel.inner_extent()) * static_cast<double>(base.rows) * (base.columns ? base.width : 1);
  // What several sweeps read comes from the cache again while all that teams have in hand fits there.
  const double in_hand = row * read * static_cast<double>(plan.teams) * (plan.ahead > 0 ? 2.0 : 1.0);
  const double far = base.residency == Residency::shared ? again / std::max(read, 1e-9) : 1.0;
  element += again * (in_hand * far < 0.5 * static_cast<double>(device.l2_bytes) ? 0.3 : 1.0);
  const double sm_rate = device.bandwidth_gbs * 1e3 / device.sms;  // bytes a microsecond
  const double slice = row * element / static_cast<double>(plan.slices);
  const double blocks = static_cast<double>(base.grid) / device.sms;
  // What others wait for: leaving, arriving, looking and gathering. A scout does it beside the rows' work; several
  // teams a multiprocessor, or in turn, have the memory busy meanwhile; one team alone stands still. Guessed from
  // latencies.
  const double meeting_time = plan.ahead > 0 ? 0.3 : plan.touched_trips > 0 ? 1.5 : 2.5;
  const double chain = meeting_time * plan.sweeps + (base.residency == Residency::shared ? 0.0 : 1.0);
  const double busy = slice * std::max(1.0, blocks) / sm_rate;
  const double alone = plan.ahead > 0 || plan.teams > 1 ? chain + slice / (2.2 * sm_rate) : chain + busy;
  const double flying = base.residency == Residency::reread
                            ? std::max(1.0, blocks) * base.threads * base.unroll * base.width * widest(kernel)
                            : slice * std::max(1.0, blocks);
  const double efficiency = (1.0 - std::exp(-flying / 14000.0)) * (blocks < 0.97 ? blocks : 1.0) *
                            std::pow(std::min(1.0, std::max(1.0, blocks) * base.threads / 1024.0), 0.1);
  // Instructions, as counted in compiled loops: an element's share of both sweeps and of its chunk's joining, and what
  // a row costs each thread; of four a cycle 60 % are taken to be issued.
  constexpr double an_element = 12, a_chunk = 14, a_row = 130, issued = 128 * 0.6 * 1750;
  const double elements = row / static_cast<double>(plan.slices);
  const double work =
      elements * (an_element + (plan.pairs.empty() ? 0 : a_chunk / (base.unroll * base.width))) + a_row * base.threads;
  const double issue = work * std::max(1.0, blocks) / issued;
  const double rows = std::ceil(static_cast<double>(base.groups) / static_cast<double>(plan.teams));
  const double meeting = 0.003 * static_cast<double>(plan.slices);  // measured: 0.35 µs more for 132 blocks more
  return rows *
         (std::max({busy, alone, issue}) + meeting + 0.15 * std::min(busy, chain) + 0.1 * std::min(busy, issue)) /
         std::max(0.02, 0.95 * efficiency);
}

bool similar(const Genome& a, const Genome& b) {
  return differences(a, b) < 2 && gene(a, "residency", 0) == gene(b, "residency", 0);
}

}  // namespace

void add_cooperative_seeds(const Kernel& kernel, const Device& device, const Genome& common,
                           std::vector<Genome>& seeds) {
  const auto own = cooperative_genes(kernel, device);
  if (own.empty()) return;
  const auto& sizes = own.front().choices;
  const std::int64_t widest_vector = std::max<std::int64_t>(16, widest(kernel));
  const bool pairs = !online_pairs(kernel).empty();
  const bool columns = prefers_columns(kernel);
  const bool pieces = common.contains("grid_split");  // the column schedule's kernels, of which a row may lie in pieces
  std::vector<Guess> guesses;
  for (std::size_t s = 1; s < sizes.size(); ++s)
    for (const std::int64_t blocks : {1, 2, 3})
      for (const std::int64_t threads : {256, 512, 1024})
        for (const std::int64_t split : {threads, threads / 4, threads / 8})
          for (const std::int64_t residency : {2, 0, 1})
            for (const std::int64_t ahead : {0, 1, 2}) {
              if ((!columns && split != threads) || threads * blocks < 512) continue;
              Genome genome = common;
              genome["cooperative"] = sizes[s];
              genome["pipeline_depth"] = ahead;
              genome["threads"] = threads;
              genome["min_blocks"] = blocks;
              // Measured: warps hide a team's waits better than vectors under way in one thread; where a channel lies
              // in pieces, a thread needs a few short ones all the same.
              genome["vector"] = pieces && threads < 1024 ? widest_vector / 2 : widest_vector;
              genome["unroll"] = pieces ? (threads * blocks > 512 ? 2 : 4) : blocks == 1 ? 1 : 2;
              genome["residency"] = residency;
              // A row in registers is swept again for nothing; a meeting costs more than moving the running state.
              genome["online"] = pairs && residency != static_cast<std::int64_t>(Residency::registers) ? 1 : 0;
              if (pieces) {
                genome["grid_split"] = 1;
                genome["split"] = split;
              }
              // While the blocks meet, the cache may as well get half of what comes next.
              if (ahead == 0 && residency == static_cast<std::int64_t>(Residency::shared) && !columns) {
                genome["prefetch"] = 4;
                genome["register_residency"] = blocks == 1 ? 1 : 0;
                if (!column_illegal(kernel, device, genome).empty()) genome["register_residency"] = 0;
              }
              if (!column_illegal(kernel, device, genome).empty()) continue;
              guesses.push_back({expected_cooperative(kernel, device, genome), std::move(genome)});
            }
  std::ranges::stable_sort(guesses, {}, &Guess::microseconds);
  if (guesses.empty()) return;
  constexpr std::int64_t largest_cluster = 16;
  const std::int64_t bytes = kept_bytes(kernel, device);
  if (bytes <= largest_cluster * device.shared_bytes) {
    // Where one multiprocessor cannot keep a row, the other guesses read it twice or are clusters, of which few fit:
    // measured, 0.63 against 0.85 ms (docs/results/kernelbench-h200.md).
    const bool early = bytes > device.shared_bytes && !seeds.empty();
    seeds.insert(early ? seeds.begin() + 1 : seeds.end(), guesses.front().genome);
    return;
  }
  // The best, and the best that differ in what a team has begun with and in how many blocks a multiprocessor has: which
  // of them waits least is not known beforehand.
  constexpr std::size_t most = 6;
  std::vector<Genome> chosen;
  for (const Guess& one : guesses) {
    const std::int64_t ahead = gene(one.genome, "pipeline_depth", 0), blocks = gene(one.genome, "min_blocks", 1);
    const auto alike = std::ranges::count_if(chosen, [&](const Genome& other) {
      return gene(other, "pipeline_depth", 0) == ahead && (ahead > 0 || gene(other, "min_blocks", 1) == blocks);
    });
    const int alike_at_most = ahead == 0 && blocks == 1 ? 2 : 1;  // large blocks: the team's size matters most
    if (alike < alike_at_most && chosen.size() < most) chosen.push_back(one.genome);
  }
  seeds.insert(seeds.begin(), chosen.begin(), chosen.end());
}

namespace {

/// The best guesses for columns: schedules that the model ranks, and those of them that differ.
class ColumnSeeds {
 public:
  ColumnSeeds(const Kernel& kernel, const Device& device)
      : kernel_(kernel), device_(device), all_(column_genes(kernel, device)) {}

  std::vector<Genome> seeds() {
    std::vector<Genome> out = varied(ranked());
    if (out.empty()) return smallest();
    add_without(out);
    Genome common = out.front();
    common["reverse"] = 0;
    add_cooperative_seeds(kernel_, device_, common, out);
    return out;
  }

 private:
  const std::vector<std::int64_t>& choices(std::string_view name) const { return find_gene(all_, name)->choices; }
  bool legal(const Genome& genome) const { return column_illegal(kernel_, device_, genome).empty(); }

  /// What all schedules that are ranked have in common.
  Genome common() const {
    double moved = 0;
    for (const auto& input : kernel_.inputs)
      moved += static_cast<double>(input.storage_elements) * size_of(input.dtype);
    const bool streams = moved > 0.5 * static_cast<double>(device_.l2_bytes) && choices("hints").size() > 2;
    Genome out{{"hints", streams ? 2 : 0}, {"fast", choices("fast").back()},     {"min_blocks", 1}, {"grid_split", 1},
               {"residency", 0},           {"online", choices("online").back()}, {"reverse", 0}};
    for (const Gene& team : cooperative_genes(kernel_, device_)) out[team.name] = 0;
    return out;
  }

  std::vector<Guess> ranked() const {
    std::vector<std::int64_t> vectors = choices("vector");
    if (vectors.size() > 2) vectors.erase(vectors.begin(), vectors.end() - 2);
    std::vector<Guess> out;
    Genome genome = common();
    for (const std::int64_t threads : {128, 256, 512}) {
      for (const std::int64_t vector : vectors) {
        for (const std::int64_t split : choices("split")) {
          for (const std::int64_t unroll : {4, 8, 2, 1}) {
            genome["threads"] = threads;
            genome["vector"] = vector;
            genome["split"] = split;
            genome["unroll"] = unroll;
            consider_ways(genome, out);
          }
        }
      }
    }
    std::ranges::stable_sort(out, {}, &Guess::microseconds);
    return out;
  }

  void consider(Genome genome, std::vector<Guess>& guesses) const {
    if (legal(genome)) guesses.push_back({expected(kernel_, device_, genome), std::move(genome)});
  }

  /// Where the block's values may stay, and in how many slices it may take what is reduced.
  void consider_ways(const Genome& genome, std::vector<Guess>& guesses) const {
    const ColumnPlan whole = make_column_plan(kernel_, device_, genome);
    const CudaPlan& base = whole.base;
    if (base.rows >= 2 * power_of_two_above(kernel_.outer_extent() / (base.columns ? base.width : 1))) return;
    for (const std::int64_t residency : choices("residency")) {
      Genome kept = genome;
      kept["residency"] = residency;
      consider(std::move(kept), guesses);
    }
    // From one block a multiprocessor to several waves of what it holds.
    const std::int64_t held = std::max<std::int64_t>(1, 2048 / gene(genome, "threads", 1));
    for (const std::int64_t blocks : {std::int64_t{1}, std::int64_t{2}, held / 2, held, 2 * held}) {
      const std::int64_t wanted = device_.sms * blocks / std::max<std::int64_t>(1, base.groups);
      const auto slices =
          static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, wanted))));
      if (slices <= 1 || std::ranges::find(choices("grid_split"), slices) == choices("grid_split").end()) continue;
      Genome sliced = genome;
      sliced["grid_split"] = slices;
      consider(std::move(sliced), guesses);
    }
  }

  static std::vector<Genome> varied(const std::vector<Guess>& guesses) {
    constexpr std::size_t most = 6;
    std::vector<Genome> out;
    for (const Guess& one : guesses) {
      if (out.size() >= most) break;
      if (std::ranges::none_of(out, [&](const Genome& g) { return similar(g, one.genome); })) out.push_back(one.genome);
    }
    return out;
  }

  /// The best again without what the model takes for granted: the measurement decides, or the accuracy gate.
  void add_without(std::vector<Genome>& out) const {
    for (const char* name : {"fast", "online"}) {
      Genome without = out.front();
      if (value_of(without, name, 0) == 0) continue;
      without[name] = 0;
      if (legal(without)) out.push_back(std::move(without));
    }
  }

  /// For shapes that nothing ranked fits: the smallest block that is legal.
  std::vector<Genome> smallest() const {
    Genome genome;
    for (const Gene& one : all_) genome[one.name] = one.choices.front();
    for (const std::int64_t threads : choices("threads")) {
      for (const std::int64_t split : choices("split")) {
        genome["threads"] = threads;
        genome["split"] = split;
        if (legal(genome)) return {genome};
      }
    }
    return {};
  }

  const Kernel& kernel_;
  const Device& device_;
  const std::vector<Gene> all_;
};

}  // namespace

std::vector<Genome> column_seeds(const Kernel& kernel, const Device& device) {
  return ColumnSeeds(kernel, device).seeds();
}

}  // namespace planish::codegen::printing
