//! The cost model against counts made by hand, and its monotonicity.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helper functions of tests fail by panicking"
)]

use akg_core::expr::Bindings;
use akg_core::sketch::{Cost, KernelCost, Sketch, cost, cost_with, examples};
use akg_core::source::{KnobValue, Knobs};
use akg_core::target::Residency;
use akg_core::{DType, Target};
use proptest::prelude::*;

fn target() -> Target {
    let mut target = Target::new("test", "test");
    target.cores = 4;
    target.bandwidth = 1e10;
    target.peak = [(DType::F32, 1e12), (DType::F16, 8e12)].into();
    target.caches = vec![1 << 10];
    target.tile_bytes = 1 << 20;
    target.launch_seconds = 0.0;
    target
}

fn estimate(name: &str, knobs: &[(&str, i64)], dims: &[(&str, i64)], target: &Target) -> Cost {
    let (_, text) = examples().iter().find(|(n, _)| *n == name).unwrap();
    let knobs: Knobs = knobs
        .iter()
        .map(|(n, v)| ((*n).to_owned(), KnobValue::Int(*v)))
        .collect();
    let dims: Bindings = dims.iter().map(|(n, v)| ((*n).into(), *v)).collect();
    let sketch = Sketch::parse(text).unwrap();
    let fixed = sketch
        .elaborate(&knobs, &dims)
        .unwrap_or_else(|d| panic!("{}", d.render(text)));
    cost(&fixed, &dims, target).unwrap()
}

fn gemm(m: i64, n: i64, k: i64, block: i64, target: &Target) -> KernelCost {
    let knobs = [
        ("BM", block),
        ("BN", block),
        ("BK", 32),
        ("GROUP", 1),
        ("STAGES", 2),
    ];
    let dims = [("M", m), ("N", n), ("K", k)];
    estimate("gemm_tail", &knobs, &dims, target).kernels.remove(0)
}

#[test]
fn a_matrix_product_by_hand() {
    // Rows 0..100 in 4 tiles of 32, columns 0..64 in 2, depth 0..70 in 3 steps.
    let c = gemm(100, 64, 70, 32, &target());
    assert_eq!(c.programs, 8);
    // Each row of x once for every column tile, each row of w once for every row tile, b once for every row tile.
    assert_eq!(
        c.requested_bytes,
        4.0 * (2 * 100 * 70 + 4 * 64 * 70 + 4 * 64) as f64
    );
    assert_eq!(c.distinct_bytes, 4.0 * (100 * 70 + 64 * 70 + 64) as f64);
    assert_eq!(c.written_bytes, 4.0 * (100 * 64) as f64);
    assert_eq!(c.dot_flops["ieee f32"], (8 * 3 * 2 * 32 * 32 * 32) as f64);
    // t = acc + b; SLOPE * t; t > 0; select.
    assert_eq!(c.element_ops, (8 * 4 * 32 * 32) as f64);
    // The accumulator, two stages of both operands, one transposed in place.
    assert_eq!(c.tile_bytes, 4 * (32 * 32 + 2 * 32 * 32 + 2 * 32 * 32));
    // 4 programs (2 by 2) run together: half of what they ask for is shared.
    assert_eq!(
        c.memory_bytes,
        4.0 * (100.0 * 70.0 + 2.0 * 64.0 * 70.0 + 64.0) + c.written_bytes
    );
    assert_eq!(c.utilisation, 1.0);
}

#[test]
fn softmax_by_hand() {
    let knobs = [("RB", 2), ("BL", 64)];
    let c = &estimate("softmax_online", &knobs, &[("R", 8), ("L", 100)], &target()).kernels[0];
    assert_eq!(c.programs, 4);
    assert_eq!(c.requested_bytes, 2.0 * 4.0 * 800.0);
    assert_eq!(c.distinct_bytes, 4.0 * 800.0);
    assert_eq!(c.written_bytes, 4.0 * 800.0);
    assert!(c.dot_flops.is_empty());
    // Per row, 2 steps of 64. First pass on elements: max, subtract, exp, sum; on the row: max, compare, select,
    // subtract, exp, multiply, add. Second pass on elements: subtract, exp, divide.
    let row = 2.0 * (64.0 * (1.0 + 1.0 + 8.0 + 1.0) + 14.0) + 2.0 * 64.0 * (1.0 + 8.0 + 4.0);
    assert_eq!(c.element_ops, 8.0 * row);

    let fits = &estimate("softmax_fits", &[("RB", 2)], &[("R", 8), ("L", 100)], &target()).kernels[0];
    assert_eq!(fits.requested_bytes, 4.0 * 800.0);
    // The exponentials replace the elements; the row maxima stand beside them.
    assert_eq!(fits.tile_bytes, 4 * (2 * 128 + 2));
}

