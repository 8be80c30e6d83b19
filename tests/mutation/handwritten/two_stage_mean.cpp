// akg-launch: {"tensors":[
//   {"name":"x","dtype":"f32","shape":[9,1003],"role":"input","align":64},
//   {"name":"y","dtype":"f32","shape":[9,1003],"role":"output","align":64},
//   {"name":"part","dtype":"f64","shape":[9,4],"role":"scratch","align":64}],
//   "launches":[{"kernel":"parts","grid":[9,4],"tensors":[0,2]},{"kernel":"centre","grid":[9],"tensors":[0,1,2]}]}
#include <cstdint>

// x - mean(x) along rows: sums of quarters, then the differences.
extern "C" void parts(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  double *part = static_cast<double *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t row = program / 4, quarter = program % 4;
    const int64_t begin = quarter * 251;
    const int64_t end = begin + 251 < 1003 ? begin + 251 : 1003;
    double sum = 0.0;
    for (int64_t i = begin; i < end; ++i) sum += double(x[row * 1003 + i]);
    part[row * 4 + quarter] = sum;
  }
}

extern "C" void centre(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  float *y = static_cast<float *>(tensors[1]);
  const double *part = static_cast<const double *>(tensors[2]);
  for (int64_t row = first; row < last; ++row) {
    double sum = 0.0;
    for (int64_t p = 0; p < 4; ++p) sum += part[row * 4 + p];
    const double mean = sum / 1003.0;
    for (int64_t i = 0; i < 1003; ++i) y[row * 1003 + i] = float(double(x[row * 1003 + i]) - mean);
  }
}
