#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "codegen/contraction/place_writer.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/cuda_access.h"
#include "codegen/emit/expression.h"
#include "codegen/skinny/cuda_skinny.h"

namespace planish::codegen::skinny {
namespace {

using contraction::PlaceWriter;

/// Eight neighbours of a load are read at once where memory runs along k: as `held.r7`, of 16 bits, or of 32 as
/// `held.r7` and `held.s7`.
constexpr std::string_view element_text = R"(
PL_DEVICE u16 skinny_half(const uint4& v, int j) {
  const u32 word = j < 2 ? v.x : j < 4 ? v.y : j < 6 ? v.z : v.w;
  return (u16)(j % 2 == 0 ? word : word >> 16);
}
PL_DEVICE float skinny_word(const uint4& v, const uint4& w, int j) {
  const uint4& u = j < 4 ? v : w;
  return __uint_as_float(j % 4 == 0 ? u.x : j % 4 == 1 ? u.y : j % 4 == 2 ? u.z : u.w);
}
)";

/// Prints the policy of skinny.cuh. Names in the text: `held.r7` what load 7 brought of eight elements, `j` which of
/// them.
class Printer {
 public:
  Printer(const Kernel& kernel, const Skinny& s, const SkinnyPlan& plan)
      : kernel_(kernel), s_(s), plan_(plan), moves_(skinny_variables(kernel)), writer_(kernel) {
    writer_.of_fold = [this](int reduction) { return fold(reduction); };
    writer_.at_hand = [this](int id) { return value(id); };
    writer_.narrow = std::ranges::all_of(kernel.outputs, is_half, &Output::dtype);
  }

  Printed print() {
    Printed out;
    find_inputs();
    out.inputs = inputs_;
    const std::array<std::string_view, 1> files{"sm90/skinny.cuh"};
    writer_.out = contraction::place_prelude() + device_text(files) + std::string(element_text);
    writer_.out += begin_of_policy;
    line("struct Policy {");
    constants();
    arguments();
    touch();
    weight();
    codes();
    held();
    statistics();
    operand();
    store();
    line("};");
    writer_.out += begin_of_entry;
    entry();
    out.source = std::move(writer_.out);
    return out;
  }

 private:
  void line(const std::string& text) { writer_.line(text); }
  void open(const std::string& text) { writer_.open(text); }
  void close() { writer_.close(); }

  const Node& node(int id) const { return kernel_.nodes[static_cast<std::size_t>(id)]; }
  DType stored(int load) const { return kernel_.inputs[static_cast<std::size_t>(node(load).input)].dtype; }

  void find_inputs() {
    for (const Node& one : kernel_.nodes) {
      if (one.op == Op::load && std::ranges::find(inputs_, one.input) == inputs_.end()) inputs_.push_back(one.input);
    }
    std::ranges::sort(inputs_);
  }

  void constants() {
    line(fmt::format("static constexpr int rows = {}, depth = {}, count = {}, parts = {}, statistics = {};", s_.rows,
                     s_.depth, s_.count, s_.parts.size(), s_.statistics.size()));
    line(fmt::format("static constexpr int tiles = {}, warps = {}, stages = {}, blocks = {}, resident = {};",
                     plan_.tiles, plan_.warps, plan_.stages, plan_.blocks, plan_.resident));
    line(fmt::format("static constexpr bool bf16 = {}, ring_shared = {}, x_shared = {}, chained = {};",
                     s_.half == DType::bf16, plan_.ring_shared, plan_.x_shared, plan_.chained));
    const Codes stored = s_.codes() == nullptr ? Codes{} : *s_.codes();
    constexpr std::array<std::string_view, 6> forms{"i8", "u8", "e4m3", "e5m2", "nibbles", "computed"};
    constexpr std::array<std::string_view, 4> scales{"none", "row", "step", "piece"};
    line(fmt::format("static constexpr SkinnyCode code = code_{};",
                     s_.codes() == nullptr ? "none" : forms[static_cast<std::size_t>(stored.form)]));
    line(fmt::format("static constexpr SkinnyScale scaling = scale_{};",
                     scales[static_cast<std::size_t>(stored.scaled)]));
    line(fmt::format("static constexpr int bits = {}, zero = {};", s_.weight_bits(), stored.zero));
    line(fmt::format("static constexpr bool flipped = {}, zeroed = {};", stored.flipped, stored.zeroed));
    line(fmt::format("static constexpr u32 order = 0x{:08x}u;", digits(stored.order)));
    line(fmt::format("static constexpr bool across = {}, turned = {};", stored.pitch > 0 && !stored.turned,
                     stored.turned));
    line(fmt::format("static constexpr u32 rows_of_word = 0x{:08x}u;", digits(stored.rows)));
    line(fmt::format("static constexpr long long pitch = {};", stored.pitch * 4));
    line(fmt::format("static constexpr bool table = {};", plan_.table));
    line(fmt::format("static constexpr int table_pieces = {};", stored.table_pieces().value_or(0)));
  }

