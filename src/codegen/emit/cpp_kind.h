#pragma once

#include <cstdint>

#include "codegen/kernel.h"

/// What differs between kernels in the C++ schedule (internal to the C++ emitter). It follows from what they fold, not
/// from what they are called.
namespace planish::codegen::cpp {

/// Which variables vectors may lie along.
enum class Lanes : std::uint8_t {
  anywhere,      ///< any
  rows_or_last,  ///< lanes are rows, or neighbours in the order of the sweep
  neighbours,    ///< the last one alone
};

struct CppKind {
  Lanes lanes = Lanes::anywhere;
  bool chunks = false;         ///< points are dealt out in chunks, and may be turned in tiles; else rows are
  bool splits = false;         ///< cores may share a row
  bool buffers = false;        ///< costly values of a row may be kept between sweeps
  bool panels = false;         ///< columns may be swept in panels
  bool in_order = false;       ///< vectors of a row come one after the other
  bool column_states = false;  ///< each core keeps states of all columns beside those of its rows
  bool early_stores = false;   ///< an output is stored in the first sweep that knows it; else in the last
};

CppKind cpp_kind(const Kernel& kernel);

}  // namespace planish::codegen::cpp
