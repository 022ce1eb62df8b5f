#include "codegen/attention/half_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>
#include <string_view>
#include <utility>

#include "codegen/contraction/place_writer.h"
#include "codegen/device/device_files.h"
#include "codegen/emit/cuda_emit.h"

namespace planish::codegen::attention {
namespace {

using contraction::PlaceWriter;

/// The text that kernels of both device files share: everything but how factors are brought and multiplied.
class HalfPrinter {
 public:
  HalfPrinter(const Kernel& kernel, const Attention& a, const HalfAttention& half, int tile_keys, int section,
              int exchange)
      : kernel_(kernel),
        a_(a),
        half_(half),
        tile_keys_(tile_keys),
        section_(section),
        exchange_(exchange),
        writer_(kernel) {
    for (const Output& output : kernel.outputs) roots_.push_back(output.node);
  }
  virtual ~HalfPrinter() = default;

  HalfKernel print(std::string_view file) {
    HalfKernel out;
    find_inputs();
    out.inputs = inputs_;
    instructions();
    policy();
    functors();
    entry();
    out.printed = std::move(writer_.out);
    out.source = contraction::place_prelude() + device_text({&file, 1}) + out.printed;
    return out;
  }

 protected:
  virtual void instructions() { line("template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }"); }
  virtual void tiling() = 0;
  virtual void factors() = 0;
  virtual void entry() = 0;

  void line(std::string_view text) { writer_.line(text); }
  void open(std::string_view text) { writer_.open(text); }
  void close() { writer_.close(); }
  std::int64_t extent(int variable) const { return kernel_.space.extent(variable); }
  void find_inputs() {
    std::vector<int> read = roots_;
    read.insert(read.end(), {a_.shift, a_.divisor});
    if (!half_.plain) read.push_back(half_.score);
    for (const PlaceTest& test : half_.tests)
      for (const auto& [id, times] : test.known) read.push_back(id);
    for (const MappedOperand* each : {&half_.keys, &half_.values}) {
      if (each->pages) read.push_back(page_of(*each));
    }
    inputs_ = writer_.inputs(read);
    for (const MappedOperand* each : {&half_.queries, &half_.keys, &half_.values}) {
      if (std::ranges::find(inputs_, each->input) == inputs_.end()) inputs_.push_back(each->input);
    }
    if (packed()) {
      for (const int each : {half_.packing->queries.input, half_.packing->keys.input}) {
        if (std::ranges::find(inputs_, each) == inputs_.end()) inputs_.push_back(each);
      }
    }
    std::ranges::sort(inputs_);
  }

  bool packed() const { return half_.packing.has_value(); }
  /// The node that numbers an operand's pages.
  int page_of(const MappedOperand& operand) const {
    return kernel_.nodes[static_cast<std::size_t>(operand.pages->load)].args[0];
  }
  /// Tests that something on the device says more of.
  std::vector<const PlaceTest*> bounded() const {
    std::vector<const PlaceTest*> out;
    for (const PlaceTest& test : half_.tests) {
      if (!test.known.empty()) out.push_back(&test);
    }
    return out;
  }
  /// Counts before a test: how many numbers of a block's rows there are, and of each row.
  std::pair<int, int> numbers_before(const PlaceTest* test) const {
    std::pair<int, int> out{0, 0};
    for (const PlaceTest* each : bounded()) {
      if (each == test) break;
      out.first += each->by_row ? 2 : 1;
      out.second += each->by_row ? 1 : 0;
    }
    return out;
  }
  /// " + bounds[1]", of what is known of a test: the most and the least of a block's rows, or a row's own.
  enum class Known : std::uint8_t { most, least, own };
  std::string known(const PlaceTest& test, Known which) const {
    if (test.known.empty()) return {};
    const auto [all, own] = numbers_before(&test);
    if (test.by_row && which == Known::own) return fmt::format(" + own[{}]", own);
    return fmt::format(" + bounds[{}]", all + (test.by_row && which == Known::least ? 1 : 0));
  }
  /// What tests take behind all other arguments.
  std::string bounds(std::string_view others, bool of_row) const {
    const std::string_view own = of_row ? ", const int* bounds, const int* own" : ", const int* bounds";
    return fmt::format("{}{}", others, bounded().empty() ? "" : own);
  }
  bool ragged() const { return half_.key_count % tile_keys_ != 0; }

