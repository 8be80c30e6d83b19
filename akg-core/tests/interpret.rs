//! What the sketch interpreter computes and what it refuses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helper functions of tests fail by panicking"
)]

use akg_core::expr::Bindings;
use akg_core::sketch::{Folds, Sketch, cost, interpret, interpret_folds};
use akg_core::source::Knobs;
use akg_core::{DType, Error, ErrorKind, Result, Target, Tensor};
use proptest::prelude::*;

fn run_folds(text: &str, inputs: &[Tensor], dims: &[(&str, i64)], folds: Folds) -> Result<Vec<Tensor>> {
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{}", d.render(text)));
    let dims: Bindings = dims.iter().map(|(n, v)| ((*n).into(), *v)).collect();
    let program = sketch
        .elaborate(&Knobs::new(), &dims)
        .unwrap_or_else(|d| panic!("{}", d.render(text)));
    match folds {
        Folds::Sequential => interpret(&program, inputs, &dims),
        Folds::Halves => interpret_folds(&program, inputs, &dims, folds),
    }
}

fn run(text: &str, inputs: &[Tensor], dims: &[(&str, i64)]) -> Result<Vec<Tensor>> {
    run_folds(text, inputs, dims, Folds::Sequential)
}

fn values(outputs: &Result<Vec<Tensor>>, number: usize) -> Vec<f64> {
    outputs.as_ref().unwrap()[number].to_f64().unwrap()
}

fn error(outputs: Result<Vec<Tensor>>) -> Error {
    outputs.err().unwrap()
}

fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len()], values).unwrap()
}

#[test]
fn regions_leave_the_tensor_on_both_sides_and_run_backwards() {
    let text = "
sketch s(x: f32[L]) -> (y: f32[6], z: f32[L])
kernel main over (p in 1) {
  store y[0 :+ 6] = load x[-2 :+ 6 by 1] else -1
  store z[L - 1 + 2 :+ 5 by -1] = load x[-2 :+ 5] else 9
}";
    let out = run(text, &[f32s(&[1.0, 2.0, 3.0])], &[("L", 3)]);
    assert_eq!(values(&out, 0), [-1.0, -1.0, 1.0, 2.0, 3.0, -1.0]);
    // Store coordinates are 4, 3, 2, 1, 0: the two outside are dropped.
    assert_eq!(values(&out, 1), [3.0, 2.0, 1.0]);
}

