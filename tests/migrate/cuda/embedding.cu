// Rows of a table, by index; a thread for each element.
__global__ void embedding(const long long *ids, const float *table, float *out, int width) {
  int token = blockIdx.x;
  for (int i = threadIdx.x; i < width; i += blockDim.x) out[token * width + i] = table[ids[token] * width + i];
}
