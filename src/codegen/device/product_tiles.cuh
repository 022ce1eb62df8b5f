#pragma once
// Parts that products of 16-bit and 8-bit factors share, whatever multiplies: which tile a block has at a turn, how
// parts of k are added, and how results leave. P is a policy (see sm90/product.cuh), L its layout, with
//   int cluster, pair_rows, pair_columns, across, down    blocks that have tiles beside each other, and their tiles
//   bool share_a, share_b                                 which operand they share
//   int steps                                             of k

#include "product_folds.cuh"
#include "types.cuh"

/// What a block has at a turn. Blocks of a cluster have tiles beside each other, for as many turns.
template <typename P, typename L>
struct ProductWalk {
  const int* table;  ///< of groups: the first number and the first row of each, and of the one behind the last
  int rank, number, group = 0;
  int unit, row, row_end, column, tile, split, begin, end;  ///< steps of k from begin to end

  PL_DEVICE ProductWalk(const int* table)
      : table(table), rank(L::cluster > 1 ? (int)blockIdx.x % L::cluster : 0), number((int)blockIdx.x / L::cluster) {}

  PL_DEVICE bool next() {
    int within, down = L::down, first_row = 0;
    row_end = P::rows;
    split = 0;
    if constexpr (P::groups > 0) {
      if (number >= table[2 * P::groups]) return false;
      while (number >= table[2 * group + 2]) ++group;
      within = number - table[2 * group];
      first_row = table[2 * group + 1];
      row_end = table[2 * group + 3];
      down = (row_end - first_row + L::pair_rows - 1) / L::pair_rows;
      unit = group;
    } else {
      if (number >= L::across * L::down * P::units * P::splits) return false;
      const int pair = number / P::splits;
      split = number % P::splits;
      tile = pair * L::cluster + rank;
      unit = pair / (L::across * L::down);
      within = pair % (L::across * L::down);
    }
    const int band = within / (P::raster * L::across), in_band = within % (P::raster * L::across);
    const int height = min(P::raster, down - band * P::raster);
    row = first_row + (band * P::raster + in_band % height) * L::pair_rows + (L::share_b ? rank * P::tile_rows : 0);
    column = in_band / height * L::pair_columns + (L::share_a ? rank * P::tile_columns : 0);
    begin = split * L::steps / P::splits;
    end = (split + 1) * L::steps / P::splits;
    number += (int)gridDim.x / L::cluster;
    return true;
  }
};

/// One warp: what a walk through groups needs.
template <typename P, typename L, typename F>
PL_DEVICE void product_table(const F& f, int* table) {
  const int lane = (int)threadIdx.x % 32;
  int before = 0;
  for (int base = 0; base <= P::groups; base += 32) {
    const int group = base + lane;
    const int from = group == 0 ? 0 : f.group_end(min(group, P::groups) - 1);
    const int to = group < P::groups ? f.group_end(group) : from;
    const int own = (to - from + L::pair_rows - 1) / L::pair_rows * L::across;
    int sum = own;
    for (int by = 1; by < 32; by *= 2) {
      const int other = __shfl_up_sync(~0u, sum, by);
      if (lane >= by) sum += other;
    }
    if (group <= P::groups) {
      table[2 * group] = before + sum - own;
      table[2 * group + 1] = from;
    }
    before += __shfl_sync(~0u, sum, 31);
  }
}

/// The type of sums: of floating-point factors, or of integers.
template <bool integers>
struct ProductSum {
  typedef float type;
};
template <>
struct ProductSum<true> {
  typedef int type;
};

/// A sum as a word of memory, and back; words of parts are added to it. Sums of integers wrap around.
PL_DEVICE float product_word(float sum) {
  return sum;
}
PL_DEVICE float product_word(int sum) {
  return __int_as_float(sum);
}
PL_DEVICE void product_take(float& sum, float word) {
  sum = word;
}
PL_DEVICE void product_take(int& sum, float word) {
  sum = __float_as_int(word);
}
PL_DEVICE void product_add(float& sum, float word) {
  sum += word;
}
PL_DEVICE void product_add(int& sum, float word) {
  sum = (int)((u32)sum + (u32)__float_as_int(word));
}

/// Of `blocks` times `count` sums a thread, which own(block, i) points at four at a time, this part of k is kept in
/// memory; true where it was the last of `splits` to arrive, with the sums of all, added in their order. `all`: of this
/// thread's first sum of the first part, where parts are `apart` floats from each other and sums of neighbouring
/// threads side by side, `threads` of them. meet() is a barrier of these threads, one of which is the leader; `last`
/// lies in memory that they share.
template <int blocks, int count, int threads, int splits, typename Own, typename Meet>
PL_DEVICE bool product_add_parts(const Own& own, const Meet& meet, float* all, long long apart, int split, u32* counter,
                                 u32* last, bool leader) {
  const auto at = [&](int split, int block, int i) {
    return (float4*)(all + split * apart + (block * count + i) * threads);
  };
#pragma unroll
  for (int block = 0; block < blocks; ++block) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const auto* const x = own(block, i);
      *at(split, block, i) =
          make_float4(product_word(x[0]), product_word(x[1]), product_word(x[2]), product_word(x[3]));
    }
  }
  __threadfence();
  meet();
  if (leader) {
    const u32 old = atomicAdd(counter, 1u);
    *last = old;
    if (old == splits - 1) *counter = 0;
  }
  meet();
  if (*(volatile u32*)last != splits - 1) return false;
  __threadfence();
