//! Times of all configurations of a few products on a GPU: what rankings of configurations are held against.
//!
//! `cargo bench --bench gemm_table -- --out FILE` designs f32-accurate products of halves, builds each legal configuration
//! of the kernel that multiplies (by all cores, for it is builds that take the time), and then times them one by one. FILE
//! gets a JSON line for each: see [`Line`]. What is in FILE already is not measured again, so a run may end anywhere.
//!
//! Builds need no GPU: `--build-only --device examples/devices/nvidia-h200.json` fills the folder of `--artifacts`, from
//! which a later run takes them. Without a GPU, a run that should measure says so and ends.

mod meter;
mod product;

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use akg::cuda::{CudaBackend, absence};
use akg::source::Knobs;
use akg::triton::TritonDsl;
use akg::verdict::Failure;
use akg::{Dsl as _, Error, Result, Target, blocking};
use clap::Parser;
use serde::{Deserialize, Serialize};

use self::meter::Meter;
use self::product::{Maker, Product, SHAPES, Shape};

/// A line of the table.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// What the points after it were measured with.
    Run {
        device: Box<Target>,
        driver: Option<String>,
        toolchain: String,
        date: String,
        command: String,
    },
    /// A product: extents `batch`, `m`, `n`, `k`, its sketch and the kernel whose knobs are varied.
    Product {
        shape: String,
        extents: [usize; 4],
        kernel: String,
        sketch: String,
    },
    /// A configuration.
    Point(Point),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Point {
    shape: String,
    knobs: Knobs,
    /// Median of the time of a call, inputs in the cache as the call before left them. None if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    registers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spilled: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<u32>,
    /// Whether its result was compared with that of the designer's choice, and was the same. Orders of programs are not
    /// compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    compared: bool,
}

#[derive(Debug, Parser)]
struct Options {
    /// The table.
    #[arg(long, default_value = "target/gemm_table.jsonl")]
    out: PathBuf,
    /// Folder for what was built.
    #[arg(long, default_value = "target/gemm_table")]
    artifacts: PathBuf,
    /// Names of products, all if none.
    #[arg(long, value_delimiter = ',')]
    shapes: Vec<String>,
    /// Seconds after which nothing more is begun.
    #[arg(long, default_value_t = f64::INFINITY)]
    budget: f64,
    /// Configurations of each product at most, in the order of measurement.
    #[arg(long, default_value_t = usize::MAX)]
    most: usize,
    /// Builds and measures nothing.
    #[arg(long)]
    build_only: bool,
    /// JSON description of the device to build for, instead of the one here.
    #[arg(long, value_name = "FILE")]
    device: Option<PathBuf>,
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    akg::worker::init();
    match Options::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn run(&self) -> Result<()> {
        let began = Instant::now();
        let backend = CudaBackend::builder().build();
        if let (false, Some(why)) = (self.build_only, absence(None)?) {
            eprintln!("SKIPPED: {why}; only --build-only works here");
            return Ok(());
        }
        let target = match &self.device {
            Some(path) => from_json(&read(path)?)?,
            None => blocking::devices(&backend)?
                .into_iter()
                .next()
                .ok_or_else(|| Error::invalid("there is no GPU: describe one with --device"))?,
        };
        let mut table = Table::open(&self.out)?;
        let maker = Maker {
            dsl: TritonDsl::default(),
            target,
            folder: self.artifacts.clone(),
            until: began + Duration::try_from_secs_f64(self.budget).unwrap_or(Duration::MAX / 4),
        };
        if !self.build_only {
            table.write(&Line::Run {
                device: Box::new(maker.target.clone()),
                driver: fs::read_to_string("/proc/driver/nvidia/version").ok(),
                toolchain: maker.dsl.toolchain(&maker.target)?,
                date: jiff::Timestamp::now().to_string(),
                command: std::env::args().collect::<Vec<_>>().join(" "),
            })?;
        }
        let wanted = |s: &&Shape| self.shapes.is_empty() || self.shapes.iter().any(|n| n == s.name);
        for shape in SHAPES.iter().filter(wanted) {
            let product = Product::design(shape, &maker)?;
            let mut points = product.points(&maker.target);
            let all = points.len();
            points.truncate(self.most);
            points.retain(|p| !table.knows(shape.name, p));
            println!("{}: {} of {all} configurations to do", shape.name, points.len());
            let built = maker.build(&product, points)?;
            println!(
                "{}: {} built after {:.0?}",
                shape.name,
                built.len(),
                began.elapsed()
            );
            if !self.build_only {
                table.write(&product.line())?;
                Meter::new(&backend, &product, &mut table)?.measure(built, maker.until)?;
                println!("{}: measured after {:.0?}", shape.name, began.elapsed());
            }
        }
        Ok(())
    }
}

/// The file.
struct Table {
    path: PathBuf,
    known: HashSet<(String, Knobs)>,
}

impl Table {
    fn open(path: &Path) -> Result<Self> {
        let text = if path.exists() { read(path)? } else { String::new() };
        let mut known = HashSet::new();
        for line in text.lines() {
            // The last line may have been cut off.
            if let Ok(Line::Point(point)) = serde_json::from_str(line) {
                known.insert((point.shape, point.knobs));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            known,
        })
    }

    fn knows(&self, shape: &str, knobs: &Knobs) -> bool {
        self.known.contains(&(shape.to_owned(), knobs.clone()))
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let cannot = |e| Error::io(format!("cannot write {}", self.path.display()), e);
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)
            .map_err(cannot)?;
        writeln!(file, "{}", to_json(line)?).map_err(cannot)
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| Error::io(format!("cannot read {}", path.display()), e))
}

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::unexpected("cannot write JSON").caused_by(e))
}

fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::invalid(format!("JSON is damaged: {e}")))
}
