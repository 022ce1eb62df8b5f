#include "codegen/emit/cuda_kept.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/operation.h"

namespace planish::codegen::printing {
namespace {

/// True where x is made of more than a few additions.
bool is_dear(const Kernel& kernel, int x) {
  constexpr double few = 3;
  double work = 0;
  for (const int id : closure(kernel, std::vector<int>{x}, [](int) { return false; })) {
    const Op op = kernel.nodes[static_cast<std::size_t>(id)].op;
    work += op == Op::load ? 0 : weight(info(op).cost);
  }
  return work > few;
}

}  // namespace

std::string KeptElements::second_name(int x, std::string& first) {
  if (!is_dear(kernel_, x)) {
    others_.push_back(x);
    return writer_.name(x);
  }
  const std::string kept = fmt::format("x{}[u][j]", x);
  if (std::ranges::find(kept_, x) == kept_.end()) {
    kept_.push_back(x);
    writer_.line(fmt::format("float x{}[{}][{}];", x, unroll_, width_));
    first += fmt::format("{} = {};\n", kept, writer_.name(x));
  }
  return kept;
}

std::vector<int> KeptElements::computed_again(const std::vector<int>& nodes) const {
  if (kept_.empty()) return nodes;
  return closure(kernel_, others_, [&](int id) { return !std::ranges::binary_search(nodes, id); });
}

}  // namespace planish::codegen::printing