#[test]
fn gathers_and_coordinates_from_tiles() {
    let text = "
sketch s(i: i32[3], x: f32[2, 4]) -> (y: f32[3], z: f32[2])
kernel main over (p in 1) {
  store y[0 :+ 3] = load x[1, load i[0 :+ 3]] else 0
  store z[0 :+ 2] = load x[0 :+ 2, load i[1]] else 0
}";
    let i = Tensor::from_slice([3], &[3, 1, -1]).unwrap();
    let x = Tensor::from_slice([2, 4], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
    let out = run(text, &[i, x], &[]);
    assert_eq!(values(&out, 0), [7.0, 5.0, 0.0]);
    assert_eq!(values(&out, 1), [1.0, 5.0]);
}

#[test]
fn every_operator_rounds_to_its_type() {
    let text = "
sketch s(x: f32[4]) -> (h: f16[4], b: bf16[4], i: i8[4])
kernel main over (p in 1) {
  t = load x[0 :+ 4]
  store h[0 :+ 4] = f16(t) + 1
  store b[0 :+ 4] = bf16(t) + 1
  store i[0 :+ 4] = i8(i32(t)) * 2
}";
    let out = run(text, &[f32s(&[2048.0, 1e-4, -100.7, 256.0])], &[]);
    assert_eq!(values(&out, 0)[..2], [2048.0, 1.0]);
    assert_eq!(values(&out, 1), [2048.0, 1.0, -99.5, 256.0]);
    assert_eq!(values(&out, 2)[2..], [56.0, 0.0]);
}

#[test]
fn dot_methods_differ_in_what_they_read() {
    let text = "
sketch s(x: f32[1, 2]) -> (a: f32[1, 1], b: f32[1, 1], c: f32[1, 1], d: f32[1, 1])
kernel main over (p in 1) {
  t = load x[0 :+ 1, 0 :+ 2]
  one = full f32[2, 1] 1
  store a[0 :+ 1, 0 :+ 1] = dot(t, one) ieee
  store b[0 :+ 1, 0 :+ 1] = dot(t, one) tf32
  store c[0 :+ 1, 0 :+ 1] = dot(f16(t), f16(one)) f16
  store d[0 :+ 1, 0 :+ 1] = dot(bf16(t), bf16(one)) bf16
}";
    let t = 1.0 + 2f32.powi(-9) + 2f32.powi(-14);
    let x = Tensor::from_slice([1, 2], &[t, 0.0]).unwrap();
    let out = run(text, &[x], &[]);
    let results: Vec<f64> = (0..4).map(|i| values(&out, i)[0]).collect();
    let rounded = 1.0 + 2f64.powi(-9);
    assert_eq!(results, [f64::from(t), rounded, rounded, 1.0]);
}

#[test]
fn promotion_keeps_what_a_long_sum_loses() {
    let sum = |promote: &str| {
        let text = format!(
            "
sketch s(x: f32[1, K]) -> y: f64[1, 1]
kernel main over (p in 1) {{
  t = load x[0 :+ 1, 0 :+ 4096]
  store y[0 :+ 1, 0 :+ 1] = dot(t, full f32[4096, 1] 1, zeros f64[1, 1]) ieee {promote}
}}"
        );
        let x = Tensor::from_slice([1, 4096], &[0.1f32; 4096]).unwrap();
        (values(&run(&text, &[x], &[("K", 4096)]), 0)[0] - 4096.0 * f64::from(0.1f32)).abs()
    };
    assert!(sum("promote(16)") < 1e-4 && sum("") > 1e-3);
}

#[test]
fn nan_wins_min_max_and_argmax_and_ties_go_to_the_first() {
    let text = "
sketch s(x: f32[4]) -> (m: f32[2], i: i32[3])
kernel main over (p in 1) {
  t = load x[0 :+ 4]
  store m[0] = reduce_max(t, 0)
  store m[1] = reduce_min(select(isnan(t), 0, t), 0)
  store i[0] = argmax(t, 0)
  store i[1] = argmin(t, 0)
  store i[2] = argmax(select(isnan(t), 0, t), 0)
}";
    let out = run(text, &[f32s(&[1.0, 7.0, f32::NAN, 7.0])], &[]);
    assert!(values(&out, 0)[0].is_nan());
    assert_eq!(values(&out, 0)[1], 0.0);
    assert_eq!(values(&out, 1), [2.0, 2.0, 1.0]);
}

#[test]
fn scans_run_both_ways_with_and_without_the_element() {
    let text = "
sketch s(x: i32[4]) -> (a: i32[4], b: i32[4], c: i32[4], d: i32[4])
kernel main over (p in 1) {
  t = load x[0 :+ 4]
  store a[0 :+ 4] = scan_sum(t, 0)
  store b[0 :+ 4] = scan_sum(t, 0, exclusive)
  store c[0 :+ 4] = scan_sum(t, 0, exclusive, reverse)
  store d[0 :+ 4] = scan_max(t, 0, reverse)
}";
    let out = run(text, &[Tensor::from_slice([4], &[3, 1, 4, 2]).unwrap()], &[]);
    assert_eq!(values(&out, 0), [3.0, 4.0, 8.0, 10.0]);
    assert_eq!(values(&out, 1), [0.0, 3.0, 4.0, 8.0]);
    assert_eq!(values(&out, 2), [7.0, 6.0, 2.0, 0.0]);
    assert_eq!(values(&out, 3), [4.0, 4.0, 4.0, 2.0]);
}

#[test]
fn a_wrong_combine_shows_when_folds_are_split() {
    let sum = |combine: &str| {
        let text = format!(
            "
sketch s(x: f32[L]) -> y: f32[1]
kernel main over (p in 1) {{
  a = zeros f32[]
  for l in 0..L {{ a = a + load x[l] }} combine (a: b) {{ a = {combine} }}
  store y[0] = a
}}"
        );
        let x = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        [Folds::Sequential, Folds::Halves]
            .map(|folds| values(&run_folds(&text, std::slice::from_ref(&x), &[("L", 5)], folds), 0)[0])
    };
    assert_eq!(sum("a + b"), [15.0, 15.0]);
    assert_eq!(sum("max(a, b)"), [15.0, 12.0]);
}

#[test]
fn programs_of_a_cooperative_kernel_see_each_other_after_a_barrier() {
    let rotate = |barrier: &str| {
        let text = format!(
            "
sketch s(x: i32[4]) -> y: i32[4]
buffer b: i32[4]
kernel main over (p in 4) cooperative {{
  store b[p] = load x[p]
  {barrier}
  store y[p] = load b[(p + 1) % 4]
}}"
        );
        run(&text, &[Tensor::from_slice([4], &[1, 2, 3, 4]).unwrap()], &[])
    };
    assert_eq!(values(&rotate("barrier"), 0), [2.0, 3.0, 4.0, 1.0]);
    let message = error(rotate("")).to_string();
    assert!(message.contains("at the same time"), "{message}");
}

#[test]
fn teams_of_a_cooperative_kernel_meet_by_themselves() {
    let sums = |ends: &str, read: &str| {
        let text = format!(
            "
sketch s(x: i32[5, 3]) -> y: i32[5, 3]
buffer b: i32[5, 3]
kernel main over (g in 2, q in 3) cooperative along q {{
  for r in g..{ends} step 2 {{
    v = load x[r, q]
    store b[r, q] = v
    barrier
    store y[r, q] = v * reduce_sum(load b[{read}, 0 :+ 3], 0)
  }}
}}"
        );
        let x: Vec<i32> = (1..16).collect();
        run(&text, &[Tensor::from_slice([5, 3], &x).unwrap()], &[])
    };
    let rows =
        [6, 15, 24, 33, 42]
            .into_iter()
            .zip([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]]);
    let expected: Vec<f64> = rows
        .flat_map(|(sum, row)| row.map(|v| f64::from(sum * v)))
        .collect();
    assert_eq!(values(&sums("5", "r"), 0), expected);
    let message = error(sums("5", "r // 2 * 2")).to_string();
    assert!(message.contains("at the same time"), "{message}");
    let message = error(sums("5 - q", "r")).to_string();
    assert!(message.contains("disagree on a loop"), "{message}");
}

