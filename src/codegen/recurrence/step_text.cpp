#include "codegen/recurrence/step_text.h"

namespace planish::codegen::recurrence {
namespace {

constexpr std::string_view functions = R"(RN_FN float rn_sigmoid(float x) { return rn_reciprocal(1.0f + expf(-x)); }
// One level of summing N values over the threads that differ in `mask`: each keeps one half of them.
template <int N> RN_FN void rn_halve(float* v, int mask, bool upper) {
  if (N == 1) {
    v[0] += rn_other(v[0], mask);
    return;
  }
  constexpr int half = (N + 1) / 2;
#pragma unroll
  for (int i = 0; i < half; ++i) {
    const float high = half + i < N ? v[half + i < N ? half + i : 0] : 0.0f;
    const float keep = upper ? high : v[i], send = upper ? v[i] : high;
    v[i] = keep + rn_other(send, mask);
  }
}
)";

// A warp has 2 · UNITS units: two groups of sixteen threads, each of which has every sixteenth chunk of four elements
// of the state. In shared memory a state lies block by block, of each the batch, of each of that its units.
constexpr std::string_view body = R"({
  const u32 shared = rn_shared();
  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  const int rank = (int)rn_rank();
  const int cell = blockIdx.x / CLUSTER / SLICES, slice = blockIdx.x / CLUSTER % SLICES;
  const int b0 = slice * SLICE, u0 = rank * BLOCK_UNITS;
  const u32 state_bar = shared, below_bar = shared + 16, done = shared + 64;
  CELL_POINTERS
  for (int i = tid; i < (WEIGHTS_AT - STATE_AT) / 4; i += THREADS) rn_put(shared + STATE_AT + i * 4, 0.0f);
  if (tid == 0) {
    const u32 n = EXCHANGE == 2 ? CLUSTER * WARPS : 1;
    rn_bar_init(state_bar, n);
    rn_bar_init(state_bar + 8, n);
    for (int i = 0; i < 2; ++i) rn_bar_init(below_bar + i * 8, 1);
    rn_put_word(done, 0);
    for (int i = 0; i < 4; ++i) rn_put(shared + ZEROS_AT + i * 4, 0.0f);
    rn_bars_seen();
    if (EXCHANGE != 2) {
      rn_bar_expect(state_bar, CLUSTER * SEND_BYTES);
      rn_bar_expect(state_bar + 8, CLUSTER * SEND_BYTES);
    }
  }
  rn_block();
  for (int i = tid; i < SLICE * HIDDEN; i += THREADS) {
    const int b = i / HIDDEN, k = i % HIDDEN;
    if (b0 + b < BATCH) rn_put(shared + STATE_AT + STATE_BYTES + ((k / BLOCK_UNITS) * PART + b * PADDED + k % BLOCK_UNITS) * 4, FIRST_H(b0 + b, k));
  }
  rn_fence_copies();
  rn_warp();
  rn_cluster();

