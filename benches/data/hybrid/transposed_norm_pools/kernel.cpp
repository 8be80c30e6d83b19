// Lowered from this sketch:
//
//   sketch g_72_convtranspose3d_batchnorm_avgpool_avgpool(conv_transpose_weight: f32[3, 16, 3, 3, 3], conv_transpose_bias: f32[16], batch_norm_weight: f32[16], batch_norm_bias: f32[16], batch_norm_running_mean: f32[16], batch_norm_running_var: f32[16], batch_norm_num_batches_tracked: i64[], x: f32[64, 3, 32, 32, 32]) -> (avg_pool3d_1: f32[64, 16, 15, 15, 15], getitem_3: f32[16], getitem_4: f32[16], add: i64[])
//   buffer W00: f32[3, 3, 16]
//   buffer W01: f32[3, 3, 2, 16]
//   buffer W10: f32[3, 3, 2, 16]
//   buffer W11: f32[3, 3, 2, 2, 16]
//   buffer W3: f32[3, 3, 3, 3, 16]
//   buffer B: f64[3, 3, 3, 64, 32]
//   buffer P00: f64[16, 64]
//   buffer P01: f64[16, 64]
//   buffer P10: f64[16, 64]
//   buffer P11: f64[16, 64]
//   buffer SCALE: f32[16]
//   buffer SHIFT: f32[16]
//
//   # the weights by parity of depth and row; the first index is the tap of columns
//   kernel kw over (k in 3) {
//     w00 = load conv_transpose_weight[0 :+ 3, 0 :+ 16, 1, 1, k]
//     store W00[k, 0 :+ 3, 0 :+ 16] = w00
//     for b in 0..2 {
//       w01 = load conv_transpose_weight[0 :+ 3, 0 :+ 16, 1, 2 - 2*b, k]
//       store W01[k, 0 :+ 3, b, 0 :+ 16] = w01
//       w10 = load conv_transpose_weight[0 :+ 3, 0 :+ 16, 2 - 2*b, 1, k]
//       store W10[k, 0 :+ 3, b, 0 :+ 16] = w10
//     }
//     for a in 0..2, b in 0..2 {
//       w11 = load conv_transpose_weight[0 :+ 3, 0 :+ 16, 2 - 2*a, 2 - 2*b, k]
//       store W11[k, 0 :+ 3, a, b, 0 :+ 16] = w11
//     }
//   }
//
//   # the weights of transposed convolution and both pools: taps {1, 2}, {0, 1, 2} and {0} of a dimension together
//   kernel kp over (e in 3, a in 3, b in 3) {
//     acc = zeros f64[3, 16]
//     for i in (2 - a) // 2..3 - 2 * (a // 2), j in (2 - b) // 2..3 - 2 * (b // 2), k in (2 - e) // 2..3 - 2 * (e // 2) {
//       w = load conv_transpose_weight[0 :+ 3, 0 :+ 16, i, j, k]
//       acc = acc + f64(w)
//     }
//     u = acc*0.015625
//     store W3[e, 0 :+ 3, a, b, 0 :+ 16] = f32(u)
//   }
//
//   # sums of x over the rows and columns that meet each tap
//   kernel kb over (p0 in 64, d in 32) {
//     for j in 0..3, k in 0..3 {
//       t = load x[p0, 0 :+ 3, d, 1 - j :+ 32, 1 - k :+ 32] else 0.0
//       t1 = f64(t)
//       t2 = reduce_sum(t1, 2)
//       t3 = reduce_sum(t2, 1)
//       store B[0 :+ 3, j, k, p0, d] = t3
//     }
//   }
//
//   # squares of the transposed convolution at parity (0, 0) of depth and row, even and odd columns
//   kernel s00 over (p0 in 64) {
//     acc = zeros f64[16]
//     for d in 0..32 {
//       q0 = zeros f32[16, 32]
//       q1 = zeros f32[16, 32]
//       for h in 0..32 {
//         xa = load x[p0, 0 :+ 3, d, h, 0 :+ 32]
//         xb = load x[p0, 0 :+ 3, d, h, 1 :+ 32] else 0.0
//         y0 = dot(trans(load W00[1, 0 :+ 3, 0 :+ 16]), xa) ieee promote(32)
//         y1 = dot(trans(load W00[2, 0 :+ 3, 0 :+ 16]), xa) ieee promote(32)
//         y2 = y1 + (dot(trans(load W00[0, 0 :+ 3, 0 :+ 16]), xb) ieee promote(32))
//         q0 = q0 + y0*y0
//         q1 = q1 + y2*y2
//       }
//       q2 = select((iota(32) < 31)[None, :], q1, 0.0)
//       acc = acc + reduce_sum(f64(q0), 1)
//       acc = acc + reduce_sum(f64(q2), 1)
//     }
//     store P00[0 :+ 16, p0] = acc
//   }
//
//   # squares of the transposed convolution at parity (0, 1) of depth and row, even and odd columns
//   kernel s01 over (p0 in 64) seeing W01 as [3, 6, 16] {
//     acc = zeros f64[16]
//     for d in 0..32 {
//       q0 = zeros f32[16, 32]
//       q1 = zeros f32[16, 32]
//       for h in 0..31 {
//         xa0 = load x[p0, 0 :+ 3, d, h :+ 2, 0 :+ 32]
//         xa = reshape(xa0, [6, 32])
//         xb0 = load x[p0, 0 :+ 3, d, h :+ 2, 1 :+ 32] else 0.0
//         xb = reshape(xb0, [6, 32])
//         y0 = dot(trans(load W01[1, 0 :+ 6, 0 :+ 16]), xa) ieee promote(32)
//         y1 = dot(trans(load W01[2, 0 :+ 6, 0 :+ 16]), xa) ieee promote(32)
//         y2 = y1 + (dot(trans(load W01[0, 0 :+ 6, 0 :+ 16]), xb) ieee promote(32))
//         q0 = q0 + y0*y0
//         q1 = q1 + y2*y2
//       }
//       q2 = select((iota(32) < 31)[None, :], q1, 0.0)
//       acc = acc + reduce_sum(f64(q0), 1)
//       acc = acc + reduce_sum(f64(q2), 1)
//     }
//     store P01[0 :+ 16, p0] = acc
//   }
//
//   # squares of the transposed convolution at parity (1, 0) of depth and row, even and odd columns
//   kernel s10 over (p0 in 64) seeing W10 as [3, 6, 16] {
//     acc = zeros f64[16]
//     for d in 0..31 {
//       q0 = zeros f32[16, 32]
//       q1 = zeros f32[16, 32]
//       for h in 0..32 {
//         xa0 = load x[p0, 0 :+ 3, d :+ 2, h, 0 :+ 32]
//         xa = reshape(xa0, [6, 32])
//         xb0 = load x[p0, 0 :+ 3, d :+ 2, h, 1 :+ 32] else 0.0
//         xb = reshape(xb0, [6, 32])
//         y0 = dot(trans(load W10[1, 0 :+ 6, 0 :+ 16]), xa) ieee promote(32)
//         y1 = dot(trans(load W10[2, 0 :+ 6, 0 :+ 16]), xa) ieee promote(32)
//         y2 = y1 + (dot(trans(load W10[0, 0 :+ 6, 0 :+ 16]), xb) ieee promote(32))
//         q0 = q0 + y0*y0
//         q1 = q1 + y2*y2
//       }
//       q2 = select((iota(32) < 31)[None, :], q1, 0.0)
//       acc = acc + reduce_sum(f64(q0), 1)
//       acc = acc + reduce_sum(f64(q2), 1)
//     }
//     store P10[0 :+ 16, p0] = acc
//   }
//
//   # squares of the transposed convolution at parity (1, 1) of depth and row, even and odd columns
//   kernel s11 over (p0 in 64) seeing W11 as [3, 12, 16] {
//     acc = zeros f64[16]
//     for d in 0..31 {
//       q0 = zeros f32[16, 32]
//       q1 = zeros f32[16, 32]
//       for h in 0..31 {
//         xa0 = load x[p0, 0 :+ 3, d :+ 2, h :+ 2, 0 :+ 32]
//         xa = reshape(xa0, [12, 32])
//         xb0 = load x[p0, 0 :+ 3, d :+ 2, h :+ 2, 1 :+ 32] else 0.0
//         xb = reshape(xb0, [12, 32])
//         y0 = dot(trans(load W11[1, 0 :+ 12, 0 :+ 16]), xa) ieee promote(32)
//         y1 = dot(trans(load W11[2, 0 :+ 12, 0 :+ 16]), xa) ieee promote(32)
//         y2 = y1 + (dot(trans(load W11[0, 0 :+ 12, 0 :+ 16]), xb) ieee promote(32))
//         q0 = q0 + y0*y0
//         q1 = q1 + y2*y2
//       }
//       q2 = select((iota(32) < 31)[None, :], q1, 0.0)
//       acc = acc + reduce_sum(f64(q0), 1)
//       acc = acc + reduce_sum(f64(q2), 1)
//     }
//     store P11[0 :+ 16, p0] = acc
//   }
//
//   # mean, variance, and what they make of a channel
//   kernel k1 over (p0 in 1) {
//     s1 = zeros f64[16]
//     for c in 0..3, i in 0..3, j in 0..3, k in 0..3 {
//       bx = load B[c, j, k, 0 :+ 64, 1 - i :+ 32] else 0.0
//       br = reduce_sum(bx, 1)
//       bs = reduce_sum(br, 0)
//       w1 = load conv_transpose_weight[c, 0 :+ 16, i, j, k]
//       s1 = s1 + f64(w1) * bs
//     }
//     x00 = load P00[0 :+ 16, 0 :+ 64]
//     x01 = load P01[0 :+ 16, 0 :+ 64]
//     x10 = load P10[0 :+ 16, 0 :+ 64]
//     x11 = load P11[0 :+ 16, 0 :+ 64]
//     xs = x00 + x01 + x10 + x11
//     s2 = reduce_sum(xs, 1)
//     m0 = s1 / 16003008.0
//     e2 = s2 / 16003008.0
//     v0 = e2 - m0*m0
//     var = max(v0, 0.0)
//     cb = load conv_transpose_bias[0 :+ 16]
//     mean = m0 + f64(cb)
//     rm = load batch_norm_running_mean[0 :+ 16]
//     g3 = mean*0.1 + f64(rm) * 0.9
//     store getitem_3[0 :+ 16] = f32(g3)
//     rv = load batch_norm_running_var[0 :+ 16]
//     uv = var*1.0000000624882561
//     g4 = uv*0.1 + f64(rv) * 0.9
//     store getitem_4[0 :+ 16] = f32(g4)
//     rstd = rsqrt(var + 1e-5)
//     bw = load batch_norm_weight[0 :+ 16]
//     sc = rstd * f64(bw)
//     bb = load batch_norm_bias[0 :+ 16]
//     sh = f64(bb) - m0*sc
//     store SCALE[0 :+ 16] = f32(sc)
//     store SHIFT[0 :+ 16] = f32(sh)
//     nb = load batch_norm_num_batches_tracked[]
//     store add[] = nb + 1
//   }
//
//   # the result: a row for all channels
//   kernel ko over (p0 in 64, p1 in 15, p2 in 15) seeing W3 as [3, 27, 16] {
//     acc = zeros f32[16, 16]
//     for e in 0..3 {
//       xt = load x[p0, 0 :+ 3, 2*p1 :+ 3, 2*p2 :+ 3, e :+ 16 by 2] else 0.0
//       acc = acc + (dot(trans(load W3[e, 0 :+ 27, 0 :+ 16]), reshape(xt, [27, 16])) ieee promote(32))
//     }
//     sc = load SCALE[0 :+ 16]
//     sh = load SHIFT[0 :+ 16]
//     y = acc * sc[:, None]
//     z = y + sh[:, None]
//     store avg_pool3d_1[p0, 0 :+ 16, p1, p2, 0 :+ 16] = z
//   }
#include <cstdint>

