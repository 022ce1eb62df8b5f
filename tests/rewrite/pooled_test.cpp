#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "codegen/graph_builder.h"
#include "field.h"
#include "proof.h"
#include "rewrite/rewrite.h"

// Rules that move average pools through convolutions with taps.

using namespace planish;
using namespace planish::codegen;
using rewrite::check_different;
using rewrite::check_equal;
using rewrite::has;
using rewrite::Rewritten;
using rewrite::unchanged;

namespace {

/// A convolution, transposed or not, and an average pool of it. What a test changes stands in the fields; lists are
/// spread over the dims where they have one number.
struct Pooled {
  Shape x{2, 3, 13, 11};
  Shape taps{3, 3};
  std::int64_t channels = 6, groups = 1;
  bool transposed = false;
  std::vector<std::int64_t> stride{1}, padding{0}, more{0}, dilation{1};
  std::vector<std::int64_t> window{2}, step{2}, around{0};
  bool bias = true, ceil = false, read_again = false, twice = false;
  std::optional<std::int64_t> divisor;
  DType dtype = DType::f32;
  Shape layout;  ///< strides of the input
  std::string pool = "avg_pool", own = "param", scales = "param";
  std::vector<std::string> between;  ///< operators between both

  std::size_t dims() const { return taps.size(); }
  std::vector<std::int64_t> spread(const std::vector<std::int64_t>& list) const {
    return list.size() == 1 ? std::vector<std::int64_t>(dims(), list[0]) : list;
  }
  Shape convolved() const {
    Shape out{x[0], channels};
    for (std::size_t d = 0; d < dims(); ++d) {
      const std::int64_t reach = spread(dilation)[d] * (taps[d] - 1), p = 2 * spread(padding)[d], s = spread(stride)[d];
      out.push_back(transposed ? (x[d + 2] - 1) * s - p + reach + spread(more)[d] + 1
                               : (x[d + 2] + p - reach - 1) / s + 1);
    }
    return out;
  }
  Shape pooled(Shape shape) const {
    for (std::size_t d = 0; d < dims(); ++d)
      shape[d + 2] = (shape[d + 2] + 2 * spread(around)[d] - spread(window)[d]) / spread(step)[d] + 1;
    return shape;
  }

  int operation(GraphBuilder& g, const std::string& name, int self, const Shape& shape) const {
    const auto parameter = [&](const Shape& own_shape) {
      const int id = g.input(own_shape, dtype);
      g.graph.inputs.back().kind = scales;
      return id;
    };
    if (name == "norm") {
      std::vector<ir::Arg> args{V("input", self)};
      for (const char* each : {"weight", "bias", "running_mean", "running_var"})
        args.push_back(V(each, parameter({channels})));
      args.push_back(F("momentum", 0.1));
      args.push_back(F("eps", 0.0009765625));
      const int made = g.node("_native_batch_norm_legit_no_training.default", std::move(args), shape, dtype);
      for (int other = 0; other < 2; ++other) g.graph.nodes.back().outs.emplace_back(g.value({0}, dtype));
      return made;
    }
    if (name == "relu") return g.node("relu.default", {V("self", self)}, shape, dtype);
    // "mul 0.5" has a number, "mul c" a number a channel, "mul p" one a place of the last dim.
    const std::string op = name.substr(0, 3), with = name.substr(4);
    Shape vector(dims() + 1, 1);
    if (with == "c") vector[0] = channels;
    if (with == "p") vector.back() = shape.back();
    const bool tensor = with == "c" || with == "p";
    std::vector<ir::Arg> args{V("self", self), tensor ? V("other", parameter(vector)) : F("other", std::stod(with))};
    if (op == "add" || op == "sub") args.push_back(I("alpha", 1));
    return g.node(op + ".Tensor", std::move(args), shape, dtype);
  }
  int averaged(GraphBuilder& g, int self, const Shape& shape) const {
    std::vector<ir::Arg> args{V("self", self),      L("kernel_size", window), L("stride", step),
                              L("padding", around), B("ceil_mode", ceil),     B("count_include_pad", true)};
    if (divisor) args.push_back(I("divisor_override", *divisor));
    return g.node(pool + std::to_string(dims()) + "d.default", args, shape, dtype);
  }

