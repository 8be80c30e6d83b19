// Lowered from this sketch:
//
//   # A product with bias and leaky ReLU.
//   sketch gemm_tail(x: f32[100, 70], w: f32[90, 70], b: f32[90]) -> y: f32[100, 90]
//   knob BM in {32, 16}
//
//   kernel main over (m in ceildiv(100, BM), n in ceildiv(90, 48)) grouped m by 2 {
//     acc = zeros f64[BM, 48]
//     for k in 0..70 step 32 {
//       a = load x[m*BM :+ BM, k :+ 32] else 0
//       c = load w[n*48 :+ 48, k :+ 32] else 0
//       acc = dot(a, trans(c), acc) ieee promote(32)
//     }
//     t = f32(acc) + (load b[n*48 :+ 48] else 0)[None, :]
//     store y[m*BM :+ BM, n*48 :+ 48] = select(t > 0, t, 0.01*t)
//   }
//
// Knobs: BM = 32
#include <cstdint>

#define AKG_VECTOR_BYTES 32
template <class T> static inline T akg_min(T a, T b) { return a < b || a != a ? a : b; }
// Rounds down; 0 for a zero divisor.
template <class T> static inline T akg_floor_div(T a, T b) {
  if (b == 0) return 0;
  if (b == T(-1)) return T(0 - a);
  return T(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
}
// The sign of the divisor.
template <class T> static inline T akg_floor_mod(T a, T b) { return T(a - b * akg_floor_div(a, b)); }
static inline float akg_floor_mod(float a, float b) {
  const float r = __builtin_fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline double akg_floor_mod(double a, double b) {
  const double r = __builtin_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
// The end of the indices i in 0..len until which start + step * i is inside of 0..extent.
static inline int akg_clip_hi(int64_t start, int64_t step, int64_t extent, int64_t len) {
  const int64_t inside = step > 0 ? extent - start : start + 1, distance = step > 0 ? step : -step;
  return inside <= 0 ? 0 : int(akg_min((inside + distance - 1) / distance, len));
}
template <class T> struct akg_vector {
  typedef T type __attribute__((vector_size(AKG_VECTOR_BYTES)));
  static constexpr int lanes = AKG_VECTOR_BYTES / int(sizeof(T));
};
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define AKG_SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#endif
#endif
#if !defined(AKG_SHUFFLE)
#define AKG_SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, akg_lanes{i, j, k, l})
typedef int akg_lanes __attribute__((vector_size(16)));
#endif
// out[j * stride + i] = in[i * COLUMNS + j] by blocks of 4 x 4. Elements of 4 bytes.
template <int ROWS, int COLUMNS, class T>
static inline void akg_transpose(const T *__restrict in, T *__restrict out, int64_t stride) {
  static_assert(sizeof(T) == 4, "lanes are numbered by 32-bit integers");
  typedef T vector __attribute__((vector_size(16)));
  constexpr int rows = ROWS / 4 * 4, columns = COLUMNS / 4 * 4;
  for (int j = 0; j < columns; j += 4)
    for (int i = 0; i < rows; i += 4) {
      vector r[4];
      for (int n = 0; n < 4; ++n) __builtin_memcpy(&r[n], in + (i + n) * COLUMNS + j, 16);
      const vector a = AKG_SHUFFLE(r[0], r[1], 0, 4, 1, 5), b = AKG_SHUFFLE(r[2], r[3], 0, 4, 1, 5);
      const vector c = AKG_SHUFFLE(r[0], r[1], 2, 6, 3, 7), d = AKG_SHUFFLE(r[2], r[3], 2, 6, 3, 7);
      const vector turned[4] = {AKG_SHUFFLE(a, b, 0, 1, 4, 5), AKG_SHUFFLE(a, b, 2, 3, 6, 7),
                                AKG_SHUFFLE(c, d, 0, 1, 4, 5), AKG_SHUFFLE(c, d, 2, 3, 6, 7)};
      for (int n = 0; n < 4; ++n) __builtin_memcpy(out + (j + n) * stride + i, &turned[n], 16);
    }
  for (int j = 0; j < COLUMNS; ++j)
    for (int i = j < columns ? rows : 0; i < ROWS; ++i) out[j * stride + i] = in[i * COLUMNS + j];
}
#if defined(__clang__)
#define AKG_FUSED
#define AKG_FUSE _Pragma("clang fp contract(fast)")
#else
#define AKG_FUSED __attribute__((optimize("fp-contract=fast")))
#define AKG_FUSE
#endif
// out = a[R, k] * b[k, C vectors], all sums in registers.
template <int R, int C, class T>
AKG_FUSED static void akg_block(const T *__restrict a, int64_t row, int64_t column, const T *__restrict b,
                                int64_t stride, int k, T *__restrict out) {
  AKG_FUSE
  typedef typename akg_vector<T>::type vector;
  constexpr int lanes = akg_vector<T>::lanes;
  vector sum[R][C] = {};
  for (int p = 0; p < k; ++p) {
    vector right[C];
    __builtin_memcpy(right, b + p * stride, sizeof right);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
      const vector left = a[i * row + p * column] - vector{};
#pragma GCC unroll 8
      for (int j = 0; j < C; ++j) sum[i][j] += left * right[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) __builtin_memcpy(out + (i * C + j) * lanes, &sum[i][j], sizeof(vector));
}
// Adds one block's products over K to c: every CHUNK of them straight into c, or all through a sum in double.
template <int R, int C, int K, int CHUNK, bool DIRECT, class T, class S>
static inline void akg_panel(const T *a, int64_t row, int64_t column, const T *b, int64_t stride, S *__restrict c,
                             int64_t width, int valid) {
  constexpr int block = C * akg_vector<T>::lanes;
  alignas(64) T part[R * block];
  if (DIRECT) {
    for (int p = 0; p < K; p += CHUNK) {
      akg_block<R, C>(a + p * column, row, column, b + p * stride, stride, akg_min(CHUNK, K - p), part);
      for (int i = 0; i < R; ++i)
#pragma omp simd
        for (int j = 0; j < valid; ++j) c[i * width + j] += part[i * block + j];
    }
    return;
  }
  alignas(64) double sum[R * block] = {};
  for (int p = 0; p < K; p += CHUNK) {
    akg_block<R, C>(a + p * column, row, column, b + p * stride, stride, akg_min(CHUNK, K - p), part);
#pragma omp simd
    for (int j = 0; j < R * block; ++j) sum[j] += part[j];
  }
  for (int i = 0; i < R; ++i)
#pragma omp simd
    for (int j = 0; j < valid; ++j) c[i * width + j] = S(c[i * width + j] + sum[i * block + j]);
}
template <int M, int N, int K, int R, int C, int CHUNK, bool DIRECT, class T, class S>
static inline void akg_panels(const T *a, int64_t row, int64_t column, const T *b, int64_t stride, S *c, int valid) {
  constexpr int rest = M % R;
  for (int m = 0; m + R <= M; m += R)
    akg_panel<R, C, K, CHUNK, DIRECT>(a + m * row, row, column, b, stride, c + m * N, N, valid);
  if (rest)
    akg_panel<rest ? rest : 1, C, K, CHUNK, DIRECT>(a + (M - rest) * row, row, column, b, stride, c + (M - rest) * N, N, valid);
}
// c[M, N] += a[M, K] * b[K, N] by blocks of R rows and C vectors. Rows of b are padded to whole vectors.
template <int M, int N, int K, int R, int C, int CHUNK, bool DIRECT, class T, class S>
static inline void akg_dot(const T *a, int64_t row, int64_t column, const T *b, int64_t stride, S *c) {
  constexpr int lanes = akg_vector<T>::lanes, width = C * lanes, rest = N % width, last = (rest + lanes - 1) / lanes;
  for (int n = 0; n + width <= N; n += width)
    akg_panels<M, N, K, R, C, CHUNK, DIRECT>(a, row, column, b + n, stride, c + n, width);
  if (rest)
    akg_panels<M, N, K, R, last ? last : 1, CHUNK, DIRECT>(a, row, column, b + (N - rest), stride, c + (N - rest), rest);
}

extern "C" void gemm_tail_main(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  const float *__restrict w = static_cast<const float *>(tensors[1]);
  const float *__restrict b = static_cast<const float *>(tensors[2]);
  float *__restrict y = static_cast<float *>(tensors[3]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t m = (program / 4) * 2L + akg_floor_mod<int64_t>((program % 4), akg_min<int64_t>(2, -(program / 4) * 2L + 4));
    const int64_t n = akg_floor_div<int64_t>((program % 4), akg_min<int64_t>(2, -(program / 4) * 2L + 4));
    alignas(64) double acc[1536];
    for (int i = 0; i < 32; ++i) {
      #pragma omp simd
      for (int i_1 = 0; i_1 < 48; ++i_1) {
        acc[i * 48 + i_1] = 0.0;
      }
    }
    for (int64_t k = 0; k < 70; k += 32) {
      // acc = dot(a, …, acc)
      alignas(64) float a[1024];
      const int i_2_hi = akg_clip_hi(m * 32, 1, 100, 32);
      const int i_3_hi = akg_clip_hi(k, 1, 70, 32);
      if (i_2_hi == 32 && i_3_hi == 32) {
        for (int i_2 = 0; i_2 < 32; ++i_2) {
          #pragma omp simd
          for (int i_3 = 0; i_3 < 32; ++i_3) {
            a[i_2 * 32 + i_3] = x[i_2 * 70 + i_3 + k + m * 2240];
          }
        }
      } else {
        for (int i_2 = 0; i_2 < 32; ++i_2) {
          #pragma omp simd
          for (int i_3 = 0; i_3 < 32; ++i_3) {
            a[i_2 * 32 + i_3] = i_2 < i_2_hi && i_3 < i_3_hi ? x[i_2 * 70 + i_3 + k + m * 2240] : 0.0f;
          }
        }
      }
      alignas(64) float right[1536];
      alignas(64) float c[1536];
      const int i_4_hi = akg_clip_hi(n * 48, 1, 90, 48);
      const int i_5_hi = akg_clip_hi(k, 1, 70, 32);
      if (i_4_hi == 48 && i_5_hi == 32) {
        for (int i_4 = 0; i_4 < 48; ++i_4) {
          #pragma omp simd
          for (int i_5 = 0; i_5 < 32; ++i_5) {
            c[i_4 * 32 + i_5] = w[i_4 * 70 + i_5 + k + n * 3360];
          }
        }
      } else {
        for (int i_4 = 0; i_4 < 48; ++i_4) {
          #pragma omp simd
          for (int i_5 = 0; i_5 < 32; ++i_5) {
            c[i_4 * 32 + i_5] = i_4 < i_4_hi && i_5 < i_5_hi ? w[i_4 * 70 + i_5 + k + n * 3360] : 0.0f;
          }
        }
      }
      akg_transpose<48, 32>(c, right, 48);
      akg_dot<32, 48, 32, 4, 3, 32, true>(a, 32, 1, right, 48, acc);
    }
    // store y
    const int i_6_hi = akg_clip_hi(m * 32, 1, 100, 32);
    const int i_7_hi = akg_clip_hi(n * 48, 1, 90, 48);
    for (int i_6 = 0; i_6 < i_6_hi; ++i_6) {
      #pragma omp simd
      for (int i_7 = 0; i_7 < i_7_hi; ++i_7) {
        const float t = float(acc[i_6 * 48 + i_7]) + b[i_7 + n * 48];
        y[i_6 * 90 + i_7 + m * 2880 + n * 48] = (t > 0.0f) ? t : (0.01f * t);
      }
    }
  }
}
