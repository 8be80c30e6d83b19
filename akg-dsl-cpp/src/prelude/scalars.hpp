//# akg_min
// The smaller, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_min(T a, T b) {
  const T least = b < a ? b : a;
  return b == b ? least : b;
}
//# akg_max
// The larger, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_max(T a, T b) {
  const T most = b > a ? b : a;
  return b == b ? most : b;
}
//# akg_at_most
// The smaller; most is a number.
template <class T> static inline T akg_at_most(T a, T most) { return a > most ? most : a; }
//# akg_at_least
// The larger; least is a number.
template <class T> static inline T akg_at_least(T a, T least) { return a < least ? least : a; }
//# akg_floor_div
// Rounds down; 0 for a zero divisor.
template <class T> static inline T akg_floor_div(T a, T b) {
  if (b == 0) return 0;
  if (b == T(-1)) return T(0 - a);
  return T(a / b - (a % b != 0 && (a % b < 0) != (b < 0)));
}
//# akg_floor_mod akg_floor_div
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
//# akg_philox
// The first word of Philox4x32-10 (Salmon et al., SC 2011) for a key and a counter.
static inline int64_t akg_philox(int64_t key, int64_t counter) {
  uint32_t a = uint32_t(counter), b = uint32_t(uint64_t(counter) >> 32), c = 0, d = 0;
  uint32_t low = uint32_t(key), high = uint32_t(uint64_t(key) >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t(0xD2511F53u) * a, second = uint64_t(0xCD9E8D57u) * c;
    a = uint32_t(second >> 32) ^ b ^ low;
    b = uint32_t(second);
    c = uint32_t(first >> 32) ^ d ^ high;
    d = uint32_t(first);
    low += 0x9E3779B9u;
    high += 0xBB67AE85u;
  }
  return int64_t(a);
}
//# akg_clip_lo akg_min akg_max
// The first index i in 0..len from which on start + step * i is inside of 0..extent.
static inline int akg_clip_lo(int64_t start, int64_t step, int64_t extent, int64_t len) {
  const int64_t outside = step > 0 ? -start : start - extent + 1, distance = step > 0 ? step : -step;
  return outside <= 0 ? 0 : int(akg_min((outside + distance - 1) / distance, len));
}
//# akg_clip_hi akg_min
// The end of the indices i in 0..len until which start + step * i is inside of 0..extent.
static inline int akg_clip_hi(int64_t start, int64_t step, int64_t extent, int64_t len) {
  const int64_t inside = step > 0 ? extent - start : start + 1, distance = step > 0 ? step : -step;
  return inside <= 0 ? 0 : int(akg_min((inside + distance - 1) / distance, len));
}
//# akg_bits
template <class To, class From> static inline To akg_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
//# akg_f16 akg_bits
#if defined(__FLT16_MANT_DIG__)
typedef _Float16 akg_f16;
#else
// Half precision for compilers without it: rounds to nearest even.
struct akg_f16 {
  uint16_t bits;
  akg_f16() = default;
  explicit akg_f16(double value) {
    const uint64_t all = akg_bits<uint64_t>(value), sign = all >> 48 & 0x8000, magnitude = all & ~(uint64_t(1) << 63);
    if (magnitude > 0x7ff0000000000000) { bits = uint16_t(sign | 0x7e00); return; }
    const double size = akg_bits<double>(magnitude);
    if (size >= 65520.0) { bits = uint16_t(sign | 0x7c00); return; }
    int exponent = int(magnitude >> 52) - 1023;
    if (exponent < -14) exponent = -14;
    const double quantum = akg_bits<double>(uint64_t(exponent - 10 + 1023) << 52);
    const uint32_t units = uint32_t(__builtin_rint(size / quantum));
    bits = uint16_t(sign | (uint32_t(exponent + 14) * 1024 + units));
  }
  operator float() const {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float size = exponent == 31 ? (mantissa ? __builtin_nanf("") : __builtin_inff())
                     : exponent == 0 ? float(mantissa) * 0x1p-24f
                                     : akg_bits<float>(uint32_t((exponent + 112) << 23 | mantissa << 13));
    return bits & 0x8000 ? -size : size;
  }
};
#endif
//# akg_round_f16 akg_f16
static inline float akg_round_f16(float value) { return float(akg_f16(value)); }
static inline float akg_round_f16(double value) { return float(akg_f16(value)); }
//# akg_round_bf16 akg_bits
// To 8 significant bits, ties to even; NaN stays NaN.
static inline float akg_round_bf16(float value) {
  const uint32_t bits = akg_bits<uint32_t>(value);
  const float rounded = akg_bits<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
  return value != value ? value : rounded;
}
// Through an f32 rounded to odd, so that the second rounding sees what the first one lost.
static inline float akg_round_bf16(double value) {
  const float near = float(value);
  uint32_t bits = akg_bits<uint32_t>(near);
  const double size = value < 0 ? -value : value, near_size = near < 0 ? -double(near) : double(near);
  if (near_size > size) bits -= 1;
  if (near_size != size) bits |= 1;
  return value != value ? near : akg_round_bf16(akg_bits<float>(bits));
}
//# akg_bf16 akg_round_bf16
struct akg_bf16 {
  uint16_t bits;
  akg_bf16() = default;
  explicit akg_bf16(float value) : bits(uint16_t(akg_bits<uint32_t>(akg_round_bf16(value)) >> 16)) {}
  operator float() const { return akg_bits<float>(uint32_t(bits) << 16); }
};
//# akg_round_tf32 akg_bits
// To 11 significant bits, ties to even.
static inline float akg_round_tf32(float value) {
  const uint32_t bits = akg_bits<uint32_t>(value);
  const float rounded = akg_bits<float>((bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u);
  return (bits & 0x7f800000u) == 0x7f800000u ? value : rounded;
}
//# akg_to_int
// Truncates to 64 bits for int64_t and uint8_t, else to 32, and keeps the low bits, as PyTorch does on x86. NaN and what does
// not fit those bits become their least number.
template <class T, class F> static inline T akg_to_int(F value) {
  if (sizeof(T) == 8 || T(-1) > T(0)) {
    const F end = F(9223372036854775808.0);
    return value >= -end && value < end ? T(int64_t(value)) : T(INT64_MIN);
  }
  const F end = F(2147483648.0);
  return value >= -end && value < end ? T(int32_t(value)) : T(INT32_MIN);
}
//# akg_pow2_floor akg_bits
// The largest power of two not above the magnitude; 1 for zero, infinity and NaN.
static inline double akg_pow2_floor(double value) {
  const uint64_t bits = akg_bits<uint64_t>(value) & 0x7fffffffffffffffu, exponent = bits & 0x7ff0000000000000u;
  if (bits == 0 || exponent == 0x7ff0000000000000u) return 1;
  return akg_bits<double>(exponent ? exponent : uint64_t(1) << (63 - __builtin_clzll(bits)));
}
static inline float akg_pow2_floor(float value) { return float(akg_pow2_floor(double(value))); }
//# akg_ldexp akg_bits
// One rounding: the product is exact in double.
static inline float akg_ldexp(float value, int64_t exponent) {
  const int64_t e = exponent < -500 ? -500 : exponent > 500 ? 500 : exponent;
  return float(double(value) * akg_bits<double>(uint64_t(e + 1023) << 52));
}
static inline double akg_ldexp(double value, int64_t exponent) {
  return __builtin_scalbn(value, int(exponent < -5000 ? -5000 : exponent > 5000 ? 5000 : exponent));
}
//# akg_atomic_add
template <class T> static inline void akg_atomic_add(T *place, T value) {
  T seen, sum;
  __atomic_load(place, &seen, __ATOMIC_RELAXED);
  do sum = T(seen + value);
  while (!__atomic_compare_exchange(place, &seen, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
//# akg_atomic_add_half
// Half-precision sums are rounded from float.
template <class T> static inline void akg_atomic_add_half(T *place, float value) {
  T seen, sum;
  __atomic_load(place, &seen, __ATOMIC_RELAXED);
  do sum = T(float(seen) + value);
  while (!__atomic_compare_exchange(place, &seen, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
//# akg_store_line
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
//# akg_prefetch
// Asks for the lines of n elements; addresses outside of the tensor do no harm.
template <class T> static inline void akg_prefetch(const T *from, int64_t n) {
#if defined(__GNUC__)
  const char *const first = reinterpret_cast<const char *>(from);
  for (int64_t i = 0; i < n * int64_t(sizeof(T)); i += 64) __builtin_prefetch(first + i);
#endif
}
//# akg_stream akg_store_line
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
//# akg_room
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
