// Lowered from this sketch:
//
//   # Programs that meet: neighbours see each other's sums.
//   sketch meeting(x: f32[4, 100]) -> y: f32[4]
//   buffer s: f32[4]
//
//   kernel main over (p in 4) cooperative {
//     store s[p] = reduce_sum(load x[p, 0 :+ 100], 0)
//     barrier
//     store y[p] = (load s[(p + 1) % 4]) + (load s[(p + 3) % 4])
//   }
#include <cstdint>

// The programs of a cooperative kernel; barrier returns when all of them have called it.
struct akg_team {
  void (*barrier)(void *context);
  void *context;
};

extern "C" void meeting_main(void *const *tensors, const int64_t *dims, int64_t program, const akg_team *team) {
  const float *__restrict x = static_cast<const float *>(tensors[0]);
  float *y = static_cast<float *>(tensors[1]);
  float *s = static_cast<float *>(tensors[2]);
  const int64_t p = program;
  // store s
  // reduce_sum(…, 0)
  float tile;
  double acc = 0.0;
  #pragma omp simd reduction(+ : acc)
  for (int i = 0; i < 100; ++i) {
    const double v = double(x[p * 100L + i]);
    acc = acc + v;
  }
  tile = float(acc);
  s[p] = tile;
  team->barrier(team->context);
  // store y
  y[p] = s[((p + 1) % 4)] + s[((p + 3) % 4)];
}
