// Transposed convolutions: what they are lowered to, and how that becomes one product.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "codegen/contraction/cuda_contraction.h"
#include "codegen/contraction/product.h"
#include "codegen/contraction_samples.h"
#include "codegen/devices.h"
#include "codegen/phases.h"
#include "codegen/run_kernel.h"

namespace planish::codegen {
namespace {

using contraction::Operand;
using contraction::Product;
using samples::Transposed;
using samples::transposed_sample;
using samples::transposed_shapes;
using samples::transposed_sizes;
using Vector = std::vector<double>;

double at(std::size_t value, std::int64_t place) {
  return element(value, static_cast<std::size_t>(place));
}

std::vector<std::int64_t> digits(std::int64_t linear, const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> out(extents.size());
  for (std::size_t d = extents.size(); d-- > 0; linear /= extents[d]) out[d] = linear % extents[d];
  return out;
}

std::int64_t count(const std::vector<std::int64_t>& extents) {
  std::int64_t n = 1;
  for (const std::int64_t extent : extents) n *= extent;
  return n;
}

/// As torch defines it: every element adds its taps to the places around its own.
Vector scattered(const Transposed& how) {
  const auto shape = transposed_sizes(how);
  const std::size_t dims = how.x.size() - 2;
  const std::int64_t per = how.w[1], of_group = how.x[1] / how.groups;
  Vector out(static_cast<std::size_t>(count(shape)), 0);
  const std::vector<std::int64_t> window(how.w.begin() + 2, how.w.end());
  for (std::int64_t i = 0; i < count(how.x); ++i) {
    const auto from = digits(i, how.x);
    for (std::int64_t o = 0; o < per; ++o) {
      for (std::int64_t t = 0; t < count(window); ++t) {
        const auto tap = digits(t, window);
        std::int64_t to = from[0] * shape[1] + from[1] / of_group * per + o;
        bool inside = true;
        for (std::size_t d = 0; d < dims; ++d) {
          const std::int64_t q = from[d + 2] * how.stride[d] + tap[d] * how.dilation[d] - how.padding[d];
          inside = inside && q >= 0 && q < shape[d + 2];
          to = to * shape[d + 2] + q;
        }
        const std::int64_t weight = (from[1] * per + o) * count(window) + t;
        if (inside) out[static_cast<std::size_t>(to)] += at(0, i) * at(1, weight);
      }
    }
  }
  if (!how.chain) return out;
  const std::int64_t plane = count(shape) / shape[0] / shape[1];
  for (std::int64_t i = 0; i < count(shape); ++i) {  // the graph's values: x, w, bias, convolution, residual
    double& y = out[static_cast<std::size_t>(i)];
    y = std::max(0.0, y + at(2, i / plane % shape[1]) + at(4, i));
  }
  return out;
}

void close(const Vector& found, const Vector& wanted) {
  REQUIRE(found.size() == wanted.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) worst = std::max(worst, std::abs(found[i] - wanted[i]));
  CHECK(worst < 1e-9);
}

Product product_of(const Kernel& kernel) {
  auto product = contraction::product_of(kernel);
  REQUIRE(product);
  return *product;
}

/// A small one, of one dim.
Transposed line(std::int64_t size, std::int64_t stride, std::int64_t padding = 0, std::int64_t more = 0,
                std::int64_t dilation = 1) {
  Transposed how{.x = {2, 9, 11}, .w = {9, 5, size}};
  how.stride = {stride};
  how.padding = {padding};
  how.more = {more};
  how.dilation = {dilation};
  return how;
}

}  // namespace

TEST_CASE("a transposed convolution is what torch defines, read from its results") {
  for (Transposed how : transposed_shapes(false)) {
    samples::complete(how);
    const auto sample = transposed_sample(how);
    CAPTURE(sample.python);
    REQUIRE(sample.kernel.anchor == Anchor::contraction);
    close(run(sample.kernel)[0], scattered(how));
  }
}

TEST_CASE("over phases it computes the same, and nothing twice") {
  for (Transposed how : transposed_shapes(false)) {
    samples::complete(how);
    const auto sample = transposed_sample(how);
    CAPTURE(sample.python);
    // The interpreter throws where an element is outside of its input, also where it is multiplied with zero.
    close(run(product_of(sample.kernel).kernel)[0], scattered(how));
  }
}

TEST_CASE("any size, stride, padding and dilation of one dim, over phases") {
  for (std::int64_t size = 1; size <= 5; ++size) {
    for (std::int64_t stride = 1; stride <= 4; ++stride) {
      for (std::int64_t dilation = 1; dilation <= 3; ++dilation) {
        for (std::int64_t padding = 0; padding <= 2; ++padding) {
          Transposed how = line(size, stride, padding, std::max(stride, dilation) - 1, dilation);
          samples::complete(how);
          const auto sample = transposed_sample(how);
          CAPTURE(sample.python);
          REQUIRE(sample.kernel.anchor == Anchor::contraction);
          const Vector wanted = scattered(how);
          close(run(sample.kernel)[0], wanted);
          close(run(product_of(sample.kernel).kernel)[0], wanted);
          const auto c = contraction_of(contraction::phased(sample.kernel).kernel);
          REQUIRE(c);
          // Images of one factor, phases of the other: no product for each place.
          CHECK(c->batch.empty());
          CHECK(c->rows * c->columns >= count(transposed_sizes(how)));
          CHECK(c->depth == 9 * (dilation % stride == 0 ? size : dilation * (size - 1) / stride + 1));
        }
      }
    }
  }
}

TEST_CASE("phases are rows of the taps' factor, places columns of the other, which slides") {
  struct Case {
    Transposed how;
    std::int64_t rows, depth;
    bool slides, wasted;
  };
  const auto of = [](std::vector<std::int64_t> x, std::vector<std::int64_t> w, std::int64_t stride,
                     std::int64_t padding) {
    return Transposed{.x = std::move(x), .w = std::move(w), .stride = {stride}, .padding = {padding}};
  };
  for (const auto& [how, rows, depth, slides, idle] :
       std::vector<Case>{{of({2, 16, 16, 16}, {16, 32, 4, 4}, 2, 1), 32 * 4, 16 * 4, true, false},
                         {of({2, 16, 16, 16}, {16, 32, 4, 4}, 2, 0), 32 * 4, 16 * 4, true, false},
                         {of({2, 16, 16, 16}, {16, 32, 3, 3}, 2, 1), 32 * 4, 16 * 4, true, true},
                         {of({2, 16, 8, 8, 8}, {16, 32, 3, 3, 3}, 2, 1), 32 * 8, 16 * 8, true, true},
                         {of({2, 16, 16, 16}, {16, 64, 3, 3}, 1, 1), 64, 16 * 9, true, false},
                         {of({2, 16, 100}, {16, 32, 9}, 3, 2), 32 * 3, 16 * 3, true, false},
                         {of({2, 16, 16, 16}, {16, 32, 2, 2}, 2, 0), 32 * 4, 16, false, false},
                         {of({2, 16, 16, 16}, {16, 32, 2, 2}, 2, 1), 32 * 4, 16, false, false},
                         {of({2, 16, 100}, {16, 32, 2}, 3, 0), 32 * 3, 16, false, true}}) {
    const auto sample = transposed_sample(how);
    CAPTURE(sample.python);
    const Product product = product_of(sample.kernel);
    CHECK(product.implicit.has_value() == slides);
    CHECK(contraction::wasted(product).has_value() == idle);
    CHECK(product.c.rows == rows);
    if (slides) {
      CHECK(product.implicit->operand == Operand::b);
      for (const auto& slide : product.implicit->dims) CHECK(slide.stride == 1);
    }
    CHECK(product.c.depth == depth);
  }
}

TEST_CASE("what has no tap takes part in nothing: its condition is both factors', until one is freed of it") {
  Transposed how = line(3, 2);
  samples::complete(how);
  const auto sample = transposed_sample(how);
  const auto conditions = [](const Kernel& kernel, int value) {
    std::size_t found = 0;
    for (const Node& node : kernel.nodes) {
      if (node.op == Op::load && kernel.inputs[static_cast<std::size_t>(node.input)].value == value)
        found += node.where.size();
    }
    return found;
  };
  CHECK(conditions(sample.kernel, 0) == 2);  // inside, and a tap
  CHECK(conditions(sample.kernel, 1) == 1);
  const Product product = product_of(sample.kernel);
  CHECK(conditions(product.kernel, 0) == 1);
  CHECK(conditions(product.kernel, 1) == 1);
  REQUIRE(product.taps.size() == 1);
  // Elements that are not finite reach what they are multiplied with, and nothing else.
  std::vector<Vector> data;
  for (const Input& input : sample.kernel.inputs) {
    Vector storage;
    for (std::int64_t i = 0; i < input.storage_elements; ++i)
      storage.push_back(at(static_cast<std::size_t>(input.value), i));
    data.push_back(std::move(storage));
  }
  const auto x = static_cast<std::size_t>(sample.kernel.inputs[0].value == 0 ? 0 : 1);
  data[x][4] = std::numeric_limits<double>::infinity();
  const auto finite = [](const Vector& values) {
    return std::ranges::count_if(values, [](double v) { return std::isfinite(v); });
  };
  const auto right = Interpreter(sample.kernel, data).run()[0],
             over_phases = Interpreter(product.kernel, data).run()[0];
  CHECK(finite(right) == static_cast<std::ptrdiff_t>(right.size()) - 3 * 5);
  CHECK(finite(over_phases) < finite(right));  // which is what a last launch mends
}

TEST_CASE(
    "every transposed convolution has seeds, each legal and emitted, and one more launch where taps are missing") {
  for (const auto& sample : samples::transposed_samples(true)) {
    CAPTURE(sample.python);
    REQUIRE(sample.kernel.anchor == Anchor::contraction);
    REQUIRE(tensor_cores_lack(sample.kernel, h200()) == "");
    const Product product = product_of(sample.kernel);
    const bool slides = product.implicit.has_value(), mends = contraction::wasted(product).has_value();
    const bool narrow = contraction::narrow_type(product.kernel, product.c).has_value();
    for (const Genome& genome : seeds(sample.kernel, h200())) {
      CHECK(illegal(sample.kernel, h200(), genome) == "");
      const auto emitted = emit(sample.kernel, h200(), genome);
      REQUIRE(emitted);
      // Where strips are read the product, and all that it needs packed, comes once more, in case.
      const std::size_t joins = genome.at("split") > 1 ? 1 : 0;
      const std::size_t again = slides && value_of(genome, "direct", 0) == 1 ? 1 + joins : 0;
      // What slides is packed twice, the second time what has to be scaled: not of 16 bits.
      const std::size_t scales = slides && !narrow ? 1 : 0;
      const std::size_t launches = 3 + scales + (mends ? 1 : 0) + joins + again;
      CHECK(emitted->after.size() + 1 == launches);
      CHECK((emitted->after.back().source.find("bool met") != std::string::npos) == mends);
      CHECK(emit(sample.kernel, h200(), genome)->source == emitted->source);
    }
  }
}

TEST_CASE("packing of 16 bits notes images with what must not be multiplied with zeros, where taps are missing") {
  for (const std::int64_t size : {3, 4}) {  // of a window of stride 2: phases have one or two taps, or two
    const auto sample = transposed_sample(
        {.x = {2, 16, 6, 5}, .w = {16, 10, size, size}, .stride = {2}, .padding = {1}, .dtype = DType::bf16});
    REQUIRE(tensor_cores_lack(sample.kernel, h200()) == "");
    const auto emitted = emit(sample.kernel, h200(), seeds(sample.kernel, h200()).front());
    REQUIRE(emitted);
    if (size == 4) {
      CHECK(emitted->zeroed.empty());
      continue;
    }
    REQUIRE(emitted->zeroed.size() == 1);
    const int notes = emitted->zeroed.front();
    CHECK(emitted->scratch_bytes[static_cast<std::size_t>(notes)] == 2 * 2 * 4);
    std::vector<const Emitted*> launches;  // that are given them
    for (const Emitted& next : emitted->after) {
      const auto given = [&](const Emitted::Argument& a) {
        return a.kind == Emitted::Argument::Kind::scratch && a.index == notes;
      };
      if (std::ranges::any_of(next.args, given)) launches.push_back(&next);
    }
    REQUIRE(launches.size() == 2);
    CHECK(launches[0]->source.contains("if (odd) notes[2 + image] = 1;"));
    CHECK_FALSE(launches[0]->derives);  // they are zeros for one packing
    CHECK(launches[1] == &emitted->after.back());
    CHECK(launches[1]->source.contains("any |= notes[i];"));
  }
}

TEST_CASE("what a transposed convolution costs are the products it asks for, not the zeros in between") {
  for (const std::int64_t padding : {0, 1}) {
    Transposed how = line(3, 2, padding, 1);
    samples::complete(how);
    const auto sample = transposed_sample(how);
    CAPTURE(sample.python);
    // Of an even and an odd place the one has two taps and the other has one.
    const auto places = static_cast<double>(count(transposed_sizes(how)));
    CHECK(cost(sample.kernel).products == doctest::Approx(2 * places * 9 * 1.5));
  }
}

TEST_CASE("one channel a group is a stencil, and needs no products") {
  GraphBuilder g;
  const int x = g.input({2, 4, 5, 6}), w = g.input({4, 1, 3, 3});
  const int y = g.node("conv_transpose2d.input",
                       {V("input", x), V("weight", w), L("stride", {2, 2}), L("padding", {1, 1}),
                        L("output_padding", {1, 0}), I("groups", 4)},
                       {2, 4, 10, 11});
  const auto kernel = all_of(g, {y});
  REQUIRE(kernel);
  CHECK(kernel->anchor == Anchor::pointwise);
  Transposed how{
      .x = {2, 4, 5, 6}, .w = {4, 1, 3, 3}, .stride = {2, 2}, .padding = {1, 1}, .more = {1, 0}, .groups = 4};
  samples::complete(how);
  close(run(*kernel)[0], scattered(how));
}

TEST_CASE("sizes that do not match are refused, and channels where products may not be lowered") {
  const auto refused = [](std::vector<ir::Arg> more, Shape weight, Shape out, bool contractions) {
    GraphBuilder g;
    const int x = g.input({2, 8, 9}), w = g.input(weight);
    std::vector<ir::Arg> args{V("input", x), V("weight", w)};
    args.insert(args.end(), more.begin(), more.end());
    const int y = g.node("conv_transpose1d.default", args, out);
    LowerLimits limits;
    limits.contractions = contractions;
    const auto kernel = lower(g.graph, std::vector<bool>(1, true), std::vector<int>{y}, limits);
    return kernel ? std::string() : kernel.error().message;
  };
  CHECK(refused({}, {8, 4, 3}, {2, 4, 11}, true) == "");
  CHECK(refused({}, {8, 4, 3}, {2, 4, 11}, false).find("several channels") != std::string::npos);
  CHECK(refused({}, {6, 4, 3}, {2, 4, 11}, true).find("do not match") != std::string::npos);
  CHECK(refused({I("groups", 3)}, {8, 4, 3}, {2, 12, 11}, true).find("do not match") != std::string::npos);
  CHECK(refused({I("groups", 2)}, {8, 4, 3}, {2, 4, 11}, true).find("do not match") != std::string::npos);
  CHECK(refused({L("stride", {2, 2})}, {8, 4, 3}, {2, 4, 19}, true).find("do not match") != std::string::npos);
}

TEST_CASE("the general operator with its flag is the same") {
  GraphBuilder g;
  const int x = g.input({2, 9, 11}), w = g.input({9, 5, 3});
  const int y = g.node("convolution.default",
                       {V("input", x), V("weight", w), L("stride", {2}), L("padding", {1}), L("dilation", {1}),
                        B("transposed", true), L("output_padding", {0}), I("groups", 1)},
                       {2, 5, 21});
  LowerLimits limits;
  limits.contractions = true;
  const auto kernel = lower(g.graph, std::vector<bool>(1, true), std::vector<int>{y}, limits);
  REQUIRE(kernel);
  Transposed how = line(3, 2, 1);
  samples::complete(how);
  close(run(*kernel)[0], scattered(how));
}

}  // namespace planish::codegen