#define AKG_VECTOR_BYTES 64
// The smaller, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_min(T a, T b) {
  const T least = b < a ? b : a;
  return b == b ? least : b;
}
// The larger, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_max(T a, T b) {
  const T most = b > a ? b : a;
  return b == b ? most : b;
}
// The larger; least is a number.
template <class T> static inline T akg_at_least(T a, T least) { return a < least ? least : a; }
// Rounds down; 0 for a zero divisor.
template <class T> static inline T akg_floor_div(T a, T b) {
  if (b == 0) return 0;
  if (b == T(-1)) return T(0 - a);
  return T(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
}
// The first index i in 0..len from which on start + step * i is inside of 0..extent.
static inline int akg_clip_lo(int64_t start, int64_t step, int64_t extent, int64_t len) {
  const int64_t outside = step > 0 ? -start : start - extent + 1, distance = step > 0 ? step : -step;
  return outside <= 0 ? 0 : int(akg_min((outside + distance - 1) / distance, len));
}
// The end of the indices i in 0..len until which start + step * i is inside of 0..extent.
static inline int akg_clip_hi(int64_t start, int64_t step, int64_t extent, int64_t len) {
  const int64_t inside = step > 0 ? extent - start : start + 1, distance = step > 0 ? step : -step;
  return inside <= 0 ? 0 : int(akg_min((inside + distance - 1) / distance, len));
}
static inline float akg_rsqrt(float x) { return float(1 / __builtin_sqrt(double(x))); }
static inline double akg_rsqrt(double x) { return 1 / __builtin_sqrt(x); }
template <class T> struct akg_vector {
  typedef T type __attribute__((vector_size(AKG_VECTOR_BYTES)));
  static constexpr int lanes = AKG_VECTOR_BYTES / int(sizeof(T));
};
// The matrix from[k * row + n] in panels of W columns, each row by row; zero from `rows` and `columns` on. A few rows of
// all panels at a time, so that neither side needs more pages and lines of one cache set than there are. Whole vectors
// are written where later rows of the panel overwrite what is too much.
template <int K, int N, int W, class T>
static inline void akg_pack(const T *__restrict from, int64_t row, int rows, int columns, T *__restrict to) {
  constexpr int lanes = akg_vector<T>::lanes, some = 8, line = 64 / int(sizeof(T));
  constexpr int wide = W < lanes && lanes % W == 0 ? W : (W + lanes - 1) / lanes * lanes;
  for (int first = 0; first < K; first += some)
    for (int n = 0; n < N; n += W) {
      const int end = akg_min(first + some, K);
      T *out = to + n * K + first * W;
      const T *in = from + first * row + n;
      for (int k = first; k < end; ++k, in += row, out += W) {
        if (k + some < rows)
          for (int j = 0; j < W; j += line) __builtin_prefetch(in + some * row + j);
        if (k >= rows) __builtin_memset(out, 0, W * sizeof(T));
        else if (n + wide <= columns && k * W + wide <= end * W) __builtin_memcpy(out, in, wide * sizeof(T));
        else if (n + W <= columns) __builtin_memcpy(out, in, W * sizeof(T));
        else
          for (int j = 0; j < W; ++j) out[j] = n + j < columns ? in[j] : T(0);
      }
    }
}
// n elements that are STEP apart, in whole vectors where there are so many.
template <int STEP, class T> static inline void akg_copy(const T *__restrict from, int n, T *__restrict to) {
  constexpr int lanes = akg_vector<T>::lanes, half = lanes / 2, quarter = lanes / 4;
  if constexpr (STEP != 1) {
    for (int i = 0; i < n; ++i) to[i] = from[i * STEP];
  } else if (n >= lanes) {
    for (int i = 0; i + lanes < n; i += lanes) __builtin_memcpy(to + i, from + i, lanes * sizeof(T));
    __builtin_memcpy(to + n - lanes, from + n - lanes, lanes * sizeof(T));
  } else if (n >= half) {
    __builtin_memcpy(to, from, half * sizeof(T));
    __builtin_memcpy(to + n - half, from + n - half, half * sizeof(T));
  } else if (n >= quarter) {
    __builtin_memcpy(to, from, quarter * sizeof(T));
    __builtin_memcpy(to + n - quarter, from + n - quarter, quarter * sizeof(T));
  } else {
    for (int i = 0; i < n; ++i) to[i] = from[i];
  }
}
#if defined(__clang__)
#define AKG_SHORT_LOOPS
#else
#define AKG_SHORT_LOOPS __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif
// The matrix from[i * row + j * STEP] into one whose rows are W apart; zero where it does not exist, which it does from row
// r0 to r1 and from column c0 to c1.
template <int W, int ROWS, int COLUMNS, int STEP, class T>
AKG_SHORT_LOOPS static void akg_pack_part(const T *__restrict from, int64_t row, int r0, int r1, int c0, int c1,
                                          T *__restrict to) {
  if (r0 <= 0 && r1 >= ROWS && c0 <= 0 && c1 >= COLUMNS) {
    for (int i = 0; i < ROWS; ++i) akg_copy<STEP>(from + i * row, COLUMNS, to + i * W);
    return;
  }
  for (int i = 0; i < ROWS; ++i, from += row, to += W) {
    const int first = i >= r0 && i < r1 ? akg_min(c0, COLUMNS) : COLUMNS, end = akg_max(first, c1);
    for (int j = 0; j < first; ++j) to[j] = T(0);
    if (first < COLUMNS) akg_copy<STEP>(from + int64_t(first) * STEP, end - first, to + first);
    for (int j = end; j < COLUMNS; ++j) to[j] = T(0);
  }
}
#if defined(__clang__)
#define AKG_FUSED
#define AKG_FUSE _Pragma("clang fp contract(fast)")
#else
// Functions with this attribute are inlined into each other alone.
#define AKG_FUSED __attribute__((optimize("fp-contract=fast")))
#define AKG_FUSE
#endif
// What becomes of the product's sums in c: they start from it, are added to it, or replace it.
enum akg_sums { akg_continue, akg_add, akg_replace };
// sum[R, C vectors] += a[R, k] * b[k, C vectors], or = if the sums replace it, the products summed in registers first. Rows of
// b are W apart, and rows of sum `row`.
template <int R, int C, int W, int ROW, int COLUMN, akg_sums SUMS, class T, class SUM>
AKG_FUSED static inline __attribute__((always_inline)) void akg_block(const T *__restrict a, const T *__restrict b,
                                                                      int k, SUM *__restrict sum, int64_t row) {
  AKG_FUSE
  constexpr int lanes = akg_vector<T>::lanes;
  typedef typename akg_vector<T>::type vector;
  typedef SUM wide __attribute__((vector_size(lanes * sizeof(SUM))));
  vector part[R][C] = {};
  for (int p = 0; p < k; ++p) {
    vector right[C];
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) __builtin_memcpy(&right[j], b + p * W + j * lanes, sizeof(vector));
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const vector left = a[i * ROW + p * COLUMN] - vector{};
#pragma GCC unroll 8
      for (int j = 0; j < C; ++j) part[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      SUM *const to = sum + i * row + j * lanes;
      wide all = __builtin_convertvector(part[i][j], wide);
      if (SUMS != akg_replace) {
        wide before;
        __builtin_memcpy(&before, to, sizeof before);
        all += before;
      }
      __builtin_memcpy(to, &all, sizeof all);
    }
}
// The same for M rows of a, in lines of L that are LINE apart, by blocks of R. The block from row m of a line on begins at
// m * BLOCK in it.
template <int M, int R, int C, int W, int L, int LINE, int BLOCK, int ROW, int COLUMN, akg_sums SUMS, class T, class SUM>
AKG_FUSED static inline void akg_blocks(const T *a, const T *b, int k, SUM *sum, int64_t row) {
  constexpr int len = M < L ? M : L, rest = len % R;
  for (int y = 0; y < M / len; ++y, a += LINE, sum += len * row) {
    for (int m = 0; m + R <= len; m += R)
      akg_block<R, C, W, ROW, COLUMN, SUMS>(a + m * BLOCK, b, k, sum + m * row, row);
    if (rest)
      akg_block<rest ? rest : 1, C, W, ROW, COLUMN, SUMS>(a + (len - rest) * BLOCK, b, k, sum + (len - rest) * row, row);
  }
}
// M rows of one panel of c by all of K, in sums over CHUNK products that are added up in SUM. So many rows of b stay in the
// nearest cache for all rows of a. Rows of c are `row` apart.
template <int M, int R, int C, int W, int VALID, int K, int L, int LINE, int BLOCK, int ROW, int COLUMN, int CHUNK,
          akg_sums SUMS, class SUM, class T, class S>
static void akg_panel(const T *a, const T *b, S *__restrict c, int64_t row) {
  constexpr int block = C * akg_vector<T>::lanes, line = 64 / int(sizeof(S));
  // One run of products needs no sums between registers and c.
  if constexpr (K <= CHUNK && VALID == block && sizeof(SUM) <= sizeof(S)) {
    akg_blocks<M, R, C, W, L, LINE, BLOCK, ROW, COLUMN, SUMS>(a, b, K, c, row);
    return;
  }
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < VALID; j += line) __builtin_prefetch(c + i * row + j, 1);
  alignas(64) SUM sum[M * block] = {};
  if (SUMS == akg_continue)
    for (int i = 0; i < M; ++i)
#pragma omp simd
      for (int j = 0; j < VALID; ++j) sum[i * block + j] = SUM(c[i * row + j]);
  for (int p = 0; p < K; p += CHUNK) {
    const int end = akg_min(p + CHUNK, K);
    // Rows of b that are apart are not fetched ahead by themselves.
    if constexpr (W > block && L < M)
      for (int i = end; i < akg_min(end + CHUNK, K); ++i)
        for (int j = 0; j < block; j += 64 / int(sizeof(T))) __builtin_prefetch(b + i * W + j);
    akg_blocks<M, R, C, W, L, LINE, BLOCK, ROW, COLUMN, akg_add>(a + p * COLUMN, b + p * W, end - p, sum, block);
  }
  for (int i = 0; i < M; ++i)
#pragma omp simd
    for (int j = 0; j < VALID; ++j) {
      const SUM all = sum[i * block + j];
      c[i * row + j] = S(SUMS == akg_add ? c[i * row + j] + all : all);
    }
}
// All rows of a panel, as many at a time as sums of 16 kB have; whole lines if there are several.
template <int M, int R, int C, int W, int VALID, int K, int L, int LINE, int BLOCK, int ROW, int COLUMN, int CHUNK,
          akg_sums SUMS, class SUM, class T, class S>
