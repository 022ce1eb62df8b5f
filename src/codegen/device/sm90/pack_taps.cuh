#pragma once
// Packing of the weights of convolutions that read images in boxes: a matrix of rows and k, which is taps and of each
// its channels, up to whole rows of 128 bytes. Memory mostly runs along taps, so elements come in its order and leave
// in that of k by way of shared memory.

#include "types.cuh"

template <typename T>
PL_DEVICE T pl_ldg(const T* p) {
  return __ldg(p);
}

/// Elements that a block has at hand; the text of several packings has it once.
constexpr int pl_staged_elements = 8192;
PL_DEVICE u16* pl_staged() {
  static __shared__ __align__(16) u16 elements[pl_staged_elements];
  return elements;
}
/// From one tap to the next, of `channels`, a multiple of 8: neither order meets banks often.
PL_DEVICE constexpr int pl_staged_pitch(int channels) {
  return channels + 8;
}
