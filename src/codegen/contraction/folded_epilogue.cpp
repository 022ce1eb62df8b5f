#include "codegen/contraction/folded_epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "codegen/contraction/fold_nodes.h"
#include "codegen/contraction/place_writer.h"

namespace planish::codegen::contraction {
namespace {

constexpr int sharers = 4;  ///< lanes of a row
constexpr int at_once = 4;  ///< columns that a lane reads as one word of shared memory

/// Prints `tc_store`. Names in the text: `r` the lane's row of the call, `begin` the first column of a window in the
/// tile, `c` a column of it, `ok` whether there is such a row and such a window. No lane leaves before the others: they
/// ask each other for what they folded.
class FoldPrinter {
 public:
  FoldPrinter(const Product& product, const TilePlan& plan, bool fast)
      : product_(product), plan_(plan), kernel_(product.kernel), folds_(product.pool->reductions), writer_(kernel_) {
    writer_.fast = fast;
    for (const Output& output : kernel_.outputs) after_.push_back(output.node);
    roots_ = after_;
    for (const int fold : folds_) roots_.push_back(reduction(fold).arg);
    writer_.of_fold = [this](int fold) {
      return std::ranges::find(folds_, fold) == folds_.end() ? std::string("folded") : name_of(fold);
    };
    nodes_.emplace(kernel_, product.c, roots_);
    // x · g less the largest of all x · g must be 0 for the largest itself: fused it is what the product was rounded
    // by.
    for (const int fold : folds_) {
      const Node& node = kernel_.nodes[static_cast<std::size_t>(reduction(fold).arg)];
      if (folds_.size() > 1 && node.op == Op::mul && node.dtype == DType::f32)
        writer_.rounded.push_back(reduction(fold).arg);
    }
  }

  Epilogue print() {
    Epilogue epilogue = epilogue_of(writer_, kernel_, roots_);
    if (reads_words()) writer_.out += neighbours_text();
    open_store(writer_, epilogue);
    writer_.decode("batch", product_.c.batch);
    // Rows whose lanes read together lie two apart, which is half of the banks.
    writer_.line(fmt::format("const int line = lane / {0}, part = lane % {0};", sharers));
    writer_.line("const int r = (line & 4) | (line & 1) << 1 | (line >> 1 & 1);");
    row();
    const std::int64_t window = product_.problem.folding->window, windows = plan_.bn / window;
    writer_.line(windows > 1 ? "#pragma unroll 1" : "#pragma unroll");
    writer_.open(fmt::format("for (int begin = 0; begin < {}; begin += {}) {{", windows * window, window));
    writer_.line(fmt::format("bool ok = inside & (x + begin < {});", product_.c.columns));
    if (const auto& where = kernel_.outputs.front().where; !where.empty()) {
      writer_.open("{");
      writer_.decode("x + begin", product_.c.n);
      writer_.line(fmt::format("ok = ok & ({});", writer_.condition(where)));
      writer_.close();
    }
    for (const int which : folds_) fold(which, window);
    writer_.open("if (ok & (part == 0)) {");
    writer_.decode("x + begin", product_.c.n);
    writer_.these(nodes_->own(after_));
    writer_.stores();
    writer_.close();
    writer_.close();
    writer_.close();
    epilogue.text = std::move(writer_.out);
    return epilogue;
  }

 private:
  const Reduction& reduction(int fold) const { return kernel_.reductions[static_cast<std::size_t>(fold)]; }
  static std::string name_of(int fold) { return fmt::format("fold{}", fold); }

  /// Whether windows are made of such words.
  bool reads_words() const { return product_.problem.folding->window % at_once == 0; }

  /// The lane's row, or where there is none the last one, which is not stored.
  void row() {
    const bool slides = product_.sliding.has_value();
    const std::int64_t rows = slides ? product_.sliding->positions() : product_.c.rows;
    writer_.line(fmt::format("const int row = all ? y + r : min(y + r, {});", rows - 1));
    writer_.line(fmt::format("bool inside = all || y + r < {};", rows));
    if (!slides) {
      writer_.decode("row", product_.c.m);
    } else {
      const std::string there = print_position(writer_, *product_.sliding, "row");
      if (!there.empty()) writer_.line(fmt::format("inside = inside & ({});", there));
    }
    nodes_->print(writer_, nodes_->row(), "inside");
  }

  void fold(int which, std::int64_t window) {
    const Reduction& fold = reduction(which);
    const std::string name = name_of(which);
    writer_.line(fmt::format("{} {} = {};", printing::computing_type(fold.accumulate), name,
                             printing::neutral(fold.kind, fold.accumulate)));
    const auto nodes = nodes_->own(std::vector<int>{fold.arg});
    if (reads_words()) {
      writer_.line(nodes.size() <= 12 ? "#pragma unroll 4" : "#pragma unroll 1");
      writer_.open(
          fmt::format("for (int word = part * {0}; word < {1}; word += {2}) {{", at_once, window, sharers * at_once));
      writer_.line(fmt::format("float sum[{}];", at_once));
      writer_.line("tc_neighbours(sums, r, begin + word, sum);");
      writer_.line("#pragma unroll");
      writer_.open(fmt::format("for (int i = 0; i < {}; ++i) {{", at_once));
      writer_.line("const int c = word + i;");
    } else {
      writer_.line(nodes.size() <= 12 ? "#pragma unroll 8" : "#pragma unroll 2");
      writer_.open(fmt::format("for (int c = part; c < {}; c += {}) {{", window, sharers));
    }
    writer_.decode("x + begin + c", product_.c.n);
    writer_.line(reads_words() ? "const float folded = sum[i];" : "const float folded = sums(r, begin + c);");
    nodes_->print(writer_, nodes, "ok");
    writer_.line(
        fmt::format("{} = {};", name, printing::combine(fold.kind, fold.accumulate, name, writer_.name(fold.arg))));
    writer_.close();
    if (reads_words()) writer_.close();
    for (int apart = 1; apart < sharers; apart *= 2) {
      writer_.line(fmt::format("{} = {};", name,
                               printing::combine(fold.kind, fold.accumulate, name,
                                                 fmt::format("__shfl_xor_sync(~0u, {}, {})", name, apart))));
    }
  }

  const Product& product_;
  const TilePlan& plan_;
  const Kernel& kernel_;
  const std::vector<int>& folds_;
  PlaceWriter writer_;
  std::vector<int> after_, roots_;
  std::optional<FoldNodes> nodes_;
};

}  // namespace

Epilogue print_folded_epilogue(const Product& product, const TilePlan& plan, bool fast) {
  return FoldPrinter(product, plan, fast).print();
}

}  // namespace planish::codegen::contraction
