//! Everything that a sketch can say, against the interpreter on the same inputs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use akg_core::expr::Bindings;
use akg_core::sketch::interpret;
use akg_core::{DType, Sketch, Tensor};

/// Reproducible elements: small numbers with all signs, then corner values.
fn input(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let values: Vec<f64> = (0..count)
        .map(|_| {
            let v = (next() >> 11) as f64 / (1u64 << 53) as f64;
            match dtype {
                DType::Bool => (v * 2.0).floor(),
                DType::U8 => (v * 12.0).floor(),
                d if d.is_float() => (v - 0.5) * 6.0,
                _ => (v * 24.0).floor() - 12.0,
            }
        })
        .collect();
    tensor(dtype, shape, &values)
}

fn tensor(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
    use half::{bf16, f16};
    macro_rules! from {
        ($convert:expr) => {
            Tensor::from_slice(
                shape.to_vec(),
                &values.iter().map($convert).collect::<Vec<_>>(),
            )
        };
    }
    match dtype {
        DType::Bool => Tensor::from_bools(
            shape.to_vec(),
            &values.iter().map(|v| *v != 0.0).collect::<Vec<_>>(),
        ),
        DType::U8 => from!(|v| *v as u8),
        DType::I8 => from!(|v| *v as i8),
        DType::I16 => from!(|v| *v as i16),
        DType::I32 => from!(|v| *v as i32),
        DType::I64 => from!(|v| *v as i64),
        DType::F16 => from!(|v| f16::from_f64(*v)),
        DType::BF16 => from!(|v| bf16::from_f64(*v)),
        DType::F32 => from!(|v| *v as f32),
        _ => from!(|v| *v),
    }
    .unwrap()
}

/// Runs the sketch both ways. Elements may differ by `units` in the last place, or by that part of the largest one if
/// `sums` says that they are sums with cancellation.
fn compare(text: &str, dims: &[(&str, i64)], inputs: &[Tensor], units: f64, sums: bool) {
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{}", d.render(text)));
    let dims: Bindings = dims.iter().map(|(name, v)| ((*name).into(), *v)).collect();
    let program = sketch
        .elaborate(&sketch.default_knobs(), &dims)
        .unwrap_or_else(|d| panic!("{}", d.render(text)));
    let want = interpret(&program, inputs, &dims).unwrap();
    let got = support::run(&program, inputs, &dims);
    let outputs: Vec<_> = program
        .with_role(akg_core::source::TensorRole::Output)
        .map(|(_, t)| t)
        .collect();
    for ((info, got), want) in outputs.iter().zip(&got).zip(&want) {
        let (got, want) = (got.to_f64().unwrap(), want.to_f64().unwrap());
        let roundoff = info.dtype.unit_roundoff().unwrap_or(0.0);
        let largest = want
            .iter()
            .filter(|v| v.is_finite())
            .fold(0f64, |m, v| m.max(v.abs()));
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            let tiny = match info.dtype {
                DType::F16 => 6e-8,
                DType::BF16 => 1e-40,
                DType::F32 => 1.5e-45,
                _ => 5e-324,
            };
            let scale = if sums { largest } else { want.abs() };
            let bound = 2.0 * units * roundoff * scale + tiny * units;
            let same = got == want || got.is_nan() && want.is_nan();
            assert!(
                same || (got - want).abs() <= bound,
                "{}[{i}] is {got:e} instead of {want:e}\n{text}",
                info.name
            );
        }
    }
}

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];
const INTS: [DType; 5] = [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64];

#[test]
fn unary_operators() {
    if support::compiler_missing() {
        return;
    }
    let functions = [
        "-",
        "abs",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log1p",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "tanh",
        "erf",
        "sigmoid",
        "floor",
        "ceil",
        "round",
        "trunc",
        "pow2_floor",
    ];
    let corners = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        1e-3,
        -1e-3,
        1e-8,
        1e-20,
        -1e-30,
        3e-39,
        -1e-42,
        1e-45,
        88.0,
        -88.0,
        89.0,
        104.0,
        -104.0,
        127.9,
        -127.5,
        -149.5,
        300.0,
        -300.0,
        1e10,
        1e30,
        -1e30,
        3e38,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        0.9999999,
        1.0000001,
        0.02,
        -0.04,
        0.09,
        -0.11,
        4.1,
        -4.3,
        0.99,
        1.01,
        7.5,
        -9.5,
        20.5,
    ];
    for dtype in FLOATS {
        let mut values = corners.to_vec();
        values.extend((0..1000).map(|i| f64::from(i) * 0.011 - 5.0));
        let outputs: Vec<_> = (0..functions.len())
            .map(|i| format!("y{i}: {dtype}[N]"))
            .collect();
        let stores: Vec<_> = functions
            .iter()
            .enumerate()
            .map(|(i, f)| format!("  store y{i}[p*64 :+ 64] = {f}(t)"))
            .collect();
        let text = format!(
            "sketch unary(x: {dtype}[N]) -> ({}, not_number: bool[N])\nkernel main over (p in ceildiv(N, 64)) {{\n  t = load x[p*64 :+ 64] else 0\n{}\n  store not_number[p*64 :+ 64] = isnan(t)\n}}\n",
            outputs.join(", "),
            stores.join("\n")
        );
        compare(
            &text,
            &[("N", values.len() as i64)],
            &[tensor(dtype, &[values.len()], &values)],
            1.01,
            false,
        );
    }
}

