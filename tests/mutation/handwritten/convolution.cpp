// akg-launch: {"tensors":[
//   {"name":"x","dtype":"f32","shape":[3,4,57],"role":"input","align":64},
//   {"name":"w","dtype":"f32","shape":[6,4,5],"role":"input","align":64},
//   {"name":"b","dtype":"f32","shape":[6],"role":"input","align":64},
//   {"name":"y","dtype":"f32","shape":[3,6,29],"role":"output","align":64}],
//   "launches":[{"kernel":"convolve","grid":[3,6],"tensors":[0,1,2,3]}]}
#include <cstdint>

// One-dimensional, stride 2, two zeros on both sides.
extern "C" void convolve(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  const float *w = static_cast<const float *>(tensors[1]);
  const float *b = static_cast<const float *>(tensors[2]);
  float *y = static_cast<float *>(tensors[3]);
  for (int64_t program = first; program < last; ++program) {
    const int64_t image = program / 6, channel = program % 6;
    for (int64_t o = 0; o < 29; ++o) {
      double sum = double(b[channel]);
      for (int64_t c = 0; c < 4; ++c) {
        const float *line = x + (image * 4 + c) * 57;
        const float *taps = w + (channel * 4 + c) * 5;
        for (int64_t t = 0; t < 5; ++t) {
          const int64_t place = o * 2 + t - 2;
          if (place >= 0 && place < 57) sum += double(line[place]) * double(taps[t]);
        }
      }
      y[(image * 6 + channel) * 29 + o] = float(sum);
    }
  }
}
