#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/contraction/boxes.h"
#include "codegen/contraction/contraction.h"
#include "codegen/contraction/implicit_operand.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/plan.h"

namespace planish::codegen::contraction {

/// Text of what is done with a contraction's sums, as a function `store_sums` of some rows and columns (see
/// EpilogueVisitor).
struct Epilogue {
  std::string text;         ///< the function
  std::string parameters;   ///< "const float* __restrict__ in2, float* __restrict__ out0": of a kernel that calls it
  std::string arguments;    ///< "in2, out0, "
  std::vector<int> inputs;  ///< which inputs these are, in order; then come all outputs
  bool crowded = false;     ///< see EpilogueVisitor
  bool folds = false;       ///< likewise
  bool stores = true;       ///< likewise
  bool begins = false;      ///< `store_sums` is told where its tile begins, behind the sums
};
/// One without its text, of a kernel whose outputs need `roots`, and what comes before its function.
Epilogue epilogue_of(PlaceWriter& writer, const Kernel& kernel, std::span<const int> roots);
/// Coordinates of a position of what slides, from the expression `linear`; the condition under which it is not one of
/// those behind the last of a dim, empty where there are none.
std::string print_position(PlaceWriter& writer, const ImplicitOperand& implicit, std::string_view linear);
/// Text of `neighbours(sums, r, c, v)`: the sums of columns c, c + 1, …, as many as `v` has, one by one. What holds
/// them beside each other has one of its own (Exchange in sums.cuh).
std::string_view neighbours_text();
/// Text of what epilogues call, for kernels that are nothing else; behind place_prelude().
std::string sums_text();
/// How loads are spelled; epilogue_of() writes it.
std::string_view load_text();
/// The head of its function, whose body the writer is in then.
void open_store(PlaceWriter& writer, const Epilogue& epilogue, std::string_view name = "store_sums");
/// Head of `fold_sums`, likewise (see EpilogueVisitor::folds).
void open_fold(PlaceWriter& writer, const Epilogue& epilogue);

/// How results are computed and stored.
struct StoreForm {
  bool fast = false;        ///< with the machine's approximations and short forms of functions
  bool streaming = false;   ///< results need not stay in the cache
  bool interleave = false;  ///< see can_interleave(); where elements are loaded for each result this is so anyway
  int overlap = 0;          ///< columns that tiles share (see sectors.h), of `step` apart
  int step = 0;
  const BoxPlaces* boxes = nullptr;      ///< where an operand's rows lie in boxes; not owned
  std::string_view name = "store_sums";  ///< of the function
};
Epilogue print_epilogue(const Kernel& kernel, const Contraction& contraction, const ImplicitOperand* implicit = nullptr,
                        StoreForm form = {});

/// Whether neighbouring threads can have neighbouring phases of a stride, through which memory runs before the next
/// place: they then store whole sectors, and each has more places to find.
bool can_interleave(const Kernel& kernel, const Contraction& contraction, const ImplicitOperand* implicit);

/// Columns that tiles would have to share for all results to leave in whole sectors; 0 where they need not, where
/// neighbouring threads would not have neighbours in memory, unless `interleave`, or where other elements are loaded
/// for each result (which took 1.5 times as long then).
int overlap_of(const Kernel& kernel, const Contraction& contraction, const ImplicitOperand* implicit, bool interleave);

/// Whether `fast` changes what is computed of the sums.
bool has_fast_forms(const Kernel& kernel);

/// A kernel that adds the parts of k up, multiplies back where rows were scaled, and does the epilogue. Arguments: the
/// parts (fp32, product · split_k + part), the exponents of both operands where there are some, the epilogue's.
constexpr int joining_threads = 256;  ///< one result each
struct Joining {
  std::string source;
  std::int64_t blocks = 0;
  int threads = joining_threads;
};
/// Of a kernel that multiplies sums back: a pointer for each operand whose rows were scaled.
std::string exponent_parameters(const TilePlan& plan);
Joining print_joining(const Problem& problem, const TilePlan& plan, const Epilogue& epilogue);

}  // namespace planish::codegen::contraction
