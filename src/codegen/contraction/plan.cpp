#include "codegen/contraction/plan.h"

#include <algorithm>
#include <numeric>

#include "base/rounding.h"

namespace planish::codegen::contraction {
namespace {

constexpr int bytes_each = 2;
constexpr int swizzled_row = 128, swizzled_rows = 8 * swizzled_row;  // the bytes after which swizzling repeats
constexpr int barrier_bytes = 16;                                    // full and empty, of one stage
constexpr int turn_bytes = 32;                                       // a barrier each consumer
constexpr int stationary_barrier_bytes = 16;
constexpr std::int64_t most_rows_of_tiles = 16;  ///< of blocks that keep theirs

/// Taps' chunks of 8 columns in a stage of strips.
int units_of(const Problem& problem, const TilePlan& plan) {
  return plan.strips * plan.strip_chunks * problem.im2col->taps;
}

/// Chunks of strips of a stage, shared by the producer's threads.
int rounds_of(const Problem& problem, const TilePlan& plan) {
  const std::int64_t each = problem.im2col->strip(run_columns(problem, plan)) * problem.runs();
  return static_cast<int>((plan.strips * std::int64_t{plan.strip_chunks} * each + 127) / 128);
}

/// Of one run of a chunk of a strip.
int run_bytes(const Problem& problem, const TilePlan& plan) {
  const Im2col& columns = *problem.im2col;
  const int rows = columns.operand == Operand::b ? run_columns(problem, plan) : plan.bm;
  return static_cast<int>(columns.strip(rows)) * 16;
}

int chunk_bytes(const Problem& problem, const TilePlan& plan) {
  return problem.runs() * run_bytes(problem, plan);
}

/// Zeros that what lies beyond the taps is read of: as long as what they stand for.
int zero_bytes(const Problem& problem, const TilePlan& plan) {
  return problem.runs() > 1 ? chunk_bytes(problem, plan) : tile_rows(plan, problem.im2col->operand) * 16;
}

/// Of stages.
int alignment(const TilePlan& plan) {
  return reads(plan) ? swizzled_rows : 128;
}

/// Of one part of an operand in a stage.
int operand_bytes(const Problem& problem, const TilePlan& plan, Operand operand) {
  const int rows = tile_rows(plan, operand);
  if (!problem.is_implicit(operand)) return rows * plan.bk * bytes_each;
  const int zeros = units_of(problem, plan) % 2 * zero_bytes(problem, plan);
  return static_cast<int>(
      round_up(plan.strips * plan.strip_chunks * chunk_bytes(problem, plan) + zeros, alignment(plan)));
}

/// Stages of all k of a sliding problem.
std::int64_t strip_stages(const Problem& problem, const TilePlan& plan) {
  const Im2col& columns = *problem.im2col;
  const std::int64_t strips = static_cast<std::int64_t>(columns.offsets.size()) * (columns.chunks / plan.strip_chunks);
  return (strips + plan.strips - 1) / plan.strips;
}

/// Boxes along a dim of which one has `size` places.
std::int64_t boxes_along(const Boxed::Dim& dim, int size) {
  return (dim.count + size - 1) / size;
}

constexpr std::int64_t longest_box = 256;  ///< coordinates, of a dim of a tensor map

/// Tries all boxes of `rows` places in dims from `sizes.size()` on.
void try_boxes(const Boxed& boxed, int rows, std::vector<int>& sizes, std::pair<double, double>& least,
               std::vector<int>& best) {
  if (sizes.size() == boxed.dims.size()) {
    if (rows != 1) return;
    std::pair<double, double> cost{1, 1};  // boxes; elements that one reads
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      cost.first *= static_cast<double>(boxes_along(boxed.dims[d], sizes[d]));
      cost.second *= static_cast<double>(boxed.dims[d].step * (sizes[d] - 1) + boxed.dims[d].reach);
    }
    if (!best.empty() && cost >= least) return;
    least = cost;
    best = sizes;
    return;
  }
  const std::int64_t step = boxed.dims[sizes.size()].step;
  const int least_size = sizes.size() + 1 == boxed.dims.size() ? rows : 1;  // the last dim has what is left
  for (int size = rows; size >= least_size; --size) {
    if (rows % size != 0 || size * step > longest_box) continue;
    sizes.push_back(size);
    try_boxes(boxed, rows / size, sizes, least, best);
    sizes.pop_back();
  }
}

/// Whether as many blocks as the plan wants of a multiprocessor find room there.
bool has_room(const Problem& problem, const TilePlan& plan, std::int64_t shared_limit) {
  constexpr std::int64_t driver = 1024;  // of each block
  return plan.blocks * (shared_bytes(problem, plan) + driver) <= shared_limit + driver;
}

}  // namespace

