//! Operators on whole tiles.

use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::lower::tiles::TileOp;
use akg_core::sketch::ir::{BinaryOp, CompareOp, Op, ReduceOp, Scalar, UnaryOp, Val};
use akg_core::task::Accuracy;

use crate::index::{Text, compare, expand, is_half, literal, tuple, type_name};
use crate::printer::Printer;

/// Longer expressions get a variable before they become operands.
const LONGEST_OPERAND: usize = 60;

impl Printer<'_> {
    /// A tile where it is used.
    pub(crate) fn operand(&mut self, value: Val) -> Result<Text> {
        if !self.flow.inlined.contains(&value) {
            return Ok(Text::tight(self.name(value)));
        }
        let Some(op) = self.flow.ops.get(&value).copied() else {
            return Ok(Text::tight(self.name(value)));
        };
        let text = self.op(value, op)?;
        if text.open().len() <= LONGEST_OPERAND {
            return Ok(text);
        }
        let name = self.name(value);
        self.line(format!("{name} = {}", text.open()));
        Ok(Text::tight(name))
    }

    /// A tile as a name or a rank-0 constant, which may be written more than once.
    pub(crate) fn bound(&mut self, value: Val) -> Result<String> {
        let text = self.operand(value)?;
        if text.is_name() {
            return Ok(text.open().to_owned());
        }
        Ok(self.variable("t", text.open()))
    }

    /// A tile in the type that arithmetic on it uses.
    fn computing(&mut self, value: Val) -> Result<Text> {
        let text = self.operand(value)?;
        Ok(if is_half(self.dtype(value)) {
            Text::tight(format!("{}.to(tl.float32)", text.closed()))
        } else {
            text
        })
    }

    /// The literal that a rank-0 constant is; Triton gives a literal the type of the other operand.
    fn number(&self, value: Val) -> Option<Text> {
        let rank_0 = self.extents(value).is_empty();
        match self.flow.ops.get(&value) {
            Some(TileOp::Plain(Op::Full(scalar)))
                if rank_0 && matches!(self.dtype(value), DType::F32 | DType::I32) =>
            {
                let text = literal(*scalar);
                let negative = text.starts_with('-');
                Some(if negative {
                    Text::loose(text)
                } else {
                    Text::tight(text)
                })
            }
            _ => None,
        }
    }

    /// Two operands, of which one may be a literal.
    fn pair(&mut self, a: Val, b: Val) -> Result<(Text, Text)> {
        let (x, y) = match (self.number(a), self.number(b)) {
            (_, Some(y)) => (self.computing(a)?, y),
            (Some(x), None) => (x, self.computing(b)?),
            (None, None) => (self.computing(a)?, self.computing(b)?),
        };
        Ok((x, y))
    }

    pub(crate) fn op(&mut self, value: Val, op: &TileOp) -> Result<Text> {
        match op {
            TileOp::Load { access, fill } => self.load(value, access, *fill),
            TileOp::Mask {
                value: operand,
                axis,
                keep,
                other,
            } => {
                let extents = self.extents(*operand);
                let all = extents.get(*axis).copied().unwrap_or(1);
                let lane = format!("tl.arange(0, {all}){}", expand(*axis, extents.len()));
                let mut tests = Vec::new();
                if keep.start > 0 {
                    tests.push(format!("({lane} >= {})", keep.start));
                }
                if keep.end < all {
                    tests.push(format!("({lane} < {})", keep.end));
                }
                let text = self.operand(*operand)?;
                if tests.is_empty() {
                    return Ok(text);
                }
                let fill = constant(*other, self.dtype(*operand))?;
                let test = tests.join(" & ");
                Ok(Text::tight(format!("tl.where({test}, {}, {fill})", text.open())))
            }
            TileOp::Dot {
                a,
                b,
                init,
                method,
                separate,
            } => self.dot(value, (*a, *b), *init, *method, *separate),
            TileOp::Regroup(operand) => self.regroup(*operand, value),
            TileOp::Plain(op) => self.plain(value, op),
        }
    }

    /// Gathers each lane's element from where it was.
    fn regroup(&mut self, from: Val, to: Val) -> Result<Text> {
        let (from_tile, to_tile) = (self.kernel.value(from), self.kernel.value(to));
        let lanes: usize = to_tile.extents.iter().product();
        let source_lanes: usize = from_tile.extents.iter().product();
        // The lane's coordinates by the machine's extents, numbered by the sketch's.
        let renumber = |lane: &str, decode: &[usize], encode: &[usize]| {
            let (mut inner, mut stride) = (1, 1);
            let mut terms = Vec::new();
            for (d, e) in decode.iter().zip(encode).rev() {
                terms.push(format!("(({lane} // {inner}) % {d}) * {stride}"));
                inner *= d;
                stride *= e;
            }
            terms.join(" + ")
        };
        let lane = self.shared_variable("lane", format!("tl.arange(0, {lanes})"));
        let element = self.variable("element", &renumber(&lane, &to_tile.extents, &to_tile.ty.extents));
        let source = renumber(&element, &from_tile.ty.extents, &from_tile.extents);
        let source = self.variable("source", &source);
        let from = self.operand(from)?;
        let flat = self.variable("flat", &format!("tl.reshape({}, ({source_lanes},))", from.open()));
        let to = tuple(&to_tile.extents);
        Ok(Text::tight(format!(
            "tl.reshape(tl.gather({flat}, {source}, 0), {to})"
        )))
    }

    fn plain(&mut self, value: Val, op: &Op) -> Result<Text> {
        let ty = self.dtype(value);
        let target = type_name(ty)?;
        let extents = self.extents(value);
        let shape = tuple(extents);
        let round = |text: Text| {
            if is_half(ty) {
                Text::tight(format!("{}.to({target})", text.closed()))
            } else {
                text
            }
        };
        Ok(match op {
            Op::Full(Scalar::Float(f)) if *f == 0.0 && !extents.is_empty() => {
                Text::tight(format!("tl.zeros({shape}, {target})"))
            }
            Op::Full(scalar) => Text::tight(format!("tl.full({shape}, {}, {target})", literal(*scalar))),
            Op::Iota => {
                let count = extents.first().copied().unwrap_or(1);
                let lanes = format!("tl.arange(0, {count})");
                Text::tight(if ty == DType::I32 {
                    lanes
                } else {
                    format!("{lanes}.to({target})")
                })
            }
            Op::Index(expr) => {
                let text = self.index(expr);
                Text::tight(format!("tl.cast({}, {target})", text.open()))
            }
            Op::Unary(op, a) => round(self.unary(value, *op, *a)?),
            Op::Binary(op, a, b) => round(self.binary(*op, *a, *b)?),
            Op::Compare(op, a, b) => {
                let (a, b) = self.pair(*a, *b)?;
                Text::loose(format!("{} {} {}", a.closed(), compare(*op), b.closed()))
            }
            Op::Select(c, a, b) => {
                let c = self.operand(*c)?;
                let a = self.number(*a).map_or_else(|| self.operand(*a), Ok)?;
                let b = self.number(*b).map_or_else(|| self.operand(*b), Ok)?;
                Text::tight(format!("tl.where({}, {}, {})", c.open(), a.open(), b.open()))
            }
            Op::Cast(a) if ty == DType::Bool => {
                let a = self.computing(*a)?;
                Text::loose(format!("{} != 0", a.closed()))
            }
            Op::Cast(a) if is_half(self.dtype(*a)) && ty == DType::F32 => self.computing(*a)?,
            Op::Cast(a) => {
                // PyTorch converts to small integers by way of larger ones, whose low bits it keeps.
                let through = match ty {
                    _ if !self.dtype(*a).is_float() => "",
                    DType::I8 | DType::I16 => ".to(tl.int32)",
                    DType::U8 => ".to(tl.int64)",
                    _ => "",
                };
                let a = self.computing(*a)?;
                Text::tight(format!("{}{through}.to({target})", a.closed()))
            }
            Op::Bits(a) => {
                let a = self.operand(*a)?;
                Text::tight(format!("{}.to({target}, bitcast=True)", a.closed()))
            }
            Op::Reduce(kind, a, axis) => self.reduce(*kind, *a, *axis, ty)?,
            Op::ArgReduce(kind, a, axis) => {
                let function = self.call(if *kind == ReduceOp::Max {
                    "akg_argmax"
                } else {
                    "akg_argmin"
                });
                let operand = self.computing(*a)?;
                let lane = self.lane(*a, *axis);
                Text::tight(format!(
                    "tl.reduce(({}, {lane}), {axis}, {function})[1]",
                    operand.open()
                ))
            }
            Op::Scan {
                op: kind,
                value: a,
                axis,
                exclusive,
                reverse,
            } => {
                let mut operand = self.computing(*a)?;
                if *exclusive {
                    operand = self.shift(*a, &operand, *axis, *kind, *reverse)?;
                }
                let reverse = if *reverse { ", reverse=True" } else { "" };
                let operand = operand.open();
                round(Text::tight(if *kind == ReduceOp::Sum {
                    format!("tl.cumsum({operand}, {axis}{reverse})")
                } else {
                    let combine = self.combine(*kind, ty);
                    format!("tl.associative_scan({operand}, {axis}, {combine}{reverse})")
                }))
            }
            Op::Transpose(a, perm) => {
                let a = self.operand(*a)?;
                Text::tight(if perm == &[1, 0] {
                    format!("tl.trans({})", a.open())
                } else {
                    format!("tl.permute({}, {})", a.open(), tuple(perm))
                })
            }
            Op::Reshape(a) => self.reshape(*a, value)?,
            Op::Load { .. } | Op::Dot { .. } => {
                return Err(Error::unexpected("a load or a dot is left in a tile program"));
            }
        })
    }

    fn reshape(&mut self, from: Val, to: Val) -> Result<Text> {
        let operand = self.operand(from)?;
        let (source, target) = (self.extents(from), self.extents(to));
        let (shape, ty) = (tuple(target), type_name(self.dtype(to))?);
        Ok(Text::tight(match (source, target) {
            _ if source == target => return Ok(operand),
            ([], _) => format!("tl.full({shape}, {}, {ty})", operand.open()),
            (_, []) => format!("tl.max(tl.reshape({}, (1,)), 0).to({ty})", operand.open()),
            ([n], _) if target.len() > 1 && target.iter().filter(|e| **e != 1).all(|e| e == n) => {
                let axis = target.iter().position(|e| e == n).unwrap_or_default();
                if target.iter().filter(|e| *e == n).count() == 1 || *n == 1 {
                    format!("{}{}", operand.closed(), expand(axis, target.len()))
                } else {
                    format!("tl.reshape({}, {shape})", operand.open())
                }
            }
            _ => format!("tl.reshape({}, {shape})", operand.open()),
        }))
    }

    fn reduce(&mut self, kind: ReduceOp, a: Val, axis: usize, ty: DType) -> Result<Text> {
        let operand = self.computing(a)?;
        let operand = operand.open();
        let text = match kind {
            ReduceOp::Sum => format!("tl.sum({operand}, {axis})"),
            _ => {
                let combine = self.combine(kind, ty);
                format!("tl.reduce({operand}, {axis}, {combine})")
            }
        };
        // Triton sums short integers in 32 bits, and halves are f32 while they are computed with.
        let same = matches!(ty, DType::F32 | DType::F64 | DType::I32 | DType::I64);
        Ok(Text::tight(if same {
            text
        } else {
            format!("{text}.to({})", type_name(ty)?)
        }))
    }

    /// The number of each lane along `axis`, in the shape of `value`.
    fn lane(&mut self, value: Val, axis: usize) -> String {
        let extents = self.extents(value);
        let all = extents.get(axis).copied().unwrap_or(1);
        let lanes = format!("tl.arange(0, {all}){}", expand(axis, extents.len()));
        let text = if extents.len() > 1 {
            format!("tl.broadcast_to({lanes}, {})", tuple(extents))
        } else {
            lanes
        };
        self.shared_variable("lane", text)
    }

    /// `operand` moved by one lane along `axis`, for an exclusive scan.
    fn shift(
        &mut self,
        value: Val,
        operand: &Text,
        axis: usize,
        kind: ReduceOp,
        reverse: bool,
    ) -> Result<Text> {
        let last = self.extents(value).get(axis).map_or(0, |n| n - 1);
        let lane = self.lane(value, axis);
        let (source, edge) = if reverse {
            (format!("tl.minimum({lane} + 1, {last})"), last)
        } else {
            (format!("tl.maximum({lane} - 1, 0)"), 0)
        };
        let moved = self.variable(
            "moved",
            &format!("tl.gather({}, {source}, {axis})", operand.open()),
        );
        let dtype = self.dtype(value);
        let bits = 8 * dtype.size() as u32;
        let neutral = match (kind, dtype) {
            (ReduceOp::Sum, _) => "0".to_owned(),
            (ReduceOp::Prod, _) => "1".to_owned(),
            (ReduceOp::Max, _) if dtype.is_float() => literal(Scalar::Float(f64::NEG_INFINITY)),
            (ReduceOp::Min, _) if dtype.is_float() => literal(Scalar::Float(f64::INFINITY)),
            (ReduceOp::Max, DType::U8) => "0".to_owned(),
            (ReduceOp::Min, DType::U8) => "255".to_owned(),
            (ReduceOp::Max, _) => (i64::MIN >> (64 - bits)).to_string(),
            (ReduceOp::Min, _) => (i64::MAX >> (64 - bits)).to_string(),
        };
        Ok(Text::tight(format!(
            "tl.where({lane} == {edge}, tl.full((), {neutral}, {moved}.dtype), {moved})"
        )))
    }

    fn unary(&mut self, value: Val, op: UnaryOp, a: Val) -> Result<Text> {
        let dtype = self.dtype(a);
        let float = dtype.is_float();
        if op == UnaryOp::IsNan {
            let text = self.computing(a)?;
            let x = if text.is_name() {
                text.closed()
            } else {
                self.variable("t", text.open())
            };
            return Ok(Text::loose(format!("{x} != {x}")));
        }
        let text = self.computing(a)?;
        let x = text.open();
        Ok(match op {
            UnaryOp::Neg => Text::loose(format!("-{}", text.closed())),
            UnaryOp::Not if dtype == DType::Bool => Text::loose(format!("{} == 0", text.closed())),
            UnaryOp::Not => Text::loose(format!("~{}", text.closed())),
            UnaryOp::Abs => Text::tight(format!("tl.abs({x})")),
            UnaryOp::Exp if self.approximates(dtype) => Text::tight(format!("libdevice.fast_expf({x})")),
            UnaryOp::Tanh if self.approximates(dtype) => {
                Text::tight(format!("{}({x})", self.call("akg_tanh_approx")))
            }
            UnaryOp::Sigmoid if self.approximates(dtype) => {
                Text::tight(format!("{}({x})", self.call("akg_sigmoid_approx")))
            }
            UnaryOp::Erf if self.approximates(dtype) => {
                Text::tight(format!("{}({x})", self.call("akg_erf_approx")))
            }
            // Beside the largest term, 1, a sum has no place for those that would need care.
            UnaryOp::Exp if self.is_share_of_sum(value, a) => Text::tight(format!("libdevice.exp({x})")),
            UnaryOp::Exp if dtype != DType::F64 => Text::tight(format!("{}({x})", self.call("akg_exp"))),
            UnaryOp::Log if dtype != DType::F64 && self.dialect.approximates_log => {
                Text::tight(format!("{}({x})", self.call("akg_log")))
            }
            UnaryOp::Log1p if dtype != DType::F64 => {
                let function = if self.is_unit_exponential(a) {
                    "akg_log1p_unit"
                } else {
                    "akg_log1p"
                };
                Text::tight(format!("{}({x})", self.call(function)))
            }
            UnaryOp::Tanh if dtype != DType::F64 => Text::tight(format!("{}({x})", self.call("akg_tanh"))),
            UnaryOp::Sigmoid => Text::tight(format!("{}({x})", self.call("akg_sigmoid"))),
            UnaryOp::Pow2Floor => Text::tight(format!("{}({x})", self.call("akg_pow2_floor"))),
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc if !float => text,
            UnaryOp::Sqrt if dtype == DType::F64 => Text::tight(format!("tl.sqrt({x})")),
            UnaryOp::Sqrt => Text::tight(format!("tl.sqrt_rn({x})")),
            UnaryOp::Round => Text::tight(format!("libdevice.rint({x})")),
            named => Text::tight(format!("libdevice.{}({x})", named.name())),
        })
    }

    /// Whether functions of this type may err by what the accuracy class has room for.
    fn approximates(&self, dtype: DType) -> bool {
        self.program.accuracy != Accuracy::Fp32 && dtype.is_float() && dtype != DType::F64
    }

    /// Whether a tile is `exp(-abs(x))` of something, which is from 0 to 1.
    fn is_unit_exponential(&self, value: Val) -> bool {
        let chain = [UnaryOp::Exp, UnaryOp::Neg, UnaryOp::Abs];
        let inner = chain
            .iter()
            .try_fold(value, |value, op| match self.flow.ops.get(&value)? {
                TileOp::Plain(Op::Unary(own, operand)) if own == op => Some(*operand),
                _ => None,
            });
        inner.is_some()
    }

    /// Whether the exponential of an `exponent` that is `x - max(x)` is only summed, along the axis of the maximum.
    fn is_share_of_sum(&self, exponential: Val, exponent: Val) -> bool {
        let op = |value: Val| self.flow.ops.get(&value).copied();
        let Some(TileOp::Plain(Op::Binary(BinaryOp::Sub, x, top))) = op(exponent) else {
            return false;
        };
        let mut top = *top;
        let axis = loop {
            top = match op(top) {
                Some(TileOp::Plain(Op::Reduce(ReduceOp::Max, a, axis))) if a == x => break axis,
                Some(TileOp::Plain(Op::Reshape(a))) => *a,
                // Nothing is above negative infinity: all terms are zero.
                Some(TileOp::Plain(Op::Select(test, _, a))) if self.is_lowest(*test, *a) => *a,
                _ => return false,
            };
        };
        self.flow.summed.get(&exponential) == Some(axis)
    }

    /// Whether `test` says where a tile is negative infinity.
    fn is_lowest(&self, test: Val, value: Val) -> bool {
        let op = |value: Val| self.flow.ops.get(&value).copied();
        let Some(TileOp::Plain(Op::Compare(CompareOp::Eq, a, lowest))) = op(test) else {
            return false;
        };
        let lowest = op(*lowest);
        *a == value
            && matches!(lowest, Some(TileOp::Plain(Op::Full(Scalar::Float(f)))) if *f == f64::NEG_INFINITY)
    }

    fn binary(&mut self, op: BinaryOp, a: Val, b: Val) -> Result<Text> {
        let ty = self.dtype(a);
        let (x, y) = if matches!(
            op,
            BinaryOp::Pow | BinaryOp::Ldexp | BinaryOp::Div | BinaryOp::Mod
        ) {
            (self.computing(a)?, self.computing(b)?)
        } else {
            self.pair(a, b)?
        };
        let infix = |sign: &str| Text::loose(format!("{} {sign} {}", x.closed(), y.closed()));
        let call = |name: &str| Text::tight(format!("{name}({}, {})", x.open(), y.open()));
        let extreme = |name: &str| {
            let nan = if ty.is_float() {
                ", propagate_nan=tl.PropagateNan.ALL"
            } else {
                ""
            };
            Text::tight(format!("tl.{name}({}, {}{nan})", x.open(), y.open()))
        };
        Ok(match op {
            BinaryOp::Add => infix("+"),
            BinaryOp::Sub => infix("-"),
            BinaryOp::Mul => infix("*"),
            BinaryOp::Div => match self.inverse(b) {
                Some(inverse) => {
                    let inverse = constant(Scalar::Float(inverse), ty)?;
                    Text::loose(format!("{} * {inverse}", x.closed()))
                }
                None if ty == DType::F64 || self.approximates(ty) => infix("/"),
                None if self.elements(b) < self.elements(a) => call(self.call("akg_div_by")),
                None => call(self.call("akg_div")),
            },
            BinaryOp::FloorDiv => call(self.call("akg_floordiv")),
            BinaryOp::Mod if ty.is_float() => call(self.call("akg_fmod")),
            BinaryOp::Mod => call(self.call("akg_mod")),
            BinaryOp::Min => extreme("minimum"),
            BinaryOp::Max => extreme("maximum"),
            BinaryOp::Pow => call("libdevice.pow"),
            BinaryOp::Ldexp if self.power(b, ty).is_some() => {
                let power = self.power(b, ty).unwrap_or(1.0);
                Text::loose(format!("{} * {}", x.closed(), literal(Scalar::Float(power))))
            }
            BinaryOp::Ldexp => Text::tight(format!(
                "libdevice.ldexp({}, {}.to(tl.int32))",
                x.open(),
                y.closed()
            )),
            BinaryOp::And => infix("&"),
            BinaryOp::Or => infix("|"),
            BinaryOp::Xor => infix("^"),
            BinaryOp::Shl => infix("<<"),
            BinaryOp::Shr => infix(">>"),
            BinaryOp::Philox => Text::tight(format!("tl.randint({}, {}).to(tl.int64)", x.open(), y.open())),
        })
    }

    /// The power of two whose exponent is a constant, if multiplying by it is the same: it must be a normal number.
    fn power(&self, exponent: Val, dtype: DType) -> Option<f64> {
        let smallest = if dtype == DType::F64 { -1022 } else { -126 };
        match self.flow.ops.get(&exponent) {
            Some(TileOp::Plain(Op::Full(Scalar::Int(n)))) if (smallest..128).contains(n) => {
                Some(2f64.powi(*n as i32))
            }
            _ => None,
        }
    }

    /// One over a constant power of two: multiplying by it is the same as dividing by the constant.
    fn inverse(&self, divisor: Val) -> Option<f64> {
        match self.flow.ops.get(&divisor) {
            Some(TileOp::Plain(Op::Full(Scalar::Float(f)))) => {
                let magnitude = f.abs().log2();
                (magnitude.fract() == 0.0 && magnitude.abs() < 100.0).then_some(1.0 / f)
            }
            _ => None,
        }
    }

    fn elements(&self, value: Val) -> usize {
        self.extents(value).iter().product()
    }

    /// The function that combines two elements.
    fn combine(&mut self, kind: ReduceOp, ty: DType) -> &'static str {
        self.call(match (kind, ty.is_float()) {
            (ReduceOp::Sum | ReduceOp::Prod, _) => "akg_mul",
            (ReduceOp::Max, true) => "akg_max",
            (ReduceOp::Min, true) => "akg_min",
            (ReduceOp::Max, false) => "akg_int_max",
            (ReduceOp::Min, false) => "akg_int_min",
        })
    }
}

/// A constant of an element type.
fn constant(scalar: Scalar, dtype: DType) -> Result<String> {
    Ok(match dtype {
        DType::F32 | DType::I32 => literal(scalar),
        _ => format!("tl.full((), {}, {})", literal(scalar), type_name(dtype)?),
    })
}
