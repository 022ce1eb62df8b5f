// genome: pingpong=0 pipeline_depth=1 raster=1 stages=2 tile_m=64 tile_n=80
// launch: grid 12x1x1 block 256x1x1 cluster 1x1x1 shared 55424
// arguments: input0 input1 input2 output0 scratch0
// ---- tests/golden/shared/place_prelude.cu ----
// Attention of many queries in 16 bits: out = epilogue(softmax(score(q · kᵀ)) · v), a block's rows of queries at a
// time, by FlashAttention's online softmax. One producer thread brings tiles by tensor maps from where q, k and v lie;
// consumer warpgroups have 64 rows each. Scores and sums stay in fp32 registers, weights are rounded once to be the
// first operand of the second product, and results once where they are stored.
//
// Policy (all constexpr):
//   int features, columns       of a row of q and k; of a row of v
//   int rows, keys, units       of queries a unit (a head of a batch); of keys; how many units
//   int tile_keys               keys of a tile: a multiple of 16, at most 256
//   int consumers, stages       warpgroups that multiply; places of the rings of k and of v
//   bool overlap                the next tile's scores are multiplied while this one's become weights
//   bool ping_pong              consumers take turns: one multiplies while others do softmax
//   int section                 units whose blocks run side by side, longest first, so that their k and v stay in L2
//   int exchange                columns that a warp's lanes hand each other at once before the epilogue
//   bool bf16                   instead of fp16
//   bool plain                  scores are q · k times a number, but for those that visible() masks
//   bool masks                  visible() is false somewhere
//   float scale                 of what is in `s` before the exponential, for a power of two
//   float natural               of what is in `s`, for scores as the definition has them
//   float slack                 by how much a power of two may grow before sums are rescaled: 0 keeps the largest
//                               weight of a row at 1, which rounding leaves alone
//
// Functors F (values; what one needs of memory it holds as pointers):
//   scores(d, a, b, keep), values(d, a0 … a3, b, keep)   the two products' instructions
//   map_queries(map), map_keys(map), map_values(map)     fill in tensor maps at shared addresses
//   load_queries(to, map, barrier, unit, row, column), load_keys(…, unit, key, column), load_values(likewise)
//   tiles(first_row, last_row) -> AttentionSpan          tiles of keys that count, and those of them wholly visible
//   visible(row, key)                                    by place alone
//   Ahead, ask(ahead, unit, row0, row1, first)           what scores of a thread's fragment load, and its loading
//   score(unit, row, key, product, ahead, i)             what is not plain, of the fragment's element i
//   shift(maximum), divisor(maximum, total)              of the softmax's definition
//   store<pitch, width>(unit, row, valid, column, lane, exchange)   the epilogue of `valid` ≤ 8 rows

// ---- tests/golden/shared/ptx.cu ----
// Tensor-core instructions of sm_90a: m64nNk16 of 16-bit numbers with sums in fp32. An instruction's text needs its
// registers one by one, so each N has its lists here, and a kernel expands PL_WGMMA_SHARED or PL_WGMMA_REGISTERS for
// the few that it issues. A CPU's form of this file has functions of the same names. PTX ISA 8.0.


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
PL_DEVICE u64 wgmma_address(u32 shared) {
  return (u64)(shared >> 4);
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
#define PL_WGMMA_TEXT(n, type, places, predicate, operands) \
  "{.reg .pred p; setp.ne.b32 p, " predicate ", 0; wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type \
  " {" places "}, " operands "}"
