#include "codegen/contraction/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string_view>

#include "codegen/contraction/exponents.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/contraction/sectors.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/cuda_access.h"
#include "codegen/emit/cuda_pattern.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

/// Loads of a thread that are under way at once, of all the inputs that an element of the results reads: a few warps
/// have to cover the latency of memory.
constexpr std::size_t loads_at_once = 32;

/// The most of `count` that divide it, up to `most`.
constexpr std::string_view share_text =
    "__device__ constexpr int share_of_columns(int count, int most) { return count < 1 ? 1 : count % most == 0 ? most "
    ": "
    "share_of_columns(count, most - 1); }";

constexpr std::int64_t rows_at_once = 8;  ///< of a call, or one (see EpilogueVisitor)

/// Stores a run of neighbours at an address that is aligned to all of it.
constexpr std::string_view put_text = R"(template <bool streaming, typename Word>
PL_DEVICE void put_word(void* to, Word word) {
  if (streaming) __stcs((Word*)to, word);
  else *(Word*)to = word;
}
template <bool streaming> PL_DEVICE void put_chunk(float* to, const float (&v)[4]) {
  put_word<streaming>(to, make_float4(v[0], v[1], v[2], v[3]));
}
template <bool streaming> PL_DEVICE void put_chunk(float* to, const float (&v)[2]) {
  put_word<streaming>(to, make_float2(v[0], v[1]));
}
template <bool streaming> PL_DEVICE void put_chunk(unsigned short* to, const unsigned short (&v)[2]) {
  put_word<streaming>(to, (unsigned)v[0] | (unsigned)v[1] << 16);
}
)";
/// Reads two neighbours, at an address that is aligned to both.
constexpr std::string_view get_text = R"(PL_DEVICE void get_pair(const unsigned short* from, unsigned short (&v)[2]) {
  const unsigned both = pl_ldg((const unsigned*)from);
  v[0] = (unsigned short)both, v[1] = (unsigned short)(both >> 16);
}
PL_DEVICE void get_pair(const float* from, float (&v)[2]) {
  const float2 both = pl_ldg((const float2*)from);
  v[0] = both.x, v[1] = both.y;
}
)";

