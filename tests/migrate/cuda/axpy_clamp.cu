// out = clamp(a * x + y, -limit, limit), one thread for each element.
__global__ void axpy_clamp(const float *x, const float *y, float *out, float a, float limit, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = a * x[i] + y[i];
  out[i] = v < -limit ? -limit : (v > limit ? limit : v);
}
