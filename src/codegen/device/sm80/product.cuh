#pragma once
// Products of 16-bit factors by mma.sync: out[m, n] = result(Σ_k a[m, k] · b[k, n]), with sums in fp32. All threads of
// a block bring tiles by cp.async from where a and b lie, in either major order, into a ring of stages, and multiply
// what came before; what the next tile of the block needs is asked for while this one's results leave. Warps share a
// tile's rows and columns. Where there are few tiles, several blocks have a part of k each; the last to arrive adds the
// parts in their order. Rows may be sorted in groups, each with a b of its own (experts).
//
// Policy (all constexpr): as sm90/product.cuh has it, of rows, columns, depth, units, groups, parts, tile_rows,
// tile_columns, stages, splits, raster, a_across, b_across, result_bytes and words; and
//   int tile_depth                      k of a stage: 32 or 64
//   int warps_rows, warps_columns       that share a tile: each has a multiple of 16 of both; of an operand whose
//   memory
//                                       runs across k a power of two
//   int resident                        blocks of a multiprocessor
//   bool bf16                           instead of f16
//   long long a_row, a_depth            elements from a row of a to the next, and from a k to the next
//   long long b_row, b_depth            the same of b, whose rows are columns of the result
//
// Functors F: result() and place() as sm90/product.cuh has them, group_end(i) where there are groups, and
//   a(unit), b(part, unit)              where their first elements lie; unit: of a batch, or b's group

#include "product_tiles.cuh"
#include "sm80/fragments.cuh"
#include "sm80/ptx.cuh"

/// Where things lie in shared memory, in bytes from a multiple of 128.
template <typename P>
struct MmaProductLayout {
  static constexpr int cluster = 1;
  static constexpr bool share_a = false, share_b = false;
  static constexpr int pair_rows = P::tile_rows, pair_columns = P::tile_columns;
  static constexpr int across = (P::columns + pair_columns - 1) / pair_columns;
  static constexpr int down = (P::rows + pair_rows - 1) / pair_rows;
  static constexpr int steps = (P::depth + P::tile_depth - 1) / P::tile_depth;
  static constexpr int warps = P::warps_rows * P::warps_columns, threads = 32 * warps;
  static constexpr int own_rows = P::tile_rows / P::warps_rows, own_columns = P::tile_columns / P::warps_columns;
  static constexpr int blocks = own_rows / 16, sums = P::parts * own_columns / 2;  // of a thread and 16 rows
  static constexpr int a_bytes = (P::a_across ? (P::tile_rows + 63) / 64 * 64 : P::tile_rows) * P::tile_depth * 2;
  static constexpr int b_bytes = (P::b_across ? (P::tile_columns + 63) / 64 * 64 : P::tile_columns) * P::tile_depth * 2;
  static constexpr int stage_bytes = a_bytes + P::parts * b_bytes;
  static constexpr int exchange_at = P::stages * stage_bytes;  // of a warp, 16 rows of 128 bytes
  static constexpr int last_at = exchange_at + warps * 2048;
  static constexpr int table_at = last_at + 16;
  static constexpr int bytes = table_at + (P::groups > 0 ? 8 * (P::groups + 1) : 0);
  static constexpr int partial_floats = P::tile_rows * P::tile_columns * P::parts;  // of a tile and a part of k
  static constexpr int tiles = across * down * P::units;                            // where there are no groups

  static PL_DEVICE constexpr bool is_power(int n) { return (n & (n - 1)) == 0; }
  static_assert(P::tile_depth == 32 || P::tile_depth == 64);
  static_assert(own_rows * P::warps_rows == P::tile_rows && own_columns * P::warps_columns == P::tile_columns);
  static_assert(own_rows % 16 == 0 && own_columns % 16 == 0 && P::stages >= 2);
  static_assert(!P::a_across || (is_power(own_rows) && is_power(P::tile_rows)));
  static_assert(!P::b_across || (is_power(own_columns) && is_power(P::tile_columns)));
  static_assert(P::splits <= steps && (P::groups == 0 || (P::units == 1 && P::splits == 1)));
};

/// What a thread brings of one operand: pieces of 16 bytes, some rows, or some k, from each other.
template <int rows, int limit, int depth, int whole_depth, bool across, int threads, long long row_stride,
          long long depth_stride>
