//! Products of tensors in panels, either way round and of all widths, against the interpreter.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use akg_core::expr::Bindings;
use akg_core::sketch::interpret;
use akg_core::{DType, Sketch, Tensor};
use akg_dsl_cpp::lower_program;

/// Small integers, whose products and sums are exact in whatever order.
fn numbers(dtype: DType, shape: [usize; 2]) -> Tensor {
    let values = (0..shape[0] * shape[1]).map(|i| (i * 7919 % 31) as f32 - 15.0);
    match dtype {
        DType::F64 => Tensor::from_slice(shape, &values.map(f64::from).collect::<Vec<_>>()),
        _ => Tensor::from_slice(shape, &values.collect::<Vec<_>>()),
    }
    .unwrap()
}

/// Products `x * w` of extents m, n, k in tiles, with each operand as it is and transposed in memory.
fn check(dtype: DType, [m, n, k]: [usize; 3], [bm, bn, bk]: [usize; 3]) {
    if support::compiler_missing() {
        return;
    }
    let text = format!(
        "sketch products(x: {dtype}[{m}, {k}], xt: {dtype}[{k}, {m}], w: {dtype}[{k}, {n}], wt: {dtype}[{n}, {k}]) -> (y: {dtype}[{m}, {n}], z: {dtype}[{m}, {n}])
kernel main over (i in ceildiv({m}, {bm}), j in ceildiv({n}, {bn})) {{
  plain = zeros {dtype}[{bm}, {bn}]
  turned = zeros {dtype}[{bm}, {bn}]
  for p in 0..{k} step {bk} {{
    a = load x[i*{bm} :+ {bm}, p :+ {bk}] else 0
    b = load w[p :+ {bk}, j*{bn} :+ {bn}] else 0
    plain = plain + dot(a, b) ieee promote(8)
    c = load xt[p :+ {bk}, i*{bm} :+ {bm}] else 0
    d = load wt[j*{bn} :+ {bn}, p :+ {bk}] else 0
    turned = turned + dot(trans(c), trans(d)) ieee promote(32)
  }}
  store y[i*{bm} :+ {bm}, j*{bn} :+ {bn}] = plain
  store z[i*{bm} :+ {bm}, j*{bn} :+ {bn}] = turned
}}
"
    );
    let sketch = Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)));
    let dims = Bindings::new();
    let program = sketch.elaborate(&sketch.default_knobs(), &dims).unwrap();
    let inputs = [[m, k], [k, m], [k, n], [n, k]].map(|shape| numbers(dtype, shape));
    let want = interpret(&program, &inputs, &dims).unwrap();
    for target in support::hosts() {
        let source = lower_program(&program, &target, &Default::default()).unwrap();
        assert_eq!(source.text.matches("akg_pack<").count(), 2, "{}", source.text);
        assert_eq!(
            source.text.matches("akg_pack_transposed<").count(),
            2,
            "{}",
            source.text
        );
        let got = support::run_on(&target, &program, &inputs, &dims);
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(
                got.bytes(),
                want.bytes(),
                "{}-byte vectors\n{text}",
                target.vector_bytes
            );
        }
    }
}

#[test]
fn tiles_that_are_whole_blocks() {
    check(DType::F32, [84, 128, 64], [84, 64, 32]);
}

#[test]
fn tiles_that_leave_the_tensors() {
    check(DType::F32, [101, 147, 90], [46, 70, 40]);
    check(DType::F64, [50, 75, 41], [23, 37, 19]);
}

#[test]
fn panels_of_few_rows_and_columns() {
    for rows in 1..=5 {
        check(DType::F32, [2 * rows + 1, 2 * rows + 9, 37], [rows, rows + 4, 21]);
    }
}
