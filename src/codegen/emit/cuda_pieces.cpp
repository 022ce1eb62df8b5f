#include "codegen/emit/cuda_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "codegen/emit/cuda_writer.h"
#include "codegen/segments.h"

// Pieces of parts: how a schedule's threads make them, and the text that folds one.
namespace planish::codegen::printing {
namespace {

constexpr std::int64_t warp = 32;
constexpr std::int64_t most_turns = 64;  // far below the longest chain of additions that is accurate

}  // namespace

bool folds_pieces(const Kernel& kernel) {
  return std::ranges::any_of(kernel.outputs, &Output::folded);
}

bool writes_elements(const Kernel& kernel) {
  return std::ranges::any_of(kernel.outputs, [](const Output& o) { return !o.per_row && !o.folded; });
}

std::int64_t slice_of_pieces(const Kernel& kernel, const CudaPlan& plan, std::int64_t least, std::int64_t fewest) {
  const auto rounded = [&](std::int64_t grain) { return (least + grain - 1) / grain * grain; };
  const std::int64_t part = part_length(kernel) / plan.width;
  // Whole chunks of all threads, then whole turns of them.
  for (const std::int64_t grain : {std::int64_t{plan.across} * plan.unroll, std::int64_t{plan.across}}) {
    if (part % grain != 0) continue;
    const std::int64_t length = rounded(grain);
    if ((plan.vectors + length - 1) / length >= fewest) return length;
  }
  return rounded(warp);
}

void plan_pieces(const Kernel& kernel, std::int64_t slice_vectors, std::int64_t kept_trips, CudaPlan& plan) {
  plan.pieces = {};
  const std::int64_t length = part_length(kernel);
  if (!folds_pieces(kernel) || plan.columns || plan.partial || length % plan.width != 0 || plan.vectors % warp != 0 ||
      slice_vectors % warp != 0 || plan.across % warp != 0)
    return;
  const std::int64_t part = length / plan.width;
  Pieces& pieces = plan.pieces;
  pieces.step = std::int64_t{plan.across} * plan.cluster;
  pieces.lanes = static_cast<int>(std::gcd(part, warp));
  std::int64_t most = 1;
  if (part % pieces.step == 0 && slice_vectors % pieces.step == 0)
    most = std::gcd(part / pieces.step, std::gcd(slice_vectors / pieces.step, kept_trips));
  // Turns of a piece are whole chunks, or divide a chunk.
  for (std::int64_t turns = std::min(most, most_turns); turns > 1; --turns) {
    if (most % turns != 0 || (turns % plan.unroll != 0 && plan.unroll % turns != 0)) continue;
    pieces.turns = turns;
    break;
  }
  pieces.count = plan.vectors / (pieces.lanes * pieces.turns);
}

std::string pieces_illegal(const Kernel& kernel, const CudaPlan& plan) {
  if (!folds_pieces(kernel)) return {};
  if (plan.stages != 0) return "the copy engine brings rows that are stored";
  if (plan.near) return "lanes of a warp that take different ways cannot fold";
  if (plan.pieces.lanes == 0) return "the vectors of a warp do not lie in one row and whole parts of it";
  const Pieces& pieces = plan.pieces;
  if (pieces.lanes * pieces.turns * plan.width < least_piece(kernel)) return "too much would be put aside";
  return {};
}

std::vector<int> CudaWriter::begin_loads(std::span<const int> loads) {
  chunk_loads = of_chunks(loads);
  std::vector<int> others;
  for (const int id : loads) {
    const bool once = std::ranges::binary_search(chunk_loads, id);
    line(fmt::format("{} r{}[{}];", pack_type(id), id, once ? 1 : plan_.unroll));
    if (!once) others.push_back(id);
  }
  return others;
}

std::vector<int> CudaWriter::of_chunks(std::span<const int> loads) const {
  std::vector<int> shared;
  if (!folds_pieces(kernel_) || plan_.unroll == 1 || plan_.pieces.turns % plan_.unroll != 0) return shared;
  const int count = static_cast<int>(kernel_.space.extents.size());
  for (const int id : loads) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    bool moves = is_resident(id) || gathers(node) || !node.where.empty();
    for (int v = count - kernel_.parts; v < count; ++v) moves = moves || node.index.depends_on(v);
    if (!moves) shared.push_back(id);
  }
  std::ranges::sort(shared);
  return shared;
}

void CudaWriter::begin_pieces(std::span<const int> stored) {
  if (plan_.pieces.turns == 1) return;
  for (const int o : stored) {
    const Output& output = kernel_.outputs[static_cast<std::size_t>(o)];
    if (output.folded)
      line(fmt::format("{} piece{} = {};", computing_type(output.dtype), o, neutral(output.fold, output.dtype)));
  }
}

void CudaWriter::fold_vector(int output) {
  const Output& o = kernel_.outputs[static_cast<std::size_t>(output)];
  const Pieces& pieces = plan_.pieces;
  const std::string lanes = combined_lanes(o.fold, o.dtype, fmt::format("o{}.x", output), plan_.width);
  std::string result = lanes;
  if (pieces.turns > 1) {
    const std::string mine = fmt::format("piece{}", output);
    line(fmt::format("{} = {};", mine, combine(o.fold, o.dtype, mine, lanes)));
    const std::string last = fmt::format("u == {}", plan_.unroll - 1);
    const std::string chunks =
        fmt::format("{} % {} == 0", backwards_chunks ? "k0" : fmt::format("(k0 + {})", plan_.unroll), pieces.turns);
    open(fmt::format("if ({}) {{", pieces.turns < plan_.unroll    ? fmt::format("(u + 1) % {} == 0", pieces.turns)
                                   : pieces.turns == plan_.unroll ? last
                                                                  : last + " && " + chunks));
    result = mine;
  } else {
    open("{");
  }
  line(fmt::format("{} fold = {};", computing_type(o.dtype), result));
  for (int m = pieces.lanes / 2; m >= 1; m /= 2)
    line(fmt::format("fold = {};", combine(o.fold, o.dtype, "fold", fmt::format("pl_xor(fold, {})", m))));
  ir::IndexExpr row;
  std::int64_t rows = 1;
  for (std::size_t v = kernel_.space.extents.size() - static_cast<std::size_t>(kernel_.inner); v-- > 0;) {
    row = ir::add(row, ir::scale(ir::IndexExpr::variable(static_cast<int>(v)), rows), kernel_.space);
    rows *= kernel_.space.extents[v];
  }
  const std::int64_t side = pieces.step / warp;
  const std::string place = pieces.turns == 1
                                ? fmt::format("(unsigned)t / {}u", pieces.lanes)
                                : fmt::format("(unsigned)t / {}u * {}u + (unsigned)t % {}u / {}u",
                                              pieces.step * pieces.turns, side, pieces.step, pieces.lanes);
  line(fmt::format("if (tid % {} == 0) out{}[({}) * {} + (ix)({})] = fold;", pieces.lanes, output, index(kernel_, row),
                   literal_index(pieces.count), place));
  if (pieces.turns > 1) line(fmt::format("piece{} = {};", output, neutral(o.fold, o.dtype)));
  close();
}

}  // namespace planish::codegen::printing
