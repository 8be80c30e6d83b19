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

template <class T> static inline T akg_min(T a, T b) { return a < b || a != a ? a : b; }
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
// e^x for |x| < 700, relative error below 1e-9 (degree 8 after reduction to |r| < 0.35).
static inline double akg_exp_core(double x) {
  const double shifted = x * 1.4426950408889634 + 0x1.8p52, n = shifted - 0x1.8p52;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double p = 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  return akg_bits<double>(akg_bits<uint64_t>(p) + (akg_bits<uint64_t>(shifted) << 52));
}
// f32 functions of this section compute in double without branches: at most 0.51 units in the last place.
static inline float akg_exp(float x) {
  const float c = x < -150.f ? -150.f : x > 150.f ? 150.f : x;
  const float y = float(akg_exp_core(double(c)));
  return x != x ? x : y;
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
    const int i_4_hi = akg_clip_hi(r * 2L, 1, R, 2);
    for (int i_4 = 0; i_4 < 2; ++i_4) {
      float acc_1 = (-__builtin_inff());
      int32_t nan = 0;
      #pragma omp simd reduction(max : acc_1) reduction(| : nan)
      for (int i_5 = 0; i_5 < 1024; ++i_5) {
        const float t = i_4 < i_4_hi && i_5 < 1000 ? x[i_4 * 1000 + i_5 + r * 2000L] : (-__builtin_inff());
        acc_1 = (t > acc_1) ? t : acc_1;
        nan = nan | int32_t(t != t);
      }
      tile_1[i_4] = (nan != 0) ? __builtin_nanf("") : acc_1;
    }
    const int i_2_hi = akg_clip_hi(r * 2L, 1, R, 2);
    for (int i_2 = 0; i_2 < 2; ++i_2) {
      const float v = tile_1[i_2];
      double acc = 0.0;
      #pragma omp simd reduction(+ : acc)
      for (int i_3 = 0; i_3 < 1024; ++i_3) {
        const float e_1 = akg_exp((i_2 < i_2_hi && i_3 < 1000 ? x[i_2 * 1000 + i_3 + r * 2000L] : (-__builtin_inff())) - v);
        const double v_1 = double(e_1);
        e[i_2 * 1024 + i_3] = e_1;
        acc = acc + v_1;
      }
      tile[i_2] = float(acc);
    }
    const int i_hi = akg_clip_hi(r * 2L, 1, R, 2);
    for (int i = 0; i < i_hi; ++i) {
      const float v_2 = tile[i];
      #pragma omp simd
      for (int i_1 = 0; i_1 < 1000; ++i_1) {
        y[i * 1000 + i_1 + r * 2000L] = e[i * 1024 + i_1] / v_2;
      }
    }
  }
}
