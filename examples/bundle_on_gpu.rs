//! From a graph to a file, and from the file to calls on a stream of an NVIDIA GPU.
//!
//! Making the bundle takes Python with Triton, calling it does not.

use std::error::Error;
use std::sync::Arc;

use akg::cuda::{DeviceTensor, LoadOptions, LoadedBundle, Stream};
use akg::{Bundle, DType, Graph, Session, Task, blocking};
use cudarc::driver::{CudaContext, CudaStream, DevicePtr, DevicePtrMut};

fn main() -> Result<(), Box<dyn Error>> {
    akg::worker::init(); // candidates run in a process of their own: this program, started again
    if let Some(why) = akg::cuda::absence(None)? {
        println!("this example needs a GPU: {why}");
        return Ok(());
    }
    let file = std::env::temp_dir().join(format!("relu_softmax-{}.akg", std::process::id()));
    make()?.write(&file)?;

    // What follows needs the file alone, and neither a compiler nor a worker.
    let bundle = Bundle::read(&file)?;
    // SAFETY: this program has made the bundle.
    let mut softmax = unsafe { LoadedBundle::load(&bundle, &LoadOptions::device(0))? };
    let context = CudaContext::new(0)?;
    let y = call(&mut softmax, &context.new_stream()?)?;
    println!("y[0, 6] = {}", y[6]);
    std::fs::remove_file(&file)?;
    Ok(())
}

/// The best kernel for a task.
fn make() -> Result<Bundle, Box<dyn Error>> {
    let mut graph = Graph::new("relu_softmax");
    let x = graph.input("x", DType::F32, [4, 1000]);
    let y = graph.relu(x)?;
    let y = graph.softmax(y, -1)?;
    graph.output(y);
    let task = Task::new("relu_softmax", graph);

    let registry = akg::registry();
    let session = Session::new(registry.dsl("triton")?, registry.backend("cuda")?);
    let outcome = blocking::run(&session, &task)?;
    let bundle = session.bundle(&task, &outcome)?;
    bundle.ok_or_else(|| format!("no kernel passed: {:?}", outcome.failure()).into())
}

/// Calls the bundle with memory and a stream of cudarc's.
fn call(softmax: &mut LoadedBundle, stream: &Arc<CudaStream>) -> Result<Vec<f32>, Box<dyn Error>> {
    let values: Vec<f32> = (0..4000).map(|i| (i % 7) as f32).collect();
    let x = stream.clone_htod(&values)?;
    let mut y = stream.alloc_zeros::<f32>(4000)?;
    let shape = [4, 1000];
    {
        // What these guard is in order again when the call is on the stream.
        let ((from, _reads), (to, _writes)) = (x.device_ptr(stream), y.device_ptr_mut(stream));
        // SAFETY: the memory and the stream are alive until the copy below has waited for everything.
        unsafe {
            let inputs = [DeviceTensor::from_raw(DType::F32, from, &shape)];
            let outputs = [DeviceTensor::from_raw(DType::F32, to, &shape)];
            softmax.call(Stream::from_raw(stream.cu_stream().cast()), &inputs, &outputs)?;
        }
    }
    Ok(stream.clone_dtoh(&y)?)
}