std::int64_t Folding::line_count() const {
  std::int64_t count = 1;
  for (const Dim& dim : lines) count *= dim.count;
  return count;
}

std::uint64_t encode(const Descriptor& d) {
  return (static_cast<std::uint64_t>(d.leading / 16) << 16) | (static_cast<std::uint64_t>(d.stride / 16) << 32) |
         (static_cast<std::uint64_t>(d.swizzled ? 1 : 0) << 62);
}

std::int64_t Im2col::places(std::int64_t products, std::int64_t rows) const {
  // A tile may begin at the last position, and all shifts together are shorter than an image.
  return zeros(products) + strip(rows) + image;
}

int parts(const TilePlan& plan) {
  return plan.scheme == Scheme::plain || plan.scheme == Scheme::single ? 1 : 2;
}

bool scales(const TilePlan& plan) {
  return plan.scheme != Scheme::plain && !converts(plan);
}

int accumulators(const TilePlan& plan) {
  return plan.scheme == Scheme::split ? 2 : 1;
}

bool promotes(const TilePlan& plan) {
  return plan.scheme == Scheme::split;
}

int tile_rows(const TilePlan& plan, Operand operand) {
  return operand == Operand::a ? plan.bm : plan.bn;
}

std::vector<int> box_of(const Problem& problem, const TilePlan& plan) {
  std::vector<int> sizes, best;
  std::pair<double, double> least;
  try_boxes(*problem.boxed, tile_rows(plan, problem.boxed->operand), sizes, least, best);
  return best;
}

std::int64_t rows_in_boxes(const Problem& problem, const TilePlan& plan) {
  const std::vector<int> sizes = box_of(problem, plan);
  std::int64_t rows = tile_rows(plan, problem.boxed->operand);
  for (std::size_t d = 0; d < sizes.size(); ++d) rows *= boxes_along(problem.boxed->dims[d], sizes[d]);
  return rows;
}

int most_overlap(int columns) {
  return columns / 4;
}

int tile_step(const TilePlan& plan) {
  return plan.bn - plan.overlap;
}

int run_columns(const Problem& problem, const TilePlan& plan) {
  return plan.bn / problem.runs();
}

int run_step(const Problem& problem, const TilePlan& plan) {
  const int columns = run_columns(problem, plan);
  return columns - static_cast<int>(columns % problem.folding->window);
}

int least_columns(const Problem& problem) {
  if (!problem.folding) return 16;
  const std::int64_t window = problem.folding->window;
  const std::int64_t each =
      problem.has_runs() ? problem.runs() * round_up(window, 8)
                         : std::min(std::lcm(window, std::int64_t{8}), round_up(problem.n, 8));  // all, or whole ones
  return static_cast<int>(round_up(16, each));
}

std::int64_t line_tiles(const Problem& problem, const TilePlan& plan) {
  const int step = run_step(problem, plan);
  return (problem.folding->length + step - 1) / step;
}

LoadMode load_mode(const TilePlan& plan, Operand operand) {
  return operand == Operand::a ? plan.load_mode_a : plan.load_mode_b;
}

bool fits(LoadMode load_mode, int rows) {
  if (load_mode == LoadMode::along_k) return rows % 16 == 0;
  return load_mode == LoadMode::packed || load_mode == LoadMode::registers || load_mode == LoadMode::strips ||
         rows == 64 || rows == 128 || rows == 256;
}

bool brings(const TilePlan& plan) {
  return reads(plan) && plan.maps == 0 && !reads_strips(plan);
}

bool reads(const TilePlan& plan) {
  return plan.load_mode_a != LoadMode::packed || plan.load_mode_b != LoadMode::packed;
}

bool converts(const TilePlan& plan) {
  return brings(plan) && plan.scheme == Scheme::split;
}

bool splits_in_registers(const TilePlan& plan) {
  return plan.load_mode_a == LoadMode::registers;
}

bool reads_strips(const TilePlan& plan) {
  return plan.load_mode_b == LoadMode::strips;
}

