// akg-launch: {"tensors":[
//   {"name":"x","dtype":"f32","shape":[4099],"role":"input","align":64},
//   {"name":"y","dtype":"f32","shape":[4099],"role":"output","align":64},
//   {"name":"top","dtype":"f32","shape":[4],"role":"scratch","align":64},
//   {"name":"part","dtype":"f64","shape":[4],"role":"scratch","align":64}],
//   "launches":[{"kernel":"softmax","grid":[4],"tensors":[0,1,2,3],"cooperative":true}]}
#include <cmath>
#include <cstdint>

struct akg_team { void (*barrier)(void *context); void *context; };

// One long row: four programs agree on the maximum, then on the sum.
extern "C" void softmax(void *const *tensors, const int64_t *dims, int64_t program, const akg_team *team) {
  const float *x = static_cast<const float *>(tensors[0]);
  float *y = static_cast<float *>(tensors[1]);
  float *top = static_cast<float *>(tensors[2]);
  double *part = static_cast<double *>(tensors[3]);
  const int64_t begin = program * 1025;
  const int64_t end = begin + 1025 < 4099 ? begin + 1025 : 4099;
  float mine = -INFINITY;
  for (int64_t i = begin; i < end; ++i) mine = x[i] > mine ? x[i] : mine;
  top[program] = mine;
  team->barrier(team->context);
  float all = top[0];
  for (int64_t p = 1; p < 4; ++p) all = top[p] > all ? top[p] : all;
  double sum = 0.0;
  for (int64_t i = begin; i < end; ++i) {
    y[i] = std::exp(x[i] - all);
    sum += double(y[i]);
  }
  part[program] = sum;
  team->barrier(team->context);
  double total = 0.0;
  for (int64_t p = 0; p < 4; ++p) total += part[p];
  for (int64_t i = begin; i < end; ++i) y[i] = float(double(y[i]) / total);
}