#define PL_WGMMA_SHARED_(name, n, type, across, places, p0, p1, p2, p3, p4, p5) \
  PL_DEVICE void name(float (&d)[n / 2], u64 a, u64 b, int keep) { \
    asm volatile(PL_WGMMA_TEXT(n, type, places, p2, p0 ", " p1 ", p, 1, 1, 0, " #across ";") \
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
#define PL_WGMMA_SHARED(name, n, type, across) \
  PL_WGMMA_EXPAND(PL_WGMMA_SHARED_, name, n, type, across, PL_PLACES_##n, PL_BEHIND_##n)
/// The same with a in four registers a thread, two numbers each.
#define PL_WGMMA_REGISTERS(name, n, type, across) \
  PL_WGMMA_EXPAND(PL_WGMMA_REGISTERS_, name, n, type, across, PL_PLACES_##n, PL_BEHIND_##n)
// clang-format on

/// Tiles of keys from `begin` to `end`, of which those from `free_begin` to `free_end` need no mask.
struct AttentionSpan {
  int begin, end, free_begin, free_end;
};

/// Where things lie in shared memory, in bytes from a multiple of 1024.
template <typename P>
struct AttentionLayout {
  static constexpr int rows = 64 * P::consumers;
  static constexpr int feature_steps = (P::features + 15) / 16;  // of 16
  static constexpr int feature_lines = (P::features + 63) / 64;  // of 128 bytes
  static constexpr int column_lines = (P::columns + 63) / 64;
  static constexpr int columns = (P::columns + 7) / 8 * 8;
  static constexpr int query_bytes = feature_lines * rows * 128;
  static constexpr int key_bytes = feature_lines * P::tile_keys * 128;
  static constexpr int value_bytes = column_lines * P::tile_keys * 128;
  static constexpr int keys_at = query_bytes;
  static constexpr int values_at = keys_at + P::stages * key_bytes;
  static constexpr int barriers_at = values_at + P::stages * value_bytes;
  static constexpr int exchange_at = barriers_at + 128;
  static constexpr int exchange_pitch = P::exchange + 8;
  static constexpr int bytes = exchange_at + 4 * P::consumers * 8 * exchange_pitch * 4;
  static constexpr int threads = 128 * (P::consumers + 1);
  static constexpr int blocks = (P::rows + rows - 1) / rows;  // of a unit
  static constexpr int tiles = blocks * P::units;
  static constexpr int maps_bytes = 384;  // of a block
};

/// Barriers of a block, at shared addresses.
template <typename P>
struct AttentionBarriers {
  u32 base;
  PL_DEVICE u32 queries_in() const { return base; }
  PL_DEVICE u32 queries_out() const { return base + 8; }
  PL_DEVICE u32 keys_in(int stage) const { return base + 16 + 8 * stage; }
  PL_DEVICE u32 keys_out(int stage) const { return base + 16 + 8 * (P::stages + stage); }
  PL_DEVICE u32 values_in(int stage) const { return base + 16 + 8 * (2 * P::stages + stage); }
  PL_DEVICE u32 values_out(int stage) const { return base + 16 + 8 * (3 * P::stages + stage); }
};

/// A place of a ring, and the parity of its phase.
template <int stages>
struct AttentionRing {
  int stage = 0;
  u32 parity = 0;
  PL_DEVICE void step() {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

/// What a block has at a turn: blocks go through sections in one order and then in the other, so that each has as many
/// long ones as any.
template <typename P>
PL_DEVICE bool attention_turn(int turn, int& unit, int& row) {
  using L = AttentionLayout<P>;
  const int grid = (int)gridDim.x, block = (int)blockIdx.x;
  const int tile = turn * grid + (turn % 2 != 0 ? grid - 1 - block : block);
  if (tile >= L::tiles) return false;
  constexpr int each = P::section * L::blocks;
  const int section = tile / each, within = tile % each;
  const int units = min(P::section, P::units - section * P::section);
  unit = section * P::section + within % units;
  row = (L::blocks - 1 - within / units) * L::rows;
  return true;
}

template <typename P, typename F>
PL_DEVICE AttentionSpan attention_span(const F& f, int row) {
  return f.tiles(row, min(row + AttentionLayout<P>::rows, P::rows) - 1);
}

/// One thread: asks for all that the consumers will read.
template <typename P, typename F>
PL_DEVICE void attention_produce(const F& f, u32 base, const char* maps) {
  using L = AttentionLayout<P>;
  const AttentionBarriers<P> barriers{base + L::barriers_at};
  AttentionRing<P::stages> keys, values;
  u32 parity = 0;  // of queries
  int unit, row;
  for (int turn = 0; attention_turn<P>(turn, unit, row); ++turn) {
    const AttentionSpan span = attention_span<P>(f, row);
    if (span.begin >= span.end) continue;
    const auto bring_keys = [&](int tile) {
      barrier_wait(barriers.keys_out(keys.stage), keys.parity ^ 1);
      barrier_expect(barriers.keys_in(keys.stage), L::key_bytes);
#pragma unroll
      for (int i = 0; i < L::feature_lines; ++i)
        f.load_keys(base + L::keys_at + keys.stage * L::key_bytes + i * (P::tile_keys * 128), maps + 128,
                    barriers.keys_in(keys.stage), unit, tile * P::tile_keys, i * 64);
      keys.step();
    };
    barrier_wait(barriers.queries_out(), parity ^ 1);
    barrier_expect(barriers.queries_in(), L::query_bytes);
#pragma unroll
    for (int i = 0; i < L::feature_lines; ++i)
      f.load_queries(base + i * (L::rows * 128), maps, barriers.queries_in(), unit, row, i * 64);
    parity ^= 1;
    bring_keys(span.end - 1);
#pragma unroll 1
    for (int tile = span.end - 1; tile >= span.begin; --tile) {
      if (tile > span.begin) bring_keys(tile - 1);
      barrier_wait(barriers.values_out(values.stage), values.parity ^ 1);
      barrier_expect(barriers.values_in(values.stage), L::value_bytes);
#pragma unroll
      for (int i = 0; i < L::column_lines; ++i)
        f.load_values(base + L::values_at + values.stage * L::value_bytes + i * (P::tile_keys * 128), maps + 256,
                      barriers.values_in(values.stage), unit, tile * P::tile_keys, i * 64);
      values.step();
    }
  }
}

/// The state of a thread's two rows, 8 apart. `top` is what exponentials are taken from, in the units of scores in
/// registers: the largest score, or one whose exponential is at most 2^slack times smaller.
struct AttentionRows {
  float top[2], sum[2], less[2];
};

PL_DEVICE float attention_none() {
  return __int_as_float(0xff800000);
}

/// Scores become exponentials. `less` is what earlier sums have to be multiplied by; true where some lane's is not 1.
template <typename P, int count>
PL_DEVICE bool attention_soften(float (&s)[count], AttentionRows& rows) {
  float now[2] = {fmaxf(s[0], s[1]), fmaxf(s[2], s[3])};
#pragma unroll
  for (int i = 4; i < count; i += 4) {
    now[0] = fmaxf(now[0], fmaxf(s[i], s[i + 1]));
    now[1] = fmaxf(now[1], fmaxf(s[i + 2], s[i + 3]));
  }
  float base[2];
  bool any = false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], 1));
    now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], 2));
    const float before = rows.top[h];
    const bool grows = (now[h] - before) * P::scale > P::slack;
    rows.top[h] = grows ? now[h] : before;
    rows.less[h] = grows ? exp2_fast((before - now[h]) * P::scale) : 1.0f;
    any = any | grows;
    // A row of which no key counts so far.
    base[h] = rows.top[h] == attention_none() ? 0.0f : rows.top[h] * P::scale;
  }
  float sum[2] = {0.0f, 0.0f};
#pragma unroll
  for (int i = 0; i < count; i += 4) {
#pragma unroll
    for (int e = 0; e < 4; ++e) s[i + e] = exp2_fast(fmaf(s[i + e], P::scale, -base[e / 2]));
    sum[0] += s[i] + s[i + 1];
    sum[1] += s[i + 2] + s[i + 3];
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) rows.sum[h] = fmaf(rows.sum[h], rows.less[h], sum[h]);
  return __any_sync(~0u, any);
}

