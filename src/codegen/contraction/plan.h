#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

/// Matrix products on Hopper's tensor cores (`sm_90a`): one tile plan that is data, from which the CUDA text is printed
/// and which the CPU can execute byte by byte. Values only; everything here may be called from any thread.
namespace planish::codegen::contraction {

enum class Operand { a, b };
/// What it is called in the text.
constexpr char letter(Operand operand) {
  return operand == Operand::a ? 'a' : 'b';
}

/// How an operand lies whose rows slide over an array (see ImplicitOperand): plane by plane, each a chunk of 8 columns
/// of every position, 16 bytes a position. Taps are shifts of the positions. What some neighbouring taps read of a
/// chunk is one run of memory, a strip, a little longer than a tile has rows; its k are, chunk by chunk, those taps' 8
/// columns.
struct Im2col {
  Operand operand = Operand::b;
  std::int64_t positions = 0;         ///< of a plane: the operand's rows
  std::int64_t planes = 0;            ///< of one product
  std::int64_t chunks = 0;            ///< of 8 columns, of each tap
  std::vector<std::int64_t> offsets;  ///< by strip of taps: where its first chunk's rows begin, in positions
  int taps = 1;                       ///< of a strip
  int shift = 0;                      ///< between neighbours of them, in positions; not negative
  std::int64_t image = 0;             ///< positions that share one exponent

  /// Positions that a tile of `rows` rows reads of a strip.
  std::int64_t strip(std::int64_t rows) const { return rows + std::int64_t{taps - 1} * shift; }
  /// 16 bytes each, of one part of all of `products`. Behind the planes lie the zeros of a strip: what k beyond the
  /// taps reads. No copy for a tile of `rows` rows reaches beyond.
  std::int64_t places(std::int64_t products, std::int64_t rows) const;
  std::int64_t zeros(std::int64_t products) const { return products * planes * positions; }
};

/// Tiles that hold whole windows of results, which are folded as they are stored (see pooled.h); a window may be all
/// columns. Where the second
/// operand slides, a tile's columns are a few runs of positions of one length, one for each row of a window, along a
/// line: positions that differ in the last dim alone. Where it does not, they are what they are without windows.
struct Folding {
  std::vector<std::int64_t> runs{0};  ///< where they begin, in positions from the first
  std::int64_t window = 1;            ///< neighbouring columns of a run that are folded
  bool in_registers = false;          ///< folded as the tensor core leaves them, not from an exchange
  std::int64_t length = 0;            ///< positions of a line that windows cover
  struct Dim {
    std::int64_t count = 1, step = 0;  ///< so many lines, so many positions apart
  };
  std::vector<Dim> lines;  ///< the last one varies fastest
  std::int64_t line_count() const;
};

/// An operand whose rows are places of a few dims, in tiles that are boxes of these (see boxes.h): dims come in the
/// order in which rows of a tile, and tiles, go through them.
struct Boxed {
  Operand operand = Operand::a;
  struct Dim {
    std::int64_t count = 1;  ///< places
    std::int64_t step = 1;   ///< coordinates from one to the next
    std::int64_t reach = 1;  ///< coordinates that the taps of one span
  };
  std::vector<Dim> dims;  ///< the first one varies fastest
};

/// C[m][n] = Σ_k A[m][k] · B[n][k], several times; both operands come packed (see TilePlan and Im2col), C is written
/// row-major in fp32.
struct Problem {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batches = 1;  ///< so many products
  bool a_batched = true;     ///< false: all of them have the same A
  bool b_batched = true;
  std::optional<Im2col> im2col = {};    ///< of an operand that slides
  std::optional<Folding> folding = {};  ///< of the second operand
  std::optional<Boxed> boxed = {};      ///< of an operand that is not packed; what it has of m or n are its places

