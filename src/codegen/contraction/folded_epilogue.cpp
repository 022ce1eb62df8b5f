#include "codegen/contraction/folded_epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "codegen/contraction/fold_nodes.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/window_places.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

constexpr std::int64_t group = 8;       ///< columns of which four lanes have two neighbours each
constexpr std::int64_t most_parts = 4;  ///< of what a thread folds: none waits for the one before

std::vector<int> args_of(const Product& product) {
  std::vector<int> args;
  for (const int fold : product.pool->reductions)
    args.push_back(product.kernel.reductions[static_cast<std::size_t>(fold)].arg);
  return args;
}

/// Where the columns of a run's windows lie in the registers of four lanes that share a row. A bundle is what each of
/// them folds at once: a window, or a part of those that lie in 8 columns.
struct Bundles {
  std::int64_t window = 1;
  bool even = true;           ///< windows are groups of columns, or groups are windows
  std::int64_t sharers = 4;   ///< lanes that fold one window
  std::int64_t count = 1;     ///< of a run
  std::int64_t elements = 2;  ///< of a run, that a lane folds of a bundle

  Bundles(std::int64_t columns, std::int64_t size) : window(size), even(size % group == 0 || group % size == 0) {
    const std::int64_t groups = columns / group;
    if (window == 1) {
      sharers = elements = 1;
      count = 2 * groups;
    } else if (even && window < group) {
      sharers = window / 2;
      count = groups;
    } else {
      count = columns / window;
      elements = 2 * (even ? window / group : (window - 2) / group + 2);
    }
  }

  /// Which window of the run the lane's is, of bundle `w`.
  std::string of_lane() const {
    if (window == 1) return "w / 2 * 8 + part * 2 + w % 2";
    return even && window < group ? fmt::format("w * {} + part / {}", group / window, sharers) : "w";
  }
  /// Column of its window that element `i` of the lane's bundle `w` is, where that is sure; and its group in the run.
  std::string column() const {
    if (window == 1) return "0";
    return window < group ? fmt::format("part % {} * 2 + i", sharers) : "i / 2 * 8 + part * 2 + i % 2";
  }
  std::string group_of() const {
    if (window == 1) return "w / 2";
    return even ? fmt::format("w * {} + i / 2", std::max<std::int64_t>(window / group, 1))
                : fmt::format("w * {} / 8 + i / 2", window);
  }
  std::string side() const { return window == 1 ? "w % 2" : "i % 2"; }
};

