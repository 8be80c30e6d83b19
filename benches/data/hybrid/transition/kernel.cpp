// akg-launch: {"dims":[],"tensors":[{"name":"transition_0_weight","dtype":"f32","shape":[32],"role":"input","align":4},{"name":"transition_0_bias","dtype":"f32","shape":[32],"role":"input","align":4},{"name":"transition_2_weight","dtype":"f32","shape":[64,32,1,1],"role":"input","align":4},{"name":"transition_0_running_mean","dtype":"f32","shape":[32],"role":"input","align":4},{"name":"transition_0_running_var","dtype":"f32","shape":[32],"role":"input","align":4},{"name":"transition_0_num_batches_tracked","dtype":"i64","shape":[],"role":"input","align":8},{"name":"x","dtype":"f32","shape":[4,32,256,256],"role":"input","align":4},{"name":"avg_pool2d","dtype":"f32","shape":[4,64,128,128],"role":"output","align":4},{"name":"getitem_3","dtype":"f32","shape":[32],"role":"output","align":4},{"name":"getitem_4","dtype":"f32","shape":[32],"role":"output","align":4},{"name":"add","dtype":"i64","shape":[],"role":"output","align":8},{"name":"PART_S","dtype":"f64","shape":[32,2],"role":"scratch","align":8},{"name":"PART_Q","dtype":"f64","shape":[32,2],"role":"scratch","align":8}],"launches":[{"kernel":"densenet121_transition_stats","grid":[32,2],"tensors":[6,11,12],"doc":"statistics: sums and sums of squares of two images of a channel"},{"kernel":"densenet121_transition_running","grid":[1],"tensors":[3,4,5,8,9,10,11,12],"doc":"running statistics and the count"},{"kernel":"densenet121_transition_main","grid":[4,128],"tensors":[0,1,2,6,7,11,12],"doc":"batch norm, relu, average of 2x2, 1x1 convolution: one row of 128 output pixels"}]}
// Lowered from this sketch:
//
//   sketch densenet121_transition(transition_0_weight: f32[32], transition_0_bias: f32[32], transition_2_weight: f32[64, 32], transition_0_running_mean: f32[32], transition_0_running_var: f32[32], transition_0_num_batches_tracked: i64[], x: f32[4, 32, 65536]) -> (avg_pool2d: f32[4, 64, 128, 128], getitem_3: f32[32], getitem_4: f32[32], add: i64[])
//   let BL1 = 8192
//   buffer PART_S: f64[32, 2]
//   buffer PART_Q: f64[32, 2]
//
//   # statistics: sums and sums of squares of two images of a channel
//   kernel stats over (p1 in 32, part in 2) {
//     acc1 = full f64[] 0.0
//     acc2 = full f64[] 0.0
//     for r0 in 0..2, r2 in 0..65536 step BL1 {
//       x3 = load x[part*2 + r0, p1, r2 :+ BL1]
//       t4 = f64(x3)
//       acc1 = acc1 + reduce_sum(t4, 0)
//       t5 = t4*t4
//       acc2 = acc2 + reduce_sum(t5, 0)
//     }
//     store PART_S[p1, part] = acc1
//     store PART_Q[p1, part] = acc2
//   }
//
//   # running statistics and the count
//   kernel running over (p0 in 1) {
//     x1 = load transition_0_num_batches_tracked[]
//     t2 = x1 + 1
//     store add[] = t2
//     s28 = reduce_sum(load PART_S[0 :+ 32, 0 :+ 2], 1)
//     s30 = reduce_sum(load PART_Q[0 :+ 32, 0 :+ 2], 1)
//     t31 = s28 / 262144.0
//     t32 = s30 / 262144.0
//     t33 = t31*t31
//     t34 = t32 - t33
//     t35 = max(t34, 0.0)
//     t36 = f32(t31)
//     t37 = f32(t35)
//     t38 = t37*1.0000038147118175
//     t39 = t36*0.1
//     x40 = load transition_0_running_mean[0 :+ 32]
//     t41 = x40*0.9
//     t42 = t39 + t41
//     t43 = t38*0.1
//     x44 = load transition_0_running_var[0 :+ 32]
//     t45 = x44*0.9
//     t46 = t43 + t45
//     store getitem_3[0 :+ 32] = t42
//     store getitem_4[0 :+ 32] = t46
//   }
//
//   # batch norm, relu, average of 2x2, 1x1 convolution: one row of 128 output pixels
//   kernel main over (p0 in 4, p2 in 128) seeing x as [4, 32, 128, 2, 128, 2] {
//     s1 = reduce_sum(load PART_S[0 :+ 32, 0 :+ 2], 1)
//     s2 = reduce_sum(load PART_Q[0 :+ 32, 0 :+ 2], 1)
//     m1 = s1 / 262144.0
//     m2 = s2 / 262144.0
//     v1 = m1*m1
//     v2 = m2 - v1
//     v3 = max(v2, 0.0)
//     mu = f32(m1)
//     v4 = f32(v3)
//     v5 = v4 + 1e-5
//     rstd = rsqrt(v5)
//     g0 = load transition_0_weight[0 :+ 32]
//     g1 = rstd*g0
//     g = g1*0.25
//     b0 = load transition_0_bias[0 :+ 32]
//     b = b0*0.25
//     x00 = load x[p0, 0 :+ 32, p2, 0, 0 :+ 128, 0]
//     x01 = load x[p0, 0 :+ 32, p2, 0, 0 :+ 128, 1]
//     x10 = load x[p0, 0 :+ 32, p2, 1, 0 :+ 128, 0]
//     x11 = load x[p0, 0 :+ 32, p2, 1, 0 :+ 128, 1]
//     y00 = max((x00 - mu[:, None]) * g[:, None] + b[:, None], 0.0)
//     y01 = max((x01 - mu[:, None]) * g[:, None] + b[:, None], 0.0)
//     y10 = max((x10 - mu[:, None]) * g[:, None] + b[:, None], 0.0)
//     y11 = max((x11 - mu[:, None]) * g[:, None] + b[:, None], 0.0)
//     pooled = y00 + y01 + (y10 + y11)
//     w = load transition_2_weight[0 :+ 64, 0 :+ 32]
//     y = dot(w, pooled) ieee promote(32)
//     store avg_pool2d[p0, 0 :+ 64, p2, 0 :+ 128] = y
//   }
#include <cstdint>