  const auto chunk_at = [shared](u32 state, u32 offset, int row) {
    return ALL_CHUNKS % 16 != 0 && offset == 0xffffffffu ? shared + ZEROS_AT : state + offset + row * PADDED * 4;
  };
  if (warp < WARPS) {
    if (HANDS_REGISTERS) rn_more_registers();
    const int group = lane & 1, member = lane >> 1;
    const int first_unit = (warp * 2 + group) * UNITS;
    u32 offset[CHUNKS];
#pragma unroll
    for (int j = 0; j < CHUNKS; ++j) {
      const int chunk = member + 16 * j;
      // Threads without a chunk of their own read zeros: an infinity elsewhere times their weights of zero would be none.
      offset[j] = chunk < ALL_CHUNKS ? ((chunk / QUADS) * PART + (chunk % QUADS) * 4) * 4 : 0xffffffffu;
      if (ALL_CHUNKS % 16 == 0 && 16 % QUADS == 0) offset[j] = offset[0] + j * (16 / QUADS) * PART * 4;
    }
    F4 wh[UNITS][GATES][KEPT > 0 ? KEPT : 1];
    F4 wx[STACKED ? UNITS : 1][STACKED ? GATES : 1][STACKED ? CHUNKS : 1];
#pragma unroll
    for (int m = 0; m < 1 + STACKED; ++m) {
      const float* const from = m == 0 ? hidden_weights : input_weights;
#pragma unroll
      for (int u = 0; u < UNITS; ++u) {
        const int unit = u0 + first_unit + u;
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) {
          const int chunk = member + 16 * j, block = chunk / QUADS, within = (chunk % QUADS) * 4, k = block * BLOCK_UNITS + within;
          const bool there = from != 0 && first_unit + u < BLOCK_UNITS && unit < HIDDEN && block < CLUSTER;
#pragma unroll
          for (int g = 0; g < GATES; ++g) {
            const float* const p = from + (long long)(g * HIDDEN + unit) * HIDDEN + k;
            F4 v;
            v.x = there && within + 0 < BLOCK_UNITS && k + 0 < HIDDEN ? p[0] : 0.0f;
            v.y = there && within + 1 < BLOCK_UNITS && k + 1 < HIDDEN ? p[1] : 0.0f;
            v.z = there && within + 2 < BLOCK_UNITS && k + 2 < HIDDEN ? p[2] : 0.0f;
            v.w = there && within + 3 < BLOCK_UNITS && k + 3 < HIDDEN ? p[3] : 0.0f;
            if (m == 1) {
              wx[STACKED ? u : 0][STACKED ? g : 0][STACKED ? j : 0] = v;
            } else if (j < KEPT) {
              wh[u][g][j < KEPT ? j : 0] = v;
            } else {
              rn_put4(shared + WEIGHTS_AT + ((((j - KEPT) * UNITS + u) * GATES + g) * SUMMING + tid) * 16, v);  // read by this thread alone
            }
          }
        }
      }
    }
    // Which of the sums this thread finishes: rn_halve leaves one or none of them to each.
    int item = 0, left = UNITS * ROWS;
    {
      int n = UNITS * ROWS;
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
    }
    const bool finishes = left >= 1;
    const int my_row = finishes ? item % ROWS : 0, my_unit = first_unit + (finishes ? item / ROWS : 0), unit = u0 + my_unit;
    const bool has_unit = finishes && my_unit < BLOCK_UNITS && unit < HIDDEN;
    float c[TURNS], h_before[TURNS], known[TURNS][GATES], bias[GATES];
    float state_bias = 0.0f;  // of GRU's new state: inside of the product with the reset gate
    const bool beforehand = !STACKED || cell == 0;
#pragma unroll
    for (int g = 0; g < GATES; ++g) {
      bias[g] = has_unit && hidden_bias != 0 ? hidden_bias[g * HIDDEN + unit] : 0.0f;
      if (GATES == 3 && g == 2) {
        state_bias = bias[g];
        bias[g] = 0.0f;
      }
      if (!beforehand && has_unit && input_bias != 0) bias[g] += input_bias[g * HIDDEN + unit];
    }
    const bool backwards = !STACKED && cell == 1;
    const float* next[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const int row = turn * ROWS + my_row, b = b0 + row;
      const bool there = has_unit && row < SLICE && b < BATCH;
      c[turn] = there ? FIRST_C(b, unit) : 0.0f;
      h_before[turn] = there ? FIRST_H(b, unit) : 0.0f;
      next[turn] = beforehand && there ? made + ((long long)(backwards ? STEPS - 1 : 0) * BATCH + b) * (GATES * HIDDEN) + unit : 0;
#pragma unroll
      for (int g = 0; g < GATES; ++g) known[turn][g] = bias[g] + (next[turn] != 0 ? next[turn][g * HIDDEN] : 0.0f);
    }
    const long long onward = (backwards ? -1 : 1) * (long long)BATCH * (GATES * HIDDEN);
    const bool gives = !STACKED || cell == CELLS - 1;
    const bool hands_on = STACKED && cell < CELLS - 1;

