//! Tasks in families: one computation with open extents, at many sizes.

use akg::expr::Bindings;
use akg::graph::ValueId;
use akg::{DType, Expr, Graph, Result, Task};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const F32: DType = DType::F32;

/// Sizes of tasks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Elements of the largest tensor at most.
    pub(super) most_elements: i64,
    /// Multiplications of a product at most.
    pub(super) most_products: i64,
}

/// Elements of the largest tensor at least.
const LEAST_ELEMENTS: i64 = 1 << 14;

/// A computation whose extents are open.
pub(super) struct Family {
    pub(super) name: &'static str,
    /// Its extents: at most so many octaves each.
    extents: &'static [(&'static str, u32)],
    build: fn(&mut Graph) -> Result<ValueId>,
}

fn open(names: &[&str]) -> Vec<Expr> {
    names.iter().map(|name| Expr::symbol(*name)).collect()
}

/// Element-wise tasks have one extent: the designer flattens them, and sketches have no product of open extents.
fn line(g: &mut Graph) -> ValueId {
    g.input("x", F32, open(&["N"]))
}

fn rows(g: &mut Graph) -> ValueId {
    g.input("x", F32, open(&["M", "N"]))
}

fn cube(g: &mut Graph) -> ValueId {
    g.input("x", F32, open(&["B", "M", "N"]))
}

fn factors(g: &mut Graph) -> (ValueId, ValueId) {
    let a = g.input("a", F32, open(&["M", "K"]));
    (a, g.input("b", F32, open(&["K", "N"])))
}

fn layer(g: &mut Graph) -> Result<ValueId> {
    let x = g.input("x", F32, open(&["M", "K"]));
    let w = g.weight("w", F32, open(&["N", "K"]));
    let b = g.weight("b", F32, open(&["N"]));
    g.linear(x, w, Some(b))
}

const LINE: &[(&str, u32)] = &[("N", 24)];
const ROWS: &[(&str, u32)] = &[("M", 14), ("N", 14)];
const CUBE: &[(&str, u32)] = &[("B", 8), ("M", 11), ("N", 11)];
const PRODUCT: &[(&str, u32)] = &[("M", 12), ("K", 12), ("N", 12)];
const BATCHED: &[(&str, u32)] = &[("B", 6), ("M", 10), ("K", 10), ("N", 10)];

macro_rules! family {
    ($name:literal, $extents:expr, |$g:ident| $build:expr) => {
        Family {
            name: $name,
            extents: $extents,
            build: |$g| $build,
        }
    };
}

/// The families.
#[rustfmt::skip]
pub(super) const FAMILIES: [Family; 25] = [
    family!("gelu", LINE, |g| { let x = line(g); g.gelu(x) }),
    family!("silu times itself", LINE, |g| { let x = line(g); let y = g.silu(x)?; g.mul(x, y) }),
    family!("rectified sum of two", LINE, |g| { let x = line(g); let y = g.input("y", F32, open(&["N"])); let s = g.add(x, y)?; g.relu(s) }),
    family!("columns scaled", ROWS, |g| { let x = rows(g); let w = g.weight("w", F32, open(&["N"])); let y = g.mul(x, w)?; g.tanh(y) }),
    family!("softmax of rows", ROWS, |g| { let x = rows(g); g.softmax(x, 1) }),
    family!("softmax of columns", ROWS, |g| { let x = rows(g); g.softmax(x, 0) }),
    family!("log-softmax", ROWS, |g| { let x = rows(g); g.log_softmax(x, 1) }),
    family!("softmax of a middle axis", CUBE, |g| { let x = cube(g); g.softmax(x, 1) }),
    family!("sum of rows", ROWS, |g| { let x = rows(g); g.sum(x, &[1], false) }),
    family!("sum of columns", ROWS, |g| { let x = rows(g); g.sum(x, &[0], false) }),
    family!("mean of a middle axis", CUBE, |g| { let x = cube(g); g.mean(x, &[1], false) }),
    family!("maximum of rows", ROWS, |g| { let x = rows(g); g.amax(x, &[1], false) }),
    family!("maximum of a middle axis", CUBE, |g| { let x = cube(g); g.amax(x, &[1], false) }),
    family!("sum of squares", ROWS, |g| { let x = rows(g); let y = g.mul(x, x)?; g.sum(y, &[1], false) }),
    family!("rows of unit mean square", ROWS, |g| { let x = rows(g); let y = g.mul(x, x)?; let m = g.mean(y, &[1], true)?; let r = g.rsqrt(m)?; g.mul(x, r) }),
    family!("centred rows", ROWS, |g| { let x = rows(g); let m = g.mean(x, &[1], true)?; g.sub(x, m) }),
    family!("product", PRODUCT, |g| { let (a, b) = factors(g); g.matmul(a, b) }),
    family!("product rectified", PRODUCT, |g| { let (a, b) = factors(g); let y = g.matmul(a, b)?; g.relu(y) }),
    family!("linear layer", PRODUCT, |g| layer(g)),
    family!("linear layer with GELU", PRODUCT, |g| { let y = layer(g)?; g.gelu(y) }),
    family!("linear layer with softmax", PRODUCT, |g| { let y = layer(g)?; g.softmax(y, 1) }),
    family!("linear layer and residual", PRODUCT, |g| { let y = layer(g)?; let r = g.input("r", F32, open(&["M", "N"])); g.add(y, r) }),
    family!("product transposed", PRODUCT, |g| { let a = g.input("a", F32, open(&["M", "K"])); let b = g.input("b", F32, open(&["N", "K"])); let b = g.transpose(b, 0, 1)?; g.matmul(a, b) }),
    family!("products in batches", BATCHED, |g| { let a = g.input("a", F32, open(&["B", "M", "K"])); let b = g.input("b", F32, open(&["B", "K", "N"])); g.bmm(a, b) }),
    family!("sum of the rows of a product", PRODUCT, |g| { let (a, b) = factors(g); let y = g.matmul(a, b)?; let y = g.sigmoid(y)?; g.sum(y, &[1], false) }),
];

impl Family {
    /// Tasks of the family without end, each of another size: extents are of all magnitudes alike.
    ///
    /// # Errors
    /// If the graph cannot be built.
    pub(super) fn tasks(&self, sizes: Sizes, seed: u64) -> Result<impl Iterator<Item = Task> + use<>> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut graph = Graph::new(self.name);
        let y = (self.build)(&mut graph)?;
        graph.output(y);
        let (name, extents) = (self.name, self.extents);
        let mut known: Vec<Bindings> = Vec::new();
        Ok(std::iter::from_fn(move || {
            loop {
                let mut extent =
                    |octaves: u32| 2f64.powf(random.random_range(2.0..f64::from(octaves))) as i64;
                let hints: Bindings = extents
                    .iter()
                    .map(|(name, octaves)| ((*name).into(), extent(*octaves)))
                    .collect();
                if sizes.hold(&hints) && !known.contains(&hints) {
                    known.push(hints.clone());
                    let mut task = Task::new(name, graph.clone());
                    task.contract.hints = hints;
                    return Some(task);
                }
            }
        }))
    }
}

impl Sizes {
    /// Whether these are extents of a task that takes more than its launches, and not too long.
    fn hold(self, extents: &Bindings) -> bool {
        let of = |name: &str| extents.get(name).copied().unwrap_or(1);
        let (b, m, k, n) = (of("B"), of("M"), of("K"), of("N"));
        let largest = [b * m * n, b * m * k, b * k * n].into_iter().max().unwrap_or(0);
        (LEAST_ELEMENTS..=self.most_elements).contains(&largest) && b * m * k * n <= self.most_products
    }
}
