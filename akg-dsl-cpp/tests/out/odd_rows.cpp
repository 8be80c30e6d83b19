// Lowered from this sketch:
//
//   # Rows and tiles that are no whole vectors, of functions that are dear: the last vector repeats some elements, which count once.
//   sketch odd_rows(x: f32[40, 39]) -> (y: f32[40, 39], z: f32[40, 39])
//
//   kernel main over (r in 40) {
//     v = load x[r, 0 :+ 39]
//     t = sigmoid(v) * v
//     sum = reduce_sum(f64(t), 0)
//     store y[r, 0 :+ 39] = t - f32(sum / 39.0)
//   }
//
//   kernel tiles over (r in 40, c in ceildiv(39, 16)) {
//     store z[r, c*16 :+ 16] = exp(load x[r, c*16 :+ 16] else 0.0)
//   }
#include <cstdint>

// The smaller, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_min(T a, T b) {
  const T least = b < a ? b : a;
  return b == b ? least : b;
}
// The end of the indices i in 0..len until which start + step * i is inside of 0..extent.
static inline int akg_clip_hi(int64_t start, int64_t step, int64_t extent, int64_t len) {
  const int64_t inside = step > 0 ? extent - start : start + 1, distance = step > 0 ? step : -step;
  return inside <= 0 ? 0 : int(akg_min((inside + distance - 1) / distance, len));
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

extern "C" void odd_rows_main(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  float *__restrict y = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t r = program;
    // store y
    // sum = reduce_sum(…, 0)
    double sum;
    alignas(64) float t[39];
    double acc = 0.0;
    #pragma omp simd reduction(+ : acc)
    for (int i_1 = 0; i_1 < 32; ++i_1) {
      const float v = x[r * 39L + i_1];
      const float t_1 = akg_sigmoid(v) * v;
      const double v_1 = double(t_1);
      t[i_1] = t_1;
      acc = acc + v_1;
    }
    #pragma omp simd reduction(+ : acc)
    for (int i_1 = 31; i_1 < 39; ++i_1) {
      const float v = x[r * 39L + i_1];
      const float t_1 = akg_sigmoid(v) * v;
      const double v_1 = double(t_1);
      t[i_1] = t_1;
      acc = acc + ((int32_t(i_1) >= int32_t(32)) ? v_1 : 0.0);
    }
    sum = acc;
    const float v_2 = float(sum / 39.0);
    #pragma omp simd
    for (int i = 0; i < 39; ++i) {
      y[r * 39L + i] = t[i] - v_2;
    }
  }
}

extern "C" void odd_rows_tiles(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  float *__restrict z = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t r = (program / 3);
    const int64_t c = (program % 3);
    // store z
    const int i_hi = akg_clip_hi(c * 16, 1, 39, 16);
    if (i_hi >= 8) {
      #pragma omp simd
      for (int i = 0; i < (i_hi / 8) * 8; ++i) {
        z[r * 39L + c * 16L + i] = akg_exp(x[r * 39L + c * 16L + i]);
      }
      if ((i_hi / 8) * 8 < i_hi) {
        #pragma omp simd
        for (int i = i_hi - 8; i < i_hi; ++i) {
          z[r * 39L + c * 16L + i] = akg_exp(x[r * 39L + c * 16L + i]);
        }
      }
    } else {
      #pragma omp simd
      for (int i = 0; i < i_hi; ++i) {
        z[r * 39L + c * 16L + i] = akg_exp(x[r * 39L + c * 16L + i]);
      }
    }
  }
}
