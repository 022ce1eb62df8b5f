#include "codegen/partition/makers.h"

#include <algorithm>
#include <optional>

namespace planish::codegen {

std::set<int> makers_of(const ir::Graph& graph, const Usage& usage, int value, const std::set<int>& readers,
                        const std::function<bool(int)>& may) {
  std::set<int> made;
  std::set<int> todo{usage.producers[static_cast<std::size_t>(value)]};
  while (!todo.empty()) {
    const int n = *todo.rbegin();  // what reads it was looked at before
    todo.erase(n);
    if (n < 0 || !may(n)) continue;
    const auto& outs = graph.nodes[static_cast<std::size_t>(n)].outs;
    const bool alone = std::ranges::all_of(outs, [&](const std::optional<int>& out) {
      if (!out) return true;
      const auto& users = usage.users[static_cast<std::size_t>(*out)];
      return usage.shown[static_cast<std::size_t>(*out)].empty() &&
             std::ranges::all_of(users, [&](int user) { return readers.contains(user) || made.contains(user); });
    });
    if (!alone) continue;
    made.insert(n);
    for (const int v : usage.sources(graph, n)) todo.insert(usage.producers[static_cast<std::size_t>(v)]);
  }
  return made;
}

}  // namespace planish::codegen