/// Prints `store_sums`. Names in the text: `r` and `j` a row and a column of the call, `at` the result's column, `ok`
/// whether there is such a result. Nothing jumps between elements, so that loads and stores of many are under way.
class StorePrinter {
 public:
  StorePrinter(const Kernel& kernel, const Contraction& c, const ImplicitOperand* implicit, StoreForm form)
      : kernel_(kernel), c_(c), implicit_(implicit), form_(form), writer_(kernel) {
    writer_.fast = form.fast;
    writer_.streaming = form.streaming;
    writer_.narrow = std::ranges::all_of(kernel.outputs, is_half, &Output::dtype);
    for (const Output& output : kernel.outputs) roots_.push_back(output.node);
    auto own = printing::closure(kernel, roots_, [](int) { return false; });
    const auto moves = variables_of(kernel);
    const auto common = std::ranges::stable_partition(own, [&](int id) {
      return std::ranges::none_of(
          c.n, [&](int v) { return moves[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)]; });
    });
    shared_.assign(own.begin(), common.begin());
    for (const int id : common) {
      const bool reads = kernel.nodes[static_cast<std::size_t>(id)].op == Op::load;
      const bool by_row = std::ranges::any_of(
          c.m, [&](int v) { return moves[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)]; });
      (reads && by_row ? loads_ : own_).push_back(id);
    }
    apart_ = !c.n.empty() && kernel.outputs.front().index.coefficient_of(c.n.back()) != 1;
    if (!is_implicit(Operand::a) && !in_boxes(Operand::a)) {
      count_phases();
      // Loads ask for whole runs.
      if (!loads_.empty() || form.interleave) interleave_ = interleaved();
      if (run_along_rows()) interleave_ = rows_at_once;
    }
    beside_ = neighbours();
    if (beside_ > 1 && is_half(kernel.outputs.front().dtype)) keep_columns(moves);
    if (form.overlap > 0) sectors_ = sectors_of(kernel, c, implicit);
  }

  /// Whether neighbouring threads store a run of what `sectors` says, and nothing is loaded for each result.
  bool may_overlap(const Sectors& sectors) const { return loads_.empty() && (sectors.phase < 0 || interleave_ > 1); }

  bool may_choose_to_interleave() const { return !is_implicit(Operand::a) && loads_.empty() && interleaved() > 1; }

  Epilogue print() {
    Epilogue epilogue = epilogue_of(writer_, kernel_, roots_);
    if (apart_ && !loads_.empty()) writer_.line(share_text);
    if (beside_ > 1) writer_.out += std::string(neighbours_text()) + std::string(put_text);
    if (beside_ > 1 && !loads_.empty()) writer_.out += get_text;
    epilogue.begins = sectors_.has_value();
    if (sectors_) print_edge(writer_, *sectors_, kernel_, *implicit_);
    open_store(writer_, epilogue, form_.name);
    if (sectors_) {
      writer_.line("int before_mask, behind_mask;");
      writer_.line(fmt::format("const {} before = edge_of(begin, before_mask), behind = edge_of(end, behind_mask);",
                               writer_.coordinate()));
    }
    writer_.decode("batch", c_.batch);
    if (interleave_ > 1)
      writer_.line(
          fmt::format("constexpr int interleave = rows % {0} == 0 && columns % 32 == 0 ? {0} : 1;", interleave_));
    writer_.line(interleave_ > 1 ? "constexpr int step = 32 / interleave;"
                                 : "constexpr int interleave = 1, step = 32;");
    writer_.fold = "folded";
    if (beside_ > 1) {
      // Short rows have more threads than such runs.
      writer_.open(fmt::format("if constexpr (columns >= {}) {{", is_half(kernel_.outputs.front().dtype) ? 2 : 64));
      in_runs();
      writer_.close();
      writer_.open("else {");
    }
    loads_.empty() ? one_by_one() : in_batches();
    if (beside_ > 1) writer_.close();
    writer_.close();
    epilogue.text = std::move(writer_.out);
    epilogue.crowded = apart_ && !loads_.empty();
    return epilogue;
  }

 private:
  bool is_implicit(Operand operand) const { return implicit_ != nullptr && implicit_->operand == operand; }

  bool in_boxes(Operand operand) const { return form_.boxes != nullptr && form_.boxes->operand() == operand; }

  /// The last variables of rows that a call has all settings of, in order: they are known from `r` alone.
  void count_phases() {
    for (std::size_t i = c_.m.size(); i-- > 0;) {
      const std::int64_t more = phases_ * kernel_.space.extent(c_.m[i]);
      if (more > rows_at_once || rows_at_once % more != 0) return;
      phases_ = more;
      ++phase_variables_;
    }
  }

  /// How many rows memory runs through before the next column; 1 where it does not. Neighbouring threads then have
  /// these rows of a column: they store a run, as long as they find their places cheaply.
  std::int64_t interleaved() const {
    if (phase_variables_ == 0 || c_.n.empty()) return 1;
    const ir::IndexExpr& place = kernel_.outputs.front().index;
    const std::int64_t count = kernel_.space.extent(c_.m.back());
    return place.coefficient_of(c_.m.back()) == 1 && place.coefficient_of(c_.n.back()) == count ? count : 1;
  }

  /// Whether memory runs along rows, and a call has eight neighbours or none: what neighbouring threads then store.
  bool run_along_rows() const {
    const int v = c_.m.back();
    return phase_variables_ == 0 && kernel_.outputs.front().index.coefficient_of(v) == 1 &&
           kernel_.space.extent(v) % rows_at_once == 0;
  }

  /// How many neighbours a thread may store at once: from columns on that are multiples of as many they are aligned
  /// words of up to 16 bytes of each output, and are results all or none. What is loaded for each result of 16 bits is
  /// read so, too; of fp32 one by one, and so are results then stored.
  std::int64_t neighbours() const {
    const bool half = is_half(kernel_.outputs.front().dtype);
    if (apart_ || (!loads_.empty() && !half) || interleave_ > 1 || c_.n.empty()) return 1;
    const std::int64_t most = half ? 2 : 4;
    for (std::int64_t count = most; count > 1; count /= 2) {
      if (are_neighbours(count)) return count;
    }
    return 1;
  }

  bool are_neighbours(std::int64_t count) const {
    const int v = c_.n.back();
    if (kernel_.space.extent(v) % count != 0) return false;
    if (in_boxes(Operand::b) && !form_.boxes->are_neighbours(v, count)) return false;
    if (is_implicit(Operand::b)) {
      const ImplicitDim& last = implicit_->dims.back();
      if (last.row != v || last.rows % count != 0 || last.places % count != 0) return false;
    }
    const DType first = kernel_.outputs.front().dtype;
    if (!is_half(first) && first != DType::f32) return false;
    const auto whole = [&](const ir::IndexExpr& index, const std::vector<ir::Bound>& where, DType dtype) {
      const printing::Lanes lanes{printing::Lanes::Mode::along, static_cast<int>(count), v, {}, {}};
      const auto access = printing::classify(index, where, dtype, kernel_.space, lanes);
      return where.empty() && access.kind == printing::Access::Kind::vector && access.unit == count;
    };
    return std::ranges::all_of(loads_,
                               [&](int id) {
                                 const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
                                 const DType stored = stored_of(node);
                                 return (is_half(stored) || stored == DType::f32) && !gathers(node) &&
                                        whole(node.index, node.where, stored);
                               }) &&
           std::ranges::all_of(kernel_.outputs, [&](const Output& output) {
             return (output.dtype == first || (is_half(output.dtype) && is_half(first))) &&
                    whole(output.index, output.where, output.dtype);
           });
  }

  /// What is computed of columns alone (a norm's statistics) is computed once for the rows of a call, where few values
  /// come of it: registers hold these.
  void keep_columns(const std::vector<std::vector<bool>>& moves) {
    constexpr std::size_t most = 4;
    const auto of_columns = [&](int id) {
      return std::ranges::none_of(
          c_.m, [&](int v) { return moves[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)]; });
    };
    std::vector<int> columns, others;
    for (const int id : own_) (of_columns(id) ? columns : others).push_back(id);
    std::vector<int> kept;
    const auto keep = [&](int id) {
      if (std::ranges::find(columns, id) != columns.end() && std::ranges::find(kept, id) == kept.end())
        kept.push_back(id);
    };
    for (const int id : others) std::ranges::for_each(kernel_.nodes[static_cast<std::size_t>(id)].args, keep);
    std::ranges::for_each(roots_, keep);
    if (kept.empty() || kept.size() > most) return;
    columns_ = printing::closure(kernel_, kept, [](int) { return false; });
    kept_ = std::move(kept);
  }

  DType stored_of(const Node& load) const { return kernel_.inputs[static_cast<std::size_t>(load.input)].dtype; }

  /// Coordinates of a factor's row at the position `linear`; the condition under which it is not one of those behind
  /// the last of a dim, if there are such.
  std::string decode(const std::string& linear, const std::vector<int>& variables, Operand operand) {
    if (in_boxes(operand)) return form_.boxes->print(writer_, linear);
    if (!is_implicit(operand)) {
      writer_.decode(linear, variables);
      return {};
    }
    return print_position(writer_, *implicit_, linear);
  }

  /// Row `r`. Calls begin at multiples of their rows.
  void row() {
    const bool interleaved_rows = interleave_ > 1 && phase_variables_ == 0;
    writer_.line(interleaved_rows ? "const int row = y + r + lane % interleave;" : "const int row = y + r;");
    if (!in_boxes(Operand::a))
      writer_.line(
          fmt::format("if (!all && row >= {}) break;", is_implicit(Operand::a) ? implicit_->positions() : c_.rows));
    if (phase_variables_ == 0) {
      const std::string there = decode("row", c_.m, Operand::a);
      if (!there.empty()) writer_.line(fmt::format("if (!({})) continue;", there));
      return;
    }
    const std::string whole = fmt::format("rows % {} == 0", phases_);
    const std::size_t others = c_.m.size() - phase_variables_;
    if (others > 0) {
      writer_.line(fmt::format("const int block = {1} ? y / {0} + r / {0} : row / {0};", phases_, whole));
      writer_.decode("block", std::vector<int>(c_.m.begin(), c_.m.begin() + static_cast<std::ptrdiff_t>(others)));
    }
    std::int64_t later = phases_;
    for (std::size_t i = others; i < c_.m.size(); ++i) {
      const std::int64_t count = kernel_.space.extent(c_.m[i]);
      later /= count;
      std::string phase = fmt::format("({} ? r : row) / {} % {}", whole, later, count);
      if (interleave_ > 1 && i + 1 == c_.m.size())
        phase = fmt::format("interleave > 1 ? lane % interleave : {}", phase);
      writer_.line(fmt::format("const {} d{} = {};", writer_.coordinate(), c_.m[i], phase));
    }
  }

  /// Column `j`, and where it is one.
  void column() {
    writer_.line("const int at = x + j + lane / interleave;");
    const std::string there = decode("at", c_.n, Operand::b);
    writer_.line(fmt::format("const bool there = {}{};", is_column(), there.empty() ? "" : " & " + there));
  }

  /// That `at` is a column; where tiles overlap, whose it is comes later.
  std::string is_column() const { return sectors_ ? fmt::format("(at < {})", implicit_->positions()) : "(at < end)"; }

  /// Leaves to the tiles before and behind what is in their sectors, of `span` columns from `j` on: only those that
  /// are near an end of the tile are asked.
  void own(std::string_view span) {
    if (!sectors_) return;
    writer_.line(fmt::format("const {} base = {}, along = {};", writer_.coordinate(), writer_.place_of(sectors_->row),
                             writer_.place_of(sectors_->column)));
    const auto edge = [](std::string_view name) {
      return fmt::format("{0} + (int)(-((unsigned)base + (unsigned){0}) & {0}_mask)", name);
    };
    writer_.line(fmt::format("if (x - begin + j < {}) ok = ok & (along >= {});", form_.overlap, edge("before")));
    writer_.line(fmt::format("if (x - begin + j + {} > {}) ok = ok & (along < {});", span, form_.step, edge("behind")));
  }

  void element() {
    std::string ok = "there";
    for (const ir::Bound& bound : kernel_.outputs[0].where) {
      const auto [lo, hi] = bound.e.range(kernel_.space);
      if (lo >= bound.lo && hi < bound.hi) continue;
      // One comparison for both sides, and no jump between bounds: this is asked of every element.
      ok += fmt::format(" & ((unsigned{})({} - {}) < {}u)", writer_.coordinate() == "int" ? "" : " long long",
                        writer_.place_of(bound.e), bound.lo, bound.hi - bound.lo);
    }
    writer_.line(fmt::format("{}bool ok = {};", sectors_ ? "" : "const ", ok));
    own("step");
  }

  /// What a load gives, where there is something to read.
  std::string guarded(int id) {
    const DType dtype = kernel_.nodes[static_cast<std::size_t>(id)].dtype;
    return fmt::format("ok ? {} : {}", writer_.load(kernel_, id), printing::literal(dtype, 0, 0));
  }

  /// Those of the nodes that are loads, as they are spelled where they are needed.
  std::map<int, std::string> guarded_loads(const std::vector<int>& nodes) {
    std::map<int, std::string> spelled;
    for (const int id : nodes) {
      if (kernel_.nodes[static_cast<std::size_t>(id)].op == Op::load) spelled[id] = fmt::format("({})", guarded(id));
    }
    return spelled;
  }

  void load(std::string_view index) {
    for (const int id : loads_) writer_.line(fmt::format("l{}{} = {};", id, index, guarded(id)));
  }

  /// What is computed of `folded`, where `index` is the element of what was loaded ahead.
  void compute(std::string_view index) {
    auto spelled = guarded_loads(own_);
    for (const int id : loads_) {
      const std::string value = fmt::format("l{}{}", id, index);
      spelled[id] =
          in_run_ ? printing::load_form(value, stored_of(kernel_.nodes[static_cast<std::size_t>(id)])) : value;
    }
    std::vector<int> all = own_;
    if (in_run_) {
      std::erase_if(all, [&](int id) { return std::ranges::find(columns_, id) != columns_.end(); });
      for (const int id : kept_)
        writer_.line(fmt::format("const {} {} = c{}[j / (32 * beside)][i];", type_of(id), writer_.name(id), id));
    }
    all.insert(all.end(), loads_.begin(), loads_.end());
    std::ranges::sort(all);
    writer_.at_hand = [&](int id) { return spelled.at(id); };
    writer_.these(all);
    writer_.at_hand = nullptr;
  }

  /// The rest of the function, where `index` is the element of what was loaded ahead.
  void finish(std::string_view index) {
    writer_.line("const float folded = sums(r + lane % interleave, j + lane / interleave);");
    compute(index);
    writer_.open("if (ok) {");
    writer_.stores();
    writer_.close();
  }

  /// What is loaded ahead, as arrays of these extents; a load is then that element.
  void arrays(std::string_view extents) {
    for (const int id : loads_)
      writer_.line(fmt::format("{} l{}{};", printing::computing_type(kernel_.nodes[static_cast<std::size_t>(id)].dtype),
                               id, extents));
  }

  void loop(std::string_view unroll, std::string_view head) {
    writer_.line(fmt::format("#pragma unroll{}{}", unroll.empty() ? "" : " ", unroll));
    writer_.open(fmt::format("for ({}) {{", head));
  }

  /// Long runs of a row, one behind the other; where columns are apart in memory, what lies between them soon after,
  /// and a column's place, which then is costly, once for all rows.
  std::string_view outer() const { return apart_ ? each_column : each_row; }
  std::string_view inner() const { return apart_ ? each_row : each_column; }
  static constexpr std::string_view each_row = "int r = 0; r < rows; r += interleave";
  static constexpr std::string_view each_column = "int j = 0; j < columns; j += step";

  bool is_short() const { return own_.size() + shared_.size() <= 12; }

  /// All elements of the row or column at hand: what they load, as that element of the arrays, or all that is behind.
  void elements(bool loads, std::string_view index, std::string_view unroll) {
    const auto this_row = [&] {
      row();
      if (!loads) writer_.these(shared_);
    };
    apart_ ? column() : this_row();
    loop(unroll, inner());
    apart_ ? this_row() : column();
    element();
    loads ? load(index) : finish(index);
    writer_.close();
  }

  void one_by_one() {
    const std::string_view rows = apart_ ? (is_short() ? "8" : "2") : (is_short() ? "2" : "1");
    loop(apart_ ? "" : rows, outer());
    elements(false, "", apart_ ? rows : "");
    writer_.close();
  }

  std::string_view type_of(int id) const {
    return printing::computing_type(kernel_.nodes[static_cast<std::size_t>(id)].dtype);
  }

  /// Values of columns, for all rows of the call.
  void columns() {
    if (kept_.empty()) return;
    for (const int id : kept_)
      writer_.line(fmt::format("{} c{}[(columns + 32 * beside - 1) / (32 * beside)][beside];", type_of(id), id));
    open_neighbours();
    each_neighbour();
    const auto spelled = guarded_loads(columns_);
    writer_.at_hand = [&](int id) { return spelled.at(id); };
    writer_.these(columns_);
    writer_.at_hand = nullptr;
    for (const int id : kept_) writer_.line(fmt::format("c{}[j / (32 * beside)][i] = {};", id, writer_.name(id)));
    writer_.close();
    writer_.close();
  }

  /// Opens the loop over a thread's neighbours.
  void each_neighbour() {
    const int last = c_.n.back();
    writer_.line(fmt::format("const {} first = d{};", writer_.coordinate(), last));
    loop("", "int i = 0; i < beside; ++i");
    writer_.line(fmt::format("const {} d{} = first + i;", writer_.coordinate(), last));
  }

  /// The row's neighbours of a thread from column `j` on: where they are, and whether there are such.
  void open_neighbours() {
    loop("", "int j = 0; j < columns; j += 32 * beside");
    writer_.line("const bool inside = columns % (32 * beside) == 0 || j + lane * beside < columns;");
    writer_.line("const int at = x + j + lane * beside;");
    const std::string there = decode("at", c_.n, Operand::b);
    writer_.line(fmt::format("{}bool ok = inside & {}{};", sectors_ ? "" : "const ", is_column(),
                             there.empty() ? "" : " & " + there));
    own("32 * beside");
  }

  /// Each thread has neighbours, which it stores at once: as many as there may be, or two where a row is too short for
  /// all threads to have so many. What is loaded for each is asked for some rows ahead.
  void in_runs() {
    writer_.line(beside_ == 4 ? "constexpr int beside = columns >= 96 ? 4 : 2;"
                              : fmt::format("constexpr int beside = {};", beside_));
    columns();
    if (loads_.empty()) {
      loop(is_short() ? "4" : "1", "int r = 0; r < rows; ++r");
      row();
      writer_.these(shared_);
      run("");
      writer_.close();
      return;
    }
    constexpr std::size_t words_a_row = 4;  // of the widest tile
    const std::size_t most = is_short() ? loads_at_once : loads_at_once / 2;
    writer_.line(fmt::format("constexpr int some = rows < {0} ? rows : {0};",
                             std::bit_floor(std::max<std::size_t>(most / words_a_row / loads_.size(), 1))));
    loop("1", "int first_row = 0; first_row < rows; first_row += some");
    for (const int id : loads_) {
      const DType stored = stored_of(kernel_.nodes[static_cast<std::size_t>(id)]);
      writer_.line(fmt::format("{} l{}[some][(columns + 32 * beside - 1) / (32 * beside)][beside];",
                               printing::storage_type(stored), id));
    }
    loop("", "int n = 0; n < some; ++n");
    writer_.line("const int r = first_row + n;");
    row();
    open_neighbours();
    writer_.open("if (ok) {");
    for (const int id : loads_) {
      const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
      writer_.line(fmt::format("get_pair(in{} + ({}), l{}[n][j / (32 * beside)]);", node.input,
                               writer_.place_of(node.index), id));
    }
    writer_.close();
    writer_.close();
    writer_.close();
    loop("", "int n = 0; n < some; ++n");
    writer_.line("const int r = first_row + n;");
    row();
    writer_.these(shared_);
    run("[n][j / (32 * beside)][i]");
    writer_.close();
    writer_.close();
  }

  /// The row's results, of `loaded` elements of what was loaded ahead.
  void run(std::string_view loaded) {
    const std::string_view of = is_half(kernel_.outputs.front().dtype) ? "unsigned short" : "float";
    open_neighbours();
    writer_.line("float sum[beside];");
    writer_.line("neighbours(sums, r, inside ? j + lane * beside : 0, sum);");
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
      writer_.line(fmt::format("{} got{}[beside];", of, o));
      writer_.line(fmt::format("auto* const to{0} = out{0} + ({1});", o, writer_.place_of(kernel_.outputs[o].index)));
    }
    each_neighbour();
    writer_.line("const float folded = sum[i];");
    in_run_ = true;
    compute(loaded);
    in_run_ = false;
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
      const Output& output = kernel_.outputs[o];
      const DType from = kernel_.nodes[static_cast<std::size_t>(output.node)].dtype;
      writer_.line(
          fmt::format("got{}[i] = {};", o, printing::store_form(writer_.name(output.node), from, output.dtype)));
    }
    writer_.close();
    writer_.open("if (ok) {");
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      writer_.line(fmt::format("put_chunk<{}>(to{}, got{});", writer_.streaming, o, o));
    writer_.close();
    writer_.close();
  }

  /// So many rows or columns of 8 elements a thread each are loaded at once.
  void in_batches() {
    const std::size_t most = is_short() ? loads_at_once : loads_at_once / 2;
    const std::size_t some = std::bit_floor(std::max<std::size_t>(most / rows_at_once / loads_.size(), 1));
    const std::string_view index = apart_ ? "[i][r / interleave]" : "[i][j / step]";
    writer_.line(apart_ ? fmt::format("constexpr int some = share_of_columns(columns / step, {});",
                                      some * static_cast<std::size_t>(interleave_))
                        : fmt::format("constexpr int some = rows < {0} ? rows : {0};", some));
    loop("1", apart_ ? "int first = 0; first < columns; first += some * step"
                     : "int first = 0; first < rows; first += some");
    arrays(apart_ ? "[some][rows / interleave]" : "[some][(columns + step - 1) / step]");
    for (const bool loads : {true, false}) {
      loop("", "int i = 0; i < some; ++i");
      writer_.line(apart_ ? "const int j = first + i * step;" : "const int r = first + i;");
      elements(loads, index, "");
      writer_.close();
    }
    writer_.close();
  }

  const Kernel& kernel_;
  const Contraction& c_;
  const ImplicitOperand* implicit_;
  const StoreForm form_;
  PlaceWriter writer_;
  std::vector<int> roots_;
  std::vector<int> shared_;  ///< nodes that columns have in common: read and computed once a row
  std::vector<int> loads_;   ///< of the other nodes, those that read another element for each result
  std::vector<int> own_;     ///< the rest
  bool apart_ = false;       ///< columns are apart in memory
  std::int64_t phases_ = 1;  ///< settings of the last variables of rows that each call has
  std::size_t phase_variables_ = 0;
  std::int64_t interleave_ = 1;
  std::int64_t beside_ = 1;          ///< neighbours that a thread may store at once
  bool in_run_ = false;              ///< what was loaded is as memory has it, what columns have in common is at hand
  std::vector<int> columns_, kept_;  ///< what is of columns alone; what the others need of it
  std::optional<Sectors> sectors_;
};

}  // namespace

