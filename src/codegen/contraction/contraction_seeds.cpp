// First guesses of contractions, ranked by a model of what bounds a tile.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction/genome_plan.h"

namespace planish::codegen {
namespace {

using contraction::Product;
using contraction::TilePlan;

constexpr std::int64_t in_registers = 3;  // of the gene `direct`

struct Tile {
  std::int64_t m, n, k, stages, blocks = 1, pingpong = 0;
};
using Tiles = std::vector<Tile>;

const Tiles split_tiles{{128, 128, 64, 3},   {128, 128, 32, 6},   {128, 112, 64, 3}, {128, 96, 64, 3}, {128, 64, 64, 4},
                        {64, 128, 64, 4},    {64, 64, 64, 6},     {128, 32, 64, 5},  {64, 32, 64, 8},  {64, 16, 64, 8},
                        {64, 128, 64, 2, 2}, {64, 128, 32, 4, 2}, {64, 64, 64, 3, 2}};
/// Of factors that are split on their way: a thread has registers for so many chunks.
const Tiles own_tiles{{128, 64, 64, 4}, {64, 128, 64, 4}, {128, 80, 64, 3}, {64, 64, 64, 6},
                      {128, 32, 64, 5}, {64, 32, 64, 8},  {64, 16, 64, 8},  {64, 32, 64, 4, 2}};
/// Where one is split in registers, of which those who multiply need some.
const Tiles register_tiles{{128, 128, 64, 3}, {128, 128, 32, 6}, {128, 112, 64, 3}, {128, 96, 64, 3},
                           {128, 64, 64, 4},  {64, 128, 64, 4},  {64, 64, 64, 6},   {128, 32, 64, 5},
                           {128, 16, 64, 6},  {64, 32, 64, 8},   {64, 16, 64, 8},   {64, 128, 32, 4, 2},
                           {64, 64, 64, 3, 2}};
const Tiles plain_tiles{{128, 256, 64, 4},      {192, 192, 64, 4},    {128, 192, 64, 5},      {128, 128, 64, 6},
                        {64, 256, 64, 5},       {64, 128, 64, 8},     {64, 64, 64, 8},        {64, 32, 64, 8},
                        {64, 16, 64, 8},        {64, 128, 64, 4, 2},  {64, 256, 64, 5, 1, 1}, {64, 192, 64, 5, 1, 1},
                        {64, 128, 64, 8, 1, 1}, {64, 64, 64, 8, 1, 1}};
/// Of the device file, as many stages as fit.
const Tiles file_tiles{{128, 256, 64, 8},      {256, 128, 64, 8},     {128, 224, 64, 8},       {128, 192, 64, 8},
                       {128, 160, 64, 8},      {128, 128, 64, 8},     {128, 64, 64, 8},        {192, 160, 64, 8},
                       {192, 128, 64, 8},      {64, 256, 64, 8},      {64, 128, 64, 8},        {64, 64, 64, 8},
                       {64, 32, 64, 8},        {64, 16, 64, 8},       {128, 128, 64, 8, 1, 1}, {64, 256, 64, 8, 1, 1},
                       {64, 192, 64, 8, 1, 1}, {64, 128, 64, 8, 1, 1}};
/// Tiles of floats of 8 bits, where a consumer's sums are there twice.
const Tiles eight_bit_tiles{{128, 192, 128, 8}, {128, 160, 128, 8}, {128, 128, 128, 8},
                            {128, 96, 128, 8},  {128, 64, 128, 8},  {64, 128, 128, 8},
                            {64, 64, 128, 8},   {64, 32, 128, 8},   {64, 16, 128, 8}};
/// More of it where rows are places, of which there are many beside few channels: tall tiles of these read weights less
/// often. 320 channels are twice 160.
const Tiles boxed_file_tiles{{256, 64, 64, 8},       {256, 96, 64, 8},       {128, 96, 64, 8},
                             {192, 96, 64, 8},       {256, 32, 64, 8},       {128, 32, 64, 8},
                             {256, 16, 64, 8},       {128, 16, 64, 8},       {64, 160, 64, 8, 1, 1},
                             {256, 64, 64, 8, 1, 1}, {128, 64, 64, 8, 1, 1}, {128, 96, 64, 8, 1, 1}};
/// Where rows slide, stages are as many as fit.
const Tiles sliding_tiles{{128, 256, 64, 8},      {128, 192, 64, 8},      {128, 128, 64, 8},      {64, 256, 64, 8},
                          {64, 128, 64, 8},       {64, 64, 64, 8},        {64, 32, 64, 8},        {64, 128, 64, 8, 2},
                          {64, 256, 64, 8, 1, 1}, {64, 192, 64, 8, 1, 1}, {64, 128, 64, 8, 1, 1}, {64, 64, 64, 8, 1, 1},
                          {64, 192, 64, 4, 1, 2}};
const Tiles strip_tiles{{128, 256, 32, 5}, {128, 192, 32, 5},      {128, 128, 64, 4},      {64, 256, 32, 5},
                        {64, 256, 64, 4},  {64, 192, 32, 5},       {64, 128, 64, 5},       {64, 128, 32, 4, 2},
                        {64, 64, 64, 6},   {64, 256, 32, 5, 1, 1}, {64, 192, 64, 5, 1, 1}, {64, 128, 64, 6, 1, 1}};
const Tiles sliding_split_tiles{
    {128, 128, 64, 8},     {128, 96, 64, 8},       {64, 128, 64, 8},     {64, 64, 64, 8},        {64, 32, 64, 8},
    {64, 128, 64, 8, 2},   {64, 128, 32, 8, 2},    {64, 64, 64, 8, 2},   {64, 128, 64, 8, 1, 1}, {64, 128, 32, 8, 1, 1},
    {64, 96, 64, 8, 1, 1}, {64, 192, 64, 8, 1, 1}, {64, 96, 64, 8, 1, 2}};

/// The first `count` and those behind them, one of each in turn.
std::vector<Genome> in_turn(const std::vector<Genome>& all, std::size_t count) {
  std::vector<Genome> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i < count) out.push_back(all[i]);
    if (count + i < all.size()) out.push_back(all[count + i]);
  }
  return out;
}

