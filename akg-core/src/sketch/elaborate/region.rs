//! Regions of tensors.

use std::ops::Range;

use super::scalar::Value;
use super::tiles::{Builder, check_size, quote};
use super::{Elab, Fault, fault};
use crate::diagnostic::Diagnostic;
use crate::dtype::{DType, DTypeClass};
use crate::sketch::ir::*;
use crate::sketch::syntax::*;

impl Builder<'_> {
    /// The typed form of a region, and the extents of its tile.
    pub(super) fn region(
        &mut self,
        tensor: TensorId,
        name: &str,
        region: &[RegionSyntax],
        span: &Range<usize>,
    ) -> Elab<(Vec<Axis>, Vec<usize>)> {
        let rank = match self.views.get(&tensor) {
            Some(seen) => seen.len(),
            None => self.tensor(tensor)?.shape.len(),
        };
        if region.len() != rank {
            let message = format!(
                "`{name}` has {rank} dimensions but the region has {}",
                region.len()
            );
            return fault(message, span.clone());
        }
        let (mut axes, mut extents) = (Vec::new(), Vec::new());
        for entry in region {
            match entry {
                RegionSyntax::Range { start, len, step } => {
                    let start = match self.eval(start)? {
                        Value::Int(expr) => expr,
                        _ => {
                            let message = format!("a range starts at an integer, which `{start}` is not");
                            let error = Diagnostic::error(message, start.span.clone());
                            return Err(error
                                .note("to read at computed places, index with an integer tile")
                                .into());
                        }
                    };
                    let len = self.extent(len)?;
                    let step_value = match step {
                        None => 1,
                        Some(step) => self.constant_int(step)?,
                    };
                    if let (0, Some(step)) = (step_value, step) {
                        return fault("a step of 0 stays in place", step.span.clone());
                    }
                    axes.push(Axis::Range {
                        start,
                        len,
                        step: step_value,
                    });
                    extents.push(len);
                }
                RegionSyntax::At(at) => match self.eval(at)? {
                    Value::Int(expr) => axes.push(Axis::At(expr)),
                    Value::Tile(value) => {
                        let ty = self.ty(value).clone();
                        match (ty.dtype.class(), ty.extents.as_slice()) {
                            (DTypeClass::Int, []) => axes.push(Axis::AtTile(value)),
                            (DTypeClass::Int, [len]) => {
                                extents.push(*len);
                                axes.push(Axis::Gather(value));
                            }
                            _ => {
                                let message =
                                    format!("`{at}` is {ty}; an index is an integer tile of rank 0 or 1");
                                return fault(message, at.span.clone());
                            }
                        }
                    }
                    Value::Float(_) | Value::Condition(_) => {
                        return fault(format!("`{at}` is not an integer"), at.span.clone());
                    }
                },
            }
        }
        check_size(&extents, span)?;
        Ok((axes, extents))
    }

    /// `load tensor[region] else fill`.
    pub(super) fn load(
        &mut self,
        tensor: &Name,
        region: &[RegionSyntax],
        fill: Option<&Ex>,
        span: &Range<usize>,
    ) -> Elab<Value> {
        let id = self.scope.tensor(tensor)?;
        let planned = self.tensor(id)?.clone();
        let (region, extents) = self.region(id, &planned.name, region, span)?;
        let fill = fill.map(|f| self.scalar(f, planned.dtype)).transpose()?;
        let ty = TileType {
            dtype: planned.dtype,
            extents,
        };
        let op = Op::Load {
            tensor: id,
            region,
            fill,
        };
        Ok(self.define(op, ty, span))
    }

    /// The tile to store into a region of these extents.
    pub(super) fn stored(&mut self, ex: &Ex, dtype: DType, extents: &[usize], tensor: &str) -> Elab<Val> {
        let value = self.eval(ex)?;
        let constant = matches!(value, Value::Float(_)) || value.as_const_int().is_some();
        if constant {
            let scalar = self.scalar(ex, dtype)?;
            let ty = TileType {
                dtype,
                extents: extents.to_vec(),
            };
            return match self.define(Op::Full(scalar), ty, &ex.span) {
                Value::Tile(tile) => Ok(tile),
                _ => Err(Fault::Reported),
            };
        }
        let tile = self.adapt(value, ex, dtype)?;
        let ty = self.ty(tile).clone();
        if ty.dtype != dtype {
            let message = format!(
                "`{tensor}` holds {dtype} but {} is {ty}; write `{dtype}(…)`",
                quote(ex)
            );
            return fault(message, ex.span.clone());
        }
        if ty.extents != extents {
            let region = TileType {
                dtype,
                extents: extents.to_vec(),
            };
            let error = format!("the region of `{tensor}` is {region} but {} is {ty}", quote(ex));
            let error = Diagnostic::error(error, ex.span.clone());
            let squeezed = |e: &[usize]| e.iter().copied().filter(|n| *n != 1).collect::<Vec<_>>();
            return Err(if ty.extents.is_empty() {
                error.note(format!("write `zeros {region} + {ex}` to repeat it"))
            } else if squeezed(&ty.extents) == squeezed(extents) {
                error.note(format!("write `reshape(…, {extents:?})`"))
            } else {
                error
            }
            .into());
        }
        Ok(tile)
    }
}
