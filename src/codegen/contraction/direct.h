#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/contraction/contraction.h"
#include "codegen/contraction/plan.h"
#include "codegen/kernel.h"

/// Factors that main loops read where they lie, 8 elements at a time, instead of packed ones: nothing is computed of
/// their elements, and memory runs along k or along rows in whole, aligned chunks of 8. Those of fp32 are split on
/// their way, which pays where they are read but a few times. Pure; thread-safe.
namespace planish::codegen::contraction {

class PlaceWriter;

struct Direct {
  LoadMode load_mode = LoadMode::along_k;
  int input = -1;       ///< of the kernel
  ir::IndexExpr row;    ///< of the element at k = 0, over the variables of the factor's rows and of the batch
  ir::IndexExpr depth;  ///< what k adds
};

/// The load whose elements the factor has, if that is all that it is: fp32, or 16 bits of which it may be a cast.
const Node* plain_load(const Kernel& kernel, int factor);

constexpr std::size_t most_map_dims = 5;  ///< of a tensor map

/// Of a place that is found by its row and its k apart: the terms of the variables of the sum, and the others.
std::pair<ir::IndexExpr, ir::IndexExpr> parted(const ir::IndexExpr& index, const std::vector<int>& sum);

/// A dim of a tensor map, the first of which memory runs along.
struct MapDim {
  std::int64_t extent = 1, box = 1, step = 1;  ///< coordinates; a copy brings each `step`th of `box`
  std::int64_t stride = 0;                     ///< bytes, of all dims but the first
};
/// `map_a(map, a)` of print_boxes(), for a tensor that begins `begin` bytes behind `a`.
void print_map(PlaceWriter& writer, const TilePlan& plan, Operand operand, std::int64_t begin,
               const std::vector<MapDim>& dims);

/// Nothing where the factor has to be packed.
std::optional<Direct> direct_of(const Kernel& kernel, const Contraction& contraction, Operand operand);

/// `row_a(batch, row)` and `depth_a(k)` (of b: `_b`), whose sum is where a chunk of 8 elements begins, in chunks.
std::string print_places(const Kernel& kernel, const Contraction& contraction, Operand operand, const Direct& direct);

/// Whether a tile of the factor is a box of a tensor of at most five dims: its rows and its k are one variable each.
bool is_box(const Contraction& contraction, Operand operand, const Direct& direct);

/// Functions of one thread, of a producer that has tensor maps, for such an operand:
///
/// - `map_a(map, a)`: makes the 128 bytes at the shared address `map`, which are zeros, a map of the operand at `a`.
/// - `fetch_a(to, map, product, row, k, barrier)`: asks for the tile's columns k … k + bk, zeros where there is
///   nothing, as the part of a stage that begins at the address `to`.
std::string print_boxes(const Kernel& kernel, const Contraction& contraction, const TilePlan& plan, Operand operand,
                        const Direct& direct);

/// Functions of one of the 128 threads of a producer, for such an operand of a tile:
///
/// - `find_a(at, product, row, thread)`: the rows of a tile that begins at `row`, as places; -1 where there is none.
/// - `bring_a(to, a, at, k, thread)`: copies the tile's columns k … k + bk into the part of a stage that begins at
///   the address `to`, zeros where there is nothing.
///
/// `at` is an array of bringing_places() ints. Expects print_places()'s functions and `cp_async_if(to, from, there)`.
/// Where the plan converts(), in place of bring_a():
///
/// - `load_a(v, a, at, k, thread)`: reads the thread's chunks of these columns into registers, zeros where there is
///   nothing.
/// - `put_a(to, v, top, thread)`: writes both parts of them, and raises `top`, bits of the largest magnitudes by
/// row.
/// - `flag_a(top, fallback)`: sets `*fallback` if one of these is not fits_unscaled(), and clears them.
std::string print_bringing(const Problem& problem, const TilePlan& plan, Operand operand);
int bringing_places(const TilePlan& plan, Operand operand);
int splitting_tops(const TilePlan& plan, Operand operand);

}  // namespace planish::codegen::contraction