#define AKG_VECTOR_BYTES 64
// The smaller, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_min(T a, T b) {
  const T least = b < a ? b : a;
  return b == b ? least : b;
}
// The larger; least is a number.
template <class T> static inline T akg_at_least(T a, T least) { return a < least ? least : a; }
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
#include <utility>
// Lanes of a and b in turn, from lane FIRST on.
template <int FIRST, class V, int... I>
static inline V akg_interleave(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int lanes = sizeof...(I);
#if defined(__clang__)
  return __builtin_shufflevector(a, b, (FIRST + I / 2 + I % 2 * lanes)...);
#else
  typedef decltype(a < b) mask;
  return __builtin_shuffle(a, b, mask{(FIRST + I / 2 + I % 2 * lanes)...});
#endif
}
// out[j * stride + i] = in[i * row + j] for a square of one vector's lanes, of which ROWS rows exist and WIDTH are written:
// every round of perfect shuffles moves one bit of the row number to the column number.
template <int ROWS, int WIDTH, class T>
static inline void akg_transpose(const T *__restrict in, int64_t row, T *__restrict out, int64_t stride) {
  typedef typename akg_vector<T>::type vector;
  constexpr int lanes = akg_vector<T>::lanes;
  const auto each = std::make_integer_sequence<int, lanes>{};
  vector r[lanes] = {}, s[lanes];
#pragma GCC unroll 16
  for (int i = 0; i < ROWS; ++i) __builtin_memcpy(&r[i], in + i * row, sizeof(vector));
#pragma GCC unroll 4
  for (int round = 1; round < lanes; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < lanes / 2; ++i) {
      s[2 * i] = akg_interleave<0>(r[i], r[i + lanes / 2], each);
      s[2 * i + 1] = akg_interleave<lanes / 2>(r[i], r[i + lanes / 2], each);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i) r[i] = s[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) __builtin_memcpy(out + i * stride, &r[i], WIDTH * sizeof(T));
}
// The columns of one panel from J on.
template <int K, int W, int J, class T>
static inline void akg_pack_columns(const T *__restrict from, int64_t row, int rows, int columns, T *__restrict to) {
  constexpr int lanes = akg_vector<T>::lanes, some = W - J < lanes ? W - J : lanes, width = W < lanes ? lanes : some;
  constexpr int ahead = 256 / int(sizeof(T));
  int k = 0;
  if (J + some <= columns)
    for (; k + lanes <= rows; k += lanes) {
      for (int j = J; j < J + some; ++j) __builtin_prefetch(from + j * row + k + ahead);
      akg_transpose<some, width>(from + J * row + k, row, to + k * W + J, W);
    }
  for (; k < K; ++k)
    for (int j = J; j < J + some; ++j) to[k * W + j] = k < rows && j < columns ? from[j * row + k] : T(0);
  if constexpr (J + lanes < W) akg_pack_columns<K, W, J + lanes>(from, row, rows, columns, to);
}
// The matrix from[n * row + k] in panels of W columns n, each row by row; zero from `rows` and `columns` on. Panels
// narrower than a vector are written by whole vectors, so that what follows the last one is overwritten too.
template <int K, int N, int W, class T>
static inline void akg_pack_transposed(const T *__restrict from, int64_t row, int rows, int columns, T *__restrict to) {
  for (int n = 0; n < N; n += W) akg_pack_columns<K, W, 0>(from + n * row, row, rows, columns - n, to + n * K);
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

// statistics: sums and sums of squares of two images of a channel
extern "C" void densenet121_transition_stats(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  double *__restrict PART_S = static_cast<double *>(tensors[1]);
  double *__restrict PART_Q = static_cast<double *>(tensors[2]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p1 = (program / 2);
    const int64_t part = (program % 2);
    double acc1 = 0.0;
    double acc2 = 0.0;
    for (int64_t r0 = 0; r0 < 2; ++r0) {
      for (int64_t r2 = 0; r2 < 65536; r2 += 8192) {
        // reduce_sum(t4, 0); reduce_sum(t5, 0)
        double tile;
        double tile_1;
        double acc = 0.0;
        double acc_1 = 0.0;
        #pragma omp simd reduction(+ : acc) reduction(+ : acc_1)
        for (int i = 0; i < 8192; ++i) {
          const double t4 = double(x[part * 4194304L + r0 * 2097152L + p1 * 65536L + i + r2]);
          const double t5 = t4 * t4;
          acc = acc + t4;
          acc_1 = acc_1 + t5;
        }
        tile = acc;
        tile_1 = acc_1;
        acc1 = acc1 + tile;
        acc2 = acc2 + tile_1;
      }
    }
    // store PART_S
    PART_S[p1 * 2L + part] = acc1;
    // store PART_Q
    PART_Q[p1 * 2L + part] = acc2;
  }
}

// running statistics and the count
extern "C" void densenet121_transition_running(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict transition_0_running_mean = static_cast<const float *>(tensors[0]);
  const float *__restrict transition_0_running_var = static_cast<const float *>(tensors[1]);
  const int64_t *__restrict transition_0_num_batches_tracked = static_cast<const int64_t *>(tensors[2]);
  float *__restrict getitem_3 = static_cast<float *>(tensors[3]);
  float *__restrict getitem_4 = static_cast<float *>(tensors[4]);
  int64_t *__restrict add = static_cast<int64_t *>(tensors[5]);
  const double *__restrict PART_S = static_cast<const double *>(tensors[6]);
  const double *__restrict PART_Q = static_cast<const double *>(tensors[7]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = program;
    // store add
    add[0] = int64_t(uint64_t(transition_0_num_batches_tracked[0]) + uint64_t(INT64_C(1)));
    // store getitem_3
    alignas(64) double t31[32];
    // s28 = reduce_sum(…, 1); s30 = reduce_sum(…, 1)
    alignas(64) double s28[32];
    alignas(64) double s30[32];
    for (int i_2 = 0; i_2 < 32; ++i_2) {
      double acc = 0.0;
      double acc_1 = 0.0;
      #pragma omp simd reduction(+ : acc) reduction(+ : acc_1)
      for (int i_3 = 0; i_3 < 2; ++i_3) {
        const double v = PART_S[i_2 * 2L + i_3];
        const double v_1 = PART_Q[i_2 * 2L + i_3];
        acc = acc + v;
        acc_1 = acc_1 + v_1;
      }
      s28[i_2] = acc;
      s30[i_2] = acc_1;
    }
    #pragma omp simd
    for (int i_1 = 0; i_1 < 32; ++i_1) {
      t31[i_1] = s28[i_1] / 262144.0;
    }
    #pragma omp simd
    for (int i = 0; i < 32; ++i) {
      getitem_3[i] = (float(t31[i]) * 0.1f) + (transition_0_running_mean[i] * 0.9f);
    }
    // store getitem_4
    #pragma omp simd
    for (int i_4 = 0; i_4 < 32; ++i_4) {
      const double t31_1 = t31[i_4];
      getitem_4[i_4] = ((float(akg_at_least((s30[i_4] / 262144.0) - (t31_1 * t31_1), 0.0)) * 1.0000038f) * 0.1f) + (transition_0_running_var[i_4] * 0.9f);
    }
  }
}

// batch norm, relu, average of 2x2, 1x1 convolution: one row of 128 output pixels
// Normalises, clips and pools one channel of a row of 128 pixels, of which `in` has both rows of 256, into the panels of the product.
AKG_FUSED static void akg_pool_channel(const float *__restrict in, float mu, float g, float b, float *__restrict to) {
  AKG_FUSE
  typedef float vector __attribute__((vector_size(64)));
  typedef int mask __attribute__((vector_size(64)));
  const vector zero = {};
  for (int n = 0; n < 4; ++n, to += 1024)
    for (int half = 0; half < 32; half += 16, in += 32) {
      vector v[4];
      __builtin_memcpy(&v[0], in, 64);
      __builtin_memcpy(&v[1], in + 16, 64);
      __builtin_memcpy(&v[2], in + 256, 64);
      __builtin_memcpy(&v[3], in + 272, 64);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const vector z = (v[i] - mu) * g + b;
        v[i] = z < zero ? zero : z;
      }
      const vector low = v[0] + v[2], high = v[1] + v[3];
#if defined(__clang__)
      const vector even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const vector odd = __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#else
      const vector even = __builtin_shuffle(low, high, mask{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30});
      const vector odd = __builtin_shuffle(low, high, mask{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31});
#endif
      const vector sum = even + odd;
      __builtin_memcpy(to + half, &sum, 64);
    }
}
// c[14, 32] = a * b over 32 products, while two channels of the next row of x, of 512 values each, are fetched.
AKG_FUSED static inline __attribute__((always_inline)) void akg_block_ahead(const float *__restrict a,
                                                                            const float *__restrict b,
                                                                            float *__restrict c, const float *ahead) {
  AKG_FUSE
  typedef float vector __attribute__((vector_size(64)));
  vector part[14][2] = {};
  for (int channel = 0; channel < 2; ++channel, ahead += 65536)
    for (int line = 0; line < 512; line += 32, a += 14, b += 32) {
      __builtin_prefetch(ahead + line, 0, 2);
      __builtin_prefetch(ahead + line + 16, 0, 2);
      vector r0, r1;
      __builtin_memcpy(&r0, b, sizeof(vector));
      __builtin_memcpy(&r1, b + 16, sizeof(vector));
#pragma GCC unroll 16
      for (int i = 0; i < 14; ++i) {
        const vector left = a[i] - vector{};
        part[i][0] += left * r0;
        part[i][1] += left * r1;
      }
    }
#pragma GCC unroll 16
  for (int i = 0; i < 14; ++i) {
    __builtin_memcpy(c + i * 16384, &part[i][0], sizeof(vector));
    __builtin_memcpy(c + i * 16384 + 16, &part[i][1], sizeof(vector));
  }
}
// One row of 128 pixels of all 64 channels; `next` is what the next one reads. The lines that the block after the current
// one writes are asked for before the current one.
AKG_FUSED static void akg_row(const float *__restrict left, const float *__restrict right, float *__restrict out,
                              const float *next) {
  for (int i = 0; i < 14; ++i) {
    __builtin_prefetch(out + i * 16384, 1);
    __builtin_prefetch(out + i * 16384 + 16, 1);
  }
  for (int n = 0; n < 4; ++n, right += 1024, out += 32, next += 524288) {
    for (int m = 0; m < 56; m += 14) {
      for (int i = m + 14; i < m + 28 && i < 64; ++i) {
        __builtin_prefetch(out + i * 16384, 1);
        __builtin_prefetch(out + i * 16384 + 16, 1);
      }
      akg_block_ahead(left + m * 32, right, out + m * 16384, next + m / 14 * 131072);
    }
    if (n < 3)
      for (int i = 0; i < 14; ++i) {
        __builtin_prefetch(out + 32 + i * 16384, 1);
        __builtin_prefetch(out + 48 + i * 16384, 1);
      }
    akg_block<8, 2, 32, 1, 14, akg_replace>(left + 1792, right, 32, out + 56 * 16384, 16384);
  }
}

