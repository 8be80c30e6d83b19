// log(sum(exp(x))) of each row in one pass: the sum is scaled anew when the maximum grows.
__global__ void logsumexp(const float *x, float *y, int columns) {
  const float *row = x + blockIdx.x * columns;
  float m = -INFINITY, s = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) {
    float v = row[i], larger = fmaxf(m, v);
    s = s * expf(m - larger) + expf(v - larger);
    m = larger;
  }
  for (int step = 16; step > 0; step /= 2) {
    float om = __shfl_down_sync(~0u, m, step), os = __shfl_down_sync(~0u, s, step);
    float larger = fmaxf(m, om);
    s = s * expf(m - larger) + os * expf(om - larger);
    m = larger;
  }
  if (threadIdx.x == 0) y[blockIdx.x] = m + logf(s);
}