  static unsigned digits(const std::array<int, 8>& order) {
    unsigned out = 0;
    for (std::size_t i = 0; i < 8; ++i) out |= static_cast<unsigned>(order[i]) << (4 * i);
    return out;
  }

  std::string parameter(int i) const {
    return fmt::format("const {}* in{}", printing::storage_type(kernel_.inputs[static_cast<std::size_t>(i)].dtype), i);
  }
  std::string result(std::size_t o) const {
    return fmt::format("{}* out{}", printing::storage_type(kernel_.outputs[o].dtype), o);
  }

  void arguments() {
    open("struct Args {");
    for (const int i : inputs_) line(parameter(i) + ";");
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) line(result(o) + ";");
    writer_.close_declaration();
  }
  /// Pointers by their names, of those that the nodes below `roots` read.
  void pointers(const std::vector<int>& roots) {
    for (const int i : writer_.inputs(roots)) line(fmt::format("{} = args.in{};", parameter(i), i));
  }

  /// A norm's gains are as cold as the weights; what is still being written comes into the cache by itself.
  void touch() {
    constexpr std::int64_t most = 64 << 10;
    std::vector<int> roots{s_.operand};
    for (const int r : s_.statistics) roots.push_back(kernel_.reductions[static_cast<std::size_t>(r)].arg);
    open("static PL_DEVICE void touch(const Args& args, int first, int last) {");
    for (const int i : writer_.inputs(roots)) {
      const Input& input = kernel_.inputs[static_cast<std::size_t>(i)];
      const std::int64_t bytes = input.storage_elements * size_of(input.dtype);
      if (bytes > most) continue;
      line(fmt::format("prefetch_lines(args.in{}, {}, threadIdx.x, warps * 32);", i, bytes));
    }
    touch_beside();
    close();
  }

  /// Lines of what the epilogue reads beside sums of a block's rows (scales, biases, a residual): it would wait for
  /// memory at the end of every pass.
  void touch_beside() {
    std::vector<int> roots;
    for (const Output& output : kernel_.outputs) roots.push_back(output.node);
    for (const int id : printing::closure(kernel_, roots, [](int) { return false; })) {
      const Node& load = node(id);
      if (load.op != Op::load || gathers(load) || !load.where.empty()) continue;
      const int row = s_.n.back();
      const auto [space, index] = along(s_.n, s_.rows, load.index);
      const std::int64_t apart = index.coefficient_of(row) * size_of(stored(id));
      if (!index.is_affine() || apart < 1) continue;
      const bool by_m = std::ranges::any_of(s_.m, [&](int variable) { return index.depends_on(variable); });
      open(by_m ? "for (int m = 0; m < count; ++m) {" : "{");
      if (by_m) writer_.decode("m", s_.m);
      writer_.decode("first", s_.n);
      line(fmt::format("prefetch_lines(args.in{} + ({}), (last - first) * {}, threadIdx.x, warps * 32);", load.input,
                       writer_.place_of(load.index), apart));
      close();
    }
  }

