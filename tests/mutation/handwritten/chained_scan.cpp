// akg-launch: {"tensors":[
//   {"name":"x","dtype":"i64","shape":[3001],"role":"input","align":64},
//   {"name":"y","dtype":"i64","shape":[3001],"role":"output","align":64},
//   {"name":"before","dtype":"i64","shape":[5],"role":"scratch","align":64},
//   {"name":"ready","dtype":"i32","shape":[5],"role":"scratch","align":64}],
//   "launches":[{"kernel":"scan","grid":[4],"tensors":[0,1,2,3],"cooperative":true}]}
#include <cstdint>

struct akg_team { void (*barrier)(void *context); void *context; };

// Prefix sums: each program waits for the sum of all before it and hands on its own.
extern "C" void scan(void *const *tensors, const int64_t *dims, int64_t program, const akg_team *team) {
  const int64_t *x = static_cast<const int64_t *>(tensors[0]);
  int64_t *y = static_cast<int64_t *>(tensors[1]);
  int64_t *before = static_cast<int64_t *>(tensors[2]);
  int32_t *ready = static_cast<int32_t *>(tensors[3]);
  if (program == 0) {
    before[0] = 0;
    ready[0] = 1;
  }
  ready[program + 1] = 0;
  team->barrier(team->context);
  const int64_t begin = program * 751;
  const int64_t end = begin + 751 < 3001 ? begin + 751 : 3001;
  int64_t sum = 0;
  for (int64_t i = begin; i < end; ++i) sum += x[i];
  while (__atomic_load_n(&ready[program], __ATOMIC_ACQUIRE) != 1) {}
  int64_t running = before[program];
  before[program + 1] = running + sum;
  __atomic_store_n(&ready[program + 1], 1, __ATOMIC_RELEASE);
  for (int64_t i = begin; i < end; ++i) {
    running += x[i];
    y[i] = running;
  }
}
