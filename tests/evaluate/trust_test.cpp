// Verdicts that the evaluator draws itself, whatever it is told.
#include <doctest/doctest.h>

#include <limits>

#include "evaluate/floor.h"
#include "evaluate/outcome_of.h"

using namespace planish;

namespace {

worker::CheckReply said_ok(double fro, double max, double gate_fro = 1e-6, double gate_max = 1e-5) {
  worker::CheckReply check;
  check.ok = true;
  OutputErrors output;
  output.fro = fro;
  output.max = max;
  output.gate_fro = gate_fro;
  output.gate_max = gate_max;
  check.outputs.push_back(output);
  return check;
}

bool stands(worker::CheckReply check, std::size_t outputs = 1) {
  judge_again(check, outputs);
  CHECK(check.ok == (outcome_of_check(check) == Outcome::ok));
  CHECK(check.ok == check.problem.empty());
  return check.ok;
}

DeviceFacts device(const char* target, double gbs, std::int64_t cache) {
  DeviceFacts facts;
  facts.target = target;
  facts.bandwidth_gbs = gbs;
  facts.l2_bytes = cache;
  return facts;
}

}  // namespace

TEST_CASE("ok stands where every error is within its gate") {
  CHECK(stands(said_ok(0, 0)));
  CHECK(stands(said_ok(1e-6, 1e-5)));
  CHECK(stands(said_ok(0, 0, 0, 0)));  // exact outputs have no room
}

TEST_CASE("ok beside an error that is not within its gate is no longer ok") {
  CHECK_FALSE(stands(said_ok(40, 0)));  // a ratio of 40,000,000
  CHECK_FALSE(stands(said_ok(0, 1.01e-5)));
  CHECK_FALSE(stands(said_ok(1e-9, 0, 0, 0)));
}

TEST_CASE("ok beside what is no measurement is no longer ok") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(stands(said_ok(nan, 0)));
  CHECK_FALSE(stands(said_ok(0, 0, nan, 1)));
  CHECK_FALSE(stands(said_ok(-1, 0)));
  CHECK_FALSE(stands(said_ok(1e300, 1e300, 1e300, 1e300)));
  CHECK_FALSE(stands(said_ok(0, 0), 2));  // one of two outputs was compared
  CHECK_FALSE(stands(
      worker::CheckReply{.ok = true, .problem = {}, .outputs = {}, .reference = {}, .message = {}, .digest = {}}));
}

TEST_CASE("ok beside a statistic over its limit is no longer ok") {
  worker::CheckReply check = said_ok(0, 0);
  check.outputs[0].ratio = 1;
  CHECK(stands(check));
  check.outputs[0].ratio = 1.01;
  check.outputs[0].statistic = "row, 100 %";
  judge_again(check, 1);
  CHECK_FALSE(check.ok);
  CHECK(check.message.find("`row, 100 %` is 1.01 times") != std::string::npos);
  check = said_ok(0, 0);
  check.outputs[0].ratio = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(stands(check));
}

TEST_CASE("what spreads NaN alone has an outcome of its own") {
  worker::CheckReply check = said_ok(0, 0);
  check.ok = false;
  check.problem = "finite_only";
  CHECK(outcome_of_check(check) == Outcome::finite_only);
  CHECK(outcome_from_name(name(Outcome::finite_only)) == Outcome::finite_only);
  CHECK(outcome_from_name(name(Outcome::degenerate)) == Outcome::degenerate);
}

TEST_CASE("near the gate is what honest programs reach now and then, on either side") {
  const auto near = [](bool ok, double ratio, const char* problem = "mismatch") {
    TestCase item;
    item.ok = ok;
    item.problem = ok ? "" : problem;
    item.outputs.resize(2);
    item.outputs[1].ratio = ratio;
    return is_near_gate(item);
  };
  CHECK(near(true, 0.99));
  CHECK(near(false, 1.3));
  CHECK_FALSE(near(true, 0.9));
  CHECK_FALSE(near(false, 1.6));
  CHECK_FALSE(near(false, 1.2, "nan"));
}

TEST_CASE("a refusal stays one, with its reason") {
  worker::CheckReply check = said_ok(0, 0);
  check.ok = false;
  check.problem = "guard";
  judge_again(check, 1);
  CHECK(outcome_of_check(check) == Outcome::guard_overwritten);
}