  void weight() {
    open("static PL_DEVICE const void* weight(const Args& args, int part, int row) {");
    writer_.decode("row", s_.n);
    for (std::size_t p = 0; p < s_.parts.size(); ++p) {
      const std::string last = p + 1 == s_.parts.size() ? "" : fmt::format("if (part == {}) ", p);
      if (const auto& codes = s_.parts[p].codes) {
        line(fmt::format("{}return args.in{} + (long long)({});", last, codes->input, writer_.place_of(codes->begin)));
        continue;
      }
      const Node& load = node(s_.parts[p].load);
      std::vector<ir::IndexExpr::Term> terms;
      for (const auto& term : load.index.terms())
        if (std::ranges::find(s_.n, term.atom.variable) != s_.n.end()) terms.push_back(term);
      const auto place = ir::IndexExpr::build(load.index.constant_term(), std::move(terms));
      line(fmt::format("{}return args.in{} + (long long)({});", last, load.input, writer_.place_of(place)));
    }
    close();
  }

  // ---- weights in codes ----

  using Each = std::function<void(PlaceWriter&, const Codes&)>;

  /// A function with a body for each part, over the piece's own nodes; `d…` are declared of `row` and `piece`.
  void of_parts(const std::string& head, const std::string& piece, const Each& each) {
    open(fmt::format("static PL_DEVICE {} {{", head));
    for (std::size_t p = 0; p < s_.parts.size(); ++p) {
      const Codes& codes = *s_.parts[p].codes;
      PlaceWriter writer(codes.piece);
      writer.at_hand = [&](int id) { return stored_value(writer, codes, id); };
      writer.open(p + 1 == s_.parts.size() ? "{" : fmt::format("if (part == {}) {{", p));
      writer.decode("row", s_.n);
      const std::array<int, 1> variable{codes.variable};
      writer.decode(piece, variable);
      each(writer, codes);
      writer.close();
      for (std::size_t at = 0; at < writer.out.size();) {
        const std::size_t end = writer.out.find('\n', at);
        line(writer.out.substr(at, end - at));
        at = end + 1;
      }
    }
    close();
  }

  /// A load of a piece's nodes: of a code from what has been read, of all else (scales) from memory that nobody writes.
  std::string stored_value(const PlaceWriter& writer, const Codes& codes, int id) const {
    const Node& load = codes.piece.nodes[static_cast<std::size_t>(id)];
    const DType dtype = kernel_.inputs[static_cast<std::size_t>(load.input)].dtype;
    const std::int64_t size = size_of(dtype);
    if (load.input == codes.input) {
      const std::int64_t at = codes.place(load, size);
      const std::string_view how = size == 1 ? "byte" : size == 2 ? "half" : "word";
      return printing::load_form(fmt::format("({})code_{}(raw, {})", printing::storage_type(dtype), how, at), dtype);
    }
    const std::string value =
        printing::load_form(fmt::format("load_constant(args.in{} + ({}{}))", load.input, writer.place_of(load.index),
                                        writer.moved(load.args, load.strides)),
                            dtype);
    return writer.guarded(codes.piece, id, value, writer.condition(load.where));
  }

