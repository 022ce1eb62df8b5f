#pragma once
// Tensor-core instructions of sm_90a: m64nNk16 of 16-bit numbers, and m64nNk32 of 8-bit ones, with sums in fp32. An
// instruction's text needs its registers one by one, so each N has its lists here, and a kernel expands PL_WGMMA_SHARED
// or PL_WGMMA_REGISTERS for the few that it issues. A CPU's form of this file has functions of the same names. PTX
// ISA 8.0.

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
#define PL_SUMS_8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define PL_SUMS_16 PL_SUMS_8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define PL_SUMS_24 PL_SUMS_16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define PL_SUMS_32 PL_SUMS_24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define PL_SUMS_40 PL_SUMS_32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define PL_SUMS_48 PL_SUMS_40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define PL_SUMS_56 PL_SUMS_48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define PL_SUMS_64 PL_SUMS_56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define PL_SUMS_72 PL_SUMS_64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define PL_SUMS_80 PL_SUMS_72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define PL_SUMS_88 PL_SUMS_80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define PL_SUMS_96 PL_SUMS_88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define PL_SUMS_104 PL_SUMS_96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define PL_SUMS_112 PL_SUMS_104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define PL_SUMS_120 PL_SUMS_112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define PL_SUMS_128 PL_SUMS_120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define PL_SUMS_136 PL_SUMS_128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define PL_SUMS_144 PL_SUMS_136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define PL_SUMS_152 PL_SUMS_144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define PL_SUMS_160 PL_SUMS_152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define PL_SUMS_168 PL_SUMS_160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define PL_SUMS_176 PL_SUMS_168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define PL_SUMS_184 PL_SUMS_176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define PL_SUMS_192 PL_SUMS_184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define PL_SUMS_200 PL_SUMS_192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define PL_SUMS_208 PL_SUMS_200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define PL_SUMS_216 PL_SUMS_208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define PL_SUMS_224 PL_SUMS_216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define PL_SUMS_232 PL_SUMS_224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define PL_SUMS_240 PL_SUMS_232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define PL_SUMS_248 PL_SUMS_240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define PL_SUMS_256 PL_SUMS_248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
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
#define PL_WGMMA_TEXT_OF(n, k, a_type, b_type, places, predicate, operands) \
  "{.reg .pred p; setp.ne.b32 p, " predicate ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k" #k ".f32." a_type "." \
  b_type " {" places "}, " operands "}"
#define PL_WGMMA_TEXT(n, type, places, predicate, operands) \
  PL_WGMMA_TEXT_OF(n, 16, type, type, places, predicate, operands)
#define PL_WGMMA_EIGHT_(name, n, a_type, b_type, places, p0, p1, p2, p3, p4, p5) \
  PL_DEVICE void name(float (&d)[n / 2], u64 a, u64 b, int keep) { \
    asm volatile(PL_WGMMA_TEXT_OF(n, 32, a_type, b_type, places, p2, p0 ", " p1 ", p, 1, 1;") \
                 : PL_SUMS_##n : "l"(a), "l"(b), "r"(keep)); \
  }
#define PL_WGMMA_SHARED_(name, n, type, a_across, across, places, p0, p1, p2, p3, p4, p5) \
  PL_DEVICE void name(float (&d)[n / 2], u64 a, u64 b, int keep) { \
    asm volatile(PL_WGMMA_TEXT(n, type, places, p2, p0 ", " p1 ", p, 1, 1, " #a_across ", " #across ";") \
                 : PL_SUMS_##n : "l"(a), "l"(b), "r"(keep)); \
  }
#define PL_WGMMA_REGISTERS_(name, n, type, across, places, p0, p1, p2, p3, p4, p5) \
  PL_DEVICE void name(float (&d)[n / 2], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) { \
    asm volatile(PL_WGMMA_TEXT(n, type, places, p5, \
                               "{" p0 ", " p1 ", " p2 ", " p3 "}, " p4 ", p, 1, 1, " #across ";") \
                 : PL_SUMS_##n : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(keep)); \
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
/// The same with a in four registers a thread, two numbers each.
#define PL_WGMMA_REGISTERS(name, n, type, across) \
  PL_WGMMA_EXPAND(PL_WGMMA_REGISTERS_, name, n, type, across, PL_PLACES_##n, PL_BEHIND_##n)
// clang-format on
