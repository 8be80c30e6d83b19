//! Operators that combine the elements of tiles, and regions.

use akg_core::DType;

use crate::{compare, input, support, tensor};

#[test]
fn reductions_and_scans() {
    if support::compiler_missing() {
        return;
    }
    for dtype in [DType::F32, DType::F16, DType::F64, DType::I32, DType::U8] {
        let mut outputs = Vec::new();
        let mut body = String::new();
        for op in ["sum", "prod", "max", "min"] {
            outputs.push(format!("r0_{op}: {dtype}[B, C]"));
            outputs.push(format!("r1_{op}: {dtype}[A, C]"));
            outputs.push(format!("r2_{op}: {dtype}[A, B]"));
            body.push_str(&format!("  store r0_{op}[0 :+ B, 0 :+ C] = reduce_{op}(t, 0)\n"));
            body.push_str(&format!("  store r1_{op}[0 :+ A, 0 :+ C] = reduce_{op}(t, 1)\n"));
            body.push_str(&format!("  store r2_{op}[0 :+ A, 0 :+ B] = reduce_{op}(t, 2)\n"));
            for (i, options) in ["", ", exclusive", ", reverse", ", exclusive, reverse"]
                .iter()
                .enumerate()
            {
                let axis = i % 3;
                outputs.push(format!("s{i}_{op}: {dtype}[A, B, C]"));
                body.push_str(&format!(
                    "  store s{i}_{op}[0 :+ A, 0 :+ B, 0 :+ C] = scan_{op}(t, {axis}{options})\n"
                ));
            }
        }
        for (op, axis, shape) in [
            ("max", 0, "B, C"),
            ("min", 1, "A, C"),
            ("max", 2, "A, B"),
            ("min", 2, "A, B"),
        ] {
            let region: Vec<_> = shape.split(", ").map(|d| format!("0 :+ {d}")).collect();
            outputs.push(format!("a{axis}_{op}: i32[{shape}]"));
            body.push_str(&format!(
                "  store a{axis}_{op}[{}] = arg{op}(t, {axis})\n",
                region.join(", ")
            ));
        }
        let text = format!(
            "sketch collect(x: {dtype}[A, B, C]) -> ({})\nkernel main over (p in 1) {{\n  t = load x[0 :+ A, 0 :+ B, 0 :+ C]\n{body}}}\n",
            outputs.join(", ")
        );
        let shape = [3, 5, 18];
        let mut values = input(dtype, &shape, 11).to_f64().unwrap();
        if dtype.is_float() {
            values.iter_mut().for_each(|v| *v /= 3.0);
            values[7] = f64::NAN;
            values[100] = f64::NAN;
            values[103] = f64::NAN;
            values[150] = f64::INFINITY;
        }
        if dtype == DType::F64 {
            // So that what the order of a sum changes is small against the sum.
            values.iter_mut().for_each(|v| *v = v.abs());
        }
        let dims = [("A", 3), ("B", 5), ("C", 18)];
        // Double sums differ by their order; those of other types are rounded once.
        let units = if dtype == DType::F64 { 40.0 } else { 1.01 };
        compare(&text, &dims, &[tensor(dtype, &shape, &values)], units, false);
    }
}

#[test]
fn regions() {
    if support::compiler_missing() {
        return;
    }
    let text = "sketch regions(x: f32[H, W], ids: i64[G], v: f16[H, W]) -> (a: f32[H, W], b: f32[W, H], c: f32[H], d: f32[G, W], e: f32[40], f: f32[W], g: f16[W, H], h: f32[G], k: f32[G, G])
# Steps and halos on both sides.
kernel strided over (i in ceildiv(H, 4), j in ceildiv(W, 16)) {
  t = load x[2*i*4 - 3 :+ 4 by 2, j*16 + 5 :+ 16 by -1] else -inf
  store a[i*4 :+ 4, j*16 :+ 16] = t + 1
}
kernel turned over (i in ceildiv(H, 8), j in ceildiv(W, 16)) {
  t = load x[i*8 :+ 8, j*16 :+ 16] else 0
  store b[j*16 :+ 16, i*8 :+ 8] = trans(t * 2)
  u = load v[i*8 :+ 8, j*16 :+ 16] else 0
  store g[j*16 :+ 16, i*8 :+ 8] = trans(u * u)
}
kernel coordinates over (i in H) {
  n = i32(load ids[i % G])
  r = load x[i, n] else 7
  store c[i] = r + f32(n)
}
kernel gathers over (p in 1) {
  n = load ids[0 :+ G]
  store d[0 :+ G, 0 :+ 32] = load x[n, 0 :+ 32] else 5
  store h[0 :+ G] = load x[1, n] else 9
  store k[0 :+ G, 0 :+ G] = load x[n, n] else -1
}
kernel shapes over (p in 1) {
  t = load x[0 :+ 4, 0 :+ 10] else 0
  r = reshape(t, [2, 20])
  s = reshape(trans(reshape(r * 3, [8, 5])), [40])
  store e[0 :+ 40] = s
  store f[W - 1 :+ W by -1] = load x[2, 0 :+ W]
}
";
    let (h, w, g) = (13, 37, 9);
    let dims = [("H", h as i64), ("W", w as i64), ("G", g as i64)];
    let ids = tensor(
        DType::I64,
        &[g],
        &[3.0, -1.0, 12.0, 13.0, 0.0, 1e9, 5.0, 5.0, -7.0],
    );
    let inputs = [input(DType::F32, &[h, w], 5), ids, input(DType::F16, &[h, w], 6)];
    // The columns of `d` beyond 32 are not written: both sides leave different rubbish there.
    let text = text.replace("d: f32[G, W]", "d: f32[G, 32]");
    compare(&text, &dims, &inputs, 0.0, false);
}

