// Prefix sums of rows of 128 by Hillis and Steele.
__global__ void cumsum(const float *x, float *y) {
  __shared__ float buffer[2][128];
  int from = 0, i = threadIdx.x;
  buffer[0][i] = x[blockIdx.x * 128 + i];
  __syncthreads();
  for (int step = 1; step < 128; step *= 2) {
    int to = 1 - from;
    buffer[to][i] = i >= step ? buffer[from][i] + buffer[from][i - step] : buffer[from][i];
    __syncthreads();
    from = to;
  }
  y[blockIdx.x * 128 + i] = buffer[from][i];
}
