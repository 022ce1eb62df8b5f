#include "codegen/contraction/cross_tile_epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codegen/contraction/cross_tile_text.h"
#include "codegen/contraction/fold_nodes.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/register_folds.h"

namespace planish::codegen::contraction {
namespace {

constexpr int row_sharers = 4;             ///< lanes of a row
constexpr int at_once = 4;                 ///< columns that a lane reads as one word of shared memory
constexpr int joining_threads = 1024;      ///< of a block
constexpr std::int64_t for_a_warp = 1024;  ///< pieces of a result that one warp joins; more have a block

/// The product's kernel with these of its outputs alone.
Kernel with_outputs(const Kernel& kernel, std::size_t from, std::size_t to) {
  Kernel out = kernel;
  out.outputs.assign(kernel.outputs.begin() + static_cast<std::ptrdiff_t>(from),
                     kernel.outputs.begin() + static_cast<std::ptrdiff_t>(to));
  return out;
}

std::vector<int> roots_of(const Kernel& kernel) {
  std::vector<int> roots;
  for (const Output& output : kernel.outputs) roots.push_back(output.node);
  return roots;
}

/// Prints `fold_and_store`, which has the arguments of `store_sums`. Names in the text: `r` the lane's row of the call,
/// `slot` which of a piece's runs is folded, `from` and `to` its columns in the call, `c` one of them, `ok` whether
/// there is such an element. No lane leaves before the others: they ask each other for what they folded.
class PiecePrinter {
 public:
  PiecePrinter(const Product& product, const TilePlan& plan, bool fast)
      : product_(product),
        cross_tile_(*product.cross_tile),
        plan_(plan),
        kernel_(product.kernel),
        pieces_(pieces_of(cross_tile_, product.problem, plan)),
        writer_(kernel_),
        nodes_(kernel_, product.c, roots()),
        bounds_(product) {
    writer_.fast = fast;
    writer_.fold = "folded";
  }

  /// Nodes whose values are folded.
  std::vector<int> roots() const {
    std::vector<int> all;
    for (const CrossTileFold& fold : cross_tile_.folds)
      all.push_back(kernel_.reductions[static_cast<std::size_t>(fold.sum)].arg);
    return all;
  }

  std::string print(const Epilogue& whole) {
    open_store(writer_, whole, "fold_and_store");
    writer_.decode("batch", product_.c.batch);
    // Rows whose lanes read together lie two apart, which is half of the banks.
    writer_.line(fmt::format("const int line = lane / {0}, part = lane % {0};", row_sharers));
    writer_.line("const int r = (line & 4) | (line & 1) << 1 | (line >> 1 & 1);");
    writer_.line(fmt::format("const int row = all ? y + r : min(y + r, {});", product_.c.rows - 1));
    writer_.line(fmt::format("const bool inside = all || y + r < {};", product_.c.rows));
    writer_.decode("row", product_.c.m);
    writer_.line(bounds_.of_rows.empty()
                     ? "const bool has_any = inside;"
                     : fmt::format("const bool has_any = inside & ({});", writer_.condition(bounds_.of_rows)));
    nodes_.print(writer_, nodes_.row(), "has_any");
    open_slots(writer_, cross_tile_, pieces_);
    writer_.line(fmt::format("float* const at = pieces + {};",
                             place_of_piece(product_, pieces_, "row", piece_of(pieces_, plan_, "x"), "slot")));
    find_elements();
    int state = 0;
    for (const CrossTileFold& fold : cross_tile_.folds) {
      piece(fold, state);
      state += fold.states();
    }
    writer_.close();
    writer_.close();
    return std::move(writer_.out);
  }