  bool has_runs() const { return folding.has_value() && is_implicit(Operand::b); }
  /// Runs of a tile: one of all its columns, unless windows ask for more.
  int runs() const { return has_runs() ? static_cast<int>(folding->runs.size()) : 1; }
  bool is_implicit(Operand operand) const { return im2col && im2col->operand == operand; }
  bool in_boxes(Operand operand) const { return boxed && boxed->operand == operand; }
  /// Whether it is another one in the next product.
  bool moves(Operand operand) const { return batches > 1 && (operand == Operand::a ? a_batched : b_batched); }
};

/// How products of 16-bit operands become the answer.
enum class Scheme {
  plain,   ///< one product, summed in the tensor core
  single,  ///< the same of fp32 operands rounded to fp16, scaled by powers of two
  split,   ///< x = hi + lo·2⁻¹¹ in fp16: hi·hi promoted into fp32 sums, hi·lo + lo·hi in an accumulator of their own
  joint,   ///< x = hi + lo, all three in one accumulator: for sums that are short, or taken out of it often
  chosen,  ///< packed as split, for weights that are finite and may be one: what is beneath hi and lo is zero
};

enum class Element { f16, bf16 };

/// How an operand comes into shared memory.
enum class LoadMode {
  packed,      ///< by bulk copies of what was packed before
  along_k,     ///< as it lies in memory, which runs along k: 16 bytes of a row at a time
  along_rows,  ///< the same where memory runs along its rows: 8 of them at a time
  strips,      ///< fp32 that slides, element by element, split or rounded on its way (see strip_reader.h)
  registers,   ///< fp32 as it lies, along k, by tensor maps; who multiplies splits it in registers (first operand only)
};

/// One way to run a product. Lengths in elements.
///
/// Operands lie in slabs of bk columns of all rows, in memory and in shared memory alike: groups of 8 rows after each
/// other, in a group chunks of 8 columns after each other, in a chunk its 8 rows of 16 bytes. A tile's rows of a slab
/// are contiguous, so that one bulk copy brings them, and are what the tensor core reads without swizzling. Where rows
/// slide, a stage has chunks of strips after each other, and its bk are 8 for each tap of each of them; if these are an
/// odd number, 8 more, which are zeros.
///
/// An operand that is not packed lies in shared memory in rows of 128 bytes, swizzled as the tensor core undoes it: 64
/// k of a row, 64 columns after the other, or 64 rows of a k. One that is split in registers has 32 k of a row in these
/// 128 bytes. A thread reads four of them at once, of which the tensor core takes two pairs for pairs of k that are 8
/// apart: the other operand is packed in that order of k (see slot_of).
struct TilePlan {
  int bm = 128;
  int bn = 128;
  int bk = 64;         ///< 32, 64 or 128; of strips what they come to
  int consumers = 2;   ///< warpgroups that multiply, 64 rows each; one more feeds them
  int stages = 3;      ///< places for bk columns of both operands
  int promote_k = 64;  ///< k after which a split scheme's sum leaves the tensor core
  Scheme scheme = Scheme::split;
  Element element = Element::f16;
  int raster = 8;     ///< rows of tiles that are walked together
  int split_k = 1;    ///< parts of k that are summed by different blocks, each into a C of its own
  int blocks = 1;     ///< of a multiprocessor at once: one stores its tile while others multiply
  int ping_pong = 0;  ///< 1: consumers have tiles of 64 rows each, in turn: others store while one multiplies
  int exchange = 32;  ///< columns of results that threads hand each other at once: 32, 64, 128 or 256
  int strips = 0;     ///< of a stage of an operand that slides (see with_strips)
  int strip_chunks = 0;
  LoadMode load_mode_a = LoadMode::packed;
  LoadMode load_mode_b = LoadMode::packed;
  /// What comes into shared memory once a block: 1: the second operand, of which a tile has all rows; 2: the first
  /// one's rows of all of the block's tiles, which are those of one row of tiles.
  int stationary = 0;
  int overlap = 0;     ///< columns that a tile has of the next one's, so that results leave in whole sectors
  int maps = 0;        ///< 1: operands that are not packed come by tensor maps, 0: by a warpgroup's own copies
  int rounds = 0;      ///< chunks of strips that a thread reads of a stage (see with_strips)
  int spin_limit = 0;  ///< polls of a barrier before the kernel traps; 0: for ever

  bool operator==(const TilePlan&) const = default;
};

/// What an operand's shared memory looks like to the tensor core: the fields of a wgmma matrix descriptor, in bytes.
struct Descriptor {
  int start = 0;    ///< from the beginning of the stage
  int leading = 0;  ///< between neighbours along k of 8 rows × 16 bytes
  int stride = 0;   ///< between groups of 8 rows
  /// Rows of 128 bytes, swizzled. Where memory runs along rows, `leading` is between groups of 64 rows and `stride`
  /// between groups of 8 k; where it runs along k, `leading` says nothing.
  bool swizzled = false;

