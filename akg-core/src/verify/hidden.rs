//! What a candidate cannot have prepared for: seeds and sizes that follow from a secret.

use std::collections::BTreeSet;

use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::expr::{Bindings, Symbol};
use crate::task::Task;

/// Sizes that are tried for a task with symbolic dims.
const SIZES: usize = 5;

/// The seed of the check with this number.
pub(super) fn seed(secret: u64, number: u64) -> u64 {
    let mut rng = ChaCha8Rng::seed_from_u64(secret);
    rng.set_stream(number);
    rng.random()
}

/// Sizes of the symbolic dims that the contract does not name: the smallest, the hint's neighbours, and random ones up
/// to above the hint. Empty without symbolic dims; sizes that the graph's shapes cannot have are left out.
pub(crate) fn sizes(task: &Task, secret: u64) -> Vec<Bindings> {
    let hints = &task.contract.hints;
    if hints.is_empty() {
        return Vec::new();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed(secret, u64::MAX));
    let mut pick = |choose: &mut dyn FnMut(i64, &mut ChaCha8Rng) -> i64| -> Bindings {
        hints
            .iter()
            .map(|(symbol, hint)| (symbol.clone(), within(task, symbol, choose(*hint, &mut rng))))
            .collect()
    };
    let wanted = [
        pick(&mut |_, _| 1),
        pick(&mut |hint, rng| hint + [-1, 1][rng.random_range(0..2)]),
        pick(&mut |hint, rng| odd(rng.random_range(2..=hint.max(3)))),
        pick(&mut |hint, rng| rng.random_range(1..=hint.max(1))),
        pick(&mut |hint, rng| hint + rng.random_range(1..=(hint / 2).max(2))),
    ];
    let mut seen: BTreeSet<Bindings> = BTreeSet::from([hints.clone()]);
    wanted
        .into_iter()
        .filter(|dims| seen.insert(dims.clone()) && fits(task, dims))
        .take(SIZES)
        .collect()
}

/// The value, moved into the contract's range for the symbol.
fn within(task: &Task, symbol: &Symbol, value: i64) -> i64 {
    let range = task.contract.ranges.get(symbol);
    let (lo, hi) = range.map_or((1, i64::MAX), |r| (r.lo, r.hi));
    value.max(lo).min(hi.max(lo))
}

/// The next odd number that small divisors do not divide: tiles do not fit it.
fn odd(from: i64) -> i64 {
    (from..from + 210)
        .find(|n| [2, 3, 5, 7].iter().all(|d| n % d != 0))
        .unwrap_or(from)
}

fn fits(task: &Task, dims: &Bindings) -> bool {
    let mut values = task.graph.values().iter();
    values.all(|v| v.ty.concrete_shape(dims).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Expr, Graph};

    fn task() -> Task {
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, [Expr::symbol("N"), Expr::constant(4)]);
        let y = graph.relu(x).unwrap();
        graph.output(y);
        let mut task = Task::new("t", graph);
        task.contract.hints = Bindings::from([("N".into(), 64)]);
        task
    }

    #[test]
    fn sizes_surround_the_hint_and_are_never_it() {
        for secret in 0..50 {
            let sizes: Vec<i64> = sizes(&task(), secret)
                .iter()
                .map(|d| d[&Symbol::from("N")])
                .collect();
            assert!(sizes.contains(&1), "{sizes:?}");
            assert!(sizes.contains(&63) || sizes.contains(&65), "{sizes:?}");
            assert!(sizes.iter().any(|n| *n > 64), "{sizes:?}");
            assert!(sizes.iter().any(|n| n % 2 == 1 && *n > 1), "{sizes:?}");
            assert!(!sizes.contains(&64), "{sizes:?}");
        }
    }

    #[test]
    fn sizes_stay_in_the_range_of_the_contract() {
        let mut task = task();
        let range = crate::task::SizeRange { lo: 60, hi: 66 };
        task.contract.ranges.insert("N".into(), range);
        for secret in 0..50 {
            for dims in sizes(&task, secret) {
                assert!((60..=66).contains(&dims[&Symbol::from("N")]), "{dims:?}");
            }
        }
        task.contract.hints.clear();
        assert!(sizes(&task, 1).is_empty());
    }
}
