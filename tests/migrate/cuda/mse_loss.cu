// The mean of squared differences: a partial sum for each block, then one block adds them.
__global__ void mse_partial(const float *a, const float *b, float *partial, int n) {
  __shared__ float shared[128];
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float d = a[i] - b[i];
    sum += d * d;
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int step = blockDim.x / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = shared[0];
}

__global__ void mse_final(const float *partial, float *loss, int parts, int n) {
  if (threadIdx.x != 0) return;
  float sum = 0.0f;
  for (int i = 0; i < parts; ++i) sum += partial[i];
  *loss = sum / n;
}
