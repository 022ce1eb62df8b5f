#pragma once
// Products of factors of 16 or 8 bits: out[m, n] = result(Σ_k a[m, k] · b[k, n]), with sums in fp32. A persistent
// kernel: one producer thread brings tiles by tensor maps from where a and b lie, in either major order; consumer
// warpgroups multiply. Consumers share a tile's rows (cooperative), or have tiles of their own in turn, so that one's
// epilogue runs while the other multiplies (ping-pong). Two blocks of a cluster may share the tiles of one operand
// (multicast). Where there are few tiles, several blocks have a part of k each; the last to arrive adds the parts in
// their order, so that results have the same bits every time. Rows may be sorted in groups, each with a b of its own
// (experts). Or they are places of images, of which a tile is a box, and k is taps and of each its channels
// (convolutions). Of floats of 8 bits tensor cores keep some 14 bits of a sum: what each step gives is added in fp32,
// and blocks of 128 k may have scales. Of integers of 8 bits they keep all of it, in i32.
//
// Policy (all constexpr):
//   int rows, columns, depth    of a product: m, n, k
//   int units                   products of a batch; 1 where there are groups
//   int groups                  0, or how many bs share the rows: f.group_end(i) says where group i's rows end
//   int parts                   products of one a with several bs, of which one result is made: gate and up
//   int tile_rows, tile_columns a multiple of 64 a consumer (ping_pong: of 64); a multiple of 8, at most 256 / parts
//   int consumers, stages       warpgroups that multiply; places of the ring, each of a step of k
//   int factor_bytes            2, or 1: a step is 128 bytes of k. 1: not across, nor boxed; of floats not ping_pong
//   bool integer_sums           1 byte: factors are integers, and sums i32
//   bool scales_a               floats of 1 byte: a's rows have a scale for each step
//   int scales_b                floats of 1 byte: 0, or for how many columns b has one for each step: a multiple of 8,
//                               of which tile_columns is a whole part, or the other way round
//   bool ping_pong              a tile a consumer
//   int cluster                 1, or 2 blocks that share b (or a) of tiles above (or beside) each other
//   bool share_b                b is what they share
//   int splits                  parts of k, at most as many as there are steps; 1 where there are groups
//   int raster                  rows of tiles that blocks go through together, columns after columns
//   bool a_across, b_across     memory runs along m, or n, instead of along k
//   bool boxed                  rows are places in boxes, a tile each, of which some may be none; k goes through taps
//   int result_bytes            2, or 4
//   bool words                  8 (of 4 bytes: 4) results from a multiple of these on are 16 aligned bytes of one row
//
// Functors F (values; what one needs of memory it holds as pointers):
//   multiply(d, a, b, keep)                     the instruction: m64, n of all parts' tile_columns, 32 bytes of k
//   scale_a(unit, row, k), scale_b(unit, column, k)
//                                               with scales_a, scales_b: of the step that begins at k. Rows and columns
//                                               behind the last are asked for, too
//   map_a(map, rows), map_b(map, part, rows)    fill in tensor maps at shared addresses, of boxes of so many rows
//   load_a<mask>(to, map, barrier, unit, x, y), load_b<mask>(…)     a box; x is where memory runs along. To the blocks
//                                               of the mask, or to this one if it is 0. unit: of a batch, or b's group
//   taps(k)                                     where rows are boxed alone: the tap and channels that k, a multiple of
//                                               64, stands for, as a value whose next() goes 64 further. It and a row,
//                                               or column, are what load_a and load_b have in place of x and y then
//   inside(row)                                 likewise: whether there is such a place
//   result(out, unit, row, column, sums)        two neighbours: u32 out[result_bytes / 2], float sums[parts][2], or
//                                               int. It is asked for places outside, too, which are not stored
//   place(unit, row, column)                    where a result goes; neighbouring columns are neighbours
//   piece(unit, row, column)                    with Folds (product_folds.cuh) alone: where goes what remains of a run
//                                               of that row, and result() has one more argument: float
//                                               more[Folds::count][2]

#include "product_tiles.cuh"
#include "sm90/pipeline.cuh"
#include "sm90/ptx.cuh"
#include "sm90/wgmma.cuh"

