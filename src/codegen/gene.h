#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Genes: what the decisions of a schedule are called, and what is known of each whatever the kernel. Everything that
/// treats genes by what they are about (search's focuses, the judge's moves, schedules that rule each other out) reads
/// it here. Thread-safe.
namespace planish::codegen {

/// One decision: its name and the values it may take for this kernel and device, in order (neighbours are adjacent).
/// The first is the default: what a genome means that was stored before the gene existed.
struct Gene {
  std::string name;
  std::vector<std::int64_t> choices;
};

/// Gene name → chosen value. Ordered, so that text and hash are canonical.
using Genome = std::map<std::string, std::int64_t, std::less<>>;

/// What a gene is about. A prior of search only: what pays is learned.
enum class GeneKind : std::uint8_t {
  tensor,     ///< precision schemes and shapes of matrix instructions
  vector,     ///< width, order and alignment of accesses
  registers,  ///< unrolling, blocks asked for, tiles a thread
  tile,       ///< tiles of a block, threads, warps
  residency,  ///< what stays on chip between passes
  split,      ///< who shares the work: splits, clusters, teams, persistent blocks
  pipeline,   ///< stages, prefetching, walking
  cache,      ///< hints, streaming stores, order of sweeps
  algorithm   ///< another way to compute the same
};
inline constexpr int gene_kinds = 9;
std::string_view name(GeneKind kind);

/// What would have to change for a judge's issue to go away.
enum class Aim : std::uint8_t {
  fewer_registers,    ///< a thread, so that more blocks are resident
  more_registers,     ///< room for the compiler, so that nothing is spilled
  less_shared,        ///< bytes a block
  more_in_flight,     ///< bytes asked for before anything is waited for
  more_blocks,        ///< independent pieces of work
  even_waves,         ///< the last wave of blocks as full as the others
  less_traffic,       ///< the same bytes moved fewer times
  wider_access,       ///< bytes of one access
  less_arithmetic,    ///< instructions for the same result
  less_coordination,  ///< threads or blocks that wait for each other
  more_exact,         ///< rounding as the task has it
  inside_bounds,      ///< fewer pieces that reach over the end of the data
};

/// That a gene serves an aim: when its value grows (+1), falls (−1), or is another one (0).
struct GeneEffect {
  Aim aim;
  int direction;
  double part;  ///< of what reaching the aim is worth
};

/// The effects of one gene: as few as they are, they need no memory of their own.
class GeneEffects {
 public:
  constexpr GeneEffects(std::initializer_list<GeneEffect> effects) : count_(effects.size()) {
    std::ranges::copy(effects, all_.begin());
  }
  constexpr const GeneEffect* begin() const { return all_.data(); }
  constexpr const GeneEffect* end() const { return all_.data() + count_; }
  constexpr bool empty() const { return count_ == 0; }

 private:
  std::array<GeneEffect, 9> all_{};  ///< a longer list does not compile
  std::size_t count_;
};

/// What a gene is to a cooperative group of blocks that owns a row.
enum class InCooperative : std::uint8_t {
  known,    ///< means the same
  own,      ///< says how the team works
  foreign,  ///< stays at its default
};

struct GeneInfo {
  std::string_view name;
  GeneKind kind;
  std::string_view decides;  ///< for people
  GeneEffects effects;
  InCooperative in_cooperative = InCooperative::known;
  bool in_triton = false;   ///< means the same there; all others stay at their default
  bool seeds_only = false;  ///< tried as a seed, not drawn
};

/// Names of all genes, in the order of gene_catalogue(). Equal gains of moves are in this order.
inline constexpr std::array<std::string_view, 53> gene_names{"exchange",
                                                             "threads",
                                                             "vector",
                                                             "unroll",
                                                             "cluster",
                                                             "persistent_rows",
                                                             "residency",
                                                             "rows",
                                                             "fast",
                                                             "bits",
                                                             "tile",
                                                             "stages",
                                                             "split",
                                                             "operand_residency",
                                                             "min_blocks",
                                                             "persistent",
                                                             "nt",
                                                             "online",
                                                             "predication",
                                                             "buffer",
                                                             "panel",
                                                             "hints",
                                                             "raster",
                                                             "chunk",
                                                             "vary",
                                                             "stencil_reuse",
                                                             "down",
                                                             "realign",
                                                             "partial_residency",
                                                             "lines",
                                                             "reverse",
                                                             "cooperative",
                                                             "pipeline_depth",
                                                             "prefetch",
                                                             "register_residency",
                                                             "grid_split",
                                                             "across",
                                                             "trips",
                                                             "blocks",
                                                             "language",
                                                             "tile_m",
                                                             "tile_n",
                                                             "tile_k",
                                                             "promote",
                                                             "passes",
                                                             "pingpong",
                                                             "direct",
                                                             "swap_operands",
                                                             "stationary",
                                                             "weave",
                                                             "overlap",
                                                             "wavefront",
                                                             "multicast"};

std::span<const GeneInfo> gene_catalogue();
/// Null for a name that no schedule has: another coder's gene.
const GeneInfo* find_gene(std::string_view name);
/// Of a gene that is not in the catalogue: known.
InCooperative in_cooperative(std::string_view name);

/// A gene's name as the compiler has checked it: one that is not in the catalogue does not compile.
struct GeneName {
  std::string_view text;
  consteval GeneName(const char* name) : text(name) {  // NOLINT(google-explicit-constructor): literals are names
    if (std::ranges::find(gene_names, text) == gene_names.end()) throw "no gene has this name";
  }
};

/// The value that a genome has for a name; `otherwise` where it has none.
inline std::int64_t value_of(const Genome& genome, std::string_view name, std::int64_t otherwise) {
  const auto it = genome.find(name);
  return it == genome.end() ? otherwise : it->second;
}
/// The same of a gene named in the code.
inline std::int64_t gene(const Genome& genome, GeneName name, std::int64_t otherwise) {
  return value_of(genome, name.text, otherwise);
}
/// The gene of this name among some; null where there is none.
const Gene* find_gene(const std::vector<Gene>& genes, std::string_view name);

}  // namespace planish::codegen