static inline void akg_panels(const T *a, const T *b, S *c, int64_t row) {
  constexpr int grain = L < M ? L : R, all = 16384 / int(sizeof(SUM)) / (C * akg_vector<T>::lanes) / grain * grain;
  constexpr int some = all < grain ? grain : all, rest = M % some;
  const auto at = [=](int m) { return a + (L < M ? m / L * LINE : m * BLOCK); };
  for (int m = 0; m + some <= M; m += some)
    akg_panel<some, R, C, W, VALID, K, L, LINE, BLOCK, ROW, COLUMN, CHUNK, SUMS, SUM>(at(m), b, c + m * row, row);
  if (rest)
    akg_panel<rest ? rest : 1, R, C, W, VALID, K, L, LINE, BLOCK, ROW, COLUMN, CHUNK, SUMS, SUM>(
        at(M - rest), b, c + (M - rest) * row, row);
}
// c[M, N] = a[M, K] * b[K, N] by blocks of R rows and C vectors of columns. Panels of b are W columns wide: as a block, or
// one that holds all. Rows of a come in lines of L that are LINE apart, or in one of M. The block from row m of a line on
// begins at m * BLOCK in it; its rows and columns are ROW and COLUMN apart.
template <int M, int N, int K, int L, int LINE, int BLOCK, int ROW, int COLUMN, int R, int C, int W, int CHUNK,
          akg_sums SUMS, class SUM, class T, class S>