  ir::Graph graph() const {
    GraphBuilder g;
    const int input = g.input(x, dtype, layout);
    Shape window_of{channels, x[1] / groups};
    if (transposed) window_of = {x[1], channels / groups};
    window_of.insert(window_of.end(), taps.begin(), taps.end());
    const int weight = g.input(window_of, dtype);
    g.graph.inputs.back().kind = own;
    std::vector<ir::Arg> args{V("input", input), V("weight", weight)};
    args.push_back(bias ? V("bias", g.input({channels}, dtype)) : N("bias"));
    args.insert(args.end(), {L("stride", stride), L("padding", padding)});
    if (transposed) args.push_back(L("output_padding", more));
    args.insert(args.end(), {L("dilation", dilation), I("groups", groups)});
    const Shape full = convolved();
    const std::string op = (transposed ? "conv_transpose" : "conv") + std::to_string(dims()) + "d." +
                           (transposed && dims() > 1 ? "input" : "default");
    const int y = g.node(op, args, full, dtype);
    int last = y;
    for (const std::string& name : between) last = operation(g, name, last, full);
    Shape less = pooled(full);
    last = averaged(g, last, less);
    if (twice) last = averaged(g, last, less = pooled(less));
    g.output(last);
    if (read_again) g.output(g.node("relu.default", {V("self", y)}, full, dtype));
    return g.graph;
  }
};

/// A transposed one: kernel 3, stride 2, padding 1, and a pool of 2.
Pooled turned() {
  Pooled p;
  p.transposed = true;
  p.x = {2, 3, 6, 5};
  p.stride = {2};
  p.padding = {1};
  return p;
}

void moves(const Pooled& one, const std::string& rule) {
  const ir::Graph graph = one.graph();
  const Rewritten found = rewrite::rewrite(graph);
  REQUIRE(found.applied.size() >= 1);
  CHECK(found.applied.back().rule == rule);
  CHECK(found.applied.back().numeric == rewrite::Numeric::reassociation);
  CHECK(std::ranges::none_of(found.graph.nodes,
                             [](const auto& node) { return node.op.starts_with("aten.conv_transpose"); }));
  // The captured convolution is gone.
  for (const ir::GraphNode& node : found.graph.nodes) {
    if (!node.op.starts_with("aten.conv")) continue;
    const Shape& shape = found.graph.values[static_cast<std::size_t>(*node.outs[0])].shape;
    CHECK(shape == graph.values[static_cast<std::size_t>(graph.outputs[0].value)].shape);
  }
  check_equal(graph, found.graph, 1);
  // In front of kernels of ours it pays as well.
  CHECK(rewrite::rewrite(graph, {.library_products = false}).applied.size() == found.applied.size());
}

}  // namespace

TEST_CASE("an average pool behind a convolution is a convolution of averages") {
  Pooled p;
  SUBCASE("as it is often written") {}
  SUBCASE("padding, without a bias") {
    p.padding = {1, 2};
    p.bias = false;
  }
  SUBCASE("windows that overlap, and such that leave elements out") {
    p.window = {3, 2};
    p.step = {2, 3};
  }
  SUBCASE("dilation and step share a factor") {
    p.x = {1, 2, 23, 25};
    p.dilation = {2, 3};
    p.window = {3, 4};
    p.step = {2, 6};
    p.padding = {2, 0};
  }
  SUBCASE("a dim without taps, which a padding is added to") {
    p.taps = {5, 1};
    p.padding = {2, 1};
    p.dilation = {1, 2};
  }
  SUBCASE("a dim that is not pooled has any stride, padding and dilation") {
    p.stride = {1, 3};
    p.padding = {0, 2};
    p.dilation = {1, 2};
    p.window = p.step = {4, 1};
    p.channels = 12;
  }
  SUBCASE("even taps") {
    p.taps = {2, 4};
    p.padding = {1, 3};
    p.window = {3};
    p.step = {3};
  }
  SUBCASE("groups") {
    p.x = {1, 6, 9, 8};
    p.groups = 2;
    p.channels = 12;
  }
  SUBCASE("no taps, but something in between") {
    p.taps = {1, 1};
    p.between = {"norm"};
  }
  SUBCASE("a group for each channel") {
    p.x = {2, 4, 9, 8};
    p.groups = 4;
    p.padding = {1};
  }
  SUBCASE("of one dim") {
    p.x = {2, 3, 17};
    p.taps = {4};
    p.padding = {2};
    p.window = {3};
  }
  SUBCASE("of three") {
    p.x = {1, 2, 7, 6, 5};
    p.taps = {3, 2, 3};
    p.padding = {1, 0, 1};
  }
  SUBCASE("in double") {
    p.dtype = DType::f64;
  }
  SUBCASE("scales and shifts in between") {
    p.between = {"mul 0.5", "add c", "norm", "div -2", "mul c", "sub 0.25", "sub c", "add 3"};
  }
  moves(p, "pool_through_convolution");
}

