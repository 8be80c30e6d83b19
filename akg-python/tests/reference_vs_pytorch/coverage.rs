//! The places that know each operator, printed as a table.
//!
//! Drawn calls tell what inference, the reference, its split into rows and the designer make of an operator. No Python is
//! needed.

use std::collections::BTreeSet;

use akg_core::conformance::random::{self, Finding};
use akg_core::expr::Bindings;
use akg_core::graph::Operator;
use akg_core::reference::{self, Options, RowPlan};
use akg_core::{Target, Task, algebra};

use crate::draw::Draw;
use crate::{CASES, Case, FAMILIES, draw_case, uncompared};

/// Random graphs that are looked through for an operator.
const SEEDS: u64 = 200;

/// A part of akg that can know an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Infers the types of a call.
    Inference,
    /// Evaluates a call.
    Reference,
    /// Is compared with PyTorch.
    Comparison,
    /// Is designed by the rules, and the design computes what the reference does.
    Design,
    /// Splits into rows.
    Rows,
    /// Stands in a rule of the algebra.
    Algebra,
    /// Grows in random graphs.
    Random,
}

impl Place {
    const ALL: [Place; 7] = [
        Place::Inference,
        Place::Reference,
        Place::Comparison,
        Place::Design,
        Place::Rows,
        Place::Algebra,
        Place::Random,
    ];

    /// Returns true if every operator must be known there.
    fn is_required(self) -> bool {
        self <= Place::Design
    }
}

/// Operators that a required place does not know, with the reason.
const EXEMPT: &[(Place, &[&str], &str)] = &[
    (
        Place::Reference,
        UNSEEDED,
        "chance without a seed has no result that could be repeated; imports give it a seed",
    ),
    (
        Place::Design,
        UNSEEDED,
        "chance without a seed has no result that could be compared; imports give it a seed",
    ),
    (
        Place::Design,
        &["native_dropout.default"],
        "imports replace it by seeded_dropout",
    ),
    (
        Place::Design,
        &["scatter.src", "scatter.value"],
        "imports decompose it",
    ),
    (Place::Comparison, UNSEEDED, "its results are random"),
    (
        Place::Comparison,
        &[
            "linear_recurrence.default",
            "seeded_dropout.default",
            "seeded_rand.default",
            "seeded_randn.default",
        ],
        "PyTorch has no such operator",
    ),
    (
        Place::Comparison,
        &["_assert_tensor_metadata.default"],
        "it has no results",
    ),
];

/// Operators that take chance from a generator of PyTorch's.
const UNSEEDED: &[&str] = &[
    "rand.default",
    "rand_like.default",
    "randn.default",
    "randn_like.default",
];

/// The places that know an operator.
fn places(op: &'static Operator, algebra: &BTreeSet<&str>, grown: &BTreeSet<&str>) -> BTreeSet<Place> {
    let mut places = BTreeSet::new();
    let mut know = |place, is_known: bool| {
        if is_known {
            places.insert(place);
        }
    };
    let compared = FAMILIES
        .into_iter()
        .find(|draw| draw(op, &mut Draw::new(op.name(), 0)));
    know(Place::Comparison, compared.is_some());
    know(Place::Algebra, algebra.contains(op.name()));
    know(Place::Random, grown.contains(op.name()));
    let family = compared.unwrap_or(uncompared::draw);
    let target = Target::new("cpu", "x86_64");
    let is_known = |place, case: &Case| match place {
        Place::Reference => reference::evaluate(&case.graph, &case.inputs, &Options::default()).is_ok(),
        Place::Design => {
            let case = random::Case {
                seed: 0,
                task: Task::new(op.name(), case.graph.clone()),
                inputs: case.inputs.clone(),
            };
            matches!(random::check(&case, &target), Ok(Finding::Verified))
        }
        Place::Rows => {
            let plan = RowPlan::new(&case.graph, &Bindings::new()).unwrap();
            plan.is_some_and(|plan| plan.rows() > 1)
        }
        // Calls that inference refuses are not drawn.
        _ => true,
    };
    let mut open = vec![Place::Inference, Place::Reference, Place::Design, Place::Rows];
    for case in (0..CASES).filter_map(|case| draw_case(op, family, case)) {
        open.retain(|place| {
            let knows = is_known(*place, &case);
            know(*place, knows);
            !knows
        });
        if open.is_empty() {
            break;
        }
    }
    places
}

#[test]
fn required_places_know_every_operator() {
    let algebra: BTreeSet<&str> = algebra::rules().flat_map(|rule| rule.operators()).collect();
    let cases = (0..SEEDS).map(|seed| random::Case::new(seed).unwrap());
    let grown: BTreeSet<&str> = cases
        .flat_map(|case| {
            case.task
                .graph
                .nodes()
                .iter()
                .map(|n| n.op.name())
                .collect::<Vec<_>>()
        })
        .collect();
    let heads = Place::ALL.map(|place| format!("{place:?}"));
    println!("{:44} {:10} {}", "operator", "family", heads.join(" "));
    let exempt = EXEMPT.iter().flat_map(|(_, names, _)| names.iter());
    let gone = exempt.filter(|name| Operator::find(name).is_none());
    let mut wrong: Vec<String> = gone
        .map(|name| format!("{name} is exempt, but no operator"))
        .collect();
    for op in Operator::all() {
        let places = places(op, &algebra, &grown);
        let marks = Place::ALL.map(|place| {
            let mark = if places.contains(&place) { "x" } else { "" };
            format!("{mark:0$}", format!("{place:?}").len())
        });
        println!(
            "{:44} {:10} {}",
            op.qualified_name(),
            op.family(),
            marks.join(" ").trim_end()
        );
        for place in Place::ALL.into_iter().filter(|place| place.is_required()) {
            let exempt = EXEMPT
                .iter()
                .find(|(of, names, _)| *of == place && names.contains(&op.name()));
            match (places.contains(&place), exempt) {
                (false, None) => wrong.push(format!("{place:?} does not know {}", op.name())),
                (true, Some((.., reason))) => {
                    wrong.push(format!("{place:?} knows {}, although {reason}", op.name()));
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
