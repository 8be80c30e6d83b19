// akg-launch: {"dims":[],"tensors":[{"name":"conv_weight","dtype":"f32","shape":[16,3,4,4,4],"role":"input","align":4},{"name":"conv_bias","dtype":"f32","shape":[16],"role":"input","align":4},{"name":"group_norm_weight","dtype":"f32","shape":[16],"role":"input","align":4},{"name":"group_norm_bias","dtype":"f32","shape":[16],"role":"input","align":4},{"name":"x","dtype":"f32","shape":[256,3,16,32,32],"role":"input","align":4},{"name":"mean","dtype":"f32","shape":[256,16],"role":"output","align":4},{"name":"A0","dtype":"f32","shape":[5,4,12,16],"role":"scratch","align":4},{"name":"PART_S","dtype":"f64","shape":[256,13,3,16],"role":"scratch","align":8},{"name":"PART_Q","dtype":"f64","shape":[256,13,3,16],"role":"scratch","align":8}],"launches":[{"kernel":"conv3d_hardswish_groupnorm_mean_weights","grid":[1],"tensors":[0,6],"doc":"the weights, channels innermost"},{"kernel":"conv3d_hardswish_groupnorm_mean_conv","grid":[256,13,3],"tensors":[1,4,6,7,8],"doc":"conv3d, hardswish, sums per channel of BH rows of a plane"},{"kernel":"conv3d_hardswish_groupnorm_mean_finish","grid":[256],"tensors":[2,3,5,7,8],"doc":"group_norm, mean"}]}
// Lowered from this sketch:
//
//   sketch conv3d_hardswish_groupnorm_mean(conv_weight: f32[16, 3, 4, 4, 4], conv_bias: f32[16], group_norm_weight: f32[4, 4], group_norm_bias: f32[4, 4], x: f32[256, 3, 16, 32, 32]) -> mean: f32[256, 4, 4]
//   knob BH in {10, 8}
//   let T = ceildiv(29, BH)
//   buffer A0: f32[4, 4, 12, 16]
//   buffer PART_S: f64[256, 13, T, 16]
//   buffer PART_Q: f64[256, 13, T, 16]
//
//   # the weights, channels innermost
//   kernel weights over (p in 1) {
//     for r7 in 0..4, r8 in 0..4 {
//       x1 = trans(load conv_weight[0 :+ 16, 0 :+ 3, 0 :+ 4, r7, r8], [1, 2, 0])
//       store A0[r7, r8, 0 :+ 12, 0 :+ 16] = reshape(x1, [12, 16])
//     }
//   }
//
//   # conv3d, hardswish, sums per channel of BH rows of a plane
//   kernel conv over (p0 in 256, p2 in 13, p3 in ceildiv(29, BH)) {
//     acc0 = zeros f32[BH*29, 16]
//     for r7 in 0..4, r8 in 0..4 {
//       x1 = load x[p0, 0 :+ 3, p2 :+ 4, p3*BH + r7 :+ BH, r8 :+ 29] else 0.0
//       acc0 = acc0 + (dot(trans(reshape(x1, [12, BH*29])), load A0[r7, r8, 0 :+ 12, 0 :+ 16]) ieee promote(32))
//     }
//     y0 = reshape(acc0, [BH, 29, 16])
//     x2 = load conv_bias[0 :+ 16]
//     t3 = y0 + x2[None, None, :]
//     t4 = t3 + 3.0
//     t5 = max(t4, 0.0)
//     t6 = min(t5, 6.0)
//     t7 = t6*0.16666666666666666
//     t8 = t3*t7
//     t9 = select((i64(iota(BH)) + p3*BH < 29)[:, None, None], t8, 0.0)
//     t10 = f64(reshape(t9, [BH*29, 16]))
//     t11 = t10*t10
//     store PART_S[p0, p2, p3, 0 :+ 16] = reduce_sum(t10, 0)
//     store PART_Q[p0, p2, p3, 0 :+ 16] = reduce_sum(t11, 0)
//   }
//
//   # group_norm, mean
//   kernel finish over (p0 in 256) seeing PART_S as [256, 13*T, 16], PART_Q as [256, 13*T, 16] {
//     s = reduce_sum(load PART_S[p0, 0 :+ 13*T, 0 :+ 16], 0)
//     q = reduce_sum(load PART_Q[p0, 0 :+ 13*T, 0 :+ 16], 0)
//     s4 = reshape(s, [4, 4])
//     q4 = reshape(q, [4, 4])
//     mu = reduce_sum(s4, 1) / 43732.0
//     e2 = reduce_sum(q4, 1) / 43732.0
//     t1 = mu*mu
//     t2 = e2 - t1
//     t3 = max(t2, 0.0)
//     t4 = f32(t3) + 1e-5
//     rstd = rsqrt(t4)
//     c = s4 / 10933.0
//     d = f32(c - mu[:, None])
//     t5 = d * rstd[:, None]
//     t6 = t5 * (load group_norm_weight[0 :+ 4, 0 :+ 4])
//     t7 = t6 + (load group_norm_bias[0 :+ 4, 0 :+ 4])
//     store mean[p0, 0 :+ 4, 0 :+ 4] = t7
//   }
//
// Knobs: BH = 10
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
// The smaller; most is a number.
template <class T> static inline T akg_at_most(T a, T most) { return a > most ? most : a; }
// The larger; least is a number.
template <class T> static inline T akg_at_least(T a, T least) { return a < least ? least : a; }
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