  void policy() {
    open("struct Policy {");
    line(fmt::format("static constexpr int features = {}, columns = {}, rows = {}, keys = {}, units = {};",
                     half_.features, half_.columns, half_.rows, half_.key_count, half_.unit_count));
    tiling();
    line(fmt::format("static constexpr bool bf16 = {}, plain = {}, masks = {}, packed = {};",
                     half_.element == DType::bf16, half_.plain, packed() || ragged() || !half_.tests.empty(),
                     packed()));
    line(fmt::format("static constexpr int sequences = {};", packed() ? half_.packing->count : 0));
    if (in_pages(half_))
      line(fmt::format("static constexpr int page = {}, bounds = {}, row_bounds = {};", half_.keys.pages->size,
                       numbers_before(nullptr).first, numbers_before(nullptr).second));
    const double natural = half_.plain ? half_.factor : 1;
    line(fmt::format("static constexpr float scale = {}, natural = {}, slack = 0;",
                     printing::literal(DType::f32, natural * std::numbers::log2e, 0),
                     printing::literal(DType::f32, natural, 0)));
    writer_.close_declaration();
  }

  void functors() {
    open("struct Functors {");
    for (const int i : inputs_)
      line(
          fmt::format("const {}* in{};", printing::storage_type(kernel_.inputs[static_cast<std::size_t>(i)].dtype), i));
    for (std::size_t o = 0; o < kernel_.outputs.size(); ++o)
      line(fmt::format("{}* out{};", printing::storage_type(kernel_.outputs[o].dtype), o));
    factors();
    if (packed()) sequences();
    if (!bounded().empty()) bound();
    tiles();
    visible();
    ahead();
    score();
    softmax("shift(int unit, int row, float maximum)", a_.shift);
    softmax("divisor(int unit, int row, float maximum, float total)", a_.divisor);
    store();
    writer_.close_declaration();
  }

  /// row · r + constant, at the end of the block's rows where that is most, or least.
  std::string side(const PlaceTest& test, bool most) const {
    const std::string_view end = (test.row > 0) == most ? "last" : "first";
    const std::string more = known(test, most ? Known::most : Known::least);
    return test.row == 0 || test.by_row ? fmt::format("{}{}", test.constant, more)
                                        : fmt::format("{} * {} + {}{}", test.row, end, test.constant, more);
  }

  /// What is known of a test, of a row: its own place is in it where that moves with it. Of lengths beyond all that
  /// there are, the same tests come out.
  std::string sum_of(const PlaceTest& test) const {
    constexpr std::int64_t most = std::int64_t{1} << 29;
    std::string sum = test.by_row ? fmt::format("{}ll * row", test.row) : "0ll";
    for (const auto& [id, times] : test.known)
      sum += fmt::format(" + {}ll * min(max((long long){}, -{}ll), {}ll)", times, writer_.name(id), most, most);
    return fmt::format("(int)min(max({}, -{}ll), {}ll)", sum, most, most);
  }

  void known_of(const PlaceTest& test) {
    std::vector<int> roots;
    for (const auto& [id, times] : test.known) roots.push_back(id);
    writer_.nodes(roots);
  }

  void bound() {
    open("PL_DEVICE void bound(int unit, int first, int last, int* bounds) const {");
    writer_.decode("unit", half_.units);
    for (const PlaceTest* test : bounded()) {
      const int at = numbers_before(test).first;
      open("{");
      if (test->by_row) {
        line("int most = -(1 << 29), least = 1 << 29;");
        open("for (int row = first + (int)threadIdx.x % 32; row <= last; row += 32) {");
        line(fmt::format("const {} d{} = row;", writer_.coordinate(), half_.row));
        known_of(*test);
        line(fmt::format("const int own = {};", sum_of(*test)));
        line("most = max(most, own), least = min(least, own);");
        close();
        line("#pragma unroll");
        open("for (int by = 1; by < 32; by *= 2) {");
        line("most = max(most, __shfl_xor_sync(~0u, most, by));");
        line("least = min(least, __shfl_xor_sync(~0u, least, by));");
        close();
        line(fmt::format("bounds[{}] = most, bounds[{}] = least;", at, at + 1));
      } else {
        known_of(*test);
        line(fmt::format("bounds[{}] = {};", at, sum_of(*test)));
      }
      close();
    }
    close();
    if (numbers_before(nullptr).second > 0) row_bound();
  }

