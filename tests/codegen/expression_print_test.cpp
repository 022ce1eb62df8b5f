#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "codegen/emit/expression.h"
#include "sample_kernels.h"

using namespace planish;
using namespace planish::codegen;
using namespace planish::codegen::printing;

namespace {
class Plain : public Speller {
 public:
  std::string load(const Kernel& kernel, int id) override {
    return "x" + std::to_string(kernel.nodes[static_cast<std::size_t>(id)].input);
  }
  std::string reduced(const Kernel& kernel, int id) override {
    return "red" + std::to_string(kernel.nodes[static_cast<std::size_t>(id)].reduction);
  }
  std::string scanned(const Kernel& kernel, int id) override {
    return "run" + std::to_string(kernel.nodes[static_cast<std::size_t>(id)].scan);
  }
  std::string index(const Kernel& kernel, const ir::IndexExpr& e) override {
    const std::vector<std::string> names = {"a", "b", "c"};
    return index_text(e, kernel.space, names, false);
  }
};
}  // namespace

TEST_CASE("literals keep every bit") {
  CHECK(literal(DType::f32, 0.1, 0) == "0x1.99999ap-4f");
  CHECK(literal(DType::f64, 0.1, 0) == "0x1.999999999999ap-4");
  CHECK(literal(DType::f32, -1, 0) == "(-0x1p+0f)");
  CHECK(literal(DType::bf16, std::numeric_limits<double>::infinity(), 0) == "PL_INF_F32");
  CHECK(literal(DType::f64, std::nan(""), 0) == "PL_NAN_F64");
  CHECK(literal(DType::i64, 0, -3) == "(-3LL)");
  CHECK(literal(DType::i64, 0, std::numeric_limits<std::int64_t>::min()) == "((-9223372036854775807LL - 1LL))");
  CHECK(literal(DType::boolean, 0, 1) == "true");
}

TEST_CASE("nodes print as one definition each") {
  const auto sample = samples::softmax(4, 8);
  Plain plain;
  std::string out;
  const auto order = closure(sample.kernel, std::vector<int>{sample.kernel.outputs[0].node}, [](int) { return false; });
  print_nodes(out, sample.kernel, order, plain, "");
  CHECK(out ==
        "const float v0 = x0;\nconst float v1 = red0;\nconst float v2 = (v0 - v1);\nconst float v3 = expf(v2);\n"
        "const float v4 = red1;\nconst float v5 = (v3 / v4);\n");
}

TEST_CASE("places tell rows from elements and phases apart") {
  const auto sample = samples::softmax(4, 8);
  const auto places = place(sample.kernel);
  CHECK(places[0].inner);
  CHECK(places[0].phase == 0);
  CHECK_FALSE(places[1].inner);
  CHECK(places[1].phase == 1);
  CHECK(places[3].phase == 1);
  CHECK(places[4].phase == 2);
  CHECK(phases(sample.kernel) == 2);
}

TEST_CASE("integer operations wrap and follow Python's signs through helpers") {
  const auto sample = samples::integers(3, 4);
  Plain plain;
  CHECK(operation(sample.kernel, 2, plain) == "(long long)pl_remainder((long long)v0, (long long)v1)");
  samples::Build b;
  b.k.space.extents = {4};
  const int x = b.load(b.input(DType::i32, {4}), b.at({{0, 1}}));
  const int y = b.op(Op::add, {x, x}, DType::i32);
  CHECK(operation(b.k, y, plain) == "(int)((unsigned)v0 + (unsigned)v0)");
}

TEST_CASE("indices and bounds print only what has to be computed") {
  const ir::Space space{{8, 64}};
  const std::vector<std::string> names = {"a", "b"};
  const auto b = ir::IndexExpr::variable(1);
  const auto shifted = add(b, ir::IndexExpr::constant(-2), space);
  CHECK(index_text(add(scale(ir::IndexExpr::variable(0), 64), b, space), space, names, false) == "64 * a + b");
  CHECK(index_text(floor_div(b, 8, space), space, names, false) == "((b) / 8)");
  const std::string below_zero = index_text(floor_div(scale(b, -1), 8, space), space, names, false);
  INFO(below_zero);
  CHECK(below_zero.find("/ 8") != below_zero.find("pl_index_div"));
  CHECK(index_text(scale(b, 5), space, names, true) == "5LL * b");
  const std::vector<ir::Bound> where = {{b, 0, 64}, {shifted, 0, 62}};
  CHECK(where_text(where, space, names, false) == "(b - 2) >= 0");
  CHECK_FALSE(fits_int32(scale(b, std::int64_t{1} << 27), space));
  CHECK(fits_int32(scale(b, 1 << 20), space));
}

TEST_CASE("reductions start from their neutral element") {
  CHECK(neutral(ReduceKind::max, DType::f32) == "(-PL_INF_F32)");
  CHECK(neutral(ReduceKind::product, DType::i64) == "1LL");
  CHECK(neutral(ReduceKind::min, DType::u8) == "255");
  CHECK(combine(ReduceKind::max, DType::f32, "a", "b") == "pl_max(a, b)");
  CHECK(combine(ReduceKind::any, DType::boolean, "a", "b") == "(bool)((a != 0) | (b != 0))");
}
