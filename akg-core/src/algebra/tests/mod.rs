//! Each rule against the reference interpreter, and what rules make of graphs together.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::extract;
use super::rules::{Kind, Rule, rules};
use super::saturate::saturate;
use super::site::Space;
use super::term::Term;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Bindings;
use crate::graph::{Graph, ValueId};
use crate::reference::{Options, evaluate};
use crate::tensor::Tensor;

mod elements;
mod graphs;
mod sums;

/// Builds a small graph that a rule matches, of random shapes, and gives its result.
type Make = fn(&mut Random, &mut Graph) -> Result<ValueId>;

/// What instances are made of.
struct Random(ChaCha8Rng);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0.random_range(0..n)
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as i64) as usize]
    }

    /// An extent, often 1.
    fn extent(&mut self) -> i64 {
        self.of(&[1, 1, 2, 3, 4])
    }

    /// An extent that is not 1.
    fn long(&mut self) -> i64 {
        2 + self.below(4)
    }

    fn shape(&mut self, rank: i64) -> Vec<i64> {
        (0..rank).map(|_| self.extent()).collect()
    }

    /// A shape of 1 to 3 axes.
    fn any_shape(&mut self) -> Vec<i64> {
        let rank = 1 + self.below(3);
        self.shape(rank)
    }

    fn wide(&mut self) -> DType {
        self.of(&[DType::F32, DType::F64])
    }

    fn float(&mut self) -> DType {
        self.of(&[DType::F16, DType::BF16, DType::F32, DType::F64])
    }

    fn number(&mut self) -> f64 {
        self.of(&[-2.5, -1.0, -0.5, 0.3, 0.5, 1.0, 1.7, 3.0])
    }

    /// An input of this type and any shape.
    fn input(&mut self, g: &mut Graph, dtype: DType) -> ValueId {
        let shape = self.any_shape();
        g.input("x", dtype, shape)
    }

    fn tensor(&mut self, dtype: DType, shape: Vec<usize>, special: bool) -> Tensor {
        let count: usize = shape.iter().product();
        if dtype == DType::Bool {
            let bits: Vec<bool> = (0..count).map(|_| self.coin()).collect();
            return Tensor::from_bools(shape, &bits).unwrap();
        }
        let mut element = || {
            if special && self.below(4) == 0 {
                return self.of(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e30]);
            }
            self.0.random_range(-3.0..3.0)
        };
        let values: Vec<f64> = (0..count).map(|_| element()).collect();
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|v| match dtype {
                DType::F16 => half::f16::from_f64(*v).to_ne_bytes().to_vec(),
                DType::BF16 => half::bf16::from_f64(*v).to_ne_bytes().to_vec(),
                DType::F32 => (*v as f32).to_ne_bytes().to_vec(),
                DType::F64 => v.to_ne_bytes().to_vec(),
                _ => (*v as i64).to_ne_bytes()[..dtype.size()].to_vec(),
            })
            .collect();
        Tensor::from_bytes(dtype, shape, &bytes).unwrap()
    }
}

/// The graph after one rule alone, wherever it applies, cheaper or not.
fn applied(graph: &Graph, rule: &'static Rule) -> Option<Graph> {
    let mut space = Space::new(graph).unwrap();
    let found = saturate(&mut space, &[rule]);
    if found.roots.is_empty() {
        return None;
    }
    let replaced: Vec<Term> = found.roots.iter().map(|t| space.canonical(t)).collect();
    let price = |term: &Term| if replaced.contains(term) { 1e6 } else { 1.0 };
    let outputs: Vec<ValueId> = graph.outputs().iter().map(|o| o.value).collect();
    let choice = extract::choose(&space, &outputs, &price).unwrap();
    Some(extract::build(graph, &space, &choice).unwrap())
}

