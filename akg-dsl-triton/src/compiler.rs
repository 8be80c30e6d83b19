//! Running Triton's compiler, in Python processes.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use akg_core::diagnostic::Diagnostic;
use akg_core::dtype::DType;
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Expr;
use akg_core::image::{Descriptor, Images, KernelImage, Parameter, Report, Scratch};
use akg_core::isolation::Isolation;
use akg_core::lower::analysis::region;
use akg_core::source::{Artifact, Launch, LaunchPlan};
use akg_core::target::Target;
use akg_core::verdict::{Failure, FailureKind};
use akg_python::{Config, Package, Pool, PythonOptions, Script};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::config::TritonConfig;
use crate::dialect::Dialect;

const SCRIPT: Script = Script {
    name: "akg_triton",
    text: include_str!("compiler.py"),
    imports: &["triton", "triton.compiler", "triton.backends"],
    package: Package::Triton,
};

/// Modules that a kernel may import.
const IMPORTS: [&str; 1] = ["triton"];

/// Kernels that one process compiles in the time limit, at most.
const MOST_KERNELS: usize = 8;

/// Names that reach outside a kernel.
const FORBIDDEN: [&str; 12] = [
    "__builtins__",
    "__import__",
    "breakpoint",
    "compile",
    "eval",
    "exec",
    "exit",
    "getattr",
    "globals",
    "open",
    "setattr",
    "vars",
];

/// Triton's compiler.
#[derive(Debug)]
pub(crate) struct Compiler {
    pool: Pool,
    time_limit: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer<T> {
    Ok(T),
    Failed(String),
}

#[derive(Deserialize)]
struct Compiled {
    kernel: String,
    symbol: String,
    threads: u32,
    cluster: u32,
    shared: u32,
    /// Size and alignment of the memory that programs need for themselves, and for profiles.
    scratch: [(u64, u64); 2],
    boxes: Vec<CompiledBox>,
    registers: Option<u32>,
    spilled: Option<u32>,
    code: String,
}

#[derive(Deserialize)]
struct CompiledBox {
    parameter: usize,
    shape: Vec<u64>,
    block: Vec<u32>,
    swizzle: u32,
    padded: bool,
}

#[derive(Deserialize)]
struct Place {
    line: usize,
    column: usize,
    message: String,
}

impl Compiler {
    pub(crate) fn new(config: &TritonConfig) -> Self {
        let mut python = Config::default();
        python.python.clone_from(&config.python);
        python.cache.clone_from(&config.cache);
        let mut options = PythonOptions::default();
        options.isolation = config.isolation;
        Self {
            pool: Pool::new(python, options, SCRIPT),
            time_limit: config.time_limit,
        }
    }

    /// What builds depend on.
    pub(crate) fn identity(&self) -> Result<String> {
        Ok(format!(
            "akg-dsl-triton {}, triton {}",
            env!("CARGO_PKG_VERSION"),
            self.pool.version()?
        ))
    }