 private:
  /// Which columns the lane's row has elements in, bit by bit: lane `part` of the row's holds 32 columns from 32 · part
  /// on in `there0`, and those 128 further in `there1`. What columns alone decide is asked of each once, by one lane;
  /// what a phase has a part in as often as there are phases.
  void find_elements() {
    for (const int phase : bounds_.phases) writer_.line(fmt::format("const int own{0} = d{0};", phase));
    writer_.line("unsigned there0 = 0, there1 = 0;");
    writer_.line("#pragma unroll 1");
    writer_.open("for (int k = 0; k < (columns + 31) / 32; ++k) {");
    writer_.line("const int c = 32 * k + lane;");
    std::string ok = "(c >= from) & (c < to)";
    if (const std::string inner = print_column(writer_, product_, "x + c"); !inner.empty()) ok += " & " + inner;
    if (!bounds_.of_columns.empty()) ok += fmt::format(" & ({})", writer_.condition(bounds_.of_columns));
    writer_.line(fmt::format("unsigned bits = __ballot_sync(~0u, {});", ok));
    for (const ir::Bound& bound : bounds_.of_both) {
      const int phase = phase_of(bound, product_.c);
      writer_.open("{");
      writer_.line("unsigned mine = 0;");
      writer_.line("#pragma unroll");
      writer_.open(fmt::format("for (int d{0} = 0; d{0} < {1}; ++d{0}) {{", phase, kernel_.space.extent(phase)));
      writer_.line(fmt::format("const unsigned its = __ballot_sync(~0u, {});",
                               writer_.condition(std::vector<ir::Bound>{bound})));
      writer_.line(fmt::format("if (d{0} == own{0}) mine = its;", phase));
      writer_.close();
      writer_.line("bits &= mine;");
      writer_.close();
    }
    writer_.line("if (!has_any) bits = 0;");
    writer_.line(fmt::format("if (k % {0} == part) (k < {0} ? there0 : there1) = bits;", row_sharers));
    writer_.close();
  }

  void piece(const CrossTileFold& fold, int state) {
    writer_.open("{");
    const int arg = kernel_.reductions[static_cast<std::size_t>(fold.sum)].arg;
    writer_.line("float total = 0.0f;");
    sweep(arg, [&](const std::string& value) { writer_.line(fmt::format("total += ok ? {} : 0.0f;", value)); });
    share("total");
    if (fold.squares < 0) {
      writer_.line(fmt::format("if (inside & (part == 0)) at[{}] = total;", state));
      writer_.close();
      return;
    }
    writer_.line("int count = __popc(there0) + __popc(there1);");
    share("count");
    writer_.line("const float mean = total / (float)max(count, 1);");
    writer_.line("float squares = 0.0f;");
    sweep(arg, [&](const std::string& value) {
      writer_.line(fmt::format("const float distance = ok ? {} - mean : 0.0f;", value));
      writer_.line("squares = fmaf(distance, distance, squares);");
    });
    share("squares");
    writer_.open("if (inside & (part == 0)) {");
    writer_.line(fmt::format("at[{}] = mean;", state));
    writer_.line(fmt::format("at[{}] = squares;", state + 1));
    writer_.line(fmt::format("at[{}] = (float)count;", state + 2));
    writer_.close();
    writer_.close();
  }

  void share(std::string_view name) {
    for (int apart = 1; apart < row_sharers; apart *= 2)
      writer_.line(fmt::format("{0} += __shfl_xor_sync(~0u, {0}, {1});", name, apart));
  }

  /// The variable that neighbouring columns are settings of, and how many columns it takes to the next line of them.
  std::pair<int, std::int64_t> innermost() const {
    if (product_.implicit) return {product_.implicit->dims.back().row, product_.implicit->dims.back().places};
    return {product_.c.n.back(), kernel_.space.extent(product_.c.n.back())};
  }

  /// All elements of the lane's columns: `take` says what is done with the value of `arg`, where `ok` holds. Columns
  /// that are elements one and all, as most are, have a way of their own where values are cheap.
  template <class Take>
  void sweep(int arg, const Take& take) {
    const auto nodes = nodes_.own(std::vector<int>{arg});
    const bool cheap = nodes.size() <= 6 && !reads_columns(nodes);
    writer_.line(cheap ? "#pragma unroll 2" : "#pragma unroll 1");
    writer_.open("for (int k = 0; k < (columns + 31) / 32; ++k) {");
    writer_.line(fmt::format(
        "const unsigned all_bits = __shfl_sync(~0u, k < {0} ? there0 : there1, lane - part + k % {0});", row_sharers));
    writer_.line(fmt::format("const unsigned bits = all_bits >> part * {};", at_once));
    if (cheap) {
      writer_.open("if ((bits & 0x000f000fu) == 0x000f000fu) {");
      elements(arg, nodes, "true", take);
      writer_.close();
      writer_.open("else {");
      elements(arg, nodes, "(bits >> (16 * half + i) & 1u) != 0", take);
      writer_.close();
    } else {
      elements(arg, nodes, "(bits >> (16 * half + i) & 1u) != 0", take);
    }
    writer_.close();
  }

