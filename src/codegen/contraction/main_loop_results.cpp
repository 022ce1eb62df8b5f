// What becomes of sums: they are multiplied back where operands were scaled, and handed on by way of shared memory or
// in the registers that hold them.
#include <algorithm>

#include "codegen/contraction/exponents.h"
#include "codegen/contraction/main_loop_printer.h"

namespace planish::codegen::contraction {
namespace {

constexpr int moderate = 63;  ///< of exponents: two of them make a factor that is normal

}  // namespace

/// Factors of columns that all tiles have, as bits to which a row's exponent is added, where both are moderate.
void MainLoopPrinter::read_column_scales() {
  line("int* const column_scale = (int*)(pl_smem + (base - shared_address(pl_smem)) + " +
       number(column_scale_offset(problem_, plan_)) + ");");
  line("bool immoderate = false;");
  line("for (int i = threadIdx.x; i < " + number(plan_.bn) + "; i += " + number(threads(plan_)) + ") {");
  line("const int e = eb[i];");
  line("immoderate = immoderate | (abs(e) > " + number(moderate) + ");");
  line("column_scale[i] = (int)((unsigned)(127 + e) << 23);");
  line("}");
  line("const bool far_columns = __syncthreads_or(immoderate);");
}

/// Results of rows or columns with other exponents are multiplied back here, and with 1 later.
void MainLoopPrinter::scale_far_columns() {
  line("const bool far = far_columns | __any_sync(~0u, (abs(up0) > " + number(moderate) + ") | (abs(up1) > " +
       number(moderate) + "));");
  line("const int row0 = far ? 0 : up0 << 23, row1 = far ? 0 : up1 << 23;");
  line("if (far) {");
  line("#pragma unroll");
  line("for (int i = 0; i < " + number(accumulator_registers(plan_)) + "; ++i) {");
  line("const int e = (i / 2 % 2 == 0 ? up0 : up1) + eb[i / 4 * 8 + lane % 4 * 2 + i % 2];");
  line(promotes(plan_) ? "sum[i] = scale_by_power(" + raw("i") + ", e);" : "high[i] = scale_by_power(high[i], e);");
  if (promotes(plan_)) line("small[i] = 0.0f;");
  line("}");
  line("}");
}

/// A register's sum. Where hi·hi is not finite the small products say nothing: lo is 0 beside an Inf, and Inf · 0 is
/// NaN.
std::string MainLoopPrinter::raw(const std::string& i) const {
  if (!promotes(plan_)) return "high[" + i + "]";
  return "is_finite(sum[" + i + "]) ? fmaf(small[" + i + "], 0x1p-11f, sum[" + i + "]) : sum[" + i + "]";
}

/// The power of two that a row of an operand was multiplied by.
std::string MainLoopPrinter::exponent(Operand operand, const std::string& row) const {
  return exponent_of(problem_, plan_, operand, {operand == Operand::a ? "ea" : "eb", "slice", true}, row);
}

/// Whether a tile reaches into two images at most, so that their exponents are asked for once.
bool MainLoopPrinter::two_images() const {
  return visitor_.scaled && !problem_.has_runs() && problem_.is_implicit(Operand::b) && !reads_strips(plan_) &&
         problem_.im2col->image >= plan_.bn;
}

/// What the store needs and the product does not: it is on its way while that is made.
void MainLoopPrinter::ahead_of_store() {
  line("const int warp = threadIdx.x % 128 / 32;");
  line(std::string("const int m = row + ") + (plan_.ping_pong != 0 ? "" : "(group - 1) * 64 + ") + "warp * 16;");
  if (!visitor_.scaled) return;
  line("const int up0 = " + exponent(Operand::a, "m + lane / 4") +
       ", up1 = " + exponent(Operand::a, "m + lane / 4 + 8") + ";");
  if (problem_.has_runs() && !reads_strips(plan_)) line("const int before = " + exponent(Operand::b, "first") + ";");
  if (!two_images()) return;
  const std::string image = number(problem_.im2col->image);
  line("const int border = (column / " + image + " + 1) * " + image + ";");
  line("const int before = " + exponent(Operand::b, "column") + ", behind = " + exponent(Operand::b, "border") + ";");
}

/// Whether a warp asks if its rows and the tile's images have moderate exponents and all sums are finite, so that one
/// factor does for a row's results.
bool MainLoopPrinter::may_be_plain() const {
  return visitor_.scaled && !visitor_.crowded && !scales_columns() && knows_images();
}

/// The power of two of a tile's columns, where it has one; the first image's where it reaches into two.
std::string MainLoopPrinter::across() const {
  return reads_strips(plan_) ? exponent(Operand::b, "") : std::string("before");
}

void MainLoopPrinter::ask_whether_plain() {
  const auto moderate_up = [&](const std::string& up) {
    return "(abs(" + up + " + " + across() + ") <= " + number(moderate) + ")";
  };
  std::string all = moderate_up("up0") + " & " + moderate_up("up1");
  if (two_images()) all += " & (column + " + number(plan_.bn) + " <= border)";
  if (promotes(plan_)) {
    // 0 · x is NaN where x is not finite; several sums, which do not wait for each other.
    line("float odd[4] = {0.0f, 0.0f, 0.0f, 0.0f};");
    line("#pragma unroll");
    line("for (int i = 0; i < " + number(accumulator_registers(plan_)) +
         "; ++i) odd[i % 4] = fmaf(small[i], 0.0f, odd[i % 4]);");
    all += " & (odd[0] + odd[1] + odd[2] + odd[3] == 0.0f)";
  }
  line("const bool plain = __all_sync(~0u, " + all + ");");
  for (const std::string half : {"0", "1"})
    line("const float factor" + half + " = __int_as_float((int)(127u + up" + half + " + " + across() + ") << 23);");
}

/// A part's results of half a warp's rows into shared memory, by these expressions of a register's number, behind the
/// lines `before`.
void MainLoopPrinter::exchange_part(const std::string& before,
                                    const std::function<std::string(const std::string&, int)>& of) {
  const std::string width = number(plan_.exchange), all = number(plan_.bn);
  line("#pragma unroll");
  line(settles_ ? "for (int j = 0; j < " + all + "; j += 8) {"
                : "for (int j = part; j < min(part + " + width + ", " + all + "); j += 8) {");
  if (!before.empty()) line(before);
  line("const float left = " + of("j / 2 + h * 2", 0) + ";");
  line("const float right = " + of("j / 2 + h * 2 + 1", 1) + ";");
  line(settles_ ? "high[j / 2 + h * 2] = left, high[j / 2 + h * 2 + 1] = right;"
                : "*(float2*)(mine + j - part) = make_float2(left, right);");
  line("}");
}

/// Results of rows and columns of any exponents.
void MainLoopPrinter::exchange_any() {
  const std::string x = "column + j + lane % 4 * 2";
  if (scales_columns()) {
    exchange_part(
        "const int2 by = far ? make_int2(127 << 23, 127 << 23) : *(const int2*)(column_scale + j + lane % 4 * 2);",
        [&](const std::string& i, int side) {
          return "(" + raw(i) + ") * __int_as_float(" + (side == 0 ? "by.x" : "by.y") + " + (h == 0 ? row0 : row1))";
        });
    return;
  }
  if (!visitor_.scaled) {
    exchange_part("", [&](const std::string& i, int) { return raw(i); });
    return;
  }
  if (knows_images()) {
    const std::string behind = two_images() ? "(" + x + " < border ? before : behind)" : across();
    exchange_part("const PowerFactors factors = power_factors((h == 0 ? up0 : up1) + " + behind + ");",
                  [&](const std::string& i, int) { return "(" + raw(i) + ") * factors.one * factors.other"; });
    return;
  }
  exchange_part("", [&](const std::string& i, int side) {
    const std::string place = side == 0 ? x : x + " + 1";
    return "scale_by_power(" + raw(i) + ", (h == 0 ? up0 : up1) + " + exponent(Operand::b, place) + ")";
  });
}

/// What the accumulators hold, multiplied back, by these lines for each half of a warp's rows.
void MainLoopPrinter::results() {
  if (may_be_plain()) {
    line("if (plain) {");
    exchange_part("const float factor = h == 0 ? factor0 : factor1;", [&](const std::string& i, int) {
      if (!promotes(plan_)) return "high[" + i + "] * factor";
      return "fmaf(small[" + i + "], factor * 0x1p-11f, sum[" + i + "] * factor)";
    });
    line("} else {");
  }
  exchange_any();
  if (may_be_plain()) line("}");
}

/// Results go through shared memory: threads that are neighbours store neighbours. Where they are folded they are left
/// in registers besides.
void MainLoopPrinter::store() {
  // Which places there are whoever finds them says.
  const bool whole_m = extents_.rows_a == problem_.m || problem_.in_boxes(Operand::a);
  const bool whole_n = extents_.rows_b == problem_.n || problem_.in_boxes(Operand::b);
  const bool sliced = problem_.batches * plan_.split_k > 1;
  const std::string width = number(plan_.exchange), all = number(plan_.bn), slice = sliced ? "slice" : "0";
  const std::int64_t columns = problem_.in_boxes(Operand::b) ? extents_.rows_b : problem_.n;
  const std::string end = "min(column + " + number(tile_step(plan_)) + ", " + number(columns) + ")",
                    inside = whole_m ? "true" : "false";
  if (scales_columns()) scale_far_columns();
  if (may_be_plain()) ask_whether_plain();
  if (visitor_.folds) {
    settles_ = true;
    line("#pragma unroll");
    line("for (int h = 0; h < 2; ++h) {");
    results();
    line("}");
    settles_ = false;
  }
  if (visitor_.stores) {
    const std::string pitch = number(exchange_pitch(plan_));
    line("float* const exchange = (float*)(pl_smem + (base - shared_address(pl_smem)) + " +
         number(exchange_offset(problem_, plan_)) + ") + ((group - 1) * 4 + warp) * " + number(exchange_floats(plan_)) +
         ";");
    line("float* const mine = exchange + lane / 4 * " + pitch + " + lane % 4 * 2;");
    line("#pragma unroll");
    line("for (int part = 0; part < " + all + "; part += " + width + ") {");
    line("#pragma unroll");
    line("for (int h = 0; h < 2; ++h) {");
    line("__syncwarp();");
    visitor_.folds ? exchange_part("", [&](const std::string& i, int) { return "high[" + i + "]"; }) : results();
    line("__syncwarp();");
    // Columns of this part, and the first that is not there.
    const std::int64_t last = std::min<std::int64_t>(plan_.exchange, plan_.bn);
    const bool even = plan_.bn % plan_.exchange == 0 || plan_.exchange > plan_.bn;
    const bool begins = plan_.overlap > 0;
    const bool endless = problem_.has_runs() || (whole_n && even && last % 32 == 0 && !begins);
    line("store_sums<8, " + number((last + 31) / 32 * 32) + ", " + inside + ">(" + visitor_.arguments + slice +
         ", m + h * 8, column + part, " + (endless ? "0x7fffffff" : end) + ", lane, Exchange<" + pitch + ">{exchange}" +
         (begins ? ", column" : "") + ");");
    line("}");
    line("}");
  }
  if (visitor_.folds)
    line("fold_sums<" + all + ", " + inside + ">(" + visitor_.arguments + slice + ", m, column, " + end +
         ", lane, high);");
}

}  // namespace planish::codegen::contraction
