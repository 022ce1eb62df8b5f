#include "codegen/contraction/register_folds.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "codegen/contraction/cross_tile_text.h"
#include "codegen/contraction/fold_nodes.h"

namespace planish::codegen::contraction {
namespace {

/// Names in the text: `h` which of the thread's two rows, 8 apart; `there` by it and by 32 columns which of these are
/// elements; `slot` which of the piece's runs is folded, `from` and `to` its columns in the tile. Of each 8 columns a
/// thread has two neighbours in both rows, four threads have a row. All loops over registers are unrolled.
class RegisterPrinter {
 public:
  RegisterPrinter(const Product& product, const TilePlan& plan, bool fast)
      : product_(product),
        cross_tile_(*product.cross_tile),
        plan_(plan),
        kernel_(product.kernel),
        fold_(cross_tile_.folds.front()),
        arg_(kernel_.reductions[static_cast<std::size_t>(fold_.sum)].arg),
        pieces_(pieces_of(cross_tile_, product.problem, plan)),
        writer_(kernel_),
        nodes_(kernel_, product.c, std::vector<int>{arg_}),
        bounds_(product) {
    writer_.fast = fast;
    writer_.fold = "folded";
  }

  std::string print(const Epilogue& whole) {
    open_fold(writer_, whole);
    if (product_.problem.m % 64 != 0) writer_.line(fmt::format("if (y >= {}) return;", product_.problem.m));
    writer_.decode("batch", product_.c.batch);
    rows();
    open_slots(writer_, cross_tile_, pieces_);
    find_elements();
    unrolled("int h = 0; h < 2; ++h");
    piece();
    writer_.close();
    writer_.close();
    writer_.close();
    return std::move(writer_.out);
  }

