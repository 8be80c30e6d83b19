//! Operators of single elements.

use akg_core::DType;

use crate::{FLOATS, INTS, compare, input, support, tensor};

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
        if dtype == DType::I64 {
            expressions.extend(["philox(a, b)", "philox(a * 5000000029, b * 70000000001)"]);
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
