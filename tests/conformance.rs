//! akg's own DSLs and backends keep the rules that third parties' are held to. The test is its own worker, hence a
//! `main` of its own.
#![expect(clippy::unwrap_used, reason = "this is a test")]

use akg::conformance::{Probe, backend, dsl};
use akg::cpp::CppDsl;
use akg::cpu::CpuBackend;
use akg::cuda::{CudaBackend, absence};
use akg::source::{Artifact, Knobs, Source, SourceForm};
use akg::triton::TritonDsl;
use akg::{Backend, Dsl, Error, Result, Target};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Trial};

fn main() {
    akg::worker::init();
    let no_gpu = absence(None).unwrap_or_else(|error| Some(error.to_string()));
    if let Some(why) = &no_gpu {
        eprintln!("SKIPPED: triton_on_cuda: {why}");
    }
    let trials = vec![
        Trial::test("cpp_on_cpu", || {
            let cpu = CpuBackend::builder().build();
            let devices = block_on(cpu.devices()).unwrap();
            let report = block_on(dsl(&CppDsl::default(), &cpu, &devices[0]));
            report.assert_held();
            assert_eq!(report.skipped(), 0, "{report}");
            Ok(())
        }),
        Trial::test("triton_on_cuda", || {
            let cuda = CudaBackend::builder().build();
            let devices = block_on(cuda.devices()).unwrap();
            let report = block_on(dsl(&TritonDsl::default(), &cuda, &devices[0]));
            report.assert_held();
            assert_eq!(report.skipped(), 0, "{report}");
            Ok(())
        })
        .with_ignored_flag(no_gpu.is_some()),
        Trial::test("cpu", || {
            let report = block_on(backend(&CpuBackend::builder().build(), &probe));
            report.assert_held();
            assert_eq!(report.skipped(), 0, "{report}");
            Ok(())
        }),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A probe in C++. In kernel `probe`, `a` is its first tensor and `b` its second.
fn probe(probe: Probe) -> Result<Option<Artifact>> {
    let body = match probe {
        Probe::Double | Probe::WriteHalf | Probe::TwoKernels => "b[p] = 2 * a[p];",
        Probe::OverwriteInput => "b[p] = 2 * a[p]; a[p] = 0;",
        Probe::ReadScratch => "b[p] = ((float *)tensors[2])[p];",
        Probe::Crash => "*(volatile int *)16 = 1;",
        Probe::Hang => "for (;;) asm volatile(\"\" ::: \"memory\");",
        Probe::TakeMemory => "for (;;) { volatile char *m = (char *)malloc(1 << 20); m[0] = 1; }",
        _ => return Ok(None),
    };
    let kernel = |name: &str, body: &str| {
        format!(
            "extern \"C\" void {name}(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {{\n  float *a \
             = (float *)tensors[0], *b = (float *)tensors[1];\n  for (int64_t p = first; p < last; ++p) {{ {body} }}\n}}\n"
        )
    };
    let text = format!(
        "#include <cstdint>\n#include <cstdlib>\n{}{}",
        kernel("probe", body),
        kernel("second", "b[p] = a[dims[0] - 1 - p];")
    );
    let form = SourceForm::Lowered { plan: probe.plan() };
    let source = Source {
        dsl: "cpp".to_owned(),
        text,
        form,
        knobs: Knobs::new(),
    };
    let target = Target::new(CpuBackend::NAME, std::env::consts::ARCH);
    let artifact = CppDsl::default().build(&source, &target)?;
    artifact
        .map(Some)
        .map_err(|failure| Error::invalid(failure.evidence))
}