/// Where things lie in shared memory, in bytes from a multiple of 1024.
template <typename P>
struct ProductLayout {
  static constexpr int own_rows = P::ping_pong ? P::tile_rows : P::tile_rows / P::consumers;  // of a consumer
  static constexpr int blocks = own_rows / 64;
  static constexpr int sums = P::parts * P::tile_columns / 2;  // of a thread and a block, part by part
  static constexpr int cluster = P::cluster;
  static constexpr bool share_a = P::cluster > 1 && !P::share_b, share_b = P::cluster > 1 && P::share_b;
  static constexpr int a_box = P::a_across ? 64 : P::tile_rows / (share_a ? P::cluster : 1);
  static constexpr int b_box = P::b_across ? 64 : P::tile_columns / (share_b ? P::cluster : 1);
  static constexpr int a_lines = P::tile_rows / 64, b_lines = (P::tile_columns + 63) / 64;  // of 128 bytes, across
  static constexpr int a_bytes = P::tile_rows * 128;
  static constexpr int b_bytes = P::b_across ? b_lines * 8192 : P::tile_columns * 128;  // of a part
  static constexpr int stage_bytes = a_bytes + P::parts * b_bytes;
  static constexpr int exchange_at = P::stages * stage_bytes;  // of a warp, 16 rows of 128 bytes
  static constexpr int barriers_at = exchange_at + P::consumers * 4 * 2048;
  static constexpr int last_at = barriers_at + 16 * P::stages;  // of a consumer: whether it adds the parts
  static constexpr int table_at = last_at + 16;
  static constexpr int bytes = table_at + (P::groups > 0 ? 8 * (P::groups + 1) : 0);
  static constexpr int threads = 128 * (P::consumers + 1);
  static constexpr int maps = 1 + P::parts, maps_bytes = 128 * maps;  // of a block
  static constexpr int step_depth = 128 / P::factor_bytes;
  static constexpr int steps = (P::depth + step_depth - 1) / step_depth;
  static constexpr bool promotes = P::factor_bytes == 1 && !P::integer_sums;
  static constexpr int pair_rows = P::tile_rows * (share_b ? P::cluster : 1);  // of a cluster
  static constexpr int pair_columns = P::tile_columns * (share_a ? P::cluster : 1);
  static constexpr int across = (P::columns + pair_columns - 1) / pair_columns;
  static constexpr int down = (P::rows + pair_rows - 1) / pair_rows;
  static constexpr int partial_floats = P::tile_rows * P::tile_columns * P::parts;  // of a tile and a part of k
  static constexpr int tiles = across * down * P::units * P::cluster;               // where there are no groups

  static_assert(own_rows % 64 == 0 && P::tile_columns % 8 == 0 && sums <= 128 && P::consumers <= 3);
  static_assert(P::parts == 1 || !P::b_across || P::tile_columns % 64 == 0);  // parts lie behind each other
  static_assert((!P::ping_pong || P::consumers == 2) && maps <= 4);
  static_assert(!share_a || (P::a_across ? a_lines : P::tile_rows / 8) % P::cluster == 0);
  static_assert(!share_b || (P::b_across ? b_lines : P::tile_columns / 8) % P::cluster == 0);
  static_assert(P::splits <= steps && (P::groups == 0 || (P::units == 1 && P::splits == 1)));
  static_assert(P::factor_bytes == 2 || (!P::a_across && !P::b_across && !P::boxed && P::parts == 1));
  static_assert(!promotes || !P::ping_pong);
  static_assert(!P::integer_sums || (P::factor_bytes == 1 && !P::scales_a && P::scales_b == 0));
  static_assert(P::scales_b == 0 || P::scales_b % P::tile_columns == 0 || P::tile_columns % P::scales_b == 0);
  static_assert(!P::boxed || (P::groups == 0 && P::parts == 1 && !P::a_across && !P::b_across && P::depth % 64 == 0));
};

/// Barriers of a block, at shared addresses.
template <typename P>
struct ProductBarriers {
  u32 base;
  PL_DEVICE u32 in(int stage) const { return base + 8 * stage; }
  PL_DEVICE u32 out(int stage) const { return base + 8 * (P::stages + stage); }
};

/// Where a step of k begins, as functors that go through taps have it; nothing elsewhere.
template <typename P, typename F>
PL_DEVICE auto product_taps(const F& f, int step) {
  if constexpr (P::boxed)
    return f.taps(step * 64);
  else
    return 0;
}

