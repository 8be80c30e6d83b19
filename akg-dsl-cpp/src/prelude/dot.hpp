//# akg_vector
template <class T> struct akg_vector {
  typedef T type __attribute__((vector_size(AKG_VECTOR_BYTES)));
  static constexpr int lanes = AKG_VECTOR_BYTES / int(sizeof(T));
};
//# akg_transpose
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
//# akg_block akg_vector
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
//# akg_panel akg_block akg_min
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
//# akg_panels akg_panel
template <int M, int N, int K, int R, int C, int CHUNK, bool DIRECT, class T, class S>
static inline void akg_panels(const T *a, int64_t row, int64_t column, const T *b, int64_t stride, S *c, int valid) {
  constexpr int rest = M % R;
  for (int m = 0; m + R <= M; m += R)
    akg_panel<R, C, K, CHUNK, DIRECT>(a + m * row, row, column, b, stride, c + m * N, N, valid);
  if (rest)
    akg_panel<rest ? rest : 1, C, K, CHUNK, DIRECT>(a + (M - rest) * row, row, column, b, stride, c + (M - rest) * N, N, valid);
}
//# akg_dot akg_panels
// c[M, N] += a[M, K] * b[K, N] by blocks of R rows and C vectors. Rows of b are padded to whole vectors.
template <int M, int N, int K, int R, int C, int CHUNK, bool DIRECT, class T, class S>
static inline void akg_dot(const T *a, int64_t row, int64_t column, const T *b, int64_t stride, S *c) {
  constexpr int lanes = akg_vector<T>::lanes, width = C * lanes, rest = N % width, last = (rest + lanes - 1) / lanes;
  for (int n = 0; n + width <= N; n += width)
    akg_panels<M, N, K, R, C, CHUNK, DIRECT>(a, row, column, b + n, stride, c + n, width);
  if (rest)
    akg_panels<M, N, K, R, last ? last : 1, CHUNK, DIRECT>(a, row, column, b + (N - rest), stride, c + (N - rest), rest);
}
//# akg_team
// The programs of a cooperative kernel; barrier returns when all of them have called it.
struct akg_team {
  void (*barrier)(void *context);
  void *context;
};
