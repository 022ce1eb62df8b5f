#include "codegen/contraction/strip_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/contraction/place_writer.h"
#include "codegen/emit/expression.h"

namespace planish::codegen::contraction {
namespace {

/// `table[at]` of constants; a number where there is but one.
std::string table(PlaceWriter& writer, const std::string& name, const std::vector<std::int64_t>& values,
                  const std::string& at) {
  if (std::ranges::all_of(values, [&](std::int64_t v) { return v == values.front(); }))
    return fmt::format("{}", values.front());
  std::string text;
  for (const std::int64_t value : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", value);
  writer.line(fmt::format("__constant__ int {}[{}] = {{{}}};", name, values.size(), text));
  return fmt::format("{}[{}]", name, at);
}

/// Prints the functions. Names in the text: `e` the number of a chunk among those of a stage, which lie in this order;
/// `at` its position.
class StripPrinter {
 public:
  StripPrinter(const Kernel& kernel, const Contraction& c, const ImplicitOperand& implicit, const Problem& problem,
               const TilePlan& plan, std::int64_t images)
      : kernel_(by_place(kernel, c, implicit)),
        c_(c),
        implicit_(implicit),
        problem_(problem),
        plan_(plan),
        images_(images),
        load_(kernel_.nodes[static_cast<std::size_t>(implicit.operand == Operand::a ? c.first : c.second)]),
        count_(problem.im2col->strip(run_columns(problem, plan))),
        of_strip_(std::int64_t{plan.strip_chunks} * problem.runs()),
        items_(plan.strips * of_strip_ * count_),
        writer_(kernel_) {}

  std::string print() {
    find();
    ask();
    drop();
    tell();
    return std::move(writer_.out);
  }

 private:
  /// What the first tap of strip number `strip` adds to each slide's coordinate u.
  std::vector<std::int64_t> shift_of(std::int64_t strip) const {
    std::vector<std::int64_t> out;
    std::int64_t left = implicit_.taps, tap = strip * problem_.im2col->taps;
    for (const ImplicitDim& slide : implicit_.dims) {
      left /= slide.taps;
      out.push_back(tap / left * slide.dilation);
      tap %= left;
    }
    return out;
  }

  std::int64_t strips() const { return static_cast<std::int64_t>(problem_.im2col->offsets.size()); }

  /// Of each chunk the place of its first channel for the first strip, and a bit for each strip that has elements
  /// there.
  void find() {
    const std::string run = problem_.has_runs() ? table(writer_, "run_offsets", problem_.folding->runs,
                                                        fmt::format("q % {}", problem_.runs()))
                                                : "0";
    writer_.open(
        fmt::format("PL_DEVICE void find_places(int (&place)[{0}], unsigned (&valid)[{0}], unsigned& later, int "
                    "product, int first, int "
                    "thread) {{",
                    plan_.rounds));
    writer_.line("later = 0;");
    writer_.line(fmt::format("const int border = (first / {0} + 1) * {0};", implicit_.plane));
    writer_.decode("product", c_.batch);
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for (int i = 0; i < {}; ++i) {{", plan_.rounds));
    writer_.line("const int e = i * 128 + thread;");
    if (problem_.has_runs()) writer_.line(fmt::format("const int q = e / {};", count_));
    writer_.line(fmt::format("int at = first + {} + e % {};", run, count_));
    writer_.line(fmt::format("const bool there = (at < {}){};", implicit_.positions(),
                             items_ % 128 != 0 ? fmt::format(" & (e < {})", items_) : ""));
    writer_.line("at = there ? at : 0;");
    writer_.line("later |= at >= border ? 1u << i : 0u;");
    writer_.decode(fmt::format("(unsigned)at / {}", implicit_.plane), implicit_.apart);
    std::int64_t later = implicit_.plane;
    for (const ImplicitDim& slide : implicit_.dims) {
      later /= slide.places;
      writer_.line(fmt::format("const int u{} = (int)((unsigned)at / {} % {}) * {};", slide.row, later, slide.places,
                               slide.stride));
      if (slide.tap >= 0) writer_.line(fmt::format("const int d{} = 0;", slide.tap));
    }
    writer_.line(fmt::format("const int d{} = 0;", implicit_.channels.front()));
    writer_.line("valid[i] = 0;");
    for (std::int64_t strip = 0; strip < strips(); ++strip) {
      writer_.open("{");
      const auto shift = shift_of(strip);
      std::string ok = "there";
      for (std::size_t s = 0; s < shift.size(); ++s) {
        const ImplicitDim& slide = implicit_.dims[s];
        writer_.line(fmt::format("const {0} d{1} = u{1} + {2};", writer_.coordinate(), slide.row, shift[s]));
        ok += fmt::format(" & (d{} < {})", slide.row, slide.reach);
      }
      const std::string where = writer_.condition(load_.where);
      writer_.line(fmt::format("valid[i] |= {}{} ? {}u : 0u;", ok, where.empty() ? "" : fmt::format(" & ({})", where),
                               std::uint32_t{1} << strip));
      if (strip == 0) writer_.line(fmt::format("place[i] = {};", writer_.place_of(load_.index)));
      writer_.close();
    }
    writer_.close();
    writer_.close();
  }

  void ask() {
    const Im2col& columns = *problem_.im2col;
    const std::int64_t runs = columns.chunks / plan_.strip_chunks;
    const std::int64_t channel = load_.index.coefficient_of(implicit_.channels.front());
    std::vector<std::int64_t> offsets;
    for (std::int64_t strip = 0; strip < strips(); ++strip) {
      const auto shift = shift_of(strip);
      std::int64_t offset = 0;
      for (std::size_t s = 0; s < shift.size(); ++s)
        offset += shift[s] * load_.index.coefficient_of(implicit_.dims[s].row);
      offsets.push_back(offset);
    }
    const std::string offset = table(writer_, "strip_offsets", offsets, fmt::format("min(taps, {})", strips() - 1));
    writer_.open(
        fmt::format("PL_DEVICE void ask_strip(Eight (&v)[{0}], const float* __restrict__ from, const int "
                    "(&place)[{0}], const unsigned "
                    "(&valid)[{0}], int strip, int thread) {{",
                    plan_.rounds));
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for (int i = 0; i < {}; ++i) {{", plan_.rounds));
    writer_.line(fmt::format("const int q = (i * 128 + thread) / {};", count_));
    const std::string number = plan_.strips == 1 ? "strip" : fmt::format("(strip + q / {})", of_strip_);
    writer_.line(fmt::format("const int taps = {} / {}, chunk = {} % {} * {} + q % {} / {};", number, runs, number,
                             runs, plan_.strip_chunks, of_strip_, problem_.runs()));
    writer_.line("const bool there = valid[i] >> min(taps, 31) & 1;");  // zeros beyond the last strip
    writer_.line(fmt::format("const float* const p = from + (place[i] + {} + chunk * {});", offset, 8 * channel));
    constexpr std::int64_t most_apart =
        (std::int64_t{1} << 31) / 32 - 1;  // 28 bytes a channel are a constant of 32 bits
    if (implicit_.channel_count % 8 == 0 && channel <= most_apart) {
      writer_.line(fmt::format("load_eight<{}>(v[i], p, there);", channel));
    } else {
      writer_.line("#pragma unroll");
      writer_.line(fmt::format(
          "for (int j = 0; j < 8; ++j) v[i].v[j] = there & (chunk * 8 + j < {}) ? __ldg(p + j * {}ll) : 0.0f;",
          implicit_.channel_count, channel));
    }
    writer_.close();
    writer_.close();
  }

  void drop() {
    const bool splits = parts(plan_) == 2;
    writer_.open(fmt::format(
        "PL_DEVICE void drop_strip(u32 to, const Eight (&v)[{}], unsigned later, float (&top)[2], int thread) {{",
        plan_.rounds));
    writer_.line("#pragma unroll");
    writer_.open(fmt::format("for (int i = 0; i < {}; ++i) {{", plan_.rounds));
    writer_.line("const int e = i * 128 + thread;");
    if (items_ % 128 != 0) writer_.line(fmt::format("if (i == {} && e >= {}) break;", plan_.rounds - 1, items_));
    writer_.line(splits ? "u32 hi[4], lo[4];" : "u32 hi[4];");
    const std::string factor = fmt::format("{}.0f", 1 << -strip_exponent);
    writer_.line("float most = 0.0f;");
    writer_.line("#pragma unroll");
    writer_.open("for (int j = 0; j < 4; ++j) {");
    writer_.line("const float a = v[i].v[2 * j], b = v[i].v[2 * j + 1];");
    writer_.line("most = fmaxf(most, fmaxf(fabsf(a), fabsf(b)));");
    writer_.line(splits ? fmt::format("split_pair(hi[j], lo[j], a * {0}, b * {0});", factor)
                        : fmt::format("hi[j] = pack_f16(a * {0}, b * {0});", factor));
    writer_.close();
    writer_.line("const bool next = later >> i & 1;");
    writer_.line("top[0] = next ? top[0] : fmaxf(top[0], most);");
    writer_.line("top[1] = next ? fmaxf(top[1], most) : top[1];");
    for (int part = 0; part < parts(plan_); ++part)
      writer_.line(fmt::format("shared_store_words(to + {} + e * 16, {});",
                               part_offset(problem_, plan_, Operand::b, part), part == 0 ? "hi" : "lo"));
    writer_.close();
    writer_.close();
  }

  void tell() {
    writer_.open("PL_DEVICE void tell_magnitudes(int* notes, int product, int first, float (&top)[2]) {");
    const bool moves = problem_.moves(Operand::b);
    writer_.line(fmt::format("const int image = {}first / {};",
                             moves ? fmt::format("product * {} + ", implicit_.images) : "", implicit_.plane));
    writer_.line("#pragma unroll");
    writer_.open("for (int h = 0; h < 2; ++h) {");
    writer_.line("#pragma unroll");
    writer_.line(
        "for (int apart = 16; apart > 0; apart /= 2) top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], apart));");
    writer_.line(fmt::format(
        "if (threadIdx.x % 32 == 0 && top[h] > 0.0f) atomicMax(notes + (is_finite(top[h]) ? image + h : {0}), "
        "__float_as_int(top[h]));",
        images_));
    writer_.line("top[h] = 0.0f;");
    writer_.close();
    writer_.close();
  }

  const Kernel kernel_;
  const Contraction& c_;
  const ImplicitOperand& implicit_;
  const Problem& problem_;
  const TilePlan& plan_;
  const std::int64_t images_;
  const Node& load_;
  const std::int64_t count_;     ///< positions of a run of a chunk
  const std::int64_t of_strip_;  ///< runs of chunks of a strip
  const std::int64_t items_;     ///< chunks of 8 channels of a stage
  PlaceWriter writer_;
};

}  // namespace

bool can_read_strips(const Kernel& kernel, const Contraction& c, const ImplicitOperand& implicit) {
  constexpr std::int64_t most_places = (std::int64_t{1} << 31) - 1, most_taps = 28;
  if (implicit.operand != Operand::b || implicit.channels.size() != 1 || implicit.taps > most_taps) return false;
  const Kernel by = by_place(kernel, c, implicit);
  const Node& node = by.nodes[static_cast<std::size_t>(c.second)];
  if (node.op != Op::load || node.dtype != DType::f32 || !node.args.empty() || !node.index.is_affine()) return false;
  const auto [least, most] = node.index.range(by.space);
  const bool zeros =
      node.where.empty() || printing::literal(node.dtype, node.value, node.bits) == printing::literal(DType::f32, 0, 0);
  return zeros && least > -most_places && most < most_places &&
         by.inputs[static_cast<std::size_t>(node.input)].dtype == DType::f32 &&
         std::ranges::none_of(
             node.where, [&](const ir::Bound& bound) { return bound.e.depends_on(implicit.channels.front()); });
}

std::string print_strip_reader(const Kernel& kernel, const Contraction& c, const ImplicitOperand& implicit,
                               const Problem& problem, const TilePlan& plan, std::int64_t images) {
  return StripPrinter(kernel, c, implicit, problem, plan, images).print();
}

std::string is_unusual_text(const std::string& name, std::int64_t images) {
  // What fp16 holds of elements times that power of two: less than 2^16, and 2^-24 of the largest at the least.
  return fmt::format(
      "{0}[i] != 0 && (i == {1} || !(__int_as_float({0}[i]) >= 0x1p-8f && __int_as_float({0}[i]) < 480.0f))", name,
      images);
}

}  // namespace planish::codegen::contraction