  void codes() {
    if (s_.codes() == nullptr) return;
    const Codes& first = *s_.codes();
    const bool scaled = first.scaled != Codes::Scale::none;
    const auto number = [&](int Codes::* which) {
      return [this, which](PlaceWriter& writer, const Codes& codes) {
        const std::array<int, 1> roots{codes.*which};
        writer.nodes(roots);
        writer.line(fmt::format(
            "return {};", printing::convert(writer.name(roots[0]),
                                            codes.piece.nodes[static_cast<std::size_t>(roots[0])].dtype, DType::f32)));
      };
    };
    if (scaled) of_parts("float scale(const Args& args, int part, int row, int piece)", "piece", number(&Codes::scale));
    if (first.zeroed)
      of_parts("float zero_point(const Args& args, int part, int row, int piece)", "piece", number(&Codes::zero_point));
    if ((scaled || first.zeroed) && first.pitch == 0 && !(plan_.table && first.scaled != Codes::Scale::row))
      of_parts("void touch_row(const Args& args, int part, int row, int at)", "0",
               [this](PlaceWriter& writer, const Codes& codes) { touch_row(writer, codes); });
    if (first.form == Codes::Form::computed)
      of_parts("uint4 weights(const Args& args, int part, int row, int piece, const uint4& raw, int chunk)", "piece",
               [this](PlaceWriter& writer, const Codes& codes) { computed(writer, codes); });
  }

  /// A line each of what is loaded for a row beside its codes.
  void touch_row(PlaceWriter& writer, const Codes& codes) const {
    constexpr std::int64_t line_bytes = 128;
    std::vector<int> roots;
    for (const int root : {codes.scale, codes.zero_point})
      if (root >= 0) roots.push_back(root);
    std::set<int> seen;
    for (const int id : printing::closure(codes.piece, roots, [](int) { return false; })) {
      const Node& load = codes.piece.nodes[static_cast<std::size_t>(id)];
      if (load.op != Op::load || gathers(load) || !load.where.empty() || !seen.insert(load.input).second) continue;
      ir::Space own = codes.piece.space;
      for (std::size_t v = 0; v < own.extents.size(); ++v)
        if (static_cast<int>(v) != codes.variable) own.extents[v] = 1;
      const auto [low, high] = load.index.range(own);
      const std::int64_t bytes = (high - low + 1) * size_of(kernel_.inputs[static_cast<std::size_t>(load.input)].dtype);
      writer.line(fmt::format("if (at * {0} < {1}) prefetch_line((const char*)(args.in{2} + ({3})) + at * {0});",
                              line_bytes, bytes, load.input, writer.place_of(load.index)));
    }
  }

  /// Eight weights, in their order.
  void computed(PlaceWriter& writer, const Codes& codes) const {
    for (std::size_t c = 0; c < codes.elements.size() / 8; ++c) {
      writer.open(fmt::format("if (chunk == {}) {{", c));
      const std::vector<int> eight(codes.elements.begin() + static_cast<std::ptrdiff_t>(8 * c),
                                   codes.elements.begin() + static_cast<std::ptrdiff_t>(8 * c + 8));
      writer.nodes(eight);
      std::string words;
      for (std::size_t i = 0; i < 4; ++i) {
        const auto half = [&](std::size_t j) {
          return printing::store_form(writer.name(eight[j]),
                                      codes.piece.nodes[static_cast<std::size_t>(eight[j])].dtype, s_.half);
        };
        words += fmt::format("{}{} | (u32){} << 16", i == 0 ? "" : ", ", half(2 * i), half(2 * i + 1));
      }
      writer.line(fmt::format("return make_uint4({});", words));
      writer.close();
    }
    writer.line("return make_uint4(0, 0, 0, 0);");
  }

  /// Of statistics, and of the products' sums.
  std::string fold(int reduction) const {
    for (std::size_t p = 0; p < s_.parts.size(); ++p)
      if (s_.parts[p].reduction == reduction) return fmt::format("sums[{}]", p);
    const auto found = std::ranges::find(s_.statistics, reduction) - s_.statistics.begin();
    return fmt::format("statistics[{} * count + m]", found);
  }

  /// Whether eight elements from a multiple of 8 on are 16 aligned bytes, or twice as many.
  bool is_vector(int load) const {
    const DType dtype = stored(load);
    if (!is_half(dtype) && dtype != DType::f32) return false;
    if (s_.depth % 8 != 0) return false;
    const auto [space, index] = along(s_.k, s_.depth, node(load).index);
    const printing::Lanes lanes{printing::Lanes::Mode::along, 8, s_.k.back(), {}, {}};
    const auto access = printing::classify(index, node(load).where, dtype, space, lanes);
    return node(load).where.empty() && access.kind == printing::Access::Kind::vector &&
           access.unit == (dtype == DType::f32 ? 4 : 8);
  }

