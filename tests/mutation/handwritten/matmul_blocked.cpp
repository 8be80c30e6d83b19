// akg-launch: {"tensors":[
//   {"name":"a","dtype":"f32","shape":[37,53],"role":"input","align":64},
//   {"name":"b","dtype":"f32","shape":[53,29],"role":"input","align":64},
//   {"name":"y","dtype":"f32","shape":[37,29],"role":"output","align":64}],
//   "launches":[{"kernel":"matmul","grid":[5,4],"tensors":[0,1,2]}]}
#include <cstdint>

// Tiles of 8 by 8; the operands of 16 products at a time are packed with zeros outside.
extern "C" void matmul(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *a = static_cast<const float *>(tensors[0]);
  const float *b = static_cast<const float *>(tensors[1]);
  float *y = static_cast<float *>(tensors[2]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t row = program / 4 * 8, column = program % 4 * 8;
    double sum[8][8] = {};
    for (int64_t k = 0; k < 53; k += 16) {
      float left[8][16], right[16][8];
      for (int64_t i = 0; i < 8; ++i)
        for (int64_t p = 0; p < 16; ++p)
          left[i][p] = row + i < 37 && k + p < 53 ? a[(row + i) * 53 + k + p] : 0.0f;
      for (int64_t p = 0; p < 16; ++p)
        for (int64_t j = 0; j < 8; ++j)
          right[p][j] = k + p < 53 && column + j < 29 ? b[(k + p) * 29 + column + j] : 0.0f;
      for (int64_t i = 0; i < 8; ++i)
        for (int64_t p = 0; p < 16; ++p)
          for (int64_t j = 0; j < 8; ++j) sum[i][j] += double(left[i][p]) * double(right[p][j]);
    }
    for (int64_t i = 0; i < 8 && row + i < 37; ++i)
      for (int64_t j = 0; j < 8 && column + j < 29; ++j) y[(row + i) * 29 + column + j] = float(sum[i][j]);
  }
}
