// Rotary positions: the halves of each head are turned against each other.
__global__ void rope(const float *x, const float *cosine, const float *sine, float *y, int tokens) {
  int token = blockIdx.x * blockDim.y + threadIdx.y, i = threadIdx.x;
  if (token >= tokens) return;
  float c = cosine[token * 16 + i], s = sine[token * 16 + i];
  float a = x[token * 32 + i], b = x[token * 32 + 16 + i];
  y[token * 32 + i] = a * c - b * s;
  y[token * 32 + 16 + i] = b * c + a * s;
}