  /// An index where variables that are counted as one are one, the last of them: where codes take k apart (groups of
  /// 128, halves of a byte), memory that runs along all of it runs along none of the parts.
  std::pair<ir::Space, ir::IndexExpr> along(const std::vector<int>& variables, std::int64_t count,
                                            const ir::IndexExpr& index) const {
    ir::Space space = kernel_.space;
    std::vector<ir::IndexExpr> parts;
    for (std::size_t v = 0; v < space.extents.size(); ++v)
      parts.push_back(ir::IndexExpr::variable(static_cast<int>(v)));
    ir::IndexExpr rest = ir::IndexExpr::variable(variables.back());
    space.extents[static_cast<std::size_t>(variables.back())] = count;
    for (const int variable : std::views::reverse(variables)) {
      const std::int64_t extent = kernel_.space.extent(variable);
      parts[static_cast<std::size_t>(variable)] = ir::mod(rest, extent, space);
      rest = ir::floor_div(rest, extent, space);
    }
    return {space, ir::substitute(index, parts, space)};
  }

  /// How a load is spelled. What a launch before may have written comes from the L2 cache.
  std::string value(int id) const {
    const DType dtype = stored(id);
    if (eight_.contains(id)) {
      const bool half = is_half(dtype);
      return printing::load_form(
          half ? fmt::format("skinny_half(held.r{}, j)", id) : fmt::format("skinny_word(held.r{0}, held.s{0}, j)", id),
          dtype);
    }
    const Node& load = node(id);
    const std::string value =
        printing::load_form(fmt::format("load_visible(in{} + ({}))", load.input, writer_.place_of(load.index)), dtype);
    const std::string where = writer_.condition(load.where);
    if (where.empty()) return value;
    return fmt::format("({} ? {} : {})", where, value, printing::literal(load.dtype, load.value, load.bits));
  }

  /// Loads below `roots` of which eight elements are read at once.
  std::vector<int> eights(const std::vector<int>& roots) const {
    std::vector<int> out;
    for (const int id : printing::closure(kernel_, roots, [](int) { return false; })) {
      if (node(id).op == Op::load && moves_[static_cast<std::size_t>(id)][static_cast<std::size_t>(s_.k.back())] &&
          is_vector(id))
        out.push_back(id);
    }
    return out;
  }

  /// What eight elements are made of: of each sum, then of x.
  std::vector<int> roots_of_x() const {
    std::vector<int> roots;
    for (const int r : s_.statistics) roots.push_back(kernel_.reductions[static_cast<std::size_t>(r)].arg);
    roots.push_back(s_.operand);
    return roots;
  }

  void held() {
    const std::vector<int> roots = roots_of_x();
    std::map<int, std::string> readers;  // by load: which of the roots, or all of them
    for (std::size_t i = 0; i < roots.size(); ++i) {
      for (const int id : eights({roots[i]})) readers[id] += fmt::format("of == {} || ", i);
    }
    open("struct Held {");
    for (const auto& [id, _] : readers)
      line(is_half(stored(id)) ? fmt::format("uint4 r{};", id) : fmt::format("uint4 r{0}, s{0};", id));
    writer_.close_declaration();
    line("template <int of>");
    open("static PL_DEVICE Held held(const Args& args, int m, int k) {");
    line("Held out;");
    std::vector<int> loads;
    for (const auto& [id, _] : readers) loads.push_back(id);
    writer_.decode("m", s_.m);
    pointers(loads);
    writer_.decode("k", s_.k);
    for (const auto& [id, of] : readers) {
      const std::string place = fmt::format("in{} + ({})", node(id).input, writer_.place_of(node(id).index));
      open(fmt::format("if constexpr ({}of == {}) {{", of, roots.size()));
      line(fmt::format("out.r{} = load_visible_16({});", id, place));
      if (!is_half(stored(id))) line(fmt::format("out.s{} = load_visible_16({} + 4);", id, place));
      close();
    }
    line("return out;");
    close();
  }