  void row_bound() {
    open("PL_DEVICE void row_bound(int unit, int row, int* own) const {");
    writer_.decode("unit", half_.units);
    line(fmt::format("const {} d{} = row;", writer_.coordinate(), half_.row));
    for (const PlaceTest* test : bounded()) {
      if (!test->by_row) continue;
      open("{");
      known_of(*test);
      line(fmt::format("own[{}] = {};", numbers_before(test).second, sum_of(*test)));
      close();
    }
    close();
  }

  void tiles() {
    open(bounds(fmt::format("PL_DEVICE AttentionSpan tiles(int first, int last{}", packed() ? ", int keys" : ""),
                false) +
         ") const {");
    const std::int64_t all = (half_.key_count + tile_keys_ - 1) / tile_keys_;
    if (packed())
      line(fmt::format("int begin = 0, end = (keys + {}) / {}, free_begin = 0, free_end = keys / {};", tile_keys_ - 1,
                       tile_keys_, tile_keys_));
    else
      line(fmt::format("int begin = 0, end = {}, free_begin = 0, free_end = {};", all, half_.key_count / tile_keys_));
    if (in_pages(half_))
      line(fmt::format("int last_key = {};", packed() ? "keys - 1" : fmt::format("{}", half_.key_count - 1)));
    for (const PlaceTest& test : half_.tests) {
      open("{");
      line(fmt::format("const int most = {}, least = {};", side(test, true), side(test, false)));
      if (test.key < 0) {
        line(fmt::format("end = min(end, most < 0 ? 0 : most / {} / {} + 1);", -test.key, tile_keys_));
        line(fmt::format("free_end = min(free_end, least < 0 ? 0 : (least / {} + 1) / {});", -test.key, tile_keys_));
        if (in_pages(half_)) line(fmt::format("last_key = min(last_key, most / {});", -test.key));
      } else {
        // Keys from -most / key on, rounded up; a wholly visible tile begins behind the last of those that are not.
        line(fmt::format("begin = max(begin, most >= 0 ? 0 : (-most + {}) / {} / {});", test.key - 1, test.key,
                         tile_keys_));
        line(fmt::format("free_begin = max(free_begin, least >= 0 ? 0 : ((-least + {}) / {} + {}) / {});", test.key - 1,
                         test.key, tile_keys_ - 1, tile_keys_));
      }
      close();
    }
    if (in_pages(half_))
      line("return {begin, end, free_begin, free_end, last_key};");
    else
      line("return {begin, end, free_begin, free_end};");
    close();
  }

  void visible() {
    open(bounds(fmt::format("PL_DEVICE bool visible(int row, int key{}", packed() ? ", int keys" : ""), true) +
         ") const {");
    std::string text = packed() ? "(key < keys)" : ragged() ? fmt::format("key < {}", half_.key_count) : "";
    for (const PlaceTest& test : half_.tests)
      text += fmt::format("{}({} * row + {} * key + {}{} >= 0)", text.empty() ? "" : " & ", test.by_row ? 0 : test.row,
                          test.key, test.constant, known(test, Known::own));
    line(fmt::format("return {};", text.empty() ? "true" : text));
    close();
  }

  /// Where sequences begin and end, brought inside of what there is.
  void sequences() {
    const Packing& packing = *half_.packing;
    const auto bound = [&](std::string_view name, const Offsets& offsets, std::int64_t all, std::string_view outside) {
      for (const auto& [end, further] : {std::pair{"begin", 0}, {"end", 1}}) {
        open(fmt::format("PL_DEVICE int {}_{}(int n) const {{", name, end));
        if (!outside.empty())
          line(fmt::format("if (n == {}) return {};", further == 0 ? 0 : packing.count, further == 0 ? 0 : all));
        const auto type = kernel_.inputs[static_cast<std::size_t>(offsets.input)].dtype;
        const auto at = [](std::int64_t n) { return n == 0 ? std::string() : fmt::format(" + {}", n); };
        const std::string step = offsets.stride == 1 ? "n" : fmt::format("n * {}ll", offsets.stride);
        line(fmt::format("const {0} place = pl_ldg(in{1} + {2}{3});", printing::storage_type(type), offsets.input, step,
                         at(offsets.first + further * offsets.stride)));
        line(fmt::format("return place < 0 ? 0 : place > {0} ? {0} : (int)place;", all));
        close();
      }
    };
    bound("rows", packing.queries, half_.rows, "rows");
    if (packing.in_pages)
      used(packing.keys);
    else
      bound("keys", packing.keys, half_.key_count, "");
  }

