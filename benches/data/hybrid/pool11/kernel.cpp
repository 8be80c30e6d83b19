// Lowered from this sketch:
//
//   sketch g_45_average_pooling_2d(x: f32[64, 2048, 2048]) -> avg_pool2d: f32[64, 186, 186]
//
//   # avg_pool2d: one row of windows of one channel
//   kernel k0 over (p0 in 64, p1 in 186) {
//     acc1 = zeros f32[2046]
//     for r4 in 0..11 {
//       x2 = load x[p0, 11*p1 + r4, 0 :+ 2046]
//       acc1 = acc1 + x2
//     }
//     s3 = reduce_sum(reshape(acc1, [186, 11]), 1)
//     t4 = s3 / 121.0
//     store avg_pool2d[p0, p1, 0 :+ 186] = t4
//   }
#include <cstdint>


// avg_pool2d: one row of windows of one channel
extern "C" void g_45_average_pooling_2d_k0(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  float *__restrict avg_pool2d = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t p0 = (program / 186);
    const int64_t p1 = (program % 186);
    // store avg_pool2d
    // s3 = reduce_sum(…, 1)
    alignas(64) float s3[186];
    for (int i_1 = 0; i_1 < 186; ++i_1) {
      double acc = 0.0;
      #pragma omp simd reduction(+ : acc)
      for (int i_2 = 0; i_2 < 8; ++i_2) {
        const double v = double(((((((((((0.0f + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 2048L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 4096L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 6144L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 8192L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 10240L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 12288L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 14336L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 16384L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 18432L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 20480L]);
        acc = acc + v;
      }
      #pragma omp simd reduction(+ : acc)
      for (int i_2 = 3; i_2 < 11; ++i_2) {
        const double v = double(((((((((((0.0f + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 2048L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 4096L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 6144L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 8192L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 10240L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 12288L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 14336L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 16384L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 18432L]) + x[p0 * 4194304L + p1 * 22528L + i_1 * 11L + i_2 + 20480L]);
        acc = acc + ((int32_t(i_2) >= int32_t(8)) ? v : 0.0);
      }
      s3[i_1] = float(acc);
    }
    #pragma omp simd
    for (int i = 0; i < 186; ++i) {
      avg_pool2d[p0 * 34596L + p1 * 186L + i] = s3[i] / 121.0f;
    }
  }
}