std::string print_position(PlaceWriter& writer, const ImplicitOperand& implicit, std::string_view linear) {
  writer.decode(fmt::format("(unsigned)({}) / {}", linear, implicit.plane), implicit.apart);
  std::int64_t later = implicit.plane;
  std::string there;
  for (const ImplicitDim& slide : implicit.dims) {
    later /= slide.places;
    writer.line(fmt::format("const {} d{} = (unsigned)({}) / {} % {};", writer.coordinate(), slide.row, linear, later,
                            slide.places));
    if (slide.places > slide.rows)
      there += fmt::format("{}(d{} < {})", there.empty() ? "" : " & ", slide.row, slide.rows);
  }
  return there;
}

Epilogue epilogue_of(PlaceWriter& writer, const Kernel& kernel, std::span<const int> roots) {
  Epilogue epilogue;
  epilogue.inputs = writer.inputs(roots);
  epilogue.arguments = writer.arguments(roots);
  epilogue.parameters = writer.parameters(roots) + writer.output_parameters();
  epilogue.parameters.resize(epilogue.parameters.size() - 2);
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) epilogue.arguments += fmt::format("out{}, ", o);
  writer.out += load_text();
  return epilogue;
}

std::string sums_text() {
  static constexpr std::array<std::string_view, 1> files{"sums.cuh"};
  return device_text(files);
}

