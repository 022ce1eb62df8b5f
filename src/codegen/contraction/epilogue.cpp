#include "codegen/contraction/epilogue.h"

#include <fmt/format.h>

#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/emit/cuda_access.h"

namespace planish::codegen::contraction {
namespace {

/// True where the output's elements of columns x and x + 1, x even, lie side by side at a multiple of two, and both are
/// there if one is.
bool in_pairs(const Kernel& kernel, const Contraction& c, const Output& output, const Sliding* sliding) {
  if (sliding != nullptr && sliding->operand == Operand::b && sliding->slides.back().row != c.n.back()) return false;
  if (c.columns % 2 != 0 || (size_of(output.dtype) != 4 && size_of(output.dtype) != 2)) return false;
  const int last = c.n.back();
  if (kernel.space.extents[static_cast<std::size_t>(last)] % 2 != 0) return false;
  const printing::Lanes lanes{printing::Lanes::Mode::along, 2, last, {}, {}};
  const auto access = printing::classify(output.index, {}, output.dtype, kernel.space, lanes);
  return access.kind == printing::Access::Kind::vector && access.unit == 2;
}

/// Coordinates of a factor's row at the position `linear`. Where the row is one of those behind the last of a dim,
/// `leave` is done instead.
void decode_row(PlaceWriter& writer, const std::string& linear, const std::vector<int>& variables, Operand operand,
                const Sliding* sliding, std::string_view leave) {
  if (sliding == nullptr || sliding->operand != operand) return writer.decode(linear, variables);
  writer.decode(fmt::format("(unsigned)({}) / {}", linear, sliding->plane), sliding->apart);
  std::int64_t later = sliding->plane;
  std::string there;
  for (const Slide& slide : sliding->slides) {
    later /= slide.places;
    writer.line(fmt::format("const {} d{} = (unsigned)({}) / {} % {};", writer.coordinate(), slide.row, linear, later,
                            slide.places));
    if (slide.places > slide.rows)
      there += fmt::format("{}d{} < {}", there.empty() ? "" : " && ", slide.row, slide.rows);
  }
  if (!there.empty()) writer.line(fmt::format("if (!({})) {}", there, leave));
}

}  // namespace

Epilogue print_epilogue(const Kernel& kernel, const Contraction& c, const Sliding* sliding) {
  Epilogue epilogue;
  PlaceWriter writer(kernel);
  std::vector<int> roots;
  for (const Output& output : kernel.outputs) roots.push_back(output.node);
  epilogue.inputs = writer.inputs(roots);
  epilogue.arguments = writer.arguments(roots);
  epilogue.parameters = writer.parameters(roots);
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    epilogue.arguments += fmt::format("out{}, ", o);
    epilogue.parameters += fmt::format("{}* __restrict__ out{}, ", printing::storage_type(kernel.outputs[o].dtype), o);
  }
  writer.open(
      fmt::format("TC_FN void tc_store({}int batch, int y, int x, float left, float right) {{", epilogue.parameters));
  epilogue.parameters.resize(epilogue.parameters.size() - 2);
  writer.decode("batch", c.batch);
  decode_row(writer, "y", c.m, Operand::a, sliding, "return;");
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    if (in_pairs(kernel, c, kernel.outputs[o], sliding)) {
      writer.line(fmt::format("{} s{}[2];", printing::storage_type(kernel.outputs[o].dtype), o));
    }
  }
  writer.line("#pragma unroll");
  writer.open("for (int j = 0; j < 2; ++j) {");
  const bool slides = sliding != nullptr && sliding->operand == Operand::b;  // whose positions are even
  const bool odd = !slides && c.columns % 2 != 0;
  if (odd) writer.open(fmt::format("if (x + j < {}) {{", c.columns));
  writer.line("const float folded = j == 0 ? left : right;");
  decode_row(writer, "x + j", c.n, Operand::b, sliding, "continue;");
  writer.fold = "folded";
  writer.nodes(roots);
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    const Output& output = kernel.outputs[o];
    const std::string value = printing::store_form(
        writer.name(output.node), kernel.nodes[static_cast<std::size_t>(output.node)].dtype, output.dtype);
    writer.line(in_pairs(kernel, c, output, sliding)
                    ? fmt::format("s{}[j] = {};", o, value)
                    : fmt::format("out{}[{}] = {};", o, writer.place_of(output.index), value));
  }
  if (odd) writer.close();
  writer.close();
  bool any = false;
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) any = any || in_pairs(kernel, c, kernel.outputs[o], sliding);
  if (any) decode_row(writer, "x", c.n, Operand::b, sliding, "return;");
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) {
    const Output& output = kernel.outputs[o];
    if (!in_pairs(kernel, c, output, sliding)) continue;
    writer.line(fmt::format("tc_pair(out{0} + ({1}), s{0}[0], s{0}[1]);", o, writer.place_of(output.index)));
  }
  writer.close();
  epilogue.text = R"(template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }
