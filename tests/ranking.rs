//! The ranking of configurations against tables of what they take: those that `cargo bench --bench gemm_table` made.
#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::collections::BTreeMap;
use std::path::Path;

use akg::expr::Bindings;
use akg::source::Knobs;
use akg::triton::TritonDsl;
use akg::tuner::{Space, WARPS};
use akg::{Dsl as _, Sketch, Target};
use serde_json::Value;

/// Candidates of a ranking that are tried.
const TRIED: usize = 12;
/// The part of the best speed that the best of them must have.
const ENOUGH: f64 = 0.95;

/// A product with the times of its configurations.
struct Product {
    name: String,
    target: Target,
    sketch: Sketch,
    kernel: String,
    seconds: BTreeMap<Knobs, f64>,
}

/// The products of a table.
fn read(path: &Path) -> Vec<Product> {
    let mut products: Vec<Product> = Vec::new();
    let mut target = None;
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(run) = line.get("run") {
            target = serde_json::from_value::<Target>(run["device"].clone()).ok();
        }
        let text = |of: &Value, field: &str| of[field].as_str().unwrap().to_owned();
        if let Some(product) = line.get("product") {
            let name = text(product, "shape");
            if products.iter().all(|p| p.name != name) {
                products.push(Product {
                    name,
                    target: target.clone().unwrap(),
                    sketch: Sketch::parse(&text(product, "sketch")).unwrap(),
                    kernel: text(product, "kernel"),
                    seconds: BTreeMap::new(),
                });
            }
        }
        if let Some(point) = line.get("point") {
            let name = text(point, "shape");
            let product = products.iter_mut().find(|p| p.name == name).unwrap();
            if let Some(seconds) = point["seconds"].as_f64() {
                let knobs = serde_json::from_value(point["knobs"].clone()).unwrap();
                product.seconds.insert(knobs, seconds);
            }
        }
    }
    products
}

impl Product {
    /// The configurations as the tuner tries them.
    fn ranked(&self) -> Vec<Knobs> {
        let own = TritonDsl::default().knobs(&self.sketch, &self.target).unwrap();
        let hints = Bindings::new();
        let space = Space {
            sketch: &self.sketch,
            own: &own,
            hints: &hints,
            target: &self.target,
        };
        let warps = format!("{}.{WARPS}", self.kernel);
        let groups = space.groups();
        let group = groups.iter().find(|g| g.contains(&warps)).unwrap();
        let base = self.sketch.default_knobs();
        let ranked = space.ranked(&base, group).into_iter();
        ranked.map(|(knobs, _)| knobs).collect()
    }

    /// The best speed among the first `tried`, over the best of all.
    fn reached(&self, ranked: &[Knobs], tried: usize) -> f64 {
        let best = |seconds: &mut dyn Iterator<Item = f64>| seconds.fold(f64::INFINITY, f64::min);
        let first = ranked
            .iter()
            .take(tried)
            .filter_map(|k| self.seconds.get(k).copied());
        best(&mut self.seconds.values().copied()) / best(&mut first.into_iter())
    }
}

#[test]
fn the_first_candidates_are_nearly_as_fast_as_the_best() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/data");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let tables: Vec<_> = files
        .map(|f| f.path())
        .filter(|p| p.extension().is_some_and(|e| e == "jsonl"))
        .collect();
    if tables.is_empty() {
        eprintln!("SKIPPED: no table in benches/data; `cargo bench --bench gemm_table` makes one on a GPU");
    }
    let mut short = Vec::new();
    for path in tables {
        for product in read(&path) {
            let ranked = product.ranked();
            let reached = product.reached(&ranked, TRIED);
            let enough = (1..=ranked.len()).find(|n| product.reached(&ranked, *n) >= ENOUGH);
            println!(
                "{} of {}: {reached:.3} of the best of {} with {TRIED} candidates; {ENOUGH} with {enough:?}",
                product.name,
                product.target.name,
                product.seconds.len()
            );
            // Also where nothing was measured.
            if reached.is_nan() || reached < ENOUGH {
                short.push((product.name, reached));
            }
        }
    }
    assert!(short.is_empty(), "{short:?}");
}