    for (int t = 0; t < STEPS; ++t) {
      const u32 state = shared + STATE_AT + ((t + 1) & 1) * STATE_BYTES;
      const u32 mine = shared + MINE_AT + (t & 1) * SEND_BYTES;
#pragma unroll
      for (int turn = 0; turn < TURNS; ++turn) {
        float sum[SUMS][UNITS * ROWS];
#pragma unroll
        for (int a = 0; a < SUMS; ++a)
#pragma unroll
          for (int i = 0; i < UNITS * ROWS; ++i) sum[a][i] = 0.0f;
        if (STACKED && cell > 0) {
          const u32 below = shared + BELOW_AT + (t & 1) * STATE_BYTES;
          if (turn == 0) rn_bar_wait(below_bar + (t & 1) * 8, (t >> 1) & 1);
#pragma unroll
          for (int j = 0; j < CHUNKS; ++j)
#pragma unroll
            for (int b = 0; b < ROWS; ++b) {
              if (turn * ROWS + b >= SLICE) continue;
              const F4 v = rn_get4(chunk_at(below, offset[j], turn * ROWS + b));
#pragma unroll
              for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int u = 0; u < UNITS; ++u)
#pragma unroll
                  for (int g = 0; g < GATES; ++g) {
                    const F4& w = wx[STACKED ? u : 0][STACKED ? g : 0][STACKED ? j : 0];
                    sum[g][u * ROWS + b] += (e == 0 ? w.x : e == 1 ? w.y : e == 2 ? w.z : w.w) * (e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w);
                  }
            }
        }
        if (turn == 0 && t > 0) {
          if (EXCHANGE == 2) rn_bar_wait_for_stores(state_bar + ((t - 1) & 1) * 8, ((t - 1) >> 1) & 1);
          else rn_bar_wait(state_bar + ((t - 1) & 1) * 8, ((t - 1) >> 1) & 1);
          if (EXCHANGE != 2 && tid == 0) rn_bar_expect(state_bar + ((t - 1) & 1) * 8, CLUSTER * SEND_BYTES);
        }
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) {
          F4 w[UNITS][GATES];
#pragma unroll
          for (int u = 0; u < UNITS; ++u)
#pragma unroll
            for (int g = 0; g < GATES; ++g)
              w[u][g] = j < KEPT ? wh[u][g][j < KEPT ? j : 0] : rn_get4(shared + WEIGHTS_AT + ((((j - KEPT) * UNITS + u) * GATES + g) * SUMMING + tid) * 16);
#pragma unroll
          for (int b = 0; b < ROWS; ++b) {
            if (turn * ROWS + b >= SLICE) continue;
            const F4 v = rn_get4(chunk_at(state, offset[j], turn * ROWS + b));
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
              for (int u = 0; u < UNITS; ++u)
#pragma unroll
                for (int g = 0; g < GATES; ++g)
                  sum[SUMS == 4 && GATES == 3 && g == 2 ? 3 : g][u * ROWS + b] +=
                      (e == 0 ? w[u][g].x : e == 1 ? w[u][g].y : e == 2 ? w[u][g].z : w[u][g].w) * (e == 0 ? v.x : e == 1 ? v.y : e == 2 ? v.z : v.w);
          }
        }
        constexpr int n0 = UNITS * ROWS, n1 = (n0 + 1) / 2, n2 = (n1 + 1) / 2, n3 = (n2 + 1) / 2;
#pragma unroll
        for (int a = 0; a < SUMS; ++a) {
          rn_halve<n0>(sum[a], 16, (member >> 3) & 1);
          rn_halve<n1>(sum[a], 8, (member >> 2) & 1);
          rn_halve<n2>(sum[a], 4, (member >> 1) & 1);
          rn_halve<n3>(sum[a], 2, member & 1);
        }
        float h;
        if (GATES == 4) {
          const float in = rn_sigmoid(sum[0][0] + known[turn][0]), forget = rn_sigmoid(sum[1 % SUMS][0] + known[turn][1 % GATES]);
          const float fresh = tanhf(sum[2 % SUMS][0] + known[turn][2 % GATES]), out = rn_sigmoid(sum[3 % SUMS][0] + known[turn][3 % GATES]);
          c[turn] = forget * c[turn] + in * fresh;
          h = out * tanhf(c[turn]);
        } else if (GATES == 3) {
          const float reset = rn_sigmoid(sum[0][0] + known[turn][0]), update = rn_sigmoid(sum[1 % SUMS][0] + known[turn][1 % GATES]);
          const float of_input = known[turn][2 % GATES] + (SUMS == 4 ? sum[2 % SUMS][0] : 0.0f), of_state = sum[SUMS - 1][0] + state_bias;
          const float fresh = tanhf(of_input + reset * of_state);
          h = (1.0f - update) * fresh + update * h_before[turn];
        } else {
          h = PLAIN(sum[0][0] + known[turn][0]);
        }
        h_before[turn] = h;
        const int row = turn * ROWS + my_row;
        if (finishes && my_unit < BLOCK_UNITS && row < SLICE) rn_put(mine + (row * PADDED + my_unit) * 4, has_unit ? h : 0.0f);
        if (beforehand && t + 1 < STEPS && next[turn] != 0) {
          next[turn] += onward;
#pragma unroll
          for (int g = 0; g < GATES; ++g) known[turn][g] = bias[g] + next[turn][g * HIDDEN];
        }
      }
      if (EXCHANGE == 1) rn_fence_sends();
      rn_warp();
      rn_summing();
      if (t + 1 < STEPS) {
        const u32 to = shared + STATE_AT + (t & 1) * STATE_BYTES + rank * PART * 4, bar = state_bar + (t & 1) * 8;
        if (EXCHANGE == 1) {
          if (warp == 0 && lane < CLUSTER) rn_send(rn_of_block(to, lane), mine, SEND_BYTES, rn_of_block(bar, lane));
        } else {
          constexpr int quads = SLICE * QUADS;
#pragma unroll 4
          for (int i = tid; i < quads * CLUSTER; i += SUMMING) {
            const int q = i % quads, there = i / quads;
            const F4 v = rn_get4(mine + q * 16);
            if (EXCHANGE == 0) rn_send4(rn_of_block(to + q * 16, there), v, rn_of_block(bar, there));
            else rn_put4_there(rn_of_block(to + q * 16, there), v);
          }
          if (EXCHANGE == 2) {
            rn_warp();
            if (lane < CLUSTER) rn_arrive_there(rn_of_block(bar, lane));
          }
        }
      }
      if (hands_on) {
        float* const to = handed + ((((long long)cell * STEPS + t) * SLICES + slice) * CLUSTER + rank) * PART;
        for (int q = tid; q < SLICE * QUADS; q += SUMMING) *(F4*)(to + q * 4) = rn_get4(mine + q * 16);
      }
      if (GIVES_ALL && gives) {
        const int at = backwards ? STEPS - 1 - t : t;
        for (int i = tid; i < SLICE * BLOCK_UNITS; i += SUMMING) {
          const int b = i / BLOCK_UNITS, u = i % BLOCK_UNITS;
          if (b0 + b < BATCH && u0 + u < HIDDEN) ALL(at, b0 + b, (STACKED ? 0 : cell * HIDDEN) + u0 + u) = rn_get(mine + (b * PADDED + u) * 4);
        }
      }
      if (STACKED) {
        rn_warp();
        if (lane == 0) rn_count(done);
      }
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const int row = turn * ROWS + my_row, b = b0 + row;
      if (!has_unit || row >= SLICE || b >= BATCH) continue;
      GIVE_LAST
    }
  } else if (STACKED) {  // says which steps are finished, and fetches what the cell below has made
    if (HANDS_REGISTERS) rn_fewer_registers();
    if (warp == WARPS) {
      u32* const own = flags + (cell * SLICES + slice) * CLUSTER + rank;
      const u32* const below = flags + ((cell - 1) * SLICES + slice) * CLUSTER + lane;
      int fetched = cell == 0 ? STEPS : 0, said = cell == CELLS - 1 ? STEPS : 0;
      while (fetched < STEPS || said < STEPS) {
        const int finished = (int)(rn_first(rn_counted(done)) / WARPS);
        if (said < STEPS && said < finished) {
          rn_warp();
          if (lane == 0) rn_set_flag(own, (u32)finished);
          said = finished;
        }
        if (fetched < STEPS && fetched < finished + 2) {
          const u32 there = lane < CLUSTER ? rn_flag(below) : 0x7fffffffu;
          if (rn_all((int)there > fetched)) {
            rn_warp();
            if (lane == 0) {
              rn_fence_fetches();
              const u32 bar = below_bar + (fetched & 1) * 8;
              rn_bar_expect(bar, STATE_BYTES);
              rn_fetch(shared + BELOW_AT + (fetched & 1) * STATE_BYTES, handed + (((long long)(cell - 1) * STEPS + fetched) * SLICES + slice) * CLUSTER * PART, STATE_BYTES, bar);
            }
            ++fetched;
          }
        }
        rn_pause();
      }
    }
  }
  rn_warp();
  rn_cluster();
}
)";

}  // namespace

std::string_view step_functions() {
  return functions;
}

std::string_view step_body() {
  return body;
}

}  // namespace planish::codegen::recurrence