bool needs_fallback(const TilePlan& plan) {
  return converts(plan) || splits_in_registers(plan) || reads_strips(plan);
}

std::int64_t slot_of(const TilePlan& plan, std::int64_t k) {
  if (!splits_in_registers(plan)) return k;
  return k / 32 * 32 + k % 8 / 2 * 8 + k % 32 / 8 * 2 + k % 2;
}

int chunks_converted(const TilePlan& plan, Operand operand) {
  return tile_rows(plan, operand) * plan.bk / (8 * 128);
}

int stages_under_way(const TilePlan& plan) {
  // What was split is there when it is stored.
  if (converts(plan)) return 0;
  // A stage is left once products of the next are under way: the producer waits for that while it still owes the news
  // of these.
  return std::clamp(plan.stages - 2, 0, 4);
}

TilePlan with_strips(const Problem& problem, TilePlan plan) {
  if (!problem.im2col) return plan;
  const Im2col& columns = *problem.im2col;
  const int wanted = plan.bk, most = wanted + wanted / 2;
  std::int64_t least = 0;
  TilePlan best = plan;
  for (int chunks = 1; chunks <= columns.chunks; ++chunks) {
    if (columns.chunks % chunks != 0) continue;
    const std::int64_t all = static_cast<std::int64_t>(columns.offsets.size()) * (columns.chunks / chunks);
    for (int strips = 1; strips <= all; ++strips) {
      TilePlan each = plan;
      each.strips = strips;
      each.strip_chunks = chunks;
      each.bk = static_cast<int>(round_up(units_of(problem, each) * std::int64_t{8}, 16));
      if (each.bk > most && (strips > 1 || chunks > 1)) break;
      // A stage has a cost of its own, about that of 8 columns.
      const std::int64_t cost = strip_stages(problem, each) * (each.bk + 8);
      if (least == 0 || cost <= least) {
        least = cost;
        best = each;
      }
    }
  }
  best.promote_k = std::max(1, (plan.promote_k + best.bk / 2) / best.bk) * best.bk;
  best.rounds = reads_strips(plan) ? rounds_of(problem, best) : 0;
  return best;
}

int stage_bytes(const Problem& problem, const TilePlan& plan) {
  return parts(plan) * (operand_bytes(problem, plan, Operand::a) + operand_bytes(problem, plan, Operand::b));
}

int copied_bytes(const Problem& problem, const TilePlan& plan) {
  int bytes = 0;
  for (const Copy& copy : copies_of(problem, plan)) bytes += copy.bytes;
  for (const Operand operand : {Operand::a, Operand::b}) {
    if (plan.maps != 0 && load_mode(plan, operand) != LoadMode::packed)
      bytes += parts(plan) * operand_bytes(problem, plan, operand);
  }
  return bytes;
}

Zeros zeros_of(const Problem& problem, const TilePlan& plan, int part) {
  if (!problem.im2col || units_of(problem, plan) % 2 == 0) return {};
  const Operand operand = problem.im2col->operand;
  return {part_offset(problem, plan, operand, part) + plan.strips * plan.strip_chunks * chunk_bytes(problem, plan),
          zero_bytes(problem, plan)};
}

bool has_one_column_tile(const Problem& problem, const TilePlan& plan) {
  return problem.n <= plan.bn && problem.batches == 1 && plan.split_k == 1 && !problem.is_implicit(Operand::b);
}

std::optional<Operand> stationary_operand(const TilePlan& plan) {
  if (plan.stationary == 0) return std::nullopt;
  return plan.stationary == 1 ? Operand::b : Operand::a;
}

std::int64_t rows_of_tiles(const Problem& problem, const TilePlan& plan) {
  return round_up(problem.m, plan.bm) / plan.bm;
}

std::int64_t blocks_of(const Problem& problem, const TilePlan& plan, std::int64_t resident) {
  const std::int64_t tiles = extents_of(problem, plan).tiles;
  if (stationary_operand(plan) != Operand::a) return std::min(resident, tiles);
  const std::int64_t down = rows_of_tiles(problem, plan);
  return std::min(resident / down * down, tiles);
}

int slice_bytes(const Problem& problem, const TilePlan& plan) {
  const auto operand = stationary_operand(plan);
  return operand ? parts(plan) * operand_bytes(problem, plan, *operand) : 0;
}