  bool operator==(const Descriptor&) const = default;
};

/// The constant half of the 64 bits; the start address, divided by 16, is added by whoever knows it.
std::uint64_t encode(const Descriptor& descriptor);

/// One copy of a stage: a tile's rows of one slab, or one chunk of a strip where they slide.
struct Copy {
  Operand operand = Operand::a;
  int part = 0;    ///< 0: hi, 1: lo
  int target = 0;  ///< bytes from the stage's beginning
  int bytes = 0;
  int chunk = 0;  ///< of the stage's strips
  int run = 0;    ///< of the tile (see Folding)
};

/// One tensor-core instruction of a stage.
struct Step {
  int accumulator = 0;  ///< 0: hi·hi (or the only one), 1: the small products
  int k = 0;            ///< first of its 16 k within the stage
  int a_part = 0;
  int b_part = 0;
};

int parts(const TilePlan& plan);                       ///< 1, or 2 where operands are split
bool scales(const TilePlan& plan);                     ///< operands that are packed are multiplied by powers of two
int accumulators(const TilePlan& plan);                ///< sets of registers that the tensor core adds to
bool promotes(const TilePlan& plan);                   ///< sums leave the tensor core every promote_k
int tile_rows(const TilePlan& plan, Operand operand);  ///< bm or bn
/// Places of each dim that a tile of the boxed operand has: those that leave the fewest places outside, and of these
/// the ones that read the fewest elements twice. Empty where a tile of so many rows is no box.
std::vector<int> box_of(const Problem& problem, const TilePlan& plan);
/// Rows of all tiles of the boxed operand, places outside included; expects that there are such boxes.
std::int64_t rows_in_boxes(const Problem& problem, const TilePlan& plan);
int most_overlap(int columns);        ///< that a tile of so many may share
int tile_step(const TilePlan& plan);  ///< columns from one tile to the next
/// Columns of a run of a tile, and how many of these, whole windows, are its own: the rest is computed and dropped.
int run_columns(const Problem& problem, const TilePlan& plan);
int run_step(const Problem& problem, const TilePlan& plan);
/// The fewest columns that a tile may have, and 16 at least.
int least_columns(const Problem& problem);
/// Tiles of a line (see Folding).
std::int64_t line_tiles(const Problem& problem, const TilePlan& plan);
LoadMode load_mode(const TilePlan& plan, Operand operand);
/// Whether a tile of so many rows comes in whole rows of 128 bytes, or packed.
bool fits(LoadMode load_mode, int rows);
bool reads(const TilePlan& plan);   ///< whether there are operands that are not packed
bool brings(const TilePlan& plan);  ///< whether threads copy them
/// Whether these are fp32, which the threads split on their way: rows are then not scaled.
bool converts(const TilePlan& plan);
/// Whether those who multiply do, of the first operand: its rows are not scaled either.
bool splits_in_registers(const TilePlan& plan);
/// Whether strips are read where they lie: rows are multiplied by 2^-strip_exponent then.
bool reads_strips(const TilePlan& plan);
constexpr int strip_exponent = -7;
/// Whether a block has to say that it met rows that must be scaled.
bool needs_fallback(const TilePlan& plan);
/// Where column `k` of the second operand is packed. Of 32 columns, where the first operand is split in registers, the
/// i-th pair of each eight lie beside each other.
std::int64_t slot_of(const TilePlan& plan, std::int64_t k);
/// Chunks of 8 elements of a stage that a thread of the producer splits, of one operand.
int chunks_converted(const TilePlan& plan, Operand operand);
/// Stages that the producer asks for before it says that the first of them is there; of operands that are not packed.
int stages_under_way(const TilePlan& plan);
/// The plan with so many strips and chunks a stage that its bk is near what it is and few zeros are multiplied, and
/// with promote_k a multiple of that, and with the rounds that it takes to read them; as it is where nothing slides.
TilePlan with_strips(const Problem& problem, TilePlan plan);
int stage_bytes(const Problem& problem, const TilePlan& plan);
/// Of a stage: what the copy engine brings, all but what stays zero.
int copied_bytes(const Problem& problem, const TilePlan& plan);
/// Where a stage's zeros lie, that no copy brings, and how many bytes; 0: there are none.
struct Zeros {
  int target = 0, bytes = 0;
};
Zeros zeros_of(const Problem& problem, const TilePlan& plan, int part);
/// Where each warp of a consumer leaves 8 rows of `exchange` columns for its threads, fp32, behind the stages and
/// barriers, so that neighbouring threads store neighbouring columns, and a row's runs follow each other: memory takes
/// runs of 1 KiB 1.3 times as fast as the same in pieces of 128 bytes row by row (see docs/results/contraction.md).
int exchange_offset(const Problem& problem, const TilePlan& plan);
int exchange_floats(const TilePlan& plan);  ///< of each warp
/// Between rows of an exchange, in floats: pairs of columns of 4 rows meet in no bank.
int exchange_pitch(const TilePlan& plan);
/// The plan with the widest exchange, at most a tile's columns, for which there is room.
TilePlan with_exchange(const Problem& problem, TilePlan plan, std::int64_t shared_limit);
/// Where one tile has all columns, and these their own powers of two: 4 bytes each, behind the exchange, that a block
/// reads once; 0 elsewhere.
int column_scale_bytes(const Problem& problem, const TilePlan& plan);
int column_scale_offset(const Problem& problem, const TilePlan& plan);
/// Dynamic shared memory of a block, barriers and alignment included.
int shared_bytes(const Problem& problem, const TilePlan& plan);
int threads(const TilePlan& plan);
int producer_registers(const TilePlan& plan);  ///< a thread, of the 64 Ki that blocks share
int consumer_registers(const TilePlan& plan);  ///< the same, of who multiplies
/// Whether sums leave the tensor core more than once a tile, so that they are added up in registers of their own.
bool adds_up(const Problem& problem, const TilePlan& plan);
int accumulator_registers(const TilePlan& plan);  ///< fp32 registers of one set, a thread
int part_offset(const Problem& problem, const TilePlan& plan, Operand operand, int part);  ///< in a stage, bytes

/// Where element (row, k) lies in a packed operand of `rows` rows (a multiple of the tile's), in bytes.
std::int64_t place_in_operand(const TilePlan& plan, std::int64_t rows, std::int64_t row, std::int64_t k);
/// For rows that begin `row` rows into the tile, or into one of its runs.
Descriptor descriptor_of(const Problem& problem, const TilePlan& plan, Operand operand, int part, int row, int k,
                         int run = 0);
std::vector<Copy> copies_of(const Problem& problem, const TilePlan& plan);
/// Where one tile has all columns, which every product shares: what the second operand then is to every tile.
bool has_one_column_tile(const Problem& problem, const TilePlan& plan);
/// The operand that is stationary, if one is.
std::optional<Operand> stationary_operand(const TilePlan& plan);
/// Rows of tiles, each of which some blocks have for good where the first operand is stationary.
std::int64_t rows_of_tiles(const Problem& problem, const TilePlan& plan);
/// Blocks that have work, of a device that holds `resident` at once.
std::int64_t blocks_of(const Problem& problem, const TilePlan& plan, std::int64_t resident);
/// Bytes from one stage to the next, less than stage_bytes where an operand is stationary: that lies behind all stages,
/// each slice of bk columns as it would be in a stage, were it alone in it.
int stage_step(const Problem& problem, const TilePlan& plan);
int slice_bytes(const Problem& problem, const TilePlan& plan);  ///< of what is stationary
std::int64_t stationary_bytes(const Problem& problem, const TilePlan& plan);
/// In the order of issue. Those of one accumulator that follow each other are one group.
std::vector<Step> steps_of(const TilePlan& plan);

/// Row and column of C, within a consumer's tile, that register `index` of `thread` (of 128) holds.
struct Place {
  int row = 0;
  int column = 0;
};
Place fragment(int thread, int index);

/// Extents of packed operands and of the walk over them.
struct Extents {
  std::int64_t rows_a = 0;  ///< m, up to whole tiles
  std::int64_t rows_b = 0;
  std::int64_t depth = 0;  ///< k, up to whole stages (promotions) of every part; zeros beyond k
  std::int64_t tiles = 0;  ///< of all products and parts of k
};
Extents extents_of(const Problem& problem, const TilePlan& plan);

/// `illegal_plan`, naming the field and its rule, where the plan cannot be emitted for a device with `shared_limit`
/// bytes a block.
Status check(const Problem& problem, const TilePlan& plan, std::int64_t shared_limit = 232448);

/// "bm=128 bn=128 …" and back; `bad_plan` names what was not understood. Fields that are left out keep their defaults.
std::string to_text(const TilePlan& plan);
Result<TilePlan> from_text(const std::string& text);

}  // namespace planish::codegen::contraction
