// akg-launch: {"dims":[],"tensors":[{"name":"conv_weight","dtype":"f32","shape":[64,8,3,3],"role":"input","align":4},{"name":"conv_bias","dtype":"f32","shape":[64],"role":"input","align":4},{"name":"x","dtype":"f32","shape":[16,8,384,384],"role":"input","align":4},{"name":"sum_1_","dtype":"f32","shape":[16],"role":"output","align":4},{"name":"A0","dtype":"f32","shape":[3,24,64],"role":"scratch","align":4},{"name":"PART","dtype":"f64","shape":[16,95],"role":"scratch","align":8}],"launches":[{"kernel":"g_65_conv2d_avgpool_sigmoid_sum_k0_a","grid":[4],"tensors":[0,4],"doc":"The weights as a matrix for each column of the window"},{"kernel":"g_65_conv2d_avgpool_sigmoid_sum_k0","grid":[16,95],"tensors":[1,2,4,5],"doc":"One row of the pooled convolution for all channels, from sums of x; sigmoid; its sum"},{"kernel":"g_65_conv2d_avgpool_sigmoid_sum_k2","grid":[16],"tensors":[3,5],"doc":"The sum of the rows"}]}
// Lowered from this sketch:
//
//   sketch g_65_conv2d_avgpool_sigmoid_sum(conv_weight: f32[64, 8, 3, 3], conv_bias: f32[64], x: f32[16, 8, 384, 384]) -> sum_1_: f32[16]
//   buffer A0: f32[3, 24, 64]
//   buffer PART: f64[16, 95]
//
//   # The weights as a matrix for each column of the window
//   kernel k0_a over (p1 in ceildiv(64, 16)) {
//     for r6 in 0..3 {
//       x1 = trans(load conv_weight[p1*16 :+ 16, 0 :+ 8, 0 :+ 3, r6], [1, 2, 0])
//       store A0[r6, 0 :+ 24, p1*16 :+ 16] = reshape(x1, [24, 16])
//     }
//   }
//
//   # One row of the pooled convolution for all channels, from sums of x; sigmoid; its sum
//   kernel k0 over (p0 in 16, p2 in 95) {
//     v0 = (load x[p0, 0 :+ 8, 4*p2 :+ 3, 0 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 1 :+ 3, 0 :+ 95 by 4]) + ((load x[p0, 0 :+ 8, 4*p2 + 2 :+ 3, 0 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 3 :+ 3, 0 :+ 95 by 4]))
//     v1 = (load x[p0, 0 :+ 8, 4*p2 :+ 3, 1 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 1 :+ 3, 1 :+ 95 by 4]) + ((load x[p0, 0 :+ 8, 4*p2 + 2 :+ 3, 1 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 3 :+ 3, 1 :+ 95 by 4]))
//     v2 = (load x[p0, 0 :+ 8, 4*p2 :+ 3, 2 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 1 :+ 3, 2 :+ 95 by 4]) + ((load x[p0, 0 :+ 8, 4*p2 + 2 :+ 3, 2 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 3 :+ 3, 2 :+ 95 by 4]))
//     v3 = (load x[p0, 0 :+ 8, 4*p2 :+ 3, 3 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 1 :+ 3, 3 :+ 95 by 4]) + ((load x[p0, 0 :+ 8, 4*p2 + 2 :+ 3, 3 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 3 :+ 3, 3 :+ 95 by 4]))
//     v4 = (load x[p0, 0 :+ 8, 4*p2 :+ 3, 4 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 1 :+ 3, 4 :+ 95 by 4]) + ((load x[p0, 0 :+ 8, 4*p2 + 2 :+ 3, 4 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 3 :+ 3, 4 :+ 95 by 4]))
//     v5 = (load x[p0, 0 :+ 8, 4*p2 :+ 3, 5 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 1 :+ 3, 5 :+ 95 by 4]) + ((load x[p0, 0 :+ 8, 4*p2 + 2 :+ 3, 5 :+ 95 by 4]) + (load x[p0, 0 :+ 8, 4*p2 + 3 :+ 3, 5 :+ 95 by 4]))
//     b0 = v0 + v1 + (v2 + v3)
//     b1 = v1 + v2 + (v3 + v4)
//     b2 = v2 + v3 + (v4 + v5)
//     acc0 = zeros f32[64, 95]
//     acc0 = acc0 + (dot(trans(load A0[0, 0 :+ 24, 0 :+ 64]), reshape(b0, [24, 95])) ieee promote(32))
//     acc0 = acc0 + (dot(trans(load A0[1, 0 :+ 24, 0 :+ 64]), reshape(b1, [24, 95])) ieee promote(32))
//     acc0 = acc0 + (dot(trans(load A0[2, 0 :+ 24, 0 :+ 64]), reshape(b2, [24, 95])) ieee promote(32))
//     bias = load conv_bias[0 :+ 64]
//     t = acc0*0.0625 + bias[:, None]
//     sg = sigmoid(t)
//     rows = f64(reduce_sum(sg, 1))
//     store PART[p0, p2] = reduce_sum(rows, 0)
//   }
//
//   # The sum of the rows
//   kernel k2 over (p0 in 16) {
//     x3 = load PART[p0, 0 :+ 95]
//     s4 = f32(reduce_sum(x3, 0))
//     store sum_1_[p0] = s4
//   }
#include <cstdint>

