//! Whether times can be believed on this machine: kernels against themselves, and against themselves with planted work.
//!
//! `cargo bench --bench aa` prints a table. Thirty kernels are timed against a copy of themselves, which must be called
//! noise; three of them against the same kernel with 5 % more rows, which must be seen to be slower, and with 0.5 %
//! more, which must be called noise. Keep the machine idle meanwhile: a disturbed run claims nothing. A number after the name,
//! as in `cargo bench --bench aa -- 3`, times only so many kernels.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use akg::backend::{Backend, Cache, Limits};
use akg::graph::ValueId;
use akg::source::Artifact;
use akg::timing::{Check, Claim, Comparison, Contest, ContestPolicy, Entrants, LoadedSide, Machine, contest};
use akg::verify::ContestData;
use akg::{DType, Error, Graph, Result, Session, Task, blocking};
use futures::executor::block_on;

/// A kernel over a number of rows.
struct Kind {
    name: &'static str,
    build: fn(&mut Graph, usize) -> Result<ValueId>,
}

const F32: DType = DType::F32;

const KINDS: [Kind; 10] = [
    Kind {
        name: "relu",
        build: |g, rows| {
            let x = g.input("x", F32, [rows, 512]);
            g.relu(x)
        },
    },
    Kind {
        name: "gelu",
        build: |g, rows| {
            let x = g.input("x", F32, [rows, 512]);
            g.gelu(x)
        },
    },
    Kind {
        name: "tanh",
        build: |g, rows| {
            let x = g.input("x", F32, [rows, 512]);
            g.tanh(x)
        },
    },
    Kind {
        name: "add",
        build: |g, rows| {
            let (x, y) = (g.input("x", F32, [rows, 512]), g.input("y", F32, [rows, 512]));
            g.add(x, y)
        },
    },
    Kind {
        name: "bias_gelu",
        build: |g, rows| {
            let (x, b) = (g.input("x", F32, [rows, 512]), g.weight("b", F32, [512]));
            let y = g.add(x, b)?;
            g.gelu(y)
        },
    },
    Kind {
        name: "softmax",
        build: |g, rows| {
            let x = g.input("x", F32, [rows, 512]);
            g.softmax(x, -1)
        },
    },
    Kind {
        name: "layer_norm",
        build: |g, rows| {
            let x = g.input("x", F32, [rows, 512]);
            g.layer_norm(x, [512], None, None, 1e-5)
        },
    },
    Kind {
        name: "sum",
        build: |g, rows| {
            let x = g.input("x", F32, [rows, 512]);
            g.sum(x, &[1], false)
        },
    },
    Kind {
        name: "matmul",
        build: |g, rows| {
            let (a, b) = (g.input("a", F32, [rows, 256]), g.input("b", F32, [256, 256]));
            g.matmul(a, b)
        },
    },
    Kind {
        name: "linear_relu",
        build: |g, rows| {
            let (x, w) = (g.input("x", F32, [rows, 256]), g.weight("w", F32, [256, 256]));
            let y = g.linear(x, w, None)?;
            g.relu(y)
        },
    },
];

const ROWS: [usize; 3] = [64, 1024, 8000];

/// Kinds whose work is their rows, for what is planted.
const PLANTED: [&str; 3] = ["gelu", "softmax", "matmul"];

/// Rows to begin with, and with 5 % and 0.5 % more.
const PLANTED_ROWS: [usize; 3] = [8000, 8400, 8040];

