#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/emit/cuda_plan.h"
#include "codegen/emit/expression.h"

/// Prints the pieces that pointwise and row kernels share: coordinates, load phases, element loops and stores of one
/// vector.
///
/// Names in the printed text: `d3` coordinate common to all lanes (of lane 0 along the stepped variable), `e0` flat
/// position of lane 0, `j` lane, `l3` a lane's own coordinate, `in2`/`out0` pointers, `r7` what load node 7 brought,
/// `s3` strip 3, `v9` the value of node 9, `red1` a reduction.
namespace planish::codegen::printing {

class CudaWriter : public Speller {
 public:
  CudaWriter(const Kernel& kernel, const CudaPlan& plan) : kernel_(kernel), plan_(plan) {}

  std::string out;  ///< the text so far
  /// The value of a `scanned` node, in its dtype; set by whoever prints scans.
  std::function<std::string(int id)> running;

  /// Appends one line, indented.
  void line(std::string_view text);
  void open(std::string_view text);
  void close(std::string_view tail = "");
  /// A body for the trips [lo, hi) of each of a row's portions, which are asked and waited for one by one.
  void portions(std::int64_t count, std::int64_t trips, std::int64_t trips_each,
                const std::function<void(const std::string& lo, const std::string& hi)>& body);

  /// `#define`-free head: types, pointers, launch bounds; leaves the body open.
  void function_head();
  /// Coordinates of `variables` from the linear position `linear`; `stepped` counts in vectors of the plan's width.
  void decode(std::string_view linear, std::span<const int> variables, int stepped);
  /// How far a row begins past a multiple of the width, where rows are read shifted.
  void shift();
  /// Where a thread keeps the nodes that stay resident.
  void keepers();
  std::string literal_index(std::int64_t value) const;

  /// How `r7` is spelled for a load: "R7[k0 + u]". Empty: "r7[u]".
  std::string place_of(int load) const;
  bool is_resident(int load) const;
  std::string pack_type(int load) const;

  /// Loads of one vector into their places. `guard`: the condition under which all lanes are inside, empty if always.
  void load_vector(std::span<const int> loads, std::string_view guard, bool to_shared);
  /// Prints "bool n7 = …;" for a load that may be left out: true where a lane needs it. Returns its name, or
  /// empty.
  std::string need(int load);
  /// "near2": what strip 2 and those whose places differ from its by constants count from.
  void near_strips();
  /// Type of strip `s3`, and its loads into `s3[u]`, behind near_strips().
  std::string strip_type(int strip) const;
  void load_strip(int strip);
  /// The text of bounds at the current coordinates.
  std::string condition(std::span<const ir::Bound> bounds) const;
  /// Nodes that all lanes share, then the loop over lanes with its nodes and `body` appended inside.
  void compute(std::span<const int> nodes, std::string_view body);
  /// "t7[y * 33 + x] = …;": one element of a staged load at the current coordinates.
  void stage(int load);
  /// Store of output o from `o0`; `guard` as for loads.
  void store_vector(int output, std::string_view guard);
  /// What a thread has of the pieces at hand, where a sweep folds some of its outputs `stored`: before its loops.
  void begin_pieces(std::span<const int> stored);
  /// Declares what loads of the chunk at hand bring, and sets `chunk_loads`; gives the others, which have a value for
  /// each vector.
  std::vector<int> begin_loads(std::span<const int> loads);
  /// "o0.x[j] = …;" for an output.
  std::string set_lane(int output);
  /// Condition that lane j lies inside the row, empty if always.
  std::string lane_inside() const;

  /// True where vectors at hand that would be resident elsewhere are held in registers.
  bool is_held(int load) const;

  std::string load(const Kernel& kernel, int id) override;
  std::string reduced(const Kernel& kernel, int id) override;
  std::string scanned(const Kernel& kernel, int id) override;
  std::string index(const Kernel& kernel, const ir::IndexExpr& e) override;
  std::string function(Op op, bool wide) const override;
  std::string quotient(const Kernel& kernel, int id, std::string_view a, std::string_view b) const override;
  std::string unfused_difference(bool wide, std::string_view a, std::string_view b) const override;
  std::string whole_form(const Kernel& kernel, int id) const override;

  /// Where a load's (a store's) vectors at hand begin, as the text of a pointer; unset or empty: computed on the spot.
  std::function<std::string(int load)> load_pointer;
  std::function<std::string(int output)> store_pointer;

  bool copies_ahead = false;      ///< shared residency: vectors were copied into "s7[u]" rather than "s7"
  std::vector<int> chunk_loads;   ///< loaded once for all vectors of the chunk at hand, ascending
  bool backwards_chunks = false;  ///< the sweep at hand begins at the last chunk
  bool backwards = false;         ///< lanes are computed from the last to the first
  bool whole = false;        ///< every lane of the vectors at hand lies inside the row, with a vector of others behind
  bool reloading = false;    ///< in the part of a row that did not fit on chip: nothing is resident
  int held_from = -1;        ///< resident vectors from this trip of a thread on, those at hand, are held in registers
  bool touches = false;      ///< vectors are asked for into the cache alone
  bool near = false;         ///< the arguments that near_arguments names are within their limits
  bool scalar_tail = false;  ///< width 1, element loads: what a pointwise kernel's last elements use
  int depth = 0;

 private:
  /// Of these loads those that bring one value for all of a chunk, as its vectors lie in one piece.
  std::vector<int> of_chunks(std::span<const int> loads) const;
  /// Puts the vector into its piece, and stores that where it is whole.
  void fold_vector(int output);
  std::vector<std::string> names() const;
  std::string text_of(const ir::IndexExpr& e) const;
  /// The same with its constant apart: of places near each other, one address is computed.
  std::string apart(const ir::IndexExpr& e) const;
  std::string address(const ir::IndexExpr& e, const Access& access) const;
  /// What a gather's arguments add to its offset, and the condition under which they are in range.
  std::string moved(const Node& node) const;
  std::string in_range(const Node& node) const;
  /// Opens a block with the arguments of a gather at hand, which other text may not have made yet, or may have made
  /// for another row. Nothing for other loads.
  void open_places(const Node& node);
  void close_places(const Node& node);
  Access access_of(int load) const;
  /// The first strip whose places differ from this one's by a constant.
  int near_strip(int strip) const;
  /// True where a vector that is not aligned is loaded as the aligned units that it lies across.
  bool realigned(int load, const Access& access) const;
  int width() const { return scalar_tail ? 1 : plan_.width; }
  void lane_head();

  const Kernel& kernel_;
  const CudaPlan& plan_;
  bool in_lane_ = false;
  bool direct_ = false;  ///< loads are printed where they are used
};

/// The shapes of kernels; `writer` has the head printed and the body open.
void write_pointwise(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer);
void write_tiled(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer);
void write_row(const Kernel& kernel, const CudaPlan& plan, CudaWriter& writer);

}  // namespace planish::codegen::printing
