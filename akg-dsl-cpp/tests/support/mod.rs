//! Runs a shared object's launch plan, program by program.

#![allow(dead_code, reason = "each test program uses a part")]

use std::ffi::c_void;
use std::sync::Barrier;

use akg_core::expr::Bindings;
use akg_core::sketch::ir;
use akg_core::source::{Artifact, LaunchPlan, TensorRole};
use akg_core::{Dsl, Target, Tensor};
use akg_dsl_cpp::{CppDsl, lower_program};

type Kernel = unsafe extern "C" fn(*const *mut c_void, *const i64, i64, i64);
type TeamKernel = unsafe extern "C" fn(*const *mut c_void, *const i64, i64, *const Team);

#[repr(C)]
struct Team {
    barrier: unsafe extern "C" fn(*mut c_void),
    context: *mut c_void,
}

unsafe extern "C" fn wait(context: *mut c_void) {
    unsafe { &*context.cast::<Barrier>() }.wait();
}

/// Memory of one tensor.
struct Memory(Vec<u128>);

/// The machine that the tests run on.
pub(crate) fn host() -> Target {
    let mut target = Target::new("cpu", std::env::consts::ARCH);
    #[cfg(target_arch = "x86_64")]
    {
        macro_rules! detect {
            ($($feature:tt),*) => {
                $(if std::arch::is_x86_feature_detected!($feature) {
                    target.features.insert($feature.to_owned());
                })*
            };
        }
        detect!(
            "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl"
        );
        target.vector_bytes = match () {
            () if target.features.contains("avx512f") => 64,
            () if target.features.contains("avx") => 32,
            () => 16,
        };
    }
    target
}

/// The machine with all its vectors, with narrower ones, and with none but what every machine of its kind has.
pub(crate) fn hosts() -> Vec<Target> {
    let all = host();
    let mut narrow = all.clone();
    narrow.features.retain(|f| !f.starts_with("avx512"));
    narrow.vector_bytes = all.vector_bytes.min(32);
    let mut least = Target::new("cpu", std::env::consts::ARCH);
    least.caches.clone_from(&all.caches);
    let mut hosts = vec![all, narrow, least];
    hosts.dedup();
    hosts
}

/// Whether there is a compiler; says on the terminal if not.
pub(crate) fn compiler_missing() -> bool {
    let source = CppDsl::default().parse(
        "// akg-launch: {\"tensors\":[],\"launches\":[{\"kernel\":\"k\",\"grid\":[],\"tensors\":[]}]}\nextern \"C\" void k() {}\n",
    );
    let built = CppDsl::default().build(&source.unwrap(), &host());
    match built {
        Ok(built) => {
            built.unwrap();
            false
        }
        Err(e) => {
            assert_eq!(e.kind(), akg_core::ErrorKind::ToolMissing, "{e}");
            eprintln!("SKIPPED: {e}");
            true
        }
    }
}

/// Lowers, builds and runs a typed sketch.
pub(crate) fn run(program: &ir::Program, inputs: &[Tensor], dims: &Bindings) -> Vec<Tensor> {
    run_on(&host(), program, inputs, dims)
}

/// The same for another target than all of the machine.
pub(crate) fn run_on(
    target: &Target,
    program: &ir::Program,
    inputs: &[Tensor],
    dims: &Bindings,
) -> Vec<Tensor> {
    let source = lower_program(program, target, &Default::default()).unwrap();
    let artifact = CppDsl::default()
        .build(&source, target)
        .unwrap()
        .unwrap_or_else(|f| panic!("{}\n{}", f.evidence, source.text));
    if std::env::var_os("AKG_SHOW").is_some() {
        eprintln!("{}", source.text);
    }
    execute(&artifact, inputs, dims)
}

pub(crate) fn execute(artifact: &Artifact, inputs: &[Tensor], dims: &Bindings) -> Vec<Tensor> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &artifact.bytes).unwrap();
    let library = unsafe { libloading::Library::new(file.path()) }.unwrap();
    let plan = &artifact.plan;
    let shapes: Vec<Vec<usize>> = plan
        .tensors
        .iter()
        .map(|t| t.shape.iter().map(|e| e.eval(dims).unwrap() as usize).collect())
        .collect();
    let mut given = inputs.iter();
    let mut memory: Vec<Memory> = plan
        .tensors
        .iter()
        .zip(&shapes)
        .map(|(t, shape)| {
            let bytes = shape.iter().product::<usize>() * t.dtype.size();
            // A poison that is NaN in every floating type; room for nothing more than the tensor and a guard.
            let mut words = vec![u128::MAX; bytes.div_ceil(16) + 4];
            if t.role == TensorRole::Input {
                let input = given.next().unwrap();
                assert_eq!((input.dtype(), input.shape()), (t.dtype, shape.as_slice()));
                bytemuck::cast_slice_mut::<u128, u8>(&mut words)[..bytes].copy_from_slice(input.bytes());
            }
            Memory(words)
        })
        .collect();
    run_launches(&library, plan, &mut memory, dims);
    let mut outputs = Vec::new();
    for ((t, shape), words) in plan.tensors.iter().zip(&shapes).zip(&memory) {
        let bytes = shape.iter().product::<usize>() * t.dtype.size();
        let all: &[u8] = bytemuck::cast_slice(&words.0);
        assert!(all[bytes..].iter().all(|b| *b == 0xff), "{} was overrun", t.name);
        if t.role == TensorRole::Output {
            outputs.push(Tensor::from_bytes(t.dtype, shape.clone(), &all[..bytes]).unwrap());
        }
    }
    outputs
}

fn run_launches(library: &libloading::Library, plan: &LaunchPlan, memory: &mut [Memory], dims: &Bindings) {
    let values: Vec<i64> = plan.dims.iter().map(|d| dims[d]).collect();
    for launch in &plan.launches {
        let pointers: Vec<*mut c_void> = launch
            .tensors
            .iter()
            .map(|i| memory[*i].0.as_mut_ptr().cast())
            .collect();
        let programs = LaunchPlan::programs(launch, dims).unwrap();
        let name = launch.kernel.as_bytes();
        if launch.cooperative {
            let kernel: TeamKernel = *unsafe { library.get(name) }.unwrap();
            let barrier = Barrier::new(programs as usize);
            let (pointers, values) = (pointers.as_ptr() as usize, values.as_ptr() as usize);
            let barrier = std::ptr::from_ref(&barrier) as usize;
            std::thread::scope(|scope| {
                for program in 0..programs {
                    scope.spawn(move || {
                        let team = Team {
                            barrier: wait,
                            context: barrier as *mut c_void,
                        };
                        unsafe { kernel(pointers as *const _, values as *const _, program, &raw const team) };
                    });
                }
            });
        } else {
            let kernel: Kernel = *unsafe { library.get(name) }.unwrap();
            // In two parts, as several threads would.
            let middle = programs / 3;
            unsafe {
                kernel(pointers.as_ptr(), values.as_ptr(), middle, programs);
                kernel(pointers.as_ptr(), values.as_ptr(), 0, middle);
            }
        }
    }
}

/// The `i`th of some values in 0..1.
pub(crate) fn noise(seed: u32, i: usize) -> f32 {
    (seed.wrapping_add(i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0
}
