//! Bundles in this process, on a driver that works on ordinary memory.
#![expect(clippy::unwrap_used, reason = "this is a test")]

#[path = "mock/build.rs"]
mod build;
#[path = "common/bundles.rs"]
mod bundles;
mod common;

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use akg_backend_cuda::{CUBIN, DeviceTensor, LoadOptions, LoadedBundle, Stream};
use akg_core::image::{Descriptor, Images, Parameter, Scratch};
use akg_core::source::Artifact;
use akg_core::{Bundle, DType, ErrorKind, Expr, Graph, Result, Task, Tensor};
use bundles::{MOST, bundle, expected, sum, sum_plan, twice_reversed, twice_reversed_plan};
use common::{artifact, plan_of, with_images};
use proptest::prelude::*;

/// What the mock driver takes for machine code, and the architecture of its device.
const CODE: &[u8] = b"\x7fELF mock";
const ARCH: &str = "sm_90a";

/// What the mock driver did so far, and what is there now.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    launches: i64,
    replays: i64,
    updates: i64,
    allocations: i64,
    memory: i64,
    modules: i64,
    contexts: i64,
    graphs: i64,
    stream: *mut c_void,
}

/// The mock driver, for one test at a time.
struct Driver {
    library: &'static libloading::Library,
    _turn: MutexGuard<'static, ()>,
}

impl Driver {
    /// Loads it before any other; `None`, said on the terminal, if it cannot be built.
    fn start() -> Option<Self> {
        static LIBRARY: OnceLock<Option<libloading::Library>> = OnceLock::new();
        static TURN: Mutex<()> = Mutex::new(());
        let load = || {
            let directory = tempfile::tempdir().unwrap();
            if let Err(why) = build::build(directory.path()) {
                eprintln!("SKIPPED: {why}");
                return None;
            }
            Some(unsafe { libloading::Library::new(directory.path().join("libcuda.so")) }.unwrap())
        };
        let library = LIBRARY.get_or_init(load).as_ref()?;
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { library, _turn: turn })
    }

    fn counts(&self) -> Counts {
        unsafe { **self.library.get::<*const Counts>("mock_counts").unwrap() }
    }
}

/// Memory that begins where kernels may want it.
#[repr(align(256))]
struct Aligned([f32; MOST + 64]);

fn memory() -> Box<Aligned> {
    Box::new(Aligned([f32::NAN; MOST + 64]))
}

fn address(memory: &Aligned) -> u64 {
    memory.0.as_ptr() as u64
}

fn f32s(address: u64, shape: &[usize]) -> DeviceTensor<'_> {
    unsafe { DeviceTensor::from_raw(DType::F32, address, shape) }
}

fn stream(number: usize) -> Stream {
    unsafe { Stream::from_raw(number as *mut c_void) }
}

fn load(bundle: &Bundle, options: &LoadOptions) -> LoadedBundle {
    unsafe { LoadedBundle::load(bundle, options) }.unwrap()
}

fn two_kernels() -> Bundle {
    twice_reversed(ARCH, artifact(CUBIN, twice_reversed_plan(), CODE, 32))
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is not in: {error}");
    }
}

/// How a call differs from others.
#[derive(Debug, Clone)]
struct Round {
    length: usize,
    /// Offsets of input and output in their memory, in units of the plan's alignment.
    from: usize,
    to: usize,
    stream: usize,
    raw: bool,
}