std::string_view load_text() {
  return "template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }\n";
}

std::string_view neighbours_text() {
  return R"(template <int count, typename Sums> PL_DEVICE void neighbours(const Sums& sums, int r, int c, float (&v)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) v[i] = sums(r, c + i);
}
)";
}

void open_store(PlaceWriter& writer, const Epilogue& epilogue, std::string_view name) {
  writer.line("template <int rows, int columns, bool all, typename Sums>");
  writer.open(fmt::format("PL_DEVICE void {}({}, int batch, int y, int x, int end, int lane, Sums sums{}) {{", name,
                          epilogue.parameters, epilogue.begins ? ", int begin" : ""));
}

void open_fold(PlaceWriter& writer, const Epilogue& epilogue) {
  writer.line("template <int columns, bool all>");
  writer.open(fmt::format(
      "PL_DEVICE void fold_sums({}, int batch, int y, int x, int end, int lane, float (&v)[columns / 2]) {{",
      epilogue.parameters));
}

Epilogue print_epilogue(const Kernel& kernel, const Contraction& c, const ImplicitOperand* implicit, StoreForm form) {
  return StorePrinter(kernel, c, implicit, form).print();
}

bool can_interleave(const Kernel& kernel, const Contraction& c, const ImplicitOperand* implicit) {
  return StorePrinter(kernel, c, implicit, {}).may_choose_to_interleave();
}

