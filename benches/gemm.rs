//! How much of the machine's multiply-adds designed products reach, by the number of cores.
//!
//! `cargo bench --bench gemm` prints a table: for the products of KernelBench's level 1, in f32, GFLOP/s on one core and on
//! more, up to all, and in brackets the part of what a loop of nothing but fused multiply-adds reaches on as many cores in
//! the same run. That needs neither a vendor's library nor Python. Product and loop are timed in turns; the fastest turn
//! of each counts. Some elements of each product are compared with sums in f64. Keep the machine idle meanwhile.
//!
//! Numbers after the name choose problems, and `BM=1` or the like a knob's second value:
//! `cargo bench --bench gemm -- 1 8 BM=1`.

use std::process::ExitCode;
use std::time::Instant;

use akg::bundle::Evidence;
use akg::cpp::CppDsl;
use akg::cpu::{LoadOptions, LoadedBundle};
use akg::source::{Knobs, Source};
use akg::verdict::Verdict;
use akg::{
    Accuracy, AnyView, Bundle, Candidate, DType, Dsl as _, Error, Graph, Result, Target, Task, Tensor,
    TensorViewMut, blocking, designer,
};

/// `a[m, k] * b[k, n]`, either operand transposed in memory or not.
struct Problem {
    number: usize,
    name: &'static str,
    extents: [usize; 3],
    transposed: [bool; 2],
}

const fn problem(number: usize, name: &'static str, extents: [usize; 3], transposed: [bool; 2]) -> Problem {
    Problem {
        number,
        name,
        extents,
        transposed,
    }
}

/// Extents m, n, k.
const PROBLEMS: [Problem; 8] = [
    problem(1, "square", [4096, 4096, 4096], [false, false]),
    problem(2, "standard", [2048, 4096, 8192], [false, false]),
    problem(6, "large k", [256, 256, 524_288], [false, false]),
    problem(8, "irregular", [8205, 5921, 2949], [false, false]),
    problem(13, "symmetric", [4096, 4096, 4096], [false, false]),
    problem(16, "a transposed", [2048, 4096, 8192], [true, false]),
    problem(17, "b transposed", [2048, 4096, 8192], [false, true]),
    problem(18, "both transposed", [2048, 4096, 8192], [true, true]),
];

/// Turns of product and loop.
const TURNS: usize = 5;

/// Elements of the result that are checked.
const CHECKED: usize = 64;

/// Turns of the loop in a program, and chains of multiply-adds in it, which hide their latency.
const LOOPS: usize = 1 << 22;
const CHAINS: usize = 12;

fn main() -> ExitCode {
    akg::worker::init();
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    let wanted: Vec<(&str, usize)> = arguments
        .iter()
        .filter_map(|a| a.split_once('='))
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect();
    let target = blocking::devices(&*akg::registry().backend("cpu")?)?
        .into_iter()
        .next()
        .ok_or_else(|| Error::unexpected("this machine has no processor"))?;
    let cores = cores(target.cores as usize);
    println!("{}, fractions of the rate of fused multiply-adds\n", target.name);
    let heads: Vec<String> = cores.iter().map(|n| format!("{n:>4} cores")).collect();
    println!(
        "{:<20} {:>16}  {}  knobs",
        "problem",
        "m x n x k",
        heads.join("       ")
    );
    for problem in PROBLEMS
        .iter()
        .filter(|p| numbers.is_empty() || numbers.contains(&p.number))
    {
        let (product, knobs) = product(problem, &target, &wanted)?;
        let inputs = problem.inputs()?;
        let mut cells = Vec::new();
        for threads in &cores {
            let [rate, peak] = rates(problem, &product, &target, &inputs, *threads)?;
            cells.push(format!("{:>6.0} ({:.3})", rate / 1e9, rate / peak));
        }
        let [m, n, k] = problem.extents;
        let knobs: Vec<String> = knobs
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        println!(
            "{:>2} {:<17} {:>16}  {}  {}",
            problem.number,
            problem.name,
            format!("{m}x{n}x{k}"),
            cells.join("  "),
            knobs.join(" ")
        );
    }
    Ok(())
}

