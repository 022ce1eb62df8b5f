#include "codegen/contraction/nonfinite_fix_up.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/contraction/cross_tile_text.h"
#include "codegen/contraction/epilogue.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/place_writer.h"

namespace planish::codegen::contraction {
namespace {

constexpr int fix_up_threads = 256;
constexpr std::int64_t fix_up_blocks = 16;  // of a multiprocessor, where there are so many results

/// Where it is noted that a result's image has such elements: behind what is noted of magnitudes.
std::string noted(const Product& product) {
  if (!product.implicit) return "0";
  const Contraction& c = product.c;
  std::string text = "0";  // an image of a batch, digit by digit
  const auto digit = [&](int v) {
    text = fmt::format("({} * {} + (int)d{})", text, product.kernel.space.extent(v), v);
  };
  if (!is_shared(product.kernel, c, product.implicit->operand)) std::ranges::for_each(c.batch, digit);
  std::ranges::for_each(product.implicit->apart, digit);
  return fmt::format("{} + {}", noted_images(product), text);
}

/// Prints the kernel's parts. Names in the text: `met` whether a sum met such an element where there is no product.
class FixUpPrinter {
 public:
  explicit FixUpPrinter(const Product& product) : product_(product), kernel_(product.kernel), writer_(kernel_) {
    for (const Output& output : kernel_.outputs) results_.push_back(output.node);
    writer_.of_fold = [this](int fold) {
      return is_folded(fold) ? fmt::format("fold{}", fold) : std::string("folded");
    };
  }

  Packing print(int multiprocessors) {
    const Contraction& c = product_.c;
    std::vector<int> all{c.first, c.second};
    all.insert(all.end(), results_.begin(), results_.end());
    for (const int fold : folds()) all.push_back(reduction(fold).arg);
    std::int64_t points = 1;
    for (const int v : of_results()) points *= kernel_.space.extent(v);
    Packing fix_up = begin(all, writer_.output_parameters(), points, multiprocessors);
    std::int64_t later = points;
    for (const int v : of_results()) {
      const std::int64_t extent = kernel_.space.extent(v);
      later /= extent;
      writer_.line(fmt::format("const {} d{} = (int)(point / {}ll % {}ll);", writer_.coordinate(), v, later, extent));
    }
    writer_.line(fmt::format("if (notes[{}] == 0) continue;", noted(product_)));
    if (const auto there = writer_.condition(kernel_.outputs[0].where); !there.empty())
      writer_.line(fmt::format("if (!({})) continue;", there));
    writer_.line("bool met = false;");
    if (!product_.pool) sum();
    for (const int which : folds()) fold(which);
    writer_.line("if (!met) continue;");
    writer_.nodes(results_);
    writer_.stores();
    writer_.close();
    writer_.close();
    fix_up.source = std::move(writer_.out);
    return fix_up;
  }

  /// The same of pieces of sums.
  Packing print_pieces(const TilePlan& plan, int multiprocessors) {
    const Contraction& c = product_.c;
    const CrossTileReduction& cross_tile = *product_.cross_tile;
    const Pieces pieces = pieces_of(cross_tile, product_.problem, plan);
    std::vector<int> all{c.first, c.second};
    for (const CrossTileFold& fold : cross_tile.folds) all.push_back(reduction(fold.sum).arg);
    const std::int64_t points = product_.problem.batches * product_.problem.m * pieces.count;
    Packing fix_up = begin(all, "float* __restrict__ pieces, ", points, multiprocessors);
    writer_.line(fmt::format("const int piece = (int)(point % {0}), row = (int)(point / {0} % {1});", pieces.count,
                             product_.problem.m));
    writer_.line(fmt::format("const int batch = (int)(point / {});", pieces.count * product_.problem.m));
    writer_.decode("batch", c.batch);
    writer_.decode("row", c.m);
    writer_.line(fmt::format("const int begin = {}, tile = begin / {} * {};", start_of(pieces, plan, "piece"),
                             tile_step(plan), tile_step(plan)));
    writer_.line(fmt::format("const int stop = min(min(begin + {}, tile + {}), {});", pieces.width, tile_step(plan),
                             product_.problem.n));
    writer_.line("bool odd = false, met = false;");
    writer_.open("for (int x = begin; x < stop; ++x) {");
    column();
    writer_.line(fmt::format("odd = odd || notes[{}] != 0;", noted(product_)));
    writer_.close();
    writer_.line("if (!odd) continue;");
    writer_.line(fmt::format("const int first = begin / {};", cross_tile.run));
    writer_.open(fmt::format("for (int slot = 0; slot < {}; ++slot) {{", pieces.slots));
    writer_.line(fmt::format("const int from = (int)max((first + slot) * {}ll, (long long)begin);", cross_tile.run));
    writer_.line(fmt::format("const int to = (int)min((first + slot + 1) * {}ll, (long long)stop);", cross_tile.run));
    writer_.line("if (from >= to) break;");
    writer_.line(
        fmt::format("float* const at = pieces + {};", place_of_piece(product_, pieces, "row", "piece", "slot")));
    int state = 0;
    for (const CrossTileFold& fold : cross_tile.folds) {
      piece(fold, state);
      state += fold.states();
    }
    writer_.close();
    writer_.close();
    writer_.close();
    fix_up.source = std::move(writer_.out);
    return fix_up;
  }

