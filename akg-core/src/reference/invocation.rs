//! An operator call and its operands.

use super::array::Array;
use super::product::Products;
use super::real::Real;
use super::run::Stretches;
use super::semantics::{Rounder, Semantics};
use super::strided::Strided;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::ops::Call;
use crate::graph::{Arg, Node, ValueId};

/// The results of one operator.
pub(super) type Results<T> = Result<Vec<Array<T>>>;

/// What evaluates one operator.
pub(super) type Kernel<T> = fn(&mut Invocation<'_, T>) -> Results<T>;

/// One operator call with its operands, as a [`Kernel`] sees it. Arguments are asked for by the names of the schema.
///
/// A tensor argument can be asked for once: it is handed over, so that a kernel can compute in the memory of an
/// operand that nothing else needs.
pub(super) struct Invocation<'a, T> {
    pub(super) call: Call<'a>,
    pub(super) node: &'a Node,
    /// The node's position in the graph.
    pub(super) position: usize,
    pub(super) bindings: &'a Bindings,
    /// The shape of each value.
    pub(super) shapes: &'a [Vec<usize>],
    pub(super) stretches: &'a Stretches,
    /// The last node that reads each value.
    pub(super) last_use: &'a [usize],
    /// The values that are known and still needed.
    pub(super) known: &'a mut [Option<Array<T>>],
    /// Where results are rounded to their element types.
    pub(super) semantics: Semantics,
    /// Whether floating operands are rounded to their types as they are taken.
    pub(super) rounds_operands: bool,
    /// Who else can make matrix products.
    pub(super) products: Option<&'a dyn Products>,
}