template <typename T> struct __align__(2 * sizeof(T)) TcPair { T left, right; };
template <typename T> TC_FN void tc_pair(T* p, T left, T right) { *(TcPair<T>*)p = {left, right}; }
)" + writer.out;
  return epilogue;
}

Joining print_joining(const Problem& problem, const TilePlan& plan, const Epilogue& epilogue) {
  const std::int64_t pairs = (problem.n + 1) / 2;
  const std::int64_t count = problem.batches * problem.m * pairs;
  const Extents e = extents_of(problem, plan);
  const bool scaled = scales(plan);
  Joining joining;
  joining.blocks = (count + joining.threads - 1) / joining.threads;
  std::string& out = joining.source;
  const auto exponent = [&](const char* name, Operand operand, std::int64_t rows, std::string place) {
    const bool moves = operand == Operand::a ? problem.a_batched : problem.b_batched;
    if (problem.slides(operand)) {
      rows = problem.columns->positions / problem.columns->image;
      place = fmt::format("({}) / {}", place, problem.columns->image);
    }
    return moves && problem.batches > 1 ? fmt::format("{}[batch * {} + {}]", name, rows, place)
                                        : fmt::format("{}[{}]", name, place);
  };
  out = std::string(printing::prelude(true)) + std::string(machine_text()) + epilogue.text;
  out += "// ---- kernel ----\n";
  out += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) planish_kernel(const float* __restrict__ parts, {}{}) {{\n",
      joining.threads, scaled ? "const int* __restrict__ ea, const int* __restrict__ eb, " : "", epilogue.parameters);
  out += fmt::format("  const long long at = (long long)blockIdx.x * {} + threadIdx.x;\n", joining.threads);
  out += fmt::format("  if (at >= {}ll) return;\n", count);
  out += fmt::format("  const int x = (int)(at % {}) * 2;\n  const long long line = at / {};\n", pairs, pairs);
  out += fmt::format("  const int batch = (int)(line / {0}), y = (int)(line % {0});\n", problem.m);
  out += "  float left = 0.0f, right = 0.0f;\n";
  out += fmt::format("  for (int part = 0; part < {}; ++part) {{\n", plan.split_k);
  out += fmt::format("    const float* const p = parts + (((long long)batch * {} + part) * {} + y) * {} + x;\n",
                     plan.split_k, problem.m, problem.n);
  out += "    left += pl_ldg(p);\n";
  out += problem.n % 2 == 0 ? std::string("    right += pl_ldg(p + 1);\n")
                            : fmt::format("    if (x + 1 < {}) right += pl_ldg(p + 1);\n", problem.n);
  out += "  }\n";
  if (scaled) {
    out += fmt::format("  const int up = {};\n", exponent("ea", Operand::a, e.rows_a, "y"));
    out += fmt::format("  left = tc_scale(left, up + {});\n", exponent("eb", Operand::b, e.rows_b, "x"));
    out += fmt::format("  right = tc_scale(right, up + {});\n", exponent("eb", Operand::b, e.rows_b, "x + 1"));
  }
  out += fmt::format("  tc_store({}batch, y, x, left, right);\n}}\n", epilogue.arguments);
  return joining;
}

}  // namespace planish::codegen::contraction
