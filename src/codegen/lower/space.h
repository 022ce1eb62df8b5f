#pragma once

#include <span>
#include <vector>

#include "codegen/kernel.h"

/// Changes of variables over all index expressions of a kernel at once. Private to codegen/lower.
namespace planish::codegen {

/// Every index expression and bound of the kernel: loads, index nodes, output offsets.
std::vector<const ir::IndexExpr*> index_expressions(const Kernel& kernel);
/// Replaces variable i by replacements[i] over the new space everywhere.
void change_variables(Kernel& kernel, std::span<const ir::IndexExpr> replacements, ir::Space space);
/// order[i] = old variable that becomes variable i.
void permute_variables(Kernel& kernel, const std::vector<int>& order);
/// Exchanges the rows and the columns of a kernel of the cross anchor.
void turn_over(Kernel& kernel);
/// Joins neighbours (both of the same group: outer, folded across rows, inner, within a part) wherever no index gets a
/// new div or mod by it.
void merge_variables(Kernel& kernel);
/// Divs and mods in the whole expression.
int div_mod_count(const ir::IndexExpr& e);

}  // namespace planish::codegen
