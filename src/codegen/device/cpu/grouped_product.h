#pragma once
// Products of rows that belong to groups, each with a matrix of its own, on a processor:
// out[r, n] = Σ_k a[r, k] · b[group of r, k, n], summed in fp32. Group i has the rows from ends[i − 1] to ends[i].
//
// A unit of work is a panel of columns of one group with a block of its rows. Units of a group lie beside each other
// and threads have as much work each, so that a matrix is read from memory once, by one thread. Sums of `step` k at a
// time are added up in memory: what is read again stays in the cache, and rounding errors do not grow with k. Behind
// vector_prelude(), of which it needs loads and stores of the three types.
//
// Policy (all constexpr):
//   i64 rows, depth, columns, groups
//   i64 a_row, a_depth, b_group, b_depth, b_column, out_row, end_step    strides, in elements; out runs along columns
//   bool along_depth    memory of b runs along k (b_depth is 1), else along columns (b_column is 1)
//   bool in_place       a is fp32, runs along k, and rows are whole vectors: it is read where it lies
//   i64 step            a multiple of W
//   i64 panel, block    of a unit: columns, a multiple of a tile's; rows
//   types A, B, Out
// and static functions: vf a(const A*), float a_one(const A*), vf a(const A*, int), the same of b; put(Out*, vf) and
// put(Out*, vf, int).

/// The tile that a thread sums in registers: rows, and columns (vectors of columns, where memory runs along these).
template <class P>
struct GroupedTile {
  static constexpr int registers = W * 4 == 64 ? 32 : 16;
  static constexpr int rows = registers == 32 ? (P::along_depth ? 4 : 6) : (P::along_depth ? 3 : 4);
  static constexpr int columns = registers == 32 ? (P::along_depth ? 6 : 4) : (P::along_depth ? 4 : 2);
  static constexpr i64 width = P::along_depth ? columns : columns * W;
  static constexpr i64 pitch = (P::depth + W - 1) / W * W;  ///< of a row of a that was copied
  static constexpr i64 copied = P::in_place ? 0 : P::rows * pitch;
  static constexpr i64 kept = P::block * P::panel;  ///< floats of a thread
};

FN float grouped_sum(vf v) {
  FOLD(W, vf, v + o)
}

/// M rows by N columns of k that lie beside each other, `count` of them.
template <class P, int M, int N>
FN void grouped_dots(const float* a, i64 pitch, const typename P::B* b, i64 count, float* kept) {
  vf sums[M][N];
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) sums[m][n] = vf{};
  i64 k = 0;
  for (; k + W <= count; k += W) {
    vf x[M];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) x[m] = *(const vf_u*)(a + m * pitch + k);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const vf y = P::b(b + n * P::b_column + k);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) sums[m][n] += x[m] * y;
    }
  }
  if (k < count) {
    for (int n = 0; n < N; ++n) {
      const vf y = P::b(b + n * P::b_column + k, (int)(count - k));
      for (int m = 0; m < M; ++m) sums[m][n] += *(const vf_u*)(a + m * pitch + k) * y;
    }
  }
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) kept[m * P::panel + n] += grouped_sum(sums[m][n]);
}

/// M rows by N vectors of columns; of the last one there are so many.
template <class P, int M, int N, bool whole>
FN void grouped_columns(const float* a, i64 pitch, const typename P::B* b, i64 count, float* kept, int last) {
  vf sums[M][N];
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) sums[m][n] = vf{};
  for (i64 k = 0; k < count; ++k) {
    vf y[N];
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      const typename P::B* const at = b + k * P::b_depth + n * W;
      y[n] = whole || n + 1 < N ? P::b(at) : P::b(at, last);
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
      const vf x = splat(a[m * pitch + k]);
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[m][n] += x * y[n];
    }
  }
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) *(vf_u*)(kept + m * P::panel + n * W) += sums[m][n];
}

/// A step of k of M rows by the columns of a tile, of which there are so many.
template <class P, int M>
FN void grouped_tile(const float* a, i64 pitch, const typename P::B* b, i64 count, float* kept, i64 columns) {
  using T = GroupedTile<P>;
  if constexpr (P::along_depth) {
    if (columns >= T::columns) return grouped_dots<P, M, T::columns>(a, pitch, b, count, kept);
    for (i64 n = 0; n < columns; ++n) grouped_dots<P, M, 1>(a, pitch, b + n * P::b_column, count, kept + n);
  } else {
    if (columns >= T::width) return grouped_columns<P, M, T::columns, true>(a, pitch, b, count, kept, W);
    for (i64 n = 0; n < columns; n += W) {
      if (n + W <= columns)
        grouped_columns<P, M, 1, true>(a, pitch, b + n, count, kept + n, W);
      else
        grouped_columns<P, M, 1, false>(a, pitch, b + n, count, kept + n, (int)(columns - n));
    }
  }
}