#[test]
fn binary_operators() {
    if support::compiler_missing() {
        return;
    }
    for dtype in FLOATS.into_iter().chain(INTS) {
        let float = dtype.is_float();
        let mut expressions = vec![
            "a + b",
            "a - b",
            "a * b",
            "min(a, b)",
            "max(a, b)",
            "select(a > b, a, b)",
            "a % d",
        ];
        if float {
            expressions.extend(["a / b", "pow(abs(a), b)", "ldexp(a, s)"]);
        } else {
            expressions.extend([
                "a // d", "a & b", "a | b", "a ^ b", "a << k", "a >> k", "-a", "!a", "abs(a)",
            ]);
        }
        let outputs: Vec<_> = (0..expressions.len())
            .map(|i| format!("y{i}: {dtype}[N]"))
            .collect();
        let stores: Vec<_> = expressions
            .iter()
            .enumerate()
            .map(|(i, e)| format!("  store y{i}[0 :+ N] = {e}"))
            .collect();
        let signs = ["<", "<=", ">", ">=", "==", "!="];
        let compared: Vec<_> = (0..6).map(|i| format!("c{i}: bool[N]")).collect();
        let compares: Vec<_> = signs
            .iter()
            .enumerate()
            .map(|(i, s)| format!("  store c{i}[0 :+ N] = a {s} b"))
            .collect();
        let text = format!(
            "sketch binary(x: {dtype}[N], z: {dtype}[N], e: i32[N]) -> ({}, {})\nkernel main over (p in 1) {{\n  a = load x[0 :+ N]\n  b = load z[0 :+ N]\n  s = load e[0 :+ N]\n  k = {dtype}(s & 3)\n  d = select(b == 0, 3, b)\n{}\n{}\n}}\n",
            outputs.join(", "),
            compared.join(", "),
            stores.join("\n"),
            compares.join("\n")
        );
        let inputs = [
            input(dtype, &[100], 1),
            input(dtype, &[100], 2),
            input(DType::I32, &[100], 3),
        ];
        compare(&text, &[("N", 100)], &inputs, 1.01, false);
    }
}

#[test]
fn casts_and_bits() {
    if support::compiler_missing() {
        return;
    }
    let all = DType::ALL;
    let params: Vec<_> = all.iter().map(|d| format!("x_{d}: {d}[N]")).collect();
    let outputs: Vec<_> = all
        .iter()
        .flat_map(|a| all.iter().map(move |b| format!("y_{a}_{b}: {b}[N]")))
        .collect();
    let mut body = String::new();
    for a in all {
        body.push_str(&format!("  v_{a} = load x_{a}[0 :+ N]\n"));
        for b in all {
            body.push_str(&format!("  store y_{a}_{b}[0 :+ N] = {b}(v_{a})\n"));
        }
    }
    let text = format!(
        "sketch casts({}) -> ({})\nkernel main over (p in 1) {{\n{body}}}\n",
        params.join(", "),
        outputs.join(", ")
    );
    let special = [
        0.5,
        -0.5,
        1.5,
        200.7,
        -200.7,
        3e9,
        -3e9,
        1e19,
        -1e19,
        70000.0,
        65519.0,
        65520.0,
        1.00048828126,
        1e-7,
        3.1e-8,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e300,
        2147483647.5,
        127.6,
        255.9,
        1.0009765625,
        1.00390626,
        1.01171875,
    ];
    let inputs: Vec<_> = all
        .iter()
        .map(|d| {
            let mut values = input(*d, &[40], 7).to_f64().unwrap();
            if d.is_float() {
                values[..special.len()].copy_from_slice(&special);
            }
            tensor(*d, &[40], &values)
        })
        .collect();
    compare(&text, &[("N", 40)], &inputs, 0.0, false);

    let bits = "sketch bits(x: f32[N], z: i32[N]) -> (y: i32[N], w: f32[N])
kernel main over (p in 1) {
  store y[0 :+ N] = bits_i32(load x[0 :+ N])
  store w[0 :+ N] = bits_f32((load z[0 :+ N]) + 0x3f800000)
}
";
    compare(
        bits,
        &[("N", 50)],
        &[input(DType::F32, &[50], 1), input(DType::I32, &[50], 2)],
        0.0,
        false,
    );
}

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
