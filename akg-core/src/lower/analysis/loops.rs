//! Loops that are one loop: trip counts, counters of whole nests, nests written as loop in loop.

use crate::expr::{Expr, Symbol};
use crate::lower::analysis::Facts;
use crate::sketch::ir::{Carried, Loop, LoopAxis, Stmt};

/// How many values the index takes.
pub fn trip_count(facts: &Facts, axis: &LoopAxis) -> Expr {
    let distance = &axis.hi - &axis.lo;
    let count = distance.ceil_div(&axis.step.into());
    if facts.non_negative(&distance) {
        count
    } else {
        count.maximum(&0.into())
    }
}

/// A nest as one loop of a counter from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collapsed {
    /// How often the body runs.
    pub count: Expr,
    /// The value of each index, outermost first, by the counter.
    pub indices: Vec<(Symbol, Expr)>,
}

/// One loop of `counter` for the whole nest, the last index fastest.
pub fn collapse(facts: &Facts, axes: &[LoopAxis], counter: &Expr) -> Collapsed {
    let mut inner = Expr::constant(1);
    let mut indices = Vec::with_capacity(axes.len());
    for (depth, axis) in axes.iter().enumerate().rev() {
        let trips = trip_count(facts, axis);
        let outer = counter.floor_div(&inner);
        let position = if depth == 0 { outer } else { outer.modulo(&trips) };
        indices.push((axis.symbol.clone(), &axis.lo + &(position * axis.step)));
        inner = inner * trips;
    }
    indices.reverse();
    Collapsed {
        count: inner,
        indices,
    }
}

/// Joins loops that hold nothing but a loop, when the inner bounds do not depend on the outer index and every carried
/// value passes straight through.
pub fn join_nest(outer: &Loop) -> Loop {
    let mut joined = outer.clone();
    while let [Stmt::For(inner)] = joined.body.as_slice() {
        let Some(carried) = joined_carries(&joined, inner) else {
            break;
        };
        joined = Loop {
            axes: joined.axes.iter().chain(&inner.axes).cloned().collect(),
            carried,
            body: inner.body.clone(),
            pipeline: inner.pipeline.or(joined.pipeline),
            unroll: joined.unroll && inner.unroll,
            combine: None,
            span: joined.span.clone(),
        };
    }
    joined
}

fn joined_carries(outer: &Loop, inner: &Loop) -> Option<Vec<Carried>> {
    let independent = |axis: &LoopAxis| {
        outer
            .axes
            .iter()
            .all(|o| !axis.lo.mentions(&o.symbol) && !axis.hi.mentions(&o.symbol))
    };
    if !inner.axes.iter().all(independent) || outer.carried.len() != inner.carried.len() {
        return None;
    }
    let join = |o: &Carried| {
        let i = inner
            .carried
            .iter()
            .find(|i| i.initial == o.inner && i.result == o.next)?;
        Some(Carried {
            initial: o.initial,
            inner: i.inner,
            next: i.next,
            result: o.result,
        })
    };
    outer.carried.iter().map(join).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::expr::Bindings;
    use crate::lower::analysis::tests::matmul;
    use crate::sketch::ir::Val;

    fn axis(symbol: &str, lo: i64, hi: i64, step: i64) -> LoopAxis {
        LoopAxis {
            symbol: symbol.into(),
            lo: lo.into(),
            hi: hi.into(),
            step,
        }
    }

    proptest! {
        #[test]
        fn a_collapsed_nest_visits_what_the_nest_visits(
            bounds in prop::collection::vec((-3i64..4, -3i64..7, 1i64..4), 1..4),
            symbolic: bool,
        ) {
            let mut nest = Vec::new();
            let mut dims = Bindings::new();
            for (i, (lo, hi, step)) in bounds.iter().enumerate() {
                let mut a = axis(&format!("i{i}"), *lo, *hi, *step);
                if symbolic {
                    let name = format!("N{i}");
                    a.hi = Expr::symbol(name.as_str());
                    dims.insert(name.as_str().into(), *hi);
                }
                nest.push(a);
            }
            let mut expected: Vec<Vec<i64>> = vec![vec![]];
            for (lo, hi, step) in &bounds {
                expected = expected
                    .iter()
                    .flat_map(|p| (*lo..*hi).step_by(*step as usize).map(move |i| [p.as_slice(), &[i]].concat()))
                    .collect();
            }
            let collapsed = collapse(&Facts::default(), &nest, &"f".into());
            let mut visited = Vec::new();
            for f in 0..collapsed.count.eval(&dims).unwrap() {
                let mut values = dims.clone();
                values.insert("f".into(), f);
                visited.push(collapsed.indices.iter().map(|(_, e)| e.eval(&values).unwrap()).collect::<Vec<_>>());
            }
            prop_assert_eq!(visited, expected);
        }
    }

    #[test]
    fn a_nest_is_joined_unless_the_inner_bound_or_a_carry_forbids_it() {
        let program = matmul(64, 64, 64, 32);
        let Some(Stmt::For(inner)) = program.kernels[0].body.iter().find(|s| matches!(s, Stmt::For(_)))
        else {
            panic!("matmul has a loop");
        };
        let mut outer = inner.clone();
        outer.axes = vec![axis("r", 0, 3, 1)];
        outer.carried[0].inner = Val(90);
        outer.carried[0].next = Val(91);
        let mut nested = inner.clone();
        nested.carried[0].initial = Val(90);
        nested.carried[0].result = Val(91);
        outer.body = vec![Stmt::For(nested.clone())];
        let joined = join_nest(&outer);
        assert_eq!(joined.axes.len(), 2);
        assert_eq!(joined.body, inner.body);
        assert_eq!(joined.carried[0].result, outer.carried[0].result);

        nested.axes[0].lo = "r".into();
        outer.body = vec![Stmt::For(nested.clone())];
        assert_eq!(join_nest(&outer), outer);
        nested.axes[0].lo = 0.into();
        nested.carried[0].initial = Val(1);
        outer.body = vec![Stmt::For(nested)];
        assert_eq!(join_nest(&outer), outer);
    }
}
