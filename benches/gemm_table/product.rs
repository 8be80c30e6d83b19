//! Products and their configurations: designed, enumerated and built.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use akg::digest::Digest;
use akg::source::{Artifact, KnobValue, Knobs, Source, SourceForm, TensorRole};
use akg::triton::TritonDsl;
use akg::verdict::Failure;
use akg::{DType, Dsl as _, Error, Graph, Result, Sketch, Target, Task, designer};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

use super::{Line, from_json, read, to_json};

/// `batch` products of `m` by `k` and `k` by `n`.
pub(super) struct Shape {
    pub(super) name: &'static str,
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
}

const fn shape(name: &'static str, batch: usize, m: usize, n: usize, k: usize) -> Shape {
    Shape { name, batch, m, n, k }
}

/// The kinds of products in KernelBench's level 1. Of those with a short sum, this has fewer rows and columns and a longer
/// one, because the shortest are one step and leave little to choose. The batched ones are fewer.
pub(super) const SHAPES: [Shape; 6] = [
    shape("square", 1, 4096, 4096, 4096),
    shape("standard", 1, 2048, 4096, 8192),
    shape("irregular", 1, 8205, 5921, 2949),
    shape("small-k", 1, 8192, 8192, 128),
    shape("large-k", 1, 256, 256, 524_288),
    shape("batched", 16, 512, 2048, 1024),
];

/// Warps of a program that are tried.
const WARPS: [i64; 3] = [4, 8, 16];
/// Elements of the accumulator that a warp has at least: tensor cores work on fragments of 16 by 32 and more.
const LEAST_SUMS: i64 = 512;
/// Elements of the accumulator that a thread can have in its registers, of which there are 255.
const MOST_SUMS_OF_THREAD: i64 = 255;
/// Threads of a warp.
const WARP: i64 = 32;
/// Bytes of both halves of an element.
const HALVES: i64 = 4;

/// A designed product.
pub(super) struct Product<'a> {
    pub(super) shape: &'a Shape,
    pub(super) sketch: Sketch,
    /// The kernel that multiplies.
    pub(super) kernel: String,
    /// The designer's choice.
    choice: Knobs,
}

impl<'a> Product<'a> {
    pub(super) fn design(shape: &'a Shape, maker: &Maker) -> Result<Self> {
        let mut graph = Graph::new("gemm");
        let extents = |rows, columns| match shape.batch {
            1 => vec![rows, columns],
            batch => vec![batch, rows, columns],
        };
        let a = graph.input("a", DType::F32, extents(shape.m, shape.k));
        let b = graph.input("b", DType::F32, extents(shape.k, shape.n));
        let y = graph.matmul(a, b)?;
        graph.output(y);
        let design = designer::design(&Task::new("gemm", graph), &maker.target)?;
        // Only kernels with products have a pipeline.
        let own = maker.dsl.knobs(&design.sketch, &maker.target)?;
        let kernel = own.iter().find_map(|knob| knob.name.strip_suffix(".stages"));
        let kernel = kernel.ok_or_else(|| Error::unexpected("the design has no product"))?;
        Ok(Self {
            shape,
            kernel: kernel.to_owned(),
            sketch: design.sketch,
            choice: design.knobs,
        })
    }

    pub(super) fn line(&self) -> Line {
        let Shape { name, batch, m, n, k } = *self.shape;
        Line::Product {
            shape: name.to_owned(),
            extents: [batch, m, n, k],
            kernel: self.kernel.clone(),
            sketch: self.sketch.to_string(),
        }
    }

    /// All configurations but those whose tiles cannot be in shared memory or whose sums cannot be in registers: the
    /// designer's choice first, the others in an order that is random but always the same.
    pub(super) fn points(&self, target: &Target) -> Vec<Knobs> {
        let mut points = Vec::new();
        for point in self.sketch.legal_points(&[].into()) {
            let [m, n, k, stages] = ["BM", "BN", "BK", "STAGES"].map(|name| int(&point, name));
            let fits = HALVES * (m + n) * k * stages <= target.tile_bytes as i64;
            let is_legal = |warps: &&i64| {
                let sums = m * n / **warps;
                fits && sums >= LEAST_SUMS && sums / WARP <= MOST_SUMS_OF_THREAD
            };
            points.extend(WARPS.iter().filter(is_legal).map(|warps| {
                let own = (format!("{}.warps", self.kernel), KnobValue::Int(*warps));
                point.clone().into_iter().chain([own]).collect::<Knobs>()
            }));
        }
        points.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
        let chosen = |p: &Knobs| self.choice.iter().all(|(name, value)| p.get(name) == Some(value));
        points.sort_by_key(|p| !(chosen(p) && int(p, &format!("{}.warps", self.kernel)) == 8));
        points
    }