/// Exponentials as the first operand of 16-bit numbers: the accumulator's order is the operand's.
template <bool bf16, int count>
PL_DEVICE void attention_round(const float (&s)[count], u32 (&p)[count / 2]) {
#pragma unroll
  for (int i = 0; i < count / 2; ++i)
    p[i] = bf16 ? pack_bf16(s[2 * i], s[2 * i + 1]) : pack_f16(s[2 * i], s[2 * i + 1]);
}

template <typename P, typename F>
class AttentionConsumer {
  using L = AttentionLayout<P>;

 public:
  PL_DEVICE AttentionConsumer(const F& functors, u32 shared, int warpgroup)
      : f(functors), base(shared), barriers{shared + L::barriers_at}, group(warpgroup) {
    lane = (int)threadIdx.x % 32;
    warp = (int)threadIdx.x % 128 / 32;
  }

  PL_DEVICE void run(float* exchange) {
    if (P::ping_pong && group == P::consumers - 1) hand_on();
    u32 parity = 0;
    int row;
    for (int turn = 0; attention_turn<P>(turn, unit, row); ++turn) {
      own_row = row + group * 64 + warp * 16;
      row0 = min(own_row + lane / 4, P::rows - 1);
      row1 = min(own_row + lane / 4 + 8, P::rows - 1);
      rows = {{attention_none(), attention_none()}, {0.0f, 0.0f}, {1.0f, 1.0f}};
      const AttentionSpan span = attention_span<P>(f, row);
      float o[L::columns / 2];
      if (span.begin < span.end) {
        barrier_wait(barriers.queries_in(), parity);
        parity ^= 1;
        P::overlap ? walk_overlapped(span, o) : walk(span, o);
      } else {
#pragma unroll
        for (int i = 0; i < L::columns / 2; ++i) o[i] = 0.0f;
      }
      store(o, exchange);
    }
  }

