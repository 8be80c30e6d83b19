// A batch of products with the second factor transposed; a thread for each result.
__global__ void bmm_nt(const float *a, const float *b, float *c, int m, int n, int k) {
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int batch = blockIdx.z;
  if (row >= m || col >= n) return;
  float acc = 0.0f;
  for (int i = 0; i < k; ++i) acc += a[(batch * m + row) * k + i] * b[(batch * n + col) * k + i];
  c[(batch * m + row) * n + col] = acc;
}