  /// Keys of a sequence that its pages hold, counted from its first.
  void used(const Offsets& numbers) {
    line("PL_DEVICE int keys_begin(int n) const { return 0; }");
    open("PL_DEVICE int keys_end(int n) const {");
    const auto type = kernel_.inputs[static_cast<std::size_t>(numbers.input)].dtype;
    const std::int64_t all = half_.key_count / half_.packing->count;
    line(fmt::format("const {} used = pl_ldg(in{} + {} + n * {}ll);", printing::storage_type(type), numbers.input,
                     numbers.first, numbers.stride));
    line(fmt::format("return used < 0 ? 0 : used > {0} ? {0} : (int)used;", all));
    close();
  }

  DType stored(int load) const {
    return kernel_.inputs[static_cast<std::size_t>(kernel_.nodes[static_cast<std::size_t>(load)].input)].dtype;
  }

  /// Loads of a thread's fragment: two neighbours each, of one word.
  void ahead() {
    open("struct Ahead {");
    for (const int id : half_.ahead) line(fmt::format("{} l{}[{}];", word(id), id, tile_keys_ / 4));
    writer_.close_declaration();
    open("PL_DEVICE void ask(Ahead& ahead, int unit, int row0, int row1, int first) const {");
    if (!half_.ahead.empty()) {
      writer_.decode("unit", half_.units);
      line("#pragma unroll");
      open(fmt::format("for (int i = 0; i < {}; ++i) {{", tile_keys_ / 4));
      const std::string key = "first + i / 2 * 8";
      const std::string own = ragged() ? fmt::format("min({}, {})", key, half_.key_count - 2) : key;
      place_of_score("i % 2 != 0 ? row1 : row0", own);
      for (const int id : half_.ahead) {
        const Node& load = kernel_.nodes[static_cast<std::size_t>(id)];
        line(fmt::format("ahead.l{}[i] = pl_ldg((const {}*)(in{} + ({})));", id, word(id), load.input,
                         writer_.place_of(load.index)));
      }
      close();
    }
    close();
  }
  std::string_view word(int load) const {
    const int size = size_of(stored(load));
    return size == 1 ? "u16" : size == 2 ? "u32" : "u64";
  }
  /// One of the two, as stored.
  std::string half_of_word(int load) const {
    const int size = size_of(stored(load));
    const std::string bits = fmt::format("ahead.l{}[i / 2] >> (i % 2 * {})", load, 8 * size);
    if (size == 4) {
      return stored(load) == DType::f32 ? fmt::format("__uint_as_float((u32)({}))", bits)
                                        : fmt::format("(int)({})", bits);
    }
    return fmt::format("({})({})", size == 1 ? "u8" : "u16", bits);
  }

  void place_of_score(std::string_view row, std::string_view key) {
    if (!in_pages(half_))
      return line(fmt::format("const {} d{} = {}, d{} = {};", writer_.coordinate(), half_.row, row, half_.key, key));
    line(fmt::format("const {} d{} = {};", writer_.coordinate(), half_.row, row));
    writer_.decode(key, std::vector<int>{half_.page, half_.key});
  }

  void score() {
    open("PL_DEVICE float score(int unit, int row, int key, float product, const Ahead& ahead, int i) const {");
    if (half_.plain) {
      line("return product;");
    } else {
      const std::string product =
          half_.factor == 1 ? "product" : fmt::format("(product * {})", printing::literal(DType::f32, half_.factor, 0));
      writer_.of_fold = [product](int) { return product; };
      writer_.decode("unit", half_.units);
      place_of_score("row", "key");
      const std::vector<int> root{half_.score};
      writer_.fast = true;  // what these leave out is far below a rounding to 16 bits
      PlaceWriter others(kernel_);
      writer_.at_hand = [&](int id) {
        if (std::ranges::find(half_.ahead, id) == half_.ahead.end()) return others.load(kernel_, id);
        return printing::load_form(half_of_word(id), stored(id));
      };
      writer_.nodes(root);
      writer_.at_hand = nullptr;
      writer_.fast = false;
      line(fmt::format("return {};", writer_.name(half_.score)));
    }
    close();
  }

