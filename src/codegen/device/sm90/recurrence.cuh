#pragma once
// Steps of recurrent cells (LSTM, GRU, tanh or ReLU), all of them in one launch.
//
// A cell is a layer in one direction. Its blocks are clusters, one for each slice of the batch; each block of a cluster
// has some of the units: their rows of the weights, in registers as far as they fit and in its shared memory; the
// state of all units, of this and of the last step; and what its units' cells keep, in registers. After a step it
// writes its part of the state into the shared memory of all blocks of the cluster. Cells that are stacked read the
// state of the cell below through global memory, some steps behind it, which a warp of its own fetches.
//
// A warp has 2 · units units: two groups of sixteen threads, each of which has every sixteenth chunk of four elements
// of the state. In shared memory a state lies block by block, of each the batch, of each of that its units.
//
// Policy (all constexpr):
//   int gates                 4 LSTM, 3 GRU, 1 plain
//   int steps, batch, hidden, cells
//   bool stacked              cells are layers, each reading the one below; else directions of one layer
//   int cluster, slices       blocks of a cluster; clusters of a cell
//   int slice                 batch rows of a cluster
//   int units, rows           that a thread sums for at once
//   int exchange              0 asynchronous stores, 1 bulk copies, 2 stores and one arrival
//   int block_units           units of a block
//   int kept                  chunks whose weights are in registers
//   int warps, threads        that sum; of a block
//   bool hands_registers      from the threads that do not sum to those that do
//   bool all                  states of all steps are results
//
// Functors F (values; of one cell, whose number is f.cell):
//   made                      products with what it reads, [steps][batch][gates · hidden], bias included; or 0
//   hidden_weights, hidden_bias, input_weights, input_bias   gates · hidden rows; 0 where there are none
//   handed, flags             memory through which stacked cells hand on what they make, and words beside it
//   first_h(b, k), first_c(b, k), give(t, b, k, h), last(b, k, h, c), plain(x)

#include "sm90/cluster.cuh"
#include "sm90/ptx.cuh"

/// Sizes in elements, and where things lie in shared memory, in bytes.
template <typename P>
struct RecurrenceLayout {
  static constexpr int padded = (P::block_units + 3) / 4 * 4;
  static constexpr int quads = padded / 4;
  /// A block's part of the state: parts begin on banks of their own.
  static constexpr int part = P::slice * padded + ((padded - P::slice * padded) % 32 + 32) % 32;
  static constexpr int all_chunks = P::cluster * quads;
  static constexpr int chunks = (all_chunks + 15) / 16;  ///< of a thread
  static constexpr int turns = (P::slice + P::rows - 1) / P::rows;
  /// Of a unit: of GRU's new state, what comes of its input and what comes of its state are apart.
  static constexpr int sums = P::gates == 3 && P::stacked ? 4 : P::gates;
  static constexpr int summing = 32 * P::warps;  ///< threads
  static constexpr int state_bytes = P::cluster * part * 4;
  static constexpr int send_bytes = P::slice * padded * 4;
  static constexpr int below_bars = 16, done = 64, zeros_at = 96;
  static constexpr int state_at = 128;  ///< two of them, one of even and one of odd steps, as all below
  static constexpr int below_at = state_at + 2 * state_bytes;
  static constexpr int mine_at = below_at + (P::stacked ? 2 * state_bytes : 0);
  static constexpr int weights_at = mine_at + 2 * send_bytes;
};

PL_DEVICE float recurrence_sigmoid(float x) {
  return reciprocal_fast(1.0f + expf(-x));
}

/// One level of summing N values over the threads that differ in `mask`: each keeps one half of them.
template <int N>
PL_DEVICE void recurrence_halve(float* v, int mask, bool upper) {
  if (N == 1) {
    v[0] += __shfl_xor_sync(0xffffffffu, v[0], mask);
    return;
  }
  constexpr int half = (N + 1) / 2;
#pragma unroll
  for (int i = 0; i < half; ++i) {
    const float high = half + i < N ? v[half + i < N ? half + i : 0] : 0.0f;
    const float keep = upper ? high : v[i], send = upper ? v[i] : high;
    v[i] = keep + __shfl_xor_sync(0xffffffffu, send, mask);
  }
}

