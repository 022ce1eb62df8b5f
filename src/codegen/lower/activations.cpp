#include <cmath>

#include "codegen/lower/lowering.h"

// Activations that capture keeps whole. Each is written with the formula torch's own kernel uses, in the compute dtype.
namespace planish::codegen {
namespace {

Result<int> input(const Site& s) {
  const ir::Arg* self = s.args.get("self") != nullptr ? s.args.get("self") : s.args.get("input");
  return s.low.operand(self, s.coords, s.out_dtype);
}

int clamp(Builder& b, int x, double lo, double hi) {
  return b.op(Op::minimum, b.op(Op::maximum, x, b.like(x, lo)), b.like(x, hi));
}

int above(Builder& b, int x, double limit) {
  return b.test(Op::gt, x, b.like(x, limit));
}

Result<int> gelu(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  Builder& b = s.b;
  if (s.args.text("approximate") == "tanh") {
    const int cube = b.mul(b.mul(x, x), x);
    const int inner = b.mul(b.add(x, b.mul(cube, 0.044715)), 0.7978845608028654);
    return b.mul(b.mul(x, 0.5), b.add(b.op(Op::tanh, inner), 1.0));
  }
  return b.mul(b.mul(x, 0.5), b.add(b.op(Op::erf, b.mul(x, 0.7071067811865476)), 1.0));
}

Result<int> silu(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  return s.b.mul(x, s.b.op(Op::sigmoid, x));
}

Result<int> mish(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  return s.b.mul(x, s.b.op(Op::tanh, s.b.op(Op::log1p, s.b.op(Op::exp, x))));
}

Result<int> softplus(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  Builder& b = s.b;
  const double beta = s.args.number("beta").value_or(1), threshold = s.args.number("threshold").value_or(20);
  const int scaled = b.mul(x, beta);
  return b.select(above(b, scaled, threshold), x, b.div(b.op(Op::log1p, b.op(Op::exp, scaled)), beta));
}

Result<int> hardswish(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  return s.b.div(s.b.mul(x, clamp(s.b, s.b.add(x, 3.0), 0, 6)), 6.0);
}

Result<int> hardsigmoid(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  return s.b.div(clamp(s.b, s.b.add(x, 3.0), 0, 6), 6.0);
}

Result<int> elu_form(const Site& s, double alpha, double scale, double input_scale) {
  PLANISH_TRY(const int x, input(s));
  Builder& b = s.b;
  const int negative = b.mul(b.op(Op::expm1, b.mul(x, input_scale)), alpha * scale);
  return b.select(above(b, x, 0), b.mul(x, scale), negative);
}
Result<int> elu(const Site& s) {
  return elu_form(s, s.args.number("alpha").value_or(1), s.args.number("scale").value_or(1),
                  s.args.number("input_scale").value_or(1));
}
Result<int> selu(const Site& s) {
  return elu_form(s, 1.6732632423543772, 1.0507009873554805, 1);
}
Result<int> celu(const Site& s) {
  const double alpha = s.args.number("alpha").value_or(1);
  return elu_form(s, alpha, 1, 1 / alpha);
}

Result<int> leaky_relu(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  const double slope = s.args.number("negative_slope").value_or(0.01);
  return s.b.select(above(s.b, x, 0), x, s.b.mul(x, slope));
}

Result<int> prelu(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  const int id = s.args.value("weight");
  if (id < 0) return unsupported("prelu without weight");
  const auto& shape = s.low.info(id).shape;
  Coords coords;
  if (shape.size() == 1 && s.coords.size() != 1) {
    // One weight, or one for each channel (dim 1).
    coords = {s.coords.size() > 1 ? s.coords[1] : ir::IndexExpr()};
  } else if (shape.size() <= s.coords.size()) {
    coords.assign(s.coords.end() - static_cast<std::ptrdiff_t>(shape.size()), s.coords.end());
  } else {
    coords.assign(shape.size(), ir::IndexExpr());
  }
  PLANISH_TRY(const int w, s.low.value_as(id, std::move(coords), s.out_dtype));
  return s.b.select(above(s.b, x, 0), x, s.b.mul(x, w));
}

Result<int> relu6(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  return clamp(s.b, x, 0, 6);
}

Result<int> softsign(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  return s.b.div(x, s.b.add(s.b.op(Op::abs, x), 1.0));
}

Result<int> log_sigmoid(const Site& s) {
  if (s.out_position != 0) return unsupported("the buffer of log_sigmoid");
  PLANISH_TRY(const int x, input(s));
  Builder& b = s.b;
  const int tail = b.op(Op::log1p, b.op(Op::exp, b.op(Op::neg, b.op(Op::abs, x))));
  return b.sub(b.op(Op::minimum, x, b.like(x, 0)), tail);
}

Result<int> glu(const Site& s) {
  const int id = s.args.value("self");
  const auto dim = static_cast<std::size_t>(s.args.dim("dim", s.coords.size(), -1));
  Coords gate = s.coords;
  gate[dim] = s.low.plus(gate[dim], s.low.info(s.out_id).shape[dim]);
  PLANISH_TRY(const int x, s.low.value_as(id, s.coords, s.out_dtype));
  PLANISH_TRY(const int g, s.low.value_as(id, std::move(gate), s.out_dtype));
  return s.b.mul(x, s.b.op(Op::sigmoid, g));
}

Result<int> hardshrink(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  Builder& b = s.b;
  const double l = s.args.number("lambd").value_or(0.5);
  const int inside = b.op(Op::logical_and, b.test(Op::ge, x, b.like(x, -l)), b.test(Op::le, x, b.like(x, l)));
  return b.select(inside, b.like(x, 0), x);
}

Result<int> softshrink(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  Builder& b = s.b;
  const double l = s.args.number("lambd").value_or(0.5);
  // x·0 keeps a NaN.
  const int inner = b.select(b.test(Op::lt, x, b.like(x, -l)), b.add(x, l), b.mul(x, 0.0));
  return b.select(above(b, x, l), b.sub(x, l), inner);
}

Result<int> threshold(const Site& s) {
  PLANISH_TRY(const int x, input(s));
  Builder& b = s.b;
  const int low = b.test(Op::le, x, b.like(x, s.args.number("threshold").value_or(0)));
  return b.select(low, b.like(x, s.args.number("value").value_or(0)), x);
}

Result<int> logit(const Site& s) {
  PLANISH_TRY(int x, input(s));
  if (const auto eps = s.args.number("eps")) x = clamp(s.b, x, *eps, 1 - *eps);
  return s.b.op(Op::log, s.b.div(x, s.b.sub(s.b.like(x, 1), x)));
}

}  // namespace

const HandlerTable& activation_handlers();
const HandlerTable& activation_handlers() {
  static const HandlerTable table{{"gelu", gelu},
                                  {"silu", silu},
                                  {"mish", mish},
                                  {"softplus", softplus},
                                  {"hardswish", hardswish},
                                  {"hardsigmoid", hardsigmoid},
                                  {"elu", elu},
                                  {"selu", selu},
                                  {"celu", celu},
                                  {"leaky_relu", leaky_relu},
                                  {"prelu", prelu},
                                  {"_prelu_kernel", prelu},
                                  {"relu6", relu6},
                                  {"softsign", softsign},
                                  {"log_sigmoid", log_sigmoid},
                                  {"log_sigmoid_forward", log_sigmoid},
                                  {"glu", glu},
                                  {"hardshrink", hardshrink},
                                  {"softshrink", softshrink},
                                  {"threshold", threshold},
                                  {"logit", logit}};
  return table;
}

}  // namespace planish::codegen