#[test]
fn causal_attention_skips_half() {
    let dims = [("G", 2), ("S", 64), ("D", 16)];
    let knobs = [("BM", 16), ("BN", 16)];
    let c = &estimate("attention", &knobs, &dims, &target()).kernels[0];
    // Row tiles 0..4 see 1, 2, 3 and 4 column tiles.
    let products = 2.0 * 10.0;
    assert_eq!(
        c.dot_flops["f16 f16"],
        products * 2.0 * 2.0 * (16 * 16 * 16) as f64
    );
    assert_eq!(
        c.requested_bytes,
        2.0 * (2 * 64 * 16) as f64 + products * 2.0 * 2.0 * (16 * 16) as f64
    );
    assert_eq!(c.distinct_bytes, 3.0 * 2.0 * (2 * 64 * 16) as f64);
}

#[test]
fn grouping_programs_reuses_what_they_share() {
    let mut target = target();
    target.cores = 16;
    let dims = [("M", 512), ("N", 512), ("K", 512)];
    let grouped = |group| {
        let knobs = [("BM", 32), ("BN", 32), ("GROUP", group)];
        estimate("gemm_tail", &knobs, &dims, &target).kernels[0].memory_bytes
    };
    assert!(grouped(8) < grouped(1));
}

#[test]
fn a_large_cache_reads_everything_once() {
    let mut target = target();
    target.caches = vec![1 << 30];
    let c = gemm(256, 256, 256, 32, &target);
    assert_eq!(c.memory_bytes, c.distinct_bytes + c.written_bytes);
}

#[test]
fn symbolic_extents_cost_the_same() {
    let (_, text) = examples().iter().find(|(n, _)| *n == "gemm_tail").unwrap();
    let dims: Bindings = [("M", 100), ("N", 64), ("K", 70)]
        .into_iter()
        .map(|(n, v)| (n.into(), v))
        .collect();
    let sketch = Sketch::parse(text).unwrap();
    let of =
        |bound: &Bindings| cost(&sketch.elaborate(&Knobs::new(), bound).unwrap(), &dims, &target()).unwrap();
    assert_eq!(of(&Bindings::new()), of(&dims));
}

#[test]
fn costs_print_and_survive_json() {
    let c = estimate("cumsum", &[], &[("R", 3), ("L", 10000)], &target());
    let text = c.to_string();
    assert_eq!(text.lines().count(), 4);
    assert!(text.contains("sums: ") && text.contains("total: "), "{text}");
    let back: Cost = serde_json::from_str(&serde_json::to_string(&c).unwrap()).unwrap();
    assert_eq!(back, c);
}

/// A device with tensor cores whose cores several programs share.
fn gpu() -> Target {
    let mut target = Target::new("test", "test");
    (target.cores, target.threads, target.clock) = (100, 2048, 1e9);
    target.bandwidth = 4e12;
    target.peak = [(DType::F32, 256e11), (DType::F64, 128e11), (DType::F16, 4096e11)].into();
    target.tile_bytes = 227 << 10;
    target.caches = vec![256 << 10, 50 << 20];
    target.launch_seconds = 0.0;
    target.residency = Some(Residency {
        programs: 32,
        threads_of_program: 1024,
        registers: 65536,
        tile_bytes: 228 << 10,
        reserved_bytes: 1024,
    });
    target
}

/// Seconds of a product of halves in square tiles.
fn product(extents: [i64; 3], tile: [i64; 3], stages: i64, warps: u32, target: &Target) -> f64 {
    let [m, n, k] = extents;
    let [bm, bn, bk] = tile;
    let text = format!(
        "sketch product(x: f16[{m}, {k}], w: f16[{k}, {n}]) -> y: f32[{m}, {n}]\n\nkernel main over (p in ceildiv({m}, {bm}), \
         q in ceildiv({n}, {bn})) grouped p by 8 {{\n  sum = zeros f32[{bm}, {bn}]\n  for r in 0..{k} step {bk} \
         pipeline({stages}) {{\n    a = load x[p*{bm} :+ {bm}, r :+ {bk}] else 0.0\n    b = load w[r :+ {bk}, q*{bn} :+ \
         {bn}] else 0.0\n    sum = dot(a, b, sum) f16\n  }}\n  store y[p*{bm} :+ {bm}, q*{bn} :+ {bn}] = sum\n}}\n"
    );
    let sketch = Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)));
    let program = sketch.elaborate(&Knobs::new(), &Bindings::new()).unwrap();
    let warps = [("main".to_owned(), warps)].into();
    cost_with(&program, &Bindings::new(), target, &warps)
        .unwrap()
        .seconds
}

#[test]
fn products_want_tiles_that_fit_a_core_of_a_gpu() {
    let seconds = |tile, stages, warps| product([4096; 3], tile, stages, warps, &gpu());
    let good = seconds([128, 128, 64], 4, 8);
    let peak = 2.0 * 4096f64.powi(3) / 4096e11;
    assert!(peak < good && good < 1.6 * peak, "{good} for {peak}");
    // Small tiles are read again and again.
    assert!(seconds([32, 32, 64], 4, 4) > 1.5 * good);
    // 512 sums do not fit the registers of a thread.
    assert!(seconds([256, 256, 64], 3, 4) > 1.5 * good);
    // 16 quarters of a core's memory do not fit it.
    assert_eq!(seconds([128, 128, 64], 16, 8), f64::INFINITY);
    // Nothing is ready when it is needed.
    assert!(seconds([128, 128, 64], 1, 8) > 1.5 * good);
    // Three quarters of the core have nothing to do while its only program multiplies.
    let alone = |warps| product([6400, 64, 4096], [64, 64, 64], 4, warps, &gpu());
    assert!(alone(1) > 1.3 * alone(4));
}