PL_DEVICE float recurrence_element(const float4& v, int e) {
  return e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w;
}

/// Where a block and a thread of it are.
template <typename P>
struct RecurrencePlace {
  u32 shared;
  int tid, warp, lane, rank, slice;
  PL_DEVICE explicit RecurrencePlace(u32 base) : shared(base) {
    tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    rank = cluster_rank();
    slice = blockIdx.x / P::cluster % P::slices;
  }
  PL_DEVICE int first_row() const { return slice * P::slice; }
  PL_DEVICE int first_unit() const { return rank * P::block_units; }
};

/// Barriers, zeros, and the first state.
template <typename P, typename F>
PL_DEVICE void recurrence_begin(const F& f, const RecurrencePlace<P>& at) {
  using L = RecurrenceLayout<P>;
  const u32 shared = at.shared;
  const int b0 = at.first_row();
  for (int i = at.tid; i < (L::weights_at - L::state_at) / 4; i += P::threads)
    shared_store(shared + L::state_at + i * 4, 0.0f);
  if (at.tid == 0) {
    const int arrivals = P::exchange == 2 ? P::cluster * P::warps : 1;
    for (int i = 0; i < 2; ++i) barrier_init(shared + i * 8, arrivals);
    for (int i = 0; i < 2; ++i) barrier_init(shared + L::below_bars + i * 8, 1);
    shared_store(shared + L::done, 0.0f);
    for (int i = 0; i < 4; ++i) shared_store(shared + L::zeros_at + i * 4, 0.0f);
    barrier_init_fence();
    if (P::exchange != 2) {
      for (int i = 0; i < 2; ++i) barrier_expect(shared + i * 8, P::cluster * L::send_bytes);
    }
  }
  __syncthreads();
  for (int i = at.tid; i < P::slice * P::hidden; i += P::threads) {
    const int b = i / P::hidden, k = i % P::hidden;
    const int place = (k / P::block_units) * L::part + b * L::padded + k % P::block_units;
    if (b0 + b < P::batch) shared_store(shared + L::state_at + L::state_bytes + place * 4, f.first_h(b0 + b, k));
  }
  fence_copies();
  __syncwarp();
  cluster_barrier();
}

/// A thread that sums: its weights, what its unit's cells keep, and the walk through the steps.
template <typename P, typename F>
class RecurrenceSummer {
  using L = RecurrenceLayout<P>;
  static constexpr int own_sums = P::units * P::rows;

 public:
  PL_DEVICE RecurrenceSummer(const F& functors, const RecurrencePlace<P>& place) : f(functors), at(place) {
    const int group = at.lane & 1;
    member = at.lane >> 1;
    first_unit = (at.warp * 2 + group) * P::units;
    backwards = !P::stacked && f.cell == 1;
    beforehand = !P::stacked || f.cell == 0;
  }

  PL_DEVICE void run() {
    read_weights();
    choose_item();
    begin_cells();
    for (int t = 0; t < P::steps; ++t) {
      mine = at.shared + L::mine_at + (t & 1) * L::send_bytes;
#pragma unroll
      for (int turn = 0; turn < L::turns; ++turn) step(t, turn);
      if (P::exchange == 1) fence_shared_copies();
      __syncwarp();
      named_barrier_wait(1, L::summing);
      if (t + 1 < P::steps) send(t);
      hand_on(t);
    }
    give_last();
  }

