#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/emit/cuda_access.h"
#include "codegen/emit/cuda_pattern.h"
#include "codegen/emit/cuda_strip.h"
#include "codegen/emit/expression.h"
#include "codegen/genome.h"
#include "codegen/kernel.h"

/// A genome applied to a kernel: every number that the CUDA emitter and the legality check need. Pure; thread-safe.
namespace planish::codegen::printing {

/// Values of the gene `residency`: where a row's data stay between sweeps.
enum class Residency : std::uint8_t { reread = 0, registers = 1, shared = 2 };

/// A load that the copy engine brings (see cuda_stages.h). Its part of a row takes `capacity` bytes of a stage.
struct Stream {
  int load = 0;
  bool held = false;             ///< the same for all rows: brought once, lies behind the stages (offset from there)
  std::int64_t align = 1;        ///< elements: copies start at a multiple
  std::int64_t offset = 0;       ///< bytes into a stage
  std::int64_t front_bytes = 0;  ///< room before the copy, for lanes that lie outside the row
  std::int64_t capacity = 0;     ///< bytes a row
};

/// How the last sweep of a row kernel puts elements together that it folds rather than stores (see cuda_pieces.h).
struct Pieces {
  int lanes = 0;           ///< neighbouring threads whose vectors are one piece; 0: nothing can be folded
  std::int64_t turns = 1;  ///< vectors of each that are, `step` apart
  std::int64_t step = 0;
  std::int64_t count = 0;  ///< pieces of a row
};

struct CudaPlan {
  bool row = false;      ///< row anchor
  bool columns = false;  ///< row anchor whose contiguous variable is an outer one: threads lie across rows
  bool wide = false;     ///< 64-bit indices
  int threads = 256;
  int unroll = 1;   ///< vectors in flight a thread
  int rows = 1;     ///< rows a block (row), vectors of columns a block (columns)
  int across = 1;   ///< threads of a block that share one row; threads = rows · across
  int cluster = 1;  ///< blocks that share one row
  int min_blocks = 1;
  bool stream_loads = false, stream_stores = false;
  std::int64_t persistent = 0;  ///< pointwise: blocks in a grid-stride launch; 0 = one tile a block
  Residency residency = Residency::reread;
  bool fast = false;                 ///< approximations of the machine for exp, division, …
  bool near = false;                 ///< a form for small arguments where all of a chunk's are small
  bool narrow = false;               ///< every output has 16 bits
  std::vector<OnlinePair> online;    ///< pairs computed in the leader's sweep
  std::int64_t persistent_rows = 0;  ///< rows (groups of `rows`) that a block or cluster does one after the other, the
                                     ///< next one's data arriving in the place of what was just written; 0 = one
  std::int64_t parts = 1;            ///< shared residency: portions of a row waited for one by one
  std::int64_t part_trips = 1;       ///< trips of a portion, a multiple of unroll
  bool push = false;               ///< blocks of a cluster write to each other, each waiting for its own barrier alone
  int stages = 0;                  ///< rows that a persistent block holds, at hand or arriving; 0 = not persistent
  std::int64_t kept_trips = 0;     ///< shared residency: trips whose data stay, where the row is larger; 0 = all
  bool partial_residency = false;  ///< asks for that
  int grain = 1;                   ///< shifted rows: vectors start where the tensor has a multiple of so many elements
  int front = 0;                   ///< shifted rows: vectors at a row's begin that it may cut
  bool realign = false;            ///< shifted rows: unaligned vectors come as the aligned units they lie across
  bool reverse = false;            ///< the sweep that writes begins at the row's end, which was read last
  bool operand_residency = false;  ///< stages: what all rows share stays in shared memory
  std::vector<Stream> streams;     ///< what arrives so
  std::int64_t stage_bytes = 0;    ///< shared memory of one stage
  std::int64_t chunk = 0;          ///< stages: vectors of a row that a block of the cluster takes, side by side
  std::vector<int> inner_domain;   ///< the inner variables
  int predication = 0;             ///< gene: what is masked is loaded all the same (0), or not (1), nor computed (2)
  int raster = -1;                 ///< outer variable that runs fastest over the rows; -1: the last
  int tile = 0;  ///< pointwise: side of the square that transposed loads go through shared memory in; 0 = none
  int tile_variable = -1;   ///< the variable those loads are contiguous in
  std::vector<int> staged;  ///< those loads
  bool strips_wanted = false;
  /// Pointwise: outputs below each other that one thread computes. Where it is more than one, all of the plan is said
  /// of the kernel in PlanFacts::stepped(), whose outputs have these pointers, and exist where these bounds hold.
  int down = 1;
  std::vector<int> output_of;
  std::vector<std::optional<ir::Bound>> inside;
  std::vector<Strip> strips;  ///< pointwise: loads that share what they read
  std::vector<int> strip_of;  ///< by node: its strip, or -1

  Lanes lanes;
  int width = 1;            ///< lanes.width
  bool shifted = false;     ///< rows may start off the vector grid: head and tail vectors are partial
  bool partial = false;     ///< some vector of a row is partial (shifted, or length not a multiple of width)
  std::int64_t length = 0;  ///< elements a row (row), rows a column (columns), elements in all (pointwise)
  std::int64_t vectors =
      0;                    ///< positions swept by the threads of a row: vectors (row, pointwise) or elements (columns)
  std::int64_t trips = 0;   ///< positions a thread (the array length of register residency)
  std::int64_t groups = 0;  ///< blocks before the cluster factor
  std::int64_t grid = 0;

