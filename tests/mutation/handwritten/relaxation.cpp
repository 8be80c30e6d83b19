// akg-launch: {"tensors":[
//   {"name":"x","dtype":"f32","shape":[2050],"role":"input","align":64},
//   {"name":"y","dtype":"f32","shape":[2050],"role":"output","align":64},
//   {"name":"state","dtype":"f32","shape":[2,2050],"role":"scratch","align":64}],
//   "launches":[{"kernel":"relax","grid":[3],"tensors":[0,1,2],"cooperative":true}]}
#include <cstdint>

struct akg_team { void (*barrier)(void *context); void *context; };

// Three times the mean of both neighbours, with fixed ends; two states in turn.
extern "C" void relax(void *const *tensors, const int64_t *dims, int64_t program, const akg_team *team) {
  const float *x = static_cast<const float *>(tensors[0]);
  float *y = static_cast<float *>(tensors[1]);
  float *state = static_cast<float *>(tensors[2]);
  const int64_t begin = program * 684;
  const int64_t end = begin + 684 < 2050 ? begin + 684 : 2050;
  for (int64_t i = begin; i < end; ++i) state[i] = x[i];
  team->barrier(team->context);
  for (int64_t step = 0; step < 3; ++step) {
    const float *from = state + step % 2 * 2050;
    float *to = state + (step + 1) % 2 * 2050;
    for (int64_t i = begin; i < end; ++i)
      to[i] = i == 0 || i == 2049 ? from[i] : 0.5f * (from[i - 1] + from[i + 1]);
    team->barrier(team->context);
  }
  for (int64_t i = begin; i < end; ++i) y[i] = state[2050 + i];
}