TEST_CASE("times below what the device allows are named, and only those") {
  const DeviceFacts gpu = device("cuda", 4300, 60 << 20);
  const NeededWork bytes{.output_bytes = 4.3e9};  // 1 ms at 4300 GB/s
  CHECK(faster_than_possible(gpu, bytes, 1.0).empty());
  CHECK(faster_than_possible(gpu, bytes, 0.7).empty());  // the bandwidth may be known too low
  CHECK(faster_than_possible(gpu, bytes, 0.2).find("faster than the memory allows") == 0);
  CHECK_FALSE(faster_than_possible(gpu, bytes, 0).empty());
  CHECK_FALSE(faster_than_possible(gpu, {.output_bytes = 4, .input_bytes = 4.3e9}, 0.2).empty());
  CHECK(faster_than_possible(gpu, {.output_bytes = 50 << 20}, 1e-6).empty());  // may all lie in the cache
  const DeviceFacts cpu = device("cpu", 20, 32 << 20);
  CHECK(faster_than_possible(cpu, {.output_bytes = 2e9}, 20).empty());  // a bandwidth measured beside other work
  CHECK_FALSE(faster_than_possible(cpu, {.output_bytes = 2e9}, 0.1).empty());
  CHECK(faster_than_possible(device("cpu", 0, 0), {.output_bytes = 2e9}, 0).empty());  // nothing is known of it
  DeviceFacts tensor = gpu;
  tensor.peak_gflops = 67e3;
  tensor.tensor_gflops = 989e3;
  const NeededWork product{.flops = 989e9};  // 1 ms
  CHECK(faster_than_possible(tensor, product, 0.8).empty());
  CHECK(faster_than_possible(tensor, product, 0.5).find("faster than the arithmetic allows") == 0);
  CHECK(faster_than_possible(cpu, product, 0).empty());
}

namespace {

ir::Graph graph_of(std::vector<std::vector<std::int64_t>> shapes, std::vector<ir::GraphNode> nodes,
                   std::vector<std::string> inputs, std::vector<int> outputs) {
  ir::Graph out;
  for (auto& shape : shapes) {
    ir::Value value;
    value.shape = std::move(shape);
    out.values.push_back(std::move(value));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) out.inputs.push_back({static_cast<int>(i), inputs[i], "", 0, ""});
  for (const int value : outputs) out.outputs.push_back({"user", value, "", -1, ""});
  out.nodes = std::move(nodes);
  return out;
}
ir::GraphNode node_of(const std::string& op, std::vector<int> reads, int out) {
  ir::GraphNode node;
  node.op = op;
  for (const int id : reads) node.args.push_back({"x", ir::ValueRef{id}});
  node.outs = {out};
  return node;
}

}  // namespace

TEST_CASE("what a task needs is what no program can spare") {
  const std::vector<std::int64_t> square{100, 100}, row{100};
  constexpr double whole = 4e4, half = 2e4;
  SUBCASE("pointwise work reads and writes all") {
    const auto work = needed_work_of(
        graph_of({square, square, square}, {node_of("aten.add.Tensor", {0, 1}, 2)}, {"user", "param"}, {2}));
    CHECK(work.output_bytes == whole);
    CHECK(work.input_bytes == 2 * half);
  }
  SUBCASE("a row of a matrix needs nothing but a row") {
    const auto work = needed_work_of(graph_of(
        {square, row, row}, {node_of("aten.select.int", {0}, 1), node_of("aten.relu.default", {1}, 2)}, {"user"}, {2}));
    CHECK(work.input_bytes == 0);
  }
  SUBCASE("what a constant may mask is not needed, what is masked by the task's data is") {
    const std::vector<ir::GraphNode> nodes{node_of("aten.mul.Tensor", {0, 1}, 2)};
    CHECK(needed_work_of(graph_of({square, square, square}, nodes, {"user", "const"}, {2})).input_bytes == 0);
    CHECK(needed_work_of(graph_of({square, square, square}, nodes, {"user", "user"}, {2})).input_bytes == 2 * half);
  }
  SUBCASE("what nobody uses is not needed") {
    const auto work = needed_work_of(
        graph_of({square, square, square}, {node_of("aten.relu.default", {0}, 2)}, {"user", "user"}, {2}));
    CHECK(work.input_bytes == half);
  }
  SUBCASE("a product needs its operations, the sum of one and a chain of two do not") {
    const auto mm = node_of("aten.mm.default", {0, 1}, 2);
    CHECK(needed_work_of(graph_of({square, square, square}, {mm}, {"user", "param"}, {2})).flops == 2e6 / 8);
    CHECK(needed_work_of(graph_of({square, square, square, square}, {mm, node_of("aten.relu.default", {2}, 3)},
                                  {"user", "param"}, {3}))
              .flops == 2e6 / 8);
    const auto sum =
        graph_of({square, square, square, row}, {mm, node_of("aten.sum.dim_IntList", {2}, 3)}, {"user", "param"}, {3});
    CHECK(needed_work_of(sum).flops == 0);
    CHECK(needed_work_of(sum).input_bytes == 2 * half);
    const auto second = node_of("aten.mm.default", {2, 1}, 3);
    CHECK(needed_work_of(graph_of({square, square, square, square}, {mm, second}, {"user", "param"}, {3})).flops == 0);
  }
  SUBCASE("an input that is given back is not written") {
    CHECK(needed_work_of(graph_of({square}, {}, {"user"}, {0})).output_bytes == 0);
  }
}
