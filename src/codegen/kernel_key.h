#pragma once

#include <cstdint>
#include <string>

#include "codegen/kernel.h"

namespace planish::codegen {

/// Of the serialisation below; part of every key. What a store learned under another version is no longer found.
inline constexpr std::uint8_t kernel_key_version = 2;

/// Everything that determines what a kernel computes, as bytes for hashing: shapes, strides, dtypes, the expressions
/// with their wiring, folds, scans, and where outputs are written. Not in it: value ids of the graph, and any name that
/// is for people. Operators and kinds are numbers of their own, which stay when an enumeration or a spelling changes.
/// Equal bytes, equal kernels; the bytes of one list never run into the next (each is preceded by its length).
std::string kernel_key_bytes(const Kernel& kernel);

}  // namespace planish::codegen