static inline void akg_dot(const T *a, const T *b, S *c) {
  constexpr int lanes = akg_vector<T>::lanes, width = C * lanes, rest = N % width, last = (rest + lanes - 1) / lanes;
  constexpr int column = W == width ? K : 1;
  for (int n = 0; n + width <= N; n += width)
    akg_panels<M, R, C, W, width, K, L, LINE, BLOCK, ROW, COLUMN, CHUNK, SUMS, SUM>(a, b + n * column, c + n, N);
  if (rest)
    akg_panels<M, R, last ? last : 1, W, rest ? rest : 1, K, L, LINE, BLOCK, ROW, COLUMN, CHUNK, SUMS, SUM>(
        a, b + (N - rest) * column, c + (N - rest), N);
}

// the weights by parity of depth and row; the first index is the tap of columns
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_kw(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict conv_transpose_weight = static_cast<const float *>(tensors[0]);
  float *__restrict W00 = static_cast<float *>(tensors[1]);
  float *__restrict W01 = static_cast<float *>(tensors[2]);
  float *__restrict W10 = static_cast<float *>(tensors[3]);
  float *__restrict W11 = static_cast<float *>(tensors[4]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t k = program;
    // store W00
    for (int i = 0; i < 3; ++i) {
      #pragma omp simd
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        W00[k * 48L + i * 16L + i_1] = conv_transpose_weight[i * 432L + i_1 * 27L + k + 12L];
      }
    }
    for (int64_t b = 0; b < 2; ++b) {
      // store W01
      for (int i_2 = 0; i_2 < 3; ++i_2) {
        #pragma omp simd
        for (int i_3 = 0; i_3 < 16; ++i_3) {
          W01[k * 96L + i_2 * 32L + b * 16L + i_3] = conv_transpose_weight[i_2 * 432L + i_3 * 27L + k - b * 6L + 15L];
        }
      }
      // store W10
      for (int i_4 = 0; i_4 < 3; ++i_4) {
        #pragma omp simd
        for (int i_5 = 0; i_5 < 16; ++i_5) {
          W10[k * 96L + i_4 * 32L + b * 16L + i_5] = conv_transpose_weight[i_4 * 432L + i_5 * 27L + k - b * 18L + 21L];
        }
      }
    }
    for (int64_t a = 0; a < 2; ++a) {
      for (int64_t b_1 = 0; b_1 < 2; ++b_1) {
        // store W11
        for (int i_6 = 0; i_6 < 3; ++i_6) {
          #pragma omp simd
          for (int i_7 = 0; i_7 < 16; ++i_7) {
            W11[k * 192L + i_6 * 64L + a * 32L + b_1 * 16L + i_7] = conv_transpose_weight[i_6 * 432L + i_7 * 27L + k - a * 18L - b_1 * 6L + 24L];
          }
        }
      }
    }
  }
}

// the weights of transposed convolution and both pools: taps {1, 2}, {0, 1, 2} and {0} of a dimension together
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_kp(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict conv_transpose_weight = static_cast<const float *>(tensors[0]);
  float *__restrict W3 = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t e = (program / 9);
    const int64_t a = (((program % 9)) / 3);
    const int64_t b = (((program % 9)) % 3);
    alignas(64) double acc[48];
    for (int i = 0; i < 3; ++i) {
      #pragma omp simd
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        acc[i * 16 + i_1] = 0.0;
      }
    }
    for (int64_t i_2 = akg_floor_div<int64_t>(-a, 2) + 1; i_2 < -(a / 2) * 2 + 3; ++i_2) {
      for (int64_t j = akg_floor_div<int64_t>(-b, 2) + 1; j < -(b / 2) * 2 + 3; ++j) {
        for (int64_t k = akg_floor_div<int64_t>(-e, 2) + 1; k < -(e / 2) * 2 + 3; ++k) {
          for (int i_3 = 0; i_3 < 3; ++i_3) {
            #pragma omp simd
            for (int i_4 = 0; i_4 < 16; ++i_4) {
              acc[i_3 * 16 + i_4] = acc[i_3 * 16 + i_4] + double(conv_transpose_weight[i_3 * 432L + i_4 * 27L + i_2 * 9L + j * 3L + k]);
            }
          }
        }
      }
    }
    // store W3
    for (int i_5 = 0; i_5 < 3; ++i_5) {
      #pragma omp simd
      for (int i_6 = 0; i_6 < 16; ++i_6) {
        W3[e * 432L + i_5 * 144L + a * 48L + b * 16L + i_6] = float(acc[i_5 * 16 + i_6] * 0.015625);
      }
    }
  }
}

