#pragma once

#include <cstdint>

#include "codegen/kernel.h"

/// What differs between kinds of kernels in the C++ schedule (internal to the C++ emitter): one row a kind.
namespace planish::codegen::cpp {

/// Which variables vectors may lie along.
enum class Lanes : std::uint8_t {
  anywhere,      ///< any
  rows_or_last,  ///< lanes are rows, or neighbours in the order of the sweep
  neighbours,    ///< the last one alone
};

struct CppKind {
  Lanes lanes;
  bool chunks;         ///< points are dealt out in chunks, and may be turned in tiles; else rows are
  bool splits;         ///< cores may share a row
  bool buffers;        ///< costly values of a row may be kept between sweeps
  bool panels;         ///< columns may be swept in panels
  bool in_order;       ///< vectors of a row come one after the other
  bool column_states;  ///< each core keeps states of all columns beside those of its rows
  bool early_stores;   ///< an output is stored in the first sweep that knows it; else in the last
};

const CppKind& cpp_kind(const Kernel& kernel);

}  // namespace planish::codegen::cpp
