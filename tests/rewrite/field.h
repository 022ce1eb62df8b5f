#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ir/graph.h"

/// A graph computed in the integers modulo a large prime: two graphs of sums, products and quotients by numbers agree
/// there at random arguments if, and all but surely only if, they are equal as polynomials.
namespace planish::rewrite {

using Field = std::uint64_t;
inline constexpr Field prime = 2305843009213693951;  // 2⁶¹ - 1

/// Elements by value id, contiguous, whatever the value's strides.
using Elements = std::map<int, std::vector<Field>>;

/// Computes what `wanted` needs. Nothing where a node is no polynomial. A `where` whose condition compares
/// counts chooses by it; any other takes its first branch, as numbers of a field are finite, and what only the second
/// one reads may be anything.
std::optional<std::vector<Field>> evaluate(const ir::Graph& graph, const Elements& inputs, int wanted);

}  // namespace planish::rewrite