 private:
  /// The head, and the loop over `points`.
  Packing begin(const std::vector<int>& all, const std::string& outputs, std::int64_t points, int multiprocessors) {
    Packing fix_up;
    fix_up.inputs = writer_.inputs(all);
    fix_up.threads = fix_up_threads;
    fix_up.blocks = std::min((points + fix_up_threads - 1) / fix_up_threads, fix_up_blocks * multiprocessors);
    head(all, outputs);
    writer_.open(
        fmt::format("for (long long point = (long long)blockIdx.x * {0} + threadIdx.x; point < {1}ll; point += "
                    "{2}ll) {{",
                    fix_up_threads, points, fix_up.blocks * fix_up_threads));
    return fix_up;
  }

  /// Coordinates of column `x`; the condition under which it is one.
  std::string column() {
    std::string there = print_column(writer_, product_, "x");
    const std::string bounds = writer_.condition(kernel_.outputs.front().where);
    if (!bounds.empty()) there += there.empty() ? bounds : " & (" + bounds + ")";
    return there;
  }

  /// A piece's states, by Welford's recurrence.
  void piece(const CrossTileFold& fold, int state) {
    const int arg = reduction(fold.sum).arg;
    writer_.open("{");
    writer_.line("double total = 0.0, mean = 0.0, squares = 0.0;");
    writer_.line("int count = 0;");
    writer_.open("for (int x = from; x < to; ++x) {");
    if (const std::string there = column(); !there.empty()) writer_.line(fmt::format("if (!({})) continue;", there));
    sum();
    writer_.nodes(std::vector<int>{arg});
    writer_.line(fmt::format("const double value = {};", writer_.name(arg)));
    writer_.line("total += value;");
    if (fold.squares >= 0) {
      writer_.line("const double distance = value - mean;");
      writer_.line("mean += distance / ++count;");
      writer_.line("squares += distance * (value - mean);");
    }
    writer_.close();
    if (fold.squares < 0) {
      writer_.line(fmt::format("at[{}] = (float)total;", state));
    } else {
      writer_.line(fmt::format("at[{}] = (float)mean;", state));
      writer_.line(fmt::format("at[{}] = (float)squares;", state + 1));
      writer_.line(fmt::format("at[{}] = (float)count;", state + 2));
    }
    writer_.close();
  }

  const Reduction& reduction(int fold) const { return kernel_.reductions[static_cast<std::size_t>(fold)]; }
  std::vector<int> folds() const { return product_.pool ? product_.pool->reductions : std::vector<int>{}; }
  bool is_folded(int fold) const { return product_.pool && fold != 0; }

  /// The outer variables that results move with.
  std::vector<int> of_results() const {
    std::vector<int> found;
    for (int v = 0; v < static_cast<int>(kernel_.space.extents.size()) - kernel_.inner; ++v) {
      if (!product_.pool || product_.pool->size_along(v) == 1) found.push_back(v);
    }
    return found;
  }

  void head(const std::vector<int>& all, const std::string& outputs) {
    writer_.out = place_prelude() + sums_text() + std::string(load_text());
    writer_.line("// ---- kernel ----");
    writer_.open(
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}) planish_kernel({}{}const int* __restrict__ "
                    "notes) {{",
                    fix_up_threads, writer_.parameters(all), outputs));
    writer_.line("int any = 0;");
    const std::int64_t images = noted_images(product_);
    writer_.line(fmt::format("for (int i = {} + (int)threadIdx.x; i < {}; i += {}) any |= notes[i];",
                             product_.implicit ? images : 0, product_.implicit ? 2 * images : images, fix_up_threads));
    writer_.line("if (!__syncthreads_or(any)) return;");
  }

  void loop(int v) {
    writer_.line("#pragma unroll 1");
    writer_.open(
        fmt::format("for ({0} d{1} = 0; d{1} < {2}; ++d{1}) {{", writer_.coordinate(), v, kernel_.space.extent(v)));
  }

  /// `folded`: what the taps that there are come to.
  void sum() {
    const Contraction& c = product_.c;
    writer_.line("double sum = 0.0;");
    std::ranges::for_each(c.k, [&](int v) { loop(v); });
    writer_.nodes(std::vector<int>{c.first, c.second});
    const int idle = wasted(product_) == Operand::a ? c.first : c.second;
    writer_.line(fmt::format("if ({}) sum += (double){} * (double){};", writer_.condition(product_.taps),
                             writer_.name(c.first), writer_.name(c.second)));
    writer_.line(fmt::format("else met = met || !is_finite({});", writer_.name(idle)));
    for (std::size_t i = 0; i < c.k.size(); ++i) writer_.close();
    writer_.line("const float folded = (float)sum;");
  }

  void fold(int which) {
    const Reduction& fold = reduction(which);
    const std::string name = fmt::format("fold{}", which);
    writer_.line(fmt::format("{} {} = {};", printing::computing_type(fold.accumulate), name,
                             printing::neutral(fold.kind, fold.accumulate)));
    for (const PoolWindow& window : product_.pool->windows) loop(window.variable);
    sum();
    writer_.nodes(std::vector<int>{fold.arg});
    writer_.line(
        fmt::format("{} = {};", name, printing::combine(fold.kind, fold.accumulate, name, writer_.name(fold.arg))));
    for (std::size_t i = 0; i < product_.pool->windows.size(); ++i) writer_.close();
  }

  const Product& product_;
  const Kernel& kernel_;
  PlaceWriter writer_;
  std::vector<int> results_;
};

}  // namespace

Packing print_fix_up(const Product& product, int multiprocessors) {
  if (!product.cross_tile) return FixUpPrinter(product).print(multiprocessors);
  Product elements = product;
  elements.kernel.outputs.resize(product.cross_tile->elements);
  return FixUpPrinter(elements).print(multiprocessors);
}

Packing print_piece_fix_up(const Product& product, const TilePlan& plan, int multiprocessors) {
  return FixUpPrinter(product).print_pieces(plan, multiprocessors);
}

}  // namespace planish::codegen::contraction
