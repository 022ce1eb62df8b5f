#pragma once

#include "ir/graph.h"

namespace planish {

/// The least that any program for a task must do, whatever its algorithm. What cannot be told for certain is left out:
/// this is for saying that a time is impossible, and not for saying how good it is.
struct NeededWork {
  double output_bytes = 0;  ///< that are written
  double input_bytes = 0;   ///< that are read
  double flops = 0;
};

/// Of a whole graph. An input is needed where each of its elements can move an output through operators that look at
/// all of what they read; of it half counts, since whoever makes the inputs may give them a structure (triangles).
/// Operations are those of products of two inputs whose every element reaches an output by itself: sums of products can
/// be taken apart, chains be taken in another order. Of these an eighth counts (triangles, faster algorithms).
NeededWork needed_work_of(const ir::Graph& graph);

}  // namespace planish
