#include "codegen/contraction/fold_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "codegen/variables.h"

namespace planish::codegen::contraction {

FoldNodes::FoldNodes(const Kernel& kernel, const Contraction& contraction, std::span<const int> roots)
    : kernel_(kernel) {
  const auto moves = variables_of(kernel);
  std::map<int, bool> summed;  // whether a node needs what was summed up or folded
  for (const int id : printing::closure(kernel, roots, [](int) { return false; })) {
    const Node& node = kernel.nodes[static_cast<std::size_t>(id)];
    bool needs = node.op == Op::reduced;
    for (const int arg : node.args) needs = needs || summed[arg];
    summed[id] = needs;
    const bool along = std::ranges::any_of(
        contraction.n, [&](int v) { return moves[static_cast<std::size_t>(id)][static_cast<std::size_t>(v)]; });
    if (!needs && !along) row_.push_back(id);
  }
}

std::vector<int> FoldNodes::own(std::span<const int> roots) const {
  auto own = printing::closure(kernel_, roots, [](int) { return false; });
  std::erase_if(own, [&](int id) { return std::ranges::find(row_, id) != row_.end(); });
  return own;
}

void FoldNodes::print(PlaceWriter& writer, const std::vector<int>& nodes, std::string_view there) const {
  std::map<int, std::string> spelled;
  for (const int id : nodes) {
    const Node& node = kernel_.nodes[static_cast<std::size_t>(id)];
    if (node.op == Op::load)
      spelled[id] = fmt::format("({} ? {} : {})", there, writer.load(kernel_, id), printing::literal(node.dtype, 0, 0));
  }
  writer.at_hand = [&](int id) { return spelled.at(id); };
  writer.these(nodes);
  writer.at_hand = nullptr;
}

}  // namespace planish::codegen::contraction
