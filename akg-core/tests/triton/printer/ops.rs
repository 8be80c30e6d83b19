//! Operators on whole tiles.

use akg_core::DType;
use akg_core::sketch::ir::{BinaryOp, Op, ReduceOp, UnaryOp, Val};

use super::{Printer, compare, dtype, expand, is_half, literal, tuple};

impl Printer<'_> {
    /// Gathers each lane's element from where it was.
    pub(super) fn regroup(&mut self, from: Val, to: Val) -> String {
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
        let (to_live, to_all) = (to_tile.ty.extents.clone(), to_tile.extents.clone());
        let (from_live, from_all) = (from_tile.ty.extents.clone(), from_tile.extents.clone());
        let lane = self.temporary(&format!("tl.arange(0, {lanes})"));
        let element = self.temporary(&renumber(&lane, &to_all, &to_live));
        let source = self.temporary(&renumber(&element, &from_live, &from_all));
        let flat = self.temporary(&format!("tl.reshape({}, ({source_lanes},))", self.name(from)));
        format!("tl.reshape(tl.gather({flat}, {source}, 0), {})", tuple(&to_all))
    }

    pub(super) fn plain(&mut self, value: Val, op: &Op) -> String {
        let ty = self.dtype(value);
        let (target, shape) = (dtype(ty), tuple(self.extents(value)));
        let round = |text: String| {
            if is_half(ty) {
                format!("({text}).to({target})")
            } else {
                text
            }
        };
        match op {
            Op::Full(scalar) => format!("tl.full({shape}, {}, {target})", literal(*scalar)),
            Op::Iota => format!("tl.arange(0, {}).to({target})", self.extents(value)[0]),
            Op::Index(expr) => format!("tl.cast({}, {target})", self.index(expr)),
            Op::Unary(op, a) => round(self.unary(*op, *a)),
            Op::Binary(op, a, b) => round(self.binary(*op, *a, *b)),
            Op::Compare(op, a, b) => {
                format!("{} {} {}", self.computing(*a), compare(*op), self.computing(*b))
            }
            Op::Select(c, a, b) => {
                format!(
                    "tl.where({}, {}, {})",
                    self.name(*c),
                    self.name(*a),
                    self.name(*b)
                )
            }
            Op::Cast(a) if ty == DType::Bool => format!("{} != 0", self.computing(*a)),
            Op::Cast(a) if is_half(self.dtype(*a)) => format!("{}.to({target})", self.computing(*a)),
            Op::Cast(a) => format!("{}.to({target})", self.name(*a)),
            Op::Bits(a) => format!("{}.to({target}, bitcast=True)", self.name(*a)),
            Op::Reduce(kind, a, axis) => {
                let operand = self.computing(*a);
                match kind {
                    ReduceOp::Sum => format!("tl.sum({operand}, {axis}).to({target})"),
                    _ => round(format!("tl.reduce({operand}, {axis}, {})", combine(*kind, ty))),
                }
            }
            Op::ArgReduce(kind, a, axis) => {
                let operand = self.computing(*a);
                let lane = self.lane(*a, *axis);
                let function = if *kind == ReduceOp::Max {
                    "akg_argmax"
                } else {
                    "akg_argmin"
                };
                let both = self.temporary(&format!("tl.reduce(({operand}, {lane}), {axis}, {function})"));
                format!("{both}[1]")
            }
            Op::Scan {
                op: kind,
                value: a,
                axis,
                exclusive,
                reverse,
            } => {
                let mut operand = self.computing(*a);
                if *exclusive {
                    operand = self.shift(*a, &operand, *axis, *kind, *reverse);
                }
                let flag = if *reverse { "True" } else { "False" };
                round(match kind {
                    ReduceOp::Sum => format!("tl.cumsum({operand}, {axis}, reverse={flag})"),
                    _ => format!(
                        "tl.associative_scan({operand}, {axis}, {}, reverse={flag})",
                        combine(*kind, ty)
                    ),
                })
            }
            Op::Transpose(a, perm) => format!("tl.permute({}, {})", self.name(*a), tuple(perm)),
            Op::Reshape(a) => match (self.extents(*a), self.extents(value)) {
                ([], []) => self.name(*a),
                ([], _) => format!("tl.full({shape}, {}, {target})", self.name(*a)),
                (_, []) => format!("tl.max(tl.reshape({}, (1,)), 0).to({target})", self.name(*a)),
                _ => format!("tl.reshape({}, {shape})", self.name(*a)),
            },
            Op::Load { .. } | Op::Dot { .. } => unreachable!("the mapping translates loads and dots"),
        }
    }

    /// The number of each lane along `axis`, in the shape of `value`.
    fn lane(&mut self, value: Val, axis: usize) -> String {
        let extents = self.extents(value);
        let lanes = format!("tl.arange(0, {}){}", extents[axis], expand(axis, extents.len()));
        let shape = tuple(extents);
        self.temporary(&format!("tl.broadcast_to({lanes}, {shape})"))
    }

    /// `operand` moved by one lane along `axis`, for an exclusive scan.
    fn shift(&mut self, value: Val, operand: &str, axis: usize, kind: ReduceOp, reverse: bool) -> String {
        let last = self.extents(value)[axis] - 1;
        let lane = self.lane(value, axis);
        let (source, edge) = if reverse {
            (format!("tl.minimum({lane} + 1, {last})"), last)
        } else {
            (format!("tl.maximum({lane} - 1, 0)"), 0)
        };
        let moved = self.temporary(&format!("tl.gather({operand}, {source}, {axis})"));
        let neutral = match (kind, self.dtype(value).is_float()) {
            (ReduceOp::Sum, _) => "0",
            (ReduceOp::Prod, _) => "1",
            (ReduceOp::Max, true) => "float(\"-inf\")",
            (ReduceOp::Min, true) => "float(\"inf\")",
            (other, false) => panic!("exclusive {other:?} scan of integers"),
        };
        format!("tl.where({lane} == {edge}, tl.full((), {neutral}, {moved}.dtype), {moved})")
    }

    fn unary(&self, op: UnaryOp, a: Val) -> String {
        let x = self.computing(a);
        let float = self.dtype(a).is_float();
        let libdevice = |name: &str| format!("libdevice.{name}({x})");
        match op {
            UnaryOp::Neg => format!("-{x}"),
            UnaryOp::Not if self.dtype(a) == DType::Bool => format!("{x} == 0"),
            UnaryOp::Not => format!("~{x}"),
            UnaryOp::Abs => format!("tl.abs({x})"),
            UnaryOp::IsNan => format!("{x} != {x}"),
            UnaryOp::Sigmoid => format!("akg_sigmoid({x})"),
            UnaryOp::Pow2Floor => format!("akg_pow2_floor({x})"),
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc if !float => x,
            UnaryOp::Round => libdevice("rint"),
            named => libdevice(
                UnaryOp::ALL
                    .iter()
                    .find_map(|(op, name)| (*op == named).then_some(*name))
                    .unwrap_or_default(),
            ),
        }
    }

    fn binary(&self, op: BinaryOp, a: Val, b: Val) -> String {
        let (x, y) = (self.computing(a), self.computing(b));
        let ty = self.dtype(a);
        let infix = |sign: &str| format!("{x} {sign} {y}");
        let call = |name: &str| format!("{name}({x}, {y})");
        let extreme = |name: &str| {
            if ty.is_float() {
                format!("tl.{name}({x}, {y}, propagate_nan=tl.PropagateNan.ALL)")
            } else {
                format!("tl.{name}({x}, {y})")
            }
        };
        match op {
            BinaryOp::Add => infix("+"),
            BinaryOp::Sub => infix("-"),
            BinaryOp::Mul => infix("*"),
            BinaryOp::Div if ty == DType::F64 => infix("/"),
            BinaryOp::Div => call("tl.div_rn"),
            BinaryOp::FloorDiv => call("akg_floordiv"),
            BinaryOp::Mod if ty.is_float() => call("akg_fmod"),
            BinaryOp::Mod => call("akg_mod"),
            BinaryOp::Min => extreme("minimum"),
            BinaryOp::Max => extreme("maximum"),
            BinaryOp::Pow => call("libdevice.pow"),
            BinaryOp::Ldexp => format!("libdevice.ldexp({x}, {y}.to(tl.int32))"),
            BinaryOp::And => infix("&"),
            BinaryOp::Or => infix("|"),
            BinaryOp::Xor => infix("^"),
            BinaryOp::Shl => infix("<<"),
            BinaryOp::Shr => infix(">>"),
        }
    }
}

fn combine(kind: ReduceOp, ty: DType) -> &'static str {
    match (kind, ty.is_float()) {
        (ReduceOp::Sum, _) => "akg_add",
        (ReduceOp::Prod, _) => "akg_mul",
        (ReduceOp::Max, true) => "akg_max",
        (ReduceOp::Min, true) => "akg_min",
        (ReduceOp::Max, false) => "akg_int_max",
        (ReduceOp::Min, false) => "akg_int_min",
    }
}
