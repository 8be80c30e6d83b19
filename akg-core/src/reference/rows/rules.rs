//! What each operator needs of its operands for some rows of its results.

use super::super::invocation;
use super::{Need, Obstacle};
use crate::error::Error;
use crate::graph::ops::{Call, Einsum};
use crate::graph::{Arg, Family, ValueId};

/// One operator call in an attempt to split into `rows`.
pub(super) struct Rule<'a> {
    pub(super) call: &'a Call<'a>,
    pub(super) shapes: &'a [Vec<usize>],
    pub(super) rows: usize,
    pub(super) outputs: &'a [ValueId],
}

/// How a call splits.
pub(super) struct CallSplit {
    /// The axis of each result along which the rows lie.
    pub(super) outputs: Vec<usize>,
    pub(super) operands: Vec<(ValueId, Need)>,
}

impl From<Error> for Obstacle {
    fn from(_: Error) -> Self {
        Obstacle::Dependent
    }
}

type Needs = Result<Vec<(ValueId, Need)>, Obstacle>;

impl Rule<'_> {
    /// The split in which the rows lie along `axis` of result `at`.
    pub(super) fn split(&self, at: usize, axis: usize) -> Result<CallSplit, Obstacle> {
        if self.call.op().family() == Family::Rnn {
            return self.recurrent(at, axis);
        }
        let operands = self.needs(axis)?;
        Ok(CallSplit {
            outputs: vec![axis; self.outputs.len()],
            operands,
        })
    }

    fn needs(&self, axis: usize) -> Needs {
        let base = self.call.op().base_name();
        let out = self.shape(self.outputs[0]);
        match base {
            "glu" | "cumsum" | "cumprod" | "softmax" | "log_softmax" | "_softmax" | "_log_softmax" => {
                self.except(&["dim"], axis)
            }
            "prelu" if axis == 1 => Err(Obstacle::Dependent),
            "prelu" => self.main("self", axis),
            "arange" => Err(Obstacle::Dependent),
            "view" | "_unsafe_view" | "reshape" | "flatten" | "unflatten" | "squeeze" | "unsqueeze" => {
                self.regroup(out, axis)
            }
            "permute" => {
                let order = self.axes("dims")?;
                self.only("self", order.get(axis).copied())
            }
            "transpose" => {
                let (a, b) = (self.axis("dim0", out.len())?, self.axis("dim1", out.len())?);
                self.only(
                    "self",
                    Some(if axis == a {
                        b
                    } else if axis == b {
                        a
                    } else {
                        axis
                    }),
                )
            }
            "t" | "numpy_T" => self.only("self", Some(out.len() - 1 - axis)),
            "alias" | "detach" | "clone" | "contiguous" | "lift_fresh_copy" => self.only("self", Some(axis)),
            "slice" | "narrow" => {
                let own = self.operand("self")?;
                if self.axis("dim", own.len())? == axis && own != out {
                    return Err(Obstacle::Dependent);
                }
                self.only("self", Some(axis))
            }
            "select" | "unbind" => {
                let dim = self.axis("dim", out.len() + 1)?;
                self.only("self", Some(axis + usize::from(axis >= dim)))
            }
            "unfold" => {
                let dim = self.axis("dimension", self.operand("self")?.len())?;
                self.only("self", Some(axis).filter(|a| *a != dim && a + 1 < out.len()))
            }
            "split" | "split_with_sizes" | "chunk" => self.except(&["dim"], axis),
            "cat" => {
                let dim = self.axis("dim", out.len())?;
                let parts = self.call.values("tensors")?.iter().flatten();
                Self::all(
                    axis != dim,
                    parts.map(|v| match self.shape(*v) {
                        [0] if out.len() > 1 => (*v, Need::Whole),
                        _ => (*v, Need::Along(axis)),
                    }),
                )
            }
            "stack" => {
                let dim = self.axis("dim", out.len())?;
                let own = axis.saturating_sub(usize::from(axis > dim));
                let parts = self.call.values("tensors")?.iter().flatten();
                Self::all(axis != dim, parts.map(|v| (*v, Need::Along(own))))
            }
            "flip" => self.except(&["dims"], axis),
            "roll" if self.call.ints("dims")?.is_empty() => Err(Obstacle::Dependent),
            "roll" => self.except(&["dims"], axis),
            "tril" | "triu" => self.only("self", Some(axis)),
            "constant_pad_nd" | "pad" => {
                let padded = self.call.sizes("pad")?.len() / 2;
                self.only("self", Some(axis).filter(|a| a + padded < out.len()))
            }
            "index_select" => {
                let own = self.operand("self")?;
                if self.axis("dim", own.len())? != axis {
                    return self.main("self", axis);
                }
                self.main("index", 0)
            }
            "index_copy" => {
                let [own, index, source] = ["self", "index", "source"].map(|name| self.call.value(name));
                let needs = [
                    (own?, Need::Along(axis)),
                    (index?, Need::Whole),
                    (source?, Need::Along(axis)),
                ];
                Self::all(self.axis("dim", out.len())? != axis, needs.into_iter())
            }
            "embedding" => self
                .only("indices", Some(axis).filter(|a| a + 1 < out.len()))
                .and_then(|mut needs| {
                    needs.push((self.call.value("weight")?, Need::Whole));
                    Ok(needs)
                }),
            "linear" => self.main("input", Self::before_last(axis, out, 1)?),
            "mm" | "matmul" | "bmm" => {
                self.product(axis, "self", if base == "matmul" { "other" } else { "mat2" })
            }
            "addmm" | "baddbmm" => {
                let (a, b) = if base == "addmm" {
                    ("mat1", "mat2")
                } else {
                    ("batch1", "batch2")
                };
                let mut needs = self.product(axis, a, b)?;
                needs.push(self.aligned(self.call.value("self")?, out, axis));
                Ok(needs)
            }
            "mv" | "outer" if axis == 0 => self.main("self", 0),
            "einsum" => self.einsum(axis),
            "layer_norm" | "native_layer_norm" | "rms_norm" => {
                let normalized = self.call.sizes("normalized_shape")?.len();
                self.main("input", Self::before_last(axis, out, normalized)?)
            }
            "batch_norm" if axis != 1 && !self.call.bool("training")? => self.main("input", axis),
            "batch_norm" | "_native_batch_norm_legit" | "_native_batch_norm_legit_functional" => {
                Err(Obstacle::Dependent)
            }
            "scaled_dot_product_attention" => self.attention(out, axis),
            "expand" | "broadcast_to" | "expand_as" => self.elementwise(out, axis),
            _ => self.of_family(out, axis),
        }
    }

    /// The needs of operators that split like their family.
    fn of_family(&self, out: &[usize], axis: usize) -> Needs {
        match self.call.op().family() {
            Family::Norm if axis == 0 => self.main("input", 0),
            Family::Conv if axis == 0 => {
                let batched = self.operand("input")?.len() == self.operand("weight")?.len();
                if batched {
                    self.main("input", 0)
                } else {
                    Err(Obstacle::Dependent)
                }
            }
            Family::Pool => {
                let name = self.call.op().base_name();
                let pooled = name
                    .chars()
                    .find_map(|c| c.to_digit(10))
                    .ok_or(Obstacle::Dependent)?;
                self.main("self", Self::before_last(axis, out, pooled as usize)?)
            }
            Family::Reduce => self.reduction(axis),
            Family::Pointwise | Family::Dropout | Family::Create => self.elementwise(out, axis),
            _ => Err(Obstacle::Dependent),
        }
    }

    fn shape(&self, value: ValueId) -> &[usize] {
        &self.shapes[value.index()]
    }

    fn operand(&self, name: &str) -> Result<&[usize], Obstacle> {
        Ok(self.shape(self.call.value(name)?))
    }

    fn axis(&self, name: &str, rank: usize) -> Result<usize, Obstacle> {
        Ok(invocation::axis(self.call.int(name)?, rank)?)
    }

    /// The axes of `self` that an integer or a list of integers names.
    fn axes(&self, name: &str) -> Result<Vec<usize>, Obstacle> {
        let rank = self.operand("self")?.len();
        let dims = match self.call.arg(name)? {
            Arg::Int(_) => vec![self.call.int(name)?],
            _ => self.call.ints(name)?,
        };
        Ok(dims
            .into_iter()
            .map(|d| invocation::axis(d, rank))
            .collect::<Result<_, _>>()?)
    }

    /// Every tensor operand with the need of `main` along `axis` and the others whole.
    fn main(&self, main: &str, axis: usize) -> Needs {
        let main = self.call.value(main)?;
        if self.call.operands().filter(|value| *value == main).count() > 1 {
            return Err(Obstacle::Dependent);
        }
        let need = |value| {
            if value == main {
                (value, Need::Along(axis))
            } else {
                (value, Need::Whole)
            }
        };
        Ok(self.call.operands().map(need).collect())
    }

    fn only(&self, name: &str, axis: Option<usize>) -> Needs {
        Ok(vec![(
            self.call.value(name)?,
            Need::Along(axis.ok_or(Obstacle::Dependent)?),
        )])
    }

    fn all(apart: bool, needs: impl Iterator<Item = (ValueId, Need)>) -> Needs {
        if apart {
            Ok(needs.collect())
        } else {
            Err(Obstacle::Dependent)
        }
    }

    /// `self` along the same axis, unless one of the arguments `names` names it.
    fn except(&self, names: &[&str], axis: usize) -> Needs {
        for name in names {
            if self.axes(name)?.contains(&axis) {
                return Err(Obstacle::Dependent);
            }
        }
        self.only("self", Some(axis))
    }

    /// `axis`, if it is not among the last `count` of `out`.
    fn before_last(axis: usize, out: &[usize], count: usize) -> Result<usize, Obstacle> {
        if axis + count < out.len() {
            Ok(axis)
        } else {
            Err(Obstacle::Dependent)
        }
    }

    /// What an operand that broadcasts to `out` contributes.
    fn aligned(&self, value: ValueId, out: &[usize], axis: usize) -> (ValueId, Need) {
        let own = self.shape(value);
        let at = (axis + own.len()).checked_sub(out.len());
        match at.filter(|at| own[*at] == out[axis]) {
            Some(at) => (value, Need::Along(at)),
            None => (value, Need::Whole),
        }
    }

    fn elementwise(&self, out: &[usize], axis: usize) -> Needs {
        Ok(self
            .call
            .operands()
            .map(|value| self.aligned(value, out, axis))
            .collect())
    }

    /// Reshapes keep rows apart where the same number of elements comes before them, and each row is whole in both.
    fn regroup(&self, out: &[usize], axis: usize) -> Needs {
        let own = self.operand("self")?;
        let before: usize = out[..axis].iter().product();
        let mut count = 1;
        for (at, extent) in own.iter().enumerate() {
            if count == before && *extent != 1 {
                if extent % self.rows != 0 {
                    return Err(Obstacle::Coarser(super::gcd(self.rows, *extent)));
                }
                return self.only("self", Some(at));
            }
            count *= extent;
        }
        Err(Obstacle::Dependent)
    }

    fn product(&self, axis: usize, a: &str, b: &str) -> Needs {
        let (a, b) = (self.call.value(a)?, self.call.value(b)?);
        let (a_rank, b_rank) = (self.shape(a).len(), self.shape(b).len());
        let out = self.shape(self.outputs[0]);
        let vectors = usize::from(a_rank == 1) + usize::from(b_rank == 1);
        let batch = &out[..out.len() + vectors - 2];
        if a == b {
            return Err(Obstacle::Dependent);
        }
        if axis < batch.len() {
            let shared = |value: ValueId, rank: usize| {
                let at = (axis + rank.saturating_sub(2)).checked_sub(batch.len());
                match at.filter(|at| self.shape(value)[*at] == out[axis]) {
                    Some(at) if rank > 2 => (value, Need::Along(at)),
                    _ => (value, Need::Whole),
                }
            };
            return Ok(vec![shared(a, a_rank), shared(b, b_rank)]);
        }
        Ok(if axis == batch.len() && a_rank > 1 {
            vec![(a, Need::Along(a_rank - 2)), (b, Need::Whole)]
        } else {
            vec![(a, Need::Whole), (b, Need::Along(b_rank - 1))]
        })
    }

    fn einsum(&self, axis: usize) -> Needs {
        let values: Vec<ValueId> = self.call.operands().collect();
        let ranks: Vec<usize> = values.iter().map(|v| self.shape(*v).len()).collect();
        let einsum = Einsum::parse(self.call.str("equation")?, &ranks)?;
        let label = einsum.result.get(axis).ok_or(Obstacle::Dependent)?;
        let extent = self.shape(self.outputs[0])[axis];
        let needs = values.into_iter().zip(&einsum.operands).map(|(value, labels)| {
            let mut places = labels
                .iter()
                .enumerate()
                .filter(|(_, l)| *l == label)
                .map(|(at, _)| at);
            match (places.next(), places.next()) {
                (_, Some(_)) => Err(Obstacle::Dependent),
                (Some(at), None) if self.shape(value)[at] == extent => Ok((value, Need::Along(at))),
                _ => Ok((value, Need::Whole)),
            }
        });
        needs.collect()
    }

    fn attention(&self, out: &[usize], axis: usize) -> Needs {
        let rank = out.len();
        let heads = self.call.bool("enable_gqa")? && axis + 3 == rank;
        let queries = axis + 2 == rank;
        if heads || axis + 1 == rank || (queries && self.call.bool("is_causal")?) {
            return Err(Obstacle::Dependent);
        }
        let whole = [self.call.value("key")?, self.call.value("value")?];
        if queries && whole.contains(&self.call.value("query")?) {
            return Err(Obstacle::Dependent);
        }
        let needs = self.call.operands().map(|value| {
            if queries && whole.contains(&value) {
                (value, Need::Whole)
            } else {
                self.aligned(value, out, axis)
            }
        });
        Ok(needs.collect())
    }

    fn reduction(&self, axis: usize) -> Needs {
        let rank = self.operand("self")?.len();
        let reduced = if self.call.has("dim").unwrap_or(false) {
            self.axes("dim")?
        } else {
            Vec::new()
        };
        if reduced.is_empty() {
            return Err(Obstacle::Dependent);
        }
        if self.call.bool("keepdim").unwrap_or(false) {
            return self.only("self", Some(axis).filter(|a| !reduced.contains(a)));
        }
        self.only("self", (0..rank).filter(|a| !reduced.contains(a)).nth(axis))
    }

    /// Sequences of one batch are independent.
    fn recurrent(&self, at: usize, axis: usize) -> Result<CallSplit, Obstacle> {
        let sequence = usize::from(!self.call.bool("batch_first")?);
        let outputs: Vec<usize> = (0..self.outputs.len())
            .map(|i| if i == 0 { sequence } else { 1 })
            .collect();
        if outputs[at] != axis {
            return Err(Obstacle::Dependent);
        }
        let input = self.call.value("input")?;
        let states: Vec<ValueId> = match self.call.arg("hx")? {
            Arg::Value(v) => vec![*v],
            _ => self.call.values("hx")?.iter().flatten().copied().collect(),
        };
        let operands = self.call.operands().map(|value| {
            if value == input {
                (value, Need::Along(sequence))
            } else if states.contains(&value) {
                (value, Need::Along(1))
            } else {
                (value, Need::Whole)
            }
        });
        Ok(CallSplit {
            outputs,
            operands: operands.collect(),
        })
    }
}
