// akg-launch: {"dims":[],"tensors":[{"name":"scale1","dtype":"f32","shape":[],"role":"input","align":4},{"name":"bias","dtype":"f32","shape":[16,1,1,1],"role":"input","align":4},{"name":"scale2","dtype":"f32","shape":[],"role":"input","align":4},{"name":"conv_transpose_weight","dtype":"f32","shape":[3,16,3,3,3],"role":"input","align":4},{"name":"conv_transpose_bias","dtype":"f32","shape":[16],"role":"input","align":4},{"name":"x","dtype":"f32","shape":[32,3,16,32,32],"role":"input","align":4},{"name":"mul_1_","dtype":"f32","shape":[32,16,15,31,31],"role":"output","align":4},{"name":"W2","dtype":"f32","shape":[2,3,2,2,16],"role":"scratch","align":4}],"launches":[{"kernel":"g_50_convtranspose3d_scaling_avgpool_biasadd_scaling_kw","grid":[2,2,2],"tensors":[0,2,3,7],"doc":"the weights of transposed convolution, pool and scales together: tap 0 of a dimension is w[1] + w[2], tap 1 is w[0]"},{"kernel":"g_50_convtranspose3d_scaling_avgpool_biasadd_scaling_km","grid":[32,15,31],"tensors":[0,1,2,4,5,6,7],"doc":"all the rest: a row of the result for all channels"}]}
// Lowered from this sketch:
//
//   sketch g_50_convtranspose3d_scaling_avgpool_biasadd_scaling(scale1: f32[], bias: f32[16], scale2: f32[], conv_transpose_weight: f32[3, 16, 3, 3, 3], conv_transpose_bias: f32[16], x: f32[32, 3, 16, 32, 32]) -> mul_1_: f32[32, 16, 15, 31, 31]
//   buffer W2: f32[2, 3, 2, 2, 16]
//
//   # the weights of transposed convolution, pool and scales together: tap 0 of a dimension is w[1] + w[2], tap 1 is w[0]
//   kernel kw over (e in 2, a in 2, b in 2) {
//     acc = zeros f64[3, 16]
//     for r in 0..2 - a, s in 0..2 - b, t in 0..2 - e {
//       w = load conv_transpose_weight[0 :+ 3, 0 :+ 16, 1 - a + r, 1 - b + s, 1 - e + t]
//       acc = acc + f64(w)
//     }
//     s1 = load scale1[]
//     s2 = load scale2[]
//     u1 = acc*0.125
//     u2 = u1 * f64(s1)
//     u3 = u2 * f64(s2)
//     store W2[e, 0 :+ 3, a, b, 0 :+ 16] = f32(u3)
//   }
//
//   # all the rest: a row of the result for all channels
//   kernel km over (p0 in 32, p1 in 15, p2 in 31) seeing W2 as [2, 12, 16] {
//     acc = zeros f32[16, 32]
//     for e in 0..2 {
//       xt = load x[p0, 0 :+ 3, p1 :+ 2, p2 :+ 2, e :+ 32] else 0.0
//       acc = acc + (dot(trans(load W2[e, 0 :+ 12, 0 :+ 16]), reshape(xt, [12, 32])) ieee promote(32))
//     }
//     cb = load conv_transpose_bias[0 :+ 16]
//     s1 = load scale1[]
//     c1 = cb*s1
//     b1 = load bias[0 :+ 16]
//     c2 = c1 + b1
//     s2 = load scale2[]
//     c3 = c2*s2
//     y = acc + c3[:, None]
//     store mul_1_[p0, 0 :+ 16, p1, p2, 0 :+ 32] = y
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