 private:
  PL_DEVICE void read_weights() {
#pragma unroll
    for (int j = 0; j < L::chunks; ++j) {
      const int chunk = member + 16 * j;
      // Threads without a chunk of their own read zeros: an infinity elsewhere times their weights of zero would be
      // none.
      offset[j] =
          chunk < L::all_chunks ? ((chunk / L::quads) * L::part + (chunk % L::quads) * 4) * 4 : (int)0xffffffffu;
      if (L::all_chunks % 16 == 0 && 16 % L::quads == 0) offset[j] = offset[0] + j * (16 / L::quads) * L::part * 4;
    }
#pragma unroll
    for (int m = 0; m < 1 + P::stacked; ++m) {
      const float* const from = m == 0 ? f.hidden_weights : f.input_weights;
#pragma unroll
      for (int u = 0; u < P::units; ++u) {
#pragma unroll
        for (int j = 0; j < L::chunks; ++j) {
#pragma unroll
          for (int g = 0; g < P::gates; ++g) {
            const float4 v = weights_at(from, u, j, g);
            if (m == 1) {
              wx[P::stacked ? u : 0][P::stacked ? g : 0][P::stacked ? j : 0] = v;
            } else if (j < P::kept) {
              wh[u][g][j < P::kept ? j : 0] = v;
            } else {
              shared_store_4(in_shared(u, j, g), v);  // read by this thread alone
            }
          }
        }
      }
    }
  }

  PL_DEVICE float4 weights_at(const float* from, int u, int j, int g) const {
    const int unit = at.first_unit() + first_unit + u, chunk = member + 16 * j;
    const int block = chunk / L::quads, within = (chunk % L::quads) * 4, k = block * P::block_units + within;
    const bool there = from != 0 && first_unit + u < P::block_units && unit < P::hidden && block < P::cluster;
    const float* const p = from + (long long)(g * P::hidden + unit) * P::hidden + k;
    const auto one = [&](int e) { return there && within + e < P::block_units && k + e < P::hidden ? p[e] : 0.0f; };
    return make_float4(one(0), one(1), one(2), one(3));
  }

  PL_DEVICE u32 in_shared(int u, int j, int g) const {
    return at.shared + L::weights_at + ((((j - P::kept) * P::units + u) * P::gates + g) * L::summing + at.tid) * 16;
  }

  /// Which of the sums this thread finishes: recurrence_halve() leaves one or none of them to each.
  PL_DEVICE void choose_item() {
    int item = 0, left = own_sums, n = own_sums;
#pragma unroll
    for (int level = 3; level >= 0; --level) {
      const int half = (n + 1) / 2, upper = (member >> level) & 1;
      if (n == 1) {
        if (upper) left = 0;
      } else if (upper) {
        item += half;
        left -= half;
      } else {
        left = left < half ? left : half;
      }
      n = half;
    }
    finishes = left >= 1;
    my_row = finishes ? item % P::rows : 0;
    my_unit = first_unit + (finishes ? item / P::rows : 0);
    unit = at.first_unit() + my_unit;
    has_unit = finishes && my_unit < P::block_units && unit < P::hidden;
  }

  PL_DEVICE void begin_cells() {
#pragma unroll
    for (int g = 0; g < P::gates; ++g) {
      bias[g] = has_unit && f.hidden_bias != 0 ? f.hidden_bias[g * P::hidden + unit] : 0.0f;
      if (P::gates == 3 && g == 2) {
        state_bias = bias[g];
        bias[g] = 0.0f;
      }
      if (!beforehand && has_unit && f.input_bias != 0) bias[g] += f.input_bias[g * P::hidden + unit];
    }
#pragma unroll
    for (int turn = 0; turn < L::turns; ++turn) {
      const int row = turn * P::rows + my_row, b = at.first_row() + row;
      const bool there = has_unit && row < P::slice && b < P::batch;
      c[turn] = there ? f.first_c(b, unit) : 0.0f;
      h_before[turn] = there ? f.first_h(b, unit) : 0.0f;
      const long long first = (long long)(backwards ? P::steps - 1 : 0) * P::batch + b;
      next[turn] = beforehand && there ? f.made + first * (P::gates * P::hidden) + unit : 0;
      know(turn);
    }
  }

  PL_DEVICE void know(int turn) {
#pragma unroll
    for (int g = 0; g < P::gates; ++g) known[turn][g] = bias[g] + (next[turn] != 0 ? next[turn][g * P::hidden] : 0.0f);
  }