#[test]
fn kernels_see_tensors_in_extents_of_their_own() {
    let text = "
sketch s(x: i32[2, 6]) -> y: i32[2, 6]
buffer b: i32[4, 3]
kernel first over (p in 3) seeing x as [3, 4] {
  v = load x[p, 0 :+ 4]
  store b[0 :+ 4, p] = v
}
kernel second over (p in 6) seeing b as [6, 2], y as [12] {
  store y[p*2 :+ 3] = load b[p, 0 :+ 3] else 9
}";
    let x: Vec<i32> = (1..13).collect();
    let x = Tensor::from_slice([2, 6], &x).unwrap();
    let message = error(run(text, std::slice::from_ref(&x), &[])).to_string();
    assert!(message.contains("y[2]"), "{message}");
    let y = run(&text.replace(":+ 3", ":+ 2"), &[x], &[]);
    // Columns of the first are rows of four; the buffer's elements stay in order.
    assert_eq!(
        values(&y, 0),
        [1.0, 5.0, 9.0, 2.0, 6.0, 10.0, 3.0, 7.0, 11.0, 4.0, 8.0, 12.0]
    );
    assert_eq!(y.unwrap()[0].shape(), [2, 6]);
}

#[test]
fn reading_what_nobody_wrote_is_an_error() {
    let text = "
sketch s(x: f32[4]) -> y: f32[4]
buffer b: f32[4]
kernel first over (p in 1) { store b[0 :+ 3] = load x[0 :+ 3] }
kernel second over (p in 1) { store y[0 :+ 4] = load b[0 :+ 4] }";
    let message = error(run(text, &[f32s(&[0.0; 4])], &[])).to_string();
    assert!(
        message.contains("b[3] was never written") && message.contains("second"),
        "{message}"
    );
}

