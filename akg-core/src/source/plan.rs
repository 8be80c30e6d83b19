//! Limits on launch plans, and plans whose dims have other names.

use std::collections::{BTreeMap, BTreeSet};

use super::{LaunchPlan, PlanTensor, TensorRole};
use crate::error::{Error, Result};
use crate::expr::{Expr, Symbol};
use crate::graph::{Graph, MAX_RANK};

/// The strictest alignment of a tensor: the one that memory maps have everywhere.
pub const MAX_ALIGN: usize = 4096;

/// The most launches of a plan.
const MAX_LAUNCHES: usize = 1 << 14;

/// The most tensors of a plan.
const MAX_TENSORS: usize = 1 << 16;

/// The most dims of a plan.
const MAX_DIMS: usize = 256;

impl LaunchPlan {
    /// An error that names the limit, if the plan is larger than any that is executed. Plans come from hand-written
    /// sources, models and bundles.
    pub fn check_size(&self) -> Result<()> {
        let limit = |what: &str, count: usize, most: usize| {
            if count <= most {
                return Ok(());
            }
            Err(Error::invalid(format!(
                "the launch plan has {count} {what}, and at most {most} are allowed"
            )))
        };
        limit("launches", self.launches.len(), MAX_LAUNCHES)?;
        limit("tensors", self.tensors.len(), MAX_TENSORS)?;
        limit("dims", self.dims.len(), MAX_DIMS)?;
        for tensor in &self.tensors {
            limit("extents of one tensor", tensor.shape.len(), MAX_RANK)?;
        }
        for launch in &self.launches {
            limit("axes of one grid", launch.grid.len(), MAX_RANK)?;
            limit("tensors of one launch", launch.tensors.len(), MAX_TENSORS)?;
        }
        Ok(())
    }

    /// The outputs that update an input in place, each with that input; both by position.
    pub fn updates(&self) -> impl Iterator<Item = (usize, usize)> {
        let outputs = self.tensors.iter().enumerate();
        outputs.filter_map(|(output, tensor)| Some((output, tensor.updates?)))
    }

    /// An error that names the tensor, if an update in place cannot be one: of what is no input, of an input of another type,
    /// of one input by two outputs, or of an input that a kernel takes.
    pub fn check_updates(&self) -> Result<()> {
        let refuse = |output: &PlanTensor, why: String| {
            Err(Error::invalid(format!(
                "tensor `{}` of the plan cannot update {why}",
                output.name
            )))
        };
        let taken: BTreeSet<usize> = match self.updates().next() {
            Some(_) => self
                .launches
                .iter()
                .flat_map(|l| l.tensors.iter().copied())
                .collect(),
            None => return Ok(()),
        };
        let mut updated = BTreeSet::new();
        for output in &self.tensors {
            let Some(at) = output.updates else { continue };
            let Some(input) = self.tensors.get(at) else {
                return refuse(
                    output,
                    format!("tensor {at}: the plan has {}", self.tensors.len()),
                );
            };
            let name = &input.name;
            if output.role != TensorRole::Output || input.role != TensorRole::Input {
                return refuse(output, format!("`{name}`: outputs update inputs"));
            }
            if output.dtype != input.dtype || output.shape != input.shape {
                return refuse(output, format!("`{name}`, which has another type or shape"));
            }
            if !updated.insert(at) {
                return refuse(output, format!("`{name}`: another output does"));
            }
            if taken.contains(&at) {
                return refuse(
                    output,
                    format!(
                        "`{name}`, which a kernel takes: kernels take `{}` alone, which begins as `{name}`",
                        output.name
                    ),
                );
            }
        }
        Ok(())
    }

    /// The output that is said to update another input than that of the task's graph, and why that cannot be.
    pub fn foreign_update(&self, graph: &Graph) -> Option<String> {
        let position = |role, at: usize| self.with_role(role).position(|(tensor, _)| tensor == at);
        self.updates().find_map(|(output, input)| {
            let own = position(TensorRole::Output, output).and_then(|at| graph.outputs().get(at))?;
            let state = position(TensorRole::Input, input).and_then(|at| graph.given().nth(at));
            if own.updates.is_some() && own.updates == state {
                return None;
            }
            let name = |at: usize| self.tensors.get(at).map_or("", |tensor| tensor.name.as_str());
            Some(format!(
                "`{}` of the plan updates `{}` in place, and the task says no such thing of these",
                name(output),
                name(input)
            ))
        })
    }

    /// The same plan with names of dims that `name` gives.
    #[must_use]
    pub fn rename_dims(&self, mut name: impl FnMut(&str) -> Symbol) -> Self {
        let names: BTreeMap<Symbol, Symbol> = self.dims.iter().map(|dim| (dim.clone(), name(dim))).collect();
        let renamed = |expr: &Expr| expr.substitute(&|symbol| names.get(symbol).cloned().map(Expr::symbol));
        let mut plan = self.clone();
        plan.dims = self
            .dims
            .iter()
            .filter_map(|dim| names.get(dim).cloned())
            .collect();
        for extent in plan.tensors.iter_mut().flat_map(|tensor| &mut tensor.shape) {
            *extent = renamed(extent);
        }
        for extent in plan.launches.iter_mut().flat_map(|launch| &mut launch.grid) {
            *extent = renamed(extent);
        }
        plan
    }
}
