//# akg_scan
// v[i] becomes the sum or product of all before and itself, a vector at a time; in reverse, of all after.
template <bool PRODUCT, bool EXCLUSIVE, bool REVERSE> static inline void akg_scan(double *v, int n) {
  double total = PRODUCT ? 1 : 0;
  int done = 0;
#if defined(__GNUC__) && !defined(__clang__)
  typedef double vector __attribute__((vector_size(AKG_VECTOR_BYTES)));
  typedef int64_t lanes __attribute__((vector_size(AKG_VECTOR_BYTES)));
  constexpr int count = AKG_VECTOR_BYTES / 8;
  const vector neutral = vector{} + total;
  lanes lane = {};
  for (int l = 0; l < count; ++l) lane[l] = l;
  vector before = neutral;
  for (; done + count <= n; done += count) {
    double *const at = REVERSE ? v + n - count - done : v + done;
    vector x;
    __builtin_memcpy(&x, at, sizeof x);
    if (REVERSE) x = __builtin_shuffle(x, count - 1 - lane);
    for (int distance = 1; distance < count; distance *= 2) {
      const vector shifted = __builtin_shuffle(neutral, x, lane + (count - distance));
      x = PRODUCT ? x * shifted : x + shifted;
    }
    const vector own = EXCLUSIVE ? __builtin_shuffle(neutral, x, lane + (count - 1)) : x;
    vector y = PRODUCT ? own * before : own + before;
    const vector all = __builtin_shuffle(x, lane * 0 + (count - 1));
    before = PRODUCT ? before * all : before + all;
    if (REVERSE) y = __builtin_shuffle(y, count - 1 - lane);
    __builtin_memcpy(at, &y, sizeof y);
  }
  total = before[0];
#endif
  for (; done < n; ++done) {
    double &x = v[REVERSE ? n - 1 - done : done];
    const double next = PRODUCT ? total * x : total + x;
    x = EXCLUSIVE ? total : next;
    total = next;
  }
}
