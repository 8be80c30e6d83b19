//# akg_fma
// a * b + c rounded once; where that would be a call, in double, which is as good here.
#if defined(__FMA__) || defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA)
static inline float akg_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
static inline float akg_fma(float a, float b, float c) { return float(double(a) * b + c); }
#endif
//# akg_exp_tail akg_fma akg_bits
// e^r - 1 for |r| < 0.35: degree 6, relative error below 2e-8 before rounding.
static inline float akg_exp_tail(float r) {
  float p = 0x1.6bebc8p-10f;
  p = akg_fma(p, r, 0x1.12290ep-7f);
  p = akg_fma(p, r, 0x1.555676p-5f);
  p = akg_fma(p, r, 0x1.5554aep-3f);
  p = akg_fma(p, r, 0x1.fffffep-2f);
  return akg_fma(r * r, p, r);
}
//# akg_exp_rest akg_fma
// x - n * ln(2) for an integer n of at most 8 bits.
static inline float akg_exp_rest(float x, float n) { return akg_fma(n, 0x1.05c610p-29f, akg_fma(n, -0x1.62e430p-1f, x)); }
//# akg_above akg_bits
// x, or the limit where x is less than that, for a limit below zero: its size in bits is compared. NaN may get lost.
static inline float akg_above(float x, float limit) {
  const uint32_t bits = akg_bits<uint32_t>(x), most = akg_bits<uint32_t>(limit);
  return akg_bits<float>(bits < most ? bits : most);
}
//# akg_exp_scaled akg_bits
// value * 2^n for values near 1 and n of -150..=128, where shifted = n + 0x1.8p23; rounds once.
static inline float akg_exp_scaled(float value, float shifted) {
  const int32_t least = -125 * (1 << 23), power = int32_t(akg_bits<uint32_t>(shifted) << 23);
  const int32_t first = power > least ? power : least, rest = power - first;
  return akg_bits<float>(akg_bits<int32_t>(value) + first) * akg_bits<float>(rest + 0x3f800000);
}
//# akg_exp akg_exp_tail akg_exp_rest akg_exp_scaled akg_above
// At most 1.1 units in the last place.
static inline float akg_exp(float x) {
  const float c = akg_above(x, -104.f), shifted = akg_fma(c, 0x1.715476p+0f, 0x1.8p23f);
  const float y = akg_exp_scaled(1 + akg_exp_tail(akg_exp_rest(c, shifted - 0x1.8p23f)), shifted);
  return x < 88.722839f ? y : x * __builtin_inff();
}
static inline double akg_exp(double x) { return __builtin_exp(x); }
//# akg_exp2 akg_exp_tail akg_exp_scaled akg_above akg_fma
// At most 1.2 units in the last place.
static inline float akg_exp2(float x) {
  const float c = akg_above(x, -151.f), shifted = c + 0x1.8p23f, r = c - (shifted - 0x1.8p23f);
  // The product with ln(2) in two parts.
  const float high = r * 0x1.62e430p-1f, low = akg_fma(r, 0x1.62e430p-1f, -high) + r * -0x1.05c610p-29f;
  const float y = akg_exp_scaled(1 + (akg_exp_tail(high) + low), shifted);
  return x < 128 ? y : x * __builtin_inff();
}
static inline double akg_exp2(double x) { return __builtin_exp2(x); }
//# akg_expm1 akg_exp_tail akg_exp_rest akg_bits
// At most 1.6 units in the last place.
static inline float akg_expm1(float x) {
  const float c = x < -18.f ? -18.f : x;
  const float shifted = akg_fma(c, 0x1.715476p+0f, 0x1.8p23f);
  // Half of the power, which does not overflow.
  const float half = akg_bits<float>((akg_bits<uint32_t>(shifted) + 126) << 23);
  const float y = 2 * akg_fma(half, akg_exp_tail(akg_exp_rest(c, shifted - 0x1.8p23f)), half - 0.5f);
  return x < 88.722839f ? y : x * __builtin_inff();
}
static inline double akg_expm1(double x) { return __builtin_expm1(x); }
//# akg_log_tail akg_fma
// log(1 + r) - r for -1/3 <= r <= 1/3: degree 10, relative error below 5e-9 before rounding.
static inline float akg_log_tail(float r) {
  float p = -0x1.080636p-3f;
  p = akg_fma(p, r, 0x1.1e6774p-3f);
  p = akg_fma(p, r, -0x1.f310f8p-4f);
  p = akg_fma(p, r, 0x1.1ed6f4p-3f);
  p = akg_fma(p, r, -0x1.559dcep-3f);
  p = akg_fma(p, r, 0x1.99d02ap-3f);
  p = akg_fma(p, r, -0x1.fffef0p-3f);
  p = akg_fma(p, r, 0x1.555506p-2f);
  return r * r * akg_fma(p, r, -0.5f);
}
//# akg_log_parts akg_bits
// x = (1 + rest) * 2^power with rest in -1/3..1/3, for positive finite x.
struct akg_log_parts { float power, rest; };
static inline akg_log_parts akg_log_split(float x) {
  const bool tiny = x < 0x1p-126f;
  const int32_t bits = akg_bits<int32_t>(tiny ? x * 0x1p24f : x) - 0x3f2aaaab;
  const float power = float(bits >> 23) - (tiny ? 24.f : 0.f);
  return {power, akg_bits<float>((bits & 0x7fffff) + 0x3f2aaaab) - 1};
}
//# akg_log_ends
// y, or what the logarithm is at the ends of its domain and beyond: x is zero, negative, infinite or no number.
static inline float akg_log_ends(float x, float y) {
  return x > 0 ? (x == __builtin_inff() ? x : y) : x == 0 ? -__builtin_inff() : __builtin_nanf("");
}
//# akg_log akg_log_tail akg_log_parts akg_log_ends
// At most 1.0 units in the last place.
static inline float akg_log(float x) {
  const akg_log_parts s = akg_log_split(x);
  const float high = s.power * 0x1.62e4p-1f, sum = high + s.rest, lost = s.rest - (sum - high);
  return akg_log_ends(x, sum + akg_fma(s.power, 0x1.7f7d1cp-20f, lost + akg_log_tail(s.rest)));
}
static inline double akg_log(double x) { return __builtin_log(x); }
//# akg_log2 akg_log_tail akg_log_parts akg_log_ends
// At most 1.2 units in the last place.
static inline float akg_log2(float x) {
  const akg_log_parts s = akg_log_split(x);
  const float high = s.rest * 0x1.715476p+0f, low = akg_fma(s.rest, 0x1.715476p+0f, -high) + s.rest * 0x1.4ae0cp-26f;
  const float sum = s.power + high, lost = high - (sum - s.power);
  const bool whole = s.power == 0;
  return akg_log_ends(x, (whole ? high : sum) + akg_fma(akg_log_tail(s.rest), 0x1.715476p+0f, low + (whole ? 0 : lost)));
}
static inline double akg_log2(double x) { return __builtin_log2(x); }
//# akg_log1p akg_log_tail akg_log_ends akg_bits
// At most 1.7 units in the last place.
static inline float akg_log1p(float x) {
  const float u = 1 + x;
  const int32_t power = (akg_bits<int32_t>(u) - 0x3f2aaaab) >> 23;
  const float n = float(power), scale = 0.25f * akg_bits<float>(uint32_t(129 - power) << 23);
  // (1 + x) * 2^-n - 1, rounded once.
  const float rest = akg_fma(x, scale, scale - 1);
  const float high = n * 0x1.62e4p-1f, sum = high + rest, lost = rest - (sum - high);
  const float y = sum + akg_fma(n, 0x1.7f7d1cp-20f, lost + akg_log_tail(rest));
  return akg_log_ends(u, x == 0 ? x : y);
}
static inline double akg_log1p(double x) { return __builtin_log1p(x); }
//# akg_scaled akg_bits
// value * 2^n for -126 <= n < 128, where shifted = n + 0x1.8p23.
static inline float akg_scaled(float value, float shifted) {
  return value * akg_bits<float>((akg_bits<uint32_t>(shifted) << 23) + 0x3f800000u);
}
//# akg_power2 akg_fma akg_scaled
// 2^(a * b) for -126 <= a * b < 127, relative error 2e-7.
static inline float akg_power2(float a, float b) {
  const float shifted = akg_fma(a, b, 0x1.8p23f), r = akg_fma(a, b, 0x1.8p23f - shifted);
  float p = 0x1.5c0820p-10f;
  p = akg_fma(p, r, 0x1.3d0d48p-7f);
  p = akg_fma(p, r, 0x1.c6b6ecp-5f);
  p = akg_fma(p, r, 0x1.ebf914p-3f);
  p = akg_fma(p, r, 0x1.62e428p-1f);
  return akg_scaled(akg_fma(p, r, 0x1.000002p+0f), shifted);
}
//# akg_tanh akg_power2
// At most 1.8 units in the last place. Near 0: x times a polynomial in x^2; beyond: 1 - 2 / (e^2x + 1).
static inline float akg_tanh(float x) {
  const float size = __builtin_fabsf(x), z = x * x;
  float p = -0x1.91211cp-8f;
  p = akg_fma(p, z, 0x1.5780fep-6f);
  p = akg_fma(p, z, -0x1.b8f44cp-5f);
  p = akg_fma(p, z, 0x1.110bf6p-3f);
  p = akg_fma(p, z, -0x1.555546p-2f);
  const float near = akg_fma(p * z, x, x);
  const float far = 1 - 2 / (akg_power2(size > 10 ? 10 : size, 0x1.715476p+1f) + 1);
  return size >= 0.57f ? __builtin_copysignf(far, x) : near;
}
static inline double akg_tanh(double x) { return __builtin_tanh(x); }
//# akg_erf akg_power2
// At most 1.4 units in the last place. Near 0: x times a polynomial in x^2; beyond: 1 - 2^-(x times a polynomial in x).
static inline float akg_erf(float x) {
  const float size = __builtin_fabsf(x), z = x * x, t = size > 4 ? 4 : size;
  float p = -0x1.38265ep-11f;
  p = akg_fma(p, z, 0x1.46c262p-8f);
  p = akg_fma(p, z, -0x1.b676d4p-6f);
  p = akg_fma(p, z, 0x1.ce1904p-4f);
  p = akg_fma(p, z, -0x1.8126dcp-2f);
  p = akg_fma(p, z, 0x1.06eba6p-3f);
  float q = 0x1.43b61ep-12f;
  q = akg_fma(q, t, -0x1.2ff81ep-8f);
  q = akg_fma(q, t, 0x1.0e86c2p-5f);
  q = akg_fma(q, t, -0x1.3702c4p-3f);
  q = akg_fma(q, t, -0x1.d59460p-1f);
  q = akg_fma(q, t, -0x1.a0cb4cp+0f);
  const float far = 1 - akg_power2(q, t);
  return size >= 0.92f ? __builtin_copysignf(far, x) : akg_fma(p, x, x);
}
static inline double akg_erf(double x) { return __builtin_erf(x); }
//# akg_sigmoid akg_exp
// At most 1.5 units in the last place: 1 / (1 + e) or e / (1 + e) for e = e^-|x|, with what the sum lost.
static inline float akg_sigmoid(float x) {
  const float e = akg_exp(-__builtin_fabsf(x)), sum = 1 + e, lost = e - (sum - 1);
  const float above = x < 0 ? e : 1, inverse = 1 / sum, y = above * inverse;
  return akg_fma(akg_fma(-y, sum, above) - y * lost, inverse, y);
}
static inline double akg_sigmoid(double x) { return 1 / (1 + __builtin_exp(-x)); }
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
//# akg_pow akg_exp_core akg_log_core
// At most 0.6 units in the last place: through double.
static inline float akg_pow(float base, float exponent) {
  const float inf = __builtin_inff(), size = __builtin_fabsf(base), whole = __builtin_truncf(exponent);
  const double log = size == 0 ? -double(inf) : size < inf ? akg_log_core(double(size)) : double(size);
  const double product = double(exponent) * log;
  const float power = float(akg_exp_core(product < -150 ? -150 : product > 150 ? 150 : product));
  const bool odd = whole == exponent && __builtin_truncf(exponent * 0.5f) != exponent * 0.5f;
  const bool undefined = base != base || product != product || (base < 0 && size != inf && whole != exponent);
  const float y = undefined ? __builtin_nanf("") : odd ? __builtin_copysignf(power, base) : power;
  return exponent == 0 || base == 1 || (base == -1 && __builtin_fabsf(exponent) == inf) ? 1 : y;
}
static inline double akg_pow(double base, double exponent) { return __builtin_pow(base, exponent); }
template <class T> static inline T akg_pow(T base, T exponent) {
  uint64_t result = 1, factor = uint64_t(base);
  for (uint64_t rest = exponent < 0 ? 0 : uint64_t(exponent); rest; rest >>= 1, factor *= factor)
    if (rest & 1) result *= factor;
  return T(result);
}
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
