#include "codegen/contraction/product.h"

#include <algorithm>
#include <string>
#include <utility>

#include "codegen/contraction/blocked.h"
#include "codegen/contraction/device_product.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/pack.h"
#include "codegen/passes.h"
#include "codegen/phases.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t longest_strip = 12;  ///< in taps: a stage holds those of the other factor, too
constexpr std::int64_t most_beyond = 64;    ///< positions that a strip may be longer than a tile

/// Joins neighbouring taps of the last slide, whose rows are the same distance apart, to strips.
void join_taps(Im2col& columns, const std::vector<std::int64_t>& offsets, std::int64_t last) {
  for (std::int64_t taps = std::min(last, longest_strip); taps > 1; --taps) {
    const std::int64_t shift = offsets[1] - offsets[0];
    if (last % taps != 0 || shift < 0 || shift * (taps - 1) > most_beyond) continue;
    bool equal = true;
    for (std::size_t tap = 1; tap < offsets.size(); ++tap) {
      if (tap % static_cast<std::size_t>(taps) != 0) equal = equal && offsets[tap] - offsets[tap - 1] == shift;
    }
    if (!equal) continue;
    columns.taps = static_cast<int>(taps);
    columns.shift = static_cast<int>(shift);
    break;
  }
  for (std::size_t tap = 0; tap < offsets.size(); tap += static_cast<std::size_t>(columns.taps))
    columns.offsets.push_back(offsets[tap]);
}

constexpr std::int64_t most_columns = 256;  // of a tile
constexpr std::int64_t short_run = 8;       // elements that neighbouring threads store

/// True where memory of the results runs through few columns, then through rows, then through columns again: phases of
/// places. The rows are then what neighbouring threads had better store.
bool run_through_phases(const Kernel& kernel, const Contraction& c) {
  const ir::IndexExpr& place = kernel.outputs[0].index;
  const auto along = [&](const std::vector<int>& variables, std::int64_t stride) {
    const auto found = std::ranges::find_if(variables, [&](int v) { return place.coefficient_of(v) == stride; });
    return found == variables.end() ? -1 : *found;
  };
  const int phase = along(c.n, 1);
  if (phase < 0) return false;
  const std::int64_t run = kernel.space.extents[static_cast<std::size_t>(phase)];
  return run < short_run && along(c.m, run) >= 0 &&
         std::ranges::any_of(c.n, [&](int v) { return place.coefficient_of(v) > run; });
}

void turn_over(Contraction& c) {
  std::swap(c.first, c.second);
  std::swap(c.m, c.n);
  std::swap(c.rows, c.columns);
}

}  // namespace

double result_bytes(const Kernel& kernel) {
  double bytes = 0;
  for (const Output& output : kernel.outputs) {
    double elements = 1;
    for (const std::int64_t extent : output.shape) elements *= static_cast<double>(extent);
    bytes += elements * static_cast<double>(size_of(output.dtype));
  }
  return bytes;
}

double clocks_with_memory(const Product& product, double computed, std::int64_t matrices, std::int64_t times,
                          double ghz, const Device& device) {
  const Problem& problem = product.problem;
  const auto bytes = [&](Operand operand, std::int64_t lines, bool batched, std::int64_t often) {
    // Taps read the same elements.
    const auto& boxes = product.boxes(operand);
    const std::int64_t elements = boxes ? product.kernel.inputs[static_cast<std::size_t>(boxes->input)].storage_elements
                                        : lines * problem.k * (batched ? problem.batches : 1);
    const double once = static_cast<double>(elements * (product.bits ? 1 : 2));
    return once * (once > 0.5 * static_cast<double>(device.l2_bytes) ? static_cast<double>(often) : 1);
  };
  const double moved = static_cast<double>(matrices) * bytes(Operand::b, problem.n, problem.b_batched, times) +
                       bytes(Operand::a, problem.m, problem.a_batched, 1) + result_bytes(product.kernel);
  // Where memory bounds several, the one that computes less.
  return std::max(computed, moved / device.bandwidth_gbs * ghz + 3000) + computed / 50;
}

std::optional<DType> narrow_type(const Kernel& kernel, const Contraction& c) {
  return common_half_type(kernel, c.first, c.second);
}

std::optional<Operand> wasted(const Product& product) {
  if (product.taps.empty()) return std::nullopt;
  const auto moves = variables_of(product.kernel);
  const auto& first = moves[static_cast<std::size_t>(product.c.first)];
  for (const ir::Bound& bound : product.taps) {
    for (const int v : product.c.m) {
      if (bound.e.depends_on(v) && first[static_cast<std::size_t>(v)]) return Operand::b;
    }
  }
  return Operand::a;
}