#[test]
fn leaving_the_tensor_without_else_is_an_error() {
    let text = "
sketch s(x: f32[2, 3]) -> y: f32[2, 4]
kernel main over (p in 2) { store y[p, 0 :+ 4] = load x[p, 0 :+ 4] }";
    let x = Tensor::zeros(DType::F32, [2, 3]).unwrap();
    let message = error(run(text, &[x], &[])).to_string();
    assert!(
        message.contains("x[0, 3]") && message.contains("p=0"),
        "{message}"
    );
}

#[test]
fn two_programs_that_store_one_element_race() {
    let store = |op: &str| {
        let text = format!(
            "
sketch s(x: f32[4]) -> y: f32[1]
kernel clear over (p in 1) {{ store y[0] = zeros f32[] }}
kernel main over (p in 4) {{ store y[0] {op} load x[p] }}"
        );
        run(&text, &[f32s(&[1.0, 2.0, 3.0, 4.0])], &[])
    };
    assert_eq!(values(&store("+="), 0), [10.0]);
    let message = error(store("=")).to_string();
    assert!(
        message.contains("y[0] is written by programs 0 and 1"),
        "{message}"
    );
}

#[test]
fn outputs_must_be_complete() {
    let text = "
sketch s(x: f32[4]) -> y: f32[4]
kernel main over (p in 1) { store y[1 :+ 4] = load x[0 :+ 4] }";
    let message = error(run(text, &[f32s(&[0.0; 4])], &[])).to_string();
    assert!(message.contains("`y`[0] is never stored"), "{message}");
}

#[test]
fn an_output_that_updates_an_input_begins_as_its_contents() {
    let step = |body: &str| {
        let text = format!("\nsketch s(x: f32[2], c: f32[4]) -> new: f32[4] updates c\n{body}");
        run(&text, &[f32s(&[8.0, 9.0]), f32s(&[1.0, 2.0, 3.0, 4.0])], &[])
    };
    let replaced = step("kernel main over (p in 2) { store new[p*2] = load x[p] }");
    assert_eq!(values(&replaced, 0), [8.0, 2.0, 9.0, 4.0]);
    let added = step("kernel main over (p in 2) { store new[3] += load x[p] }");
    assert_eq!(values(&added, 0), [1.0, 2.0, 3.0, 21.0]);
    let doubled = step("kernel main over (p in 4) { store new[p] = 2*(load new[p]) }");
    assert_eq!(values(&doubled, 0), [2.0, 4.0, 6.0, 8.0]);
    let raced = step("kernel main over (p in 3) { store new[p] = load new[p + 1] }");
    assert!(raced.is_err());
}

#[test]
fn inputs_must_match() {
    let text = "
sketch s(x: f32[4]) -> y: f32[4]
kernel main over (p in 1) { store y[0 :+ 4] = load x[0 :+ 4] }";
    assert!(run(text, &[], &[]).is_err());
    assert!(run(text, &[f32s(&[0.0; 3])], &[]).is_err());
    assert!(run(text, &[Tensor::zeros(DType::F64, [4]).unwrap()], &[]).is_err());
}

#[test]
fn integers_refuse_what_machines_do_not_define() {
    let apply = |op: &str| {
        let text = format!(
            "
sketch s(a: i32[1], b: i32[1]) -> y: i32[1]
kernel main over (p in 1) {{ store y[p] = (load a[p]) {op} (load b[p]) }}"
        );
        move |a: i32, b: i32| {
            let scalar = |v| Tensor::from_slice([1], &[v]).unwrap();
            run(&text, &[scalar(a), scalar(b)], &[])
        }
    };
    assert_eq!(values(&apply("//")(-7, 2), 0), [-4.0]);
    assert_eq!(values(&apply("%")(-7, 2), 0), [1.0]);
    assert_eq!(values(&apply("<<")(3, 31), 0), [f64::from(i32::MIN)]);
    assert_eq!(values(&apply(">>")(-8, 1), 0), [-4.0]);
    assert!(
        error(apply("//")(1, 0))
            .to_string()
            .contains("divides an integer by zero")
    );
    assert!(error(apply("<<")(1, 32)).to_string().contains("shifts"));
}

