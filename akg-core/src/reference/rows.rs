//! Evaluation of a graph in stretches of rows, for problems whose intermediate values do not fit the memory.

use std::ops::Range;

use super::run::{self, Shared, Stretch};
use super::{Options, Outcome};
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::ops::Call;
use crate::graph::{Graph, Node, ValueId};
use crate::tensor::Tensor;

mod rules;

/// How the outputs of a graph split, along their first axis, into rows that can be computed apart.
///
/// A row is the smallest part: one or more indices of the first axis of each output, and what of each input they need.
/// Element-wise operators, products, views, reductions and norms over other axes keep rows apart; statistics over the
/// batch do not. Made by [`RowPlan::new`].
#[derive(Debug, Clone)]
pub struct RowPlan {
    rows: usize,
    /// What a row needs of each value; `None` for all of it.
    shares: Vec<Option<Share>>,
    inputs: Vec<ValueId>,
    row_elements: usize,
    shared_elements: usize,
}

/// The part of a value that belongs to one row: `per_row` indices of `axis`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    axis: usize,
    per_row: usize,
}

/// What a computation needs of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// All of it, whichever rows are computed.
    Whole,
    /// The same rows, which lie along this axis.
    Along(usize),
}

/// Why an attempt to split failed.
enum Obstacle {
    /// A row depends on other rows, or the analysis does not know better.
    Dependent,
    /// Only this many rows could be apart.
    Coarser(usize),
}

impl RowPlan {
    /// The finest split of `graph` under `bindings`; `None` if its outputs do not split.
    ///
    /// # Errors
    /// If a symbol of the graph has no value in `bindings`.
    pub fn new(graph: &Graph, bindings: &Bindings) -> Result<Option<Self>> {
        let shapes: Vec<Vec<usize>> = graph
            .values()
            .iter()
            .map(|v| v.ty.concrete_shape(bindings))
            .collect::<Result<_>>()?;
        let extents = graph
            .outputs()
            .iter()
            .map(|o| shapes[o.value.index()].first().copied().unwrap_or(1));
        let mut rows = extents.fold(0, gcd);
        while rows > 1 {
            let mut split = Split {
                shapes: &shapes,
                rows,
                needs: vec![None; shapes.len()],
            };
            match split.run(graph) {
                Ok(()) => {
                    let (mut row_elements, mut shared_elements) = (0, 0);
                    let shares = split.needs.iter().zip(&shapes).map(|(need, shape)| {
                        let elements: usize = shape.iter().product();
                        let Some(Need::Along(axis)) = need else {
                            shared_elements = shared_elements.max(elements);
                            return None;
                        };
                        row_elements = row_elements.max(elements / rows);
                        let per_row = shape[*axis] / rows;
                        Some(Share { axis: *axis, per_row })
                    });
                    let shares = shares.collect();
                    let inputs = graph.inputs().iter().map(|i| i.value).collect();
                    return Ok(Some(Self {
                        rows,
                        shares,
                        inputs,
                        row_elements,
                        shared_elements,
                    }));
                }
                Err(Obstacle::Coarser(fewer)) => rows = fewer,
                Err(Obstacle::Dependent) => break,
            }
        }
        Ok(None)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The axis of the `position`-th input along which it splits into rows; `None` if every row needs all of it.
    pub fn input_axis(&self, position: usize) -> Option<usize> {
        let value = self.inputs.get(position)?;
        self.shares
            .get(value.index())
            .copied()
            .flatten()
            .map(|share| share.axis)
    }

    /// Elements of the largest value that splits, in one row.
    pub fn row_elements(&self) -> usize {
        self.row_elements
    }

    /// Elements of the largest value that all rows have in common; 0 if there is none.
    pub fn shared_elements(&self) -> usize {
        self.shared_elements
    }

    /// Whether a value splits into rows, so that only a row's part of it is computed for a row.
    pub(super) fn splits(&self, value: ValueId) -> bool {
        self.shares.get(value.index()).is_some_and(Option::is_some)
    }

    fn stretches(&self, rows: Range<usize>) -> Vec<Option<Stretch>> {
        let stretch = |share: &Share| Stretch {
            axis: share.axis,
            start: rows.start * share.per_row,
            end: rows.end * share.per_row,
        };
        self.shares
            .iter()
            .map(|share| share.as_ref().map(stretch))
            .collect()
    }
}

/// An evaluation of a graph in stretches of rows, each of which can be had at any time and on any thread. What all rows
/// have in common is computed once.
#[derive(Debug)]
pub struct Evaluation<'a> {
    graph: &'a Graph,
    inputs: &'a [Tensor],
    options: Options,
    /// None if the graph does not split.
    rows: Option<(&'a RowPlan, Shared)>,
}

impl<'a> Evaluation<'a> {
    /// Prepares the evaluation of `graph` on complete inputs. `plan` was made for it; without one there is a single
    /// stretch, the whole.
    ///
    /// # Errors
    /// Those of [`evaluate`](super::evaluate), and if the plan is that of another graph.
    pub fn new(
        graph: &'a Graph,
        inputs: &'a [Tensor],
        plan: Option<&'a RowPlan>,
        options: Options,
    ) -> Result<Self> {
        let rows = match plan {
            Some(plan) if plan.shares.len() != graph.values().len() => {
                return Err(Error::invalid("the plan of rows is that of another graph"));
            }
            Some(plan) => Some((plan, run::share(graph, inputs, &plan.stretches(0..0), &options)?)),
            None => None,
        };
        Ok(Self {
            graph,
            inputs,
            options,
            rows,
        })
    }

