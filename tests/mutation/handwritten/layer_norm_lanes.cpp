// akg-launch: {"tensors":[
//   {"name":"x","dtype":"f32","shape":[11,203],"role":"input","align":64},
//   {"name":"w","dtype":"f32","shape":[203],"role":"input","align":64},
//   {"name":"b","dtype":"f32","shape":[203],"role":"input","align":64},
//   {"name":"y","dtype":"f32","shape":[11,203],"role":"output","align":64}],
//   "launches":[{"kernel":"layer_norm","grid":[6],"tensors":[0,1,2,3]}]}
#include <cmath>
#include <cstdint>

// Two rows for each program; sums in four lanes and a tail.
extern "C" void layer_norm(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  const float *w = static_cast<const float *>(tensors[1]);
  const float *b = static_cast<const float *>(tensors[2]);
  float *y = static_cast<float *>(tensors[3]);
  for (int64_t program = first; program < last; ++program) {
    for (int64_t row = program * 2; row < program * 2 + 2 && row < 11; ++row) {
      const float *in = x + row * 203;
      float *out = y + row * 203;
      double sum[4] = {0.0, 0.0, 0.0, 0.0};
      int64_t i = 0;
      for (; i + 4 <= 203; i += 4)
        for (int64_t j = 0; j < 4; ++j) sum[j] += double(in[i + j]);
      for (; i < 203; ++i) sum[0] += double(in[i]);
      const double mean = (sum[0] + sum[1] + sum[2] + sum[3]) / 203.0;
      double squares = 0.0;
      for (i = 0; i < 203; ++i) {
        const double d = double(in[i]) - mean;
        squares += d * d;
      }
      const double scale = 1.0 / std::sqrt(squares / 203.0 + 1e-5);
      for (i = 0; i < 203; ++i) out[i] = float((double(in[i]) - mean) * scale * double(w[i]) + double(b[i]));
    }
  }
}
