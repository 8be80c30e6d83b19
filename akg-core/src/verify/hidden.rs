//! What a candidate cannot have prepared for: seeds and sizes that follow from a secret.

use std::collections::BTreeSet;

use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::expr::{Bindings, Symbol};
use crate::task::Task;
use crate::tensor::byte_len;

/// The range of a symbolic dim without one in the contract ends at this many times its hint.
const TIMES_HINT: i64 = 8;

/// Bytes of all values of the graph that a size may take, unless the hint takes more.
const MAX_BYTES: u64 = 64 << 20;

/// How many times the bytes of the hint a size may take.
const TIMES_BYTES: u64 = 2;

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
        .collect()
}

/// Sizes over the whole range of each symbolic dim, and what of it was left out.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct FarSizes {
    pub(super) sizes: Vec<Bindings>,
    /// Sizes of the contract that are too large to be computed, in words.
    pub(super) gaps: Vec<String>,
}

/// Sizes far from the hint: for each symbolic dim the ends of its range, one between them on a scale of magnitudes, and one
/// beside a power of two, with the others at their hints or, where that takes too much memory, at their smallest. A range
/// ends early where memory does; a dim without a range is tried up to some times its hint.
pub(super) fn far_sizes(task: &Task, secret: u64) -> FarSizes {
    let hints = &task.contract.hints;
    let mut rng = ChaCha8Rng::seed_from_u64(seed(secret, u64::MAX - 1));
    let mut found = FarSizes::default();
    let mut seen: BTreeSet<Bindings> = sizes(task, secret).into_iter().collect();
    seen.insert(hints.clone());
    let smallest: Bindings = hints
        .keys()
        .map(|symbol| (symbol.clone(), within(task, symbol, 1)))
        .collect();
    for (symbol, hint) in hints {
        let declared = task.contract.ranges.get(symbol);
        let lo = within(task, symbol, 1);
        let hi = declared.map_or_else(|| hint.saturating_mul(TIMES_HINT), |range| range.hi);
        let hi = hi.max(lo).max(*hint);
        let with = |others: &Bindings, value: i64| -> Bindings {
            let mut dims = others.clone();
            dims.insert(symbol.clone(), value);
            dims
        };
        // The largest size that is allowed, and the others' with which it is.
        let at_hints = largest(&|value| is_small(task, &with(hints, value)), *hint, hi);
        let alone = largest(&|value| is_small(task, &with(&smallest, value)), lo, hi);
        let (others, end) = match (at_hints, alone) {
            (Some(a), Some(b)) if a < b => (&smallest, b),
            (Some(a), _) => (hints, a),
            (None, Some(b)) => (&smallest, b),
            (None, None) => continue,
        };
        if let Some(range) = declared.filter(|range| range.hi > end) {
            found.gaps.push(format!(
                "sizes of `{symbol}` above {end} were not verified, of {} to {} in the contract: they take too much memory",
                range.lo, range.hi
            ));
        }
        let (bottom, top) = ((lo.max(1) as f64).log2(), (end.max(1) as f64).log2());
        let between = rng.random_range(bottom..=top.max(bottom)).exp2() as i64;
        let power = rng.random_range(bottom..=top.max(bottom)).exp2() as i64;
        let beside = power.max(1).ilog2();
        let beside = (1i64 << beside) + [-1, 1][rng.random_range(0..2)];
        for value in [end, lo, odd(between), beside] {
            let dims = with(others, value.min(end).max(lo));
            if seen.insert(dims.clone()) && fits(task, &dims) {
                found.sizes.push(dims);
            }
        }
    }
    found
}

/// The largest value from `lo` to `hi` for which `is_small`, which holds up to some value.
fn largest(is_small: &dyn Fn(i64) -> bool, lo: i64, hi: i64) -> Option<i64> {
    if !is_small(lo) {
        return None;
    }
    if is_small(hi) {
        return Some(hi);
    }
    let (mut small, mut large) = (lo, hi);
    while large - small > 1 {
        let middle = small + (large - small) / 2;
        if is_small(middle) {
            small = middle;
        } else {
            large = middle;
        }
    }
    Some(small)
}

