#include "codegen/contraction/pack_text.h"

#include <fmt/format.h>

namespace planish::codegen::contraction {

void print_rounding(PlaceWriter& writer, const TilePlan& plan, std::string_view v, std::string_view factor) {
  writer.line("#pragma unroll");
  if (!scales(plan)) {
    writer.line(fmt::format("for (int j = 0; j < 8; ++j) hi.x[j] = {}({}[j]);",
                            plan.element == Element::f16 ? "pl_to_f16" : "pl_to_bf16", v));
    return;
  }
  writer.open("for (int j = 0; j < 8; ++j) {");
  writer.line(fmt::format("const float s = {}[j] * {};", v, factor));
  // A product with an infinity must know that what vanished was no zero.
  writer.line(plan.scheme == Scheme::chosen ? "hi.x[j] = f16_bits(s);"
                                            : fmt::format("hi.x[j] = high_part({}[j], s);", v));
  if (parts(plan) == 2)
    writer.line(fmt::format("lo.x[j] = low_part{}(s, hi.x[j]);", plan.scheme == Scheme::joint ? "_joint" : ""));
  writer.close();
}

}  // namespace planish::codegen::contraction