/// Prints `fold_sums`. Names in the text: `h` which of the thread's two rows, 8 apart; `w` a bundle, `window` which of
/// the tile's windows, or of its runs', the lane's is; `run` a run, `c` a column of the window, `in` whether that is
/// the lane's; `ok` whether there are such a row and such a window. No lane leaves before the others: they ask each
/// other for what they folded.
class FoldPrinter {
 public:
  FoldPrinter(const Product& product, const TilePlan& plan, bool fast)
      : product_(product),
        kernel_(product.kernel),
        folds_(product.pool->reductions),
        columns_(run_columns(product.problem, plan)),
        runs_(product.problem.runs()),
        bundles_(columns_, product.problem.folding->window),
        writer_(kernel_),
        places_(product, plan),
        nodes_(kernel_, product.c, args_of(product)) {
    writer_.fast = fast;
    for (const Output& output : kernel_.outputs) after_.push_back(output.node);
    writer_.of_fold = [this](int fold) {
      return std::ranges::find(folds_, fold) == folds_.end() ? std::string("folded") : name_of(fold);
    };
    const auto moves = variables_of(kernel_);
    for (const int id : nodes_.own(args_of(product))) {
      const auto with = [&](const std::vector<int>& variables) {
        return std::ranges::any_of(
            variables, [&](int v) { return moves[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)]; });
      };
      moves_outside_ = moves_outside_ || with(places_.outer());
      const bool loads = kernel_.nodes[static_cast<std::size_t>(id)].op == Op::load;
      asks_ = asks_ || (loads && (with(places_.outer()) || with(product.c.m)));
    }
    kept_ = kept();
    // x · g less the largest of all x · g must be 0 for the largest itself: fused it is what the product was rounded
    // by.
    for (const int fold : folds_) {
      const Node& node = kernel_.nodes[static_cast<std::size_t>(reduction(fold).arg)];
      if (folds_.size() > 1 && node.op == Op::mul && node.dtype == DType::f32)
        writer_.rounded.push_back(reduction(fold).arg);
    }
  }

  Epilogue print() {
    auto roots = after_;
    for (const int fold : folds_) roots.push_back(reduction(fold).arg);
    Epilogue epilogue = epilogue_of(writer_, kernel_, roots);
    epilogue.folds = true;
    epilogue.stores = false;
    open_fold(writer_, epilogue);
    writer_.decode("batch", product_.c.batch);
    places_.of_tile(writer_);
    writer_.line("const int part = (lane + opaque_zero()) & 3;");
    for (const int fold : folds_) writer_.line(fmt::format("{} all{}[{}];", type_of(fold), fold, 2 * bundles_.count));
    unrolled(fmt::format("int w = 0; w < {}; ++w", bundles_.count));
    for (std::size_t i = 0; i < folds_.size(); ++i) fold(i);
    writer_.close();
    finish();
    writer_.close();
    epilogue.text = std::move(writer_.out);
    return epilogue;
  }

 private:
  const Reduction& reduction(int fold) const { return kernel_.reductions[static_cast<std::size_t>(fold)]; }
  static std::string name_of(int fold) { return fmt::format("fold{}", fold); }
  std::string type_of(int fold) const { return std::string(printing::computing_type(reduction(fold).accumulate)); }

  void unrolled(std::string_view head) {
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for ({}) {{", head));
  }

  /// The lane's row `h`, or where there is none the last one, of which nothing is stored.
  void row() {
    const bool slides = product_.problem.is_implicit(Operand::a);
    const std::int64_t rows = slides ? product_.implicit->positions() : product_.c.rows;
    writer_.line("const int at = y + lane / 4 + 8 * h;");
    writer_.line(fmt::format("const int row = all ? at : min(at, {});", rows - 1));
    writer_.line(fmt::format("bool inside = all || at < {};", rows));
    if (!slides) {
      writer_.decode("row", product_.c.m);
    } else if (const std::string there = print_position(writer_, *product_.implicit, "row"); !there.empty()) {
      writer_.line(fmt::format("inside = inside & ({});", there));
    }
  }

  /// Which the lane's window of bundle `w` is, and whether there is one.
  void place_of_window() {
    writer_.line(fmt::format("const int window = {};", bundles_.of_lane()));
    const std::string there = places_.of_window(writer_, "window");
    std::string ok = fmt::format("inside & ({})", there);
    if (const auto& where = kernel_.outputs.front().where; !where.empty())
      ok += fmt::format(" & ({})", writer_.condition(where));
    writer_.line(fmt::format("const bool ok = {};", ok));
  }

  /// What is computed of each element for a fold.
  std::vector<int> of_element(std::size_t number) const {
    const std::vector<int> arg{reduction(folds_[number]).arg};
    auto nodes = nodes_.own(arg);
    if (number == 0 || kept_ < 0) return nodes;
    const auto needed = printing::closure(kernel_, arg, [&](int id) { return id == kept_; });
    std::erase_if(nodes, [&](int id) { return !std::ranges::binary_search(needed, id); });
    return nodes;
  }

  /// What the first of several folds folds, where all that the later ones fold follows from it: it is left where the
  /// sums were. -1 where it does not.
  int kept() const {
    const int first = reduction(folds_.front()).arg;
    const Node& node = kernel_.nodes[static_cast<std::size_t>(first)];
    if (folds_.size() == 1 || node.op == Op::reduced || node.dtype != DType::f32) return -1;
    for (std::size_t i = 1; i < folds_.size(); ++i) {
      const std::vector<int> arg{reduction(folds_[i]).arg};
      for (const int id : printing::closure(kernel_, arg, [&](int one) { return one == first; })) {
        const Node& needed = kernel_.nodes[static_cast<std::size_t>(id)];
        if (needed.op == Op::reduced && std::ranges::find(folds_, needed.reduction) == folds_.end()) return -1;
      }
    }
    return first;
  }

  /// Both rows of a column follow each other: what is loaded for a column is then held no longer than that.
  void fold(std::size_t number) {
    const int which = folds_[number];
    const Reduction& fold = reduction(which);
    const std::string type = type_of(which), name = name_of(which);
    const auto combined = [&](std::string_view a, std::string_view b) {
      return printing::combine(fold.kind, fold.accumulate, a, b);
    };
    const auto part = [&](std::int64_t i) { return fmt::format("parts{}[h][{}]", which, i); };
    const std::int64_t parts = std::min(most_parts, bundles_.elements * runs_);
    writer_.line(fmt::format("{} parts{}[2][{}];", type, which, parts));
    unrolled(fmt::format("int i = 0; i < {}; ++i", parts));
    writer_.line(
        fmt::format("parts{0}[0][i] = parts{0}[1][i] = {1};", which, printing::neutral(fold.kind, fold.accumulate)));
    writer_.close();
    unrolled(fmt::format("int run = 0; run < {}; ++run", runs_));
    unrolled(fmt::format("int i = 0; i < {}; ++i", bundles_.elements));
    writer_.line(fmt::format("const int g = {};", bundles_.group_of()));
    if (bundles_.even) {
      writer_.line(fmt::format("const int c = {};", bundles_.column()));
    } else {
      writer_.line(fmt::format("if (g >= {}) continue;", columns_ / group));
      writer_.line(fmt::format("const int own = g * 8 + part * 2 + i % 2 - w * {};", bundles_.window));
      writer_.line(fmt::format("const bool in = (own >= 0) & (own < {});", bundles_.window));
      writer_.line("const int c = in ? own : 0;");
    }
    unrolled("int h = 0; h < 2; ++h");
    row();
    nodes_.print(writer_, nodes_.row(), "inside");
    if (asks_ || moves_outside_) place_of_window();
    writer_.open("{");
    if (moves_outside_ || product_.pool->whole) places_.of_element(writer_, "run", "c");
    for (std::size_t before = 0; before < number; ++before) {
      const int other = folds_[before];
      writer_.line(
          fmt::format("const {} {} = all{}[h * {} + w];", type_of(other), name_of(other), other, bundles_.count));
    }
    const std::string sum = fmt::format("v[4 * (run * {} + g) + 2 * h + {}]", columns_ / group, bundles_.side());
    writer_.line(fmt::format("const float folded = {};", sum));
    if (number > 0 && kept_ >= 0) writer_.line(fmt::format("const float {} = folded;", writer_.name(kept_)));
    nodes_.print(writer_, of_element(number), asks_ ? "ok" : "true");
    std::string value = writer_.name(fold.arg);
    if (number == 0 && kept_ >= 0) writer_.line(fmt::format("{}{} = {};", bundles_.even ? "" : "if (in) ", sum, value));
    if (!bundles_.even) value = fmt::format("(in ? {} : {})", value, printing::neutral(fold.kind, fold.accumulate));
    const std::string into = fmt::format("parts{}[h][(run * {} + i) % {}]", which, bundles_.elements, parts);
    writer_.line(fmt::format("{} = {};", into, combined(into, value)));
    writer_.close();
    writer_.close();
    writer_.close();
    writer_.close();
    unrolled("int h = 0; h < 2; ++h");
    for (std::int64_t apart = 1; apart < parts; apart *= 2) {
      for (std::int64_t i = 0; i + apart < parts; i += 2 * apart)
        writer_.line(fmt::format("{} = {};", part(i), combined(part(i), part(i + apart))));
    }
    writer_.line(fmt::format("{} {} = {};", type, name, part(0)));
    for (std::int64_t apart = 1; apart < bundles_.sharers; apart *= 2) {
      writer_.line(
          fmt::format("{0} = {1};", name, combined(name, fmt::format("__shfl_xor_sync(~0u, {}, {})", name, apart))));
    }
    writer_.line(fmt::format("all{}[h * {} + w] = {};", which, bundles_.count, name));
    writer_.close();
  }

  /// What lanes have in common they compute and store in turn.
  void finish() {
    const std::int64_t all = 2 * bundles_.count, sharers = bundles_.sharers;
    const bool even = all % sharers == 0;
    unrolled(fmt::format("int j = 0; j < {}; j += {}", all, sharers));
    writer_.line(sharers == 1 ? "const int mine = j;" : fmt::format("const int mine = j + part % {};", sharers));
    writer_.line(fmt::format("const int h = mine / {0}, w = mine % {0};", bundles_.count));
    row();
    place_of_window();
    for (const int which : folds_) {
      writer_.line(fmt::format("{} {} = all{}[j];", type_of(which), name_of(which), which));
      for (std::int64_t k = 1; k < sharers; ++k) {
        writer_.line(fmt::format("if ({}part % {} == {}) {} = all{}[j + {}];",
                                 even ? "" : fmt::format("j + {} < {} && ", k, all), sharers, k, name_of(which), which,
                                 k));
      }
    }
    writer_.open(even ? "if (ok) {" : fmt::format("if (ok & (mine < {})) {{", all));
    writer_.nodes(after_);
    writer_.stores();
    writer_.close();
    writer_.close();
  }

  const Product& product_;
  const Kernel& kernel_;
  const std::vector<int>& folds_;
  const std::int64_t columns_, runs_;  ///< columns of a run
  const Bundles bundles_;
  PlaceWriter writer_;
  const WindowPlaces places_;
  FoldNodes nodes_;  ///< of what is folded
  std::vector<int> after_;
  int kept_ = -1;
  bool moves_outside_ = false;  ///< what is folded knows which window it is in
  bool asks_ = false;           ///< what is folded is loaded from places that there may not be
};

}  // namespace

Epilogue print_folded_epilogue(const Product& product, const TilePlan& plan, bool fast) {
  return FoldPrinter(product, plan, fast).print();
}

}  // namespace planish::codegen::contraction
