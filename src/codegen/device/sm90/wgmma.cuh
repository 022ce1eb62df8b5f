#pragma once
// Tensor-core instructions of sm_90a: m64nNk16 of 16-bit numbers, and m64nNk32 of 8-bit ones, with sums in fp32, or of
// integers in i32. An instruction's text needs its registers one by one, so each N has its lists here, and a kernel
// expands PL_WGMMA_SHARED or PL_WGMMA_REGISTERS for the few that it issues. A CPU's form of this file has functions of
// the same names. PTX ISA 8.0.

#include "types.cuh"

/// Of the thread: the same in all lanes, and known to be.
PL_DEVICE int warpgroup_number() {
  return __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
}

/// Orders what this warpgroup wrote to registers before the instructions that follow.
PL_DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Closes a group of the instructions issued so far.
PL_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until all groups but so many have ended.
template <int left>
PL_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

/// Says to the compiler that these registers changed here, so that no use of them moves above a wgmma_wait().
template <int n>
PL_DEVICE void wgmma_hold(float (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int n>
PL_DEVICE void wgmma_hold(int (&d)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : "+r"(d[i])::"memory");
}

/// Where an operand lies in shared memory, in rows of 128 bytes that are swizzled. `leading` and `stride` are in bytes:
/// along k the first says nothing and the second parts groups of 8 rows; across k they part groups of 64 rows and of 8
/// k.
PL_DEVICE constexpr u64 wgmma_swizzled(int leading, int stride) {
  return (u64)(leading / 16) << 16 | (u64)(stride / 16) << 32 | (u64)1 << 62;
}
/// The same of operands in groups of 8 rows and 16 bytes along k, 128 bytes each: along k groups are `leading` apart,
/// and along rows `stride`.
PL_DEVICE constexpr u64 wgmma_unswizzled(int leading, int stride) {
  return (u64)(leading / 16) << 16 | (u64)(stride / 16) << 32;
}
/// Of an address whose upper bits say which block of a cluster it is of: these would be other fields.
PL_DEVICE u64 wgmma_address(u32 shared) {
  return (u64)((shared & 0x3ffff) >> 4);
}

// ---- registers of one instruction: of d, then those behind them ----

// clang-format off
#define PL_PLACES_8 "%0, %1, %2, %3"
#define PL_PLACES_16 PL_PLACES_8 ", %4, %5, %6, %7"
#define PL_PLACES_24 PL_PLACES_16 ", %8, %9, %10, %11"
#define PL_PLACES_32 PL_PLACES_24 ", %12, %13, %14, %15"
#define PL_PLACES_40 PL_PLACES_32 ", %16, %17, %18, %19"
#define PL_PLACES_48 PL_PLACES_40 ", %20, %21, %22, %23"
#define PL_PLACES_56 PL_PLACES_48 ", %24, %25, %26, %27"
#define PL_PLACES_64 PL_PLACES_56 ", %28, %29, %30, %31"
#define PL_PLACES_72 PL_PLACES_64 ", %32, %33, %34, %35"
#define PL_PLACES_80 PL_PLACES_72 ", %36, %37, %38, %39"
#define PL_PLACES_88 PL_PLACES_80 ", %40, %41, %42, %43"
#define PL_PLACES_96 PL_PLACES_88 ", %44, %45, %46, %47"
#define PL_PLACES_104 PL_PLACES_96 ", %48, %49, %50, %51"
#define PL_PLACES_112 PL_PLACES_104 ", %52, %53, %54, %55"
#define PL_PLACES_120 PL_PLACES_112 ", %56, %57, %58, %59"
#define PL_PLACES_128 PL_PLACES_120 ", %60, %61, %62, %63"
#define PL_PLACES_136 PL_PLACES_128 ", %64, %65, %66, %67"
#define PL_PLACES_144 PL_PLACES_136 ", %68, %69, %70, %71"
#define PL_PLACES_152 PL_PLACES_144 ", %72, %73, %74, %75"
#define PL_PLACES_160 PL_PLACES_152 ", %76, %77, %78, %79"
#define PL_PLACES_168 PL_PLACES_160 ", %80, %81, %82, %83"
#define PL_PLACES_176 PL_PLACES_168 ", %84, %85, %86, %87"
#define PL_PLACES_184 PL_PLACES_176 ", %88, %89, %90, %91"
#define PL_PLACES_192 PL_PLACES_184 ", %92, %93, %94, %95"
#define PL_PLACES_200 PL_PLACES_192 ", %96, %97, %98, %99"
#define PL_PLACES_208 PL_PLACES_200 ", %100, %101, %102, %103"
#define PL_PLACES_216 PL_PLACES_208 ", %104, %105, %106, %107"
#define PL_PLACES_224 PL_PLACES_216 ", %108, %109, %110, %111"
#define PL_PLACES_232 PL_PLACES_224 ", %112, %113, %114, %115"
#define PL_PLACES_240 PL_PLACES_232 ", %116, %117, %118, %119"
#define PL_PLACES_248 PL_PLACES_240 ", %120, %121, %122, %123"
#define PL_PLACES_256 PL_PLACES_248 ", %124, %125, %126, %127"
#define PL_SUMS_8(c) c(d[0]), c(d[1]), c(d[2]), c(d[3])
#define PL_SUMS_16(c) PL_SUMS_8(c), c(d[4]), c(d[5]), c(d[6]), c(d[7])
#define PL_SUMS_24(c) PL_SUMS_16(c), c(d[8]), c(d[9]), c(d[10]), c(d[11])
#define PL_SUMS_32(c) PL_SUMS_24(c), c(d[12]), c(d[13]), c(d[14]), c(d[15])
#define PL_SUMS_40(c) PL_SUMS_32(c), c(d[16]), c(d[17]), c(d[18]), c(d[19])
#define PL_SUMS_48(c) PL_SUMS_40(c), c(d[20]), c(d[21]), c(d[22]), c(d[23])
#define PL_SUMS_56(c) PL_SUMS_48(c), c(d[24]), c(d[25]), c(d[26]), c(d[27])
#define PL_SUMS_64(c) PL_SUMS_56(c), c(d[28]), c(d[29]), c(d[30]), c(d[31])
#define PL_SUMS_72(c) PL_SUMS_64(c), c(d[32]), c(d[33]), c(d[34]), c(d[35])
#define PL_SUMS_80(c) PL_SUMS_72(c), c(d[36]), c(d[37]), c(d[38]), c(d[39])
#define PL_SUMS_88(c) PL_SUMS_80(c), c(d[40]), c(d[41]), c(d[42]), c(d[43])
#define PL_SUMS_96(c) PL_SUMS_88(c), c(d[44]), c(d[45]), c(d[46]), c(d[47])
#define PL_SUMS_104(c) PL_SUMS_96(c), c(d[48]), c(d[49]), c(d[50]), c(d[51])
#define PL_SUMS_112(c) PL_SUMS_104(c), c(d[52]), c(d[53]), c(d[54]), c(d[55])
#define PL_SUMS_120(c) PL_SUMS_112(c), c(d[56]), c(d[57]), c(d[58]), c(d[59])
#define PL_SUMS_128(c) PL_SUMS_120(c), c(d[60]), c(d[61]), c(d[62]), c(d[63])
#define PL_SUMS_136(c) PL_SUMS_128(c), c(d[64]), c(d[65]), c(d[66]), c(d[67])
#define PL_SUMS_144(c) PL_SUMS_136(c), c(d[68]), c(d[69]), c(d[70]), c(d[71])
#define PL_SUMS_152(c) PL_SUMS_144(c), c(d[72]), c(d[73]), c(d[74]), c(d[75])
#define PL_SUMS_160(c) PL_SUMS_152(c), c(d[76]), c(d[77]), c(d[78]), c(d[79])
#define PL_SUMS_168(c) PL_SUMS_160(c), c(d[80]), c(d[81]), c(d[82]), c(d[83])
#define PL_SUMS_176(c) PL_SUMS_168(c), c(d[84]), c(d[85]), c(d[86]), c(d[87])
#define PL_SUMS_184(c) PL_SUMS_176(c), c(d[88]), c(d[89]), c(d[90]), c(d[91])
#define PL_SUMS_192(c) PL_SUMS_184(c), c(d[92]), c(d[93]), c(d[94]), c(d[95])
#define PL_SUMS_200(c) PL_SUMS_192(c), c(d[96]), c(d[97]), c(d[98]), c(d[99])
#define PL_SUMS_208(c) PL_SUMS_200(c), c(d[100]), c(d[101]), c(d[102]), c(d[103])
#define PL_SUMS_216(c) PL_SUMS_208(c), c(d[104]), c(d[105]), c(d[106]), c(d[107])
#define PL_SUMS_224(c) PL_SUMS_216(c), c(d[108]), c(d[109]), c(d[110]), c(d[111])
#define PL_SUMS_232(c) PL_SUMS_224(c), c(d[112]), c(d[113]), c(d[114]), c(d[115])
#define PL_SUMS_240(c) PL_SUMS_232(c), c(d[116]), c(d[117]), c(d[118]), c(d[119])
#define PL_SUMS_248(c) PL_SUMS_240(c), c(d[120]), c(d[121]), c(d[122]), c(d[123])
#define PL_SUMS_256(c) PL_SUMS_248(c), c(d[124]), c(d[125]), c(d[126]), c(d[127])
#define PL_BEHIND_8 "%4", "%5", "%6", "%7", "%8", "%9"
#define PL_BEHIND_16 "%8", "%9", "%10", "%11", "%12", "%13"
#define PL_BEHIND_24 "%12", "%13", "%14", "%15", "%16", "%17"
#define PL_BEHIND_32 "%16", "%17", "%18", "%19", "%20", "%21"
#define PL_BEHIND_40 "%20", "%21", "%22", "%23", "%24", "%25"
#define PL_BEHIND_48 "%24", "%25", "%26", "%27", "%28", "%29"
#define PL_BEHIND_56 "%28", "%29", "%30", "%31", "%32", "%33"
#define PL_BEHIND_64 "%32", "%33", "%34", "%35", "%36", "%37"
#define PL_BEHIND_72 "%36", "%37", "%38", "%39", "%40", "%41"
#define PL_BEHIND_80 "%40", "%41", "%42", "%43", "%44", "%45"
#define PL_BEHIND_88 "%44", "%45", "%46", "%47", "%48", "%49"
#define PL_BEHIND_96 "%48", "%49", "%50", "%51", "%52", "%53"
#define PL_BEHIND_104 "%52", "%53", "%54", "%55", "%56", "%57"
#define PL_BEHIND_112 "%56", "%57", "%58", "%59", "%60", "%61"
#define PL_BEHIND_120 "%60", "%61", "%62", "%63", "%64", "%65"
#define PL_BEHIND_128 "%64", "%65", "%66", "%67", "%68", "%69"
#define PL_BEHIND_136 "%68", "%69", "%70", "%71", "%72", "%73"
#define PL_BEHIND_144 "%72", "%73", "%74", "%75", "%76", "%77"
#define PL_BEHIND_152 "%76", "%77", "%78", "%79", "%80", "%81"
#define PL_BEHIND_160 "%80", "%81", "%82", "%83", "%84", "%85"
#define PL_BEHIND_168 "%84", "%85", "%86", "%87", "%88", "%89"
#define PL_BEHIND_176 "%88", "%89", "%90", "%91", "%92", "%93"
#define PL_BEHIND_184 "%92", "%93", "%94", "%95", "%96", "%97"
#define PL_BEHIND_192 "%96", "%97", "%98", "%99", "%100", "%101"
#define PL_BEHIND_200 "%100", "%101", "%102", "%103", "%104", "%105"
#define PL_BEHIND_208 "%104", "%105", "%106", "%107", "%108", "%109"
#define PL_BEHIND_216 "%108", "%109", "%110", "%111", "%112", "%113"
#define PL_BEHIND_224 "%112", "%113", "%114", "%115", "%116", "%117"
#define PL_BEHIND_232 "%116", "%117", "%118", "%119", "%120", "%121"
#define PL_BEHIND_240 "%120", "%121", "%122", "%123", "%124", "%125"
#define PL_BEHIND_248 "%124", "%125", "%126", "%127", "%128", "%129"
#define PL_BEHIND_256 "%128", "%129", "%130", "%131", "%132", "%133"

#define PL_WGMMA_EXPAND(macro, ...) macro(__VA_ARGS__)
#define PL_WGMMA_TEXT_OF(n, k, sums, a_type, b_type, places, predicate, operands) \
  "{.reg .pred p; setp.ne.b32 p, " predicate ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k" #k "." sums "." a_type \
  "." b_type " {" places "}, " operands "}"