/// Checks the rule `name` on instances: that it applies, and that both graphs have the same values.
fn check(name: &str, make: Make) {
    let rule = rules().find(|r| r.name == name).unwrap();
    let seeds = any::<u64>();
    let config = ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(seed in seeds)| {
        let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
        let mut graph = Graph::new("instance");
        let result = make(&mut random, &mut graph).unwrap();
        graph.output(result);
        let rewritten = applied(&graph, rule);
        prop_assert!(rewritten.is_some(), "{name} does not apply to\n{graph}");
        let rewritten = rewritten.unwrap();
        same_ports(&graph, &rewritten);
        let specials: &[bool] = match rule.kind {
            Kind::Exact | Kind::Ranges => &[false, true],
            _ => &[false],
        };
        for special in specials {
            let differences = compare(&graph, &rewritten, &mut random, *special, rule.kind);
            prop_assert!(differences.is_none(), "{differences:?}\n{graph}\n{rewritten}");
        }
    });
}

/// Checks that both graphs take and return the same.
fn same_ports(a: &Graph, b: &Graph) {
    let ports = |g: &Graph| -> Vec<String> {
        let inputs = g.inputs().iter().map(|i| (i.value, format!("{:?}", i.kind)));
        let outputs = g
            .outputs()
            .iter()
            .map(|o| (o.value, format!("{:?}", o.updates.map(|v| g.value_name(v)))));
        let constants = g.constants().iter().map(|c| (c.value, String::new()));
        let all = inputs.chain(constants).chain(outputs);
        all.map(|(v, more)| format!("{} {} {more}", g.value_name(v), g.ty(v)))
            .collect()
    };
    assert_eq!(ports(a), ports(b));
    b.validate().unwrap();
}

/// The first element in which the outputs of two graphs differ, on random inputs.
fn compare(a: &Graph, b: &Graph, random: &mut Random, special: bool, kind: Kind) -> Option<(f64, f64)> {
    let tensors: Vec<Tensor> = a
        .inputs()
        .iter()
        .map(|input| {
            let ty = a.ty(input.value);
            random.tensor(
                ty.dtype,
                ty.concrete_shape(&Bindings::from([("N".into(), 3)])).unwrap(),
                special,
            )
        })
        .collect();
    let options = Options {
        threads: Some(1),
        ..Options::default()
    };
    let (before, after) = (
        evaluate(a, &tensors, &options).unwrap(),
        evaluate(b, &tensors, &options).unwrap(),
    );
    let exact = matches!(kind, Kind::Exact | Kind::Ranges | Kind::Finite);
    for (x, y) in before.iter().zip(&after) {
        let (x, y) = (x.to_f64(), y.to_f64());
        assert_eq!(x.len(), y.len());
        let scale = x.iter().fold(1.0f64, |m, v| m.max(v.abs()));
        let near =
            |x: f64, y: f64| x == y || x.is_nan() && y.is_nan() || !exact && (x - y).abs() <= 1e-10 * scale;
        if let Some(found) = x.iter().zip(&y).find(|(x, y)| !near(**x, **y)) {
            return Some((*found.0, *found.1));
        }
    }
    None
}

/// Tests of rules by their names, and the list of these names.
macro_rules! instances {
    ($($name:ident => $make:expr;)*) => {
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                super::check(&stringify!($name).replace('_', "-"), $make);
            }
        )*
    };
}
use instances;

#[test]
fn every_rule_has_its_test() {
    let tested = elements::NAMES.iter().chain(sums::NAMES);
    let mut tested: Vec<String> = tested.map(|n| n.replace('_', "-")).collect();
    let mut all: Vec<&str> = rules().map(|r| r.name).collect();
    tested.sort();
    all.sort_unstable();
    assert_eq!(tested, all);
    all.dedup();
    assert_eq!(tested.len(), all.len(), "two rules have one name");
    assert!(all.len() >= 40);
}

#[test]
fn the_documentation_lists_every_rule() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/algebra.md");
    let text = std::fs::read_to_string(path).unwrap();
    for rule in rules() {
        let row = format!(
            "|`{}`|{}|{}|",
            rule.name,
            rule.kind.describe(),
            rule.statement.replace('|', "\\|")
        );
        assert!(text.contains(&row), "docs/algebra.md has no row\n{row}");
    }
}
