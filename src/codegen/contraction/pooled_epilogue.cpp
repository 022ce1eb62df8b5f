#include "codegen/contraction/pooled_epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/window_places.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

/// Prints `store_sums`. Names in the text: `r` a row of the call, `p` a window of a run, `w` and `u` a run and a column
/// of a window, `ok` whether there is such a window.
class PoolPrinter {
 public:
  PoolPrinter(const Product& product, const TilePlan& plan, bool fast)
      : product_(product),
        plan_(plan),
        kernel_(product.kernel),
        folding_(*product.problem.folding),
        fold_(kernel_.reductions[static_cast<std::size_t>(product.pool->reductions.front())]),
        windows_((product.implicit ? run_step(product.problem, plan) : plan.bn) / folding_.window),
        rows_at_once_(
            windows_ > 16 ? 1 : std::bit_floor(static_cast<std::uint64_t>(std::min<std::int64_t>(32 / windows_, 8)))),
        writer_(kernel_),
        places_(product, plan) {
    writer_.fast = fast;
    for (const Output& output : kernel_.outputs) after_.push_back(output.node);
    roots_ = after_;
    roots_.push_back(fold_.arg);
    const auto moves = variables_of(kernel_);
    const auto moves_along_rows = [&](int id) {
      return std::ranges::any_of(
          product_.c.n, [&](int v) { return moves[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)]; });
    };
    const auto part = [&](const std::vector<int>& roots) {
      std::vector<int> own;
      for (const int id : printing::closure(kernel_, roots, [](int) { return false; }))
        (moves_along_rows(id) ? own : row_).push_back(id);
      return own;
    };
    within_ = part({fold_.arg});
    behind_ = part(after_);
    std::ranges::sort(row_);
    row_.erase(std::unique(row_.begin(), row_.end()), row_.end());
    writer_.of_fold = [this](int reduction) {
      return reduction == product_.pool->reductions.front() ? "pooled" : "folded";
    };
  }

  Epilogue print() {
    Epilogue epilogue = epilogue_of(writer_, kernel_, roots_);
    if (reads_at_once()) writer_.out += neighbours_text();
    open_store(writer_, epilogue);
    writer_.decode("batch", product_.c.batch);
    places_.of_tile(writer_);
    writer_.line(row_.size() + within_.size() + behind_.size() <= 12 ? "#pragma unroll 2" : "#pragma unroll 1");
    writer_.open(fmt::format("for (int first = 0; first < rows; first += {}) {{", rows_at_once_));
    if (rows_at_once_ == 1) {
      writer_.line("const int r = first, row = y + r;");
      writer_.line(fmt::format("if (!all && row >= {}) break;", product_.c.rows));
    } else {
      // Lanes that are behind the last row read what the last one has, and store nothing.
      writer_.line(fmt::format("const int r = first + lane / {} % {};", windows_, rows_at_once_));
      writer_.line(fmt::format("const int row = all || y + r < {0} ? y + r : {0} - 1;", product_.c.rows));
    }
    writer_.decode("row", product_.c.m);
    writer_.these(row_);
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for (int i = 0; i < {}; i += 32) {{", windows_ * rows_at_once_));
    window();
    writer_.close();
    writer_.close();
    writer_.close();
    epilogue.text = std::move(writer_.out);
    return epilogue;
  }

 private:
  void window() {
    if (rows_at_once_ == 1) {
      writer_.line(fmt::format("const bool inside = {0} % 32 == 0 || i + lane < {0};", windows_));
      writer_.line("const int p = inside ? i + lane : 0;");
    } else {
      writer_.line(fmt::format("const bool inside = lane < {} && (all || y + r < {});", windows_ * rows_at_once_,
                               product_.c.rows));
      writer_.line(fmt::format("const int p = lane % {};", windows_));
    }
    const std::string there = places_.of_window(writer_, "p");
    writer_.line(fmt::format("const bool ok = inside && {};", there));
    // Behind the last window there is nothing that could be read.
    if (reads_in_windows()) writer_.line("if (!ok) continue;");
    writer_.line(fmt::format("{} pooled = {};", printing::computing_type(fold_.accumulate),
                             printing::neutral(fold_.kind, fold_.accumulate)));
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for (int w = 0; w < {}; ++w) {{", folding_.runs.size()));
    const std::string first = fmt::format("w * {} + p * {}", run_columns(product_.problem, plan_), folding_.window);
    if (reads_at_once()) {
      writer_.line(fmt::format("float row_of_window[{}];", folding_.window));
      writer_.line(fmt::format("neighbours(sums, r, {}, row_of_window);", first));
    }
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for (int u = 0; u < {}; ++u) {{", folding_.window));
    places_.of_element(writer_, "w", "u");
    writer_.line(fmt::format("const float folded = {};",
                             reads_at_once() ? "row_of_window[u]" : fmt::format("sums(r, {} + u)", first)));
    writer_.these(within_);
    writer_.line(fmt::format("pooled = {};",
                             printing::combine(fold_.kind, fold_.accumulate, "pooled", writer_.name(fold_.arg))));
    writer_.close();
    writer_.close();
    writer_.line("if (!ok) continue;");
    writer_.these(behind_);
    writer_.stores();
  }

  /// Whether a row of a window is an aligned word of shared memory.
  bool reads_at_once() const {
    return (folding_.window == 2 || folding_.window == 4) &&
           run_columns(product_.problem, plan_) % folding_.window == 0;
  }

  bool reads_in_windows() const {
    return std::ranges::any_of(within_,
                               [&](int id) { return kernel_.nodes[static_cast<std::size_t>(id)].op == Op::load; });
  }

  const Product& product_;
  const TilePlan& plan_;
  const Kernel& kernel_;
  const Folding& folding_;
  const Reduction& fold_;
  const std::int64_t windows_;       ///< of a run
  const std::int64_t rows_at_once_;  ///< whose windows a warp's lanes share, where one row has few
  PlaceWriter writer_;
  const WindowPlaces places_;
  std::vector<int> after_, roots_;
  std::vector<int> row_;     ///< nodes that a row's columns have in common
  std::vector<int> within_;  ///< nodes of each element
  std::vector<int> behind_;  ///< nodes of each window
};

}  // namespace

Epilogue print_pooled_epilogue(const Product& product, const TilePlan& plan, bool fast) {
  return PoolPrinter(product, plan, fast).print();
}

}  // namespace planish::codegen::contraction
