// akg-launch: {"tensors":[
//   {"name":"x","dtype":"f32","shape":[1003],"role":"input","align":64},
//   {"name":"y","dtype":"f32","shape":[1003],"role":"output","align":64}],
//   "launches":[{"kernel":"scaled_relu","grid":[8],"tensors":[0,1]}]}
#include <cstdint>

// y = max(2x - 0.5, 0) in blocks of eight, then what is left.
extern "C" void scaled_relu(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  float *y = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t begin = program * 128;
    const int64_t end = begin + 128 < 1003 ? begin + 128 : 1003;
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      for (int64_t j = 0; j < 8; ++j) {
        const float v = 2.0f * x[i + j] - 0.5f;
        y[i + j] = v > 0.0f ? v : 0.0f;
      }
    }
    for (; i < end; ++i) {
      const float v = 2.0f * x[i] - 0.5f;
      y[i] = v > 0.0f ? v : 0.0f;
    }
  }
}
