// Causal attention of one head and one query by one block of 32 threads, the scores in shared memory.
__global__ void attention(const float *q, const float *k, const float *v, float *o, int s) {
  const int D = 16;
  __shared__ float scores[64];
  int head = blockIdx.y, row = blockIdx.x, tid = threadIdx.x;
  const float *query = q + (head * s + row) * D;
  float largest = -INFINITY;
  for (int j = tid; j <= row; j += 32) {
    float dot = 0.0f;
    for (int d = 0; d < D; ++d) dot += query[d] * k[(head * s + j) * D + d];
    scores[j] = dot * 0.25f;
    largest = fmaxf(largest, scores[j]);
  }
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
  float sum = 0.0f;
  for (int j = tid; j <= row; j += 32) {
    scores[j] = expf(scores[j] - largest);
    sum += scores[j];
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  __syncthreads();
  if (tid < D) {
    float acc = 0.0f;
    for (int j = 0; j <= row; ++j) acc += scores[j] * v[(head * s + j) * D + tid];
    o[(head * s + row) * D + tid] = acc / sum;
  }
}