// sums of x over the rows and columns that meet each tap
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_kb(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  double *__restrict B = static_cast<double *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = (program / 32);
    const int64_t d = (program % 32);
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 3; ++k) {
        // store B
        // t3 = reduce_sum(t2, 1)
        alignas(64) double t3[3];
        // t2 = reduce_sum(t1, 2)
        alignas(64) double t2[96];
        const int i_4_lo = akg_clip_lo(-j + 1, 1, 32, 32);
        const int i_4_hi = akg_clip_hi(-j + 1, 1, 32, 32);
        const int i_5_lo = akg_clip_lo(-k + 1, 1, 32, 32);
        const int i_5_hi = akg_clip_hi(-k + 1, 1, 32, 32);
        if (i_4_hi == 32 && i_4_lo == 0 && i_5_hi == 32 && i_5_lo == 0) {
          for (int i_3 = 0; i_3 < 3; ++i_3) {
            for (int i_4 = 0; i_4 < 32; ++i_4) {
              double acc_1 = 0.0;
              #pragma omp simd reduction(+ : acc_1)
              for (int i_5 = 0; i_5 < 32; ++i_5) {
                const double t1 = double(x[p0 * 98304L + i_3 * 32768L + d * 1024L + i_4 * 32L + i_5 - j * 32L - k + 33L]);
                acc_1 = acc_1 + t1;
              }
              t2[i_3 * 32 + i_4] = acc_1;
            }
          }
        } else {
          for (int i_3 = 0; i_3 < 3; ++i_3) {
            for (int i_4 = 0; i_4 < 32; ++i_4) {
              double acc_1 = 0.0;
              #pragma omp simd reduction(+ : acc_1)
              for (int i_5 = 0; i_5 < 32; ++i_5) {
                const double t1 = double(i_4 >= i_4_lo && i_4 < i_4_hi && i_5 >= i_5_lo && i_5 < i_5_hi ? x[p0 * 98304L + i_3 * 32768L + d * 1024L + i_4 * 32L + i_5 - j * 32L - k + 33L] : 0.0f);
                acc_1 = acc_1 + t1;
              }
              t2[i_3 * 32 + i_4] = acc_1;
            }
          }
        }
        for (int i_1 = 0; i_1 < 3; ++i_1) {
          double acc = 0.0;
          #pragma omp simd reduction(+ : acc)
          for (int i_2 = 0; i_2 < 32; ++i_2) {
            const double t2_1 = t2[i_1 * 32 + i_2];
            acc = acc + t2_1;
          }
          t3[i_1] = acc;
        }
        #pragma omp simd
        for (int i = 0; i < 3; ++i) {
          B[i * 18432L + j * 6144L + k * 2048L + p0 * 32L + d] = t3[i];
        }
      }
    }
  }
}

// squares of the transposed convolution at parity (0, 0) of depth and row, even and odd columns
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_s00(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  const float *__restrict W00 = static_cast<const float *>(tensors[1]);
  double *__restrict P00 = static_cast<double *>(tensors[2]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = program;
    alignas(64) double acc[16];
    #pragma omp simd
    for (int i = 0; i < 16; ++i) {
      acc[i] = 0.0;
    }
    for (int64_t d = 0; d < 32; ++d) {
      alignas(64) float q0[512];
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        #pragma omp simd
        for (int i_2 = 0; i_2 < 32; ++i_2) {
          q0[i_1 * 32 + i_2] = 0.0f;
        }
      }
      alignas(64) float q1[512];
      for (int i_3 = 0; i_3 < 16; ++i_3) {
        #pragma omp simd
        for (int i_4 = 0; i_4 < 32; ++i_4) {
          q1[i_3 * 32 + i_4] = 0.0f;
        }
      }
      alignas(64) float held[64];
      akg_pack<3, 16, 16>(W00 + 48L, 16, 3, 16, held);
      alignas(64) float held_1[64];
      akg_pack<3, 16, 16>(W00 + 96L, 16, 3, 16, held_1);
      alignas(64) float held_2[64];
      akg_pack<3, 16, 16>(W00, 16, 3, 16, held_2);
      for (int64_t h = 0; h < 32; ++h) {
        // y0 = dot(…, xa)
        alignas(64) float right[96];
        akg_pack<3, 32, 32>(x + p0 * 98304L + d * 1024L + h * 32L, 32768, 3, 32, right);
        alignas(64) float y0[512];
        akg_dot<16, 32, 3, 16, 0, 1, 1, 16, 12, 2, 32, 3, akg_replace, float>(held, right, y0);
        // y1 = dot(…, xa)
        alignas(64) float right_1[96];
        akg_pack<3, 32, 32>(x + p0 * 98304L + d * 1024L + h * 32L, 32768, 3, 32, right_1);
        alignas(64) float y1[512];
        akg_dot<16, 32, 3, 16, 0, 1, 1, 16, 12, 2, 32, 3, akg_replace, float>(held_1, right_1, y1);
        // dot(…, xb)
        alignas(64) float right_2[96];
        akg_pack<3, 32, 32>(x + p0 * 98304L + d * 1024L + h * 32L + 1L, 32768, 3, 31, right_2);
        akg_dot<16, 32, 3, 16, 0, 1, 1, 16, 12, 2, 32, 3, akg_add, float>(held_2, right_2, y1);
        for (int i_29 = 0; i_29 < 16; ++i_29) {
          #pragma omp simd
          for (int i_30 = 0; i_30 < 32; ++i_30) {
            const float y0_1 = y0[i_29 * 32 + i_30];
            q0[i_29 * 32 + i_30] = q0[i_29 * 32 + i_30] + (y0_1 * y0_1);
          }
        }
        for (int i_31 = 0; i_31 < 16; ++i_31) {
          #pragma omp simd
          for (int i_32 = 0; i_32 < 32; ++i_32) {
            const float y2 = y1[i_31 * 32 + i_32];
            q1[i_31 * 32 + i_32] = q1[i_31 * 32 + i_32] + (y2 * y2);
          }
        }
      }
      // reduce_sum(…, 1); reduce_sum(…, 1)
      alignas(64) double tile[16];
      alignas(64) double tile_1[16];
      for (int i_34 = 0; i_34 < 16; ++i_34) {
        double acc_1 = 0.0;
        double acc_2 = 0.0;
        #pragma omp simd reduction(+ : acc_1) reduction(+ : acc_2)
        for (int i_35 = 0; i_35 < 32; ++i_35) {
          const double v = double(q0[i_34 * 32 + i_35]);
          const double v_1 = double((int32_t(i_35) < 31) ? q1[i_34 * 32 + i_35] : 0.0f);
          acc_1 = acc_1 + v;
          acc_2 = acc_2 + v_1;
        }
        tile[i_34] = acc_1;
        tile_1[i_34] = acc_2;
      }
      #pragma omp simd
      for (int i_33 = 0; i_33 < 16; ++i_33) {
        acc[i_33] = (acc[i_33] + tile[i_33]) + tile_1[i_33];
      }
    }
    // store P00
    #pragma omp simd
    for (int i_36 = 0; i_36 < 16; ++i_36) {
      P00[i_36 * 64L + p0] = acc[i_36];
    }
  }
}

