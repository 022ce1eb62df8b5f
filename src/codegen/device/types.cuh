#pragma once
// Names that every device file uses. No header of CUDA's is needed.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define PL_DEVICE __device__ __forceinline__
