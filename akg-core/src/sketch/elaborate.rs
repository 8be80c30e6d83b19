//! From syntax tree to typed program: gives knobs, parameters and extents their values, infers tile types, turns
//! rebinding into static single assignment.

mod body;
mod call;
mod header;
mod operators;
mod prune;
mod region;
mod scalar;
mod scope;
mod tiles;

use super::Sketch;
use super::ir::Program;
use super::syntax::{Expression, Item};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::expr::Bindings;
use crate::source::{KnobValue, Knobs};
use header::Header;

/// A tunable symbol of a sketch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// Its legal values; the first is the default.
    pub values: Vec<KnobValue>,
    /// Whether it cannot change what is computed.
    pub hint: bool,
}

/// Why a piece of text has no typed form.
enum Fault {
    /// To be reported.
    New(Diagnostic),
    /// It builds on something that was already reported.
    Reported,
}

impl From<Diagnostic> for Fault {
    fn from(diagnostic: Diagnostic) -> Self {
        Fault::New(diagnostic)
    }
}

type Elab<T> = Result<T, Fault>;

fn fault<T>(message: impl Into<String>, span: std::ops::Range<usize>) -> Elab<T> {
    Err(Diagnostic::error(message, span).into())
}

/// The knob values that [`Sketch::legal_points`] looks at.
const MAX_VALUES: usize = 500_000;

impl Sketch {
    /// The knobs and hints in the order of declaration.
    pub fn knobs(&self) -> Vec<Knob> {
        let items = self.tree.items.iter();
        items
            .filter_map(|item| match &item.node {
                Item::Knob { name, values, hint } => Some(Knob {
                    name: name.node.clone(),
                    values: values.iter().filter_map(|v| knob_value(&v.node)).collect(),
                    hint: *hint,
                }),
                _ => None,
            })
            .collect()
    }

    /// Every knob with its first value. They may break a `require`; [`legal_points`](Self::legal_points) do not.
    pub fn default_knobs(&self) -> Knobs {
        let knobs = self.knobs().into_iter();
        knobs
            .filter_map(|k| k.values.first().map(|v| (k.name.clone(), *v)))
            .collect()
    }

    /// The combinations of knob values that meet the requirements when extents and parameters have the values in
    /// `bindings`; the last knob varies fastest. Only the first combinations that have no more than 500,000 values
    /// together are looked at, because requirements may leave none of any number.
    pub fn legal_points(&self, bindings: &Bindings) -> impl Iterator<Item = Knobs> {
        let knobs = self.knobs();
        let count: usize = knobs.iter().fold(1, |n, k| n.saturating_mul(k.values.len()));
        (0..count.min(MAX_VALUES / knobs.len().max(1)))
            .map(move |mut index| {
                let mut point = Knobs::new();
                for knob in knobs.iter().rev() {
                    let digit = index % knob.values.len();
                    index /= knob.values.len();
                    point.extend(knob.values.get(digit).map(|v| (knob.name.clone(), *v)));
                }
                point
            })
            .filter(move |point| Header::new(&self.tree, point, bindings).is_ok())
    }

    /// The typed program for these knob values (defaults where one is missing) and these values of extents and integer
    /// parameters. Extents without a value stay symbols, which kernels take as arguments.
    pub fn elaborate(&self, knobs: &Knobs, bindings: &Bindings) -> Result<Program, Diagnostics> {
        let header = Header::new(&self.tree, knobs, bindings)?;
        let kernels = body::kernels(&self.tree, &header)?;
        Ok(Program {
            name: self.tree.name.node.clone(),
            tensors: header.tensors,
            dims: header.dims,
            accuracy: header.accuracy.unwrap_or_default(),
            kernels,
        })
    }
}

fn knob_value(node: &Expression) -> Option<KnobValue> {
    match node {
        Expression::Int(value) => Some(KnobValue::Int(*value)),
        Expression::Name(name) => name.parse().ok().map(KnobValue::DType),
        _ => None,
    }
}
