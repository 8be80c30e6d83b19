// The index of the first largest element of each row.
__global__ void argmax(const float *x, long long *index, int columns) {
  __shared__ float values[64];
  __shared__ int places[64];
  const float *row = x + blockIdx.x * columns;
  float best = -INFINITY;
  int at = 0;
  for (int i = threadIdx.x; i < columns; i += 64)
    if (row[i] > best) {
      best = row[i];
      at = i;
    }
  values[threadIdx.x] = best;
  places[threadIdx.x] = at;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < 64; ++i)
      if (values[i] > best || (values[i] == best && places[i] < at)) {
        best = values[i];
        at = places[i];
      }
    index[blockIdx.x] = at;
  }
}
