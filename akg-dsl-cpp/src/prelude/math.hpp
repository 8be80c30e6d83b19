//# akg_exp_core akg_bits
// e^x for |x| < 700, relative error below 1e-9 (degree 8 after reduction to |r| < 0.35).
static inline double akg_exp_core(double x) {
  const double shifted = x * 1.4426950408889634 + 0x1.8p52, n = shifted - 0x1.8p52;
  const double r = (x - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10;
  double p = 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  return akg_bits<double>(akg_bits<uint64_t>(p) + (akg_bits<uint64_t>(shifted) << 52));
}
//# akg_exp akg_exp_core
// f32 functions of this section compute in double without branches: at most 0.51 units in the last place.
static inline float akg_exp(float x) {
  const float c = x < -150.f ? -150.f : x > 150.f ? 150.f : x;
  const float y = float(akg_exp_core(double(c)));
  return x != x ? x : y;
}
static inline double akg_exp(double x) { return __builtin_exp(x); }
//# akg_exp2 akg_exp_core
static inline float akg_exp2(float x) {
  const float c = x < -200.f ? -200.f : x > 200.f ? 200.f : x;
  const double n = (double(c) + 0x1.8p52) - 0x1.8p52;
  const double y = akg_exp_core((double(c) - n) * 0.693147180559945309);
  const float scaled = float(y * akg_bits<double>((akg_bits<uint64_t>(n + 0x1.8p52) + 1023) << 52));
  return x != x ? x : scaled;
}
static inline double akg_exp2(double x) { return __builtin_exp2(x); }
//# akg_expm1 akg_exp_core
static inline float akg_expm1(float x) {
  const double d = double(x < -150.f ? -150.f : x > 150.f ? 150.f : x);
  const double series = d * (1 + d * (0.5 + d * (1.0 / 6 + d * (1.0 / 24 + d * (1.0 / 120 + d * (1.0 / 720 + d / 5040))))));
  const double near = d < 0 ? -d : d;
  const float y = float(near < 0.1 ? series : akg_exp_core(d) - 1);
  return x != x || x == 0 ? x : y;
}
static inline double akg_expm1(double x) { return __builtin_expm1(x); }
//# akg_log_core akg_bits
// Natural logarithm of a normal positive double, relative error below 1e-10.
static inline double akg_log_core(double x) {
  const uint64_t bits = akg_bits<uint64_t>(x), shifted = bits - 0x3fe6a09e667f3bcdu;
  const double m = akg_bits<double>((shifted & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
  const uint64_t biased = (shifted + (uint64_t(1) << 62)) >> 52;
  const double n = akg_bits<double>(0x4330000000000000u | biased) - (0x1p52 + 1024);
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 2.0 / 13;
  p = p * z + 2.0 / 11;
  p = p * z + 2.0 / 9;
  p = p * z + 2.0 / 7;
  p = p * z + 2.0 / 5;
  p = p * z + 2.0 / 3;
  return n * 0.693147180559945309 + (s * z * p + 2 * s);
}
//# akg_log akg_log_core
static inline float akg_log(float x) {
  const float y = float(akg_log_core(double(x)));
  return x > 0 ? (x == __builtin_inff() ? x : y) : x == 0 ? -__builtin_inff() : __builtin_nanf("");
}
static inline double akg_log(double x) { return __builtin_log(x); }
//# akg_log2 akg_log_core
static inline float akg_log2(float x) {
  const float y = float(akg_log_core(double(x)) * 1.44269504088896341);
  return x > 0 ? (x == __builtin_inff() ? x : y) : x == 0 ? -__builtin_inff() : __builtin_nanf("");
}
static inline double akg_log2(double x) { return __builtin_log2(x); }
//# akg_log1p akg_log_core
static inline float akg_log1p(float x) {
  const double d = double(x), u = 1 + d, rounded = u - 1;
  const double y = rounded == 0 ? d : akg_log_core(u) * (d / rounded);
  const float inside = x == __builtin_inff() ? x : float(y);
  return x > -1 ? inside : x == -1 ? -__builtin_inff() : __builtin_nanf("");
}
static inline double akg_log1p(double x) { return __builtin_log1p(x); }
//# akg_sqrt
static inline float akg_sqrt(float x) { return __builtin_sqrtf(x); }
static inline double akg_sqrt(double x) { return __builtin_sqrt(x); }
//# akg_rsqrt
static inline float akg_rsqrt(float x) { return float(1 / __builtin_sqrt(double(x))); }
static inline double akg_rsqrt(double x) { return 1 / __builtin_sqrt(x); }
//# akg_sin
static inline float akg_sin(float x) { return __builtin_sinf(x); }
static inline double akg_sin(double x) { return __builtin_sin(x); }
//# akg_cos
static inline float akg_cos(float x) { return __builtin_cosf(x); }
static inline double akg_cos(double x) { return __builtin_cos(x); }
//# akg_tanh akg_exp_core
static inline float akg_tanh(float x) {
  const double d = double(x < -20.f ? -20.f : x > 20.f ? 20.f : x), z = d * d;
  const double series = d * (1 - z * (1.0 / 3 - z * (2.0 / 15 - z * (17.0 / 315))));
  const double near = d < 0 ? -d : d;
  const float y = float(near < 0.03 ? series : 1 - 2 / (akg_exp_core(2 * d) + 1));
  return x != x ? x : y;
}
static inline double akg_tanh(double x) { return __builtin_tanh(x); }
//# akg_erf akg_exp_core
// |x| < 1: x times a polynomial in x^2. Beyond: 1 - e^(-x^2) times a polynomial in 2 / (2 + |x|). Both fitted by Chebyshev
// interpolation to relative errors below 4e-10.
static inline float akg_erf(float x) {
  const double d = double(x), size = d < 0 ? -d : d, near = size > 4.2 ? 4.2 : size, z = near * near;
  double p = 1.0595264029689136e-06;
  p = p * z - 1.3911696146351464e-05;
  p = p * z + 0.00011956945958218063;
  p = p * z - 0.0008542670488552066;
  p = p * z + 0.005223785002952042;
  p = p * z - 0.026866133624245236;
  p = p * z + 0.11283791313478903;
  p = p * z - 0.3761263888986777;
  p = p * z + 1.128379167094695;
  const double t = 2 / (2 + near);
  double q = 0.017141654470806882;
  q = q * t + 0.05142970393160812;
  q = q * t - 0.3544715369640232;
  q = q * t + 0.44962225165180536;
  q = q * t - 0.03505694503583005;
  q = q * t + 0.3215643713003153;
  q = q * t + 0.26591065361255933;
  q = q * t + 0.2840762197500355;
  q = q * t - 0.00010541605101594896;
  const double y = near < 1 ? near * p : 1 - akg_exp_core(-z) * q;
  return x != x ? x : float(d < 0 ? -y : y);
}
static inline double akg_erf(double x) { return __builtin_erf(x); }
//# akg_sigmoid akg_exp_core
static inline float akg_sigmoid(float x) {
  const double d = double(x < -150.f ? -150.f : x > 150.f ? 150.f : x);
  const float y = float(1 / (1 + akg_exp_core(-d)));
  return x != x ? x : y;
}
static inline double akg_sigmoid(double x) { return 1 / (1 + __builtin_exp(-x)); }
//# akg_abs
static inline float akg_abs(float x) { return __builtin_fabsf(x); }
static inline double akg_abs(double x) { return __builtin_fabs(x); }
template <class T> static inline T akg_abs(T x) { return x < 0 ? T(0 - uint64_t(x)) : x; }
//# akg_floor
static inline float akg_floor(float x) { return __builtin_floorf(x); }
static inline double akg_floor(double x) { return __builtin_floor(x); }
//# akg_ceil
static inline float akg_ceil(float x) { return __builtin_ceilf(x); }
static inline double akg_ceil(double x) { return __builtin_ceil(x); }
//# akg_round
// To nearest, ties to even: the default rounding mode.
static inline float akg_round(float x) { return __builtin_rintf(x); }
static inline double akg_round(double x) { return __builtin_rint(x); }
//# akg_trunc
static inline float akg_trunc(float x) { return __builtin_truncf(x); }
static inline double akg_trunc(double x) { return __builtin_trunc(x); }
