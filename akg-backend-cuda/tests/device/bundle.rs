//! Bundles in this process, on the device.

use std::sync::Arc;

use akg_backend_cuda::{CUDA_CPP, CudaBackend, DeviceTensor, LoadOptions, LoadedBundle, Stream};
use akg_core::image::{Images, Parameter, Scratch};
use akg_core::source::Artifact;
use akg_core::{Backend as _, Bundle, DType, Graph, Task, Tensor};
use cudarc::driver::{CudaContext, CudaStream, result, sys};
use futures::executor::block_on;

use crate::bundles::{MOST, bundle, expected, sum, sum_plan, twice_reversed, twice_reversed_plan};
use crate::common::{artifact, with_images};
use crate::{MEETING, box_twice};

const TWICE_REVERSED: &[u8] = b"
extern \"C\" __global__ void twice(const float *x, float *t, long long n) {
  if (threadIdx.x == 0) t[blockIdx.x] = 2 * x[blockIdx.x];
}
extern \"C\" __global__ void reverse(const float *t, float *y, long long n) {
  if (threadIdx.x == 0) y[blockIdx.x] = t[n - 1 - blockIdx.x];
}";

const ADD: &[u8] = b"extern \"C\" __global__ void add(const float *a, const float *b, float *c) {
  if (threadIdx.x == 0) c[blockIdx.x] = a[blockIdx.x] + b[blockIdx.x];
}";

fn arch() -> String {
    let devices = block_on(CudaBackend::builder().build().devices()).unwrap();
    devices[0].arch.clone()
}

fn two_kernels() -> Bundle {
    twice_reversed(
        &arch(),
        artifact(CUDA_CPP, twice_reversed_plan(), TWICE_REVERSED, 32),
    )
}

fn load(bundle: &Bundle, options: &LoadOptions) -> LoadedBundle {
    unsafe { LoadedBundle::load(bundle, options) }.unwrap()
}

fn both() -> [LoadOptions; 2] {
    [LoadOptions::device(0), LoadOptions::device(0).without_graphs()]
}

fn of(stream: &CudaStream) -> Stream {
    unsafe { Stream::from_raw(stream.cu_stream().cast()) }
}

/// Floats on the device.
struct Floats {
    address: sys::CUdeviceptr,
    length: usize,
    context: Arc<CudaContext>,
}

impl Floats {
    fn new(context: &Arc<CudaContext>, values: &[f32]) -> Self {
        context.bind_to_thread().unwrap();
        let address = unsafe { result::malloc_sync(4 * values.len().max(1)) }.unwrap();
        unsafe { result::memcpy_htod_sync(address, values) }.unwrap();
        context.synchronize().unwrap();
        Self {
            address,
            length: values.len(),
            context: context.clone(),
        }
    }

    fn nan(context: &Arc<CudaContext>, length: usize) -> Self {
        Self::new(context, &vec![f32::NAN; length])
    }

    /// The values, when everything is done.
    fn get(&self) -> Vec<f32> {
        self.context.synchronize().unwrap();
        let mut values = vec![0f32; self.length];
        unsafe { result::memcpy_dtoh_sync(&mut values, self.address) }.unwrap();
        values
    }

    fn view<'a>(&self, shape: &'a [usize]) -> DeviceTensor<'a> {
        unsafe { DeviceTensor::from_raw(DType::F32, self.address, shape) }
    }
}

impl Drop for Floats {
    fn drop(&mut self) {
        self.context.bind_to_thread().unwrap();
        unsafe { result::free_sync(self.address) }.unwrap();
    }
}

fn numbers(length: usize, from: usize) -> Vec<f32> {
    (from..from + length).map(|i| i as f32).collect()
}

/// Many calls are on their way before anybody looks at what they made, so that arguments of later calls would show in
/// earlier ones.
pub(crate) fn compute_on_the_tensors_of_each_call() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    for options in both() {
        let mut loaded = load(&two_kernels(), &options);
        let mut calls = Vec::new();
        for (number, length) in [1, 7, 7, 7, MOST, 100, 7, MOST, 1]
            .into_iter()
            .cycle()
            .take(60)
            .enumerate()
        {
            let values = numbers(length, number);
            let (x, y) = (Floats::new(&context, &values), Floats::nan(&context, length));
            calls.push((values, x, y));
        }
        for (number, (values, x, y)) in calls.iter().enumerate() {
            let shape = [values.len()];
            if number % 2 == 0 {
                loaded
                    .call(of(&stream), &[x.view(&shape)], &[y.view(&shape)])
                    .unwrap();
            } else {
                let dims = [values.len() as i64];
                unsafe { loaded.call_raw(of(&stream), &[x.address], &[y.address], &dims) }.unwrap();
            }
        }
        for (values, _, y) in &calls {
            assert_eq!(y.get(), expected(values));
        }
    }
    // The context of the thread, which is the same one.
    context.bind_to_thread().unwrap();
    let mut loaded = load(&two_kernels(), &LoadOptions::default());
    let y = loaded
        .run(&[Tensor::from_slice([9], &numbers(9, 0)).unwrap()])
        .unwrap();
    assert_eq!(y[0].as_slice::<f32>().unwrap(), expected(&numbers(9, 0)));
}

