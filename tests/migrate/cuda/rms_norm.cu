// RMS normalisation of a row by one block.
__global__ void rms_norm(const float *x, const float *w, float *y, int columns, float eps) {
  __shared__ float partial[8];
  const float *in = x + blockIdx.x * columns;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += in[i] * in[i];
  for (int step = 16; step > 0; step >>= 1) squares += __shfl_down_sync(0xffffffffu, squares, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = squares;
  __syncthreads();
  float total = 0.0f;
  for (int i = 0; i < blockDim.x / 32; ++i) total += partial[i];
  float scale = rsqrtf(total / columns + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) y[blockIdx.x * columns + i] = in[i] * scale * w[i];
}