// the weights, channels innermost
extern "C" void conv3d_hardswish_groupnorm_mean_weights(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict conv_weight = static_cast<const float *>(tensors[0]);
  float *__restrict A0 = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p = program;
    // store A0: what two rows of outputs need of the four weights along the height, at the points 0, 1, -1, 2 and infinity
    for (int r8 = 0; r8 < 4; ++r8) {
      for (int i = 0; i < 12; ++i) {
        for (int i_1 = 0; i_1 < 16; ++i_1) {
          const float *const from = conv_weight + i_1 * 192L + (i / 4) * 64L + (i % 4) * 16L + r8;
          float *const to = A0 + r8 * 192L + i * 16L + i_1;
          const double g0 = from[0], g1 = from[4], g2 = from[8], g3 = from[12];
          to[0] = float(g0 * 0.5);
          to[768] = float((g0 + g1 + g2 + g3) * 0.5);
          to[1536] = float((g0 - g1 + g2 - g3) / 6.0);
          to[2304] = float((g0 + 2.0 * g1 + 4.0 * g2 + 8.0 * g3) / 6.0);
          to[3072] = float(g3);
        }
      }
    }
  }
}

// conv3d, hardswish, sums per channel of BH rows of a plane
typedef float akg_floats __attribute__((vector_size(64)));
// What two rows of outputs need of five rows of the 12 planes, 416 floats apart, for each of the five points.
AKG_FUSED static void akg_transform(const float *__restrict from, float *__restrict to) {
  AKG_FUSE
  for (int plane = 0; plane < 12; ++plane, from += 416, to += 32)
    for (int half = 0; half < 32; half += 16) {
      akg_floats d0, d1, d2, d3, d4;
      __builtin_memcpy(&d0, from + half, sizeof(akg_floats));
      __builtin_memcpy(&d1, from + half + 32, sizeof(akg_floats));
      __builtin_memcpy(&d2, from + half + 64, sizeof(akg_floats));
      __builtin_memcpy(&d3, from + half + 96, sizeof(akg_floats));
      __builtin_memcpy(&d4, from + half + 128, sizeof(akg_floats));
      const akg_floats u0 = (d0 - d2) * 2.0f + (d3 - d1);
      const akg_floats u1 = d1 * 2.0f + (d2 - d3);
      const akg_floats u2 = d2 * 3.0f - (d1 * 2.0f + d3);
      const akg_floats u3 = d3 - d1;
      const akg_floats u4 = (d1 - d3) * 2.0f + (d4 - d2);
      __builtin_memcpy(to + half, &u0, sizeof(akg_floats));
      __builtin_memcpy(to + half + 384, &u1, sizeof(akg_floats));
      __builtin_memcpy(to + half + 768, &u2, sizeof(akg_floats));
      __builtin_memcpy(to + half + 1152, &u3, sizeof(akg_floats));
      __builtin_memcpy(to + half + 1536, &u4, sizeof(akg_floats));
    }
}
// Adds hardswish and its square to the sums.
AKG_FUSED static inline __attribute__((always_inline)) void akg_add_hardswish(akg_floats t3, akg_floats &s, akg_floats &q) {
  AKG_FUSE
  const akg_floats zero = {}, six = zero + 6.0f;
  akg_floats t4 = t3 + 3.0f;
  t4 = t4 < zero ? zero : t4;
  t4 = t4 > six ? six : t4;
  const akg_floats t8 = t3 * (t4 * 0.16666667f);
  s += t8;
  q += t8 * t8;
}
// R pixels of two rows for all 16 channels, or of the upper one: for each of five points the 48 products are summed in
// registers, each value is used by the four weights of its row. Adds the sums of hardswish and of its square over the pixels.
template <int R>
AKG_FUSED static void akg_pixels(const float *__restrict u, const float *__restrict w, const float *__restrict bias,
                                 bool both, double *__restrict sums, double *__restrict squares) {
  AKG_FUSE
  typedef akg_floats vector;
  vector m[5][R];
#pragma GCC unroll 1
  for (int point = 0; point < 5; ++point) {
    const float *from = u + point * 384;
    const float *right = w + point * 768;
    vector acc[R] = {};
    for (int plane = 0; plane < 12; ++plane, from += 32, right += 16) {
      vector w0, w1, w2, w3;
      __builtin_memcpy(&w0, right, sizeof(vector));
      __builtin_memcpy(&w1, right + 192, sizeof(vector));
      __builtin_memcpy(&w2, right + 384, sizeof(vector));
      __builtin_memcpy(&w3, right + 576, sizeof(vector));
      vector b[R + 3];
#pragma GCC unroll 16
      for (int i = 0; i < R + 3; ++i) b[i] = from[i] - vector{};
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) acc[i] += b[i] * w0;
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) acc[i] += b[i + 1] * w1;
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) acc[i] += b[i + 2] * w2;
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) acc[i] += b[i + 3] * w3;
    }
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) m[point][i] = acc[i];
  }
  vector shift, s = {}, q = {};
  __builtin_memcpy(&shift, bias, sizeof(vector));
  for (int i = 0; i < R; ++i) {
    const vector m1 = m[1][i], m2 = m[2][i], m3 = m[3][i];
    akg_add_hardswish((m[0][i] + m3) + (m1 + m2) + shift, s, q);
    if (both) akg_add_hardswish((m[4][i] + m3 * 2.0f) + (m1 - m2) + shift, s, q);
  }
  alignas(64) float some[16];
  alignas(64) float some_squares[16];
  __builtin_memcpy(some, &s, sizeof(vector));
  __builtin_memcpy(some_squares, &q, sizeof(vector));