    /// Each output's stretch along the first axis that belongs to `rows`; all of them without a plan.
    ///
    /// # Errors
    /// Those of [`evaluate`](super::evaluate), and if `rows` leaves the plan.
    pub fn rows(&self, rows: Range<usize>) -> Result<Vec<Outcome>> {
        let Some((plan, shared)) = &self.rows else {
            return run::evaluate(self.graph, self.inputs, &[], None, &self.options);
        };
        if rows.start > rows.end || rows.end > plan.rows {
            return Err(Error::invalid(format!(
                "rows {rows:?} of a plan of {} rows",
                plan.rows
            )));
        }
        let stretches = plan.stretches(rows);
        run::evaluate(self.graph, self.inputs, &stretches, Some(shared), &self.options)
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// An attempt to split into `rows`, from the outputs backwards.
struct Split<'a> {
    shapes: &'a [Vec<usize>],
    rows: usize,
    needs: Vec<Option<Need>>,
}

impl Split<'_> {
    fn run(&mut self, graph: &Graph) -> Result<(), Obstacle> {
        for output in graph.outputs() {
            self.need(output.value, Need::Along(0))?;
        }
        for node in graph.nodes().iter().rev() {
            let call = Call::new(node.op, &node.args, graph.values());
            self.step(node, &call)?;
        }
        Ok(())
    }

    fn step(&mut self, node: &Node, call: &Call<'_>) -> Result<(), Obstacle> {
        if node.outputs.is_empty() {
            return Ok(());
        }
        let needs: Vec<Option<Need>> = node.outputs.iter().map(|v| self.needs[v.index()]).collect();
        let along = needs.iter().position(|need| matches!(need, Some(Need::Along(_))));
        let Some((at, Need::Along(axis))) = along.and_then(|at| Some((at, needs[at]?))) else {
            for value in node.inputs() {
                self.need(value, Need::Whole)?;
            }
            return Ok(());
        };
        let rule = rules::Rule {
            call,
            shapes: self.shapes,
            rows: self.rows,
            outputs: &node.outputs,
        };
        let split = rule.split(at, axis)?;
        for (value, axis) in node.outputs.iter().zip(split.outputs) {
            self.need(*value, Need::Along(axis))?;
        }
        for (value, need) in split.operands {
            self.need(value, need)?;
        }
        Ok(())
    }

    /// Records a need, which must agree with what is needed already.
    fn need(&mut self, value: ValueId, need: Need) -> Result<(), Obstacle> {
        if let Need::Along(axis) = need {
            let extent = self.shapes[value.index()]
                .get(axis)
                .copied()
                .ok_or(Obstacle::Dependent)?;
            if extent == 0 {
                return Err(Obstacle::Dependent);
            }
            if extent % self.rows != 0 {
                return Err(Obstacle::Coarser(gcd(self.rows, extent)));
            }
        }
        match self.needs[value.index()].replace(need) {
            Some(before) if before != need => Err(Obstacle::Dependent),
            _ => Ok(()),
        }
    }
}
