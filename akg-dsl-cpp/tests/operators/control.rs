//! Control flow, hazards and atomic additions.

use akg_core::DType;

use crate::{compare, input, support, tensor};

#[test]
fn control_flow_and_hazards() {
    if support::compiler_missing() {
        return;
    }
    let text = "sketch control(x: f32[N]) -> (a: f32[8], b: f32[8], c: f32[8], d: f32[N], e: f32[N], f: f32[8], g: i64[4], h: f32[8], s: f32[8])
buffer t: f32[N]
# Values that change places, and one that is read after it was replaced.
kernel swap over (p in 1) {
  u = load x[0 :+ 8]
  v = load x[8 :+ 8]
  w = zeros f32[8]
  for i in 0..5 {
    old = u
    u = v + 1
    v = old * 2
    w = w + u - old
  }
  store a[0 :+ 8] = u
  store b[0 :+ 8] = v
  store c[0 :+ 8] = w
}
# A load before a store of the same tensor keeps the old elements.
kernel order over (p in 1) {
  store t[0 :+ N] = load x[0 :+ N]
  before = load t[0 :+ N]
  twice = before * 2
  for i in 0..3 {
    now = load t[0 :+ N]
    store t[0 :+ N] = now + before
    store d[0 :+ N] = now
  }
  store e[0 :+ N] = twice + (load t[0 :+ N])
}
kernel branches over (p in 1) {
  u = load x[0 :+ 8]
  best = u
  for i in 0..6 {
    if i % 2 == 0 & i > 0 {
      u = u + 10
      if i == 4 { best = max(best, u) }
    } else {
      u = u * 0.5
    }
  }
  for i in 3..3 { u = u * 100 }
  store f[0 :+ 8] = u + best
}
kernel counts over (p in 4) {
  n = zeros i64[]
  for i in 0..p + 1, j in 0..4 step 3 {
    n = n + i64(i * 10 + j)
  }
  store g[p] = n
}
# A turned tile goes around a loop.
kernel turns over (p in 1) {
  m = reshape(load x[0 :+ 4], [2, 2])
  for i in 0..3 {
    m = trans(m) + 1
  }
  store h[0 :+ 4] = reshape(m, [4])
  store h[4 :+ 4] = exp(reshape(m, [4])) - reduce_max(reshape(m, [4]), 0)
}
kernel shared over (p in 1) {
  t8 = load x[0 :+ 8]
  q = exp(t8)
  z = reduce_sum(q, 0)
  z2 = reduce_max(q * q, 0)
  store s[0 :+ 8] = q / z + z2
}
";
    let inputs = [input(DType::F32, &[20], 4)];
    compare(text, &[("N", 20)], &inputs, 8.0, false);
}

#[test]
fn atomic_additions() {
    if support::compiler_missing() {
        return;
    }
    let text =
        "sketch atomics(x: f32[N], k: i64[N], v: f16[N]) -> (a: f32[4], b: i32[4], c: i64[4], d: f16[4])
kernel clear over (p in 1) {
  store a[0 :+ 4] = zeros f32[4]
  store b[0 :+ 4] = zeros i32[4]
  store c[0 :+ 4] = zeros i64[4]
  store d[0 :+ 4] = zeros f16[4]
}
kernel add over (p in ceildiv(N, 8)) {
  i = load k[p*8 :+ 8] else -1
  store a[i] += round(load x[p*8 :+ 8] else 0)
  store b[i] += i32(i)
  store c[i] += i
  store d[i] += round(load v[p*8 :+ 8] else 0)
}
";
    let places: Vec<f64> = (0..30).map(|i| f64::from((i * 7) % 6) - 1.0).collect();
    let inputs = [
        input(DType::F32, &[30], 1),
        tensor(DType::I64, &[30], &places),
        input(DType::F16, &[30], 2),
    ];
    compare(text, &[("N", 30)], &inputs, 0.0, false);
}

/// Loops that elements go through one by one: what a window meets, with what lies outside, a step, a type of its own for sums,
/// a result that is used twice, and one that is used inside of another loop.
#[test]
fn windows_are_combined_element_by_element() {
    if support::compiler_missing() {
        return;
    }
    let text = "sketch windows(x: f32[5, 9, 30], w: f32[5, 3, 3]) -> (a: f32[5, 9, 30], b: f32[5, 4, 14], c: f32[5, 9, 28], d: f32[5, 9, 30])
kernel largest over (p in 5) {
  acc = full f32[9, 30] -inf
  for r in 0..3, s in 0..3 {
    acc = max(acc, load x[p, r - 1 :+ 9, s - 1 :+ 30] else -inf)
  }
  store a[p, 0 :+ 9, 0 :+ 30] = acc
}
kernel weighted over (p in 5) {
  acc = zeros f32[4, 14]
  for r in 0..3, s in 0..3 {
    part = load x[p, r :+ 4 by 2, s :+ 14 by 2]
    acc = acc + part * (load w[p, r, s])
  }
  store b[p, 0 :+ 4, 0 :+ 14] = acc
}
kernel twice over (p in 5) {
  acc = zeros f64[9, 28]
  for s in 0..3 {
    acc = acc + f64(load x[p, 0 :+ 9, s :+ 28])
  }
  mean = f32(acc / 3.0)
  store c[p, 0 :+ 9, 0 :+ 28] = mean * mean - f32(acc)
}
kernel again over (p in 5) {
  sums = zeros f32[9, 30]
  for s in 0..2 {
    sums = sums + (load x[p, 0 :+ 9, s - 1 :+ 30] else 0)
  }
  all = zeros f32[9, 30]
  for i in 0..40 {
    all = all * 0.5 + sums
  }
  store d[p, 0 :+ 9, 0 :+ 30] = all
}
";
    let inputs = [
        input(DType::F32, &[5, 9, 30], 3),
        input(DType::F32, &[5, 3, 3], 4),
    ];
    compare(text, &[], &inputs, 16.0, true);
}
