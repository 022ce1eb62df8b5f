#pragma once
// Launches that begin before the one before them has ended (programmatic dependent launch), and how what that one wrote
// is read. PTX ISA 7.8.

#include "types.cuh"

/// Waits until the launches that this one depends on have ended and their memory is visible. Every thread block of a
/// kernel launched with the programmatic attribute calls it before it exits, even one that reads nothing of theirs.
PL_DEVICE void dependency_wait() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

/// Permits the next launch to begin as soon as every block has said so or ended. It says nothing of memory.
PL_DEVICE void dependency_launch() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/// Keeps the place of a block that has nothing to do while the next launch is given its own, some microseconds. A block
/// that ends before leaves a multiprocessor on which that launch puts two blocks, and none on another; the launch
/// behind it then finds the gap there, and so on to the end of the chain, each as slow as its fullest multiprocessor
/// (docs/decisions/0178-launches-in-turn.md).
PL_DEVICE void dependency_stay() {
  if (threadIdx.x != 0) return;
  constexpr int cycles = 6000;
  for (const int begin = clock(); (int)clock() - begin < cycles;) __nanosleep(200);
}

/// What the launch before may have written: from the L2 cache, never from a line that L1 holds since before the wait.
PL_DEVICE uint4 load_visible_16(const void* from) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

/// Brings a line of 128 bytes into the L2 cache, whoever may still write it.
PL_DEVICE void prefetch_line(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
}

/// All lines of so many bytes, by `threads` threads that each know which they are.
PL_DEVICE void prefetch_lines(const void* from, int bytes, int thread, int threads) {
  const char* const end = (const char*)from + bytes;
  for (const char* at = (const char*)((u64)from & ~127ull) + thread * 128; at < end; at += threads * 128)
    prefetch_line(at);
}

/// The same of one number. Volatile, as the wait is: neither goes past the other.
template <typename T>
PL_DEVICE T load_visible(const T* from) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "a number");
  if constexpr (sizeof(T) == 1) {
    u32 v;
    asm volatile("ld.global.cg.u8 %0, [%1];" : "=r"(v) : "l"(from) : "memory");
    const u8 bits = (u8)v;
    return *(const T*)&bits;
  } else if constexpr (sizeof(T) == 2) {
    u16 bits;
    asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(bits) : "l"(from) : "memory");
    return *(const T*)&bits;
  } else if constexpr (sizeof(T) == 4) {
    u32 bits;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(bits) : "l"(from) : "memory");
    return *(const T*)&bits;
  } else {
    u64 bits;
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
    return *(const T*)&bits;
  }
}
