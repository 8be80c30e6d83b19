// Lowered from this sketch:
//
//   # A product with sums on three levels.
//   sketch gemm(x: f32[512, 1024], w: f32[1024, 768]) -> y: f32[512, 768]
//   knob BM in {256, 128}
//
//   kernel main over (m in ceildiv(512, BM), n in ceildiv(768, 384)) {
//     acc = zeros f64[BM, 384]
//     for k in 0..1024 step 256 {
//       a = load x[m*BM :+ BM, k :+ 256]
//       b = load w[k :+ 256, n*384 :+ 384]
//       acc = acc + f64(dot(a, b) ieee promote(32))
//     }
//     store y[m*BM :+ BM, n*384 :+ 384] = f32(acc)
//   }
//
// Knobs: BM = 256
#include <cstdint>

#define AKG_VECTOR_BYTES 32
// The smaller, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_min(T a, T b) {
  const T least = b < a ? b : a;
  return b == b ? least : b;
}
// Writes the 64 bytes of a line past the caches, or as usual where compilers have no word for that.
#if defined(__clang__)
typedef int akg_quarter __attribute__((vector_size(16)));
static inline void akg_store_line(void *to, const void *from) {
  for (int i = 0; i < 4; ++i) {
    akg_quarter q;
    __builtin_memcpy(&q, static_cast<const char *>(from) + 16 * i, 16);
    __builtin_nontemporal_store(q, static_cast<akg_quarter *>(to) + i);
  }
}
#elif defined(__AVX512F__)
typedef long long akg_line __attribute__((vector_size(64)));
static inline void akg_store_line(void *to, const void *from) {
  akg_line line;
  __builtin_memcpy(&line, from, 64);
  __builtin_ia32_movntdq512(static_cast<akg_line *>(to), line);
}
#elif defined(__AVX__)
typedef long long akg_half_line __attribute__((vector_size(32)));
static inline void akg_store_line(void *to, const void *from) {
  akg_half_line halves[2];
  __builtin_memcpy(halves, from, 64);
  __builtin_ia32_movntdq256(static_cast<akg_half_line *>(to), halves[0]);
  __builtin_ia32_movntdq256(static_cast<akg_half_line *>(to) + 1, halves[1]);
}
#else
static inline void akg_store_line(void *to, const void *from) { __builtin_memcpy(to, from, 64); }
#endif
// Writes n elements past the caches; the lines at the ends, which others may share, as usual.
template <class T> static inline void akg_stream(T *__restrict to, const T *__restrict from, int64_t n) {
  constexpr int64_t line = 64 / sizeof(T);
  const int64_t before = int64_t(-reinterpret_cast<uintptr_t>(to) % 64 / sizeof(T));
  int64_t i = 0;
  for (; i < before && i < n; ++i) to[i] = from[i];
  for (; i + line <= n; i += line) akg_store_line(to + i, from + i);
  for (; i < n; ++i) to[i] = from[i];
}
// Makes what was written past the caches visible to other threads before what follows.
static inline void akg_stream_end() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}
#include <cstdlib>
// Memory of a tile that is too large for a stack.
template <class T, int N> struct akg_room {
  akg_room() : at(aligned_alloc(64, (sizeof(T) * N + 63) / 64 * 64)) {
    if (!at) __builtin_trap();
  }
  akg_room(const akg_room &) = delete;
  ~akg_room() { free(at); }
  T (&tile())[N] { return *static_cast<T (*)[N]>(__builtin_assume_aligned(at, 64)); }
  void *const at;
};
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

extern "C" void gemm_main(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  const float *__restrict w = static_cast<const float *>(tensors[1]);
  float *__restrict y = static_cast<float *>(tensors[2]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t m = (program / 2);
    const int64_t n = (program % 2);
    akg_room<double, 98304> akg_room_acc;
    double (&acc)[98304] = akg_room_acc.tile();
    for (int i = 0; i < 256; ++i) {
      #pragma omp simd
      for (int i_1 = 0; i_1 < 384; ++i_1) {
        acc[i * 384 + i_1] = 0.0;
      }
    }
    for (int64_t k = 0; k < 1024; k += 256) {
      // dot(a, b)
      akg_room<float, 65544> akg_room_left;
      float (&left)[65544] = akg_room_left.tile();
      akg_pack_transposed<256, 256, 4>(x + m * 262144L + k, 1024, 256, 256, left);
      akg_room<float, 98304> akg_room_right;
      float (&right)[98304] = akg_room_right.tile();
      akg_pack<256, 384, 16>(w + k * 768L + n * 384L, 768, 256, 384, right);
      akg_dot<256, 384, 256, 256, 0, 256, 1, 4, 4, 2, 16, 32, akg_add, float>(left, right, acc);
    }
    // store y
    alignas(64) float line[256];
    for (int i_6 = 0; i_6 < 256; ++i_6) {
      for (int part = 0; part < 384; part += 256) {
        #pragma omp simd
        for (int i_7 = part; i_7 < akg_min<int64_t>(part + 256, 384); ++i_7) {
          line[i_7 - part] = float(acc[i_6 * 384 + i_7]);
        }
        akg_stream(y + m * 196608L + i_6 * 768L + n * 384L + part, line, akg_min<int64_t>(part + 256, 384) - part);
      }
    }
  }
  akg_stream_end();
}