/// Whether the reference and the candidate can be given these sizes: all values of the graph take little memory.
fn is_small(task: &Task, dims: &Bindings) -> bool {
    let bytes = |dims: &Bindings| -> Option<u64> {
        let mut values = task.graph.values().iter();
        values.try_fold(0u64, |sum, value| {
            let shape = value.ty.concrete_shape(dims).ok()?;
            sum.checked_add(byte_len(value.ty.dtype, &shape).ok()? as u64)
        })
    };
    let at_hints = bytes(&task.contract.hints).unwrap_or(0);
    let most = MAX_BYTES.max(at_hints.saturating_mul(TIMES_BYTES));
    bytes(dims).is_some_and(|bytes| bytes <= most)
}

/// The value, moved into the contract's range for the symbol.
fn within(task: &Task, symbol: &Symbol, value: i64) -> i64 {
    let range = task.contract.ranges.get(symbol);
    let (lo, hi) = range.map_or((1, i64::MAX), |r| (r.lo, r.hi));
    value.max(lo).min(hi.max(lo))
}

/// The next odd number that small divisors do not divide: tiles do not fit it.
fn odd(from: i64) -> i64 {
    (from..from.saturating_add(210))
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
    use crate::task::SizeRange;
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

    fn of(sizes: &[Bindings], symbol: &str) -> Vec<i64> {
        sizes.iter().map(|d| d[&Symbol::from(symbol)]).collect()
    }

    #[test]
    fn sizes_surround_the_hint_and_are_never_it() {
        for secret in 0..50 {
            let sizes = of(&sizes(&task(), secret), "N");
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
        let range = SizeRange { lo: 60, hi: 66 };
        task.contract.ranges.insert("N".into(), range);
        for secret in 0..50 {
            let far = far_sizes(&task, secret);
            assert!(far.gaps.is_empty());
            for dims in sizes(&task, secret).into_iter().chain(far.sizes) {
                assert!((60..=66).contains(&dims[&Symbol::from("N")]), "{dims:?}");
            }
        }
        task.contract.hints.clear();
        assert!(sizes(&task, 1).is_empty());
        assert_eq!(far_sizes(&task, 1), FarSizes::default());
    }

    #[test]
    fn far_sizes_reach_both_ends_of_a_declared_range() {
        let mut task = task();
        task.contract
            .ranges
            .insert("N".into(), SizeRange { lo: 1, hi: 100_000 });
        let mut between = BTreeSet::new();
        for secret in 0..20 {
            let far = far_sizes(&task, secret);
            let found = of(&far.sizes, "N");
            assert!(found.contains(&100_000) && far.gaps.is_empty(), "{far:?}");
            assert!(of(&sizes(&task, secret), "N").contains(&1));
            between.extend(found.into_iter().filter(|n| *n > 96 && *n < 100_000));
        }
        assert!(between.len() > 10, "{between:?}");
    }

    #[test]
    fn a_range_that_memory_forbids_ends_early_and_is_a_gap() {
        let mut graph = Graph::new("g");
        let [s, t] = ["S", "T"].map(Expr::symbol);
        let x = graph.input("x", DType::F32, [s, t]);
        let y = graph.relu(x).unwrap();
        graph.output(y);
        let mut task = Task::new("t", graph);
        task.contract.hints = Bindings::from([("S".into(), 64), ("T".into(), 1024)]);
        task.contract
            .ranges
            .insert("S".into(), SizeRange { lo: 2, hi: 1 << 40 });
        let far = far_sizes(&task, 1);
        // Two values of 4 bytes an element; T at its smallest.
        let end = (MAX_BYTES / 8) as i64;
        assert!(of(&far.sizes, "S").contains(&end), "{far:?}");
        assert!(
            far.gaps.len() == 1 && far.gaps[0].contains(&format!("`S` above {end}")),
            "{far:?}"
        );
        // Without a range, some times the hint.
        assert!(of(&far.sizes, "T").contains(&8192), "{far:?}");
        assert!(far.sizes.iter().all(|dims| dims[&Symbol::from("S")] >= 2));
    }
}
