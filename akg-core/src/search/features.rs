//! What kind of candidate a member is.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::sketch::ir::{Axis, Kernel, Op, Program, Stmt, StoreMode};
use crate::sketch::peak_tile_bytes;

/// What tells kinds of candidates apart, whatever their times.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Features {
    /// What each kernel does, in launch order: `map`, `reduce`, `scan`, `product`, `gather`, `atomic`, `meet`, several of
    /// them joined by `+`.
    pub family: String,
    /// Elements of the largest tile that is stored.
    pub tile_elements: u64,
    /// The most bytes of tiles that a program of any kernel holds at once.
    pub on_chip_bytes: u64,
    /// How products read their operands and the types of operands and sums, as in `f16 f16 f32`; empty without any.
    pub precision: String,
}

/// A niche of similar candidates. Tiles and bytes are classes of powers of four.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    family: String,
    precision: String,
    tile: u32,
    on_chip: u32,
}

impl Features {
    /// What a sketch's program shows.
    pub fn of(program: &Program) -> Self {
        let kernels = program.kernels.iter().map(Traits::of);
        let kernels: Vec<Traits> = kernels.collect();
        let families = kernels.iter().map(|kernel| {
            if kernel.does.is_empty() {
                "map".to_owned()
            } else {
                joined(&kernel.does, "+")
            }
        });
        let precision = kernels.iter().flat_map(|kernel| kernel.products.iter().cloned());
        Self {
            family: families.collect::<Vec<_>>().join(", "),
            tile_elements: kernels.iter().map(|kernel| kernel.stored).max().unwrap_or(0),
            on_chip_bytes: program.kernels.iter().map(peak_tile_bytes).max().unwrap_or(0),
            precision: joined(&precision.collect(), ", "),
        }
    }

    /// The cell that it belongs to.
    pub fn cell(&self) -> Cell {
        let class = |number: u64| number.max(1).ilog2() / 2;
        Cell {
            family: self.family.clone(),
            precision: self.precision.clone(),
            tile: class(self.tile_elements),
            on_chip: class(self.on_chip_bytes),
        }
    }
}

fn joined<T: AsRef<str> + Ord>(names: &BTreeSet<T>, separator: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    names.join(separator)
}

/// What a kernel shows.
#[derive(Debug, Default)]
struct Traits {
    does: BTreeSet<&'static str>,
    products: BTreeSet<String>,
    /// Elements of the largest tile that is stored.
    stored: u64,
}

impl Traits {
    fn of(kernel: &Kernel) -> Self {
        let mut traits = Self::default();
        traits.body(kernel, &kernel.body);
        traits
    }

    fn body(&mut self, kernel: &Kernel, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Define { value, op, .. } => self.define(kernel, op, kernel.ty(*value).dtype),
                Stmt::Store {
                    region, value, mode, ..
                } => {
                    self.region(region);
                    if *mode == StoreMode::AtomicAdd {
                        self.does.insert("atomic");
                    }
                    let elements = kernel.ty(*value).extents.iter().product::<usize>() as u64;
                    self.stored = self.stored.max(elements);
                }
                Stmt::For(l) if l.combine.is_some() => {
                    self.does.insert("reduce");
                }
                Stmt::Barrier => {
                    self.does.insert("meet");
                }
                Stmt::For(_) | Stmt::If(_) => {}
            }
            for block in stmt.blocks() {
                self.body(kernel, block);
            }
        }
    }

    fn define(&mut self, kernel: &Kernel, op: &Op, sum: crate::DType) {
        let does = match op {
            Op::Load { region, .. } => return self.region(region),
            Op::Dot { a, method, .. } => {
                self.products
                    .insert(format!("{} {} {sum}", method.name(), kernel.ty(*a).dtype));
                "product"
            }
            Op::Reduce(..) | Op::ArgReduce(..) => "reduce",
            Op::Scan { .. } => "scan",
            _ => return,
        };
        self.does.insert(does);
    }

    fn region(&mut self, region: &[Axis]) {
        if region.iter().any(|axis| matches!(axis, Axis::Gather(_))) {
            self.does.insert("gather");
        }
    }
}