/// One core, and four times as many again and again, up to all.
fn cores(all: usize) -> Vec<usize> {
    let few = std::iter::successors(Some(1), |n| Some(4 * n));
    few.take_while(|n| *n < all).chain([all]).collect()
}

/// Multiply-adds and additions each second of the product, and of the loop.
fn rates(
    problem: &Problem,
    product: &Bundle,
    target: &Target,
    inputs: &[Tensor],
    threads: usize,
) -> Result<[f64; 2]> {
    let options = LoadOptions::threads(threads);
    let programs = 4 * threads;
    let roof = roof(programs, target)?;
    // SAFETY: both sources are akg's own and this file's.
    let (product, roof) = unsafe {
        (
            LoadedBundle::load(product, &options)?,
            LoadedBundle::load(&roof, &options)?,
        )
    };
    let factor = [Tensor::from_slice([1], &[0.5f32])?];
    let [m, n, k] = problem.extents;
    let sums = [programs, lanes(target)];
    let (mut result, mut ignored) = (vec![0f32; m * n], vec![0f32; sums[0] * sums[1]]);
    let mut best = [f64::INFINITY; 2];
    for _ in 0..TURNS {
        best[0] = best[0].min(seconds(&product, inputs, &mut result, &[m, n])?);
        best[1] = best[1].min(seconds(&roof, &factor, &mut ignored, &sums)?);
    }
    problem.check(inputs, &result)?;
    let work = [m * n * k, LOOPS * CHAINS * ignored.len()].map(|products| 2.0 * products as f64);
    Ok([work[0] / best[0], work[1] / best[1]])
}

/// The time of one call.
fn seconds(bundle: &LoadedBundle, inputs: &[Tensor], output: &mut [f32], shape: &[usize]) -> Result<f64> {
    let inputs: Vec<AnyView<'_>> = inputs.iter().map(AnyView::from).collect();
    let output = TensorViewMut::new(output, shape)?;
    let start = Instant::now();
    bundle.call(&inputs, &mut [output.into()])?;
    Ok(start.elapsed().as_secs_f64())
}

/// Elements of a vector.
fn lanes(target: &Target) -> usize {
    target.vector_bytes.clamp(16, 64) as usize / size_of::<f32>()
}

impl Problem {
    fn shapes(&self) -> [[usize; 2]; 2] {
        let [m, n, k] = self.extents;
        let [a, b] = self.transposed;
        [if a { [k, m] } else { [m, k] }, if b { [n, k] } else { [k, n] }]
    }

    fn task(&self) -> Result<Task> {
        let mut graph = Graph::new("gemm");
        let [a, b] = self.shapes();
        let (mut a, mut b) = (graph.input("a", DType::F32, a), graph.input("b", DType::F32, b));
        if self.transposed[0] {
            a = graph.transpose(a, 0, 1)?;
        }
        if self.transposed[1] {
            b = graph.transpose(b, 0, 1)?;
        }
        let y = graph.matmul(a, b)?;
        graph.output(y);
        Ok(Task::new("gemm", graph))
    }

    /// Numbers of either sign.
    fn inputs(&self) -> Result<Vec<Tensor>> {
        let tensor = |shape: [usize; 2]| {
            let mut state = 1u32;
            let values = std::iter::repeat_with(|| {
                // Constants of "Numerical Recipes".
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state as f32 / u32::MAX as f32 - 0.5
            });
            let values: Vec<f32> = values.take(shape.iter().product()).collect();
            Tensor::from_slice(shape, &values)
        };
        self.shapes().into_iter().map(tensor).collect()
    }