// squares of the transposed convolution at parity (0, 1) of depth and row, even and odd columns
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_s01(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  const float *__restrict W01 = static_cast<const float *>(tensors[1]);
  double *__restrict P01 = static_cast<double *>(tensors[2]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = program;
    alignas(64) double acc[16];
    #pragma omp simd
    for (int i = 0; i < 16; ++i) {
      acc[i] = 0.0;
    }
    for (int64_t d = 0; d < 32; ++d) {
      alignas(64) float q0[512];
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        #pragma omp simd
        for (int i_2 = 0; i_2 < 32; ++i_2) {
          q0[i_1 * 32 + i_2] = 0.0f;
        }
      }
      alignas(64) float q1[512];
      for (int i_3 = 0; i_3 < 16; ++i_3) {
        #pragma omp simd
        for (int i_4 = 0; i_4 < 32; ++i_4) {
          q1[i_3 * 32 + i_4] = 0.0f;
        }
      }
      alignas(64) float held[3088];
      for (int i_5 = 0; i_5 < 3; ++i_5) {
        akg_pack_part<32, 32, 32, 1>(x + p0 * 98304L + i_5 * 32768L + d * 1024L + 1L, 32, 0, 32, 0, 31, held + i_5 * 1024L);
      }
      alignas(64) float held_1[112];
      akg_pack<6, 16, 16>(W01 + 96L, 16, 6, 16, held_1);
      alignas(64) float held_2[112];
      akg_pack<6, 16, 16>(W01 + 192L, 16, 6, 16, held_2);
      alignas(64) float held_3[112];
      akg_pack<6, 16, 16>(W01, 16, 6, 16, held_3);
      for (int64_t h = 0; h < 31; ++h) {
        // y0 = dot(…, xa)
        alignas(64) float right[192];
        for (int i_19 = 0; i_19 < 3; ++i_19) {
          akg_pack_part<32, 2, 32, 1>(x + p0 * 98304L + i_19 * 32768L + d * 1024L + h * 32L, 32, 0, 2, 0, 32, right + i_19 * 64L);
        }
        alignas(64) float y0[512];
        akg_dot<16, 32, 6, 16, 0, 1, 1, 16, 12, 2, 32, 6, akg_replace, float>(held_1, right, y0);
        // y1 = dot(…, xa)
        alignas(64) float right_1[192];
        for (int i_27 = 0; i_27 < 3; ++i_27) {
          akg_pack_part<32, 2, 32, 1>(x + p0 * 98304L + i_27 * 32768L + d * 1024L + h * 32L, 32, 0, 2, 0, 32, right_1 + i_27 * 64L);
        }
        alignas(64) float y1[512];
        akg_dot<16, 32, 6, 16, 0, 1, 1, 16, 12, 2, 32, 6, akg_replace, float>(held_2, right_1, y1);
        // dot(…, xb)
        alignas(64) float right_2[192];
        for (int i_35 = 0; i_35 < 3; ++i_35) {
          akg_pack_part<32, 2, 32, 1>(held + i_35 * 1024L + h * 32L, 32, 0, 2, 0, 32, right_2 + i_35 * 64L);
        }
        akg_dot<16, 32, 6, 16, 0, 1, 1, 16, 12, 2, 32, 6, akg_add, float>(held_3, right_2, y1);
        for (int i_38 = 0; i_38 < 16; ++i_38) {
          #pragma omp simd
          for (int i_39 = 0; i_39 < 32; ++i_39) {
            const float y0_1 = y0[i_38 * 32 + i_39];
            q0[i_38 * 32 + i_39] = q0[i_38 * 32 + i_39] + (y0_1 * y0_1);
          }
        }
        for (int i_40 = 0; i_40 < 16; ++i_40) {
          #pragma omp simd
          for (int i_41 = 0; i_41 < 32; ++i_41) {
            const float y2 = y1[i_40 * 32 + i_41];
            q1[i_40 * 32 + i_41] = q1[i_40 * 32 + i_41] + (y2 * y2);
          }
        }
      }
      // reduce_sum(…, 1); reduce_sum(…, 1)
      alignas(64) double tile[16];
      alignas(64) double tile_1[16];
      for (int i_43 = 0; i_43 < 16; ++i_43) {
        double acc_1 = 0.0;
        double acc_2 = 0.0;
        #pragma omp simd reduction(+ : acc_1) reduction(+ : acc_2)
        for (int i_44 = 0; i_44 < 32; ++i_44) {
          const double v = double(q0[i_43 * 32 + i_44]);
          const double v_1 = double((int32_t(i_44) < 31) ? q1[i_43 * 32 + i_44] : 0.0f);
          acc_1 = acc_1 + v;
          acc_2 = acc_2 + v_1;
        }
        tile[i_43] = acc_1;
        tile_1[i_43] = acc_2;
      }
      #pragma omp simd
      for (int i_42 = 0; i_42 < 16; ++i_42) {
        acc[i_42] = (acc[i_42] + tile[i_42]) + tile_1[i_42];
      }
    }
    // store P01
    #pragma omp simd
    for (int i_45 = 0; i_45 < 16; ++i_45) {
      P01[i_45 * 64L + p0] = acc[i_45];
    }
  }
}

// squares of the transposed convolution at parity (1, 0) of depth and row, even and odd columns
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_s10(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  const float *__restrict W10 = static_cast<const float *>(tensors[1]);
  double *__restrict P10 = static_cast<double *>(tensors[2]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = program;
    alignas(64) double acc[16];
    #pragma omp simd
    for (int i = 0; i < 16; ++i) {
      acc[i] = 0.0;
    }
    for (int64_t d = 0; d < 31; ++d) {
      alignas(64) float q0[512];
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        #pragma omp simd
        for (int i_2 = 0; i_2 < 32; ++i_2) {
          q0[i_1 * 32 + i_2] = 0.0f;
        }
      }
      alignas(64) float q1[512];
      for (int i_3 = 0; i_3 < 16; ++i_3) {
        #pragma omp simd
        for (int i_4 = 0; i_4 < 32; ++i_4) {
          q1[i_3 * 32 + i_4] = 0.0f;
        }
      }
      alignas(64) float held[112];
      akg_pack<6, 16, 16>(W10 + 96L, 16, 6, 16, held);
      alignas(64) float held_1[112];
      akg_pack<6, 16, 16>(W10 + 192L, 16, 6, 16, held_1);
      alignas(64) float held_2[112];
      akg_pack<6, 16, 16>(W10, 16, 6, 16, held_2);
      for (int64_t h = 0; h < 32; ++h) {
        // y0 = dot(…, xa)
        alignas(64) float right[192];
        for (int i_16 = 0; i_16 < 3; ++i_16) {
          akg_pack_part<32, 2, 32, 1>(x + p0 * 98304L + i_16 * 32768L + d * 1024L + h * 32L, 1024, 0, 2, 0, 32, right + i_16 * 64L);
        }
        alignas(64) float y0[512];
        akg_dot<16, 32, 6, 16, 0, 1, 1, 16, 12, 2, 32, 6, akg_replace, float>(held, right, y0);
        // y1 = dot(…, xa)
        alignas(64) float right_1[192];
        for (int i_24 = 0; i_24 < 3; ++i_24) {
          akg_pack_part<32, 2, 32, 1>(x + p0 * 98304L + i_24 * 32768L + d * 1024L + h * 32L, 1024, 0, 2, 0, 32, right_1 + i_24 * 64L);
        }
        alignas(64) float y1[512];
        akg_dot<16, 32, 6, 16, 0, 1, 1, 16, 12, 2, 32, 6, akg_replace, float>(held_1, right_1, y1);
        // dot(…, xb)
        alignas(64) float right_2[192];
        for (int i_32 = 0; i_32 < 3; ++i_32) {
          akg_pack_part<32, 2, 32, 1>(x + p0 * 98304L + i_32 * 32768L + d * 1024L + h * 32L + 1L, 1024, 0, 2, 0, 31, right_2 + i_32 * 64L);
        }
        akg_dot<16, 32, 6, 16, 0, 1, 1, 16, 12, 2, 32, 6, akg_add, float>(held_2, right_2, y1);
        for (int i_35 = 0; i_35 < 16; ++i_35) {
          #pragma omp simd
          for (int i_36 = 0; i_36 < 32; ++i_36) {
            const float y0_1 = y0[i_35 * 32 + i_36];
            q0[i_35 * 32 + i_36] = q0[i_35 * 32 + i_36] + (y0_1 * y0_1);
          }
        }
        for (int i_37 = 0; i_37 < 16; ++i_37) {
          #pragma omp simd
          for (int i_38 = 0; i_38 < 32; ++i_38) {
            const float y2 = y1[i_37 * 32 + i_38];
            q1[i_37 * 32 + i_38] = q1[i_37 * 32 + i_38] + (y2 * y2);
          }
        }
      }
      // reduce_sum(…, 1); reduce_sum(…, 1)
      alignas(64) double tile[16];
      alignas(64) double tile_1[16];
      for (int i_40 = 0; i_40 < 16; ++i_40) {
        double acc_1 = 0.0;
        double acc_2 = 0.0;
        #pragma omp simd reduction(+ : acc_1) reduction(+ : acc_2)
        for (int i_41 = 0; i_41 < 32; ++i_41) {
          const double v = double(q0[i_40 * 32 + i_41]);
          const double v_1 = double((int32_t(i_41) < 31) ? q1[i_40 * 32 + i_41] : 0.0f);
          acc_1 = acc_1 + v;
          acc_2 = acc_2 + v_1;
        }
        tile[i_40] = acc_1;
        tile_1[i_40] = acc_2;
      }
      #pragma omp simd
      for (int i_39 = 0; i_39 < 16; ++i_39) {
        acc[i_39] = (acc[i_39] + tile[i_39]) + tile_1[i_39];
      }
    }
    // store P10
    #pragma omp simd
    for (int i_42 = 0; i_42 < 16; ++i_42) {
      P10[i_42 * 64L + p0] = acc[i_42];
    }
  }
}

