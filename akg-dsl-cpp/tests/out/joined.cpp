// Lowered from this sketch:
//
//   # Three tensors side by side: which of them a program reads is decided once, before its loops.
//   sketch joined(a: f32[5, 300], b: f32[7, 300], c: f32[1, 300]) -> (y: f32[13, 300], mean: f32[13])
//
//   kernel main over (r in 13) {
//     is_a = r < 5
//     is_b = r < 12
//     acc = full f64[] 0.0
//     for i in 0..300 step 128 {
//       from_a = load a[r, i :+ 128] else 0.0
//       from_b = load b[r - 5, i :+ 128] else 0.0
//       from_c = load c[r - 12, i :+ 128] else 0.0
//       v = select(is_a, from_a, select(is_b, from_b, from_c))
//       acc = acc + reduce_sum(f64(v), 0)
//       store y[r, i :+ 128] = v*2.0
//     }
//     store mean[r] = f32(acc / 300.0)
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

extern "C" void joined_main(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict a = static_cast<const float *>(tensors[0]);
  const float *__restrict b = static_cast<const float *>(tensors[1]);
  const float *__restrict c = static_cast<const float *>(tensors[2]);
  float *__restrict y = static_cast<float *>(tensors[3]);
  float *__restrict mean = static_cast<float *>(tensors[4]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t r = program;
    double acc = 0.0;
    for (int64_t i = 0; i < 300; i += 128) {
      // store y
      // reduce_sum(…, 0)
      double tile;
      alignas(64) float v[128];
      if (r < 5) {
        const int i_2_hi = akg_clip_hi(i, 1, 300, 128);
        if (i_2_hi == 128) {
          double acc_1 = 0.0;
          #pragma omp simd reduction(+ : acc_1)
          for (int i_2 = 0; i_2 < 128; ++i_2) {
            const float from_a = a[r * 300L + i + i_2];
            const double v_1 = double(from_a);
            v[i_2] = from_a;
            acc_1 = acc_1 + v_1;
          }
          tile = acc_1;
        } else {
          double acc_1 = 0.0;
          #pragma omp simd reduction(+ : acc_1)
          for (int i_2 = 0; i_2 < 128; ++i_2) {
            const float from_a = i_2 < i_2_hi ? a[r * 300L + i + i_2] : 0.0f;
            const double v_1 = double(from_a);
            v[i_2] = from_a;
            acc_1 = acc_1 + v_1;
          }
          tile = acc_1;
        }
      } else {
        if (r < 12) {
          const int i_2_hi_1 = akg_clip_hi(i, 1, 300, 128);
          if (i_2_hi_1 == 128) {
            double acc_1 = 0.0;
            #pragma omp simd reduction(+ : acc_1)
            for (int i_2 = 0; i_2 < 128; ++i_2) {
              const float from_b = b[r * 300L + i + i_2 - 1500L];
              const double v_2 = double(from_b);
              v[i_2] = from_b;
              acc_1 = acc_1 + v_2;
            }
            tile = acc_1;
          } else {
            double acc_1 = 0.0;
            #pragma omp simd reduction(+ : acc_1)
            for (int i_2 = 0; i_2 < 128; ++i_2) {
              const float from_b = i_2 < i_2_hi_1 ? b[r * 300L + i + i_2 - 1500L] : 0.0f;
              const double v_2 = double(from_b);
              v[i_2] = from_b;
              acc_1 = acc_1 + v_2;
            }
            tile = acc_1;
          }
        } else {
          const int i_2_hi_2 = akg_clip_hi(i, 1, 300, 128);
          if (i_2_hi_2 == 128) {
            double acc_1 = 0.0;
            #pragma omp simd reduction(+ : acc_1)
            for (int i_2 = 0; i_2 < 128; ++i_2) {
              const float from_c = c[r * 300L + i + i_2 - 3600L];
              const double v_3 = double(from_c);
              v[i_2] = from_c;
              acc_1 = acc_1 + v_3;
            }
            tile = acc_1;
          } else {
            double acc_1 = 0.0;
            #pragma omp simd reduction(+ : acc_1)
            for (int i_2 = 0; i_2 < 128; ++i_2) {
              const float from_c = i_2 < i_2_hi_2 ? c[r * 300L + i + i_2 - 3600L] : 0.0f;
              const double v_3 = double(from_c);
              v[i_2] = from_c;
              acc_1 = acc_1 + v_3;
            }
            tile = acc_1;
          }
        }
      }
      const int i_1_hi = akg_clip_hi(i, 1, 300, 128);
      #pragma omp simd
      for (int i_1 = 0; i_1 < i_1_hi; ++i_1) {
        y[r * 300L + i + i_1] = v[i_1] * 2.0f;
      }
      acc = acc + tile;
    }
    // store mean
    mean[r] = float(acc / 300.0);
  }
}
