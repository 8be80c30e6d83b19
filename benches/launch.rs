//! What the host does in a call of a bundle on a GPU, beside the same launches by bare calls of the driver. Every call has
//! other tensors than the one before.
//!
//! Without a GPU or NVIDIA's run-time compiler it says so and ends. The binary that `cargo bench --bench launch --no-run`
//! makes runs by itself on another machine, with the argument `--bench`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "criterion generates public items; a benchmark may panic"
)]

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use akg::bundle::Evidence;
use akg::cuda::{CUDA_CPP, DeviceTensor, LoadOptions, LoadedBundle, Stream};
use akg::image::{Images, KernelImage, Parameter};
use akg::source::{Artifact, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg::verdict::Verdict;
use akg::{Accuracy, Bundle, Candidate, DType, Graph, Target, Task};
use criterion::Criterion;
use cudarc::driver::{CudaContext, result, sys};

/// `y = x + w` for as many elements as a block has threads.
const TEXT: &str = "extern \"C\" __global__ void step(const float *x, const float *w, float *y) {
  y[threadIdx.x] = x[threadIdx.x] + w[threadIdx.x];
}";

const ELEMENTS: usize = 32;

/// Kernels of a plan.
const PLANS: [usize; 4] = [1, 2, 4, 8];

/// Sets of tensors that calls take in turns.
const SETS: usize = 4;

/// Calls that are timed together: few enough that the device's queue has room for all of their launches.
const CHUNK: u32 = 16;

/// `y = x + w + … + w` by so many kernels, each of which adds `w` once.
fn bundle(kernels: usize, target: &Target) -> Bundle {
    let mut graph = Graph::new("steps");
    let x = graph.input("x", DType::F32, [ELEMENTS as i64]);
    let w = graph.weight("w", DType::F32, [ELEMENTS as i64]);
    let y = (0..kernels).fold(x, |value, _| graph.add(value, w).unwrap());
    graph.output(y);
    let tensor = |name: String, role| PlanTensor {
        name,
        dtype: DType::F32,
        shape: vec![(ELEMENTS as i64).into()],
        role,
        align: 16,
        holds: None,
        updates: None,
    };
    // x, w, what is between the kernels, y.
    let mut tensors = vec![
        tensor("x".into(), TensorRole::Input),
        tensor("w".into(), TensorRole::Input),
    ];
    tensors.extend((1..kernels).map(|i| tensor(format!("t{i}"), TensorRole::Scratch)));
    tensors.push(tensor("y".into(), TensorRole::Output));
    let launch = |at: usize| Launch {
        kernel: "step".into(),
        grid: vec![1.into()],
        tensors: vec![if at == 0 { 0 } else { at + 1 }, 1, at + 2],
        cooperative: false,
        doc: String::new(),
    };
    let plan = LaunchPlan {
        dims: Vec::new(),
        tensors,
        launches: (0..kernels).map(launch).collect(),
    };
    let image = KernelImage {
        kernel: "step".into(),
        symbol: "step".into(),
        threads: ELEMENTS as u32,
        cluster: 1,
        shared_bytes: 0,
        parameters: (0..3).map(Parameter::Tensor).collect(),
        report: Default::default(),
        code: TEXT.into(),
    };
    let images = Images { kernels: vec![image] };
    let source = Source {
        dsl: CUDA_CPP.into(),
        text: TEXT.into(),
        form: SourceForm::Lowered { plan: plan.clone() },
        knobs: Default::default(),
    };
    let artifact = Artifact {
        format: CUDA_CPP.into(),
        bytes: images.encode().unwrap(),
        plan,
        metadata: Default::default(),
    };
    let evidence = Evidence {
        verdict: Verdict::new(Accuracy::Fp32),
        timing: None,
        bound_seconds: None,
        kernels: Vec::new(),
    };
    let candidate = Candidate { source, artifact };
    Bundle::new(&Task::new("steps", graph), target, candidate, "", evidence).unwrap()
}

/// Device memory of `ELEMENTS` floats, of which all are `value`.
fn floats(value: f32) -> u64 {
    unsafe {
        let address = result::malloc_sync(4 * ELEMENTS).unwrap();
        result::memcpy_htod_sync(address, &[value; ELEMENTS]).unwrap();
        address
    }
}

/// Tensors of one call.
#[derive(Clone, Copy)]
struct Set {
    x: u64,
    w: u64,
    y: u64,
}

/// The kernel without akg, and memory between several of them.
struct Bare {
    kernel: sys::CUfunction,
    between: Vec<u64>,
}

impl Bare {
    fn new() -> Self {
        let ptx = cudarc::nvrtc::compile_ptx(TEXT).unwrap();
        let text = std::ffi::CString::new(ptx.to_src()).unwrap();
        let module = unsafe { result::module::load_data(text.as_ptr().cast()) }.unwrap();
        let name = std::ffi::CString::new("step").unwrap();
        Self {
            kernel: unsafe { result::module::get_function(module, name) }.unwrap(),
            between: (0..8).map(|_| floats(0.0)).collect(),
        }
    }