#define AKG_VECTOR_BYTES 64
// The smaller, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_min(T a, T b) {
  const T least = b < a ? b : a;
  return b == b ? least : b;
}
template <class To, class From> static inline To akg_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
// a * b + c rounded once; where that would be a call, in double, which is as good here.
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
static inline float akg_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
static inline float akg_fma(float a, float b, float c) { return float(double(a) * b + c); }
#endif
// e^r - 1 for |r| < 0.35: degree 6, relative error below 2e-8 before rounding.
static inline float akg_exp_tail(float r) {
  float p = 0x1.6bebc8p-10f;
  p = akg_fma(p, r, 0x1.12290ep-7f);
  p = akg_fma(p, r, 0x1.555676p-5f);
  p = akg_fma(p, r, 0x1.5554aep-3f);
  p = akg_fma(p, r, 0x1.fffffep-2f);
  return akg_fma(r * r, p, r);
}
// x - n * ln(2) for an integer n of at most 8 bits.
static inline float akg_exp_rest(float x, float n) { return akg_fma(n, 0x1.05c610p-29f, akg_fma(n, -0x1.62e430p-1f, x)); }
// x, or the limit where x is less than that, for a limit below zero: its size in bits is compared. NaN may get lost.
static inline float akg_above(float x, float limit) {
  const uint32_t bits = akg_bits<uint32_t>(x), most = akg_bits<uint32_t>(limit);
  return akg_bits<float>(bits < most ? bits : most);
}
// value * 2^n for values near 1 and n of -150..=128, where shifted = n + 0x1.8p23; rounds once.
static inline float akg_exp_scaled(float value, float shifted) {
  const int32_t least = -125 * (1 << 23), power = int32_t(akg_bits<uint32_t>(shifted) << 23);
  const int32_t first = power > least ? power : least, rest = power - first;
  return akg_bits<float>(akg_bits<int32_t>(value) + first) * akg_bits<float>(rest + 0x3f800000);
}
// At most 1.1 units in the last place.
static inline float akg_exp(float x) {
  const float c = akg_above(x, -104.f), shifted = akg_fma(c, 0x1.715476p+0f, 0x1.8p23f);
  const float y = akg_exp_scaled(1 + akg_exp_tail(akg_exp_rest(c, shifted - 0x1.8p23f)), shifted);
  return x < 88.722839f ? y : x * __builtin_inff();
}
static inline double akg_exp(double x) { return __builtin_exp(x); }
// At most 1.5 units in the last place: 1 / (1 + e) or e / (1 + e) for e = e^-|x|, with what the sum lost.
static inline float akg_sigmoid(float x) {
  const float e = akg_exp(-__builtin_fabsf(x)), sum = 1 + e, lost = e - (sum - 1);
  const float above = x < 0 ? e : 1, inverse = 1 / sum, y = above * inverse;
  return akg_fma(akg_fma(-y, sum, above) - y * lost, inverse, y);
}
static inline double akg_sigmoid(double x) { return 1 / (1 + __builtin_exp(-x)); }
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

// The weights as a matrix for each column of the window
extern "C" void g_65_conv2d_avgpool_sigmoid_sum_k0_a(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict conv_weight = static_cast<const float *>(tensors[0]);
  float *__restrict A0 = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p1 = program;
    for (int64_t r6 = 0; r6 < 3; ++r6) {
      // store A0
      for (int i = 0; i < 24; ++i) {
        #pragma omp simd
        for (int i_1 = 0; i_1 < 16; ++i_1) {
          A0[r6 * 1536L + i * 64L + p1 * 16L + i_1] = conv_weight[p1 * 1152L + i_1 * 72L + (i / 3) * 9L + (i % 3) * 3L + r6];
        }
      }
    }
  }
}