fn main() -> ExitCode {
    akg::worker::init();
    let most = std::env::args()
        .find_map(|a| a.parse().ok())
        .unwrap_or(usize::MAX);
    match run(most) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table; whether everything was called what it is.
fn run(most: usize) -> Result<bool> {
    let registry = akg::registry();
    let bench = Bench {
        session: Session::new(registry.dsl("cpp")?, registry.backend("cpu")?).with_timing(None),
        backend: registry.backend("cpu")?,
    };
    let (mut right, mut wrong, mut unstable) = (0, 0, 0);
    let mut count = |contest: &Contest, comparison: &Comparison, expected: Claim| match comparison.claim {
        _ if !contest.is_stable() => unstable += 1,
        claim if claim == expected => right += 1,
        _ => wrong += 1,
    };
    println!(
        "{:<24} {:>10}  {:>6}  {:<16}  {:>6}  claim",
        "kernel", "median", "ratio", "interval", "noise"
    );
    let cases = KINDS
        .iter()
        .flat_map(|kind| ROWS.iter().map(move |rows| (kind, *rows)));
    for (kind, rows) in cases.take(most) {
        let side = bench.kernel(kind, rows)?;
        let contest = bench.contest(&side, &[&side], &ContestPolicy::default())?;
        for comparison in warm(&contest) {
            show(&format!("{} {rows}", kind.name), &contest, comparison);
            count(&contest, comparison, Claim::Noise);
        }
    }
    println!("\nplanted: rows of the rival; a ratio above 1 is a slower rival");
    // A small difference takes many rounds where memory makes times differ from process to process.
    let mut patient = ContestPolicy::default();
    patient.budget = Duration::from_secs(25);
    patient.most_rounds = 150;
    patient.precision = 0.004;
    patient.cold = false;
    for kind in KINDS.iter().filter(|k| PLANTED.contains(&k.name)).take(most) {
        let kernels = PLANTED_ROWS.map(|rows| bench.kernel(kind, rows));
        let [base, five, half] = kernels;
        let (base, five, half) = (base?, five?, half?);
        let contest = bench.contest(&base, &[&five, &half], &patient)?;
        for (comparison, (rows, expected)) in
            warm(&contest).zip([("+5 %", Claim::Faster), ("+0.5 %", Claim::Noise)])
        {
            show(&format!("{} {rows}", kind.name), &contest, comparison);
            count(&contest, comparison, expected);
        }
    }
    println!(
        "\n{right} as they are, {wrong} wrong, {unstable} without a claim because the run was disturbed"
    );
    Ok(wrong == 0)
}

fn warm(contest: &Contest) -> impl Iterator<Item = &Comparison> {
    contest.comparisons.iter().filter(|c| c.cache == Cache::Warm)
}

fn show(name: &str, contest: &Contest, comparison: &Comparison) {
    let median = contest
        .candidate()
        .and_then(|c| c.warm.median())
        .unwrap_or(f64::NAN);
    let claim = match contest.disturbances.first() {
        None => comparison.claim.name().to_owned(),
        Some(disturbance) => format!("unstable: {disturbance}"),
    };
    println!(
        "{name:<24} {:>7.1} µs  {:>6.3}  [{:.3}, {:.3}]    ±{:.1} %  {claim}",
        median * 1e6,
        comparison.ratio,
        comparison.interval.low,
        comparison.interval.high,
        100.0 * contest.noise(Cache::Warm).unwrap_or(f64::NAN),
    );
}

/// A built kernel with inputs.
struct Kernel {
    artifact: Artifact,
    data: Arc<ContestData>,
}

struct Bench {
    session: Session,
    backend: Arc<dyn Backend>,
}

impl Bench {
    fn kernel(&self, kind: &Kind, rows: usize) -> Result<Kernel> {
        let mut graph = Graph::new(kind.name);
        let y = (kind.build)(&mut graph, rows)?;
        graph.output(y);
        let task = Task::new(kind.name, graph);
        let outcome = blocking::run(&self.session, &task)?;
        let failed = || Error::unexpected(format!("no kernel for {}: {:?}", kind.name, outcome.failure()));
        let best = outcome.best().ok_or_else(failed)?;
        let dsl = akg::registry().dsl(&best.source.dsl)?;
        let artifact = dsl.build(&best.source, &outcome.target)?.map_err(|_| failed())?;
        Ok(Kernel {
            artifact,
            data: Arc::new(ContestData::new(&task, self.backend.clone(), 1)?),
        })
    }

    /// A kernel, itself again, and others.
    fn contest(&self, kernel: &Kernel, rivals: &[&Kernel], policy: &ContestPolicy) -> Result<Contest> {
        // Values were verified when the kernels were made.
        let check: Check = Arc::new(|_, _| Ok(None));
        let side = |name: &str, kernel: &Kernel| {
            let (backend, artifact) = (self.backend.clone(), kernel.artifact.clone());
            let (data, check) = (kernel.data.clone(), check.clone());
            LoadedSide::new(name, backend, artifact, Limits::default(), data, check)
        };
        let (mut candidate, mut twin) = (side("kernel", kernel), side("kernel again", kernel));
        let mut rivals: Vec<_> = rivals.iter().map(|r| side("rival", r)).collect();
        let entrants = Entrants {
            candidate: &mut candidate,
            twin: Some(&mut twin),
            rivals: rivals.iter_mut().map(|r| r as _).collect(),
            floor: None,
        };
        block_on(contest(entrants, policy, 1, &mut Machine))
    }
}
