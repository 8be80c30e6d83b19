// Lowered from this sketch:
//
//   # Rows of a symbolic matrix.
//   sketch softmax(x: f32[R, 1000]) -> y: f32[R, 1000]
//
//   kernel main over (r in ceildiv(R, 2)) {
//     t = load x[r*2 :+ 2, 0 :+ 1024] else -inf
//     e = exp(t - reduce_max(t, 1)[:, None])
//     store y[r*2 :+ 2, 0 :+ 1024] = e / reduce_sum(e, 1)[:, None]
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

extern "C" void softmax_main(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  float *__restrict y = static_cast<float *>(tensors[1]);
  const int64_t R = dims[0];
  for (int64_t program = first; program < last; ++program) {
    const int64_t r = program;
    // store y
    // reduce_sum(e, 1)
    alignas(64) float tile[2];
    alignas(64) float e[2048];
    // reduce_max(t, 1)
    alignas(64) float tile_1[2];
    const int i_5_hi = akg_clip_hi(r * 2L, 1, R, 2);
    for (int i_5 = 0; i_5 < 2; ++i_5) {
      float acc_1 = (-__builtin_inff());
      int32_t nan = 0;
      #pragma omp simd reduction(max : acc_1) reduction(| : nan)
      for (int i_6 = 0; i_6 < 1024; ++i_6) {
        const float t = i_5 < i_5_hi && i_6 < 1000 ? x[r * 2000L + i_5 * 1000L + i_6] : (-__builtin_inff());
        acc_1 = (t > acc_1) ? t : acc_1;
        nan = nan | int32_t(t != t);
      }
      tile_1[i_5] = (nan != 0) ? __builtin_nanf("") : acc_1;
    }
    const int i_2_hi = akg_clip_hi(r * 2L, 1, R, 2);
    for (int i_2 = 0; i_2 < 2; ++i_2) {
      const float v = tile_1[i_2];
      double acc = 0.0;
      alignas(64) float line[256];
      alignas(64) double lanes[16];
      #pragma omp simd
      for (int i_4 = 0; i_4 < 16; ++i_4) {
        lanes[i_4] = 0.0;
      }
      for (int part = 0; part < 1024; part += 256) {
        #pragma omp simd
        for (int i_3 = part; i_3 < part + 256; ++i_3) {
          const float e_1 = akg_exp((i_2 < i_2_hi && i_3 < 1000 ? x[r * 2000L + i_2 * 1000L + i_3] : (-__builtin_inff())) - v);
          e[i_2 * 1024 + i_3] = e_1;
          line[i_3 - part] = e_1;
        }
        for (int block = 0; block < 256; block += 64) {
          #pragma omp simd
          for (int lane = 0; lane < 16; ++lane) {
            lanes[lane] = lanes[lane] + double((line[block + lane] + line[block + lane + 16]) + (line[block + lane + 32] + line[block + lane + 48]));
          }
        }
      }
      #pragma omp simd reduction(+ : acc)
      for (int lane_1 = 0; lane_1 < 16; ++lane_1) {
        acc = acc + lanes[lane_1];
      }
      tile[i_2] = float(acc);
    }
    const int i_hi = akg_clip_hi(r * 2L, 1, R, 2);
    for (int i = 0; i < i_hi; ++i) {
      const float v_1 = tile[i];
      #pragma omp simd
      for (int i_1 = 0; i_1 < 1000; ++i_1) {
        y[r * 2000L + i * 1000L + i_1] = e[i * 1024 + i_1] / v_1;
      }
    }
  }
}