 private:
  /// Each consumer has a named barrier, at which it and the one before it meet.
  PL_DEVICE void hand_on() { named_barrier_arrive(1 + (group + 1) % P::consumers, 256); }
  PL_DEVICE void take_turn() {
    if (P::ping_pong) named_barrier_wait(1 + group, 256);
  }
  PL_DEVICE void end_turn() {
    if (P::ping_pong) hand_on();
  }
  PL_DEVICE void leave(u32 barrier) {
    if (lane == 0) barrier_arrive(barrier);
  }

  PL_DEVICE void multiply_keys(float (&s)[P::tile_keys / 2]) {
    constexpr u64 form = wgmma_swizzled(16, 1024);
    const u64 a = form + wgmma_address(base + group * 8192),
              b = form + wgmma_address(base + L::keys_at + keys.stage * L::key_bytes);
#pragma unroll
    for (int k = 0; k < L::feature_steps; ++k)
      f.scores(s, a + (k / 4 * (L::rows * 128) + k % 4 * 32) / 16, b + (k / 4 * (P::tile_keys * 128) + k % 4 * 32) / 16,
               k != 0);
    wgmma_commit();
  }

  PL_DEVICE void multiply_values(float (&o)[L::columns / 2], const u32 (&p)[P::tile_keys / 4], bool keep) {
    constexpr u64 form = wgmma_swizzled(P::tile_keys * 128, 1024);
    const u64 b = form + wgmma_address(base + L::values_at + values.stage * L::value_bytes);
#pragma unroll
    for (int k = 0; k < P::tile_keys / 16; ++k)
      f.values(o, p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3], b + k * 128, k != 0 || keep);
    wgmma_commit();
  }

  /// What scores of a tile need besides products is under way while these are.
  PL_DEVICE void ask(typename F::Ahead& ahead, int tile) {
    if (!P::plain) f.ask(ahead, unit, row0, row1, tile * P::tile_keys + lane % 4 * 2);
  }

  /// Products become scores.
  PL_DEVICE void score(float (&s)[P::tile_keys / 2], const typename F::Ahead& ahead, int tile,
                       const AttentionSpan& span) {
    if (P::plain && !P::masks) return;
    const int first = tile * P::tile_keys + lane % 4 * 2;
    if (P::masks && (tile < span.free_begin || tile >= span.free_end)) {
#pragma unroll
      for (int i = 0; i < P::tile_keys / 2; ++i) {
        const int row = i % 4 < 2 ? row0 : row1, key = first + i / 4 * 8 + i % 2;
        if (!f.visible(row, key))
          s[i] = attention_none();
        else if (!P::plain)
          s[i] = f.score(unit, row, key, s[i], ahead, i);
      }
    } else if (!P::plain) {
#pragma unroll
      for (int i = 0; i < P::tile_keys / 2; ++i)
        s[i] = f.score(unit, i % 4 < 2 ? row0 : row1, first + i / 4 * 8 + i % 2, s[i], ahead, i);
    }
  }

  PL_DEVICE void rescale(float (&o)[L::columns / 2]) {
#pragma unroll
    for (int i = 0; i < L::columns / 2; ++i) o[i] *= rows.less[i % 4 / 2];
  }

  /// While the tensor core multiplies a tile's scores and the one before's weights with its values, this one's scores
  /// become weights.
  PL_DEVICE void walk_overlapped(const AttentionSpan& span, float (&o)[L::columns / 2]) {
    float s[P::tile_keys / 2];
    u32 p[P::tile_keys / 4];
    int tile = span.end - 1;
    barrier_wait(barriers.keys_in(keys.stage), keys.parity);
    take_turn();
    wgmma_fence();
    multiply_keys(s);
    end_turn();
    typename F::Ahead ahead;
    ask(ahead, tile);
    wgmma_wait<0>();
    wgmma_hold(s);
    leave(barriers.keys_out(keys.stage));
    keys.step();
    score(s, ahead, tile, span);
    attention_soften<P>(s, rows);
    attention_round<P::bf16>(s, p);
    bool keep = false;
#pragma unroll 1
    for (--tile; tile >= span.begin; --tile) {
      barrier_wait(barriers.keys_in(keys.stage), keys.parity);
      take_turn();
      wgmma_hold(s);
      wgmma_hold(o);
      wgmma_fence();
      multiply_keys(s);
      barrier_wait(barriers.values_in(values.stage), values.parity);
      multiply_values(o, p, keep);
      keep = true;
      end_turn();
      ask(ahead, tile);
      wgmma_wait<1>();
      wgmma_hold(s);
      leave(barriers.keys_out(keys.stage));
      keys.step();
      score(s, ahead, tile, span);
      const bool changed = attention_soften<P>(s, rows);
      wgmma_wait<0>();
      wgmma_hold(o);
      leave(barriers.values_out(values.stage));
      values.step();
      if (changed) rescale(o);
      attention_round<P::bf16>(s, p);
    }
    leave(barriers.queries_out());
    barrier_wait(barriers.values_in(values.stage), values.parity);
    wgmma_hold(o);
    wgmma_fence();
    multiply_values(o, p, keep);
    wgmma_wait<0>();
    wgmma_hold(o);
    leave(barriers.values_out(values.stage));
    values.step();
  }

  /// The same one after the other, with fewer registers.
  PL_DEVICE void walk(const AttentionSpan& span, float (&o)[L::columns / 2]) {
    bool keep = false;
#pragma unroll 1
    for (int tile = span.end - 1; tile >= span.begin; --tile) {
      float s[P::tile_keys / 2];
      u32 p[P::tile_keys / 4];
      barrier_wait(barriers.keys_in(keys.stage), keys.parity);
      take_turn();
      wgmma_fence();
      multiply_keys(s);
      typename F::Ahead ahead;
      ask(ahead, tile);
      wgmma_wait<0>();
      wgmma_hold(s);
      end_turn();
      leave(barriers.keys_out(keys.stage));
      keys.step();
      score(s, ahead, tile, span);
      if (attention_soften<P>(s, rows) && keep) rescale(o);
      attention_round<P::bf16>(s, p);
      barrier_wait(barriers.values_in(values.stage), values.parity);
      wgmma_hold(o);
      wgmma_fence();
      multiply_values(o, p, keep);
      keep = true;
      wgmma_wait<0>();
      wgmma_hold(o);
      leave(barriers.values_out(values.stage));
      values.step();
    }
    leave(barriers.queries_out());
  }

  /// Sums, divided, go through shared memory to the epilogue, 8 rows at a time.
  PL_DEVICE void store(float (&o)[L::columns / 2], float* exchange) {
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      rows.sum[h] += __shfl_xor_sync(~0u, rows.sum[h], 1);
      rows.sum[h] += __shfl_xor_sync(~0u, rows.sum[h], 2);
      const float top = rows.top[h] * P::natural, own = top == attention_none() ? 0.0f : top, shift = f.shift(top);
      // The exponentials' own base, against what the definition takes from the scores.
      const float by = own == shift ? 1.0f : expf(own - shift);
      factor[h] = by / f.divisor(top, rows.sum[h] * by);
    }
    float* const mine = exchange + lane / 4 * L::exchange_pitch + lane % 4 * 2;