  /// Eight elements of `root` at k, k + 1, … one after the other; `each` says what is done with its value.
  template <typename Each>
  void eight(int root, const Each& each) {
    const std::vector<int> roots{root};
    writer_.decode("m", s_.m);
    pointers(roots);
    eight_.clear();
    for (const int id : eights(roots)) eight_.insert(id);
    line("#pragma unroll");
    open("for (int j = 0; j < 8; ++j) {");
    writer_.decode("k + j", s_.k);
    writer_.nodes(roots);
    each();
    close();
    eight_.clear();
  }

  void statistics() {
    line("template <int s>");
    open(
        "static PL_DEVICE float statistic(const Held& held, const Args& args, int m, int k, const float* statistics) "
        "{");
    line("float sum = 0;");
    for (std::size_t s = 0; s < s_.statistics.size(); ++s) {
      const int arg = kernel_.reductions[static_cast<std::size_t>(s_.statistics[s])].arg;
      open(fmt::format("if constexpr (s == {}) {{", s));
      eight(arg, [&] {
        line(fmt::format("sum += {};", printing::convert(writer_.name(arg), node(arg).dtype, DType::f32)));
      });
      close();
    }
    line("return sum;");
    close();
  }

  void operand() {
    open("static PL_DEVICE uint4 operand(const Held& held, const Args& args, int m, int k, const float* statistics) {");
    line("u32 out[4] = {0, 0, 0, 0};");
    eight(s_.operand, [&] {
      line(fmt::format("out[j / 2] |= (u32){} << j % 2 * 16;",
                       printing::store_form(writer_.name(s_.operand), node(s_.operand).dtype, s_.half)));
    });
    line("return make_uint4(out[0], out[1], out[2], out[3]);");
    close();
  }

  void store() {
    open(
        "static PL_DEVICE void store(const Args& args, int m, int row, const float (&sums)[parts], const float* "
        "statistics) {");
    writer_.fast = plan_.fast;
    writer_.decode("m", s_.m);
    writer_.decode("row", s_.n);
    std::vector<int> roots;
    for (const Output& output : kernel_.outputs) roots.push_back(output.node);
    pointers(roots);
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) line(fmt::format("{} = args.out{};", result(o), o));
    writer_.nodes(roots);
    writer_.stores();
    writer_.fast = false;
    close();
  }

  void entry() {
    std::string parameters, given;
    for (const int i : inputs_) {
      parameters += parameter(i) + ", ";
      given += fmt::format("in{}, ", i);
    }
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
      parameters += (o > 0 ? ", " : "") + result(o);
      given += fmt::format("{}out{}", o > 0 ? ", " : "", o);
    }
    open(fmt::format(
        "extern \"C\" __global__ void __launch_bounds__(Policy::warps * 32, Policy::resident) planish_kernel({}) {{",
        parameters));
    line("extern __shared__ __align__(128) unsigned char memory[];");
    line(fmt::format("const Policy::Args args{{{}}};", given));
    line("skinny_product<Policy>(args, memory, blockIdx.x, gridDim.x);");
    close();
  }

  const Kernel& kernel_;
  const Skinny& s_;
  const SkinnyPlan& plan_;
  const std::vector<std::vector<bool>> moves_;
  PlaceWriter writer_;
  std::vector<int> inputs_;
  std::set<int> eight_;  ///< loads of which eight elements are at hand
};

}  // namespace

Printed print(const Kernel& kernel, const Skinny& skinny, const SkinnyPlan& plan) {
  return Printer(kernel, skinny, plan).print();
}

}  // namespace planish::codegen::skinny