    /// Builds the kernels that `plan` launches.
    pub(crate) fn build(
        &self,
        text: &str,
        plan: &LaunchPlan,
        target: &Target,
    ) -> Result<Result<Artifact, Failure>> {
        let dialect = Dialect::of(target)?;
        let launches = distinct(plan);
        let requests = kernels(plan, &launches)?
            .chunks(part_of(launches.len()))
            .map(|part| json!({"build": {"text": text, "kernels": part, "target": &dialect}}))
            .collect::<Vec<_>>();
        let failed = |kind, why: String| Ok(Err(Failure::new(kind, why)));
        let (mut compiled, mut isolation) = (Vec::new(), Isolation::default());
        for answer in self.answers::<Vec<Compiled>>(&requests) {
            match answer {
                Ok((Answer::Ok(part), own)) => {
                    compiled.extend(part);
                    isolation = own;
                }
                Ok((Answer::Failed(why), _)) => return failed(FailureKind::CompileFailed, why),
                Err(e) if e.kind() == ErrorKind::Timeout => {
                    let seconds = self.time_limit.as_secs_f64();
                    let why =
                        format!("Triton took longer than {seconds:.0} s to compile some of the kernels");
                    return failed(FailureKind::CompileFailed, why);
                }
                Err(e) => return Err(e),
            }
        }
        let too_large = compiled.iter().find(|c| u64::from(c.shared) > target.tile_bytes);
        if let Some(c) = too_large {
            let why = format!(
                "kernel `{}` needs {} bytes of shared memory, but {} has {}: make tiles smaller or the pipeline shorter",
                c.kernel, c.shared, target.name, target.tile_bytes
            );
            return failed(FailureKind::CompileFailed, why);
        }
        let images: Result<Vec<KernelImage>> = compiled
            .into_iter()
            .zip(&launches)
            .map(|(compiled, launch)| image(compiled, launch, plan))
            .collect();
        let images = Images { kernels: images? };
        let report = images.kernels.iter().map(|image| {
            format!(
                "{}: {} registers, {} bytes spilled, {} bytes shared, {} threads",
                image.kernel,
                image.report.registers.map_or("?".to_owned(), |n| n.to_string()),
                image
                    .report
                    .spilled_bytes
                    .map_or("?".to_owned(), |n| n.to_string()),
                image.shared_bytes,
                image.threads
            )
        });
        let metadata = BTreeMap::from([
            ("compiler".to_owned(), format!("triton {}", self.pool.version()?)),
            ("isolation".to_owned(), isolation.to_string()),
            ("kernels".to_owned(), report.collect::<Vec<_>>().join("\n")),
        ]);
        Ok(Ok(Artifact {
            format: dialect.format.to_owned(),
            bytes: images.encode()?,
            plan: plan.clone(),
            metadata,
        }))
    }

    /// Finds what is wrong with a text without compiling it.
    pub(crate) fn check(&self, text: &str, plan: &LaunchPlan) -> Result<Vec<Diagnostic>> {
        let request = json!({"check": {
            "text": text,
            "kernels": kernels(plan, &distinct(plan))?,
            "imports": IMPORTS,
            "forbidden": FORBIDDEN,
        }});
        let places: Vec<Place> = match self.answer(&request)?.0 {
            Answer::Ok(places) => places,
            Answer::Failed(why) => return Ok(vec![Diagnostic::error(why, 0..0)]),
        };
        let diagnostic = |place: Place| {
            let at = offset(text, place.line, place.column);
            Diagnostic::error(place.message, at..at)
        };
        Ok(places.into_iter().map(diagnostic).collect())
    }

    /// The answers to several requests, in their order. The pool has a process for each, but no more than processors.
    fn answers<T: DeserializeOwned + Send>(&self, requests: &[Value]) -> Vec<Result<(Answer<T>, Isolation)>> {
        thread::scope(|scope| {
            let calls: Vec<_> = requests
                .iter()
                .map(|request| scope.spawn(|| self.answer(request)))
                .collect();
            let lost = || Err(Error::unexpected("a thread that waited for Triton panicked"));
            calls
                .into_iter()
                .map(|call| call.join().unwrap_or_else(|_| lost()))
                .collect()
        })
    }

    fn answer<T: DeserializeOwned>(&self, request: &Value) -> Result<(Answer<T>, Isolation)> {
        self.pool.call(request, self.time_limit)
    }
}

/// The byte offset of a place in a text.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let length = text
        .get(start..)
        .and_then(|rest| rest.lines().next())
        .map_or(0, str::len);
    start + column.saturating_sub(1).min(length)
}

/// How many of so many kernels one process compiles: all processors work, and no process for too long.
fn part_of(kernels: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    kernels.div_ceil(processors).clamp(1, MOST_KERNELS)
}