  /// What the softmax's definition makes of a row's maximum and total, and of what the row reads.
  void softmax(std::string_view head, int node) {
    open(fmt::format("PL_DEVICE float {} const {{", head));
    if (writer_.has_place(node)) {
      writer_.decode("unit", half_.units);
      line(fmt::format("const {} d{} = row;", writer_.coordinate(), half_.row));
    }
    writer_.of_fold = [this](int r) { return std::string(r == a_.maximum ? "maximum" : "total"); };
    const std::vector<int> root{node};
    writer_.nodes(root);
    line(fmt::format("return {};", writer_.name(node)));
    close();
  }

  /// Whether 8 columns of an output of 16 bits are 16 aligned bytes.
  bool in_words(const Output& output) const {
    const DType from = kernel_.nodes[static_cast<std::size_t>(output.node)].dtype;
    const bool rounded =
        (output.dtype == DType::f16 || output.dtype == DType::bf16) && size_of(from) <= 4 && is_floating(from);
    if (!rounded || half_.columns % 8 != 0 || !output.index.is_affine() ||
        output.index.coefficient_of(half_.column) != 1 || output.index.constant_term() % 8 != 0)
      return false;
    return std::ranges::all_of(output.index.terms(), [&](const auto& term) {
      return term.atom.variable == half_.column || term.coefficient % 8 == 0;
    });
  }

  /// Each lane has 8 columns of a row.
  void store() {
    const bool words = std::ranges::all_of(kernel_.outputs, [&](const Output& output) { return in_words(output); });
    line("template <int pitch, int width>");
    open("PL_DEVICE void store(int unit, int row, int valid, int column, int lane, const float* exchange) const {");
    writer_.decode("unit", half_.units);
    line("#pragma unroll");
    open("for (int i = lane; i < width; i += 32) {");
    line(fmt::format("const int r = i / (width / 8), first = column + i % (width / 8) * 8;"));
    line(fmt::format("if (r >= valid || first >= {}) continue;", half_.columns));
    line(fmt::format("const {} d{} = row + r;", writer_.coordinate(), half_.row));
    line("__align__(16) float sums[8];");
    for (const int half : {0, 4})
      line(fmt::format("*(float4*)(sums + {0}) = *(const float4*)(exchange + r * pitch + (first - column) + {0});",
                       half));
    for (std::size_t o = 0; words && o < kernel_.outputs.size(); ++o) line(fmt::format("float got{}[8];", o));
    line("#pragma unroll");
    open("for (int e = 0; e < 8; ++e) {");
    line(fmt::format("const {} d{} = first + e;", writer_.coordinate(), half_.column));
    if (half_.columns % 8 != 0) line(fmt::format("if (d{} >= {}) break;", half_.column, half_.columns));
    line("const float folded = sums[e];");
    writer_.of_fold = [](int) { return std::string("folded"); };
    writer_.nodes(roots_);
    if (words) {
      for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
        line(fmt::format("got{}[e] = {};", o, writer_.name(kernel_.outputs[o].node)));
      }
    } else {
      writer_.stores();
    }
    close();
    if (words) {
      line(fmt::format("const {} d{} = first;", writer_.coordinate(), half_.column));
      for (std::size_t o = 0; o < kernel_.outputs.size(); ++o) {
        const std::string_view pack = kernel_.outputs[o].dtype == DType::bf16 ? "pack_bf16" : "pack_f16";
        line(
            fmt::format("*(uint4*)(out{0} + ({1})) = make_uint4({2}(got{0}[0], got{0}[1]), {2}(got{0}[2], got{0}[3]), "
                        "{2}(got{0}[4], got{0}[5]), {2}(got{0}[6], got{0}[7]));",
                        o, writer_.place_of(kernel_.outputs[o].index), pack));
      }
    }
    close();
    close();
  }

