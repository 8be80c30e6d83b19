//! Rewrites of graphs by equality saturation.
//!
//! [`rewrite`] makes a cheaper graph of a graph where algebra allows it: the sum over a product's columns becomes a product
//! with a sum, a mean over the positions of a convolution goes through it, what does nothing goes away. The values of the
//! graph become classes of an e-graph; the [`rules`] add equal terms to them until nothing new is found; and the cheapest
//! graph is taken out, by a model of the bytes moved and the operations done. The result has the same inputs, constants and
//! outputs, under the same names and of the same types.
//!
//! Only sound rules are here. What each needs to be sound is its [`Kind`]: rules that arrange sums anew are bound to an
//! accuracy class, rules that look at values need a proof from the operators' ranges, and rules that NaN or infinities would
//! break are left out where the contract has special values. How a result was reached is part of it: the names of the rules
//! without which it would not have been.
//!
//! ```
//! use akg_core::{DType, Graph, algebra};
//! use akg_core::task::Contract;
//!
//! # fn main() -> akg_core::Result<()> {
//! let mut g = Graph::new("sum_of_product");
//! let x = g.input("x", DType::F32, [4096, 512]);
//! let w = g.weight("w", DType::F32, [512, 512]);
//! let y = g.matmul(x, w)?;
//! let y = g.sum(y, &[1], true)?;
//! g.output(y);
//! let rewritten = algebra::rewrite(&g, &Contract::default())?;
//! assert!(rewritten.rules.iter().any(|rule| rule.name == "sum-of-product-columns"));
//! # Ok(())
//! # }
//! ```

use crate::error::Result;
use crate::graph::{Fired, Graph, Rewritten, ValueId};
use crate::task::Contract;

mod cost;
mod extract;
mod facts;
mod rules;
mod saturate;
mod site;
mod term;
#[cfg(test)]
mod tests;

pub use rules::{Kind, Rule, rules};
use saturate::Saturated;
use site::Space;

/// The name under which values that nothing needs are reported.
pub const DEAD_CODE: &str = "dead-code";

/// The name under which equal calls that became one are reported.
pub const COMMON_CALLS: &str = "common-calls";

/// A price that is lower by a smaller share is the same.
const SAME: f64 = 1e-4;

/// The cheapest graph that rules prove equal to `graph`, within what `contract` asks of results.
///
/// Deterministic: the limits are on rounds and terms, not on time.
///
/// # Errors
/// A graph that does not validate.
pub fn rewrite(graph: &Graph, contract: &Contract) -> Result<Rewritten> {
    graph.validate()?;
    let allowed: Vec<&'static Rule> = rules().filter(|r| r.kind.allowed(contract)).collect();
    let with_results = graph.nodes().iter().filter(|n| !n.outputs.is_empty());
    let dead = with_results.count() - site::live(graph).len();
    let start = Space::new(graph)?;
    let repeated = start.repeated;
    let own: f64 = start
        .own
        .iter()
        .map(|t| cost::price(&start.classes, t, &contract.hints))
        .sum();

    let mut found = attempt(graph, contract, &allowed)?;
    let cheaper = |total: f64, than: f64| total < than * (1.0 - SAME);
    if dead == 0 && repeated == 0 && !found.as_ref().is_some_and(|f| cheaper(f.total, own)) {
        found = None;
    }
    let Some(mut best) = found else {
        return Ok(Rewritten {
            graph: graph.clone(),
            rules: Vec::new(),
        });
    };
    // Rules that fired but led nowhere are not named.
    let mut kept = best.used();
    for rule in kept.clone().into_iter().rev() {
        let fewer: Vec<&'static Rule> = kept.iter().copied().filter(|r| r.name != rule.name).collect();
        let without = attempt(graph, contract, &fewer)?;
        if let Some(without) = without.filter(|w| !cheaper(best.total, w.total)) {
            kept = fewer;
            best = without;
        }
    }
    let mut fired = best.fired();
    for (name, count) in [(DEAD_CODE, dead), (COMMON_CALLS, repeated)] {
        if count > 0 {
            fired.push(Fired {
                name: name.to_owned(),
                count,
            });
        }
    }
    Ok(Rewritten {
        graph: best.graph,
        rules: fired,
    })
}

/// What some rules make of a graph.
struct Attempt {
    graph: Graph,
    total: f64,
    rules: Vec<&'static Rule>,
    saturated: Saturated,
}

impl Attempt {
    /// The rules that found something.
    fn used(&self) -> Vec<&'static Rule> {
        let counted = self.rules.iter().zip(&self.saturated.counts);
        counted
            .filter(|(_, count)| **count > 0)
            .map(|(rule, _)| *rule)
            .collect()
    }

    fn fired(&self) -> Vec<Fired> {
        let counted = self.rules.iter().zip(&self.saturated.counts);
        let counted = counted.filter(|(_, count)| **count > 0);
        counted
            .map(|(rule, count)| Fired {
                name: rule.name.to_owned(),
                count: *count,
            })
            .collect()
    }
}

/// The cheapest graph by these rules; `None` if terms without an end were all that was found.
fn attempt(graph: &Graph, contract: &Contract, rules: &[&'static Rule]) -> Result<Option<Attempt>> {
    let mut space = Space::new(graph)?;
    let saturated = saturate::saturate(&mut space, rules);
    let outputs: Vec<ValueId> = graph.outputs().iter().map(|o| o.value).collect();
    let price = |term: &term::Term| cost::price(&space.classes, term, &contract.hints);
    let Some(choice) = extract::choose(&space, &outputs, &price) else {
        return Ok(None);
    };
    Ok(Some(Attempt {
        graph: extract::build(graph, &space, &choice)?,
        total: choice.total,
        rules: rules.to_vec(),
        saturated,
    }))
}
