#include "codegen/contraction/epilogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/contraction/exponents.h"
#include "codegen/contraction/main_loop.h"
#include "codegen/contraction/place_writer.h"
#include "codegen/variables.h"

namespace planish::codegen::contraction {
namespace {

/// Rows whose epilogues are in flight at once: as many as registers may hold.
int rows_at_once(std::size_t nodes, bool apart) {
  return nodes <= 12 ? (apart ? 8 : 2) : (apart ? 2 : 1);
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
  epilogue.parameters = writer.parameters(roots) + writer.output_parameters();
  for (std::size_t o = 0; o < kernel.outputs.size(); ++o) epilogue.arguments += fmt::format("out{}, ", o);
  writer.line("template <typename T> TC_FN T pl_ldg(const T* p) { return __ldg(p); }");
  writer.line("template <int rows, int columns, bool all, typename Sums>");
  writer.open(fmt::format("TC_FN void tc_store({}int batch, int y, int x, int end, int lane, Sums sums) {{",
                          epilogue.parameters));
  epilogue.parameters.resize(epilogue.parameters.size() - 2);
  writer.decode("batch", c.batch);
  // What columns have in common is read once a row.
  auto own = printing::closure(kernel, roots, [](int) { return false; });
  const auto moves = variables_of(kernel);
  const auto common = std::ranges::stable_partition(own, [&](int id) {
    return std::ranges::none_of(
        c.n, [&](int v) { return moves[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)]; });
  });
  const std::vector<int> shared(own.begin(), common.begin());
  own.erase(own.begin(), common.begin());
  // Long runs of a row, one behind the other; where columns are apart in memory, what lies between them soon after, and
  // a column's place, which then is costly, once for all rows.
  const bool apart = !c.n.empty() && kernel.outputs.front().index.coefficient_of(c.n.back()) != 1;
  const auto rows = [&] {
    writer.line(fmt::format("#pragma unroll {}", rows_at_once(own.size(), apart)));
    writer.open("for (int r = 0; r < rows; ++r) {");
    writer.line("const int row = y + r;");
    const bool slides = sliding != nullptr && sliding->operand == Operand::a;
    writer.line(fmt::format("if (!all && row >= {}) break;", slides ? sliding->positions() : c.rows));
    decode_row(writer, "row", c.m, Operand::a, sliding, "continue;");
    writer.these(shared);
  };
  const auto columns = [&] {
    writer.line("#pragma unroll");
    writer.open("for (int j = 0; j < columns; j += 32) {");
    writer.line("const int at = x + j + lane;");
    writer.line("if (at >= end) break;");
    decode_row(writer, "at", c.n, Operand::b, sliding, "continue;");
  };
  apart ? columns() : rows();
  apart ? rows() : columns();
  if (const auto there = writer.condition(kernel.outputs[0].where); !there.empty())
    writer.line(fmt::format("if (!({})) continue;", there));
  writer.line("const float folded = sums(r, j + lane);");
  writer.fold = "folded";
  writer.these(own);
  writer.stores();
  writer.close();
  writer.close();
  writer.close();
  epilogue.text = std::move(writer.out);
  return epilogue;
}

Joining print_joining(const Problem& problem, const TilePlan& plan, const Epilogue& epilogue) {
  const std::int64_t count = problem.batches * problem.m * problem.n;
  const bool scaled = scales(plan);
  Joining joining;
  joining.blocks = (count + joining.threads - 1) / joining.threads;
  std::string& out = joining.source;
  out = std::string(printing::prelude(true)) + std::string(machine_text()) + epilogue.text;
  out += "// ---- kernel ----\n";
  out += fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) planish_kernel(const float* __restrict__ parts, {}{}) {{\n",
      joining.threads, scaled ? "const int* __restrict__ ea, const int* __restrict__ eb, " : "", epilogue.parameters);
  out += fmt::format("  const long long at = (long long)blockIdx.x * {} + threadIdx.x;\n", joining.threads);
  out += fmt::format("  if (at >= {}ll) return;\n", count);
  out += fmt::format("  const int x = (int)(at % {0});\n  const long long line = at / {0};\n", problem.n);
  out += fmt::format("  const int batch = (int)(line / {0}), y = (int)(line % {0});\n", problem.m);
  out += "  float sum = 0.0f;\n";
  out += fmt::format("  for (int part = 0; part < {}; ++part)\n", plan.split_k);
  out += fmt::format("    sum += pl_ldg(parts + (((long long)batch * {} + part) * {} + y) * {} + x);\n", plan.split_k,
                     problem.m, problem.n);
  if (scaled) {
    const Extents extents = extents_of(problem, plan);
    out += fmt::format("  sum = tc_scale(sum, {} + {});\n",
                       exponent_of(problem, extents, Operand::a, {"ea", "batch"}, "y"),
                       exponent_of(problem, extents, Operand::b, {"eb", "batch"}, "x"));
  }
  out += fmt::format("  tc_store<1, 1, true>({}batch, y, x, {}, 0, [&](int, int) {{ return sum; }});\n}}\n",
                     epilogue.arguments, problem.n);
  return joining;
}

}  // namespace planish::codegen::contraction
