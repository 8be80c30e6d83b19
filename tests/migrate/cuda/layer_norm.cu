// Layer normalisation: a warp for each row, four rows a block, sums by shuffles.
__device__ float warp_sum(float v) {
  for (int step = 16; step > 0; step >>= 1) v += __shfl_xor_sync(0xffffffffu, v, step);
  return v;
}

__global__ void layer_norm(const float *x, const float *gamma, const float *beta, float *y, int rows, int columns, float eps) {
  int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float *in = x + row * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) sum += in[i];
  float mean = warp_sum(sum) / columns;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 32) {
    float d = in[i] - mean;
    squares += d * d;
  }
  float inv = rsqrtf(warp_sum(squares) / columns + eps);
  for (int i = threadIdx.x; i < columns; i += 32) y[row * columns + i] = (in[i] - mean) * inv * gamma[i] + beta[i];
}
