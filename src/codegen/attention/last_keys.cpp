#include "codegen/attention/last_keys.h"

#include <algorithm>
#include <limits>

#include "codegen/contraction/place_writer.h"
#include "codegen/variables.h"

namespace planish::codegen {
namespace {

/// Bounds below a condition under which a key counts. Whether the condition is nothing else.
bool bounds_below(const Kernel& kernel, const std::vector<int>& keys, const std::vector<std::vector<bool>>& moves,
                  int id, std::vector<LastKey>& found) {
  const auto node = [&](int i) -> const Node& { return kernel.nodes[static_cast<std::size_t>(i)]; };
  const Node& test = node(id);
  if (test.op == Op::logical_and) {
    bool all = true;
    for (const int arg : test.args) all = bounds_below(kernel, keys, moves, arg, found) && all;
    return all;
  }
  const bool grows = test.op == Op::ge || test.op == Op::gt;
  if (!grows && test.op != Op::le && test.op != Op::lt) return false;
  const int less = test.args[grows ? 1 : 0], more = test.args[grows ? 0 : 1];
  const Node& place = node(less);
  // The key's own place on the lesser side, and nothing of it on the other.
  if (place.op != Op::index || is_floating(node(more).dtype)) return false;
  ir::IndexExpr rest = place.index;
  std::int64_t later = 1;
  for (std::size_t i = keys.size(); i-- > 0;) {
    if (moves[static_cast<std::size_t>(more)][static_cast<std::size_t>(keys[i])]) return false;
    rest = ir::add(rest, ir::scale(ir::IndexExpr::variable(keys[i]), -later), kernel.space);
    later *= kernel.space.extent(keys[i]);
  }
  if (!rest.is_constant()) return false;
  found.push_back({more, (test.op == Op::le || test.op == Op::ge ? 1 : 0) - rest.constant_term()});
  return true;
}

bool any_moves(const std::vector<std::vector<bool>>& moves, const std::vector<LastKey>& bounds,
               const std::vector<int>& variables) {
  return std::ranges::any_of(bounds, [&](const LastKey& each) {
    const std::vector<bool>& own = moves[static_cast<std::size_t>(each.node)];
    return std::ranges::any_of(variables, [&](int v) { return static_cast<bool>(own[static_cast<std::size_t>(v)]); });
  });
}

struct Ends {
  std::vector<LastKey> bounds;
  int score = -1;  ///< without the outermost tests that are nothing but bounds
};

Ends ends_of(const Kernel& kernel, const Attention& a) {
  const auto moves = variables_of(kernel);
  Ends out;
  out.score = a.score;
  int id = a.score;
  bool outermost = true;
  while (kernel.nodes[static_cast<std::size_t>(id)].op == Op::select) {
    const Node& choice = kernel.nodes[static_cast<std::size_t>(id)];
    const Node& otherwise = kernel.nodes[static_cast<std::size_t>(choice.args[2])];
    if (otherwise.op != Op::constant || otherwise.value != -std::numeric_limits<double>::infinity()) break;
    outermost = bounds_below(kernel, a.scores.n, moves, choice.args[0], out.bounds) && outermost;
    id = choice.args[1];
    if (outermost) out.score = id;
  }
  // Where keys end for some rows later than for others, the latest counts, and a score has to ask.
  if (any_moves(moves, out.bounds, a.scores.m)) out.score = a.score;
  return out;
}

}  // namespace

std::vector<LastKey> last_keys_of(const Kernel& kernel, const Attention& attention) {
  return ends_of(kernel, attention).bounds;
}

int score_before_end(const Kernel& kernel, const Attention& attention) {
  return ends_of(kernel, attention).score;
}

std::vector<int> inputs_of_end(const Kernel& kernel, const Attention& attention) {
  std::vector<int> roots;
  for (const LastKey& each : last_keys_of(kernel, attention)) roots.push_back(each.node);
  return contraction::PlaceWriter(kernel).inputs(roots);
}

bool ends_move_with(const Kernel& kernel, const Attention& attention, const std::vector<int>& variables) {
  return any_moves(variables_of(kernel), last_keys_of(kernel, attention), variables);
}

}  // namespace planish::codegen