int stage_step(const Problem& problem, const TilePlan& plan) {
  return stage_bytes(problem, plan) - slice_bytes(problem, plan);
}

std::int64_t stationary_bytes(const Problem& problem, const TilePlan& plan) {
  if (plan.stationary == 0) return 0;
  return extents_of(problem, plan).depth / plan.bk * slice_bytes(problem, plan);
}

int exchange_offset(const Problem& problem, const TilePlan& plan) {
  // Beside each other's no slice is larger than what a multiprocessor has.
  constexpr std::int64_t too_much = 1 << 28;
  const auto kept = static_cast<int>(std::min(stationary_bytes(problem, plan), too_much));
  return kept + plan.stages * (stage_step(problem, plan) + barrier_bytes) + (plan.ping_pong != 0 ? turn_bytes : 0) +
         (plan.stationary != 0 ? stationary_barrier_bytes : 0);
}

int shared_bytes(const Problem& problem, const TilePlan& plan) {
  // The tensor core wants multiples of 128 bytes; what comes is aligned to 16.
  return alignment(plan) + column_scale_offset(problem, plan) + column_scale_bytes(problem, plan);
}

int column_scale_bytes(const Problem& problem, const TilePlan& plan) {
  return has_one_column_tile(problem, plan) && scales(plan) ? plan.bn * 4 : 0;
}

int column_scale_offset(const Problem& problem, const TilePlan& plan) {
  return exchange_offset(problem, plan) + plan.consumers * 4 * exchange_floats(plan) * 4;
}

int exchange_pitch(const TilePlan& plan) {
  return plan.exchange + 8;
}

int exchange_floats(const TilePlan& plan) {
  return 8 * exchange_pitch(plan);
}

TilePlan with_exchange(const Problem& problem, TilePlan plan, std::int64_t shared_limit) {
  plan.exchange = problem.folding && problem.folding->in_registers ? 32 : 256;
  while (plan.exchange > 32 && (plan.exchange >= 2 * plan.bn || !has_room(problem, plan, shared_limit)))
    plan.exchange /= 2;
  return plan;
}

int threads(const TilePlan& plan) {
  return 128 * (plan.consumers + 1);
}

int producer_registers(const TilePlan& plan) {
  // All chunks of a stage are under way at once.
  if (converts(plan))
    return std::min(248, 8 * (chunks_converted(plan, Operand::a) + chunks_converted(plan, Operand::b)) + 64);
  if (reads_strips(plan)) return std::min(248, (18 * plan.rounds + 50 + 7) / 8 * 8);  // two stages of eight values
  if (brings(plan)) return plan.consumers >= 3 ? 80 : 88;
  if (splits_in_registers(plan)) return 24;  // one thread asks for copies, as of packed operands
  if (reads(plan)) return 40;
  return plan.consumers >= 3 ? 32 : 24;
}

int consumer_registers(const TilePlan& plan) {
  // What blocks are launched with, in multiples of 8, is divided anew: the producer gives of its share.
  const int each = std::min(65536 / (plan.blocks * threads(plan)) / 8 * 8, 248);
  return std::min((each * threads(plan) - producer_registers(plan) * 128) / (plan.consumers * 128) / 8 * 8, 240);
}

bool adds_up(const Problem& problem, const TilePlan& plan) {
  return promotes(plan) && extents_of(problem, plan).depth / plan.split_k > plan.promote_k;
}

int accumulator_registers(const TilePlan& plan) {
  return plan.bn / 2;
}

int part_offset(const Problem& problem, const TilePlan& plan, Operand operand, int part) {
  const int a = operand_bytes(problem, plan, Operand::a), b = operand_bytes(problem, plan, Operand::b);
  if (operand == Operand::a) return part * a;
  return (stationary_operand(plan) == Operand::a ? 0 : parts(plan) * a) + part * b;
}

std::int64_t place_in_operand(const TilePlan& plan, std::int64_t rows, std::int64_t row, std::int64_t k) {
  const std::int64_t slab = k / plan.bk, chunk = k % plan.bk / 8;
  return slab * rows * plan.bk * bytes_each + row / 8 * (plan.bk * 16) + chunk * 128 + row % 8 * 16 +
         k % 8 * bytes_each;
}