struct ProductSource {
  static constexpr int line = across ? rows / 8 : depth / 8;  // pieces side by side in memory
  static constexpr int pieces = (across ? depth : rows) * line / threads;
  static constexpr int apart = threads / line;  // k, or rows
  static constexpr bool some = pieces * threads != (across ? depth : rows) * line;
  static_assert(threads % line == 0 && pieces + some <= 32 && (across || apart % 8 == 0));
  const char* from;
  u32 there;  ///< a bit a piece; across, of all

  static PL_DEVICE int own_row() { return across ? (int)threadIdx.x % line * 8 : (int)threadIdx.x / line; }
  static PL_DEVICE int own_k() { return across ? (int)threadIdx.x / line : (int)threadIdx.x % line * 8; }

  PL_DEVICE void find(const u16* operand, int row, int k) {
    row += own_row();
    from = (const char*)(operand + row * row_stride + (k + own_k()) * depth_stride);
    there = 0;
    if constexpr (across) {
      there = row < limit;
    } else {
#pragma unroll
      for (int i = 0; i < pieces + some; ++i) there |= (u32)(row + i * apart < limit) << i;
    }
  }

  /// Those of one stage, and steps on.
  PL_DEVICE void bring(u32 to, int k) {
    const u32 own = to + fragment_place<across, depth>(own_row(), own_k());
#pragma unroll
    for (int i = 0; i < pieces + some; ++i) {
      const int further = i * apart;
      bool is_there = across ? there != 0 : (there >> i & 1) != 0;
      if (whole_depth % depth != 0) is_there = is_there & (k + own_k() + (across ? further : 0) < whole_depth);
      const char* const at = from + further * (across ? depth_stride : row_stride) * 2;
      const u32 place = across && apart % 8 != 0 ? to + fragment_place<across, depth>(own_row(), own_k() + further)
                                                 : own + further * (across ? 128 : depth * 2);
      if (!some || i < pieces || (int)threadIdx.x + i * threads < (across ? depth : rows) * line)
        cp_async_if(place, at, is_there);
    }
    from += depth * depth_stride * 2;
  }
};

template <typename P, typename F>
class MmaProduct {
  using L = MmaProductLayout<P>;
  using SourceA =
      ProductSource<P::tile_rows, P::rows, P::tile_depth, P::depth, P::a_across, L::threads, P::a_row, P::a_depth>;
  using SourceB = ProductSource<P::tile_columns, P::columns, P::tile_depth, P::depth, P::b_across, L::threads, P::b_row,
                                P::b_depth>;

 public:
  PL_DEVICE MmaProduct(const F& functors, u32 shared, unsigned char* memory, const int* table, float* partial,
                       u32* arrived)
      : f(functors),
        base(shared),
        memory(memory),
        walk(table),
        ahead(table),
        partial(partial),
        arrived(arrived),
        warp(__shfl_sync(~0u, (int)threadIdx.x / 32, 0)),
        own_a(warp / P::warps_columns * L::own_rows),
        own_b(warp % P::warps_columns * L::own_columns) {}

  PL_DEVICE void run() {
    begin_next();
    for (int i = 0; i < P::stages - 1; ++i) ask(i);
    int stage = 0;
    while (walk.next()) {
      float sums[L::blocks][L::sums / 4][4];
#pragma unroll
      for (int block = 0; block < L::blocks; ++block) {
#pragma unroll
        for (int i = 0; i < L::sums; ++i) sums[block][i / 4][i % 4] = 0.0f;
      }
#pragma unroll 1
      for (int step = walk.begin; step < walk.end; ++step) {
        // This stage is there, and all have left the one before, whose place is the next to fill.
        cp_async_wait<P::stages - 2>();
        __syncthreads();
        ask(stage == 0 ? P::stages - 1 : stage - 1);
        multiply(sums, base + stage * L::stage_bytes);
        stage = stage + 1 == P::stages ? 0 : stage + 1;
      }
      if (P::splits > 1 && !add_parts(sums)) continue;
#pragma unroll
      for (int block = 0; block < L::blocks; ++block) {
        const int down = warp / P::warps_columns * L::own_rows + block * 16;
        product_store<P, L::own_columns>(
            f, [&](int i) { return sums[block][i / 4][i % 4]; }, memory + L::exchange_at + warp * 2048, walk.unit,
            walk.row + down, walk.row_end, walk.column + warp % P::warps_columns * L::own_columns);
      }
    }
    cp_async_wait<0>();
  }

