#pragma once
// Where a thread is in a ring of stages that barriers hand over: producers and consumers go through it at their own
// pace.

#include "types.cuh"

/// A place of a ring, and the parity of its phase.
template <int stages>
struct PipelinePlace {
  int stage = 0;
  u32 parity = 0;
  PL_DEVICE void step() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  PL_DEVICE void skip(int steps) {
    stage += steps;
    parity ^= (u32)(stage / stages) & 1;
    stage %= stages;
  }
};
