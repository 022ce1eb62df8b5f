#pragma once
// What the printed main loop of a contraction is made of.

#include "sm90/ptx.cuh"
#include "sm90/split.cuh"
#include "sm90/wgmma.cuh"
#include "sums.cuh"