#pragma unroll
    for (int part = 0; part < L::columns; part += P::exchange) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        __syncwarp();
#pragma unroll
        for (int j = part; j < part + P::exchange && j < L::columns; j += 8) {
          mine[j - part] = o[j / 2 + h * 2] * factor[h];
          mine[j - part + 1] = o[j / 2 + h * 2 + 1] * factor[h];
        }
        __syncwarp();
        const int row = own_row + h * 8, valid = min(P::rows - row, 8);
        if (valid > 0) f.template store<L::exchange_pitch, P::exchange>(unit, row, valid, part, lane, exchange);
      }
    }
    __syncwarp();
  }

  const F& f;
  const u32 base;
  const AttentionBarriers<P> barriers;
  const int group;
  int lane, warp, unit, own_row, row0, row1;
  AttentionRing<P::stages> keys, values;
  AttentionRows rows;
};

/// The registers that a thread of a consumer may have, and one of the producer's warpgroup.
PL_DEVICE constexpr int attention_consumer_registers(int consumers) {
  return consumers == 3 ? 160 : 240;
}
PL_DEVICE constexpr int attention_producer_registers(int consumers) {
  return consumers == 3 ? 32 : 24;
}

/// All of a kernel of AttentionLayout<P>::threads threads a block, at most one block a multiprocessor, with `bytes` +
/// 1024 of dynamic shared memory at `memory`, and maps_bytes of global memory a block at `maps`. Any number of blocks.
template <typename P, typename F>
PL_DEVICE void attention(const F& f, unsigned char* memory, char* maps) {
  using L = AttentionLayout<P>;
  const u32 base = (shared_address(memory) + 1023u) & ~1023u;
  const AttentionBarriers<P> barriers{base + L::barriers_at};
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  char* const own_maps = maps + (int)blockIdx.x * L::maps_bytes;
  if (threadIdx.x == 0) {
    barrier_init(barriers.queries_in(), 1);
    barrier_init(barriers.queries_out(), 4 * P::consumers);
    for (int i = 0; i < P::stages; ++i) {
      barrier_init(barriers.keys_in(i), 1);
      barrier_init(barriers.values_in(i), 1);
      barrier_init(barriers.keys_out(i), 4 * P::consumers);
      barrier_init(barriers.values_out(i), 4 * P::consumers);
    }
    barrier_init_fence();
  }
  if (threadIdx.x < 32) {
    if (threadIdx.x < 24) shared_clear(base + threadIdx.x * 16);
    __syncwarp();
    if (threadIdx.x == 0) {
      f.map_queries(base);
      f.map_keys(base + 128);
      f.map_values(base + 256);
    }
    __syncwarp();
    for (int i = 0; i < 3; ++i) tensor_map_publish(own_maps + i * 128, base + i * 128);
    if (threadIdx.x == 0) {
      for (int i = 0; i < 3; ++i) tensor_map_acquire(own_maps + i * 128);
      barrier_init_fence();
    }
  }
  __syncthreads();
  if (group == 0) {
    if (P::consumers > 1) registers_decrease<attention_producer_registers(P::consumers)>();
    if (threadIdx.x == 0) attention_produce<P>(f, base, own_maps);
  } else {
    if (P::consumers > 1) registers_increase<attention_consumer_registers(P::consumers)>();
    unsigned char* const exchange = memory + (base - shared_address(memory)) + L::exchange_at;
    AttentionConsumer<P, F> consumer(f, base, group - 1);
    consumer.run((float*)exchange + ((group - 1) * 4 + (int)threadIdx.x % 128 / 32) * (8 * L::exchange_pitch));
  }
}
template <typename T> PL_DEVICE T pl_ldg(const T* p) { return __ldg(p); }
PL_WGMMA_SHARED(pl_scores, 80, "bf16", 0)
PL_WGMMA_REGISTERS(pl_values, 24, "bf16", 1)
struct Policy {
  static constexpr int features = 40, columns = 24, rows = 100, keys = 130, units = 6;
  static constexpr int tile_keys = 80, consumers = 1, stages = 2, section = 1, exchange = 32;
  static constexpr bool overlap = true, ping_pong = false, bf16 = true, plain = true, masks = true;
  static constexpr float scale = 0x1.d32b66p-3f, natural = 0x1.43d136p-3f, slack = 0;
};
struct Functors {
  const unsigned short* in0;
  const unsigned short* in1;
  const unsigned short* in2;
  unsigned short* out0;
  PL_DEVICE void scores(float (&d)[40], u64 a, u64 b, int keep) const { pl_scores(d, a, b, keep); }
  PL_DEVICE void values(float (&d)[12], u32 a0, u32 a1, u32 a2, u32 a3, u64 b, int keep) const {
    pl_values(d, a0, a1, a2, a3, b, keep);
  }
  PL_DEVICE void map_queries(u32 map) const {
    tensor_map_begin<3, true>(map, in0 + 0ll);
    tensor_map_dim<0>(map, 40, 64);
    tensor_map_dim<1>(map, 100, 64);
    tensor_map_stride<1>(map, 80ull);
    tensor_map_dim<2>(map, 6, 1);
    tensor_map_stride<2>(map, 8000ull);
  }
  PL_DEVICE void load_queries(u32 to, const void* map, u32 barrier, int unit, int row, int column) const {
    const int d0 = (unsigned)(unit);
    tensor_load(to, map, barrier, column, row, (int)d0);
  }
  PL_DEVICE void map_keys(u32 map) const {
    tensor_map_begin<3, true>(map, in1 + 0ll);
    tensor_map_dim<0>(map, 40, 64);
    tensor_map_dim<1>(map, 130, 80);
    tensor_map_stride<1>(map, 80ull);
    tensor_map_dim<2>(map, 6, 1);
    tensor_map_stride<2>(map, 10400ull);
  }
  PL_DEVICE void load_keys(u32 to, const void* map, u32 barrier, int unit, int row, int column) const {
    const int d0 = (unsigned)(unit);
    tensor_load(to, map, barrier, column, row, (int)d0);
  }
  PL_DEVICE void map_values(u32 map) const {
    tensor_map_begin<3, true>(map, in2 + 0ll);
    tensor_map_dim<0>(map, 24, 64);
    tensor_map_dim<1>(map, 130, 80);
    tensor_map_stride<1>(map, 48ull);
    tensor_map_dim<2>(map, 6, 1);
    tensor_map_stride<2>(map, 6240ull);
  }
  PL_DEVICE void load_values(u32 to, const void* map, u32 barrier, int unit, int row, int column) const {
    const int d0 = (unsigned)(unit);
    tensor_load(to, map, barrier, column, row, (int)d0);
  }
  PL_DEVICE AttentionSpan tiles(int first, int last) const {
    int begin = 0, end = 2, free_begin = 0, free_end = 1;
    return {begin, end, free_begin, free_end};
  }
  PL_DEVICE bool visible(int row, int key) const {
    return key < 130;
  }
  struct Ahead {
  };
  PL_DEVICE void ask(Ahead& ahead, int unit, int row0, int row1, int first) const {
  }
  PL_DEVICE float score(int unit, int row, int key, float product, const Ahead& ahead, int i) const {
    return product;
  }
  PL_DEVICE float shift(float maximum) const {
    const float v8 = maximum;
    const float v9 = (-PL_INF_F32);
    const bool v10 = (v8 == v9);
    const float v11 = 0x0p+0f;
    const float v12 = (v10 ? v11 : v8);
    return v12;
  }
  PL_DEVICE float divisor(float maximum, float total) const {
    const float v11 = 0x0p+0f;
    const float v15 = total;
    const bool v16 = (v15 == v11);
    const float v17 = 0x1p+0f;
    const float v18 = (v16 ? v17 : v15);
    return v18;
  }
  template <int pitch, int width>
  PL_DEVICE void store(int unit, int row, int valid, int column, int lane, const float* exchange) const {
    const int d0 = (unsigned)(unit);
    #pragma unroll
    for (int i = lane; i < width; i += 32) {
      const int r = i / (width / 8), first = column + i % (width / 8) * 8;
      if (r >= valid || first >= 24) continue;
      const int d1 = row + r;
      __align__(16) float sums[8];
      *(float4*)(sums + 0) = *(const float4*)(exchange + r * pitch + (first - column) + 0);
      *(float4*)(sums + 4) = *(const float4*)(exchange + r * pitch + (first - column) + 4);
      float got0[8];
      #pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int d2 = first + e;
        const float folded = sums[e];
        const float v23 = folded;
        got0[e] = v23;
      }
      const int d2 = first;
      *(uint4*)(out0 + (2400 * d0 + 24 * d1 + d2)) = make_uint4(pack_bf16(got0[0], got0[1]), pack_bf16(got0[2], got0[3]), pack_bf16(got0[4], got0[5]), pack_bf16(got0[6], got0[7]));
    }
  }
};
// ---- kernel ----
extern "C" __global__ void __launch_bounds__(256, 1) planish_kernel(const unsigned short* __restrict__ in0, const unsigned short* __restrict__ in1, const unsigned short* __restrict__ in2, unsigned short* __restrict__ out0, char* __restrict__ maps) {
  extern __shared__ __align__(16) unsigned char pl_smem[];
  const Functors f{in0, in1, in2, out0};
  attention<Policy>(f, pl_smem, maps);
}
