#include "codegen/operation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "activation_samples.h"
#include "cpp_samples.h"
#include "gather_samples.h"
#include "sample_kernels.h"
#include "scan_samples.h"

namespace planish::codegen {
namespace {

TEST_CASE("every operation has a name of its own and a row that belongs to it") {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Op::fma); ++i) {
    const auto op = static_cast<Op>(i);
    const OperationInfo& one = info(op);
    CHECK(one.op == op);
    CHECK(!one.name.empty());
    CHECK(names.insert(one.name).second);
    CHECK(one.arity <= 3);
    if (one.transcendental) CHECK(one.worth_keeping);
    if (one.worth_keeping || one.approximated) CHECK(weight(one.cost) >= weight(OperationCost::plain));
  }
  CHECK(info(Op::sigmoid).transcendental);
  CHECK_FALSE(info(Op::add).worth_keeping);
}

TEST_CASE("kernels give operations as many arguments as they take, and truths where truths are given") {
  std::set<Op> seen;
  for (auto some : {samples::small_samples, samples::row_samples, samples::gather_samples, samples::activation_samples,
                    samples::scan_samples, samples::cpp_samples}) {
    for (const auto& sample : some()) {
      for (const Node& node : sample.kernel.nodes) {
        const OperationInfo& one = info(node.op);
        CAPTURE(one.name);
        seen.insert(node.op);
        if (one.arity != OperationInfo::any) CHECK(static_cast<int>(node.args.size()) == one.arity);
        if (one.truth) CHECK(node.dtype == DType::boolean);
      }
    }
  }
  CHECK(seen.size() > 50);
}

TEST_CASE("what costs more is said to") {
  CHECK(weight(OperationCost::free) == 0);
  CHECK(weight(info(Op::add).cost) < weight(info(Op::div).cost));
  CHECK(weight(info(Op::div).cost) < weight(info(Op::exp).cost));
  CHECK(weight(info(Op::exp).cost) < weight(info(Op::pow).cost));
}

}  // namespace
}  // namespace planish::codegen