  /// Whether some of these know their column otherwise than by its sum.
  bool reads_columns(const std::vector<int>& nodes) const {
    return std::ranges::any_of(nodes, [&](int id) {
      const Op op = kernel_.nodes[static_cast<std::size_t>(id)].op;
      return op == Op::load || op == Op::index;
    });
  }

  template <class Take>
  void elements(int arg, const std::vector<int>& nodes, std::string_view ok, const Take& take) {
    const auto [along, line] = innermost();
    const bool decodes = reads_columns(nodes);
    const bool words = line % at_once == 0;  // a word's columns are neighbours in that dim
    writer_.line("#pragma unroll");
    writer_.open("for (int half = 0; half < 2; ++half) {");
    writer_.line(fmt::format("const int word = 32 * k + 16 * half + {} * part;", at_once));
    writer_.line(fmt::format("float sum[{}];", at_once));
    writer_.line("neighbours(sums, r, word, sum);");
    if (decodes && words) {
      print_column(writer_, product_, "x + word");
      writer_.line(fmt::format("const {} begin = d{};", writer_.coordinate(), along));
    }
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for (int i = 0; i < {}; ++i) {{", at_once));
    if (decodes && words) writer_.line(fmt::format("const {} d{} = begin + i;", writer_.coordinate(), along));
    if (decodes && !words) print_column(writer_, product_, "x + word + i");
    writer_.line(fmt::format("const bool ok = {};", ok));
    writer_.line("const float folded = sum[i];");
    nodes_.print(writer_, nodes, "ok");
    take(writer_.name(arg));
    writer_.close();
    writer_.close();
  }

  const Product& product_;
  const CrossTileReduction& cross_tile_;
  const TilePlan& plan_;
  const Kernel& kernel_;
  const Pieces pieces_;
  PlaceWriter writer_;
  FoldNodes nodes_;
  const ElementBounds bounds_;
};

}  // namespace

Epilogue print_cross_tile_epilogue(const Product& product, const TilePlan& plan, StoreForm form) {
  const CrossTileReduction& cross_tile = *product.cross_tile;
  const Kernel elements = with_outputs(product.kernel, 0, cross_tile.elements);
  PiecePrinter pieces(product, plan, form.fast);
  std::vector<int> roots = pieces.roots();
  for (const Output& output : elements.outputs) roots.push_back(output.node);
  PlaceWriter writer(elements);
  Epilogue whole;
  whole.inputs = writer.inputs(roots);
  whole.parameters = writer.parameters(roots) + writer.output_parameters() + "float* __restrict__ pieces";
  whole.arguments = writer.arguments(roots);
  for (std::size_t o = 0; o < cross_tile.elements; ++o) whole.arguments += fmt::format("out{}, ", o);
  whole.arguments += "pieces, ";
  std::string stores;
  if (cross_tile.elements > 0) {
    form.name = "store_elements";
    const Epilogue each = print_epilogue(elements, product.c, product.implicit ? &*product.implicit : nullptr, form);
    writer.out = each.text;
    whole.crowded = each.crowded;
    whole.begins = each.begins;
    stores = fmt::format("store_elements<rows, columns, all>({}batch, y, x, end, lane, sums{});", each.arguments,
                         each.begins ? ", begin" : "");
  } else {
    writer.out = load_text();
  }
  if (cross_tile.in_registers) {
    whole.folds = true;
    whole.stores = cross_tile.elements > 0;
    writer.out += print_register_folds(product, plan, form.fast, whole);
    if (!whole.stores) {
      whole.text = std::move(writer.out);
      return whole;
    }
    open_store(writer, whole);
    writer.line(stores);
    writer.close();
    whole.text = std::move(writer.out);
    return whole;
  }
  if (!writer.out.contains(neighbours_text())) writer.out += neighbours_text();
  Epilogue folds = whole;
  folds.begins = false;
  writer.out += pieces.print(folds);
  open_store(writer, whole);
  writer.line(fmt::format("fold_and_store<rows, columns, all>({}batch, y, x, end, lane, sums);", whole.arguments));
  if (!stores.empty()) writer.line(stores);
  writer.close();
  whole.text = std::move(writer.out);
  return whole;
}

namespace {

/// Prints the kernel that joins pieces. Names in the text: `point` the result, `i` a piece of those that may be its.
class CrossTileJoiner {
 public:
  CrossTileJoiner(const Product& product, const TilePlan& plan, bool fast)
      : product_(product),
        cross_tile_(*product.cross_tile),
        plan_(plan),
        kernel_(with_outputs(product.kernel, cross_tile_.elements, product.kernel.outputs.size())),
        pieces_(pieces_of(cross_tile_, product.problem, plan)),
        writer_(kernel_) {
    writer_.fast = fast;
    writer_.of_fold = [](int fold) { return fmt::format("fold{}", fold); };
    for (Output& output : kernel_.outputs) output.where.clear();  // of what is folded
  }

