#pragma once

#include <map>

#include "codegen/genome.h"
#include "program/program.h"

/// One launch in place of neighbouring ones that multiply weights with a few rows and wait for nothing of each other: a
/// layer's queries beside its keys and values. Each launch ends in a time in which no weights are read.
namespace planish::codegen {

/// Work of a skinny product: Emitted::shares and Emitted::shared_by.
struct SharedWork {
  double work = 0;
  decltype(Emitted::shared_by) shared_by;
};

/// `work`: of the program's kernels that are skinny products, by their numbers. Kernels that no step launches any more
/// stay.
void join_products(program::Program& program, const std::map<int, SharedWork>& work);

}  // namespace planish::codegen