class Guesses {
 public:
  Guesses(const Product& product, const Device& device)
      : product_(product),
        device_(device),
        genes_(contraction_genes(product, device)),
        fp32_(!contraction::narrow_type(product.kernel, product.c)),
        rounds_(find_gene(genes_, "passes") != nullptr),
        reads_(find_gene(genes_, "direct") != nullptr),
        approximates_(find_gene(genes_, "fast") != nullptr),
        kept_(choices_of("stationary")) {}

  std::vector<Genome> all() {
    if (!fp32_)
      of_16_bits();
    else if (product_.eight)
      by_file();
    constexpr std::size_t some = 6;
    if (rounds_) product_.implicit ? take_slides(1, some) : take(plain_tiles, 1, some);
    const std::size_t precise = out_.size();
    if (fp32_ && product_.implicit) {
      take_slides(3, rounds_ ? some : 2 * some);
    } else if (fp32_) {
      reads_ ? take_each() : take(split_tiles, 3, rounds_ ? some : 2 * some);
    }
    // One of each first: where single products are wrong, that is known before all of them were tried.
    if (precise > 1 && out_.size() > precise)
      std::rotate(out_.begin() + 1, out_.begin() + static_cast<std::ptrdiff_t>(precise),
                  out_.begin() + static_cast<std::ptrdiff_t>(precise) + 1);
    // Where approximations are not good enough, that is known soon.
    for (std::size_t i = 0; approximates_ && i < 2 && 2 * i < out_.size(); ++i) {
      Genome exact = out_[2 * i];
      exact["fast"] = 0;
      out_.insert(out_.begin() + static_cast<std::ptrdiff_t>(2 * i) + 1, std::move(exact));
    }
    choose_stores();
    return std::move(out_);
  }

 private:
  using Ranked = std::vector<std::pair<double, Genome>>;

  std::vector<std::int64_t> choices_of(std::string_view name) const {
    const Gene* found = find_gene(genes_, name);
    return found == nullptr ? std::vector<std::int64_t>{} : found->choices;
  }