#define PL_WGMMA_TEXT(n, type, places, predicate, operands) \
  PL_WGMMA_TEXT_OF(n, 16, "f32", type, type, places, predicate, operands)
#define PL_WGMMA_EIGHT_(name, n, a_type, b_type, places, p0, p1, p2, p3, p4, p5) \
  PL_DEVICE void name(float (&d)[n / 2], u64 a, u64 b, int keep) { \
    asm volatile(PL_WGMMA_TEXT_OF(n, 32, "f32", a_type, b_type, places, p2, p0 ", " p1 ", p, 1, 1;") \
                 : PL_SUMS_##n("+f") : "l"(a), "l"(b), "r"(keep)); \
  }
#define PL_WGMMA_INTEGER_(name, n, a_type, b_type, places, p0, p1, p2, p3, p4, p5) \
  PL_DEVICE void name(int (&d)[n / 2], u64 a, u64 b, int keep) { \
    asm volatile(PL_WGMMA_TEXT_OF(n, 32, "s32", a_type, b_type, places, p2, p0 ", " p1 ", p;") \
                 : PL_SUMS_##n("+r") : "l"(a), "l"(b), "r"(keep)); \
  }
#define PL_WGMMA_SHARED_(name, n, type, a_across, across, places, p0, p1, p2, p3, p4, p5) \
  PL_DEVICE void name(float (&d)[n / 2], u64 a, u64 b, int keep) { \
    asm volatile(PL_WGMMA_TEXT(n, type, places, p2, p0 ", " p1 ", p, 1, 1, " #a_across ", " #across ";") \
                 : PL_SUMS_##n("+f") : "l"(a), "l"(b), "r"(keep)); \
  }
#define PL_WGMMA_REGISTERS_(name, n, type, across, places, p0, p1, p2, p3, p4, p5) \
  PL_DEVICE void name(float (&d)[n / 2], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) { \
    asm volatile(PL_WGMMA_TEXT(n, type, places, p5, \
                               "{" p0 ", " p1 ", " p2 ", " p3 "}, " p4 ", p, 1, 1, " #across ";") \
                 : PL_SUMS_##n("+f") : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep)); \
  }

/// d = a · b, added to d where `keep` is not 0, as `void name(float (&d)[n / 2], u64 a, u64 b, int keep)`: a is 64 rows
/// along k. `type` is "f16" or "bf16"; `across` is 1 where memory runs along the rows of b, 0 where it runs along k.
#define PL_WGMMA_SHARED(name, n, type, across) PL_WGMMA_BOTH(name, n, type, 0, across)
/// The same where memory may run along the rows of a.
#define PL_WGMMA_BOTH(name, n, type, a_across, across) \
  PL_WGMMA_EXPAND(PL_WGMMA_SHARED_, name, n, type, a_across, across, PL_PLACES_##n, PL_BEHIND_##n)
/// The same of 8-bit factors, "e4m3" or "e5m2" each, whose memory runs along k.
#define PL_WGMMA_EIGHT(name, n, a_type, b_type) \
  PL_WGMMA_EXPAND(PL_WGMMA_EIGHT_, name, n, a_type, b_type, PL_PLACES_##n, PL_BEHIND_##n)
/// Products of 8-bit integers, "s8" or "u8" each, likewise, with sums in i32 that wrap around, in `int (&d)[n / 2]`.
/// n: a multiple of 8 up to 32, of 16 beyond.
#define PL_WGMMA_INTEGER(name, n, a_type, b_type) \
  PL_WGMMA_EXPAND(PL_WGMMA_INTEGER_, name, n, a_type, b_type, PL_PLACES_##n, PL_BEHIND_##n)
/// The same with a in four registers a thread, two numbers each.
#define PL_WGMMA_REGISTERS(name, n, type, across) \
  PL_WGMMA_EXPAND(PL_WGMMA_REGISTERS_, name, n, type, across, PL_PLACES_##n, PL_BEHIND_##n)
// clang-format on