#[test]
fn random_numbers_are_those_of_philox() {
    let text = "
sketch s(key: i64[2], counter: i64[2]) -> y: i64[2]
kernel main over (p in 2) { store y[p] = philox(load key[p], load counter[p]) }";
    let pair = |a: i64, b: i64| Tensor::from_slice([2], &[a, b]).unwrap();
    let out = run(text, &[pair(0, 1), pair(0, 0)], &[]);
    // The first is in the known-answer file of Random123.
    assert_eq!(values(&out, 0)[0], f64::from(0x6627_e8d5_u32));
    assert_ne!(values(&out, 0)[0], values(&out, 0)[1]);
    let narrow = Sketch::parse(&text.replace("i64", "i32")).unwrap();
    let refused = narrow.elaborate(&Knobs::new(), &Bindings::new()).unwrap_err();
    assert!(refused.render(text).contains("does not apply to i32"));
}

/// Replaces the integer literal number `which` (modulo their count) of `text` by `value`.
fn with_literal(text: &str, which: usize, value: u32) -> String {
    let bytes = text.as_bytes();
    let starts: Vec<usize> = (1..bytes.len())
        .filter(|i| bytes[*i].is_ascii_digit() && b" *+(-,".contains(&bytes[i - 1]))
        .collect();
    let start = starts[which % starts.len()];
    let digits = bytes[start..].iter().take_while(|b| b.is_ascii_digit()).count();
    format!("{}{value}{}", &text[..start], &text[start + digits..])
}

proptest! {
    #[test]
    fn nonsense_is_refused_without_a_panic(case in any::<prop::sample::Index>(), which: usize, value in 0u32..70) {
        let cases = akg_core::conformance::sketch_cases().unwrap();
        let case = case.get(&cases);
        let text = with_literal(case.text, which, value);
        let Ok(sketch) = Sketch::parse(&text) else { return Ok(()) };
        let Ok(program) = sketch.elaborate(&case.knobs, &case.dims) else { return Ok(()) };
        for folds in [Folds::Sequential, Folds::Halves] {
            if let Err(error) = interpret_folds(&program, &case.inputs, &case.dims, folds) {
                prop_assert_eq!(error.kind(), ErrorKind::InvalidInput);
            }
        }
        if let Ok(cost) = cost(&program, &case.dims, &Target::new("cpu", "any")) {
            prop_assert!(cost.seconds.is_finite() && cost.seconds > 0.0);
        }
    }

    #[test]
    fn transposing_and_reshaping_move_elements(a in 1usize..4, b in 1usize..4, c in 1usize..4) {
        let text = format!("
sketch s(x: i32[{a}, {b}, {c}]) -> y: i32[{c}, {ab}]
kernel main over (p in 1) {{
  t = trans(load x[0 :+ {a}, 0 :+ {b}, 0 :+ {c}], [2, 1, 0])
  store y[0 :+ {c}, 0 :+ {ab}] = reshape(t, [{c}, {ab}])
}}", ab = a * b);
        let x: Vec<i32> = (0..(a * b * c) as i32).collect();
        let out = run(&text, &[Tensor::from_slice([a, b, c], &x).unwrap()], &[]);
        let expected: Vec<f64> = (0..c)
            .flat_map(|k| (0..b).flat_map(move |j| (0..a).map(move |i| ((i * b + j) * c + k) as f64)))
            .collect();
        prop_assert_eq!(values(&out, 0), expected);
    }

    #[test]
    fn tails_do_not_depend_on_the_tile(l in 1usize..40, tile in 1usize..17) {
        let text = format!("
sketch s(x: f32[L]) -> (y: f32[L], z: f32[1])
kernel main over (p in ceildiv(L, {tile})) {{ store y[p*{tile} :+ {tile}] = -(load x[p*{tile} :+ {tile}] else 0) }}
kernel sum over (p in 1) {{
  s = zeros f32[{tile}]
  for l in 0..L step {tile} {{ s = s + (load x[l :+ {tile}] else 0) }}
  store z[0] = reduce_sum(s, 0)
}}");
        let x: Vec<f32> = (0..l).map(|i| i as f32 - 7.5).collect();
        let out = run(&text, &[f32s(&x)], &[("L", l as i64)]);
        prop_assert_eq!(values(&out, 0), x.iter().map(|v| f64::from(-v)).collect::<Vec<_>>());
        prop_assert_eq!(values(&out, 1)[0], x.iter().map(|v| f64::from(*v)).sum::<f64>());
    }
}