pub(crate) fn are_called_on_streams_and_threads() {
    let context = CudaContext::new(0).unwrap();
    for options in both() {
        let loaded = load(&two_kernels(), &options);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (mut loaded, context) = (loaded.clone(), &context);
                scope.spawn(move || {
                    let streams = [context.new_stream().unwrap(), context.new_stream().unwrap()];
                    let mut calls = Vec::new();
                    for number in 0..40 {
                        let values = numbers(MOST - number % 3, 1000 * thread + number);
                        let (x, y) = (Floats::new(context, &values), Floats::nan(context, values.len()));
                        calls.push((values, x, y));
                    }
                    for (number, (values, x, y)) in calls.iter().enumerate() {
                        let shape = [values.len()];
                        let stream = of(&streams[number % 2]);
                        loaded.call(stream, &[x.view(&shape)], &[y.view(&shape)]).unwrap();
                    }
                    for (values, _, y) in &calls {
                        assert_eq!(y.get(), expected(values));
                    }
                    for stream in &streams {
                        loaded.release(of(stream)).unwrap();
                    }
                });
            }
        });
    }
}

pub(crate) fn hold_constants() {
    let constant = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let bundle = sum(&arch(), artifact(CUDA_CPP, sum_plan(), ADD, 32), &constant);
    for options in both() {
        let mut loaded = load(&bundle, &options);
        for weight in [0.5f32, 8.0] {
            let x = Tensor::from_slice([6], &[10f32; 6]).unwrap();
            let w = Tensor::from_slice([6], &[weight; 6]).unwrap();
            let z = loaded.run(&[x, w]).unwrap();
            assert_eq!(
                z[0].as_slice::<f32>().unwrap(),
                constant.map(|c| 10.0 + c + weight)
            );
        }
    }
}

/// A kernel that moves its input by the copy engine, and one that doubles that.
pub(crate) fn move_tensor_maps() {
    let artifact = box_twice(twice_reversed_plan(), [16, 32], [0, 0]);
    let mut graph = Graph::new("twice");
    let x = graph.input("x", DType::F32, [16, 32]);
    let y = graph.add(x, x).unwrap();
    graph.output(y);
    let bundle = bundle(&Task::new("twice", graph), &arch(), artifact);
    let context = CudaContext::new(0).unwrap();
    for options in both() {
        let mut loaded = load(&bundle, &options);
        let stream = of(&context.default_stream());
        loaded.prepare(stream, &[]).unwrap();
        let calls: Vec<_> = (0..20)
            .map(|number| {
                let values = numbers(512, number);
                let x = Floats::new(&context, &values);
                (values, x, Floats::nan(&context, 512))
            })
            .collect();
        for (_, x, y) in &calls {
            let shape = [16, 32];
            loaded.call(stream, &[x.view(&shape)], &[y.view(&shape)]).unwrap();
        }
        for (values, _, y) in &calls {
            let doubled: Vec<f32> = values.iter().map(|x| 2.0 * x).collect();
            assert_eq!(y.get(), doubled);
        }
    }
}

/// The first kernel has programs of two blocks that meet in memory of their own, the second programs that all wait for
/// each other.
pub(crate) fn have_clusters_and_barriers() {
    let text = format!(
        "{MEETING}
    extern \"C\" __global__ void twice(float *x, float *t, long long n, float *scratch) {{
        unsigned rank;
        asm(\"mov.u32 %0, %cluster_ctarank;\" : \"=r\"(rank));
        float *pair = scratch + 32 * (blockIdx.x / 2);
        if (rank == 0 && threadIdx.x == 0) pair[0] = 2 * x[blockIdx.x / 2];
        __threadfence();
        asm volatile(\"barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\" ::: \"memory\");
        if (rank == 1 && threadIdx.x == 0) t[blockIdx.x / 2] = *(volatile float *)pair;
    }}
    extern \"C\" __global__ void reverse(float *t, float *y, long long n, unsigned *scratch) {{
        if (threadIdx.x != 0) return;
        meet(scratch, n);
        y[blockIdx.x] = t[n - 1 - blockIdx.x];
    }}"
    );
    let mut plan = twice_reversed_plan();
    plan.launches[1].cooperative = true;
    let made: Artifact = artifact(CUDA_CPP, plan, text.as_bytes(), 32);
    let mut images = Images::decode(&made).unwrap();
    let scratch = Scratch { bytes: 64, align: 64 };
    for image in &mut images.kernels {
        if image.kernel == "twice" {
            image.cluster = 2;
        }
        image.parameters.push(Parameter::Scratch(scratch));
    }
    let bundle = twice_reversed(&arch(), with_images(CUDA_CPP, made.plan, &images));
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    for options in both() {
        let mut loaded = load(&bundle, &options);
        for number in 0..10 {
            let values = numbers(100, number);
            let (x, y) = (Floats::new(&context, &values), Floats::nan(&context, 100));
            loaded
                .call(of(&stream), &[x.view(&[100])], &[y.view(&[100])])
                .unwrap();
            assert_eq!(y.get(), expected(&values));
        }
    }
}

/// Launches that go one by one become part of a graph that the caller records.
pub(crate) fn are_captured() {
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let mut loaded = load(&two_kernels(), &LoadOptions::device(0).without_graphs());
    loaded.prepare(of(&stream), &[300]).unwrap();
    let (x, y) = (
        Floats::new(&context, &numbers(300, 0)),
        Floats::nan(&context, 300),
    );
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    stream.begin_capture(mode).unwrap();
    loaded
        .call(of(&stream), &[x.view(&[300])], &[y.view(&[300])])
        .unwrap();
    let flags = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).unwrap().unwrap();
    assert!(y.get().iter().all(|y| y.is_nan()), "nothing ran yet");
    graph.launch().unwrap();
    assert_eq!(y.get(), expected(&numbers(300, 0)));
}