/// Seconds of a product of halves whose sum is one step, in tiles of 64 rows, by programs that take `strip` of them with so
/// many stages.
fn strips([strip, columns, stages]: [i64; 3], target: &Target) -> f64 {
    let text = format!(
        "sketch strips(x: f16[16384, 64], w: f16[64, 16384]) -> y: f32[16384, 16384]\n\nkernel main over (s in \
         ceildiv(16384, 64*{strip}), q in ceildiv(16384, {columns})) {{\n  b = load w[0 :+ 64, q*{columns} :+ {columns}]\n  \
         for p in 0..{strip} pipeline({stages}) {{\n    a = load x[(s*{strip} + p)*64 :+ 64, 0 :+ 64]\n    store \
         y[(s*{strip} + p)*64 :+ 64, q*{columns} :+ {columns}] = dot(a, b) f16\n  }}\n}}\n"
    );
    let sketch = Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)));
    let program = sketch.elaborate(&Knobs::new(), &Bindings::new()).unwrap();
    cost(&program, &Bindings::new(), target).unwrap().seconds
}

#[test]
fn what_a_loop_stores_is_on_its_way_while_the_next_product_is_made() {
    // Every program waits for its tiles and for its stores.
    assert!(strips([32, 64, 2], &gpu()) < strips([1, 64, 2], &gpu()));
    // Nothing goes on beside what is stored, neither in the same program nor in another.
    let mut alone = gpu();
    alone.residency.as_mut().unwrap().programs = 1;
    assert!(1.3 * strips([32, 64, 2], &alone) < strips([32, 64, 1], &alone));
    // What is on its way out does not fit a core.
    let mut small = gpu();
    small.tile_bytes = 48 << 10;
    assert_eq!(strips([32, 128, 2], &small), f64::INFINITY);
    assert!(strips([32, 64, 2], &small).is_finite());
}

#[test]
fn the_last_wave_of_programs_counts() {
    let seconds = |rows: i64| product([128 * rows, 128, 4096], [128, 128, 64], 6, 8, &gpu());
    // One program at a time on each of 100 cores.
    assert!(seconds(100) < 1.1 * seconds(1));
    assert!(seconds(101) > 1.8 * seconds(100) && seconds(101) > 0.9 * seconds(200));
}

proptest! {
    #[test]
    fn larger_products_never_take_less_on_a_gpu(
        m in 1i64..40, n in 1i64..20, k in 1i64..80, more in 1i64..20, warps in 0u32..5, stages in 1i64..4,
    ) {
        let seconds = |m, n, k| product([64 * m, 128 * n, 32 * k], [64, 128, 32], stages, 1 << warps, &gpu());
        let base = seconds(m, n, k);
        for larger in [seconds(m + more, n, k), seconds(m, n + more, k), seconds(m, n, k + more)] {
            prop_assert!(larger >= 0.999 * base);
        }
    }

    #[test]
    fn more_work_never_costs_less(m in 1i64..300, n in 1i64..300, k in 1i64..300, more in 1i64..100) {
        let target = target();
        let base = gemm(m, n, k, 32, &target);
        for c in [gemm(m + more, n, k, 32, &target), gemm(m, n + more, k, 32, &target), gemm(m, n, k + more, 32, &target)] {
            prop_assert!(c.requested_bytes >= base.requested_bytes);
            prop_assert!(c.distinct_bytes >= base.distinct_bytes);
            prop_assert!(c.written_bytes >= base.written_bytes);
            prop_assert!(c.flops() >= base.flops());
            prop_assert!(c.seconds >= 0.999 * base.seconds || c.utilisation > base.utilisation);
        }
    }

    #[test]
    fn what_moves_is_between_distinct_and_requested(
        m in 1i64..3000, n in 1i64..3000, k in 1i64..300, cores in 1u32..200, cache in 0u64..10_000_000,
    ) {
        let mut target = target();
        target.cores = cores;
        target.caches = vec![cache];
        let c = gemm(m, n, k, 64, &target);
        let moved = c.memory_bytes - c.written_bytes;
        prop_assert!(c.distinct_bytes <= moved * (1.0 + 1e-9) && moved <= c.requested_bytes * (1.0 + 1e-9));
    }

    #[test]
    fn a_faster_device_is_not_slower(m in 1i64..1000, n in 1i64..1000, k in 1i64..1000) {
        let slow = target();
        let mut fast = target();
        fast.bandwidth *= 2.0;
        fast.peak.values_mut().for_each(|rate| *rate *= 2.0);
        prop_assert!(gemm(m, n, k, 64, &fast).seconds <= gemm(m, n, k, 64, &slow).seconds);
    }
}