  Packing print() {
    const std::vector<int> roots = roots_of(kernel_);
    const std::int64_t points = extent(cross_tile_.kept);
    const int threads = team() <= 32 ? 256 : team();
    Packing out;
    out.inputs = writer_.inputs(roots);
    out.threads = threads;
    out.blocks = (points * team() + threads - 1) / threads;
    writer_.out = place_prelude() + sums_text() + std::string(load_text());
    writer_.line("// ---- kernel ----");
    std::string outputs = writer_.output_parameters();
    outputs.resize(outputs.size() - 2);
    writer_.open(
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) planish_kernel(const float* __restrict__ "
                    "pieces, {}{}) {{",
                    threads, writer_.parameters(roots), outputs));
    // Lanes ask each other: all of a warp stay.
    const bool alone = team() >= 32;
    writer_.line(fmt::format("const int {} = blockIdx.x * {} + threadIdx.x / {}, mine = threadIdx.x % {};",
                             alone ? "point" : "asked", threads / team(), team(), team()));
    writer_.line(alone ? fmt::format("if (point >= {}) return;", points)
                       : fmt::format("const int point = min(asked, {});", points - 1));
    writer_.decode("point", cross_tile_.kept);
    if (team() > 32) writer_.line(fmt::format("__shared__ double shared[{}];", team() / 32));
    int state = 0;
    for (const CrossTileFold& fold : cross_tile_.folds) {
      join(fold, state);
      state += fold.states();
    }
    writer_.line(alone ? "if (mine != 0) return;" : "if ((mine != 0) | (asked != point)) return;");
    writer_.nodes(roots);
    writer_.stores();
    writer_.close();
    out.source = std::move(writer_.out);
    return out;
  }

 private:
  std::int64_t extent(const std::vector<int>& variables) const {
    std::int64_t all = 1;
    for (const int v : variables) all *= kernel_.space.extent(v);
    return all;
  }

  /// The linear position that the coordinates of these are, an expression.
  std::string position(const std::vector<int>& variables) const {
    std::string text = "0";
    for (const int v : variables) text = fmt::format("({} * {} + (int)d{})", text, kernel_.space.extent(v), v);
    return text;
  }

  /// Threads that join the pieces of one result.
  int team() const {
    const std::int64_t pieces = extent(cross_tile_.folded) * most_pieces();
    if (pieces > for_a_warp) return joining_threads;
    return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(pieces, 32))));
  }

  struct Total {
    std::string name, each;  ///< the sum, and what is added of each piece, whose states are `at`
  };

