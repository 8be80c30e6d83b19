// Maximum pooling: windows of 3 x 3, a stride of 2, a border of 1 that never wins.
__global__ void max_pool2d(const float *x, float *y, int planes, int h, int w, int ho, int wo) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= planes * ho * wo) return;
  int ow = index % wo, oh = index / wo % ho, plane = index / (wo * ho);
  float best = -FLT_MAX;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      int r = oh * 2 - 1 + i, c = ow * 2 - 1 + j;
      if (r >= 0 && r < h && c >= 0 && c < w) best = fmaxf(best, x[(plane * h + r) * w + c]);
    }
  y[index] = best;
}