impl<T: Real> Invocation<'_, T> {
    fn take(&mut self, value: ValueId) -> Result<Array<T>> {
        let index = value.index();
        let dies = self.last_use[index] == self.position;
        let once = self.node.inputs().filter(|v| *v == value).count() == 1;
        let slot = &mut self.known[index];
        let array = if dies && once { slot.take() } else { slot.clone() };
        let array = array.ok_or_else(|| Error::unexpected("an operand was asked for twice"))?;
        Ok(if self.rounds_operands {
            array.rounded_to_type()
        } else {
            array
        })
    }

    /// An explicit conversion to `dtype`. One between floating types is left to the rounding of results, if there is any.
    pub(super) fn convert(&self, x: Array<T>, dtype: DType) -> Array<T> {
        let rounds_later = matches!(self.semantics, Semantics::Rounded { .. });
        if rounds_later && x.dtype.is_float() && dtype.is_float() {
            x.promote(dtype)
        } else {
            x.cast(dtype)
        }
    }

    /// The rounding of values that an operator of several steps keeps between them, in the type of its first result.
    pub(super) fn rounder(&self) -> Result<Option<Rounder>> {
        Ok(self.semantics.rounder(self.dtype(0)?, self.result(0)?.index()))
    }

    /// A tensor argument.
    pub(super) fn array(&mut self, name: &str) -> Result<Array<T>> {
        self.take(self.call.value(name)?)
    }

    /// An optional tensor argument.
    pub(super) fn opt_array(&mut self, name: &str) -> Result<Option<Array<T>>> {
        self.call.opt_value(name)?.map(|v| self.take(v)).transpose()
    }

    /// A tensor argument as floating numbers.
    pub(super) fn float(&mut self, name: &str) -> Result<Strided<T>> {
        Ok(self.array(name)?.into_float())
    }

    /// An optional tensor argument as floating numbers.
    pub(super) fn opt_float(&mut self, name: &str) -> Result<Option<Strided<T>>> {
        Ok(self.opt_array(name)?.map(Array::into_float))
    }

    /// A list of tensors, some of which may be missing.
    pub(super) fn opt_arrays(&mut self, name: &str) -> Result<Vec<Option<Array<T>>>> {
        let values = self.call.values(name)?;
        values
            .iter()
            .map(|v| v.map(|v| self.take(v)).transpose())
            .collect()
    }

    /// A list of tensors.
    pub(super) fn arrays(&mut self, name: &str) -> Result<Vec<Array<T>>> {
        let arrays = self.opt_arrays(name)?;
        arrays
            .into_iter()
            .map(|a| a.ok_or_else(|| Error::invalid(format!("`{name}` has a missing entry"))))
            .collect()
    }

    /// A tensor argument, or a number as a 0-dimensional tensor.
    pub(super) fn operand(&mut self, name: &str) -> Result<Array<T>> {
        self.opt_operand(name)?
            .ok_or_else(|| Error::invalid(format!("argument `{name}` is missing")))
    }

    /// A tensor argument, or a number as a 0-dimensional tensor, that may be missing.
    pub(super) fn opt_operand(&mut self, name: &str) -> Result<Option<Array<T>>> {
        Ok(Some(match self.call.arg(name)? {
            Arg::None => return Ok(None),
            Arg::Value(v) => self.take(*v)?,
            Arg::Int(e) => Array::int(DType::I64, Strided::full([], e.eval(self.bindings)?)),
            Arg::Bool(b) => Array::bool(Strided::full([], *b)),
            _ => Array::float(DType::F64, Strided::full([], T::of(self.call.number(name)?))),
        }))
    }

    /// A number; symbolic integers have their value.
    pub(super) fn number(&self, name: &str) -> Result<T> {
        self.opt_number(name)?
            .ok_or_else(|| Error::invalid(format!("argument `{name}` is missing")))
    }

    /// A number that may be missing.
    pub(super) fn opt_number(&self, name: &str) -> Result<Option<T>> {
        Ok(match self.call.arg(name)? {
            Arg::Int(e) => Some(T::of_int(e.eval(self.bindings)?)),
            _ => self.call.opt_number(name)?.map(T::of),
        })
    }

    /// An integer that may be missing.
    pub(super) fn opt_int(&self, name: &str) -> Result<Option<i64>> {
        self.call
            .opt_size(name)?
            .map(|e| e.eval(self.bindings))
            .transpose()
    }

    /// An integer.
    pub(super) fn int(&self, name: &str) -> Result<i64> {
        self.opt_int(name)?
            .ok_or_else(|| Error::invalid(format!("argument `{name}` is missing")))
    }

    /// A list of integers; missing lists are empty.
    pub(super) fn ints(&self, name: &str) -> Result<Vec<i64>> {
        self.call
            .sizes(name)?
            .iter()
            .map(|e| e.eval(self.bindings))
            .collect()
    }

    /// An integer that must not be negative.
    pub(super) fn count(&self, name: &str) -> Result<usize> {
        let value = self.int(name)?;
        usize::try_from(value).map_err(|_| Error::invalid(format!("`{name}` is negative: {value}")))
    }

    /// A list of integers that must not be negative.
    pub(super) fn counts(&self, name: &str) -> Result<Vec<usize>> {
        let ints = self.ints(name)?.into_iter();
        ints.map(|v| {
            usize::try_from(v).map_err(|_| Error::invalid(format!("`{name}` has the negative entry {v}")))
        })
        .collect()
    }

    /// A boolean.
    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        self.call.bool(name)
    }

    /// A string that may be missing.
    pub(super) fn opt_str(&self, name: &str) -> Result<Option<&str>> {
        if self.has(name) {
            self.call.str(name).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Whether the operator has an argument of this name and it is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.call.has(name).unwrap_or(false)
    }

    /// Whether an argument is a plain number, not a tensor.
    pub(super) fn is_number(&self, name: &str) -> bool {
        matches!(
            self.call.arg(name),
            Ok(Arg::Int(_) | Arg::Float(_) | Arg::Bool(_))
        )
    }

    /// The axis of a tensor of `rank` dimensions that an argument names, counted from the end if negative.
    pub(super) fn axis(&self, name: &str, rank: usize) -> Result<usize> {
        axis(self.int(name)?, rank)
    }

    /// The axes that a list names, in its order.
    pub(super) fn axes(&self, name: &str, rank: usize) -> Result<Vec<usize>> {
        self.ints(name)?.into_iter().map(|a| axis(a, rank)).collect()
    }

    /// The shape of a tensor argument.
    pub(super) fn operand_shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.shapes[self.call.value(name)?.index()])
    }

    /// The element type of a tensor argument.
    pub(super) fn operand_dtype(&self, name: &str) -> Result<DType> {
        Ok(self.call.tensor(name)?.dtype)
    }

    /// The element type that the graph gives result `index`.
    pub(super) fn dtype(&self, index: usize) -> Result<DType> {
        Ok(self.call.ty(self.result(index)?)?.dtype)
    }

    /// The shape of result `index`.
    pub(super) fn shape(&self, index: usize) -> Result<Vec<usize>> {
        Ok(self.shapes[self.result(index)?.index()].clone())
    }

    /// The index along `axis` of the first result at which its computed part starts.
    pub(super) fn start(&self, axis: usize) -> Result<usize> {
        let stretch = self.stretches.get(self.result(0)?.index()).copied().flatten();
        Ok(stretch.filter(|s| s.axis == axis).map_or(0, |s| s.start))
    }

    /// The row-major number in the whole first result of each element of its computed part.
    pub(super) fn numbers(&self) -> Result<impl Fn(usize) -> i64 + Sync + use<T>> {
        let value = self.result(0)?;
        let stretch = self.stretches.get(value.index()).copied().flatten();
        let whole = self.call.ty(value)?.concrete_shape(self.bindings)?;
        // Elements of the whole and of the part for each index before the stretched axis, and those before the part.
        let (whole, part, start) = stretch.map_or((1, 1, 0), |s| {
            let inner: usize = whole[s.axis + 1..].iter().product();
            (whole[s.axis] * inner, (s.end - s.start) * inner, s.start * inner)
        });
        Ok(move |i: usize| (i / part * whole + start + i % part) as i64)
    }

    /// How many results there are.
    pub(super) fn results(&self) -> usize {
        self.node.outputs.len()
    }

    fn result(&self, index: usize) -> Result<ValueId> {
        let value = self.node.outputs.get(index).copied();
        value.ok_or_else(|| Error::unexpected(format!("there is no result {index}")))
    }
}

/// Resolves an axis that counts from the end if negative. A 0-dimensional tensor counts as having one.
pub(super) fn axis(axis: i64, rank: usize) -> Result<usize> {
    let rank = rank.max(1) as i64;
    let at = if axis < 0 { axis + rank } else { axis };
    usize::try_from(at)
        .ok()
        .filter(|_| at < rank)
        .ok_or_else(|| Error::invalid(format!("axis {axis} of a tensor of {rank} dimensions")))
}
