#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/emit/cuda_fold.h"
#include "codegen/emit/cuda_plan.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// The column schedule: reductions whose memory runs along an outer variable, whose rows are too few to fill the
/// device, or which look for positions. Threads of a block lie along the fastest variable and, across it, share the
/// reduced extent; blocks may share it too (`slices`), each leaving its partial state in scratch, which the next launch
/// merges in a fixed order. Or a cooperative group of blocks owns a row (`team`): it meets at a barrier in global
/// memory, so that one launch does it all and what a block read of the row may stay on its multiprocessor. Pure;
/// thread-safe.
namespace planish::codegen::printing {

/// A block's shared memory is rounded up to a multiple of so many bytes.
constexpr std::int64_t shared_unit = 128;

/// True for the kernels that this schedule takes.
bool uses_column_schedule(const Kernel& kernel);

/// Scratch that one field of a fold takes: [slices][rows]; of a team of rows words [teams][2 meetings][slices].
struct PartialPlace {
  int reduction = 0;
  std::string suffix;
  std::int64_t offset = 0;
};

struct ColumnPlan {
  CudaPlan base;                  ///< lanes, accesses, threads; its sweeps and resident loads are those used here
  std::vector<OnlinePair> pairs;  ///< second phases that the first one computes along
  std::vector<std::vector<Fold>> folds;  ///< by phase; none where the phase before computes it along
  std::int64_t slices = 1;               ///< parts of the reduced extent, each with blocks of its own
  std::int64_t slice_length = 0;         ///< positions (vectors) of a slice; the last may have fewer
  std::int64_t cells = 0;                ///< rows: partial states a slice
  std::vector<PartialPlace> partials;
  std::int64_t scratch_bytes = 0;
  std::int64_t meeting_bytes = 0;  ///< static shared memory in which threads exchange states
  std::int64_t teams = 0;          ///< teams of `slices` blocks, all running at once; 0: no team, a launch a meeting
  int ahead = 0;                   ///< rows after the one being written that a team has begun with
  int ring = 1;                    ///< teams, shared residency: slices of a row that a block holds or waits for
  std::int64_t kept_trips = 0;     ///< the same: trips whose data stay; what does not fit is read again
  std::int64_t touched_trips = 0;  ///< teams: trips of the next row that the cache is asked for before a meeting
  std::int64_t held_trips = 0;     ///< the same: trips after those, whose data are held in registers; 0: read again
  std::int64_t parts = 1;          ///< the same: portions of a slice that are waited for one by one
  std::int64_t part_trips = 1;     ///< trips of a portion, a multiple of unroll
  std::int64_t counter_bytes = 0;  ///< teams: scratch in which blocks count arrivals
  int sweeps = 0;                  ///< passes over the data that fold something
  bool stores = false;             ///< and one that writes alone
  std::int64_t offset_of(int reduction, const std::string& suffix) const;
  /// True where a warp of its own meets the team, while the others fold the next row and write the one before.
  bool scouts() const { return teams != 0 && ahead > 0 && !base.columns; }
  /// Static shared memory that is declared for `meeting_bytes`.
  std::int64_t meeting_shared() const { return (meeting_bytes + 7) / 8 * 8; }
  /// Threads of a block, that warp included.
  int block_threads() const { return base.threads + (scouts() ? 32 : 0); }
  /// True where blocks leave this field in scratch. How many elements a team's slice has, all know.
  bool leaves(const FoldField& field) const { return teams == 0 || base.columns || !field.counts; }
  /// Of a team of rows: words of 64 bits in which a block leaves a field, half of each saying of which meeting it is.
  static std::int64_t words_of(const FoldField& field) { return field.bytes > 4 ? 2 : 1; }
  /// Counters of a team, each on a line of its own: a block may come to the next meeting before another has left this.
  static constexpr std::int64_t cooperative_counters = 2, counter_words = 32;
};

/// The genome must hold values of column_genes.
ColumnPlan make_column_plan(const Kernel& kernel, const Device& device, const Genome& genome);

class CudaWriter;
/// What a launch of other kernels over rows or columns begins with: its head, where its threads are (`tid`, `x`, `y`,
/// `group`, `slice`, `from`, `upto`, `live`, `row`), the reductions, and what is stored once a row. Leaves the body
/// open. With slices there must be no reductions.
void write_column_start(const Kernel& kernel, const ColumnPlan& plan, bool stores, CudaWriter& writer);

/// Genes `team` (blocks; 0 is no team) and `ahead`, for kernels of the row schedule as well; none where rows fit a
/// block or not even the whole device. Sizes are such that whole teams fill the device.
std::vector<Gene> cooperative_genes(const Kernel& kernel, const Device& device);
/// Adds the best guesses with teams, if there are any: at the front where no cluster holds a row, which is read twice
/// otherwise, and one at the end where one does. Every gene not a team's is as in `common`. Legal for the column
/// schedule.
void add_cooperative_seeds(const Kernel& kernel, const Device& device, const Genome& common,
                           std::vector<Genome>& seeds);

std::vector<Gene> column_genes(const Kernel& kernel, const Device& device);
/// Empty if legal.
std::string column_illegal(const Kernel& kernel, const Device& device, const Genome& genome);
std::vector<Genome> column_seeds(const Kernel& kernel, const Device& device);
Result<Emitted> emit_column(const Kernel& kernel, const Device& device, const Genome& genome);

}  // namespace planish::codegen::printing
