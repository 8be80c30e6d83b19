// Lowered from this sketch:
//
//   # Rows that are read twice, with a sum of single precision.
//   sketch twice(x: f32[64, 512]) -> y: f32[64]
//
//   kernel main over (r in 64) {
//     t = load x[r, 0 :+ 512]
//     top = reduce_max(t, 0)
//     store y[r] = top + log(reduce_sum(exp(t - top), 0))
//   }
#include <cstdint>

template <class To, class From> static inline To akg_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
// Asks for the lines of n elements; addresses outside of the tensor do no harm.
template <class T> static inline void akg_prefetch(const T *from, int64_t n) {
#if defined(__GNUC__)
  const char *const first = reinterpret_cast<const char *>(from);
  for (int64_t i = 0; i < n * int64_t(sizeof(T)); i += 64) __builtin_prefetch(first + i);
#endif
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
// log(1 + r) - r for -1/3 <= r <= 1/3: degree 10, relative error below 5e-9 before rounding.
static inline float akg_log_tail(float r) {
  float p = -0x1.080636p-3f;
  p = akg_fma(p, r, 0x1.1e6774p-3f);
  p = akg_fma(p, r, -0x1.f310f8p-4f);
  p = akg_fma(p, r, 0x1.1ed6f4p-3f);
  p = akg_fma(p, r, -0x1.559dcep-3f);
  p = akg_fma(p, r, 0x1.99d02ap-3f);
  p = akg_fma(p, r, -0x1.fffef0p-3f);
  p = akg_fma(p, r, 0x1.555506p-2f);
  return r * r * akg_fma(p, r, -0.5f);
}
// x = (1 + rest) * 2^power with rest in -1/3..1/3, for positive finite x.
struct akg_log_parts { float power, rest; };
static inline akg_log_parts akg_log_split(float x) {
  const bool tiny = x < 0x1p-126f;
  const int32_t bits = akg_bits<int32_t>(tiny ? x * 0x1p24f : x) - 0x3f2aaaab;
  const float power = float(bits >> 23) - (tiny ? 24.f : 0.f);
  return {power, akg_bits<float>((bits & 0x7fffff) + 0x3f2aaaab) - 1};
}
// y, or what the logarithm is at the ends of its domain and beyond: x is zero, negative, infinite or no number.
static inline float akg_log_ends(float x, float y) {
  return x > 0 ? (x == __builtin_inff() ? x : y) : x == 0 ? -__builtin_inff() : __builtin_nanf("");
}
// At most 1.0 units in the last place.
static inline float akg_log(float x) {
  const akg_log_parts s = akg_log_split(x);
  const float high = s.power * 0x1.62e4p-1f, sum = high + s.rest, lost = s.rest - (sum - high);
  return akg_log_ends(x, sum + akg_fma(s.power, 0x1.7f7d1cp-20f, lost + akg_log_tail(s.rest)));
}
static inline double akg_log(double x) { return __builtin_log(x); }

extern "C" void twice_main(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  float *__restrict y = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t r = program;
    // store y
    // top = reduce_max(t, 0)
    float top;
    float acc = (-__builtin_inff());
    int32_t nan = 0;
    #pragma omp simd reduction(max : acc) reduction(| : nan)
    for (int i = 0; i < 512; ++i) {
      const float t = x[r * 512L + i];
      acc = (t > acc) ? t : acc;
      nan = nan | int32_t(t != t);
    }
    top = (nan != 0) ? __builtin_nanf("") : acc;
    // reduce_sum(…, 0)
    float tile;
    double acc_1 = 0.0;
    alignas(64) float line[256];
    alignas(64) double lanes[16];
    #pragma omp simd
    for (int i_2 = 0; i_2 < 16; ++i_2) {
      lanes[i_2] = 0.0;
    }
    for (int part = 0; part < 512; part += 256) {
      #pragma omp simd
      for (int i_1 = part; i_1 < part + 256; ++i_1) {
        line[i_1 - part] = akg_exp(x[r * 512L + i_1] - top);
      }
      akg_prefetch(x + r * 512L + part + 512L, 256);
      for (int block = 0; block < 256; block += 64) {
        #pragma omp simd
        for (int lane = 0; lane < 16; ++lane) {
          lanes[lane] = lanes[lane] + double((line[block + lane] + line[block + lane + 16]) + (line[block + lane + 32] + line[block + lane + 48]));
        }
      }
    }
    #pragma omp simd reduction(+ : acc_1)
    for (int lane_1 = 0; lane_1 < 16; ++lane_1) {
      acc_1 = acc_1 + lanes[lane_1];
    }
    tile = float(acc_1);
    y[r] = top + akg_log(tile);
  }
}