    /// Whether the result of a configuration is compared: those that differ in the order of programs have the same.
    pub(super) fn is_compared(&self, knobs: &Knobs) -> bool {
        int(knobs, "GROUP") == int(&self.choice, "GROUP")
    }
}

fn int(knobs: &Knobs, name: &str) -> i64 {
    match knobs.get(name) {
        Some(KnobValue::Int(value)) => *value,
        _ => 1,
    }
}

/// A configuration and what was made of it.
pub(super) type Built = (Knobs, Result<Artifact, Failure>);

/// Builds kernels.
pub(super) struct Maker {
    pub(super) dsl: TritonDsl,
    pub(super) target: Target,
    pub(super) folder: PathBuf,
    pub(super) until: Instant,
}

impl Maker {
    /// Builds configurations, as many at a time as there are cores; fewer than asked for if time is up.
    pub(super) fn build(&self, product: &Product<'_>, points: Vec<Knobs>) -> Result<Vec<Built>> {
        fs::create_dir_all(&self.folder).map_err(|e| Error::io("cannot make the folder of artifacts", e))?;
        let next = AtomicUsize::new(0);
        let built: Mutex<Vec<(usize, Result<Built>)>> = Mutex::default();
        let work = || {
            while Instant::now() < self.until {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(knobs) = points.get(number) else { break };
                let artifact = self.artifact(product, knobs).map(|a| (knobs.clone(), a));
                built
                    .lock()
                    .unwrap_or_else(|e| e.into_inner())
                    .push((number, artifact));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(work);
            }
        });
        let mut built = built.into_inner().unwrap_or_else(|e| e.into_inner());
        built.sort_by_key(|(number, _)| *number);
        built.into_iter().map(|(_, built)| built).collect()
    }

    fn artifact(&self, product: &Product<'_>, knobs: &Knobs) -> Result<Result<Artifact, Failure>> {
        let source = self.dsl.lower(&product.sketch, knobs, &self.target)?;
        let source = product_alone(source, &product.kernel)?;
        let path = self.folder.join(format!("{}.json", Digest::of_value(&source)?));
        if path.exists() {
            return from_json(&read(&path)?);
        }
        let artifact = self.dsl.build(&source, &self.target)?;
        fs::write(&path, to_json(&artifact)?)
            .map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
        Ok(artifact)
    }
}

/// Removes the launches before that of `kernel`; what they write is an input then.
fn product_alone(mut source: Source, kernel: &str) -> Result<Source> {
    let SourceForm::Lowered { plan } = &mut source.form else {
        return Err(Error::unexpected("a lowered source has no launch plan"));
    };
    let ending = format!("_{kernel}");
    let first = plan.launches.iter().position(|l| l.kernel.ends_with(&ending));
    let first = first.ok_or_else(|| Error::unexpected(format!("nothing launches `{kernel}`")))?;
    let before: HashSet<usize> = plan.launches.drain(..first).flat_map(|l| l.tensors).collect();
    let after: HashSet<usize> = plan.launches.iter().flat_map(|l| l.tensors.clone()).collect();
    let mut places = BTreeMap::new();
    let mut tensors = Vec::new();
    for (at, mut tensor) in std::mem::take(&mut plan.tensors).into_iter().enumerate() {
        if after.contains(&at) {
            if before.contains(&at) {
                tensor.role = TensorRole::Input;
            }
            places.insert(at, tensors.len());
            tensors.push(tensor);
        }
    }
    plan.tensors = tensors;
    for tensor in plan.launches.iter_mut().flat_map(|l| &mut l.tensors) {
        *tensor = places.get(tensor).copied().unwrap_or_default();
    }
    Ok(source)
}