/// One thread: asks for all that the consumers will read.
template <typename P, typename F>
PL_DEVICE void product_produce(const F& f, u32 base, const char* maps, const int* table) {
  using L = ProductLayout<P>;
  constexpr int all = (1 << P::cluster) - 1;
  const ProductBarriers<P> barriers{base + L::barriers_at};
  PipelinePlace<P::stages> ring;
#pragma unroll
  for (int i = 0; i < L::maps; ++i) tensor_map_acquire(maps + i * 128);
  for (ProductWalk<P, L> walk(table); walk.next();) {
    const int a_unit = P::groups > 0 ? 0 : walk.unit;
    auto taps = product_taps<P>(f, walk.begin);
#pragma unroll 1
    for (int step = walk.begin; step < walk.end; ++step) {
      const u32 in = barriers.in(ring.stage);
      barrier_wait(barriers.out(ring.stage), ring.parity ^ 1);
      barrier_expect(in, L::stage_bytes);
      // Of what is shared each block brings its part to both.
      constexpr int a_pieces = (P::a_across ? L::a_lines : 1) / (L::share_a && P::a_across ? P::cluster : 1);
      constexpr int b_pieces = (P::b_across ? L::b_lines : 1) / (L::share_b && P::b_across ? P::cluster : 1);
      const u32 a = base + ring.stage * L::stage_bytes;
      const int k = step * L::step_depth;
#pragma unroll
      for (int i = 0; i < a_pieces; ++i) {
        const int at = ((L::share_a ? walk.rank * a_pieces : 0) + i) * L::a_box;
        constexpr int blocks = L::share_a ? all : 0;
        if constexpr (P::boxed)
          f.template load_a<blocks>(a + at * 128, maps, in, a_unit, taps, walk.row + at);
        else
          f.template load_a<blocks>(a + at * 128, maps, in, a_unit, P::a_across ? walk.row + at : k,
                                    P::a_across ? k : walk.row + at);
      }
#pragma unroll
      for (int part = 0; part < P::parts; ++part) {
#pragma unroll
        for (int i = 0; i < b_pieces; ++i) {
          const int at = ((L::share_b ? walk.rank * b_pieces : 0) + i) * L::b_box;
          constexpr int blocks = L::share_b ? all : 0;
          const u32 to = a + L::a_bytes + part * L::b_bytes + at * 128;
          const char* const map = maps + (1 + part) * 128;
          if constexpr (P::boxed)
            f.template load_b<blocks>(to, map, in, walk.unit, taps, walk.column + at);
          else
            f.template load_b<blocks>(to, map, in, walk.unit, P::b_across ? walk.column + at : k,
                                      P::b_across ? k : walk.column + at);
        }
      }
      if constexpr (P::boxed) taps.next();
      ring.step();
    }
  }
  // The block stays until all that the other one says to its barriers has arrived there.
  for (int i = 0; P::cluster > 1 && i < P::stages; ++i) {
    barrier_wait(barriers.out(ring.stage), ring.parity ^ 1);
    ring.step();
  }
}

template <typename P, typename Folds, typename F>
class ProductConsumer {
  using L = ProductLayout<P>;
  using Sum = typename ProductSum<P::integer_sums>::type;

 public:
  PL_DEVICE ProductConsumer(const F& functors, u32 shared, unsigned char* memory, const int* table, float* partial,
                            u32* arrived, int warpgroup)
      : f(functors),
        base(shared),
        barriers{shared + L::barriers_at},
        walk(table),
        partial(partial),
        arrived(arrived),
        group(warpgroup) {
    thread = (int)threadIdx.x % 128;
    lane = thread % 32;
    exchange = memory + L::exchange_at + (group * 4 + thread / 32) * 2048;
    last = (u32*)(memory + L::last_at) + group;
  }

  PL_DEVICE void run() {
    if (P::ping_pong && group == 1) hand_on();
    for (int turn = 0; walk.next(); ++turn) {
      if (P::ping_pong && turn % P::consumers != group) {
        ring.skip(walk.end - walk.begin);
        continue;
      }
      Sum sums[L::blocks][L::sums];
      if constexpr (L::promotes)
        multiply_promoted(sums);
      else
        multiply(sums);
      if (P::splits > 1 && !add_parts(sums)) continue;
#pragma unroll
      for (int block = 0; block < L::blocks; ++block) {
        const int down = (P::ping_pong ? 0 : group * L::own_rows) + block * 64 + thread / 32 * 16;
        product_store<P, P::tile_columns, Folds, P::boxed>(
            f, [&](int i) { return sums[block][i]; }, exchange, walk.unit, walk.row + down, walk.row_end, walk.column);
      }
    }
  }

 private:
  /// Each consumer has a named barrier, at which it and the other meet.
  PL_DEVICE void hand_on() { named_barrier_arrive(1 + (group + 1) % P::consumers, 256); }