  void join(const CrossTileFold& fold, int state) {
    const std::string whole = fmt::format("whole{}", fold.sum);
    if (fold.squares < 0) {
      total({{whole, fmt::format("at[{}]", state)}});
      writer_.line(fmt::format("const float fold{} = (float){};", fold.sum, whole));
      return;
    }
    const std::string count = fmt::format("count{}", fold.sum), squares = fmt::format("whole{}", fold.squares);
    total(
        {{whole, fmt::format("(double)at[{}] * at[{}]", state, state + 2)}, {count, fmt::format("at[{}]", state + 2)}});
    writer_.line(fmt::format("const float fold{} = (float){};", fold.sum, whole));
    writer_.line(fmt::format("const double mean{} = {} / {};", fold.sum, whole, count));
    total({{squares, fmt::format("at[{0}] + at[{1}] * (at[{2}] - mean{3}) * (at[{2}] - mean{3})", state + 1, state + 2,
                                 state, fold.sum)}});
    writer_.line(fmt::format("const float fold{} = (float){};", fold.squares, squares));
  }

  /// Defines these, which all threads of a team then know.
  void total(const std::vector<Total>& totals) {
    const std::int64_t along = most_pieces();
    for (const Total& one : totals) writer_.line(fmt::format("double {} = 0.0;", one.name));
    writer_.line("#pragma unroll 8");
    writer_.open(
        fmt::format("for (long long i = mine; i < {}ll; i += {}) {{", extent(cross_tile_.folded) * along, team()));
    writer_.line(fmt::format("const int place = (int)(i / {0}), next = (int)(i % {0});", along));
    writer_.decode("place", cross_tile_.folded);
    writer_.line(fmt::format("const int batch = {}, row = {};", position(product_.c.batch), position(product_.c.m)));
    writer_.line(fmt::format("const long long run = {};", position(cross_tile_.columns)));
    writer_.line(
        fmt::format("const int begin = (int)(run * {0}), stop = (int)((run + 1) * {0} - 1);", cross_tile_.run));
    writer_.line(fmt::format("const int piece = {} + next;", piece_of(pieces_, plan_, "begin")));
    writer_.line(fmt::format("const bool there = piece <= {};", piece_of(pieces_, plan_, "stop")));
    writer_.line(
        fmt::format("const int slot = (int)run - {} / {};", start_of(pieces_, plan_, "piece"), cross_tile_.run));
    // What is not there is read elsewhere, so that no load waits for another.
    writer_.line(fmt::format("const float* const at = pieces + (there ? {} : 0);",
                             place_of_piece(product_, pieces_, "row", "piece", "slot")));
    for (const Total& one : totals) writer_.line(fmt::format("{} += there ? {} : 0.0;", one.name, one.each));
    writer_.close();
    for (const Total& one : totals) {
      writer_.line("#pragma unroll");
      writer_.line(fmt::format("for (int apart = {1}; apart > 0; apart /= 2) {0} += __shfl_xor_sync(~0u, {0}, apart);",
                               one.name, std::min(team(), 32) / 2));
      if (team() <= 32) continue;
      writer_.line("__syncthreads();");
      writer_.line(fmt::format("if (mine % 32 == 0) shared[mine / 32] = {};", one.name));
      writer_.line("__syncthreads();");
      writer_.line(fmt::format("{} = 0.0;", one.name));
      writer_.line("#pragma unroll");
      writer_.line(fmt::format("for (int i = 0; i < {}; ++i) {} += shared[i];", team() / 32, one.name));
    }
  }

  /// That a run may have columns of.
  std::int64_t most_pieces() const {
    if (cross_tile_.run >= product_.problem.n) return pieces_.count;
    return ((cross_tile_.run - 2) / tile_step(plan_) + 2) * pieces_.of_tile;
  }

  const Product& product_;
  const CrossTileReduction& cross_tile_;
  const TilePlan& plan_;
  Kernel kernel_;
  const Pieces pieces_;
  PlaceWriter writer_;
};

}  // namespace

Packing print_cross_tile_joining(const Product& product, const TilePlan& plan, bool fast) {
  return CrossTileJoiner(product, plan, fast).print();
}

}  // namespace planish::codegen::contraction