Descriptor descriptor_of(const Problem& problem, const TilePlan& plan, Operand operand, int part, int row, int k,
                         int run) {
  if (load_mode(plan, operand) == LoadMode::along_k) {
    const int before = k / 64 * tile_rows(plan, operand) * swizzled_row + row * swizzled_row + k % 64 * bytes_each;
    return {part_offset(problem, plan, operand, part) + before, 16, swizzled_rows, true};
  }
  if (load_mode(plan, operand) == LoadMode::along_rows) {
    const int group = plan.bk * swizzled_row;  // of 64 rows
    return {part_offset(problem, plan, operand, part) + row / 64 * group + k * swizzled_row, group, swizzled_rows,
            true};
  }
  if (!problem.is_implicit(operand))
    return {part_offset(problem, plan, operand, part) + row * plan.bk * bytes_each + k / 8 * 128, 128, plan.bk * 16};
  const Im2col& columns = *problem.im2col;
  const auto begin = [&](int unit) {
    if (unit == units_of(problem, plan)) return zeros_of(problem, plan, part).target;
    return part_offset(problem, plan, operand, part) + unit / columns.taps * chunk_bytes(problem, plan) +
           unit % columns.taps * columns.shift * 16;
  };
  return {begin(k / 8) + run * run_bytes(problem, plan) + row * 16, begin(k / 8 + 1) - begin(k / 8), 128};
}

std::vector<Copy> copies_of(const Problem& problem, const TilePlan& plan) {
  std::vector<Copy> all;
  for (const Operand operand : {Operand::a, Operand::b}) {
    if (load_mode(plan, operand) != LoadMode::packed) continue;
    for (int part = 0; part < parts(plan); ++part) {
      const int target = part_offset(problem, plan, operand, part);
      if (!problem.is_implicit(operand)) {
        all.push_back({operand, part, target, operand_bytes(problem, plan, operand)});
        continue;
      }
      const int bytes = run_bytes(problem, plan);
      for (int chunk = 0; chunk < plan.strips * plan.strip_chunks; ++chunk) {
        for (int run = 0; run < problem.runs(); ++run)
          all.push_back({operand, part, target + (chunk * problem.runs() + run) * bytes, bytes, chunk, run});
      }
    }
  }
  return all;
}

std::vector<Step> steps_of(const TilePlan& plan) {
  std::vector<Step> high;
  std::vector<Step> low;
  const int small = plan.scheme == Scheme::joint ? 0 : 1;
  for (int k = 0; k < plan.bk; k += 16) {
    high.push_back({0, k, 0, 0});
    low.push_back({small, k, 0, 1});
    low.push_back({small, k, 1, 0});
  }
  // In one accumulator the small ones come first, while it is small.
  if (plan.scheme == Scheme::joint) std::swap(high, low);
  if (parts(plan) == 2) high.insert(high.end(), low.begin(), low.end());
  return high;
}

Place fragment(int thread, int index) {
  const int lane = thread % 32;
  return {thread / 32 * 16 + lane / 4 + index / 2 % 2 * 8, index / 4 * 8 + lane % 4 * 2 + index % 2};
}

Extents extents_of(const Problem& problem, const TilePlan& plan) {
  Extents e;
  e.rows_a = round_up(problem.m, plan.bm);
  const int step = tile_step(plan);
  e.rows_b =
      (problem.has_runs() ? problem.folding->line_count() * line_tiles(problem, plan) : (problem.n + step - 1) / step) *
      plan.bn;
  if (problem.boxed) (problem.boxed->operand == Operand::a ? e.rows_a : e.rows_b) = rows_in_boxes(problem, plan);
  e.depth = round_up(problem.im2col ? strip_stages(problem, plan) * plan.bk : problem.k,
                     std::int64_t{plan.split_k} * (promotes(plan) ? plan.promote_k : plan.bk));
  e.tiles = e.rows_a / plan.bm * (e.rows_b / plan.bn) * problem.batches * plan.split_k;
  return e;
}