  PL_DEVICE float4 chunk(u32 state, int j, int row) const {
    const bool none = L::all_chunks % 16 != 0 && offset[j] == (int)0xffffffffu;
    return shared_load_4(none ? at.shared + L::zeros_at : state + offset[j] + row * L::padded * 4);
  }

  /// Products of four elements of a row with weights(u, g). Sums of GRU's new state over the state are apart.
  template <bool of_state, typename Weights>
  static PL_DEVICE void add_products(float (&sum)[L::sums][own_sums], int b, const float4& v, const Weights& weights) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int u = 0; u < P::units; ++u)
#pragma unroll
        for (int g = 0; g < P::gates; ++g)
          sum[of_state && L::sums == 4 && P::gates == 3 && g == 2 ? 3 : g][u * P::rows + b] +=
              recurrence_element(weights(u, g), e) * recurrence_element(v, e);
  }

  /// Products with what the cell below has made of this step.
  PL_DEVICE void add_below(float (&sum)[L::sums][own_sums], int t, int turn) {
    const u32 below = at.shared + L::below_at + (t & 1) * L::state_bytes;
    if (turn == 0) barrier_wait(at.shared + L::below_bars + (t & 1) * 8, (t >> 1) & 1);
#pragma unroll
    for (int j = 0; j < L::chunks; ++j)
#pragma unroll
      for (int b = 0; b < P::rows; ++b) {
        if (turn * P::rows + b >= P::slice) continue;
        const float4 v = chunk(below, j, turn * P::rows + b);
        add_products<false>(
            sum, b, v, [&](int u, int g) { return wx[P::stacked ? u : 0][P::stacked ? g : 0][P::stacked ? j : 0]; });
      }
  }

  /// The state of the step before is there from all blocks.
  PL_DEVICE void wait_for_state(int t) {
    const u32 barrier = at.shared + ((t - 1) & 1) * 8;
    const u32 parity = ((t - 1) >> 1) & 1;
    if (P::exchange == 2)
      barrier_wait_acquire(barrier, parity);
    else
      barrier_wait(barrier, parity);
    if (P::exchange != 2 && at.tid == 0) barrier_expect(barrier, P::cluster * L::send_bytes);
  }

  /// Products with the state of the step before.
  PL_DEVICE void add_state(float (&sum)[L::sums][own_sums], int t, int turn) {
    const u32 state = at.shared + L::state_at + ((t + 1) & 1) * L::state_bytes;
#pragma unroll
    for (int j = 0; j < L::chunks; ++j) {
      float4 w[P::units][P::gates];
#pragma unroll
      for (int u = 0; u < P::units; ++u)
#pragma unroll
        for (int g = 0; g < P::gates; ++g)
          w[u][g] = j < P::kept ? wh[u][g][j < P::kept ? j : 0] : shared_load_4(in_shared(u, j, g));
#pragma unroll
      for (int b = 0; b < P::rows; ++b) {
        if (turn * P::rows + b >= P::slice) continue;
        const float4 v = chunk(state, j, turn * P::rows + b);
        add_products<true>(sum, b, v, [&](int u, int g) { return w[u][g]; });
      }
    }
  }

  /// The unit's new state, of sums over all that it reads.
  PL_DEVICE float cell(const float (&sum)[L::sums][own_sums], int turn) {
    constexpr int sums = L::sums, gates = P::gates;
    if (gates == 4) {
      const float in = recurrence_sigmoid(sum[0][0] + known[turn][0]),
                  forget = recurrence_sigmoid(sum[1 % sums][0] + known[turn][1 % gates]);
      const float fresh = tanhf(sum[2 % sums][0] + known[turn][2 % gates]),
                  out = recurrence_sigmoid(sum[3 % sums][0] + known[turn][3 % gates]);
      c[turn] = forget * c[turn] + in * fresh;
      return out * tanhf(c[turn]);
    }
    if (gates == 3) {
      const float reset = recurrence_sigmoid(sum[0][0] + known[turn][0]),
                  update = recurrence_sigmoid(sum[1 % sums][0] + known[turn][1 % gates]);
      const float of_input = known[turn][2 % gates] + (sums == 4 ? sum[2 % sums][0] : 0.0f),
                  of_state = sum[sums - 1][0] + state_bias;
      const float fresh = tanhf(of_input + reset * of_state);
      return (1.0f - update) * fresh + update * h_before[turn];
    }
    return f.plain(sum[0][0] + known[turn][0]);
  }

  /// Some of the batch's rows of a step.
  PL_DEVICE void step(int t, int turn) {
    float sum[L::sums][own_sums];
#pragma unroll
    for (int a = 0; a < L::sums; ++a)
#pragma unroll
      for (int i = 0; i < own_sums; ++i) sum[a][i] = 0.0f;
    if (P::stacked && f.cell > 0) add_below(sum, t, turn);
    if (turn == 0 && t > 0) wait_for_state(t);
    add_state(sum, t, turn);
    constexpr int n1 = (own_sums + 1) / 2, n2 = (n1 + 1) / 2, n3 = (n2 + 1) / 2;
#pragma unroll
    for (int a = 0; a < L::sums; ++a) {
      recurrence_halve<own_sums>(sum[a], 16, (member >> 3) & 1);
      recurrence_halve<n1>(sum[a], 8, (member >> 2) & 1);
      recurrence_halve<n2>(sum[a], 4, (member >> 1) & 1);
      recurrence_halve<n3>(sum[a], 2, member & 1);
    }
    const float h = cell(sum, turn);
    h_before[turn] = h;
    const int row = turn * P::rows + my_row;
    if (finishes && my_unit < P::block_units && row < P::slice)
      shared_store(mine + (row * L::padded + my_unit) * 4, has_unit ? h : 0.0f);
    if (beforehand && t + 1 < P::steps && next[turn] != 0) {
      next[turn] += (backwards ? -1 : 1) * (long long)P::batch * (P::gates * P::hidden);
      know(turn);
    }
  }

  /// The block's part of a step's state to all blocks of the cluster.
  PL_DEVICE void send(int t) {
    const u32 to = at.shared + L::state_at + (t & 1) * L::state_bytes + at.rank * L::part * 4,
              barrier = at.shared + (t & 1) * 8;
    if (P::exchange == 1) {
      if (at.warp == 0 && at.lane < P::cluster)
        cluster_copy(cluster_address(to, at.lane), mine, L::send_bytes, cluster_address(barrier, at.lane));
      return;
    }
    constexpr int quads = P::slice * L::quads;
#pragma unroll 4
    for (int i = at.tid; i < quads * P::cluster; i += L::summing) {
      const int q = i % quads, there = i / quads;
      const float4 v = shared_load_4(mine + q * 16);
      if (P::exchange == 0)
        cluster_send_16(cluster_address(to + q * 16, there), v, cluster_address(barrier, there));
      else
        cluster_store_16(cluster_address(to + q * 16, there), v);
    }
    if (P::exchange == 2) {
      __syncwarp();
      if (at.lane < P::cluster) cluster_arrive_release(cluster_address(barrier, at.lane));
    }
  }

  /// The same to the cell above, and to who asked for all states.
  PL_DEVICE void hand_on(int t) {
    if (P::stacked && f.cell < P::cells - 1) {
      float* const to =
          f.handed + ((((long long)f.cell * P::steps + t) * P::slices + at.slice) * P::cluster + at.rank) * L::part;
      for (int q = at.tid; q < P::slice * L::quads; q += L::summing)
        *(float4*)(to + q * 4) = shared_load_4(mine + q * 16);
    }
    if (P::all && (!P::stacked || f.cell == P::cells - 1)) {
      const int when = backwards ? P::steps - 1 - t : t;
      for (int i = at.tid; i < P::slice * P::block_units; i += L::summing) {
        const int b = i / P::block_units, u = i % P::block_units, row = at.first_row() + b, k = at.first_unit() + u;
        if (row < P::batch && k < P::hidden)
          f.give(when, row, (P::stacked ? 0 : f.cell * P::hidden) + k, shared_load(mine + (b * L::padded + u) * 4));
      }
    }
    if (P::stacked) {
      __syncwarp();
      if (at.lane == 0) shared_count(at.shared + L::done);
    }
  }

  PL_DEVICE void give_last() {
#pragma unroll
    for (int turn = 0; turn < L::turns; ++turn) {
      const int row = turn * P::rows + my_row, b = at.first_row() + row;
      if (has_unit && row < P::slice && b < P::batch) f.last(b, unit, h_before[turn], c[turn]);
    }
  }

  const F& f;
  const RecurrencePlace<P> at;
  int member, first_unit;  ///< of the sixteen; of the thread, in the block
  bool backwards, beforehand;
  int offset[L::chunks];
  float4 wh[P::units][P::gates][P::kept > 0 ? P::kept : 1];
  float4 wx[P::stacked ? P::units : 1][P::stacked ? P::gates : 1][P::stacked ? L::chunks : 1];
  bool finishes, has_unit;
  int my_row, my_unit, unit;  ///< of the sum that it finishes: in a turn, in the block, of all
  float c[L::turns], h_before[L::turns], known[L::turns][P::gates], bias[P::gates];
  float state_bias = 0.0f;  ///< of GRU's new state: inside of the product with the reset gate
  const float* next[L::turns];
  u32 mine;  ///< where the block's part of this step's state is put together
};