  void kernel(int threads, int blocks, std::string_view more_parameters, std::string_view call) {
    writer_.entry(inputs_, threads, blocks, more_parameters, call);
  }

  const Kernel& kernel_;
  const Attention& a_;
  const HalfAttention& half_;
  const int tile_keys_, section_, exchange_;
  PlaceWriter writer_;
  std::vector<int> roots_, inputs_;
};

/// By warpgroups, of what tensor maps bring.
class WarpgroupPrinter : public HalfPrinter {
 public:
  WarpgroupPrinter(const Kernel& kernel, const Attention& a, const HalfAttention& half, const HalfTiling& plan,
                   int exchange)
      : HalfPrinter(kernel, a, half, plan.keys, plan.section, exchange), plan_(plan) {}

 private:
  std::string element() const { return half_.element == DType::bf16 ? "bf16" : "f16"; }
  std::int64_t columns() const { return (half_.columns + 7) / 8 * 8; }

  void instructions() override {
    HalfPrinter::instructions();
    line(fmt::format("PL_WGMMA_SHARED(pl_scores, {}, \"{}\", 0)", plan_.keys, element()));
    line(fmt::format("PL_WGMMA_REGISTERS(pl_values, {}, \"{}\", 1)", columns(), element()));
  }

  void tiling() override {
    line(fmt::format("static constexpr int tile_keys = {}, consumers = {}, stages = {}, section = {}, exchange = {};",
                     plan_.keys, plan_.consumers, plan_.stages, plan_.section, exchange_));
    line(fmt::format("static constexpr bool overlap = {}, ping_pong = {}, deals = {};", plan_.overlap, plan_.ping_pong,
                     plan_.deals));
  }

  void factors() override {
    line(fmt::format(
        "PL_DEVICE void scores(float (&d)[{}], u64 a, u64 b, int keep) const {{ pl_scores(d, a, b, keep); }}",
        plan_.keys / 2));
    open(fmt::format("PL_DEVICE void values(float (&d)[{}], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) const {{",
                     columns() / 2));
    line("pl_values(d, a0, a1, a2, a3, b, keep);");
    close();
    operand("queries", half_.queries, 64 * plan_.consumers);
    const std::int64_t box = in_pages(half_) ? box_of(half_, plan_) : plan_.keys;
    operand("keys", half_.keys, box);
    operand("values", half_.values, box);
  }

  /// Its map, and the copy of a box of so many rows; in pages also where a key's lies.
  void operand(std::string_view name, const MappedOperand& operand, std::int64_t box) {
    const auto& pages = operand.pages;
    open(fmt::format("PL_DEVICE void map_{}(u32 map) const {{", name));
    line(fmt::format("tensor_map_begin<{}, {}>(map, in{} + {}ll);", 2 + operand.units.size() + (pages ? 1 : 0),
                     half_.element == DType::bf16, operand.input, operand.begin));
    if (pages) line("tensor_map_outside_nan(map);");
    line(fmt::format("tensor_map_dim<0>(map, {}, 64);", extent(operand.line)));
    line(fmt::format("tensor_map_dim<1>(map, {}, {});", extent(operand.row), box));
    line(fmt::format("tensor_map_stride<1>(map, {}ull);", 2 * operand.row_stride));
    std::string places;
    for (std::size_t i = 0; i < operand.units.size(); ++i) {
      const auto& [variable, stride] = operand.units[i];
      line(fmt::format("tensor_map_dim<{}>(map, {}, 1);", i + 2, extent(variable)));
      line(fmt::format("tensor_map_stride<{}>(map, {}ull);", i + 2, 2 * stride));
      places += fmt::format(", (int)d{}", variable);
    }
    if (pages) {
      line(fmt::format("tensor_map_dim<{}>(map, {}, 1);", operand.units.size() + 2, pages->count));
      line(fmt::format("tensor_map_stride<{}>(map, {}ull);", operand.units.size() + 2, 2 * pages->stride));
      places += ", page";
    }
    close();
    open(fmt::format(
        "PL_DEVICE void load_{}(u32 to, const void* map, u32 barrier, int unit, int row, int column{}) const {{", name,
        pages ? ", int page" : ""));
    if (!operand.units.empty()) writer_.decode("unit", half_.units);
    line(fmt::format("tensor_load(to, map, barrier, column, row{});", places));
    close();
    if (pages) page(name, operand);
  }