#pragma omp simd
  for (int i = 0; i < 16; ++i) {
    sums[i] += double(some[i]);
    squares[i] += double(some_squares[i]);
  }
}

extern "C" void conv3d_hardswish_groupnorm_mean_conv(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict conv_bias = static_cast<const float *>(tensors[0]);
  const float *__restrict x = static_cast<const float *>(tensors[1]);
  const float *__restrict A0 = static_cast<const float *>(tensors[2]);
  double *__restrict PART_S = static_cast<double *>(tensors[3]);
  double *__restrict PART_Q = static_cast<double *>(tensors[4]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = (program / 39);
    const int64_t p2 = (((program % 39)) / 3);
    const int64_t p3 = (((program % 39)) % 3);
    alignas(64) float held[5008];
    const int i_4_hi = akg_clip_hi(p3 * 10, 1, 32, 13);
    for (int i_2 = 0; i_2 < 3; ++i_2) {
      for (int i_3 = 0; i_3 < 4; ++i_3) {
        akg_pack_part<32, 13, 32, 1>(x + p0 * 49152L + i_2 * 16384L + i_3 * 1024L + p2 * 1024L + p3 * 320L, 32, 0, i_4_hi, 0, 32, held + i_2 * 1664L + i_3 * 416L);
      }
    }
    // store PART_S; store PART_Q
    alignas(64) double sums[16] = {};
    alignas(64) double squares[16] = {};
    const int rows = akg_clip_hi(p3 * 10, 1, 29, 10);
    alignas(64) float u[1920];
    for (int h = 0; h < rows; h += 2) {
      akg_transform(held + h * 32, u);
      akg_pixels<10>(u, A0, conv_bias, h + 1 < rows, sums, squares);
      akg_pixels<10>(u + 10, A0, conv_bias, h + 1 < rows, sums, squares);
      akg_pixels<9>(u + 20, A0, conv_bias, h + 1 < rows, sums, squares);
    }
    #pragma omp simd
    for (int i = 0; i < 16; ++i) {
      PART_S[p0 * 624L + p2 * 48L + p3 * 16L + i] = sums[i];
      PART_Q[p0 * 624L + p2 * 48L + p3 * 16L + i] = squares[i];
    }
  }
}