#[test]
fn dots() {
    if support::compiler_missing() {
        return;
    }
    let cases = [
        ("f32", "f32", "ieee", 16.0),
        ("f32", "f32", "ieee promote(8)", 8.0),
        ("f32", "f64", "ieee promote(16)", 8e9),
        ("f32", "f32", "tf32", 16.0),
        ("f32", "f32", "f16", 16.0),
        ("f16", "f32", "f16", 16.0),
        ("bf16", "f32", "bf16", 16.0),
        ("f64", "f64", "ieee", 16.0),
    ];
    for (operand, result, method, units) in cases {
        let operand_type: DType = operand.parse().unwrap();
        let text = format!(
            "sketch dots(x: {operand}[M, K], w: {operand}[N, K], c: {result}[M, N]) -> (y: {result}[M, N], z: {result}[M, N], r: {result}[M, N])
kernel main over (p in 1) {{
  a = load x[0 :+ M, 0 :+ K]
  b = trans(load w[0 :+ N, 0 :+ K])
  i = load c[0 :+ M, 0 :+ N]
  store y[0 :+ M, 0 :+ N] = {result}(dot(a, b) {method})
  store z[0 :+ M, 0 :+ N] = dot(a * 2, b, i * i) {method}
  at = trans(load x[0 :+ M, 0 :+ K])
  store r[0 :+ M, 0 :+ N] = dot(trans(at + 1), b, i) {method}
}}
"
        );
        for (m, n, k) in [(5, 19, 37), (16, 64, 64), (1, 1, 3), (33, 130, 100)] {
            let dims = [("M", m as i64), ("N", n as i64), ("K", k as i64)];
            let inputs = [
                input(operand_type, &[m, k], 1),
                input(operand_type, &[n, k], 2),
                input(result.parse().unwrap(), &[m, n], 3),
            ];
            compare(&text, &dims, &inputs, units, true);
        }
    }
}

/// Products that are added to a tile without being stored, over operands that are packed from tensors and from tiles.
#[test]
fn added_products() {
    if support::compiler_missing() {
        return;
    }
    let text = "sketch added(x: f32[M, K], w: f32[K, N], v: f32[N, K]) -> (y: f32[M, N], z: f32[M, N])
kernel main over (m in ceildiv(M, 23), n in ceildiv(N, 70)) {
  acc = zeros f64[23, 70]
  sum = zeros f32[23, 70]
  for k in 0..K step 40 {
    a = load x[m*23 :+ 23, k :+ 40] else 0
    b = load w[k :+ 40, n*70 :+ 70] else 0
    c = load v[n*70 :+ 70, k :+ 40] else 0
    acc = acc + f64(dot(a, b) ieee promote(16))
    sum = dot(trans(trans(a) * 2), trans(c)) ieee promote(40) + sum
  }
  store y[m*23 :+ 23, n*70 :+ 70] = f32(acc)
  store z[m*23 :+ 23, n*70 :+ 70] = sum
}
";
    for (m, n, k) in [(5, 19, 37), (23, 70, 80), (50, 141, 100)] {
        let dims = [("M", m as i64), ("N", n as i64), ("K", k as i64)];
        let inputs = [
            input(DType::F32, &[m, k], 1),
            input(DType::F32, &[k, n], 2),
            input(DType::F32, &[n, k], 3),
        ];
        compare(text, &dims, &inputs, 16.0, true);
    }
}

#[test]
fn tensors_in_other_extents() {
    if support::compiler_missing() {
        return;
    }
    let text = "
sketch seen(x: f32[M, N]) -> y: f32[M, N]
buffer columns: f32[N, M]
kernel turn over (r in ceildiv(M, 4)) {
  store columns[0 :+ 20, r*4 :+ 4] = trans(load x[r*4 :+ 4, 0 :+ 20] else 0.0)
}
kernel add over (p in ceildiv(M*N, 16)) seeing columns as [M*N], x as [M*N], y as [N, M] {
  i = p*16 + iota(16)
  v = (load columns[p*16 :+ 16] else 0.0) + (load x[p*16 :+ 16 by 1] else 0.0)
  for n in p*16 // M..min(N, (p*16 + 15) // M + 1) {
    for m in 0..M {
      if n*M + m >= p*16 & n*M + m < p*16 + 16 {
        store y[n, m] = reduce_sum(select(i == n*M + m, v, 0.0), 0)
      }
    }
  }
}
";
    let inputs = [input(DType::F32, &[13, 20], 5)];
    compare(text, &[("M", 13), ("N", 20)], &inputs, 1.0, false);
}