TEST_CASE("an average pool behind a transposed convolution is a convolution of averages") {
  Pooled p = turned();
  for (const std::int64_t taps : {2, 3, 4, 5}) {
    for (const std::int64_t stride : {2, 3}) {
      for (const std::int64_t padding : {0, 1, 2}) {
        if (padding >= taps) continue;
        for (const std::int64_t more : {0, 1}) {
          p.taps = {taps, 3};
          p.stride = {stride, 2};
          p.padding = {padding, 1};
          p.more = {more, 0};
          p.window = p.step = {stride, 2};
          moves(p, "pool_through_transposed");
          p.window = {2 * stride, 4};  // which overlap
          p.step = {stride, 2};
          p.x = {1, 2, 5, 6};
          p.taps = {taps, 7};
          moves(p, "pool_through_transposed");
          p.x = turned().x;
        }
      }
    }
  }
}

TEST_CASE("of a transposed convolution all else is as it likes") {
  Pooled p = turned();
  SUBCASE("more padding than taps, so that the first elements meet nothing") {
    p.taps = {2, 3};
    p.padding = {4, 1};
    p.x = {1, 3, 9, 5};
  }
  SUBCASE("steps larger than windows") {
    p.x = {1, 2, 9, 10};
    p.step = {4, 6};
  }
  SUBCASE("a dim without a stride") {
    p.stride = {1, 2};
    p.window = p.step = {3, 2};
  }
  SUBCASE("no strides") {
    p.stride = {1};
    p.padding = {0, 2};
    p.x = {1, 2, 9, 8};
  }
  SUBCASE("of one dim, behind which nothing is added") {
    p.x = {2, 3, 9};
    p.taps = {6};
    p.stride = p.window = p.step = {3};
    p.padding = {0};
    p.bias = false;
  }
  SUBCASE("of three") {
    p.x = {1, 2, 3, 4, 5};
    p.taps = {3, 3, 2};
    p.stride = {2, 2, 1};
    p.more = {1, 0, 0};
  }
  SUBCASE("in double") {
    p.dtype = DType::f64;
  }
  SUBCASE("scales and shifts in between") {
    p.between = {"mul 0.5", "norm", "add c"};
  }
  moves(p, "pool_through_transposed");
}

TEST_CASE("weights are added in few steps, and channels doubled where their signs may mix alone") {
  Pooled p = turned();
  const auto channels = [](const Pooled& one) {
    const Rewritten found = rewrite::rewrite(one.graph());
    const auto& nodes = found.graph.nodes;
    const auto at = std::ranges::find_if(nodes, [](const auto& node) { return node.op.starts_with("aten.conv2d"); });
    REQUIRE(at != nodes.end());
    return found.graph.values[static_cast<std::size_t>(std::get<ir::ValueRef>(at->arg("weight")->data).id)].shape[1];
  };
  CHECK(channels(p) == 6);
  // Nothing lies around the data: the convolution needs no padding, and its data no copy but for what is not finite.
  const Rewritten found = rewrite::rewrite(p.graph());
  CHECK_FALSE(has(found.graph, "avg_pool2d.default"));
  p.stride = {1};
  p.x = {1, 3, 9, 8};
  CHECK(channels(p) == 3);
}

TEST_CASE("a pool of a pool is one pool") {
  Pooled p;
  p.twice = true;
  SUBCASE("behind a convolution") {}
  SUBCASE("with scales in between") {
    p.between = {"mul c", "add 1"};
  }
  SUBCASE("behind a transposed one, of whose results some are left out") {
    p = turned();
    p.twice = true;
    p.taps = {5, 5};
    p.x = {1, 3, 6, 7};
  }
  const Rewritten found = rewrite::rewrite(p.graph());
  REQUIRE(found.applied.size() == 2);
  CHECK(found.applied[0].rule == "pool_of_pool");
  moves(p, p.transposed ? "pool_through_transposed" : "pool_through_convolution");
}

TEST_CASE("a pool of a pool stays where a condition is missing") {
  Pooled p;
  p.twice = true;
  p.between = {"relu"};  // no rule moves it further
  REQUIRE(rewrite::rewrite(p.graph()).applied.size() == 1);
  SUBCASE("windows overlap") {
    p.window = {3};
  }
  SUBCASE("windows leave elements out") {
    p.window = {2};
    p.step = {3};
  }
  SUBCASE("windows reach over an end") {
    p.around = {1};
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    p.dtype = DType::bf16;
  }
  SUBCASE("they are maxima") {
    p.pool = "max_pool";
    p.between.clear();  // a maximum moves in front of ReLU
  }
  unchanged(p.graph());
}