/// The first launch of each kernel.
fn distinct(plan: &LaunchPlan) -> Vec<&Launch> {
    let mut launches: Vec<&Launch> = Vec::new();
    for launch in &plan.launches {
        if launches.iter().all(|known| known.kernel != launch.kernel) {
            launches.push(launch);
        }
    }
    launches
}

/// The kernels as the script takes them.
fn kernels(plan: &LaunchPlan, launches: &[&Launch]) -> Result<Vec<Value>> {
    let mut kernels = Vec::with_capacity(launches.len());
    for launch in launches {
        let mut tensors = Vec::with_capacity(launch.tensors.len());
        for tensor in launch.tensors.iter().map(|t| plan.tensors.get(*t)) {
            let tensor = tensor.ok_or_else(|| {
                Error::invalid(format!(
                    "kernel `{}` takes a tensor that the plan lacks",
                    launch.kernel
                ))
            })?;
            tensors.push(json!({"type": pointer(tensor.dtype)?, "align": tensor.align}));
        }
        kernels.push(json!({
            "name": launch.kernel,
            "tensors": tensors,
            "dims": plan.dims.len(),
            "cooperative": launch.cooperative,
        }));
    }
    Ok(kernels)
}

/// Triton's name of a pointer to elements.
fn pointer(dtype: DType) -> Result<&'static str> {
    Ok(match dtype {
        DType::Bool => "*i1",
        DType::U8 => "*u8",
        DType::I8 => "*i8",
        DType::I16 => "*i16",
        DType::I32 => "*i32",
        DType::I64 => "*i64",
        DType::F16 => "*fp16",
        DType::BF16 => "*bf16",
        DType::F32 => "*fp32",
        DType::F64 => "*fp64",
        other => {
            return Err(Error::unsupported(format!(
                "Triton has no element type for {other}"
            )));
        }
    })
}

fn image(compiled: Compiled, launch: &Launch, plan: &LaunchPlan) -> Result<KernelImage> {
    let broken = |what: String| Error::new(ErrorKind::Protocol, format!("Triton's compiler reports {what}"));
    let mut parameters = Vec::new();
    for (at, number) in launch.tensors.iter().enumerate() {
        let Some(described) = compiled.boxes.iter().find(|b| b.parameter == at) else {
            parameters.push(Parameter::Tensor(at));
            continue;
        };
        let tensor = plan.tensors.get(*number);
        let tensor = tensor.ok_or_else(|| broken(format!("a box of tensor {number}")))?;
        parameters.push(Parameter::Descriptor(Descriptor {
            tensor: at,
            dtype: tensor.dtype,
            shape: described.shape.clone(),
            block: described.block.clone(),
            swizzle: described.swizzle,
            padded: described.padded,
        }));
        // The extents and strides of the tensor follow its description.
        let shape: Vec<Expr> = described
            .shape
            .iter()
            .map(|n| Expr::constant(*n as i64))
            .collect();
        let constants = |values: &[Expr], bytes| {
            let values = values.iter().filter_map(Expr::as_const);
            values
                .map(move |value| Parameter::Constant { value, bytes })
                .collect::<Vec<_>>()
        };
        parameters.extend(constants(&shape, 4));
        parameters.extend(constants(&region::strides(&shape), 8));
    }
    parameters.extend((0..plan.dims.len()).map(|dim| Parameter::Dim { dim, bytes: 8 }));
    parameters.extend(compiled.scratch.map(|(bytes, align)| {
        Parameter::Scratch(if bytes == 0 {
            Scratch::default()
        } else {
            Scratch { bytes, align }
        })
    }));
    let code = STANDARD.decode(&compiled.code);
    Ok(KernelImage {
        kernel: compiled.kernel,
        symbol: compiled.symbol,
        threads: compiled.threads,
        cluster: compiled.cluster,
        shared_bytes: compiled.shared,
        parameters,
        report: Report {
            registers: compiled.registers,
            spilled_bytes: compiled.spilled,
        },
        code: code.map_err(|e| broken(format!("code that is not base64: {e}")))?,
    })
}