namespace {

/// Tiles that are boxes of places.
Status check_boxed(const Problem& problem, const TilePlan& plan) {
  const auto bad = [](const char* what) { return fail("illegal_plan", what); };
  const Operand operand = problem.boxed->operand;
  if (load_mode(plan, operand) != LoadMode::along_k || plan.maps == 0) return bad("boxes come along k, by tensor maps");
  if (problem.folding || plan.overlap > 0) return bad("what lies in boxes is neither folded nor shared by tiles");
  if (box_of(problem, plan).empty()) return bad("no box has as many places as a tile has rows");
  const Extents e = extents_of(problem, plan);
  if (plan.split_k > 1 && (operand == Operand::a ? e.rows_a != problem.m : e.rows_b != problem.n))
    return bad("parts of sums are kept of boxes that have no places outside");
  return {};
}

/// What may stay in shared memory.
Status check_stationary(const Problem& problem, const TilePlan& plan) {
  const auto bad = [](const char* what) { return fail("illegal_plan", what); };
  if (plan.stationary < 0 || plan.stationary > 2) return bad("stationary is 0, 1 or 2");
  if (plan.stationary == 0) return {};
  if (plan.stationary == 1 && !has_one_column_tile(problem, plan))
    return bad("what is stationary has one tile of rows");
  if (plan.stationary == 2 && (problem.is_implicit(Operand::a) || problem.batches != 1 || plan.split_k != 1))
    return bad("a first operand that is stationary does not slide, and is of one whole product");
  if (plan.stationary == 2 && rows_of_tiles(problem, plan) > most_rows_of_tiles)
    return bad("blocks have one of a few rows of tiles where the first operand is stationary");
  if (plan.load_mode_a != LoadMode::packed || (plan.load_mode_b != LoadMode::packed && !reads_strips(plan)))
    return bad("what is stationary is packed, and so is the other operand");
  return {};
}

}  // namespace

