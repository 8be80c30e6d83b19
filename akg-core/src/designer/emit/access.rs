//! Loads and stores: the regions of tensors that a kernel's tiles cover.

use super::text::{compute_type, literal};
use super::{Emitter, Var, Walk};
use crate::designer::plan::{Access, Axis, TensorKey};
use crate::designer::prim::PrimId;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// A tile whose axes are in the order `to`, from one that has them in another.
fn turned(text: String, from: &[Axis], to: &[Axis]) -> String {
    if from == to {
        return text;
    }
    let places = to.iter().filter_map(|axis| from.iter().position(|a| a == axis));
    let places: Vec<String> = places.map(|place| place.to_string()).collect();
    match places.len() {
        2 => format!("trans({text})"),
        _ => format!("trans({text}, [{}])", places.join(", ")),
    }
}

impl Emitter<'_> {
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
            let seen = window.map_or(vec![(*axis, 1)], |w| w.axes.clone());
            let mut at: Vec<String> = window.map(|w| w.start.to_string()).into_iter().collect();
            let mut tile = None;
            for (seen, step) in seen {
                let term = |place: &str| match step {
                    _ if place == "0" => "0".to_owned(),
                    1 => place.to_owned(),
                    _ => format!("{step}*({place})"),
                };
                match self.walk(seen)? {
                    Walk::Index(name) => {
                        at.push(term(name));
                        leaves |= self.stray == Some(seen);
                    }
                    Walk::Tile { .. } if tile.is_some() => {
                        return Err(Error::unsupported(
                            "no design rule yet for two tiles along one dimension of a tensor",
                        ));
                    }
                    Walk::Tile { start, len, overhang } => {
                        at.push(term(start));
                        tile = Some((len, step * self.stride(seen)));
                        order.push(seen);
                        leaves |= overhang;
                    }
                }
            }
            at.retain(|term| term != "0");
            let at = if at.is_empty() {
                "0".to_owned()
            } else {
                at.join(" + ")
            };
            parts.push(match tile {
                Some((len, 1)) => format!("{at} :+ {len}"),
                Some((len, step)) => format!("{at} :+ {len} by {step}"),
                None => at,
            });
            leaves |= !self.kernel.stays_inside(*axis);
        }
        Ok((
            format!("{}[{}]", self.name(&access.tensor)?, parts.join(", ")),
            order,
            leaves,
        ))
    }

    pub(in crate::designer) fn name(&self, tensor: &TensorKey) -> Result<&str> {
        let name = self.names.tensors.get(tensor).map(String::as_str);
        name.ok_or_else(|| Error::unexpected("a tensor of the design has no name"))
    }

    /// Loads a tile in compute type, or finds it loaded already. Binds it to a name.
    pub(in crate::designer) fn load(&mut self, access: &Access) -> Result<Var> {
        self.load_as(access, compute_type(self.plan.dtype(&access.tensor)))
    }

    /// The same in another type that holds the elements.
    pub(in crate::designer) fn load_as(&mut self, access: &Access, to: DType) -> Result<Var> {
        let dtype = self.plan.dtype(&access.tensor);
        let (region, order, leaves) = self.region(access)?;
        let key = (region, to);
        if let Some(var) = self.loads.iter().rev().find_map(|s| s.get(&key)) {
            return Ok(var.clone());
        }
        let overhangs = |a: &Axis| {
            self.kernel.reduced.contains(a)
                && matches!(self.walks.get(a), Some(Walk::Tile { overhang: true, .. }))
        };
        let beyond_ends: Vec<Axis> = order.iter().copied().filter(overhangs).collect();
        // Beyond what a window sees may stand other elements.
        let windows = access.axes.iter().filter_map(|a| self.kernel.windows.get(a));
        let seen: Vec<Axis> = windows.flat_map(|w| &w.axes).map(|(a, _)| *a).collect();
        let mut beyond: Vec<Axis> = seen.into_iter().filter(overhangs).collect();
        let sees_nothing = |a: &Axis| self.kernel.sees_nothing(*a);
        let sees_zeros = |a: &Axis| !self.kernel.stays_inside(*a) && !sees_nothing(a);
        let [nothing, zeros] = [
            access.axes.iter().any(sees_nothing),
            access.axes.iter().any(sees_zeros),
        ];
        let fill = if (!beyond_ends.is_empty() || nothing) && dtype.is_float() {
            self.fill
        } else {
            0.0
        };
        // A load has one value for all that is outside: zeros that a window sees are elements, and what is beyond ends is not.
        let is_mixed = zeros && fill != 0.0;
        if is_mixed && nothing {
            return Err(Error::unsupported(
                "no design rule yet for windows of which one sees zeros outside of a tensor and another nothing",
            ));
        }
        if is_mixed {
            beyond = beyond_ends;
        }
        let outside = if is_mixed { 0.0 } else { fill };
        let mut text = format!("load {}", key.0);
        if leaves {
            text = format!("{text} else {}", literal(outside, dtype));
        }
        let axes = self.tile_axes(&order);
        text = turned(text, &order, &axes);
        for axis in beyond {
            let place = self.coordinate(&[axis], DType::I64)?;
            let inside = if self.stride(axis) < 0 {
                format!("({} >= 0)", place.text)
            } else {
                format!("({} < {})", place.text, self.extent(axis))
            };
            let inside = Self::expanded(
                &Var {
                    text: inside,
                    ..place
                },
                &axes,
            );
            text = format!("select({inside}, {text}, {})", literal(fill, dtype));
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

    /// A variable of type `own` along these axes of the tile, which has its values again and again along others.
    pub(in crate::designer) fn repeated(&self, var: &Var, axes: &[Axis], own: DType) -> Result<String> {
        let text = Self::expanded(var, axes);
        if var.axes == axes {
            return Ok(text);
        }
        // Multiplying by 1 keeps every bit of it.
        let sign = if own == DType::Bool { "&" } else { "*" };
        let extents = self.extents(axes)?;
        Ok(format!("{text} {sign} full {own}{extents} {}", literal(1.0, own)))
    }

    /// Stores a variable, converted to the tensor's element type.
    pub(in crate::designer) fn store(&mut self, id: PrimId, access: &Access) -> Result<()> {
        let var = self
            .find(id)
            .ok_or_else(|| Error::unexpected("an emitter stores what it did not compute"))?;
        let (region, order, _) = self.region(access)?;
        let dtype = self.plan.dtype(&access.tensor);
        let axes = self.tile_axes(&order);
        let mut text = self.repeated(&var, &axes, compute_type(dtype))?;
        if compute_type(dtype) != dtype {
            text = format!("{dtype}({text})");
        }
        text = turned(text, &axes, &order);
        self.line(format!("store {region} = {text}"));
        Ok(())
    }
}
