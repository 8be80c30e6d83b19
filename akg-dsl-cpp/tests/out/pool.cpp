// Lowered from this sketch:
//
//   # The largest of what a window meets, beyond the edges of an image too: each element goes through all taps at once.
//   sketch pool(x: f32[6, 28, 28]) -> y: f32[6, 28, 28]
//
//   kernel largest over (c in 6) {
//     acc = full f32[28, 28] -inf
//     for r in 0..3, s in 0..3 {
//       acc = max(acc, load x[c, r - 1 :+ 28, s - 1 :+ 28] else -inf)
//     }
//     store y[c, 0 :+ 28, 0 :+ 28] = acc
//   }
#include <cstdint>

// The larger, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_max(T a, T b) {
  const T most = b > a ? b : a;
  return b == b ? most : b;
}

extern "C" void pool_largest(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  float *__restrict y = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t c = program;
    // store y
    for (int i = 0; i < 28; ++i) {
      #pragma omp simd
      for (int i_1 = 0; i_1 < 28; ++i_1) {
        y[c * 784L + i * 28L + i_1] = akg_max(akg_max(akg_max(akg_max(akg_max(akg_max(akg_max(akg_max(akg_max((-__builtin_inff()), i >= 1 && i_1 >= 1 ? x[c * 784L + i * 28L + i_1 - 29L] : (-__builtin_inff())), i_1 >= -i * 28 + 28 ? x[c * 784L + i * 28L + i_1 - 28L] : (-__builtin_inff())), i >= 1 && i_1 < 27 ? x[c * 784L + i * 28L + i_1 - 27L] : (-__builtin_inff())), i_1 >= 1 ? x[c * 784L + i * 28L + i_1 - 1L] : (-__builtin_inff())), x[c * 784L + i * 28L + i_1]), i_1 < 27 ? x[c * 784L + i * 28L + i_1 + 1L] : (-__builtin_inff())), i < 27 && i_1 >= 1 ? x[c * 784L + i * 28L + i_1 + 27L] : (-__builtin_inff())), i_1 < -i * 28 + 756 ? x[c * 784L + i * 28L + i_1 + 28L] : (-__builtin_inff())), i < 27 && i_1 < 27 ? x[c * 784L + i * 28L + i_1 + 29L] : (-__builtin_inff()));
      }
    }
  }
}