// the weights of transposed convolution, pool and scales together: tap 0 of a dimension is w[1] + w[2], tap 1 is w[0]
extern "C" void g_50_convtranspose3d_scaling_avgpool_biasadd_scaling_kw(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict scale1 = static_cast<const float *>(tensors[0]);
  const float *__restrict scale2 = static_cast<const float *>(tensors[1]);
  const float *__restrict conv_transpose_weight = static_cast<const float *>(tensors[2]);
  float *__restrict W2 = static_cast<float *>(tensors[3]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t e = (program / 4);
    const int64_t a = (((program % 4)) / 2);
    const int64_t b = (((program % 4)) % 2);
    alignas(64) double acc[48];
    for (int i = 0; i < 3; ++i) {
      #pragma omp simd
      for (int i_1 = 0; i_1 < 16; ++i_1) {
        acc[i * 16 + i_1] = 0.0;
      }
    }
    for (int64_t r = 0; r < -a + 2; ++r) {
      for (int64_t s = 0; s < -b + 2; ++s) {
        for (int64_t t = 0; t < -e + 2; ++t) {
          for (int i_2 = 0; i_2 < 3; ++i_2) {
            #pragma omp simd
            for (int i_3 = 0; i_3 < 16; ++i_3) {
              acc[i_2 * 16 + i_3] = acc[i_2 * 16 + i_3] + double(conv_transpose_weight[i_2 * 432L + i_3 * 27L + r * 9L + s * 3L + t - a * 9L - b * 3L - e + 13L]);
            }
          }
        }
      }
    }
    // store W2
    const double v = double(scale1[0]);
    const double v_1 = double(scale2[0]);
    for (int i_4 = 0; i_4 < 3; ++i_4) {
      #pragma omp simd
      for (int i_5 = 0; i_5 < 16; ++i_5) {
        W2[e * 192L + i_4 * 64L + a * 32L + b * 16L + i_5] = float(((acc[i_4 * 16 + i_5] * 0.125) * v) * v_1);
      }
    }
  }
}

// all the rest: a row of the result for all channels
// Rows first..last of the result: 31 columns as two vectors that have column 15 in common, 8 channels at a time.
AKG_FUSED static void akg_rows(const float *__restrict x, const float *__restrict W2, const float *__restrict c3,
                               float *__restrict out, int64_t first, int64_t last) {
  AKG_FUSE
  typedef akg_vector<float>::type vector;
  int64_t p0 = first / 465, p1 = first % 465 / 31, p2 = first % 31;
  for (int64_t program = first; program < last; ++program) {
    const float *const corner = x + p0 * 49152L + p1 * 1024L + p2 * 32L;
    float *const row = out + p0 * 230640L + p1 * 961L + p2 * 31L;
    for (int g = 0; g < 16; g += 8) {
      vector sum[8][2] = {};
      const float *w = W2 + g;
      for (int e = 0; e < 2; ++e)
        for (int i = 0; i < 3; ++i)
          for (int a = 0; a < 2; ++a) {
            const float *const from = corner + e + i * 16384L + a * 1024L;
#pragma GCC unroll 2
            for (int b = 0; b < 2; ++b) {
              vector right[2];
              __builtin_memcpy(&right[0], from + b * 32, sizeof(vector));
              __builtin_memcpy(&right[1], from + b * 32 + 15, sizeof(vector));
#pragma GCC unroll 8
              for (int c = 0; c < 8; ++c) {
                const vector left = w[b * 16 + c] - vector{};
                sum[c][0] += left * right[0];
                sum[c][1] += left * right[1];
              }
            }
            w += 32;
          }
#pragma GCC unroll 8
      for (int c = 0; c < 8; ++c) {
        const vector one = sum[c][0] + c3[g + c], two = sum[c][1] + c3[g + c];
        __builtin_memcpy(row + (g + c) * 14415L, &one, sizeof one);
        __builtin_memcpy(row + (g + c) * 14415L + 15, &two, sizeof two);
      }
    }
    if (++p2 == 31) {
      p2 = 0;
      if (++p1 == 15) {
        p1 = 0;
        ++p0;
      }
    }
  }
}

extern "C" void g_50_convtranspose3d_scaling_avgpool_biasadd_scaling_km(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict scale1 = static_cast<const float *>(tensors[0]);
  const float *__restrict bias = static_cast<const float *>(tensors[1]);
  const float *__restrict scale2 = static_cast<const float *>(tensors[2]);
  const float *__restrict conv_transpose_bias = static_cast<const float *>(tensors[3]);
  const float *__restrict x = static_cast<const float *>(tensors[4]);
  float *__restrict mul_1_ = static_cast<float *>(tensors[5]);
  const float *__restrict W2 = static_cast<const float *>(tensors[6]);
  const float s1 = scale1[0];
  const float s2 = scale2[0];
  alignas(64) float c3[16];
  for (int i = 0; i < 16; ++i) c3[i] = ((conv_transpose_bias[i] * s1) + bias[i]) * s2;
  akg_rows(x, W2, c3, mul_1_, first, last);
}
