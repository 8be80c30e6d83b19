//! A DSL that no akg crate knows runs on the CPU backend: Rust, written by an agent of its own and built by rustc. The
//! test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use std::process::Command;

use akg::coder::{CodeContext, Coder};
use akg::cpu::CpuBackend;
use akg::diagnostic::Diagnostic;
use akg::dsl::{DslCapability, Stage};
use akg::session::Outcome;
use akg::source::{Artifact, Knobs, Launch, LaunchPlan, Source, SourceForm};
use akg::verdict::{Failure, FailureKind};
use akg::{
    Agent, Backend as _, DType, Dsl, Error, Graph, Registry, Result, Session, Sketch, Target, Task,
    conformance,
};
use async_trait::async_trait;
use futures::executor::block_on;
use libtest_mimic::{Arguments, Trial};

fn main() {
    akg::worker::init();
    let trial = |name, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("a_right_kernel_passes", a_right_kernel_passes),
        trial("wrong_kernels_fail", wrong_kernels_fail),
        trial("the_rules_hold", the_rules_hold),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// Rust, as rustc builds it. Cannot lower sketches.
#[derive(Debug)]
struct RustDsl(DslCapability);

impl RustDsl {
    fn new() -> Self {
        let mut capability = DslCapability::default();
        capability.backends = vec!["cpu".to_owned()];
        capability.formats = vec!["elf-so".to_owned()];
        Self(capability)
    }
}

impl Dsl for RustDsl {
    fn name(&self) -> &str {
        "rust"
    }

    fn capability(&self) -> &DslCapability {
        &self.0
    }

    fn lower(&self, _: &Sketch, _: &Knobs, _: &Target) -> Result<Source> {
        Err(Error::unsupported("sketches are not lowered to Rust"))
    }

    fn build(&self, source: &Source, _: &Target) -> Result<Result<Artifact, Failure>> {
        let SourceForm::Lowered { plan } = &source.form else {
            return Err(Error::unsupported("a Rust source has a launch plan"));
        };
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("kernel.rs"), &source.text).unwrap();
        let output = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()))
            .args([
                "--crate-type=cdylib",
                "-O",
                "-Cpanic=abort",
                "-o",
                "kernel.so",
                "kernel.rs",
            ])
            .current_dir(directory.path())
            .output()
            .unwrap();
        if !output.status.success() {
            let evidence = String::from_utf8_lossy(&output.stderr);
            return Ok(Err(Failure::new(FailureKind::CompileFailed, evidence)));
        }
        Ok(Ok(Artifact {
            format: "elf-so".to_owned(),
            bytes: std::fs::read(directory.path().join("kernel.so")).unwrap(),
            plan: plan.clone(),
            metadata: Default::default(),
        }))
    }

    fn toolchain(&self, _: &Target) -> Result<String> {
        Ok("rustc -O".to_owned())
    }

    fn check(&self, _: &Source) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn guide(&self, _: Stage, _: &Target) -> String {
        "Write Rust.".to_owned()
    }

    fn parse(&self, _: &str) -> Result<Source> {
        Err(Error::unsupported("Rust sources are written by agents only"))
    }

    fn export(&self, _: &Source, form: &str) -> Result<String> {
        Err(Error::unsupported(format!("Rust has no form `{form}`")))
    }
}

/// Writes this body of the loop over rows.
#[derive(Debug)]
struct Author(&'static str);

#[async_trait]
impl Agent<Coder> for Author {
    fn name(&self) -> &str {
        "author"
    }

    async fn step(&self, context: &CodeContext) -> Result<Source> {
        let text = format!(
            "#![no_std]\nextern \"C\" {{\n    fn abort() -> !;\n}}\n#[panic_handler]\nfn panic(_: &core::panic::PanicInfo<'_>) -> ! {{\n    \
             unsafe {{ abort() }}\n}}\n#[no_mangle]\npub extern \"C\" fn rust_eh_personality() {{}}\n#[no_mangle]\npub unsafe extern \"C\" fn rows(tensors: *const *mut f32, _: *const i64, first: i64, last: i64) {{\n    \
             let (x, y) = (*tensors, *tensors.add(1));\n    for row in first as usize..last as usize {{\n        let x = \
             core::slice::from_raw_parts(x.add(row * 100), 100);\n        {}\n    }}\n}}\n",
            self.0
        );
        let tensors = context
            .sketch
            .elaborate(&context.knobs, &Default::default())?
            .tensors;
        let launch = Launch {
            kernel: "rows".to_owned(),
            grid: vec![64.into()],
            tensors: vec![0, 1],
            cooperative: false,
            doc: String::new(),
        };
        let plan = LaunchPlan {
            dims: Vec::new(),
            tensors,
            launches: vec![launch],
        };
        Ok(Source {
            dsl: context.dsl.name().to_owned(),
            text,
            form: SourceForm::Lowered { plan },
            knobs: context.knobs.clone(),
        })
    }
}

const RIGHT: &str = "*y.add(row) = x.iter().map(|v| f64::from(v.max(0.0))).sum::<f64>() as f32;";

/// Runs the road of `sum(relu(x), axis 1)` with this author.
fn run(body: &'static str) -> Outcome {
    let mut graph = Graph::new("rows");
    let x = graph.input("x", DType::F32, [64, 100]);
    let y = graph.relu(x).unwrap();
    let y = graph.sum(y, &[1], false).unwrap();
    graph.output(y);
    let mut registry = Registry::new();
    registry
        .add_dsl(RustDsl::new())
        .add_backend(CpuBackend::builder().build());
    let session = Session::new(registry.dsl("rust").unwrap(), registry.backend("cpu").unwrap());
    let session = session.with_coder(Author(body));
    block_on(session.run(&Task::new("rows", graph))).unwrap()
}

fn a_right_kernel_passes() {
    let outcome = run(RIGHT);
    let best = outcome
        .best()
        .unwrap_or_else(|| panic!("{:?}", outcome.failure()));
    assert_eq!(best.source.dsl, "rust");
    assert_eq!(best.verdict.checks[0].outputs[0].bytes_compared, 64 * 4);
    let times = best
        .timing
        .as_ref()
        .and_then(|contest| contest.candidate())
        .unwrap();
    assert!(times.warm.median().unwrap() > 0.0);
}

fn wrong_kernels_fail() {
    let cases = [
        ("*y.add(row) = x.iter().sum::<f32>();", FailureKind::WrongValues),
        (
            "if row > 0 { *y.add(row) = x.iter().map(|v| v.max(0.0)).sum(); }",
            FailureKind::Unwritten,
        ),
        ("*y.add(row) = nonsense;", FailureKind::CompileFailed),
        ("assert!(x[row] > 1e9);", FailureKind::Crashed),
    ];
    for (body, kind) in cases {
        let outcome = run(body);
        assert_eq!(outcome.failure().unwrap().kind, kind, "{:?}", outcome.failure());
    }
}

fn the_rules_hold() {
    let cpu = CpuBackend::builder().build();
    let devices = block_on(cpu.devices()).unwrap();
    let report = block_on(conformance::dsl(&RustDsl::new(), &cpu, &devices[0]));
    report.assert_held();
    assert!(
        report.to_string().contains("sketches are not lowered to Rust"),
        "{report}"
    );
}