bool has_boxes(const Product& product) {
  return std::ranges::all_of(std::array{Operand::a, Operand::b}, [&](Operand operand) {
    const auto& direct = product.direct(operand);
    return !direct || is_box(product.c, operand, *direct);
  });
}

std::int64_t noted_images(const Product& product) {
  if (!product.implicit) return 1;
  const bool shared = is_shared(product.kernel, product.c, product.implicit->operand);
  return product.implicit->images * (shared ? 1 : product.c.batches);
}

Result<Contraction> oriented(const Kernel& kernel) {
  PLANISH_TRY(Contraction c, contraction_of(kernel));
  if (run_through_phases(kernel, c)) turn_over(c);
  return c;
}

Status computable(const Product& product) {
  const Kernel& kernel = product.kernel;
  const auto no = [](const char* why) { return fail("unsupported", why); };
  if (std::ranges::any_of(kernel.nodes, gathers)) return no("places known at run time alone");
  const auto in_f32 = [&](int id) {
    const DType dtype = kernel.nodes[static_cast<std::size_t>(id)].dtype;
    return dtype == DType::f32 || is_half(dtype);
  };
  if (!in_f32(product.c.first) || !in_f32(product.c.second)) return no("factors that are not computed in f32");
  // Packing of 16 bits notes what must not be multiplied with zero for the factor that slides alone.
  const auto idle = wasted(product);
  if (idle && narrow_type(kernel, product.c) && !(product.implicit && product.implicit->operand == *idle))
    return no("16-bit factors with places where there is nothing to multiply");
  return {};
}

