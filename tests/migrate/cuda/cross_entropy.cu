// -log(softmax(logits)[target]) of each row, a warp for each.
__global__ void cross_entropy(const float *logits, const long long *target, float *loss, int classes) {
  const float *row = logits + blockIdx.x * classes;
  float largest = -INFINITY;
  for (int i = threadIdx.x; i < classes; i += 32) largest = fmaxf(largest, row[i]);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  float sum = 0.0f;
  for (int i = threadIdx.x; i < classes; i += 32) sum += expf(row[i] - largest);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x == 0) loss[blockIdx.x] = largest + logf(sum) - row[target[blockIdx.x]];
}
