//! Dots: how operands are read, and what keeps a sum apart.

use akg_core::dtype::DType;
use akg_core::error::Result;
use akg_core::lower::tiles::{TileKernel, TileOp, TileProgram};
use akg_core::sketch::ir::{DotMethod, Op, Scalar, TensorId, Val};
use akg_core::source::TensorRole;

use crate::access::stored;
use crate::flow::{Flow, flow};
use crate::index::{Text, is_half, tuple, type_name};
use crate::printer::Printer;

impl Printer<'_> {
    /// A dot; `separate` says that its sum is rounded before anything is added to it.
    pub(crate) fn dot(
        &mut self,
        value: Val,
        (a, b): (Val, Val),
        init: Option<Val>,
        method: DotMethod,
        separate: bool,
    ) -> Result<Text> {
        let (sum, operand) = (self.dtype(value), self.dtype(a));
        let (x, y) = (self.factor(a, method)?, self.factor(b, method)?);
        let init = match init {
            Some(init) => Some(self.operand(init)?),
            None if separate => {
                let (shape, sum) = (tuple(self.extents(value)), type_name(sum)?);
                Some(Text::tight(format!("tl.full({shape}, zero.to({sum}), {sum})")))
            }
            None => None,
        };
        let mut text = format!("tl.dot({}, {}", x.open(), y.open());
        if let Some(init) = init {
            text += &format!(", {}", init.open());
        }
        match (method, operand) {
            (DotMethod::Ieee, DType::F32) => text += ", input_precision=\"ieee\"",
            (DotMethod::Tf32, _) => text += ", input_precision=\"tf32\"",
            _ => {}
        }
        if sum != DType::F32 {
            text += &format!(", out_dtype={}", type_name(sum)?);
        }
        text += ")";
        if sum == DType::F32 && self.runs_on(value) {
            text = format!("{}({text})", self.call("akg_settled"));
        }
        Ok(Text::tight(text))
    }

    /// Whether products may still read their left operands when the next iteration begins, which adds others to their sum.
    fn runs_on(&self, sum: Val) -> bool {
        let (mut value, mut in_registers) = (sum, false);
        while let Some(TileOp::Dot {
            a,
            init: Some(init),
            method,
            ..
        }) = self.flow.ops.get(&value)
        {
            in_registers |= !self.is_as_loaded(*a, *method);
            value = *init;
        }
        let is_carried = self.flow.carried.get(&sum) == Some(&value);
        self.dialect.multiplies_from_registers && in_registers && is_carried
    }

    /// Whether a left operand goes from memory to a product without passing through registers.
    fn is_as_loaded(&self, value: Val, method: DotMethod) -> bool {
        let is_load = |op: Option<&TileOp>| matches!(op, Some(TileOp::Load { .. }));
        let is_moved = is_half(self.dtype(value)) && is_load(origin(&self.flow, value));
        let is_rounded = method == DotMethod::Tf32 && !self.is_short(value);
        !is_rounded && (is_moved || is_load(self.flow.ops.get(&value).copied()))
    }

    /// An operand of a dot, rounded as `method` says where the dot itself would cut.
    fn factor(&mut self, value: Val, method: DotMethod) -> Result<Text> {
        let text = self.operand(value)?;
        if method != DotMethod::Tf32 || self.is_short(value) {
            return Ok(text);
        }
        let round = self.call(if self.dialect.rounds_to_tf32 {
            "akg_tf32"
        } else {
            "akg_tf32_bits"
        });
        Ok(Text::tight(format!("{round}({})", text.open())))
    }

    /// Whether a tile's elements are those of a shorter type.
    fn is_short(&self, value: Val) -> bool {
        match origin(&self.flow, value) {
            Some(TileOp::Load { access, fill }) => {
                matches!(fill, Scalar::Float(f) if *f == 0.0) && holds_short(self.program, access.tensor)
            }
            _ => widens(self.kernel, &self.flow, value),
        }
    }
}

/// How a tile was made, before its elements were moved.
fn origin<'a>(flow: &Flow<'a>, value: Val) -> Option<&'a TileOp> {
    match *flow.ops.get(&value)? {
        TileOp::Plain(Op::Transpose(from, _) | Op::Reshape(from)) => origin(flow, *from),
        op => Some(op),
    }
}

/// Whether a tile was converted from a shorter type.
fn widens(kernel: &TileKernel, flow: &Flow<'_>, value: Val) -> bool {
    matches!(origin(flow, value), Some(TileOp::Plain(Op::Cast(from))) if is_half(kernel.value(*from).ty.dtype))
}

/// Whether kernels store nothing but elements of a shorter type in a tensor of their own.
fn holds_short(program: &TileProgram, tensor: TensorId) -> bool {
    let own = program
        .tensors
        .get(tensor.0)
        .is_some_and(|t| t.role == TensorRole::Scratch);
    own && program.kernels.iter().all(|kernel| {
        let flow = flow(kernel);
        stored(&kernel.body, tensor)
            .into_iter()
            .all(|value| widens(kernel, &flow, value))
    })
}