Status check(const Problem& problem, const TilePlan& plan, std::int64_t shared_limit) {
  const auto bad = [](const std::string& what) { return fail("illegal_plan", what); };
  if (problem.m < 1 || problem.n < 1 || problem.k < 1 || problem.batches < 1) return bad("extents are at least 1");
  const int most = plan.ping_pong != 0 ? 4 : 3;
  if (plan.consumers < 1 || plan.consumers > most) return bad("consumers is 1 to 3, or up to 4 in turn");
  if (plan.bm != 64 * (plan.ping_pong != 0 ? 1 : plan.consumers)) return bad("bm is 64 rows a consumer, or 64 in turn");
  if (plan.ping_pong != 0 && plan.consumers == 1) return bad("one consumer has no turns");
  if (plan.bn < 8 || plan.bn > 256 || plan.bn % 8 != 0) return bad("bn is a multiple of 8 up to 256");
  if (!problem.im2col && plan.bk != 32 && plan.bk != 64 && plan.bk != 128) return bad("bk is 32, 64 or 128");
  if (problem.im2col) {
    if (plan.strips < 1 || plan.strip_chunks < 1 || problem.im2col->chunks % plan.strip_chunks != 0)
      return bad("strips and strip_chunks are at least 1, and chunks come in whole strips");
    if (plan.bk != round_up(units_of(problem, plan) * 8, 16)) return bad("bk is 8 for each tap of a stage's strips");
  }
  if (plan.overlap < 0 || plan.overlap > most_overlap(plan.bn)) return bad("overlap is at most a quarter of bn");
  if (plan.overlap > 0 && (!problem.is_implicit(Operand::b) || problem.folding || plan.split_k != 1))
    return bad("tiles overlap along columns that slide, of sums that are whole and results that are not folded");
  if (plan.stages < 2 || plan.stages > 16) return bad("stages is 2 to 16");
  if (plan.raster < 1) return bad("raster is at least 1");
  if (plan.exchange != 32 && plan.exchange != 64 && plan.exchange != 128 && plan.exchange != 256)
    return bad("exchange is 32, 64, 128 or 256");
  if (plan.split_k < 1 || plan.split_k > 64) return bad("split_k is 1 to 64");
  if (promotes(plan) &&
      (plan.promote_k < plan.bk || plan.promote_k % plan.bk != 0 || plan.promote_k > std::max(512, plan.bk))) {
    return bad("promote_k is a multiple of bk up to 512");
  }
  if (scales(plan) && plan.element != Element::f16) return bad("fp32 operands become fp16 parts");
  if (reads_strips(plan)) {
    if (!problem.is_implicit(Operand::b)) return bad("strips are read of a second operand that slides");
    if (plan.load_mode_a != LoadMode::packed || plan.maps != 0) return bad("the other operand is packed beside strips");
    if (plan.scheme != Scheme::single && plan.scheme != Scheme::split) return bad("strips that are read are fp32");
    if (plan.rounds != rounds_of(problem, plan)) return bad("rounds are those that a stage's strips take");
    const Im2col& columns = *problem.im2col;
    const std::int64_t phase = columns.chunks * columns.positions;
    if (columns.offsets.size() > 31) return bad("more strips than bits");
    std::int64_t longest = 0;
    for (const std::int64_t offset : columns.offsets) longest = std::max(longest, offset % phase);
    if (problem.has_runs()) longest += std::ranges::max(problem.folding->runs);
    if (longest + columns.strip(run_columns(problem, plan)) > columns.image)
      return bad("strips of a tile reach over three images");
  } else if (reads(plan)) {
    const bool in_registers = splits_in_registers(plan);
    if (in_registers && (plan.scheme != Scheme::split || plan.maps == 0 || plan.load_mode_b != LoadMode::packed))
      return bad("what is split in registers comes by tensor maps, and the other operand is packed");
    if (plan.load_mode_b == LoadMode::registers) return bad("only the first operand is split in registers");
    if (plan.scheme != Scheme::plain && !needs_fallback(plan))
      return bad("operands that are not packed are multiplied as they are");
    if (converts(plan) && (plan.load_mode_a == LoadMode::packed || plan.load_mode_b == LoadMode::packed))
      return bad("both operands are split on their way, or neither");
    if (problem.im2col) return bad("what slides is packed, and so is the other operand");
    if (plan.bk % 64 != 0 && !in_registers) return bad("bk is 64 or 128 where operands are not packed");
    for (const Operand operand : {Operand::a, Operand::b}) {
      const LoadMode how = load_mode(plan, operand);
      if (fits(how, tile_rows(plan, operand))) continue;
      return bad(how == LoadMode::along_k ? "bn is a multiple of 16"
                                          : "bm and bn are 64, 128 or 256 of an operand that lies along its rows");
    }
  }
  if ((brings(plan) || reads_strips(plan)) && 65536 / (plan.blocks * threads(plan)) < producer_registers(plan))
    return bad("blocks leave their producers too few registers");
  PLANISH_CHECK(check_stationary(problem, plan));
  if (problem.boxed) PLANISH_CHECK(check_boxed(problem, plan));
  if (problem.folding) {
    if (plan.split_k != 1) return bad("windows are folded where sums are whole");
    if (plan.bn % (8 * problem.runs()) != 0) return bad("bn is a multiple of 8 for each run of a window's rows");
    if (run_step(problem, plan) < 1) return bad("a run is shorter than a window");
    if (!problem.has_runs() && plan.bn < problem.n && plan.bn % problem.folding->window != 0)
      return bad("bn is a multiple of the window");
    if (!problem.folding->in_registers && plan.exchange < plan.bn)
      return bad("a tile's columns are folded from one exchange");
  }
  const int sums = accumulator_registers(plan) * (accumulators(plan) + (adds_up(problem, plan) ? 1 : 0));
  // The rest is for addresses and epilogues.
  const int room = consumer_registers(plan) - (plan.consumers >= 4 ? 56 : plan.consumers == 3 ? 48 : 40);
  if (sums > room) {
    return bad("accumulators need " + std::to_string(sums) + " registers a thread of " + std::to_string(room));
  }
  if (plan.blocks < 1 || plan.blocks > 4) return bad("blocks is 1 to 4");
  // ptxas compiles for what a launch begins with, before registers are divided anew: an instruction's must fit.
  const int begun = 65536 / (plan.blocks * threads(plan)) / 8 * 8;
  if (accumulator_registers(plan) + 26 > begun)
    return bad(std::to_string(plan.blocks) + " blocks begin with " + std::to_string(begun) + " registers a thread");
  if (plan.blocks > 1 && !has_room(problem, plan, shared_limit))
    return bad("the stages of " + std::to_string(plan.blocks) + " blocks do not fit a multiprocessor");
  if (shared_bytes(problem, plan) > shared_limit) {
    return bad("stages need " + std::to_string(shared_bytes(problem, plan)) + " bytes of shared memory of " +
               std::to_string(shared_limit));
  }
  const Extents e = extents_of(problem, plan);
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  // What slides has places that no tile has columns for.
  if (e.rows_a >= limit || e.rows_b >= limit || problem.n >= limit || e.depth >= limit || e.tiles >= limit) {
    return bad("an extent exceeds 2^31");
  }
  return {};
}

}  // namespace planish::codegen::contraction
