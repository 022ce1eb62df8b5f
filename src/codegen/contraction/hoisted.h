#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernel.h"

/// Places that an epilogue computes once a column instead of once an element. Pure; thread-safe.
namespace planish::codegen::contraction {

/// A kernel whose places know some variables only through sums of their own: each is a new variable of its space,
/// behind the others.
struct Hoisted {
  Kernel kernel;
  std::vector<std::pair<int, ir::IndexExpr>> sums;  ///< the new variable, and what it stands for
};

/// `kernel` with the shares that `variables` have in places and bounds of its outputs and of `nodes` hoisted. Nothing
/// where a place mixes them with others in a quotient or remainder, or where more than `most` different sums are
/// needed.
std::optional<Hoisted> hoisted(const Kernel& kernel, const std::vector<int>& variables, const std::vector<int>& nodes,
                               std::size_t most);

}  // namespace planish::codegen::contraction