    fn call(&self, kernels: usize, stream: sys::CUstream, set: Set) {
        let mut source = set.x;
        for at in 0..kernels {
            let mut to = if at + 1 == kernels {
                set.y
            } else {
                self.between[at]
            };
            let mut w = set.w;
            let mut parameters: [*mut c_void; 3] = [
                (&raw mut source).cast(),
                (&raw mut w).cast(),
                (&raw mut to).cast(),
            ];
            let launched = unsafe {
                sys::cuLaunchKernel(
                    self.kernel,
                    1,
                    1,
                    1,
                    ELEMENTS as u32,
                    1,
                    1,
                    0,
                    stream,
                    parameters.as_mut_ptr(),
                    ptr::null_mut(),
                )
            };
            assert_eq!(launched, sys::CUresult::CUDA_SUCCESS);
            source = to;
        }
    }
}

/// What the host takes for so many calls: by the median over chunks of them, between which the device catches up.
fn host_time(calls: u64, stream: sys::CUstream, mut call: impl FnMut()) -> Duration {
    let chunks = calls.div_ceil(u64::from(CHUNK)).max(9);
    let mut times: Vec<f64> = (0..chunks)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CHUNK {
                call();
            }
            let time = start.elapsed().as_secs_f64() / f64::from(CHUNK);
            unsafe { result::stream::synchronize(stream) }.unwrap();
            time
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Duration::from_secs_f64(times[times.len() / 2] * calls as f64)
}

fn main() {
    akg::worker::init();
    let absent = match akg::cuda::absence(None) {
        Ok(None) if !unsafe { cudarc::nvrtc::sys::is_culib_present() } => {
            Some("NVIDIA's run-time compiler, libnvrtc.so, is not found".to_owned())
        }
        Ok(absent) => absent,
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = absent {
        eprintln!("SKIPPED: {why}");
        return;
    }
    let registry = akg::registry();
    let backend = registry.backend("cuda").unwrap();
    let target = akg::blocking::devices(&*backend).unwrap().remove(0);
    let context = CudaContext::new(0).unwrap();
    let owned = context.new_stream().unwrap();
    let stream = owned.cu_stream();
    let of_akg = unsafe { Stream::from_raw(stream.cast()) };
    let sets: Vec<Set> = (0..SETS)
        .map(|i| Set {
            x: floats(i as f32),
            w: floats(1.0),
            y: floats(0.0),
        })
        .collect();
    context.synchronize().unwrap();
    let turn = Cell::new(0);
    let next = || {
        turn.set((turn.get() + 1) % SETS);
        sets[turn.get()]
    };
    let bare = Bare::new();
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args();
    for kernels in PLANS {
        let bundle = bundle(kernels, &target);
        let load = |options| unsafe { LoadedBundle::load(&bundle, &options) }.unwrap();
        let mut loaded = load(LoadOptions::device(0));
        let mut one_by_one = load(LoadOptions::device(0).without_graphs());
        let raw = |loaded: &mut LoadedBundle, set: Set| {
            unsafe { loaded.call_raw(of_akg, &[set.x, set.w], &[set.y], &[]) }.unwrap();
        };
        // All ways to do it do it.
        for round in 0..3 {
            for (i, set) in sets.iter().enumerate() {
                unsafe { result::memcpy_htod_sync(set.y, &[f32::NAN; ELEMENTS]) }.unwrap();
                context.synchronize().unwrap();
                match round {
                    0 => bare.call(kernels, stream, *set),
                    1 => raw(&mut loaded, *set),
                    _ => raw(&mut one_by_one, *set),
                }
                context.synchronize().unwrap();
                let mut y = [0f32; ELEMENTS];
                unsafe { result::memcpy_dtoh_sync(&mut y, set.y) }.unwrap();
                assert_eq!(y, [(i + kernels) as f32; ELEMENTS]);
            }
        }
        let mut bench = |name: &str, call: &mut dyn FnMut()| {
            criterion.bench_function(&format!("launch/{kernels} kernels/{name}"), |b| {
                b.iter_custom(|calls| host_time(calls, stream, &mut *call));
            });
        };
        bench("bare launches", &mut || bare.call(kernels, stream, next()));
        bench("call", &mut || {
            let Set { x, w, y } = next();
            let tensor = |address| unsafe { DeviceTensor::from_raw(DType::F32, address, &[ELEMENTS]) };
            loaded
                .call(of_akg, &[tensor(x), tensor(w)], &[tensor(y)])
                .unwrap();
        });
        bench("call_raw", &mut || raw(&mut loaded, next()));
        bench("call_raw, the same weights", &mut || {
            raw(
                &mut loaded,
                Set {
                    w: sets[0].w,
                    ..next()
                },
            );
        });
        bench("call_raw, the same tensors", &mut || raw(&mut loaded, sets[0]));
        bench("call_raw, without graphs", &mut || raw(&mut one_by_one, next()));
    }
    criterion.final_summary();
}