fn round() -> impl Strategy<Value = Round> {
    (
        prop_oneof![1usize..5, 1..=MOST],
        0usize..4,
        0usize..4,
        0usize..3,
        any::<bool>(),
    )
        .prop_map(|(length, from, to, stream, raw)| Round {
            length,
            from,
            to,
            stream,
            raw,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn every_call_computes_on_its_own_tensors(
        rounds in prop::collection::vec(round(), 1..40),
        graphs in any::<bool>(),
    ) {
        let Some(driver) = Driver::start() else { return Ok(()) };
        let mut options = LoadOptions::device(0);
        options.graphs = graphs;
        let mut loaded = load(&two_kernels(), &options);
        let (mut x, mut y) = (memory(), memory());
        for (number, Round { length, from, to, stream: on, raw }) in rounds.into_iter().enumerate() {
            let (from, to) = (16 * from, 16 * to);
            for (i, x) in x.0[from..from + length].iter_mut().enumerate() {
                *x = (i + 7 * number) as f32;
            }
            y.0.fill(f32::NAN);
            let shape = [length];
            let (input, output) = (address(&x) + 4 * from as u64, address(&y) + 4 * to as u64);
            let before = driver.counts();
            if raw {
                unsafe { loaded.call_raw(stream(on), &[input], &[output], &[length as i64]) }.unwrap();
            } else {
                loaded.call(stream(on), &[f32s(input, &shape)], &[f32s(output, &shape)]).unwrap();
            }
            prop_assert_eq!(&y.0[to..to + length], expected(&x.0[from..from + length]));
            prop_assert!(y.0[..to].iter().chain(&y.0[to + length..]).all(|y| y.is_nan()));
            let after = driver.counts();
            let done = (after.launches - before.launches, after.replays - before.replays);
            prop_assert_eq!(done, if graphs { (0, 1) } else { (2, 0) });
            prop_assert_eq!(after.stream, on as *mut c_void);
        }
        drop(loaded);
        let Counts { memory, modules, contexts, graphs, .. } = driver.counts();
        prop_assert_eq!((memory, modules, contexts, graphs), (0, 0, 0, 0));
    }
}

#[test]
fn only_arguments_that_changed_are_told_to_the_driver() {
    let Some(driver) = Driver::start() else { return };
    let mut loaded = load(&two_kernels(), &LoadOptions::default());
    let (x, y) = (memory(), memory());
    let mut updates = |x: u64, y: u64, length: usize| {
        let before = driver.counts();
        loaded
            .call(Stream::DEFAULT, &[f32s(x, &[length])], &[f32s(y, &[length])])
            .unwrap();
        let after = driver.counts();
        (
            after.updates - before.updates,
            after.allocations - before.allocations,
        )
    };
    let (x, y) = (address(&x), address(&y));
    assert_eq!(updates(x, y, 8), (2, 1), "the first call allocates");
    assert_eq!(updates(x, y, 8), (0, 0));
    assert_eq!(updates(x + 64, y, 8), (1, 0), "the second kernel has no input");
    assert_eq!(updates(x + 64, y + 64, 8), (1, 0));
    assert_eq!(updates(x, y, 8), (2, 0));
    assert_eq!(updates(x, y, 4), (2, 0), "there is enough scratch memory");
    assert_eq!(updates(x, y, 8), (0, 0));
    assert_eq!(updates(x, y, 4), (0, 0));
    assert_eq!(updates(x, y, 4000), (2, 1), "there is too little");
    assert_eq!(updates(x, y, 8), (2, 0), "scratch memory is elsewhere");
}

#[test]
fn wrong_calls_are_refused_and_do_nothing() {
    let Some(driver) = Driver::start() else { return };
    let mut loaded = load(&two_kernels(), &LoadOptions::default());
    let (x, y) = (memory(), memory());
    let (x, y) = (address(&x), address(&y));
    let f16s = |address, shape| unsafe { DeviceTensor::from_raw(DType::F16, address, shape) };
    let before = driver.counts();
    let mut refuse = |inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>], words: &[&str]| {
        refused(
            loaded.call(Stream::DEFAULT, inputs, outputs),
            ErrorKind::InvalidInput,
            words,
        );
    };
    let eight = f32s(y, &[8]);
    refuse(&[], &[eight], &["takes 1 inputs and writes 1 outputs", "0 and 1"]);
    refuse(&[f32s(x, &[])], &[eight], &["dim `N`", "no such extent"]);
    refuse(
        &[f32s(x, &[0])],
        &[f32s(y, &[0])],
        &["`N` is 0", "from 1 to 4000"],
    );
    refuse(&[f32s(x, &[4001])], &[f32s(y, &[4001])], &["`N` is 4001"]);
    refuse(&[f16s(x, &[8])], &[eight], &["input `x` is f32[8]", "f16[8]"]);
    refuse(&[f32s(x, &[8])], &[f32s(y, &[7])], &["f32[8]", "f32[7]"]);
    refuse(&[f32s(x + 32, &[8])], &[eight], &["multiple of 64 bytes"]);
    refuse(&[f32s(y, &[8])], &[eight], &["overlaps `x`"]);
    refuse(&[f32s(y - 64, &[100])], &[f32s(y, &[100])], &["overlaps `x`"]);
    refused(
        unsafe { loaded.call_raw(Stream::DEFAULT, &[x], &[y], &[]) },
        ErrorKind::InvalidInput,
        &["0 values", "1 dims"],
    );
    refused(
        loaded.prepare(Stream::DEFAULT, &[9999]),
        ErrorKind::InvalidInput,
        &["9999"],
    );
    let after = driver.counts();
    assert_eq!((before.replays, before.launches), (after.replays, after.launches));
}

#[test]
fn scratch_memory_is_the_callers_if_it_wants() {
    let Some(driver) = Driver::start() else { return };
    let mut loaded = load(&two_kernels(), &LoadOptions::default());
    assert_eq!(loaded.scratch_bytes(&[1]).unwrap(), 256);
    assert_eq!(loaded.scratch_bytes(&[1000]).unwrap(), 4096);
    refused(loaded.scratch_bytes(&[4001]), ErrorKind::InvalidInput, &["4001"]);
    let (mut x, y, scratch) = (memory(), memory(), memory());
    x.0[..1000].fill(3.0);
    let call = |loaded: &mut LoadedBundle, length: usize| {
        let shape = [length];
        let (x, y) = (f32s(address(&x), &shape), f32s(address(&y), &shape));
        loaded.call(stream(1), &[x], &[y])
    };
    unsafe { loaded.lend_scratch(stream(1), address(&scratch), 4096) }.unwrap();
    let before = driver.counts();
    call(&mut loaded, 1000).unwrap();
    assert_eq!(scratch.0[..1000], [6.0; 1000]);
    assert_eq!(scratch.0[1000].to_bits(), f32::NAN.to_bits());
    assert_eq!(driver.counts().allocations, before.allocations);
    refused(
        call(&mut loaded, 2000),
        ErrorKind::OutOfResources,
        &["8192 bytes", "4096"],
    );
    refused(
        unsafe { loaded.lend_scratch(stream(1), address(&scratch) + 16, 4096) },
        ErrorKind::InvalidInput,
        &["multiple of 256"],
    );
    call(&mut loaded, 999).unwrap();
    loaded.release(stream(1)).unwrap();
    assert_eq!(driver.counts().graphs, 0);
    call(&mut loaded, 2000).unwrap();
    assert_eq!(driver.counts().allocations, before.allocations + 1);
    loaded.prepare(stream(2), &[2000]).unwrap();
    let prepared = driver.counts();
    assert_eq!((prepared.memory, prepared.graphs), (2, 2));
    loaded.release(stream(2)).unwrap();
    assert_eq!(driver.counts().memory, 1);
}

#[test]
fn graphs_of_dims_that_are_not_used_are_given_up() {
    let Some(driver) = Driver::start() else { return };
    let mut loaded = load(&two_kernels(), &LoadOptions::default());
    let (x, y) = (memory(), memory());
    for length in 1..200 {
        for length in [length, 4000] {
            unsafe {
                let dims = [length];
                loaded.call_raw(Stream::DEFAULT, &[address(&x)], &[address(&y)], &dims)
            }
            .unwrap();
        }
    }
    assert_eq!(driver.counts().graphs, 64);
    let before = driver.counts().updates;
    for length in [199, 150, 4000] {
        unsafe { loaded.call_raw(Stream::DEFAULT, &[address(&x)], &[address(&y)], &[length]) }.unwrap();
    }
    assert_eq!(driver.counts().updates, before, "those of late are known");
}

#[test]
fn constants_are_on_the_device_and_clones_share_them() {
    let Some(driver) = Driver::start() else { return };
    let constant = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let bundle = sum(ARCH, artifact(CUBIN, sum_plan(), CODE, 1), &constant);
    let mut loaded = load(&bundle, &LoadOptions::default());
    let loading = driver.counts();
    assert_eq!((loading.memory, loading.modules), (1, 1));
    let mut clone = loaded.clone();
    // A thread that has no context yet.
    let outputs = std::thread::spawn(move || {
        let x = Tensor::from_slice([6], &[10f32; 6]).unwrap();
        let w = Tensor::from_slice([6], &[0.5f32; 6]).unwrap();
        let outputs = clone.run(&[x.clone(), w.clone()]).unwrap();
        refused(clone.run(&[x]), ErrorKind::InvalidInput, &["takes 2 inputs"]);
        outputs
    })
    .join()
    .unwrap();
    assert_eq!(
        outputs[0].as_slice::<f32>().unwrap(),
        [11.5, 12.5, 13.5, 14.5, 15.5, 16.5]
    );
    assert_eq!(driver.counts().memory, 1, "what a clone has goes with it");
    let ones = Tensor::from_slice([6], &[1f32; 6]).unwrap();
    let outputs = loaded.run(&[ones.clone(), ones]).unwrap();
    assert_eq!(outputs[0].as_slice::<f32>().unwrap(), constant.map(|c| c + 2.0));
    drop(loaded);
    let Counts {
        memory,
        modules,
        contexts,
        graphs,
        ..
    } = driver.counts();
    assert_eq!((memory, modules, contexts, graphs), (0, 0, 0, 0));
}

#[test]
fn tensor_maps_follow_their_tensors() {
    let Some(_driver) = Driver::start() else { return };
    let shape = [2usize, 3, 64];
    let extents: Vec<Expr> = shape.iter().map(|n| Expr::constant(*n as i64)).collect();
    let mut plan = plan_of("show_map");
    for tensor in &mut plan.tensors {
        tensor.shape.clone_from(&extents);
    }
    plan.launches[0].grid = vec![1.into()];
    plan.dims.clear();
    // Twice, so that it is a graph.
    let second = plan.launches[0].clone();
    plan.launches.push(second);
    let made = artifact(CUBIN, plan, CODE, 128);
    let mut images = Images::decode(&made).unwrap();
    let descriptor = Descriptor {
        tensor: 0,
        dtype: DType::F32,
        shape: vec![2, 3, 64],
        block: vec![1, 2, 32],
        swizzle: 0,
        padded: false,
    };
    images.kernels.truncate(1);
    images.kernels[0].parameters = vec![Parameter::Descriptor(descriptor), Parameter::Tensor(1)];
    let mut graph = Graph::new("show_map");
    let x = graph.input("x", DType::F32, extents);
    let y = graph.relu(x).unwrap();
    graph.output(y);
    let artifact = with_images(CUBIN, made.plan, &images);
    let bundle = bundle(&Task::new("show_map", graph), ARCH, artifact);
    for options in [LoadOptions::default(), LoadOptions::default().without_graphs()] {
        let mut loaded = load(&bundle, &options);
        loaded.prepare(Stream::DEFAULT, &[]).unwrap();
        let y = memory();
        // Addresses that f32 has exactly.
        for place in [1u64 << 30, 1 << 31, 1 << 30] {
            let (x, output) = (f32s(place, &shape), f32s(address(&y), &shape));
            loaded.call(Stream::DEFAULT, &[x], &[output]).unwrap();
            assert_eq!(y.0[15], place as f32);
            assert_eq!(y.0[3..6], [64.0, 3.0, 2.0]);
        }
    }
}

#[test]
fn blocks_have_scratch_of_their_own() {
    let Some(_driver) = Driver::start() else { return };
    let made = artifact(CUBIN, twice_reversed_plan(), CODE, 32);
    let mut images = Images::decode(&made).unwrap();
    for image in &mut images.kernels {
        image.parameters.push(Parameter::Scratch(Scratch {
            bytes: 100,
            align: 4096,
        }));
    }
    let artifact = with_images(CUBIN, made.plan, &images);
    let loaded = load(&twice_reversed(ARCH, artifact), &LoadOptions::default());
    // 64 bytes of `t`, and for each kernel 16 blocks, wherever the next multiple of 4096 is.
    let expected = 256 + 2 * (16 * 4096 + 4096 - 256);
    assert_eq!(loaded.scratch_bytes(&[16]).unwrap(), expected);
}

#[test]
fn what_the_device_cannot_run_is_refused() {
    let Some(driver) = Driver::start() else { return };
    let load = |bundle: &Bundle, options: &LoadOptions| unsafe { LoadedBundle::load(bundle, options) };
    let with =
        |arch: &str, artifact: Artifact| load(&twice_reversed(arch, artifact), &LoadOptions::default());
    let plan = twice_reversed_plan();
    refused(
        with("sm_100a", artifact(CUBIN, plan.clone(), CODE, 32)),
        ErrorKind::Unsupported,
        &["twice_reversed", "sm_100a", "sm_90a"],
    );
    refused(
        with(ARCH, artifact("elf-so", plan.clone(), CODE, 32)),
        ErrorKind::Unsupported,
        &["elf-so", "cubin"],
    );
    refused(
        with(ARCH, artifact(CUBIN, plan.clone(), b"\x7fELF else", 32)),
        ErrorKind::InvalidInput,
        &["kernel `twice`", "cannot be loaded"],
    );
    let made = artifact(CUBIN, plan, CODE, 32);
    let mut images = Images::decode(&made).unwrap();
    images.kernels[1].symbol = "unheard_of".into();
    refused(
        with(ARCH, with_images(CUBIN, made.plan, &images)),
        ErrorKind::InvalidInput,
        &["`unheard_of`"],
    );
    refused(
        load(&two_kernels(), &LoadOptions::device(3)),
        ErrorKind::NotFound,
        &["no device 3", "shows 1"],
    );
    let Counts {
        modules, contexts, ..
    } = driver.counts();
    assert_eq!((modules, contexts), (0, 0), "nothing is left of them");
}

/// A kernel's failure is told by the next call, and does not keep anything from being dropped.
#[test]
fn failures_of_kernels_are_told() {
    let Some(driver) = Driver::start() else { return };
    let mut graph = Graph::new("crash");
    let x = graph.input("x", DType::F32, [Expr::symbol("N")]);
    let y = graph.relu(x).unwrap();
    graph.output(y);
    let crash = bundle(
        &Task::new("crash", graph),
        ARCH,
        artifact(CUBIN, plan_of("crash"), CODE, 1),
    );
    let mut loaded = load(&crash, &LoadOptions::default());
    let (x, y) = (memory(), memory());
    let mut call = || {
        let (x, y) = (f32s(address(&x), &[8]), f32s(address(&y), &[8]));
        loaded.call(Stream::DEFAULT, &[x], &[y])
    };
    call().unwrap();
    refused(call(), ErrorKind::Unexpected, &["illegal memory access"]);
    drop(loaded);
    // The context of the mock lives on.
    unsafe { **driver.library.get::<*mut i32>("sticky").unwrap() = 0 };
    assert_eq!(driver.counts().contexts, 0);
}