namespace {

/// What follows from the factors of `out`.
void set_problem(Product& out) {
  const Contraction& c = out.c;
  out.problem = {.m = c.rows,
                 .n = c.columns,
                 .k = c.depth,
                 .batches = c.batches,
                 .a_batched = !is_shared(out.kernel, c, Operand::a),
                 .b_batched = !is_shared(out.kernel, c, Operand::b)};
  out.implicit = implicit_operand_of(out.kernel, c);
  if (!out.implicit) {
    out.direct_a = direct_of(out.kernel, c, Operand::a);
    out.direct_b = direct_of(out.kernel, c, Operand::b);
    // Windows are folded of what is scaled.
    if (!narrow_type(out.kernel, c) && (out.pool || wasted(out))) out.direct_a = out.direct_b = std::nullopt;
    return;
  }
  const ImplicitOperand& implicit = *out.implicit;
  (implicit.operand == Operand::a ? out.problem.m : out.problem.n) = implicit.positions();
  out.problem.k = implicit.taps * implicit.chunks * 8;
  out.problem.im2col = Im2col{.operand = implicit.operand,
                              .positions = implicit.positions(),
                              .planes = implicit.phases * implicit.chunks,
                              .chunks = implicit.chunks,
                              .offsets = {},
                              .image = implicit.plane};
  join_taps(*out.problem.im2col, implicit.offsets(), implicit.dims.back().taps);
}

/// The same product, with one factor in boxes of places; null where neither has places of several dims, or slides.
std::shared_ptr<const Product> boxed_product(const Product& from) {
  if (from.pool || from.cross_tile || !from.taps.empty() || !narrow_type(from.kernel, from.c)) return nullptr;
  auto out = std::make_shared<Product>(from);
  out->implicit = std::nullopt;
  out->direct_a = out->direct_b = std::nullopt;
  out->boxes_a = boxes_of(from.kernel, from.c, Operand::a);
  out->boxes_b = boxes_of(from.kernel, from.c, Operand::b);
  const auto dims = [&](Operand operand) { return out->boxes(operand) ? out->boxes(operand)->rows().size() : 0; };
  const Operand places = from.implicit ? from.implicit->operand : dims(Operand::a) > 1 ? Operand::a : Operand::b;
  const Operand other = places == Operand::a ? Operand::b : Operand::a;
  if (dims(places) == 0 || (!from.implicit && dims(places) == 1)) return nullptr;
  if (dims(other) != 1 || out->boxes(other)->channel != out->boxes(places)->channel)
    (other == Operand::a ? out->boxes_a : out->boxes_b) = std::nullopt;
  const Boxes& boxes = *out->boxes(places);
  out->gaps = !out->boxes(other) && boxes.tap_depth() != boxes.channels;
  out->c.k = sum_in_boxes(from.c, boxes);
  const Contraction& c = out->c;
  out->problem = {.m = c.rows,
                  .n = c.columns,
                  .k = c.depth / boxes.channels * boxes.tap_depth(),
                  .batches = c.batches,
                  .a_batched = !is_shared(out->kernel, c, Operand::a),
                  .b_batched = !is_shared(out->kernel, c, Operand::b),
                  .boxed = boxed_of(out->kernel, boxes, places)};
  const auto direct = [](const std::optional<Boxes>& of) {
    return of ? std::optional(Direct{LoadMode::along_k, of->input, {}, {}}) : std::nullopt;
  };
  out->direct_a = direct(out->boxes_a);
  out->direct_b = direct(out->boxes_b);
  return out;
}

/// What a thread does for each place whose channels it folds, whatever their number, in the time of so many
/// multiplications on tensor cores.
constexpr double each_fold = 3000;

/// The contraction whose second factor is the one of whose rows `variable` is.
Result<Contraction> with_second(const Kernel& kernel, int variable) {
  PLANISH_TRY(Contraction c, contraction_of(kernel));
  if (std::ranges::find(c.m, variable) != c.m.end()) turn_over(c);
  return c;
}

/// Cuts the kernel into blocks of places where few channels are folded.
Status fold_in_blocks(Product& product) {
  // Blocks leave the order of variables as it is: the channels are the last ones of the results.
  const int last = product.pool->windows.back().variable;
  const auto orient = [&](const Kernel& of) { return with_second(of, last + 1); };
  auto parts = blocked(product.kernel, product.c, product.taps, orient, each_fold);
  if (!parts) return {};
  product.kernel = std::move(parts->kernel);
  product.taps = std::move(parts->taps);
  for (PoolWindow& window : product.pool->windows) window.variable += window.variable >= parts->inside ? 1 : 0;
  PLANISH_TRY(product.c, orient(product.kernel));
  return {};
}

/// Of a kernel with folds of its results: what these fold lies among the second factor's rows. `dims`: each window is a
/// dim by itself.
Result<Product> pooled_product(const Kernel& kernel, bool dims) {
  const auto no = [](const char* why) { return fail("unsupported", why); };
  Product out;
  Phased split = phased(windows_apart(kernel));
  PLANISH_TRY(Unpooled whole, unpooled(split.kernel, dims));
  out.kernel = std::move(whole.kernel);
  out.pool = std::move(whole.pool);
  out.taps = std::move(split.taps);
  if (!out.pool->whole && (split.phases || !out.taps.empty())) return no("windows over phases");
  PLANISH_TRY(out.c, with_second(out.kernel, out.pool->windows.back().variable));
  const auto windowed = [&](int v) { return out.pool->has(v); };
  if (std::ranges::any_of(out.c.m, windowed) || std::ranges::any_of(out.c.batch, windowed))
    return no("windows that both factors move with");
  if (out.pool->whole) {
    if (!narrow_type(out.kernel, out.c)) PLANISH_CHECK(fold_in_blocks(out));
    // A row's columns that are folded together lie beside each other.
    std::ranges::stable_partition(out.c.n, [&](int v) { return !windowed(v); });
  }
  set_problem(out);
  // What packing notes of the factor that is packed first nothing clears.
  if (!out.implicit && wasted(out) == Operand::a) return no("zeros for elements that are packed one by one");
  const bool of_slides = out.implicit && out.implicit->operand == Operand::b;
  if (out.pool->whole ? of_slides : out.implicit && !of_slides)
    return no("windows over rows of the factor that does not slide");
  PLANISH_TRY(out.problem.folding, folding_of(*out.pool, of_slides ? &*out.implicit : nullptr, out.c.n));
  // Three products have accumulators of their own; one is offered where PyTorch may round.
  const bool three = !out.implicit && !narrow_type(out.kernel, out.c);
  if (out.pool->whole && out.problem.folding->window > (three ? most_columns / 2 : most_columns))
    return no("folds of more than a tile has columns");
  return out;
}

/// Where results are stored one by one, of a kernel of these alone.
void set_overlap(Product& out, const Kernel& elements) {
  for (const bool interleave : {false, true})
    out.overlap.at(interleave ? 1 : 0) =
        overlap_of(elements, out.c, out.implicit ? &*out.implicit : nullptr, interleave);
}

/// The kernel in phases, in blocks where channels are few, and its factors.
Result<Product> parted_product(const Kernel& kernel) {
  Product out;
  Phased split = phased(kernel);
  out.kernel = std::move(split.kernel);
  out.taps = std::move(split.taps);
  PLANISH_TRY(out.c, oriented(out.kernel));
  // What packing notes of elements that are not finite is noted of fp32 alone.
  if (narrow_type(out.kernel, out.c)) return out;
  if (auto parts = blocked(out.kernel, out.c, out.taps, oriented)) {
    out.kernel = std::move(parts->kernel);
    out.taps = std::move(parts->taps);
    PLANISH_TRY(out.c, oriented(out.kernel));
  }
  return out;
}

/// The product that the elements of a CrossTileReduction are; null where there are several of each, or where its
/// columns are no neighbouring variables.
std::shared_ptr<const Product> elements_of(const Product& whole) {
  if (whole.cross_tile->elements != 1 || whole.implicit || !whole.taps.empty()) return nullptr;
  auto out = std::make_shared<Product>();
  out->kernel = whole.kernel;
  out->kernel.outputs.resize(1);
  const std::vector<int>& columns = whole.c.n;
  for (std::size_t i = columns.size(); i-- > 1;) {
    if (columns[i] != columns[i - 1] + 1) return nullptr;
    join(out->kernel, columns[i - 1], columns[i]);
  }
  auto c = with_second(out->kernel, columns.front());
  if (!c) return nullptr;
  out->c = std::move(*c);
  set_problem(*out);
  return out;
}

/// Of a kernel that sums up more results than a tile has: what is summed lies along columns.
Result<Product> cross_tile_product(const Kernel& kernel) {
  const CrossTileKernel from = cross_tile_kernel(kernel);
  PLANISH_TRY(Product out, parted_product(from.kernel));
  std::string why;
  for (const bool turned : {false, true}) {
    if (turned) turn_over(out.c);
    set_problem(out);
    if (!out.implicit && wasted(out) == Operand::a) continue;  // see product_of()
    auto cross_tile = cross_tile_of(out.kernel, from, out.c, out.implicit ? &*out.implicit : nullptr);
    if (cross_tile) {
      out.cross_tile = std::move(*cross_tile);
      out.elements = elements_of(out);
      Kernel elements = out.kernel;
      elements.outputs.resize(out.cross_tile->elements);
      if (!elements.outputs.empty()) set_overlap(out, elements);
      return out;
    }
    if (why.empty()) why = cross_tile.error().message;
  }
  return fail("unsupported", why);
}

/// The product of a kernel that sums integers: it has factors of 8 bits, or there is none.
Result<Product> integer_product(const Kernel& kernel) {
  Product whole;
  whole.kernel = kernel;
  PLANISH_TRY(whole.c, oriented(kernel));
  const Contraction& c = whole.c;
  whole.problem = {.m = c.rows,
                   .n = c.columns,
                   .k = c.depth,
                   .batches = c.batches,
                   .a_batched = !is_shared(kernel, c, Operand::a),
                   .b_batched = !is_shared(kernel, c, Operand::b)};
  const auto eight = eight_bit_product(whole);
  if (!eight)
    return fail("unsupported", "sums of integers that are not two tensors of 8 bits in rows of whole 16 bytes");
  if (std::string why = warpgroup_product_lacks(*eight); !why.empty()) return fail("unsupported", std::move(why));
  return *eight;
}

}  // namespace

Result<Product> product_of(const Kernel& kernel) {
  if (sums_integers(kernel)) return integer_product(kernel);
  if (kernel.across > 0) {
    if (!std::ranges::all_of(kernel.outputs, &Output::per_column))
      return cross_tile_product(kernel);  // it stores elements
    for (const bool dims : {false, true}) {
      if (auto pooled = pooled_product(kernel, dims)) return pooled;
    }
    return cross_tile_product(kernel);
  }
  PLANISH_TRY(Product out, parted_product(kernel));
  Contraction& c = out.c;
  // The second factor is packed last: what packing notes of it nothing clears.
  if (wasted(out) == Operand::a && !implicit_operand_of(out.kernel, c)) turn_over(c);
  set_problem(out);
  if (!out.implicit && out.taps.empty()) {
    auto swapped = std::make_shared<Product>(out);
    turn_over(swapped->c);
    set_problem(*swapped);
    if (!has_boxes(*swapped)) swapped->boxed = boxed_product(*swapped);
    out.swapped = std::move(swapped);
  }
  if (out.implicit || !has_boxes(out)) out.boxed = boxed_product(out);
  out.eight = eight_bit_product(out);
  set_overlap(out, out.kernel);
  return out;
}

}  // namespace planish::codegen::contraction