  /// Phases of a stride leave as half-filled sectors, which the L2 cache takes at the rate of whole ones. Where results
  /// are many times what it holds, both ways around that took 8 to 22 % off the best, and one as often as the other: in
  /// turn. Where they are fewer the plain form was as good, or better (docs/decisions/0092). Tiles overlap where that
  /// is legal and pays.
  void choose_stores() {
    const bool overlaps = find_gene(genes_, "overlap") != nullptr;
    const bool interleaves = find_gene(genes_, "weave") != nullptr, streams = find_gene(genes_, "hints") != nullptr;
    constexpr double many = 8;
    const bool in_turn = interleaves && streams &&
                         contraction::result_bytes(product_.kernel) > many * static_cast<double>(device_.l2_bytes);
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const bool file = value_of(out_[i], "direct", 0) == contraction::by_file;  // which knows of none of them
      if (interleaves)
        out_[i]["weave"] = in_turn && i % 2 == 0 && !file && !way_of(product_, out_[i]).problem.boxed ? 1 : 0;
      if (streams) out_[i]["hints"] = in_turn && i % 2 != 0 && !file ? 2 : 0;
      if (!overlaps) continue;
      out_[i]["overlap"] = leaves_longer_than_it_takes(value_of(out_[i], "passes", fp32_ ? 3 : 1)) ? 1 : 0;
      if (!contraction_illegal(product_, device_, out_[i]).empty()) out_[i]["overlap"] = 0;
    }
  }

  /// Whether results would still leave, at 16 bytes a clock, when they are computed: where products bound, what tiles
  /// share is computed twice for nothing (measured, docs/decisions/0106).
  bool leaves_longer_than_it_takes(std::int64_t passes) const {
    const double computed = static_cast<double>(passes * product_.problem.k) / 2048;
    return computed < size_of(product_.kernel.outputs.front().dtype) / 16.0;
  }

  void of_16_bits() {
    const auto ways = choices_of("direct");
    if (std::ranges::find(ways, contraction::by_file) != ways.end()) by_file();
    const bool file = !out_.empty();
    if (std::ranges::find(ways, contraction::by_maps) != ways.end()) {
      Tiles tiles = plain_tiles;
      // Columns that fill no such tiles: 320 are two of 160.
      for (std::int64_t width = 256; width >= 96; width -= 32) {
        if (product_.c.columns % width != 0) continue;
        if (width % 64 != 0) tiles.insert(tiles.end(), {{128, width, 64, 6}, {64, width, 64, 6, 1, 1}});
        break;
      }
      take(tiles, 1, file ? 3 : 8, contraction::by_maps);
    }
    if (file && !product_.implicit) return;
    const std::size_t boxes = out_.size();
    if (product_.implicit) return take(plain_tiles, 1, file ? 2 : boxes > 0 ? 4 : 12);
    if (reads_) take(plain_tiles, 1, boxes > 0 ? 2 : 6, 1);
    const std::size_t own = out_.size();
    take(plain_tiles, 1, reads_ ? own - boxes : 12);
    // A warpgroup's own copies beat packing where sums are short, and lose where they are long: one of each in turn.
    if (boxes == 0) out_ = in_turn(out_, own);
  }

  /// Of the device file: the best, of each tile with pairs of blocks and without.
  void by_file() {
    Ranked found;
    const Product& way = *contraction::warpgroup_way(product_);
    Tiles tiles = way.bits && !way.bits->integers() ? eight_bit_tiles : file_tiles;
    for (Tile& tile : tiles) tile.k = contraction::step_of(way);
    if (way.problem.boxed) tiles.insert(tiles.end(), boxed_file_tiles.begin(), boxed_file_tiles.end());
    for (const Tile& tile : tiles) {
      // All columns fit into a narrower one.
      if (way.problem.boxed && tile.n >= 96 && way.problem.n + 32 <= tile.n) continue;
      for (const std::int64_t multicast : choices_of("multicast")) {
        for (const std::int64_t split : choices_of("split")) {
          Genome genome = genome_of(tile, split, 1, contraction::by_file);
          genome["multicast"] = multicast;
          while (genome["stages"] > 3 && !contraction_illegal(product_, device_, genome).empty()) --genome["stages"];
          if (!contraction_illegal(product_, device_, genome).empty()) continue;
          for (const std::int64_t raster : {4, 8, 16}) {
            genome["raster"] = raster;
            const auto tiling = contraction::device_tiling_of(genome);
            found.emplace_back(contraction::device_product_clocks(way, tiling, device_), genome);
          }
        }
      }
    }
    sort(found);
    constexpr std::size_t most = 8;
    std::set<std::array<std::int64_t, 4>> taken;
    for (auto& [clocks, genome] : found) {
      const std::int64_t pairs = genome["multicast"] != 0 ? 1 : 0;
      if (out_.size() < most && taken.insert({genome["tile_m"], genome["tile_n"], genome["pingpong"], pairs}).second)
        out_.push_back(std::move(genome));
    }
  }

  /// Packed strips and ones that are read where they lie, in turn: which of them is faster differs from device to
  /// device (docs/decisions/0098).
  void take_slides(std::int64_t passes, std::size_t most) {
    const std::size_t before = out_.size();
    take(passes == 1 ? sliding_tiles : sliding_split_tiles, passes, reads_ ? most / 2 + 1 : most);
    const std::size_t packed = out_.size() - before;
    if (!reads_) return;
    take(passes == 1 ? strip_tiles : sliding_split_tiles, passes, most / 2, 1);
    const std::vector<Genome> both(out_.begin() + static_cast<std::ptrdiff_t>(before), out_.end());
    std::ranges::copy(in_turn(both, packed), out_.begin() + static_cast<std::ptrdiff_t>(before));
  }

  /// Factors that are packed, or split on their way, or one in registers: the best of all, and some of each, as what
  /// any of them takes is a guess.
  void take_each() {
    constexpr int most = 10, of_each = 4;
    Ranked all = ranked(split_tiles, 3, 0);
    std::ranges::move(ranked(own_tiles, 3, 1), std::back_inserter(all));
    std::ranges::move(ranked(register_tiles, 3, in_registers), std::back_inserter(all));
    sort(all);
    std::array<int, in_registers + 1> taken{};
    for (auto& [cost, genome] : all) {
      int& same = taken.at(static_cast<std::size_t>(genome["direct"]));
      if (std::accumulate(taken.begin(), taken.end(), 0) >= most && same >= of_each) continue;
      ++same;
      out_.push_back(std::move(genome));
    }
  }

  /// Where the second factor may stay in shared memory, some that keep it there and some that do not, in turn; of those
  /// that keep the first one, which gains less, the best.
  void take(const Tiles& choices, std::int64_t passes, std::size_t most, std::int64_t direct = 0) {
    const Ranked found = ranked(choices, passes, direct);
    std::array<std::vector<Genome>, 2> kinds;
    std::optional<Genome> first_kept;
    for (const auto& [cost, genome] : found) {
      const std::int64_t kept = value_of(genome, "stationary", 0);
      if (kept < 2)
        kinds.at(static_cast<std::size_t>(kept)).push_back(genome);
      else if (!first_kept)
        first_kept = genome;
    }
    const std::size_t all = std::min(kinds[0].size() + kinds[1].size(), most);
    for (std::size_t i = 0, taken = 0; taken < all; ++i) {
      for (auto& kind : kinds) {
        if (i >= kind.size() || taken == all) continue;
        out_.push_back(std::move(kind[i]));
        ++taken;
      }
    }
    if (first_kept) out_.push_back(std::move(*first_kept));
  }

  static void sort(Ranked& found) {
    std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
  }

  /// With fewer stages where it would not fit otherwise.
  void add(Ranked& found, Genome genome, const Tile& tile, std::int64_t passes) const {
    const Product& product = way_of(product_, genome);
    const bool keeps = std::ranges::find(kept_, 1) != kept_.end() || value_of(genome, "stationary", 0) == 2;
    const bool sheds = rounds_ || product_.problem.folding || keeps;
    const bool exchanges = !product_.problem.folding || !product_.problem.folding->in_registers;
    const auto crowded = [&] {
      return !contraction_illegal(product_, device_, genome).empty() ||
             (exchanges && genome["stages"] > 4 && plan_of(product, genome, device_).exchange < tile.n);
    };
    while (sheds && genome["stages"] > 2 && crowded()) --genome["stages"];
    if (!contraction_illegal(product_, device_, genome).empty()) return;
    if (std::ranges::find(found, genome, &std::pair<double, Genome>::second) != found.end()) return;
    const double cost = clocks(product.problem, tile, passes, plan_of(product, genome, device_));
    found.emplace_back(cost, std::move(genome));
  }

  Genome genome_of(const Tile& tile, std::int64_t split, std::int64_t passes, std::int64_t direct) const {
    Genome genome{{"tile_m", tile.m}, {"tile_n", tile.n}, {"tile_k", tile.k},          {"stages", tile.stages},
                  {"raster", 8},      {"split", split},   {"min_blocks", tile.blocks}, {"pingpong", tile.pingpong}};
    if (fp32_) genome["promote"] = 64;
    if (rounds_) genome["passes"] = passes;
    if (reads_) genome["direct"] = direct;
    if (approximates_) genome["fast"] = 1;
    if (!kept_.empty()) genome["stationary"] = 0;
    if (product_.swapped) genome["swap_operands"] = 0;
    if (find_gene(genes_, "multicast") != nullptr) genome["multicast"] = 0;
    return genome;
  }

  Ranked ranked(const Tiles& choices, std::int64_t passes, std::int64_t direct) const {
    Ranked found;
    for (Tile tile : choices) {
      if (product_.problem.folding) {  // whole windows
        const std::int64_t least = contraction::least_columns(product_.problem);
        tile.n = std::max(least, tile.n / least * least);
        if (!product_.problem.has_runs()) tile.n = std::min(tile.n, (product_.problem.n + least - 1) / least * least);
      }
      for (const std::int64_t split : genes_.back().choices) {
        Genome genome = genome_of(tile, split, passes, direct);
        add(found, genome, tile, passes);
        if (swaps(direct)) {
          genome["swap_operands"] = 1;
          add(found, genome, tile, passes);
          genome["swap_operands"] = 0;
        }
        for (const std::int64_t kept : kept_) {
          // What is brought once has to be for several tiles.
          if (kept == 0 || (kept == 2 && product_.problem.n < 512 * std::int64_t{device_.sms})) continue;
          genome["stationary"] = kept;
          add(found, genome, tile, passes);
        }
      }
    }
    sort(found);
    return found;
  }

  /// Work of the busiest multiprocessor: its tiles, each as long as tensor cores or shared memory take, whichever is
  /// longer.
  double clocks(const contraction::Problem& problem, const Tile& tile, std::int64_t passes,
                const TilePlan& plan) const {
    const auto e = contraction::extents_of(problem, plan);
    const std::int64_t busy = std::max<std::int64_t>(contraction::blocks_of(problem, plan, device_.sms), 1);
    const double turns = static_cast<double>((e.tiles + busy - 1) / busy);
    const auto m = static_cast<double>(tile.m), n = static_cast<double>(tile.n);
    const double stages = static_cast<double>(e.depth) / static_cast<double>(plan.bk * std::int64_t{plan.split_k});
    const double math = static_cast<double>(passes) * m * n * plan.bk / 2048;
    const double sum = stages * std::max(math, clocks_to_bring(problem, plan)) + 1000;
    const double write = (plan.split_k > 1 ? 3 : 1) * m * n * 4 / 20 + 1000;
    // One block, or one consumer, stores while another multiplies.
    const bool overlaps = tile.blocks > 1 || tile.pingpong != 0;
    // Two others share what one would store in that time.
    const double stored = tile.pingpong > 1 ? (sum + write) / static_cast<double>(tile.pingpong + 1) : write;
    const double each = overlaps ? std::max(sum, stored) + 500 : sum + write;
    return clocks_before(problem, plan) + turns * each + (overlaps ? std::min(sum, write) : 0) +
           (plan.split_k > 1 ? 6000 : 0);
  }

  /// A stage: 40 bytes a clock from the L2 cache; a warpgroup that splits elements on their way was measured at 4.1 a
  /// clock.
  static double clocks_to_bring(const contraction::Problem& problem, const TilePlan& plan) {
    if (contraction::converts(plan)) return (plan.bm + plan.bn) * plan.bk / 4.1;
    if (contraction::reads_strips(plan)) return plan.rounds * 128 * 8 / 6.0;
    const int bytes =
        contraction::brings(plan) ? contraction::stage_bytes(problem, plan) : contraction::copied_bytes(problem, plan);
    return (bytes - contraction::slice_bytes(problem, plan)) / 40.0;
  }

  /// What is packed is read and written before, at 12 bytes a clock; counted where there is another way.
  double clocks_before(const contraction::Problem& problem, const TilePlan& plan) const {
    if (!fp32_ || !reads_ || contraction::converts(plan)) return 0;
    if (problem.im2col) {  // some launches that see that they need not pack, or planes that are
      const auto& columns = *problem.im2col;
      const double chunks = static_cast<double>(columns.planes * columns.positions * problem.batches);
      const double bytes = 8 * (4 + 2 * contraction::parts(plan));
      return contraction::reads_strips(plan) ? 18000
                                             : chunks * bytes / (12.0 * static_cast<double>(device_.sms)) + 6000;
    }
    const std::int64_t rows = (contraction::splits_in_registers(plan) ? 0 : problem.m) + problem.n;
    const auto elements = static_cast<double>(rows * problem.k * problem.batches);
    return 8 * elements / (12.0 * static_cast<double>(device_.sms)) + 6000;
  }

  /// Operands are swapped where only the other one can be split in registers, or where a tile has far more rows than
  /// there are.
  bool swaps(std::int64_t direct) const {
    return product_.swapped && (direct == in_registers || product_.problem.m < 64);
  }

  const Product& product_;
  const Device& device_;
  const std::vector<Gene> genes_;
  const bool fp32_, rounds_, reads_, approximates_;
  const std::vector<std::int64_t> kept_;  ///< what may be stationary
  std::vector<Genome> out_;
};

}  // namespace

std::vector<Genome> contraction_seeds(const Product& product, const Device& device) {
  return Guesses(product, device).all();
}

}  // namespace planish::codegen