// group_norm, mean
extern "C" void conv3d_hardswish_groupnorm_mean_finish(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict group_norm_weight = static_cast<const float *>(tensors[0]);
  const float *__restrict group_norm_bias = static_cast<const float *>(tensors[1]);
  float *__restrict mean = static_cast<float *>(tensors[2]);
  const double *__restrict PART_S = static_cast<const double *>(tensors[3]);
  const double *__restrict PART_Q = static_cast<const double *>(tensors[4]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = program;
    // store mean
    // s = reduce_sum(…, 0); q = reduce_sum(…, 0)
    alignas(64) double s[16];
    alignas(64) double q[16];
    alignas(64) double acc[16];
    #pragma omp simd
    for (int i_4 = 0; i_4 < 16; ++i_4) {
      acc[i_4] = 0.0;
    }
    alignas(64) double acc_1[16];
    #pragma omp simd
    for (int i_5 = 0; i_5 < 16; ++i_5) {
      acc_1[i_5] = 0.0;
    }
    for (int i_2 = 0; i_2 < 39; ++i_2) {
      #pragma omp simd
      for (int i_3 = 0; i_3 < 16; ++i_3) {
        const double v = PART_S[p0 * 624L + i_2 * 16L + i_3];
        const double v_1 = PART_Q[p0 * 624L + i_2 * 16L + i_3];
        acc[i_3] = acc[i_3] + v;
        acc_1[i_3] = acc_1[i_3] + v_1;
      }
    }
    #pragma omp simd
    for (int i_6 = 0; i_6 < 16; ++i_6) {
      s[i_6] = acc[i_6];
    }
    #pragma omp simd
    for (int i_7 = 0; i_7 < 16; ++i_7) {
      q[i_7] = acc_1[i_7];
    }
    alignas(64) double mu[4];
    // reduce_sum(s4, 1); reduce_sum(q4, 1)
    alignas(64) double tile[4];
    alignas(64) double tile_1[4];
    for (int i_9 = 0; i_9 < 4; ++i_9) {
      double acc_2 = 0.0;
      double acc_3 = 0.0;
      #pragma omp simd reduction(+ : acc_2) reduction(+ : acc_3)
      for (int i_10 = 0; i_10 < 4; ++i_10) {
        const double s4 = s[i_10 + i_9 * 4];
        const double q4 = q[i_10 + i_9 * 4];
        acc_2 = acc_2 + s4;
        acc_3 = acc_3 + q4;
      }
      tile[i_9] = acc_2;
      tile_1[i_9] = acc_3;
    }
    #pragma omp simd
    for (int i_8 = 0; i_8 < 4; ++i_8) {
      mu[i_8] = tile[i_8] / 43732.0;
    }
    for (int i = 0; i < 4; ++i) {
      const double mu_1 = mu[i];
      const float rstd = akg_rsqrt(float(akg_at_least((tile_1[i] / 43732.0) - (mu_1 * mu_1), 0.0)) + 1e-5f);
      #pragma omp simd
      for (int i_1 = 0; i_1 < 4; ++i_1) {
        mean[p0 * 16L + i * 4L + i_1] = ((float((s[i * 4 + i_1] / 10933.0) - mu_1) * rstd) * group_norm_weight[i * 4L + i_1]) + group_norm_bias[i * 4L + i_1];
      }
    }
  }
}
