#pragma once

#include <optional>

#include "codegen/kernel.h"

namespace planish::codegen::printing {

/// A kernel of points over one variable in place of its last two, of which the last is shorter than a vector: pairs of
/// neighbours, say, as an interleaved rotary embedding turns them. Where that lets one vector bring what its lanes read
/// of each other's elements (Access::within), and results lie in that order; else nothing. Pure; thread-safe.
std::optional<Kernel> with_whole_vectors(const Kernel& kernel);

}  // namespace planish::codegen::printing
