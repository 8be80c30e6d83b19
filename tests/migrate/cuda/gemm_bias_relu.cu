// relu(a b + bias) by tiles of 16 x 16 in shared memory; no extent is a multiple of a tile.
#define TILE 16

__global__ void gemm_bias_relu(const float *a, const float *b, const float *bias, float *c, int m, int n, int k) {
  __shared__ float as[TILE][TILE];
  __shared__ float bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y;
  int col = blockIdx.x * TILE + threadIdx.x;
  float acc = 0.0f;
  for (int start = 0; start < k; start += TILE) {
    int ka = start + threadIdx.x, kb = start + threadIdx.y;
    as[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
    bs[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) acc += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = fmaxf(acc + bias[col], 0.0f);
}