extern "C" void densenet121_transition_main(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict transition_0_weight = static_cast<const float *>(tensors[0]);
  const float *__restrict transition_0_bias = static_cast<const float *>(tensors[1]);
  const float *__restrict transition_2_weight = static_cast<const float *>(tensors[2]);
  const float *__restrict x = static_cast<const float *>(tensors[3]);
  float *__restrict avg_pool2d = static_cast<float *>(tensors[4]);
  const double *__restrict PART_S = static_cast<const double *>(tensors[5]);
  const double *__restrict PART_Q = static_cast<const double *>(tensors[6]);
  alignas(64) float left[2256];
  akg_pack_transposed<32, 64, 14>(transition_2_weight, 32, 32, 64, left);
  alignas(64) double m1[32];
  alignas(64) double m2[32];
  for (int i = 0; i < 32; ++i) {
    m1[i] = (PART_S[i * 2L] + PART_S[i * 2L + 1]) / 262144.0;
    m2[i] = (PART_Q[i * 2L] + PART_Q[i * 2L + 1]) / 262144.0;
  }
  alignas(64) float mu[32];
  alignas(64) float g[32];
  alignas(64) float b[32];
  #pragma omp simd
  for (int i = 0; i < 32; ++i) {
    const double m1_1 = m1[i];
    mu[i] = float(m1_1);
    g[i] = (akg_rsqrt(float(akg_at_least(m2[i] - (m1_1 * m1_1), 0.0)) + 1e-5f) * transition_0_weight[i]) * 0.25f;
    b[i] = transition_0_bias[i] * 0.25f;
  }
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = (program / 128);
    const int64_t p2 = (program % 128);
    const int64_t after = program + 1 < last ? program + 1 : program;
    const float *from = x + p0 * 2097152L + p2 * 512L;
    alignas(64) float right[4096];
    for (int k = 0; k < 32; ++k) akg_pool_channel(from + k * 65536L, mu[k], g[k], b[k], right + k * 32);
    akg_row(left, right, avg_pool2d + p0 * 1048576L + p2 * 128L, x + (after / 128) * 2097152L + (after % 128) * 512L);
  }
}
