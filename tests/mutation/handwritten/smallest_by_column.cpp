// akg-launch: {"tensors":[
//   {"name":"x","dtype":"i32","shape":[43,19],"role":"input","align":64},
//   {"name":"y","dtype":"i64","shape":[19],"role":"output","align":64}],
//   "launches":[{"kernel":"smallest","grid":[5],"tensors":[0,1]}]}
#include <cstdint>

// The row of the smallest element of each column, the first among equals.
extern "C" void smallest(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const int32_t *x = static_cast<const int32_t *>(tensors[0]);
  int64_t *y = static_cast<int64_t *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    for (int64_t j = program * 4; j < program * 4 + 4 && j < 19; ++j) {
      int32_t best = x[j];
      int64_t at = 0;
      for (int64_t i = 1; i < 43; ++i) {
        const int32_t v = x[i * 19 + j];
        if (v < best) {
          best = v;
          at = i;
        }
      }
      y[j] = at;
    }
  }
}
