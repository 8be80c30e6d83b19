//! Limits on launch plans, and plans whose dims have other names.

use std::collections::BTreeMap;

use super::LaunchPlan;
use crate::error::{Error, Result};
use crate::expr::{Expr, Symbol};
use crate::graph::MAX_RANK;

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