int overlap_of(const Kernel& kernel, const Contraction& c, const ImplicitOperand* implicit, bool interleave) {
  const auto sectors = sectors_of(kernel, c, implicit);
  return sectors && StorePrinter(kernel, c, implicit, {.interleave = interleave}).may_overlap(*sectors)
             ? sectors->overlap
             : 0;
}

bool has_fast_forms(const Kernel& kernel) {
  std::vector<int> roots;
  for (const Output& output : kernel.outputs) roots.push_back(output.node);
  for (const Reduction& reduction : kernel.reductions) {
    if (reduction.across) roots.push_back(reduction.arg);
  }
  return std::ranges::any_of(printing::closure(kernel, roots, [](int) { return false; }), [&](int id) {
    return printing::has_fast_form(kernel.nodes[static_cast<std::size_t>(id)]);
  });
}

std::string exponent_parameters(const TilePlan& plan) {
  std::string text;
  for (const Operand operand : {Operand::a, Operand::b}) {
    if (!common_exponent(plan, operand)) text += fmt::format("const int* __restrict__ e{}, ", letter(operand));
  }
  return text;
}

Joining print_joining(const Problem& problem, const TilePlan& plan, const Epilogue& epilogue) {
  const std::int64_t count = problem.batches * problem.m * problem.n;
  const bool scaled = scales(plan);
  Joining joining;
  joining.blocks = (count + joining.threads - 1) / joining.threads;
  std::string& out = joining.source;
  out = place_prelude() + sums_text() + epilogue.text;
  out += "// ---- kernel ----\n";
  out += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) planish_kernel(const float* __restrict__ parts, {}{}) {{\n",
      joining.threads, scaled ? exponent_parameters(plan) : "", epilogue.parameters);
  out += fmt::format("  const long long at = (long long)blockIdx.x * {} + threadIdx.x;\n", joining.threads);
  out += fmt::format("  if (at >= {}ll) return;\n", count);
  out += fmt::format("  const int x = (int)(at % {0});\n  const long long line = at / {0};\n", problem.n);
  out += fmt::format("  const int batch = (int)(line / {0}), y = (int)(line % {0});\n", problem.m);
  out += "  float sum = 0.0f;\n";
  out += fmt::format("  for (int part = 0; part < {}; ++part)\n", plan.split_k);
  out += fmt::format("    sum += pl_ldg(parts + (((long long)batch * {} + part) * {} + y) * {} + x);\n", plan.split_k,
                     problem.m, problem.n);
  if (scaled) {
    out += fmt::format("  sum = scale_by_power(sum, {} + {});\n",
                       exponent_of(problem, plan, Operand::a, {"ea", "batch"}, "y"),
                       exponent_of(problem, plan, Operand::b, {"eb", "batch"}, "x"));
  }
  out += fmt::format("  store_sums<1, 1, true>({}batch, y, x, {}, 0, [&](int, int) {{ return sum; }});\n}}\n",
                     epilogue.arguments, problem.n);
  return joining;
}

}  // namespace planish::codegen::contraction