 private:
  void unrolled(std::string_view head) {
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for ({}) {{", head));
  }

  /// What the threads' rows are, and what is folded of them in place of the sums.
  void rows() {
    writer_.line("bool inside[2], any[2];");
    for (const int phase : bounds_.phases) writer_.line(fmt::format("int own{}[2];", phase));
    unrolled("int h = 0; h < 2; ++h");
    writer_.line("const int at = y + lane / 4 + 8 * h;");
    writer_.line(fmt::format("const int row = all ? at : min(at, {});", product_.c.rows - 1));
    writer_.line(fmt::format("inside[h] = all || at < {};", product_.c.rows));
    writer_.decode("row", product_.c.m);
    writer_.line(bounds_.of_rows.empty()
                     ? "any[h] = inside[h];"
                     : fmt::format("any[h] = inside[h] & ({});", writer_.condition(bounds_.of_rows)));
    for (const int phase : bounds_.phases) writer_.line(fmt::format("own{0}[h] = d{0};", phase));
    const auto own = nodes_.own(std::vector<int>{arg_});
    if (kernel_.nodes[static_cast<std::size_t>(arg_)].op != Op::reduced) {
      nodes_.print(writer_, nodes_.row(), "any[h]");
      unrolled("int i = 0; i < columns / 4; ++i");
      writer_.line("float& sum = v[i / 2 * 4 + 2 * h + i % 2];");
      writer_.line("const float folded = sum;");
      writer_.these(own);
      writer_.line(fmt::format("sum = {};", writer_.name(arg_)));
      writer_.close();
    }
    writer_.close();
  }

  /// Each column is asked for once by one lane, for each phase that has a part in it, and a vote tells all.
  void find_elements() {
    writer_.line("unsigned there[2][(columns + 31) / 32];");
    unrolled("int k = 0; k < (columns + 31) / 32; ++k");
    writer_.line("const int c = 32 * k + lane;");
    std::string ok = "(c >= from) & (c < to)";
    if (const std::string inner = print_column(writer_, product_, "x + c"); !inner.empty()) ok += " & " + inner;
    if (!bounds_.of_columns.empty()) ok += fmt::format(" & ({})", writer_.condition(bounds_.of_columns));
    writer_.line(fmt::format("const unsigned bits = __ballot_sync(~0u, {});", ok));
    writer_.line("there[0][k] = any[0] ? bits : 0, there[1][k] = any[1] ? bits : 0;");
    for (const ir::Bound& bound : bounds_.of_both) {
      const int phase = phase_of(bound, product_.c);
      writer_.open("{");
      writer_.line("unsigned mine[2] = {0, 0};");
      unrolled(fmt::format("int d{0} = 0; d{0} < {1}; ++d{0}", phase, kernel_.space.extent(phase)));
      writer_.line(fmt::format("const unsigned its = __ballot_sync(~0u, {});",
                               writer_.condition(std::vector<ir::Bound>{bound})));
      writer_.line(fmt::format("if (d{0} == own{0}[0]) mine[0] = its;", phase));
      writer_.line(fmt::format("if (d{0} == own{0}[1]) mine[1] = its;", phase));
      writer_.close();
      writer_.line("there[0][k] &= mine[0], there[1][k] &= mine[1];");
      writer_.close();
    }
    writer_.close();
  }

  /// All elements of row `h`: `take` says what is done with the value `v[at]`, where `ok` holds, for the sum `part` of
  /// four, so that none waits for the one before.
  template <class Take>
  void sweep(const Take& take) {
    unrolled("int k = 0; k < (columns + 31) / 32; ++k");
    writer_.line("const unsigned bits = there[h][k] >> lane % 4 * 2;");
    const auto elements = [&](std::string_view ok) {
      unrolled("int i = 0; i < min(8, columns / 4 - 8 * k); ++i");
      writer_.line("const float value = v[(4 * k + i / 2) * 4 + 2 * h + i % 2];");
      writer_.line(fmt::format("const bool ok = {};", ok));
      take();
      writer_.close();
    };
    writer_.open("if (there[h][k] == ~0u) {");
    elements("true");
    writer_.close();
    writer_.open("else {");
    elements("(bits >> (i / 2 * 8 + i % 2) & 1u) != 0");
    writer_.close();
    writer_.close();
  }

  void share(std::string_view name) {
    for (const int apart : {1, 2}) writer_.line(fmt::format("{0} += __shfl_xor_sync(~0u, {0}, {1});", name, apart));
  }

  void piece() {
    writer_.line(fmt::format("const int row = y + lane / 4 + 8 * h;"));
    writer_.line(fmt::format("float* const at = pieces + {};",
                             place_of_piece(product_, pieces_, "row", piece_of(pieces_, plan_, "x"), "slot")));
    writer_.line("float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};");
    sweep([&] { writer_.line("part[i % 4] += ok ? value : 0.0f;"); });
    writer_.line("float total = (part[0] + part[1]) + (part[2] + part[3]);");
    share("total");
    if (fold_.squares < 0) {
      writer_.line("if (inside[h] & (lane % 4 == 0)) at[0] = total;");
      return;
    }
    writer_.line("int count = 0;");
    unrolled("int k = 0; k < (columns + 31) / 32; ++k");
    writer_.line("count += __popc(there[h][k]);");
    writer_.close();
    writer_.line("const float mean = total / (float)max(count, 1);");
    unrolled("int i = 0; i < 4; ++i");
    writer_.line("part[i] = 0.0f;");
    writer_.close();
    sweep([&] {
      writer_.line("const float distance = ok ? value - mean : 0.0f;");
      writer_.line("part[i % 4] = fmaf(distance, distance, part[i % 4]);");
    });
    writer_.line("float squares = (part[0] + part[1]) + (part[2] + part[3]);");
    share("squares");
    writer_.open("if (inside[h] & (lane % 4 == 0)) {");
    writer_.line("at[0] = mean;");
    writer_.line("at[1] = squares;");
    writer_.line("at[2] = (float)count;");
    writer_.close();
  }

  const Product& product_;
  const CrossTileReduction& cross_tile_;
  const TilePlan& plan_;
  const Kernel& kernel_;
  const CrossTileFold& fold_;
  const int arg_;
  const Pieces pieces_;
  PlaceWriter writer_;
  FoldNodes nodes_;
  const ElementBounds bounds_;
};

}  // namespace

std::string print_register_folds(const Product& product, const TilePlan& plan, bool fast, const Epilogue& whole) {
  return RegisterPrinter(product, plan, fast).print(whole);
}

}  // namespace planish::codegen::contraction