TEST_CASE("the proof tells a wrong place from a right one, and a wrong group") {
  const auto differs = [](const ir::Graph& graph, const char* op, const char* name, const auto& change) {
    Rewritten found = rewrite::rewrite(graph);
    REQUIRE(found.applied.size() == 1);
    bool changed = false;
    for (ir::GraphNode& node : found.graph.nodes) {
      for (ir::Arg& arg : node.args) {
        if (changed || node.op != op || arg.name != name) continue;
        change(arg);
        changed = true;
      }
    }
    CHECK(changed);
    check_different(graph, found.graph);
  };
  Pooled p;
  p.padding = {1};
  differs(p.graph(), "aten.constant_pad_nd.default", "pad",
          [](ir::Arg& arg) { arg.data = std::vector<std::int64_t>{0, 2, 1, 1}; });
  // The taps that the first group of each dim has too few, at its other end.
  differs(turned().graph(), "aten.constant_pad_nd.default", "pad",
          [](ir::Arg& arg) { arg.data = std::vector<std::int64_t>{0, 1, 1, 0}; });
  differs(turned().graph(), "aten.flip.default", "dims", [](ir::Arg& arg) { arg.data = std::vector<std::int64_t>{2}; });
  differs(turned().graph(), "aten.div.Tensor", "other", [](ir::Arg& arg) { arg.data = 2.0; });
}

namespace {

/// Conditions that both rules have.
void missing(const Pooled& one) {
  Pooled p = one;
  REQUIRE(rewrite::rewrite(p.graph()).applied.size() == 1);
  SUBCASE("something else reads the convolution") {
    p.read_again = true;
  }
  SUBCASE("something in between is not linear") {
    p.between = {"relu"};
  }
  SUBCASE("a factor is another one at each place") {
    p.between = {"mul p"};
  }
  SUBCASE("a scale is the caller's") {
    p.between = {"mul c"};
    p.scales = "user";
  }
  SUBCASE("it is divided by zero") {
    p.between = {"div 0"};
  }
  SUBCASE("it is divided by a parameter") {
    p.between = {"div c"};
  }
  SUBCASE("the weights are data of the caller's") {
    p.own = "user";
  }
  SUBCASE("windows reach over an end") {
    p.around = {1};
  }
  SUBCASE("windows over the end may count otherwise") {
    p.ceil = true;
  }
  SUBCASE("another divisor is given") {
    p.divisor = 3;
  }
  SUBCASE("it is a maximum") {
    p.pool = "max_pool";
  }
  SUBCASE("its numbers are rounded to 16 bits") {
    p.dtype = DType::bf16;
  }
  SUBCASE("channels lie together") {
    p.layout = {p.x[1] * p.x[2] * p.x[3], 1, p.x[3] * p.x[1], p.x[1]};
  }
  SUBCASE("the convolution has fewer results than elements") {
    p.channels = 1;
    p.x[1] = 6;
  }
  unchanged(p.graph());
}

}  // namespace

TEST_CASE("a pool stays behind a convolution where a condition is missing") {
  missing(Pooled());
}

TEST_CASE("a pool stays behind a transposed convolution where a condition is missing") {
  missing(turned());
}

TEST_CASE("a pool stays behind a convolution that skips elements, or where little is left out or much is averaged") {
  Pooled p;
  SUBCASE("a stride") {
    p.stride = {2, 1};
    p.padding = {4, 1};
    p.x = {2, 3, 13, 23};
  }
  SUBCASE("nearly as many places are left") {
    p.window = {3};
    p.step = {1};
  }
  SUBCASE("windows are large beside what the convolution does") {
    p.x = {1, 3, 23, 23};
    p.window = {11};
    p.step = {3};
  }
  unchanged(p.graph());
}

TEST_CASE("a pool stays behind a transposed convolution whose taps meet other numbers of elements") {
  Pooled p = turned();
  SUBCASE("the window is no multiple of the stride") {
    p.window = {3, 2};
    p.x = {2, 3, 9, 5};
  }
  SUBCASE("its step is none") {
    p.step = {3, 2};
    p.x = {2, 3, 9, 5};
  }
  SUBCASE("a dim is not pooled") {
    p.window = p.step = {1, 4};
    p.x = {2, 3, 6, 9};
  }
  SUBCASE("there is a dilation") {
    p.dilation = {2, 1};
  }
  SUBCASE("there are groups") {
    p.x = {2, 6, 6, 5};
    p.channels = 8;
    p.groups = 2;
  }
  SUBCASE("nearly as many places are left") {
    p.stride = {1};
    p.window = {3};
    p.step = {1};
    p.x = {1, 3, 9, 8};
  }
  SUBCASE("what is done instead has more products") {
    p.x = {2, 3, 9};
    p.taps = {3};
  }
  SUBCASE("windows are large beside what the convolution does") {
    p.window = {12};
    p.x = {1, 3, 9, 9};
  }
  unchanged(p.graph());
}