  /// Each warp says to the blocks that write to this place that it has left it.
  PL_DEVICE void leave(int stage, bool really) {
    if (P::cluster == 1) {
      if (lane == 0 && really) barrier_arrive(barriers.out(stage));
    } else {
      if (lane < P::cluster && really) barrier_arrive(barriers.out(stage), lane);
    }
  }

  PL_DEVICE void multiply(Sum (&sums)[L::blocks][L::sums]) {
    constexpr u64 a_form = P::a_across ? wgmma_swizzled(8192, 1024) : wgmma_swizzled(16, 1024);
    constexpr u64 b_form = P::b_across ? wgmma_swizzled(8192, 1024) : wgmma_swizzled(16, 1024);
    constexpr int a_step = P::a_across ? 128 : 2, b_step = P::b_across ? 128 : 2;  // of 16 bytes: 16 k, or 32
    if (P::ping_pong) named_barrier_wait(1 + group, 256);
    hold(sums);
    int before = 0;
#pragma unroll 1
    for (int step = walk.begin; step < walk.end; ++step) {
      barrier_wait(barriers.in(ring.stage), ring.parity);
      const u32 at = base + ring.stage * L::stage_bytes;
      const u64 a = a_form + wgmma_address(at + (P::ping_pong ? 0 : group * L::own_rows * 128));
      const u64 b = b_form + wgmma_address(at + L::a_bytes);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int block = 0; block < L::blocks; ++block)
          f.multiply(sums[block], a + block * 512 + k * a_step, b + k * b_step, k != 0 || step != walk.begin);
      }
      wgmma_commit();
      wgmma_wait<1>();
      leave(before, step != walk.begin);
      before = ring.stage;
      ring.step();
    }
    if (P::ping_pong) hand_on();
    wgmma_wait<0>();
    hold(sums);
    leave(before, true);
  }

  /// As multiply(); each step begins at zero. Where two warpgroups multiply, one adds while the other's products run.
  PL_DEVICE void multiply_promoted(float (&sums)[L::blocks][L::sums]) {
    constexpr u64 form = wgmma_swizzled(16, 1024);
#pragma unroll
    for (int block = 0; block < L::blocks; ++block) {
#pragma unroll
      for (int i = 0; i < L::sums; ++i) sums[block][i] = 0.0f;
    }
#pragma unroll 1
    for (int step = walk.begin; step < walk.end; ++step) {
      const StepScales scales(*this, step);
      barrier_wait(barriers.in(ring.stage), ring.parity);
      const u32 at = base + ring.stage * L::stage_bytes;
      const u64 a = form + wgmma_address(at + group * L::own_rows * 128);
      const u64 b = form + wgmma_address(at + L::a_bytes);
      float products[L::blocks][L::sums];
      hold(products);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int block = 0; block < L::blocks; ++block)
          f.multiply(products[block], a + block * 512 + k * 2, b + k * 2, k != 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
      hold(products);
      leave(ring.stage, true);
      ring.step();
#pragma unroll
      for (int block = 0; block < L::blocks; ++block) {
#pragma unroll
        for (int i = 0; i < L::sums; ++i) sums[block][i] += products[block][i] * scales.of(block, i);
      }
    }
  }

  /// Of a thread's sums, for one step. Asked for before the step's factors are there.
  struct StepScales {
    static constexpr bool by_rows = P::scales_a, by_columns = P::scales_b != 0;
    static constexpr int runs = by_columns && P::tile_columns > P::scales_b ? P::tile_columns / P::scales_b : 1;
    float rows[L::blocks][2], columns[runs];

    PL_DEVICE StepScales(const ProductConsumer& c, int step) {
      const int k = step * L::step_depth, row = c.walk.row + c.group * L::own_rows + c.thread / 32 * 16 + c.lane / 4;
      if constexpr (by_rows) {
#pragma unroll
        for (int block = 0; block < L::blocks; ++block) {
#pragma unroll
          for (int half = 0; half < 2; ++half)
            rows[block][half] = c.f.scale_a(c.walk.unit, row + block * 64 + half * 8, k);
        }
      }
      if constexpr (by_columns) {
#pragma unroll
        for (int i = 0; i < runs; ++i) columns[i] = c.f.scale_b(c.walk.unit, c.walk.column + i * P::scales_b, k);
      }
    }
    PL_DEVICE float of(int block, int i) const {
      float scale = 1.0f;
      if constexpr (by_rows) scale = rows[block][i % 4 / 2];
      if constexpr (by_columns) scale *= columns[runs == 1 ? 0 : i / 4 * 8 / P::scales_b];
      return scale;
    }
  };

  PL_DEVICE void hold(Sum (&sums)[L::blocks][L::sums]) {
#pragma unroll
    for (int block = 0; block < L::blocks; ++block) wgmma_hold(sums[block]);
  }

  /// Keeps this part of k; true where it was the last, with the sums of all, added in their order.
  PL_DEVICE bool add_parts(Sum (&sums)[L::blocks][L::sums]) {
    constexpr int shares = P::ping_pong ? 1 : P::consumers, floats = L::partial_floats / shares;
    const int share = P::ping_pong ? 0 : group;
    float* const all = partial + ((long long)walk.tile * P::splits * shares + share) * floats + thread * 4;
    return product_add_parts<L::blocks, L::sums, 128, P::splits>(
        [&](int block, int i) { return sums[block] + i; }, [&] { named_barrier_wait(4 + group, 128); }, all,
        (long long)shares * floats, walk.split, arrived + walk.tile * shares + share, last, thread == 0);
  }

  const F& f;
  const u32 base;
  const ProductBarriers<P> barriers;
  ProductWalk<P, L> walk;
  PipelinePlace<P::stages> ring;
  float* const partial;
  u32* const arrived;
  const int group;
  int thread, lane;
  unsigned char* exchange;
  u32* last;
};