  void page(std::string_view name, const MappedOperand& operand) {
    open(fmt::format("PL_DEVICE int page_of_{}(int unit, {}int key) const {{", name, packed() ? "int sequence, " : ""));
    writer_.decode("unit", half_.units);
    if (packed()) line(fmt::format("const {} d{} = sequence;", writer_.coordinate(), half_.sequence));
    writer_.decode(fmt::format("key / {}", operand.pages->size), std::vector<int>{half_.page});
    const std::vector<int> number{page_of(operand)};
    writer_.nodes(number);
    line(fmt::format("return {} ? (int){} : -1;",
                     writer_.in_range(number, std::vector<std::int64_t>{operand.pages->count}),
                     writer_.name(number[0])));
    close();
  }

  void entry() override {
    const int threads = 128 * (plan_.consumers + 1);
    if (plan_.deals)
      kernel(threads, 1, "char* __restrict__ maps, unsigned* __restrict__ counters",
             "attention<Policy>(f, pl_smem, maps, counters);");
    else
      kernel(threads, 1, "char* __restrict__ maps", "attention<Policy>(f, pl_smem, maps);");
  }

  const HalfTiling plan_;
};

/// By warps, of what all threads bring.
class WarpPrinter : public HalfPrinter {
 public:
  WarpPrinter(const Kernel& kernel, const Attention& a, const HalfAttention& half, const MmaAttentionTiling& plan)
      : HalfPrinter(kernel, a, half, plan.keys, plan.section, mma_exchange_of(half)), plan_(plan) {}

 private:
  void tiling() override {
    line(fmt::format("static constexpr int tile_keys = {}, warps = {}, row_blocks = {}, stages = {}, resident = {};",
                     plan_.keys, plan_.warps, plan_.row_blocks, plan_.stages, plan_.resident));
    line(fmt::format("static constexpr int section = {}, exchange = {};", section_, exchange_));
    line(fmt::format("static constexpr long long query_stride = {}, key_stride = {}, value_stride = {};",
                     half_.queries.row_stride, half_.keys.row_stride, half_.values.row_stride));
  }

  void factors() override {
    for (const auto& [name, operand] :
         {std::pair{"queries", &half_.queries}, {"keys", &half_.keys}, {"values", &half_.values}}) {
      open(fmt::format("PL_DEVICE const u16* {}(int unit) const {{", name));
      std::string place = fmt::format("in{} + {}ll", operand->input, operand->begin);
      if (!operand->units.empty()) writer_.decode("unit", half_.units);
      for (const auto& [variable, apart] : operand->units) place += fmt::format(" + {}ll * d{}", apart, variable);
      line(fmt::format("return (const u16*)({});", place));
      close();
    }
  }

  void entry() override { kernel(32 * plan_.warps, plan_.resident, "", "attention_by_mma<Policy>(f, pl_smem);"); }

  const MmaAttentionTiling plan_;
};

}  // namespace

HalfKernel print_half_kernel(const Kernel& kernel, const Attention& attention, const HalfAttention& half,
                             const HalfTiling& plan, std::int64_t shared_limit) {
  const int exchange = exchange_of(half, plan, shared_limit);
  HalfKernel out = WarpgroupPrinter(kernel, attention, half, plan, exchange).print("sm90/attention.cuh");
  out.tiles = half.unit_count * blocks_of_unit(half, plan);
  out.threads = 128 * (plan.consumers + 1);
  out.shared_bytes = attention::shared_bytes(half, plan, exchange);
  return out;
}

HalfKernel print_mma_kernel(const Kernel& kernel, const Attention& attention, const HalfAttention& half,
                            const MmaAttentionTiling& plan) {
  HalfKernel out = WarpPrinter(kernel, attention, half, plan).print("sm80/attention.cuh");
  out.tiles = half.unit_count * ((half.rows + plan.rows() - 1) / plan.rows());
  out.threads = 32 * plan.warps;
  out.shared_bytes = mma_shared_bytes(half, plan);
  return out;
}

}  // namespace planish::codegen::attention
