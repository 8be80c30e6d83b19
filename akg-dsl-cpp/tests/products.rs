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
        // The left operand that is turned is read where it lies if all of it is there.
        let turned = usize::from(m % bm != 0 || k % bk != 0);
        assert_eq!(
            source.text.matches("akg_pack<").count(),
            1 + turned,
            "{}",
            source.text
        );
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

/// A convolution of places along two dimensions by a step, with taps that are summed with the channels and others that are
/// walked, over an image with padding before and after. The columns of its products are places, or rows of the result.
fn check_windows(
    rows_and_channels: [i64; 2],
    image: [i64; 3],
    taps: [i64; 3],
    padding: i64,
    step: i64,
    tile: [i64; 2],
) {
    for turned in [false, true] {
        check_tiles(rows_and_channels, image, taps, padding, step, tile, turned);
    }
}

fn check_tiles(
    [rows, channels]: [i64; 2],
    image: [i64; 3],
    taps: [i64; 3],
    padding: i64,
    step: i64,
    tile: [i64; 2],
    turned: bool,
) {
    if support::compiler_missing() {
        return;
    }
    let [depth, height, width] = image;
    let [kd, kh, kw] = taps;
    let places = |extent: i64, taps: i64| (extent + 2 * padding - taps) / step + 1;
    let (h, w) = (places(height, kh), places(width, kw));
    let [th, tw] = tile;
    let k = channels * kd;
    let weights = format!("load a[r, s, 0 :+ {k}, 0 :+ {rows}]");
    let part = format!("reshape(b, [{k}, {th}*{tw}])");
    let (sums, operands, result) = if turned {
        (
            format!("{th}*{tw}, {rows}"),
            format!("trans({part}), {weights}"),
            "trans(acc)",
        )
    } else {
        (
            format!("{rows}, {th}*{tw}"),
            format!("trans({weights}), {part}"),
            "acc",
        )
    };
    let text = format!(
        "sketch windows(x: f32[{channels}, {depth}, {height}, {width}], a: f32[{kh}, {kw}, {k}, {rows}]) -> y: f32[{rows}, {h}, {w}]
kernel main over (i in ceildiv({h}, {th}), j in ceildiv({w}, {tw})) {{
  acc = zeros f32[{sums}]
  for r in 0..{kh}, s in 0..{kw} {{
    b = load x[0 :+ {channels}, 0 :+ {kd}, {step}*(i*{th}) + r - {padding} :+ {th} by {step}, {step}*(j*{tw}) + s - {padding} :+ {tw} by {step}] else 0
    acc = acc + dot({operands}) ieee promote(32)
  }}
  store y[0 :+ {rows}, i*{th} :+ {th}, j*{tw} :+ {tw}] = reshape({result}, [{rows}, {th}, {tw}])
}}
"
    );
    let sketch = Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)));
    let dims = Bindings::new();
    let program = sketch.elaborate(&sketch.default_knobs(), &dims).unwrap();
    let x = numbers(
        DType::F32,
        [(channels * depth) as usize, (height * width) as usize],
    );
    let a = numbers(DType::F32, [(kh * kw) as usize, (channels * kd * rows) as usize]);
    let inputs = [
        x.reshape([channels, depth, height, width].map(|e| e as usize))
            .unwrap(),
        a.reshape([kh, kw, channels * kd, rows].map(|e| e as usize))
            .unwrap(),
    ];
    let want = interpret(&program, &inputs, &dims).unwrap();
    for target in support::hosts() {
        let got = support::run_on(&target, &program, &inputs, &dims);
        assert_eq!(
            got[0].bytes(),
            want[0].bytes(),
            "{}-byte vectors\n{text}",
            target.vector_bytes
        );
    }
}

#[test]
fn windows_over_one_row_of_places() {
    check_windows([9, 5], [2, 7, 40], [2, 1, 3], 0, 1, [1, 38]);
    check_windows([9, 5], [2, 7, 40], [2, 3, 3], 1, 1, [1, 17]);
    check_windows([4, 3], [2, 9, 37], [2, 3, 5], 2, 2, [1, 11]);
}

#[test]
fn windows_over_rows_of_places() {
    check_windows([6, 4], [3, 9, 14], [3, 3, 3], 1, 1, [4, 14]);
    check_windows([6, 4], [1, 9, 14], [1, 3, 3], 1, 2, [2, 7]);
    check_windows([6, 4], [2, 5, 9], [2, 1, 3], 0, 1, [5, 7]);
}

#[test]
fn windows_whose_results_have_whole_vectors_of_rows() {
    check_windows([48, 40], [1, 9, 14], [1, 3, 3], 1, 1, [9, 14]);
    check_windows([32, 70], [1, 11, 21], [1, 3, 5], 2, 2, [3, 5]);
    check_windows([16, 12], [3, 6, 50], [3, 1, 3], 1, 1, [1, 50]);
    check_windows([80, 9], [1, 7, 7], [1, 3, 3], 1, 1, [7, 7]);
}