/// A warp that says which steps are finished, and fetches what the cell below has made.
template <typename P, typename F>
PL_DEVICE void recurrence_fetch(const F& f, const RecurrencePlace<P>& at) {
  using L = RecurrenceLayout<P>;
  u32* const own = f.flags + (f.cell * P::slices + at.slice) * P::cluster + at.rank;
  const u32* const below = f.flags + ((f.cell - 1) * P::slices + at.slice) * P::cluster + at.lane;
  int fetched = f.cell == 0 ? P::steps : 0, said = f.cell == P::cells - 1 ? P::steps : 0;
  while (fetched < P::steps || said < P::steps) {
    const int finished = (int)(__shfl_sync(0xffffffffu, shared_counted(at.shared + L::done), 0) / P::warps);
    if (said < P::steps && said < finished) {
      __syncwarp();
      if (at.lane == 0) flag_store(own, (u32)finished);
      said = finished;
    }
    if (fetched < P::steps && fetched < finished + 2) {
      const u32 there = at.lane < P::cluster ? flag_load(below) : 0x7fffffffu;
      if (__all_sync(0xffffffffu, (int)there > fetched)) {
        __syncwarp();
        if (at.lane == 0) {
          fence_global_copies();
          const u32 barrier = at.shared + L::below_bars + (fetched & 1) * 8;
          const float* const from =
              f.handed + (((long long)(f.cell - 1) * P::steps + fetched) * P::slices + at.slice) * P::cluster * L::part;
          barrier_expect(barrier, L::state_bytes);
          bulk_load(at.shared + L::below_at + (fetched & 1) * L::state_bytes, from, L::state_bytes, barrier);
        }
        ++fetched;
      }
    }
    pause();
  }
}

/// `shared`: RecurrenceLayout::weights_at bytes, and the weights that registers do not keep; a multiple of 128.
template <typename P, typename F>
PL_DEVICE void recurrence(const F& f, u32 shared) {
  const RecurrencePlace<P> at(shared);
  recurrence_begin<P>(f, at);
  if (at.warp < P::warps) {
    if (P::hands_registers) registers_increase<240>();
    RecurrenceSummer<P, F>(f, at).run();
  } else if (P::stacked) {
    if (P::hands_registers) registers_decrease<24>();
    if (at.warp == P::warps) recurrence_fetch<P>(f, at);
  }
  __syncwarp();
  cluster_barrier();
}
