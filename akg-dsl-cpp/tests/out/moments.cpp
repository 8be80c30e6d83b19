// Lowered from this sketch:
//
//   # Half precision in; two reductions in one pass; a maximum pool with a halo.
//   sketch moments(x: f16[64, 64]) -> (mean: f32[64], square: f32[64], pooled: f16[32, 32])
//
//   kernel sums over (i in 16) {
//     t = f32(load x[i*4 :+ 4, 0 :+ 64])
//     s = reduce_sum(t, 1)
//     q = reduce_sum(t*t, 1)
//     store mean[i*4 :+ 4] = s / 64
//     store square[i*4 :+ 4] = q / 64
//   }
//
//   kernel pool over (i in 32) {
//     acc = full f16[32] -inf
//     for a in 0..3, b in 0..3 {
//       acc = max(acc, load x[2*i + a - 1, b - 1 :+ 32 by 2] else -inf)
//     }
//     store pooled[i, 0 :+ 32] = acc
//   }
#include <cstdint>

// The larger, or NaN; the check of b does not wait for a.
template <class T> static inline T akg_max(T a, T b) {
  const T most = b > a ? b : a;
  return b == b ? most : b;
}
template <class To, class From> static inline To akg_bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
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
static inline float akg_round_f16(float value) { return float(akg_f16(value)); }
static inline float akg_round_f16(double value) { return float(akg_f16(value)); }

extern "C" void moments_sums(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const akg_f16 *__restrict x = static_cast<const akg_f16 *>(tensors[0]);
  float *__restrict mean = static_cast<float *>(tensors[1]);
  float *__restrict square = static_cast<float *>(tensors[2]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t i = program;
    // store mean
    // s = reduce_sum(t, 1); q = reduce_sum(…, 1)
    alignas(64) float s[4];
    alignas(64) float q[4];
    for (int i_2 = 0; i_2 < 4; ++i_2) {
      double acc = 0.0;
      alignas(64) float line[64];
      alignas(64) double lanes[16];
      #pragma omp simd
      for (int i_4 = 0; i_4 < 16; ++i_4) {
        lanes[i_4] = 0.0;
      }
      double acc_1 = 0.0;
      alignas(64) float line_1[64];
      alignas(64) double lanes_1[16];
      #pragma omp simd
      for (int i_5 = 0; i_5 < 16; ++i_5) {
        lanes_1[i_5] = 0.0;
      }
      for (int part = 0; part < 64; part += 64) {
        #pragma omp simd
        for (int i_3 = part; i_3 < part + 64; ++i_3) {
          const float t = float(x[i * 256L + i_2 * 64L + i_3]);
          line[i_3 - part] = t;
          line_1[i_3 - part] = t * t;
        }
        for (int block = 0; block < 64; block += 64) {
          #pragma omp simd
          for (int lane = 0; lane < 16; ++lane) {
            lanes[lane] = lanes[lane] + double((line[block + lane] + line[block + lane + 16]) + (line[block + lane + 32] + line[block + lane + 48]));
          }
        }
        for (int block_1 = 0; block_1 < 64; block_1 += 64) {
          #pragma omp simd
          for (int lane_2 = 0; lane_2 < 16; ++lane_2) {
            lanes_1[lane_2] = lanes_1[lane_2] + double((line_1[block_1 + lane_2] + line_1[block_1 + lane_2 + 16]) + (line_1[block_1 + lane_2 + 32] + line_1[block_1 + lane_2 + 48]));
          }
        }
      }
      #pragma omp simd reduction(+ : acc)
      for (int lane_1 = 0; lane_1 < 16; ++lane_1) {
        acc = acc + lanes[lane_1];
      }
      s[i_2] = float(acc);
      #pragma omp simd reduction(+ : acc_1)
      for (int lane_3 = 0; lane_3 < 16; ++lane_3) {
        acc_1 = acc_1 + lanes_1[lane_3];
      }
      q[i_2] = float(acc_1);
    }
    #pragma omp simd
    for (int i_1 = 0; i_1 < 4; ++i_1) {
      mean[i * 4L + i_1] = s[i_1] / 64.0f;
    }
    // store square
    #pragma omp simd
    for (int i_6 = 0; i_6 < 4; ++i_6) {
      square[i * 4L + i_6] = q[i_6] / 64.0f;
    }
  }
}

extern "C" void moments_pool(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const akg_f16 *__restrict x = static_cast<const akg_f16 *>(tensors[0]);
  akg_f16 *__restrict pooled = static_cast<akg_f16 *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t i = program;
    // store pooled
    #pragma omp simd
    for (int i_1 = 0; i_1 < 32; ++i_1) {
      pooled[i * 32L + i_1] = akg_f16(akg_round_f16(akg_max(akg_round_f16(akg_max(akg_round_f16(akg_max(akg_round_f16(akg_max(akg_round_f16(akg_max(akg_round_f16(akg_max(akg_round_f16(akg_max(akg_round_f16(akg_max(akg_round_f16(akg_max((-__builtin_inff()), i * 2 - 1 >= 0 && i_1 >= 1 ? float(x[i * 128L + i_1 * 2L - 65L]) : (-__builtin_inff()))), i * 2 - 1 >= 0 ? float(x[i * 128L + i_1 * 2L - 64L]) : (-__builtin_inff()))), i * 2 - 1 >= 0 ? float(x[i * 128L + i_1 * 2L - 63L]) : (-__builtin_inff()))), i_1 >= 1 ? float(x[i * 128L + i_1 * 2L - 1L]) : (-__builtin_inff()))), float(x[i * 128L + i_1 * 2L]))), float(x[i * 128L + i_1 * 2L + 1L]))), i_1 >= 1 ? float(x[i * 128L + i_1 * 2L + 63L]) : (-__builtin_inff()))), float(x[i * 128L + i_1 * 2L + 64L]))), float(x[i * 128L + i_1 * 2L + 65L]))));
    }
  }
}
