//# akg_vector
template <class T> struct akg_vector {
  typedef T type __attribute__((vector_size(AKG_VECTOR_BYTES)));
  static constexpr int lanes = AKG_VECTOR_BYTES / int(sizeof(T));
};
//# akg_pack
// The matrix from[k * row + n] in panels of W columns, each row by row; zero from `rows` and `columns` on.
template <int K, int N, int W, class T>
static inline void akg_pack(const T *__restrict from, int64_t row, int rows, int columns, T *__restrict to) {
  for (int k = 0; k < rows; ++k, from += row) {
    int n = 0;
    for (; n + W <= columns; n += W) __builtin_memcpy(to + n * K + k * W, from + n, W * sizeof(T));
    for (; n < N; n += W)
      for (int j = 0; j < W; ++j) to[n * K + k * W + j] = n + j < columns ? from[n + j] : T(0);
  }
  for (int k = rows; k < K; ++k)
    for (int n = 0; n < N; n += W) __builtin_memset(to + n * K + k * W, 0, W * sizeof(T));
}
//# akg_transpose akg_vector
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
// out[j * stride + i] = in[i * row + j] for a square of one vector's lanes: every round of perfect shuffles moves one
// bit of the row number to the column number.
template <class T>
static inline void akg_transpose(const T *__restrict in, int64_t row, T *__restrict out, int64_t stride) {
  typedef typename akg_vector<T>::type vector;
  constexpr int lanes = akg_vector<T>::lanes;
  const auto each = std::make_integer_sequence<int, lanes>{};
  vector r[lanes], s[lanes];
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) __builtin_memcpy(&r[i], in + i * row, sizeof(vector));
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
  for (int i = 0; i < lanes; ++i) __builtin_memcpy(out + i * stride, &r[i], sizeof(vector));
}
//# akg_pack_transposed akg_transpose
// The matrix from[n * row + k] in panels of W columns n, each row by row; zero from `rows` and `columns` on.
template <int K, int N, int W, class T>
static inline void akg_pack_transposed(const T *__restrict from, int64_t row, int rows, int columns, T *__restrict to) {
  constexpr int lanes = akg_vector<T>::lanes;
  for (int n = 0; n < N; n += lanes, from += lanes * row) {
    T *const out = to + n / W * (K * W) + n % W;
    int k = 0;
    if (n + lanes <= columns)
      for (; k + lanes <= rows; k += lanes) akg_transpose(from + k, row, out + k * W, W);
    for (; k < K; ++k)
      for (int j = 0; j < lanes; ++j) out[k * W + j] = k < rows && n + j < columns ? from[j * row + k] : T(0);
  }
}
//# akg_block akg_vector
#if defined(__clang__)
#define AKG_FUSED
#define AKG_FUSE _Pragma("clang fp contract(fast)")
#else
#define AKG_FUSED __attribute__((optimize("fp-contract=fast")))
#define AKG_FUSE
#endif
// sum[R, C vectors] += a[R, k] * b[k, C vectors], the products summed in registers first. Rows of b are W apart.
template <int R, int C, int W, int ROW, int COLUMN, class T, class SUM>
AKG_FUSED static void akg_block(const T *__restrict a, const T *__restrict b, int k, SUM *__restrict sum) {
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
      wide all;
      __builtin_memcpy(&all, sum + (i * C + j) * lanes, sizeof all);
      all += __builtin_convertvector(part[i][j], wide);
      __builtin_memcpy(sum + (i * C + j) * lanes, &all, sizeof all);
    }
}
//# akg_panel akg_block akg_min
// What becomes of the product's sums in c: they start from it, are added to it, or replace it.
enum akg_sums { akg_continue, akg_add, akg_replace };
// One block of c by all of K, in sums over CHUNK products that are added up in SUM. Rows of c are `row` apart.
template <int R, int C, int W, int VALID, int K, int ROW, int COLUMN, int CHUNK, akg_sums SUMS, class SUM, class T,
          class S>
static void akg_panel(const T *a, const T *b, S *__restrict c, int64_t row) {
  constexpr int block = C * akg_vector<T>::lanes, line = 64 / int(sizeof(S));
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < VALID; j += line) __builtin_prefetch(c + i * row + j, 1);
  alignas(64) SUM sum[R * block] = {};
  if (SUMS == akg_continue)
    for (int i = 0; i < R; ++i)
#pragma omp simd
      for (int j = 0; j < VALID; ++j) sum[i * block + j] = SUM(c[i * row + j]);
  for (int p = 0; p < K; p += CHUNK)
    akg_block<R, C, W, ROW, COLUMN>(a + p * COLUMN, b + p * W, akg_min(CHUNK, K - p), sum);
  for (int i = 0; i < R; ++i)
#pragma omp simd
    for (int j = 0; j < VALID; ++j) {
      const SUM all = sum[i * block + j];
      c[i * row + j] = S(SUMS == akg_add ? c[i * row + j] + all : all);
    }
}
//# akg_panels akg_panel
template <int M, int R, int C, int W, int VALID, int K, int ROW, int COLUMN, int CHUNK, akg_sums SUMS, class SUM,
          class T, class S>
static inline void akg_panels(const T *a, const T *b, S *c, int64_t row) {
  constexpr int rest = M % R;
  for (int m = 0; m + R <= M; m += R)
    akg_panel<R, C, W, VALID, K, ROW, COLUMN, CHUNK, SUMS, SUM>(a + m * ROW, b, c + m * row, row);
  if (rest)
    akg_panel<rest ? rest : 1, C, W, VALID, K, ROW, COLUMN, CHUNK, SUMS, SUM>(a + (M - rest) * ROW, b,
                                                                            c + (M - rest) * row, row);
}
//# akg_dot akg_panels
// c[M, N] = a[M, K] * b[K, N] by blocks of R rows and C vectors of columns. Panels of b are as wide as a block.
template <int M, int N, int K, int ROW, int COLUMN, int R, int C, int CHUNK, akg_sums SUMS, class SUM, class T,
          class S>
static inline void akg_dot(const T *a, const T *b, S *c) {
  constexpr int lanes = akg_vector<T>::lanes, width = C * lanes, rest = N % width, last = (rest + lanes - 1) / lanes;
  for (int n = 0; n + width <= N; n += width)
    akg_panels<M, R, C, width, width, K, ROW, COLUMN, CHUNK, SUMS, SUM>(a, b + n * K, c + n, N);
  if (rest)
    akg_panels<M, R, last ? last : 1, width, rest ? rest : 1, K, ROW, COLUMN, CHUNK, SUMS, SUM>(
        a, b + (N - rest) * K, c + (N - rest), N);
}
//# akg_team
// The programs of a cooperative kernel; barrier returns when all of them have called it.
struct akg_team {
  void (*barrier)(void *context);
  void *context;
};