// squares of the transposed convolution at parity (1, 1) of depth and row, even and odd columns
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_s11(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  const float *__restrict W11 = static_cast<const float *>(tensors[1]);
  double *__restrict P11 = static_cast<double *>(tensors[2]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = program;
    alignas(64) double acc[16];
    #pragma omp simd
    for (int i = 0; i < 16; ++i) {
      acc[i] = 0.0;
    }
    for (int64_t d = 0; d < 31; ++d) {
      alignas(64) float q0[512];
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        #pragma omp simd
        for (int i_2 = 0; i_2 < 32; ++i_2) {
          q0[i_1 * 32 + i_2] = 0.0f;
        }
      }
      alignas(64) float q1[512];
      for (int i_3 = 0; i_3 < 16; ++i_3) {
        #pragma omp simd
        for (int i_4 = 0; i_4 < 32; ++i_4) {
          q1[i_3 * 32 + i_4] = 0.0f;
        }
      }
      alignas(64) float held[6160];
      for (int i_5 = 0; i_5 < 3; ++i_5) {
        akg_pack_part<32, 64, 32, 1>(x + p0 * 98304L + i_5 * 32768L + d * 1024L + 1L, 32, 0, 64, 0, 31, held + i_5 * 2048L);
      }
      alignas(64) float held_1[208];
      akg_pack<12, 16, 16>(W11 + 192L, 16, 12, 16, held_1);
      alignas(64) float held_2[208];
      akg_pack<12, 16, 16>(W11 + 384L, 16, 12, 16, held_2);
      alignas(64) float held_3[208];
      akg_pack<12, 16, 16>(W11, 16, 12, 16, held_3);
      for (int64_t h = 0; h < 31; ++h) {
        // y0 = dot(…, xa)
        alignas(64) float right[384];
        for (int i_22 = 0; i_22 < 3; ++i_22) {
          for (int i_23 = 0; i_23 < 2; ++i_23) {
            akg_pack_part<32, 2, 32, 1>(x + p0 * 98304L + i_22 * 32768L + d * 1024L + i_23 * 1024L + h * 32L, 32, 0, 2, 0, 32, right + i_22 * 128L + i_23 * 64L);
          }
        }
        alignas(64) float y0[512];
        akg_dot<16, 32, 12, 16, 0, 1, 1, 16, 12, 2, 32, 12, akg_replace, float>(held_1, right, y0);
        // y1 = dot(…, xa)
        alignas(64) float right_1[384];
        for (int i_32 = 0; i_32 < 3; ++i_32) {
          for (int i_33 = 0; i_33 < 2; ++i_33) {
            akg_pack_part<32, 2, 32, 1>(x + p0 * 98304L + i_32 * 32768L + d * 1024L + i_33 * 1024L + h * 32L, 32, 0, 2, 0, 32, right_1 + i_32 * 128L + i_33 * 64L);
          }
        }
        alignas(64) float y1[512];
        akg_dot<16, 32, 12, 16, 0, 1, 1, 16, 12, 2, 32, 12, akg_replace, float>(held_2, right_1, y1);
        // dot(…, xb)
        alignas(64) float right_2[384];
        for (int i_47 = 0; i_47 < 6; ++i_47) {
          akg_pack_part<32, 2, 32, 1>(held + i_47 * 1024L + h * 32L, 32, 0, 2, 0, 32, right_2 + i_47 * 64L);
        }
        akg_dot<16, 32, 12, 16, 0, 1, 1, 16, 12, 2, 32, 12, akg_add, float>(held_3, right_2, y1);
        for (int i_48 = 0; i_48 < 16; ++i_48) {
          #pragma omp simd
          for (int i_49 = 0; i_49 < 32; ++i_49) {
            const float y0_1 = y0[i_48 * 32 + i_49];
            q0[i_48 * 32 + i_49] = q0[i_48 * 32 + i_49] + (y0_1 * y0_1);
          }
        }
        for (int i_50 = 0; i_50 < 16; ++i_50) {
          #pragma omp simd
          for (int i_51 = 0; i_51 < 32; ++i_51) {
            const float y2 = y1[i_50 * 32 + i_51];
            q1[i_50 * 32 + i_51] = q1[i_50 * 32 + i_51] + (y2 * y2);
          }
        }
      }
      // reduce_sum(…, 1); reduce_sum(…, 1)
      alignas(64) double tile[16];
      alignas(64) double tile_1[16];
      for (int i_53 = 0; i_53 < 16; ++i_53) {
        double acc_1 = 0.0;
        double acc_2 = 0.0;
        #pragma omp simd reduction(+ : acc_1) reduction(+ : acc_2)
        for (int i_54 = 0; i_54 < 32; ++i_54) {
          const double v = double(q0[i_53 * 32 + i_54]);
          const double v_1 = double((int32_t(i_54) < 31) ? q1[i_53 * 32 + i_54] : 0.0f);
          acc_1 = acc_1 + v;
          acc_2 = acc_2 + v_1;
        }
        tile[i_53] = acc_1;
        tile_1[i_53] = acc_2;
      }
      #pragma omp simd
      for (int i_52 = 0; i_52 < 16; ++i_52) {
        acc[i_52] = (acc[i_52] + tile[i_52]) + tile_1[i_52];
      }
    }
    // store P11
    #pragma omp simd
    for (int i_55 = 0; i_55 < 16; ++i_55) {
      P11[i_55 * 64L + p0] = acc[i_55];
    }
  }
}

