// akg-launch: {"tensors":[
//   {"name":"x","dtype":"f32","shape":[50,37],"role":"input","align":64},
//   {"name":"y","dtype":"f32","shape":[37,50],"role":"output","align":64}],
//   "launches":[{"kernel":"transpose","grid":[4,3],"tensors":[0,1]}]}
#include <cstdint>

extern "C" void transpose(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  float *y = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t row = program / 3 * 16, column = program % 3 * 16;
    const int64_t rows = 50 - row < 16 ? 50 - row : 16, columns = 37 - column < 16 ? 37 - column : 16;
    float tile[16][16];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) tile[i][j] = x[(row + i) * 37 + column + j];
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) y[(column + j) * 50 + row + i] = tile[i][j];
  }
}