  std::vector<Place> places;                  ///< by node
  std::vector<bool> lane;                     ///< by node: differs between the lanes of a vector
  std::vector<bool> swept;                    ///< by node: a load that is issued in the load phase of a sweep
  std::vector<Access> loads;                  ///< by node
  std::vector<int> vector_of;                 ///< by node: the load whose vector it shares, itself where none
  std::vector<Access> stores;                 ///< by output
  std::vector<std::vector<int>> sweeps;       ///< by sweep (phases, then stores): nodes it needs, ascending
  std::vector<int> store_sweep;               ///< by output: see store_sweeps()
  std::vector<std::vector<Condition>> needs;  ///< by node: when its load may not be left out; empty: always
  std::optional<VectorPredicate> predicate;   ///< vectors that it hides take a shorter way through the arithmetic
  std::vector<int> asked;                     ///< swept loads that decide which others are needed
  std::vector<int> resident;                  ///< loads kept on chip
  std::vector<std::int64_t> shared_offset;    ///< by position in `resident`, bytes into dynamic shared memory
  std::int64_t dynamic_shared = 0, static_shared = 0;
  int registers = 0;  ///< estimate
  Pieces pieces;      ///< row kernels: of what is folded in the last sweep
  int least = 0;      ///< registers below which a thread surely spills: the compiler may load later what `registers`
                      ///< counts as under way

  /// Bytes that a thread loads for one vector of this load; of a strip, with its first load.
  int vector_bytes(const Kernel& kernel, int load) const;
  /// Outputs that a sweep stores.
  std::vector<int> stored_in(int sweep) const;
  /// True for a load that decides which others are needed.
  bool asks(int load) const { return std::ranges::binary_search(asked, load); }
  /// True where a block does several rows, so that what threads exchange alternates between two sets of slots.
  bool takes_turns() const { return persistent_rows != 0 || stages != 0; }
  /// True where every warp of a cluster writes to the other blocks; otherwise every block does.
  bool warps_push() const { return push && across > 32 && across / 32 * cluster <= 32; }
  /// Vectors of a shifted row that its ends may cut: those at the front, as many at the back and the last, and one
  /// more, behind which all that a load of whole 16-byte units looks at lies inside the row.
  std::int64_t cut_vectors() const { return 2 * std::int64_t{front} + 2; }
  /// Values of one kind that a block of a cluster gets.
  int pushers() const { return warps_push() ? across / 32 * cluster : cluster; }
  /// The pair whose leader (follower) is this reduction, or nullptr.
  const OnlinePair* led_by(int reduction) const;
  const OnlinePair* followed_by(int reduction) const;
  /// True where the reductions of this phase are computed in the sweep before.
  bool merged(const Kernel& kernel, int phase) const;
};

/// Longest chain of additions before a partial sum is put aside: keeps long rows as accurate as a pairwise sum.
constexpr std::int64_t longest_chain = 256;

/// Widest element among what is loaded or stored for each point, bytes.
int widest(const Kernel& kernel);
/// Row kernels: true where memory runs along the last outer variable rather than along the inner ones.
bool prefers_columns(const Kernel& kernel);
/// Pointwise: the variable, other than the last, that some strided loads are contiguous in, and these loads; -1 if
/// there are none.
std::pair<int, std::vector<int>> transposed_loads(const Kernel& kernel);
/// Loads of a row kernel that the copy engine can bring: contiguous in the order of the row, unconditional. Either
/// those that differ from row to row, or those that all rows share.
std::vector<int> streamable(const Kernel& kernel, bool shared_by_rows);
/// True where rows of vectors of `vector` bytes do not all begin at a line of 128 bytes.
bool off_lines(const Kernel& kernel, const Device& device, std::int64_t vector);
/// True where a row kernel with vectors of `vector` bytes has loads that lie otherwise than its rows do.
bool lies_across(const Kernel& kernel, const Device& device, std::int64_t vector);
/// True where some loads of a pointwise kernel lie beside each other.
bool has_neighbours(const Kernel& kernel);
/// True where, on this device, some of them form strips.
bool reads_strips(const Kernel& kernel, const Device& device);
/// Bytes of a strip's elements that some lane takes.
std::int64_t used_bytes(const Kernel& kernel, const Strip& strip, int width);
CudaPlan make_plan(const Kernel& kernel, const Device& device, const Genome& genome);

struct Stepped;
class StepsMade;

/// What make_plan() and the legality check need of a kernel whatever the genome: finding it takes longer than the rest.
struct PlanFacts {
  explicit PlanFacts(const Kernel& kernel);
  bool columns = false;               ///< prefers_columns()
  bool wide = false;                  ///< 64-bit indices
  int widest = 1;                     ///< widest()
  std::optional<ir::IndexExpr> base;  ///< row kernels: the part outside the rows that most accesses have
  std::vector<Place> places;
  std::vector<int> own_streams, shared_streams;  ///< streamable()
  std::vector<OnlinePair> pairs;                 ///< online_pairs()
  std::vector<std::vector<Condition>> needs;     ///< needed_when()
  std::vector<int> asked;                        ///< asked_by()
  std::optional<VectorPredicate> predicate;      ///< vector_predicate(), where a row is swept
  std::vector<int> store_sweep;                  ///< store_sweeps(), where every phase has a sweep
  std::vector<int> store_sweep_online;           ///< the same where followers of `pairs` have none
  /// What the gene `down` makes of `kernel`, which these facts are of; nullptr where it is 1 or cannot be had. Lives as
  /// long as these facts. Thread-safe.
  const Stepped* stepped(const Kernel& kernel, const Genome& genome) const;
  std::shared_ptr<StepsMade> steps;
};
/// The same with the kernel's facts at hand.
CudaPlan make_plan(const Kernel& kernel, const PlanFacts& facts, const Device& device, const Genome& genome);

}  // namespace planish::codegen::printing