// mean, variance, and what they make of a channel
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_k1(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict conv_transpose_weight = static_cast<const float *>(tensors[0]);
  const float *__restrict conv_transpose_bias = static_cast<const float *>(tensors[1]);
  const float *__restrict batch_norm_weight = static_cast<const float *>(tensors[2]);
  const float *__restrict batch_norm_bias = static_cast<const float *>(tensors[3]);
  const float *__restrict batch_norm_running_mean = static_cast<const float *>(tensors[4]);
  const float *__restrict batch_norm_running_var = static_cast<const float *>(tensors[5]);
  const int64_t *__restrict batch_norm_num_batches_tracked = static_cast<const int64_t *>(tensors[6]);
  float *__restrict getitem_3 = static_cast<float *>(tensors[7]);
  float *__restrict getitem_4 = static_cast<float *>(tensors[8]);
  int64_t *__restrict add = static_cast<int64_t *>(tensors[9]);
  const double *__restrict B = static_cast<const double *>(tensors[10]);
  const double *__restrict P00 = static_cast<const double *>(tensors[11]);
  const double *__restrict P01 = static_cast<const double *>(tensors[12]);
  const double *__restrict P10 = static_cast<const double *>(tensors[13]);
  const double *__restrict P11 = static_cast<const double *>(tensors[14]);
  float *__restrict SCALE = static_cast<float *>(tensors[15]);
  float *__restrict SHIFT = static_cast<float *>(tensors[16]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = program;
    alignas(64) double s1[16];
    #pragma omp simd
    for (int i = 0; i < 16; ++i) {
      s1[i] = 0.0;
    }
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t i_1 = 0; i_1 < 3; ++i_1) {
        for (int64_t j = 0; j < 3; ++j) {
          for (int64_t k = 0; k < 3; ++k) {
            // bs = reduce_sum(br, 0)
            double bs;
            // br = reduce_sum(bx, 1)
            alignas(64) double br[64];
            const int i_5_lo = akg_clip_lo(-i_1 + 1, 1, 32, 32);
            const int i_5_hi = akg_clip_hi(-i_1 + 1, 1, 32, 32);
            if (i_5_hi == 32 && i_5_lo == 0) {
              for (int i_4 = 0; i_4 < 64; ++i_4) {
                double acc_1 = 0.0;
                #pragma omp simd reduction(+ : acc_1)
                for (int i_5 = 0; i_5 < 32; ++i_5) {
                  const double bx = B[c * 18432L + j * 6144L + k * 2048L + i_4 * 32L + i_5 - i_1 + 1L];
                  acc_1 = acc_1 + bx;
                }
                br[i_4] = acc_1;
              }
            } else {
              for (int i_4 = 0; i_4 < 64; ++i_4) {
                double acc_1 = 0.0;
                #pragma omp simd reduction(+ : acc_1)
                for (int i_5 = 0; i_5 < 32; ++i_5) {
                  const double bx = i_5 >= i_5_lo && i_5 < i_5_hi ? B[c * 18432L + j * 6144L + k * 2048L + i_4 * 32L + i_5 - i_1 + 1L] : 0.0;
                  acc_1 = acc_1 + bx;
                }
                br[i_4] = acc_1;
              }
            }
            double acc = 0.0;
            #pragma omp simd reduction(+ : acc)
            for (int i_3 = 0; i_3 < 64; ++i_3) {
              const double br_1 = br[i_3];
              acc = acc + br_1;
            }
            bs = acc;
            #pragma omp simd
            for (int i_2 = 0; i_2 < 16; ++i_2) {
              s1[i_2] = s1[i_2] + (double(conv_transpose_weight[c * 432L + i_2 * 27L + i_1 * 9L + j * 3L + k]) * bs);
            }
          }
        }
      }
    }
    // store getitem_3
    alignas(64) double m0[16];
    #pragma omp simd
    for (int i_7 = 0; i_7 < 16; ++i_7) {
      m0[i_7] = s1[i_7] / 16003008.0;
    }
    #pragma omp simd
    for (int i_6 = 0; i_6 < 16; ++i_6) {
      getitem_3[i_6] = float(((m0[i_6] + double(conv_transpose_bias[i_6])) * 0.1) + (double(batch_norm_running_mean[i_6]) * 0.9));
    }
    // store getitem_4
    alignas(64) double var[16];
    // s2 = reduce_sum(xs, 1)
    alignas(64) double s2[16];
    for (int i_10 = 0; i_10 < 16; ++i_10) {
      double acc_2 = 0.0;
      #pragma omp simd reduction(+ : acc_2)
      for (int i_11 = 0; i_11 < 64; ++i_11) {
        const double xs = ((P00[i_10 * 64L + i_11] + P01[i_10 * 64L + i_11]) + P10[i_10 * 64L + i_11]) + P11[i_10 * 64L + i_11];
        acc_2 = acc_2 + xs;
      }
      s2[i_10] = acc_2;
    }
    #pragma omp simd
    for (int i_9 = 0; i_9 < 16; ++i_9) {
      const double m0_1 = m0[i_9];
      var[i_9] = akg_at_least((s2[i_9] / 16003008.0) - (m0_1 * m0_1), 0.0);
    }
    #pragma omp simd
    for (int i_8 = 0; i_8 < 16; ++i_8) {
      getitem_4[i_8] = float(((var[i_8] * 1.0000000624882561) * 0.1) + (double(batch_norm_running_var[i_8]) * 0.9));
    }
    // store SCALE
    alignas(64) double sc[16];
    #pragma omp simd
    for (int i_13 = 0; i_13 < 16; ++i_13) {
      sc[i_13] = akg_rsqrt(var[i_13] + 1e-5) * double(batch_norm_weight[i_13]);
    }
    #pragma omp simd
    for (int i_12 = 0; i_12 < 16; ++i_12) {
      SCALE[i_12] = float(sc[i_12]);
    }
    // store SHIFT
    #pragma omp simd
    for (int i_14 = 0; i_14 < 16; ++i_14) {
      SHIFT[i_14] = float(double(batch_norm_bias[i_14]) - (m0[i_14] * sc[i_14]));
    }
    // store add
    add[0] = int64_t(uint64_t(batch_norm_num_batches_tracked[0]) + uint64_t(INT64_C(1)));
  }
}

// the result: a row for all channels
extern "C" void g_72_convtranspose3d_batchnorm_avgpool_avgpool_ko(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  float *__restrict avg_pool3d_1 = static_cast<float *>(tensors[1]);
  const float *__restrict W3 = static_cast<const float *>(tensors[2]);
  const float *__restrict SCALE = static_cast<const float *>(tensors[3]);
  const float *__restrict SHIFT = static_cast<const float *>(tensors[4]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = (program / 225);
    const int64_t p1 = (((program % 225)) / 15);
    const int64_t p2 = (((program % 225)) % 15);
    alignas(64) float acc[256];
    for (int i = 0; i < 16; ++i) {
      #pragma omp simd
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        acc[i * 16 + i_1] = 0.0f;
      }
    }
    for (int64_t e = 0; e < 3; ++e) {
      // dot(…, …)
      alignas(64) float right[432];
      const int i_9_hi = akg_clip_hi(e, 2, 32, 16);
      for (int i_6 = 0; i_6 < 3; ++i_6) {
        for (int i_7 = 0; i_7 < 3; ++i_7) {
          akg_pack_part<16, 3, 16, 2>(x + p0 * 98304L + i_6 * 32768L + p1 * 2048L + i_7 * 1024L + p2 * 64L + e, 32, 0, 3, 0, i_9_hi, right + i_6 * 144L + i_7 * 48L);
        }
      }
      akg_dot<16, 16, 27, 16, 0, 1, 1, 16, 9, 1, 16, 27, akg_add, float>(W3 + e * 432L, right, acc);
    }
    // store avg_pool3d_1
    for (int i_10 = 0; i_10 < 16; ++i_10) {
      const float sc = SCALE[i_10];
      const float sh = SHIFT[i_10];
      #pragma omp simd
      for (int i_11 = 0; i_11 < 15; ++i_11) {
        avg_pool3d_1[p0 * 54000L + i_10 * 3375L + p1 * 225L + p2 * 15L + i_11] = (acc[i_10 * 16 + i_11] * sc) + sh;
      }
    }
  }
}