/// The registers that a thread of a consumer may have, and one of the producer's warpgroup.
PL_DEVICE constexpr int product_consumer_registers(int consumers) {
  return consumers == 3 ? 160 : 240;
}
PL_DEVICE constexpr int product_producer_registers(int consumers) {
  return consumers == 3 ? 32 : 24;
}

/// All of a kernel of ProductLayout<P>::threads threads a block, at most one block a multiprocessor, in clusters of
/// P::cluster, with `bytes` + 1024 of dynamic shared memory at `memory`, and maps_bytes of global memory a block at
/// `maps`. Where k is split `partial` has tiles · splits · partial_floats, and `arrived` a zero for each consumer of
/// each tile, which is zero again at the end. Any number of blocks, a multiple of P::cluster.
template <typename P, typename Folds = ProductNoFolds, typename F>
PL_DEVICE void product(const F& f, unsigned char* memory, char* maps, float* partial, u32* arrived) {
  using L = ProductLayout<P>;
  const u32 base = (shared_address(memory) + 1023u) & ~1023u;
  unsigned char* const own = memory + (base - shared_address(memory));
  const ProductBarriers<P> barriers{base + L::barriers_at};
  const int group = __shfl_sync(~0u, (int)threadIdx.x / 128, 0);
  char* const own_maps = maps + (long long)blockIdx.x * L::maps_bytes;
  int* const table = (int*)(own + L::table_at);
  // A warp makes each of the maps.
  const int warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), lane = (int)threadIdx.x % 32;
  if (warp < L::maps) {
    const u32 map = base + L::exchange_at + warp * 128;  // where no copy goes
    if (lane < 8) shared_clear(map + lane * 16);
    __syncwarp();
    if (lane == 0) {
      if (warp == 0) f.map_a(map, L::a_box);
#pragma unroll
      for (int part = 0; part < P::parts; ++part) {
        if (warp == 1 + part) f.map_b(map, part, L::b_box);
      }
    }
    __syncwarp();
    tensor_map_publish(own_maps + warp * 128, map);
  } else if (warp == 4) {
    if (lane == 0) {
      for (int i = 0; i < P::stages; ++i) {
        barrier_init(barriers.in(i), 1);
        barrier_init(barriers.out(i), 4 * P::cluster * (P::ping_pong ? 1 : P::consumers));
      }
      barrier_init_fence();
    }
  } else if (warp == 5) {
    if constexpr (P::groups > 0) product_table<P, L>(f, table);
  }
  __syncthreads();
  // Barriers of the other block are there before they are written to.
  if (P::cluster > 1) cluster_sync();
  if (group == 0) {
    if (P::consumers > 1) registers_decrease<product_producer_registers(P::consumers)>();
    if (threadIdx.x == 0) product_produce<P>(f, base, own_maps, table);
  } else {
    if (P::consumers > 1) registers_increase<product_consumer_registers(P::consumers)>();
    ProductConsumer<P, Folds, F> consumer(f, base, own, table, partial, arrived, group - 1);
    consumer.run();
  }
}