 private:
  PL_DEVICE void begin_next() {
    more = ahead.next();
    if (!more) return;
    at = ahead.begin;
    const int k = at * P::tile_depth;
    a.find(f.a(P::groups > 0 ? 0 : ahead.unit), ahead.row, k);
#pragma unroll
    for (int part = 0; part < P::parts; ++part) b[part].find(f.b(part, ahead.unit), ahead.column, k);
  }

  /// Asks for the next stage of the block's, if there is one. Always ends a group, so that groups count stages.
  PL_DEVICE void ask(int stage) {
    if (more) {
      const u32 to = base + stage * L::stage_bytes;
      a.bring(to, at * P::tile_depth);
#pragma unroll
      for (int part = 0; part < P::parts; ++part)
        b[part].bring(to + L::a_bytes + part * L::b_bytes, at * P::tile_depth);
      if (++at == ahead.end) begin_next();
    }
    cp_async_commit();
  }

  PL_DEVICE void load(u32 (&x)[L::blocks][4], u32 (&y)[L::sums / 8][4], u32 tile, int k) const {
#pragma unroll
    for (int i = 0; i < L::blocks; ++i) own_a.load(x[i], tile, i, k);
#pragma unroll
    for (int i = 0; i < L::sums / 8; ++i) {
      constexpr int of_part = L::own_columns / 16;
      own_b.load(y[i], tile + L::a_bytes + i / of_part * L::b_bytes, i % of_part, k);
    }
  }

  /// Fragments of the next 16 k are under way while these are multiplied.
  PL_DEVICE void multiply(float (&sums)[L::blocks][L::sums / 4][4], u32 tile) const {
    u32 x[2][L::blocks][4], y[2][L::sums / 8][4];
    load(x[0], y[0], tile, 0);
#pragma unroll
    for (int k = 0; k < P::tile_depth / 16; ++k) {
      if (k + 1 < P::tile_depth / 16) load(x[(k + 1) % 2], y[(k + 1) % 2], tile, (k + 1) * 16);
#pragma unroll
      for (int j = 0; j < L::sums / 4; ++j) {
#pragma unroll
        for (int i = 0; i < L::blocks; ++i) {
          const u32(&p)[4] = x[k % 2][i];
          const u32(&q)[4] = y[k % 2][j / 2];
          mma_16x8x16<P::bf16>(sums[i][j], p[0], p[1], p[2], p[3], q[j % 2 * 2], q[j % 2 * 2 + 1]);
        }
      }
    }
  }

  /// Keeps this part of k; true where it was the last, with the sums of all, added in their order.
  PL_DEVICE bool add_parts(float (&sums)[L::blocks][L::sums / 4][4]) {
    float* const all = partial + (long long)walk.tile * P::splits * L::partial_floats + (int)threadIdx.x * 4;
    return product_add_parts<L::blocks, L::sums, L::threads, P::splits>(
        [&](int block, int i) { return &sums[block][i / 4][0]; }, [] { __syncthreads(); }, all, L::partial_floats,
        walk.split, arrived + walk.tile, (u32*)(memory + L::last_at), threadIdx.x == 0);
  }

  const F& f;
  const u32 base;
  unsigned char* const memory;
  ProductWalk<P, L> walk, ahead;  ///< of what is multiplied, and of what is asked for
  bool more;
  int at;
  SourceA a;
  SourceB b[P::parts];
  float* const partial;
  u32* const arrived;
  const int warp;
  const OperandFragments<true, P::a_across, P::tile_depth> own_a;
  const OperandFragments<false, P::b_across, P::tile_depth> own_b;
};

/// All of a kernel of MmaProductLayout<P>::threads threads a block, with `bytes` + 128 of dynamic shared memory at
/// `memory`. Where k is split `partial` has tiles · splits · partial_floats, and `arrived` a zero for each tile, which
/// is zero again at the end. Any number of blocks.
template <typename P, typename F>
PL_DEVICE void product_by_mma(const F& f, unsigned char* memory, float* partial, u32* arrived) {
  using L = MmaProductLayout<P>;
  const u32 base = (shared_address(memory) + 127u) & ~127u;
  unsigned char* const own = memory + (base - shared_address(memory));
  int* const table = (int*)(own + L::table_at);
  if constexpr (P::groups > 0) {
    if (threadIdx.x < 32) product_table<P, L>(f, table);
    __syncthreads();
  }
  MmaProduct<P, F> block(f, base, own, table, partial, arrived);
  block.run();
}