#pragma unroll
  for (int block = 0; block < blocks; ++block) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      auto* const x = own(block, i);
      const float4 first = __ldcg(at(0, block, i));
      product_take(x[0], first.x), product_take(x[1], first.y);
      product_take(x[2], first.z), product_take(x[3], first.w);
#pragma unroll
      for (int split = 1; split < splits; ++split) {
        const float4 next = __ldcg(at(split, block, i));
        product_add(x[0], next.x), product_add(x[1], next.y);
        product_add(x[2], next.z), product_add(x[3], next.w);
      }
    }
  }
  return true;
}

/// 16-byte units of a row of 128 bytes lie so that neither writing nor reading meets a bank twice.
template <int result_bytes>
PL_DEVICE int product_unit_at(int row, int unit) {
  const int key = result_bytes == 2 ? row % 8 : row % 4 * 2 + row / 4 % 2;
  return row * 128 + (unit ^ key) * 16;
}

/// A warp's results of 16 rows from `first` on and `width` columns from `begin` on go through its 2048 bytes of shared
/// memory, 128 bytes of a row at a time. sums(i) are a thread's, part by part, of each 8 columns four: two neighbours
/// of row lane / 4, and of the row 8 further. Rows from row_end on are not stored, nor, where these are `places`, those
/// that are not f.inside(row). What is folded of them (see product_folds.cuh) f.result() gives beside the results, and
/// goes to f.piece(unit, row, column), a column of its run; runs are parts of the width, or the other way round, and
/// columns a multiple of 8.
template <typename P, int width, typename Folds = ProductNoFolds, bool places = false, typename F, typename Sums>
PL_DEVICE void product_store(const F& f, const Sums& sums, unsigned char* exchange, int unit, int first, int row_end,
                             int begin) {
  constexpr int line = 128 / P::result_bytes, words = P::result_bytes / 2, of_unit = 16 / P::result_bytes;
  const int lane = (int)threadIdx.x % 32;
  if (first >= row_end) return;
  Folds folds;
  const auto leave = [&](int column) {
    if constexpr (Folds::count > 0) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = first + lane / 4 + h * 8;
        folds.leave(h, row < row_end, [&] { return f.piece(unit, row, column); });
      }
    }
  };
#pragma unroll
  for (int from = 0; from < width; from += line) {
    if (begin + from >= P::columns) break;
    u32 out[line / 8][2][words];
#pragma unroll
    for (int j = 0; j < line / 8; ++j) {
      if (from + j * 8 >= width) break;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        decltype(sums(0)) pair[P::parts][2];
#pragma unroll
        for (int part = 0; part < P::parts; ++part) {
#pragma unroll
          for (int e = 0; e < 2; ++e) pair[part][e] = sums(part * (width / 2) + (from / 8 + j) * 4 + h * 2 + e);
        }
        const int row = min(first + lane / 4 + h * 8, row_end - 1);
        const int column = min(begin + from + j * 8 + lane % 4 * 2, (P::columns - 1) & ~1);
        if constexpr (Folds::count == 0) {
          f.result(out[j][h], unit, row, column, pair);
        } else {
          float more[Folds::count][2];
          f.result(out[j][h], unit, row, column, pair, more);
          if (begin + from + j * 8 < P::columns) folds.take(h, more);
        }
      }
      const int next = from + j * 8 + 8;
      if (Folds::run < width && next % Folds::run == 0 && begin + next <= P::columns) leave(begin + next - 8);
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < line / 8; ++j) {
      if (from + j * 8 >= width) break;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int byte = (j * 8 + lane % 4 * 2) * P::result_bytes;
        u32* const to = (u32*)(exchange + product_unit_at<P::result_bytes>(lane / 4 + h * 8, byte / 16) + byte % 16);
#pragma unroll
        for (int w = 0; w < words; ++w) to[w] = out[j][h][w];
      }
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i * 4 + lane / 8, offset = lane % 8 * of_unit, column = begin + from + offset;
      if (first + row >= row_end || from + offset >= width || column >= P::columns) continue;
      if constexpr (places) {
        if (!f.inside(first + row)) continue;
      }
      const unsigned char* const own = exchange + product_unit_at<P::result_bytes>(row, lane % 8);
      char* const to = f.place(unit, first + row, column);
      if (P::words) {
        *(uint4*)to = *(const uint4*)own;
      } else {
        for (int e = 0; e < of_unit && column + e < P::columns; ++e) {
          for (int w = 0; w < words; ++w) ((u16*)to)[e * words + w] = ((const u16*)own)[e * words + w];
        }
      }
    }
  }
  if (Folds::run >= width && begin < P::columns) leave(begin);
  __syncwarp();
}
