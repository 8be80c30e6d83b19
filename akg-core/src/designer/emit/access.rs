//! Loads and stores: the regions of tensors that a kernel's tiles cover.

use super::text::{compute_type, literal};
use super::{Emitter, Var, Walk};
use crate::designer::plan::{Access, Axis, TensorKey};
use crate::designer::prim::PrimId;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

impl Emitter<'_> {
    /// Whether the window through which a dimension is seen, if there is one, shows nothing outside of the tensor.
    fn stays_inside(&self, dimension: Axis) -> bool {
        let window = self.kernel.windows.get(&dimension);
        window.is_none_or(|w| w.stays_inside(self.extent(dimension), |a| self.extent(a).clone()))
    }

    /// The entries of a region for whole axes, and whether it may leave the tensor.
    pub(in crate::designer) fn place(&self, axes: &[Axis]) -> Result<(Vec<String>, bool)> {
        let (mut parts, mut leaves) = (Vec::new(), false);
        for axis in axes {
            match self.walk(*axis)? {
                Walk::Index(at) => parts.push(at.clone()),
                Walk::Tile { start, len, overhang } => {
                    parts.push(format!("{start} :+ {len}"));
                    leaves |= overhang;
                }
            }
        }
        Ok((parts, leaves))
    }

    /// The region of an access, the order of its tile axes, and whether it may leave the tensor.
    fn region(&self, access: &Access) -> Result<(String, Vec<Axis>, bool)> {
        let (mut parts, mut order, mut leaves) = (Vec::new(), Vec::new(), false);
        for axis in &access.axes {
            let window = self.kernel.windows.get(axis);
            let Some(seen) = window.map_or(Some(*axis), |w| w.axis) else {
                parts.extend(window.map(|w| w.start.to_string()));
                leaves |= !self.stays_inside(*axis);
                continue;
            };
            let at = |start: &str| match window {
                Some(w) if w.step == 1 => format!("{} + {start}", w.start),
                Some(w) => format!("{} + {}*({start})", w.start, w.step),
                None => start.to_owned(),
            };
            match self.walk(seen)? {
                Walk::Index(name) => {
                    parts.push(at(name));
                    leaves |= self.picked == Some(seen);
                }
                Walk::Tile { start, len, overhang } => {
                    let step = match window.map_or(1, |w| w.step) * self.stride(seen) {
                        1 => String::new(),
                        step => format!(" by {step}"),
                    };
                    parts.push(format!("{} :+ {len}{step}", at(start)));
                    order.push(seen);
                    leaves |= overhang;
                }
            }
            leaves |= !self.stays_inside(*axis);
        }
        Ok((
            format!("{}[{}]", self.name(&access.tensor)?, parts.join(", ")),
            order,
            leaves,
        ))
    }

    fn name(&self, tensor: &TensorKey) -> Result<&str> {
        let viewed = match tensor {
            TensorKey::View(source, _) => TensorKey::Buffer(*source),
            own => own.clone(),
        };
        let name = self.names.tensors.get(&viewed).map(String::as_str);
        name.ok_or_else(|| Error::unexpected("a tensor of the design has no name"))
    }

    /// The region that an access through a view covers of the tensor, as a tile of its own shape, the order of the access's
    /// tile axes, and whether it may leave the tensor. Of the view's dimensions that make up one of the tensor's, the
    /// outermost that is tiled may be so in part.
    fn viewed(&self, extents: &[Expr], access: &Access) -> Result<(String, Vec<Axis>, bool)> {
        let unsupported =
            || Error::unsupported("no design rule yet for tiles that lie scattered in a product");
        let mut axes = access.axes.iter();
        let (mut parts, mut order, mut leaves) = (Vec::new(), Vec::new(), false);
        for extent in extents {
            let mut start = Vec::new();
            let mut len: Option<String> = None;
            let mut inner = extent.clone();
            while !inner.is(1) {
                let axis = axes.next().ok_or_else(unsupported)?;
                let outermost = inner == *extent;
                inner = inner.exact_div(self.extent(*axis)).ok_or_else(unsupported)?;
                let times = |text: &str| {
                    if inner.is(1) {
                        text.to_owned()
                    } else {
                        format!("({text})*{inner}")
                    }
                };
                match self.walk(*axis)? {
                    Walk::Index(at) if len.is_none() => start.push(times(at)),
                    Walk::Tile {
                        start: at,
                        len: l,
                        overhang,
                    } if len.is_none() && (outermost || !overhang) => {
                        start.push(times(at));
                        len = Some(times(l));
                        order.push(*axis);
                        leaves |= overhang;
                    }
                    Walk::Tile { start: at, .. } if at == "0" => order.push(*axis),
                    _ => return Err(unsupported()),
                }
            }
            let start = start.join(" + ");
            parts.push(match len {
                Some(len) => format!("{start} :+ {len}"),
                None => start,
            });
        }
        Ok((
            format!("{}[{}]", self.name(&access.tensor)?, parts.join(", ")),
            order,
            leaves,
        ))
    }

    /// Loads a tile in compute type, or finds it loaded already. Binds it to a name.
    pub(in crate::designer) fn load(&mut self, access: &Access) -> Result<Var> {
        self.load_as(access, compute_type(self.plan.dtype(&access.tensor)))
    }

    /// The same in another type that holds the elements.
    pub(in crate::designer) fn load_as(&mut self, access: &Access, to: DType) -> Result<Var> {
        let dtype = self.plan.dtype(&access.tensor);
        let split = match access.tensor {
            TensorKey::View(source, _) => self.plan.tensors.get(&TensorKey::Buffer(source)),
            _ => None,
        };
        let split = split.filter(|(_, extents)| extents.len() != access.axes.len());
        let (region, order, leaves) = match split {
            Some((_, extents)) => self.viewed(extents, access)?,
            None => self.region(access)?,
        };
        let key = (region, to);
        if let Some(var) = self.loads.iter().rev().find_map(|s| s.get(&key)) {
            return Ok(var.clone());
        }
        let reduced_overhang = order.iter().any(|a| {
            self.kernel.reduced.contains(a)
                && matches!(self.walks.get(a), Some(Walk::Tile { overhang: true, .. }))
        });
        let fill = if reduced_overhang && dtype.is_float() {
            self.fill
        } else {
            0.0
        };
        let mut text = format!("load {}", key.0);
        if leaves {
            text = format!("{text} else {}", literal(fill, dtype));
        }
        if split.is_some() {
            text = format!("reshape({text}, {})", self.extents(&order)?);
        }
        let axes = self.tile_axes(&order);
        if axes != order {
            text = format!("trans({text})");
        }
        if to != dtype {
            text = format!("{to}({text})");
        }
        let name = self.fresh("x");
        self.line(format!("{name} = {text}"));
        let var = Var { text: name, axes };
        if let Some(scope) = self.loads.last_mut() {
            scope.insert(key, var.clone());
        }
        Ok(var)
    }

    /// Stores a variable, converted to the tensor's element type.
    pub(in crate::designer) fn store(&mut self, id: PrimId, access: &Access) -> Result<()> {
        let var = self
            .find(id)
            .ok_or_else(|| Error::unexpected("an emitter stores what it did not compute"))?;
        let (region, order, _) = self.region(access)?;
        let dtype = self.plan.dtype(&access.tensor);
        let axes = self.tile_axes(&order);
        let mut text = Self::expanded(&var, &axes);
        if var.axes != axes {
            // Repeats the value; multiplying by 1 keeps every bit of it.
            let own = compute_type(dtype);
            let sign = if own == DType::Bool { "&" } else { "*" };
            text = format!(
                "{text} {sign} full {own}{} {}",
                self.extents(&axes)?,
                literal(1.0, own)
            );
        }
        if compute_type(dtype) != dtype {
            text = format!("{dtype}({text})");
        }
        if self.tile_axes(&order) != order {
            text = format!("trans({text})");
        }
        self.line(format!("store {region} = {text}"));
        Ok(())
    }
}