    /// Compares some elements with sums in f64.
    fn check(&self, inputs: &[Tensor], c: &[f32]) -> Result<()> {
        let [a, b] = inputs else {
            return Err(Error::unexpected("a product has two operands"));
        };
        let (a, b) = (a.as_slice::<f32>()?, b.as_slice::<f32>()?);
        let [m, n, k] = self.extents;
        for i in 0..CHECKED {
            // Both ends, and what is between.
            let (row, column) = (
                i * (m - 1) / (CHECKED - 1),
                (i * 37 % CHECKED) * (n - 1) / (CHECKED - 1),
            );
            let left = |p| {
                if self.transposed[0] {
                    p * m + row
                } else {
                    row * k + p
                }
            };
            let right = |p| {
                if self.transposed[1] {
                    column * k + p
                } else {
                    p * n + column
                }
            };
            let terms = (0..k).map(|p| f64::from(a[left(p)]) * f64::from(b[right(p)]));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t * t));
            let error = (f64::from(c[row * n + column]) - sum).abs();
            if error > 1e-5 * f64::sqrt(size) {
                return Err(Error::unexpected(format!(
                    "element [{row}, {column}] of problem {} is off by {error:.1e}",
                    self.number
                )));
            }
        }
        Ok(())
    }
}

/// The designed product for a target, and its knobs.
fn product(problem: &Problem, target: &Target, wanted: &[(&str, usize)]) -> Result<(Bundle, Knobs)> {
    let task = problem.task()?;
    let design = designer::design(&task, target)?;
    let mut knobs = design.knobs;
    for knob in design.sketch.knobs() {
        let named = wanted.iter().find(|(name, _)| *name == knob.name);
        if let Some(value) = named.and_then(|(_, number)| knob.values.get(*number)) {
            knobs.insert(knob.name, *value);
        }
    }
    let dsl = CppDsl::default();
    let source = dsl.lower(&design.sketch, &knobs, target)?;
    Ok((bundle(&task, source, target)?, knobs))
}

/// A kernel that does nothing but multiply-adds: `programs` times [`LOOPS`] turns of [`CHAINS`] independent vectors.
fn roof(programs: usize, target: &Target) -> Result<Bundle> {
    let lanes = lanes(target);
    let bytes = lanes * size_of::<f32>();
    let text = format!(
        r#"// akg-launch: {{"dims": [], "tensors": [
// {{"name": "x", "dtype": "f32", "shape": [1], "role": "input", "align": 4}},
// {{"name": "y", "dtype": "f32", "shape": [{programs}, {lanes}], "role": "output", "align": 4}}],
// "launches": [{{"kernel": "roof", "grid": [{programs}], "tensors": [0, 1]}}]}}
#include <cstdint>
#if defined(__clang__)
#define FUSED
#define FUSE _Pragma("clang fp contract(fast)")
#else
#define FUSED __attribute__((optimize("fp-contract=fast")))
#define FUSE
#endif
typedef float vector __attribute__((vector_size({bytes})));
extern "C" FUSED void roof(void *const *tensors, const int64_t *, int64_t first, int64_t last) {{
  FUSE
  const vector x = *static_cast<const float *>(tensors[0]) - vector{{}};
  float *const y = static_cast<float *>(tensors[1]);
  for (int64_t program = first; program < last; ++program) {{
    vector sums[{CHAINS}];
    for (int i = 0; i < {CHAINS}; ++i) sums[i] = x * float(i);
    for (int turn = 0; turn < {LOOPS}; ++turn)
#pragma GCC unroll {CHAINS}
      for (int i = 0; i < {CHAINS}; ++i) sums[i] = sums[i] * x + x;
    vector all = {{}};
    for (int i = 0; i < {CHAINS}; ++i) all += sums[i];
    __builtin_memcpy(y + program * {lanes}, &all, sizeof all);
  }}
}}
"#
    );
    let source = CppDsl::default().parse(&text)?;
    // What it says it computes is of no interest: nobody judges it.
    let mut graph = Graph::new("roof");
    let x = graph.input("x", DType::F32, [1]);
    let y = graph.expand(x, [programs, lanes])?;
    graph.output(y);
    bundle(&Task::new("roof", graph), source, target)
}

fn bundle(task: &Task, source: Source, target: &Target) -> Result<Bundle> {
    let artifact = CppDsl::default()
        .build(&source, target)?
        .map_err(|failure| Error::unexpected(format!("the compiler says {failure:?}")))?;
    let evidence = Evidence {
        verdict: Verdict::new(Accuracy::Fp32),
        timing: None,
        bound_seconds: None,
        kernels: Vec::new(),
    };
    let candidate = Candidate { source, artifact };
    Bundle::new(task, target, candidate, "", evidence)
}