template <class P, int M>
FN void grouped_rest(const float* a, i64 pitch, const typename P::B* b, i64 count, float* kept, i64 columns, i64 rows) {
  if (rows == M) return grouped_tile<P, M>(a, pitch, b, count, kept, columns);
  if constexpr (M > 1) grouped_rest<P, M - 1>(a, pitch, b, count, kept, columns, rows);
}

/// Rows `row` … `row + rows` by a panel of columns, of one group.
template <class P>
static void grouped_unit(const float* a, i64 pitch, const typename P::B* b, typename P::Out* out, float* kept, i64 row,
                         i64 rows, i64 column) {
  using T = GroupedTile<P>;
  const i64 columns = P::columns - column < P::panel ? P::columns - column : P::panel;
  for (i64 i = 0; i < rows * P::panel; ++i) kept[i] = 0;
  for (i64 n = 0; n < columns; n += T::width) {
    for (i64 k = 0; k < P::depth; k += P::step) {
      const i64 count = P::depth - k < P::step ? P::depth - k : P::step;
      const typename P::B* const from = b + k * P::b_depth + (column + n) * P::b_column;
      for (i64 r = 0; r < rows; r += T::rows) {
        const float* const x = a + (row + r) * pitch + k;
        float* const sums = kept + r * P::panel + n;
        if (rows - r >= T::rows)
          grouped_tile<P, T::rows>(x, pitch, from, count, sums, columns - n);
        else
          grouped_rest<P, T::rows - 1>(x, pitch, from, count, sums, columns - n, rows - r);
      }
    }
  }
  for (i64 r = 0; r < rows; ++r) {
    typename P::Out* const to = out + (row + r) * P::out_row + column;
    for (i64 n = 0; n < columns; n += W) {
      const vf sums = *(const vf_u*)(kept + r * P::panel + n);
      if (n + W <= columns)
        P::put(to + n, sums);
      else
        P::put(to + n, sums, (int)(columns - n));
    }
  }
}

/// The thread's share of a as fp32, in rows of whole vectors with zeros behind.
template <class P>
static void grouped_copy(const typename P::A* a, float* to, i64 tid, i64 team) {
  constexpr i64 pitch = GroupedTile<P>::pitch;
  for (i64 r = P::rows * tid / team; r < P::rows * (tid + 1) / team; ++r) {
    const typename P::A* const from = a + r * P::a_row;
    float* const row = to + r * pitch;
    if constexpr (P::a_depth == 1) {
      i64 k = 0;
      for (; k + W <= P::depth; k += W) *(vf_u*)(row + k) = P::a(from + k);
      if (k < P::depth) *(vf_u*)(row + k) = P::a(from + k, (int)(P::depth - k));
    } else {
      for (i64 k = 0; k < pitch; ++k) row[k] = k < P::depth ? P::a_one(from + k * P::a_depth) : 0;
    }
  }
}

/// The thread's share of the units. `a`: as grouped_copy() left it, or in place. `kept`: of all threads. Ends that no
/// groups have (falling ones, ones beyond the rows) are cut off. Rows behind the last group become zero.
template <class P, class End>
static void grouped_product(const float* a, const typename P::B* b, const End* ends, typename P::Out* out, float* kept,
                            i64 tid, i64 team) {
  using T = GroupedTile<P>;
  constexpr i64 panels = (P::columns + P::panel - 1) / P::panel, pitch = P::in_place ? P::a_row : T::pitch;
  constexpr i64 matrix = 16;  // reading a panel of a matrix takes as long as computing so many rows of it
  const auto end_of = [&](i64 group, i64 begin) {
    const i64 end = ends[group * P::end_step];
    return end < begin ? begin : end > P::rows ? P::rows : end;
  };
  const auto cost_of = [&](i64 rows) { return rows + (rows + P::block - 1) / P::block * matrix; };
  i64 total = 0, begin = 0;
  for (i64 g = 0; g < P::groups; ++g) {
    const i64 end = end_of(g, begin);
    total += cost_of(end - begin) * panels;
    begin = end;
  }
  for (i64 r = begin + (P::rows - begin) * tid / team; r < begin + (P::rows - begin) * (tid + 1) / team; ++r)
    for (i64 n = 0; n < P::columns; n += W)
      P::put(out + r * P::out_row + n, vf{}, (int)(P::columns - n < W ? P::columns - n : W));
  const i64 low = total * tid / team, high = total * (tid + 1) / team;
  float* const own = kept + tid * T::kept;
  i64 at = 0;
  begin = 0;
  for (i64 g = 0; g < P::groups && at < high; ++g) {
    const i64 end = end_of(g, begin), all = cost_of(end - begin) * panels;
    if (at + all > low) {
      i64 place = at;
      for (i64 p = 0; p < panels; ++p) {
        for (i64 r = begin; r < end; r += P::block) {
          const i64 rows = end - r < P::block ? end - r : P::block;
          if (place >= low && place < high)
            grouped_unit<P>(a, pitch, b + g * P::b_group, out, own, r, rows, p * P::panel);
          place += rows + matrix;
        }
      }
    }
    at += all;
    begin = end;
  }
}
