#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

/// Graphs that compute the same with less work. Rules look at structure, dtypes and shapes alone.
namespace planish::rewrite {

/// How results may differ from the original's.
enum class Numeric : std::uint8_t {
  exact,          ///< bit for bit but for a zero's sign, NaN and infinities included
  reassociation,  ///< equal in real numbers, rounded elsewhere; NaN and infinities where the original has them, unless
                  ///< a finite value overflowed on the way
};

struct Applied {
  std::string rule;
  Numeric numeric = Numeric::exact;
  int value = -1;  ///< which is computed otherwise now
};

/// A graph with the inputs, outputs and value ids of the original. Values from `local` on are its own. What nothing
/// reads any more is gone, its value without a maker.
struct Rewritten {
  ir::Graph graph;
  std::vector<Applied> applied;  ///< in order; empty: nothing was found, and `graph` is the original
  std::size_t local = 0;
};

struct Options {
  /// PyTorch's libraries compute the products and convolutions that stay; a kernel of ours would have what lies behind
  /// them for nothing.
  bool library_products = true;
  /// Rows, and columns, that a product has where it keeps the device busy: none is cut into smaller ones.
  std::int64_t block = 256;
  /// What is left of a product's work, at most, where it is cut: smaller products, and a pass over their results, cost
  /// the rest.
  double most_left = 0.8;
  /// Features of a head that one kernel of ours has room for.
  std::int64_t most_features = 256;
  /// Scores of attention in 16 bits that lie in memory at once: 256 MiB, and their softmax half as much.
  double scores_at_once = 1 << 26;
  /// Elements of a channels-last image from which on a norm of its groups is one of channels first, where neighbouring
  /// threads read neighbours in memory; none: never.
  std::optional<std::int64_t> norms_by_channels = std::nullopt;
};

/// Applies the rules, the first that fires at the first node where one does, until none does. Deterministic.
Rewritten rewrite(const ir::Graph& graph, const Options& options = {});

}  // namespace planish::rewrite