// One row of the pooled convolution for all channels, from sums of x; sigmoid; its sum
extern "C" void g_65_conv2d_avgpool_sigmoid_sum_k0(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict conv_bias = static_cast<const float *>(tensors[0]);
  const float *__restrict x = static_cast<const float *>(tensors[1]);
  const float *__restrict A0 = static_cast<const float *>(tensors[2]);
  double *__restrict PART = static_cast<double *>(tensors[3]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = (program / 95);
    const int64_t p2 = (program % 95);
    // The operand of one product: row s * 24 + c * 3 + r, sums of x over windows of 4 x 4, in panels of 48 columns.
    alignas(64) float right[72 * 96];
    alignas(64) float sums[3 * 384];
    alignas(64) float d0[3 * 112] = {}, d1[3 * 112] = {}, d2[3 * 112] = {}, d3[3 * 112] = {};
    for (int c = 0; c < 8; ++c) {
      const float *__restrict in = x + p0 * 1179648L + c * 147456L + p2 * 1536L;
      #pragma omp simd
      for (int j = 0; j < 384; ++j) {
        const float x0 = in[j], x1 = in[j + 384], x2 = in[j + 768], x3 = in[j + 1152], x4 = in[j + 1536], x5 = in[j + 1920];
        const float middle = x2 + x3;
        sums[j] = (x0 + x1) + middle;
        sums[j + 384] = (x1 + x2) + (x3 + x4);
        sums[j + 768] = middle + (x4 + x5);
      }
      for (int r = 0; r < 3; ++r) {
        #pragma omp simd
        for (int j = 0; j < 96; ++j) {
          d0[r * 112 + j] = sums[r * 384 + j * 4];
          d1[r * 112 + j] = sums[r * 384 + j * 4 + 1];
          d2[r * 112 + j] = sums[r * 384 + j * 4 + 2];
          d3[r * 112 + j] = sums[r * 384 + j * 4 + 3];
        }
      }
      for (int r = 0; r < 3; ++r) {
        for (int panel = 0; panel < 2; ++panel) {
          const int from = r * 112 + panel * 48;
          float *__restrict to = right + panel * 3456 + (c * 3 + r) * 48;
          #pragma omp simd
          for (int j = 0; j < 48; ++j) {
            const float v0 = d0[from + j], v1 = d1[from + j], v2 = d2[from + j], v3 = d3[from + j];
            const float v4 = d0[from + j + 1], v5 = d1[from + j + 1];
            const float middle = v2 + v3;
            to[j] = (v0 + v1) + middle;
            to[j + 1152] = (v1 + v2) + (v3 + v4);
            to[j + 2304] = middle + (v4 + v5);
          }
        }
      }
    }
    // What the next program reads that this one did not: four rows of each channel.
    const int64_t next = p2 < 94 ? p0 * 1179648L + p2 * 1536L + 2304L : p0 < 15 ? (p0 + 1) * 1179648L : 0L;
    alignas(64) double lanes[16] = {};
    for (int m = 0; m < 64; m += 16) {
      alignas(64) float acc0[16 * 96];
      akg_dot<16, 96, 72, 16, 0, 1, 1, 64, 8, 3, 48, 72, akg_replace, float>(A0 + m, right, acc0);
      for (int i = 0; i < 16; ++i) {
        const float *ahead = x + next + ((m + i) / 8) * 147456L + ((m + i) % 8) * 192L;
        for (int l = 0; l < 12; ++l) __builtin_prefetch(ahead + l * 16, 0, 2);
        const float bias = conv_bias[m + i];
        alignas(64) float part[16] = {};
        for (int b = 0; b < 96; b += 16) {
          #pragma omp simd
          for (int l = 0; l < 16; ++l) {
            const float y = 1.0f / (1.0f + akg_exp(-((acc0[i * 96 + b + l] * 0.0625f) + bias)));
            // The last column of the 96 is none of the 95.
            part[l] += b + l < 95 ? y : 0.0f;
          }
        }
        #pragma omp simd
        for (int l = 0; l < 16; ++l) lanes[l] += double(part[l]);
      }
    }
    // store PART
    double total = 0.0;
    for (int l = 0; l < 16; ++l) total += lanes[l];
    PART[p0 * 95L + p2] = total;
  }
}

// The sum of the rows
extern "C" void g_65_conv2d_avgpool_sigmoid_sum_k2(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  float *__restrict sum_1_ = static_cast<float *>(tensors[0]);
  const double *__restrict PART = static_cast<const double *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = program;
    // store sum_1_
    // reduce_sum(x3, 0)
    double tile;
    double acc = 0.0;
    #pragma omp simd reduction(+ : acc)
    for (int i = 0; i < 95; ++i) {
      const double x3 = PART[p0 * 95L + i];
      acc = acc + x3;
    }
    tile = acc;
    sum_1_[p0] = float(tile);
  }
}
