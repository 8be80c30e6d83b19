//! Element-wise primitives; those of known numbers are folded.

use super::{MapOp, Prim, PrimId, Prims, broadcast};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp, UnaryOp};

impl Prims {
    fn map(&mut self, op: MapOp, args: Vec<PrimId>, dtype: DType) -> Result<PrimId> {
        let mut shape: Vec<Expr> = Vec::new();
        for arg in &args {
            shape = broadcast(&shape, self.shape(*arg))?;
        }
        Ok(self.push(Prim::Map(op, args), dtype, shape))
    }

    pub(in crate::designer) fn unary(&mut self, op: UnaryOp, a: PrimId) -> Result<PrimId> {
        let dtype = if op == UnaryOp::IsNan {
            DType::Bool
        } else {
            self.dtype(a)
        };
        self.map(MapOp::Unary(op), vec![a], dtype)
    }

    /// Both operands must have the same type already, or one be a literal.
    pub(in crate::designer) fn binary(&mut self, op: BinaryOp, a: PrimId, b: PrimId) -> Result<PrimId> {
        // Compilers keep divisions by one.
        if matches!(op, BinaryOp::Mul | BinaryOp::Div)
            && self.node(b).prim == Prim::Number(1.0)
            && !self.is_number(a)
        {
            return Ok(a);
        }
        let dtype = self.dtype(if self.is_number(a) { b } else { a });
        // Truth values have one bit, in which a machine's sum would be another.
        let op = match op {
            BinaryOp::Add | BinaryOp::Max if dtype == DType::Bool => BinaryOp::Or,
            BinaryOp::Mul | BinaryOp::Min if dtype == DType::Bool => BinaryOp::And,
            op => op,
        };
        // So do they divisions by powers of two, whose inverses are exact.
        if op == BinaryOp::Div
            && dtype.is_float()
            && let Prim::Number(divisor) = self.node(b).prim
            && is_small_power(divisor)
        {
            return self.mul_number(a, divisor.recip());
        }
        self.map(MapOp::Binary(op), vec![a, b], dtype)
    }

    /// Compares; literals are compared here, since nothing else would give them a type.
    pub(in crate::designer) fn compare(&mut self, op: CompareOp, a: PrimId, b: PrimId) -> Result<PrimId> {
        if let (Prim::Number(x), Prim::Number(y)) = (&self.node(a).prim, &self.node(b).prim) {
            let is_single = self.dtype(a).promote(self.dtype(b)) == DType::F32;
            let round = |value: f64| if is_single { f64::from(value as f32) } else { value };
            let holds = op.holds(&round(*x), &round(*y));
            return Ok(self.full(f64::from(u8::from(holds)), DType::Bool, Vec::new()));
        }
        self.map(MapOp::Compare(op), vec![a, b], DType::Bool)
    }

    pub(in crate::designer) fn select(&mut self, condition: PrimId, a: PrimId, b: PrimId) -> Result<PrimId> {
        let dtype = self.dtype(if self.is_number(a) { b } else { a });
        if let Some(chooses_a) = self.constant(condition) {
            let chosen = if chooses_a != 0.0 { a } else { b };
            let shape = broadcast(self.shape(a), self.shape(b))?;
            let shape = broadcast(&shape, self.shape(condition))?;
            let chosen = self.cast(chosen, dtype);
            return Ok(self.expand(chosen, shape));
        }
        self.map(MapOp::Select, vec![condition, a, b], dtype)
    }

    /// Converts unless the type is the same already; literals take any type.
    pub(in crate::designer) fn cast(&mut self, a: PrimId, dtype: DType) -> PrimId {
        if self.dtype(a) == dtype || self.is_number(a) {
            return a;
        }
        let shape = self.shape(a).to_vec();
        self.push(Prim::Map(MapOp::Cast, vec![a]), dtype, shape)
    }

    pub(in crate::designer) fn add(&mut self, a: PrimId, b: PrimId) -> Result<PrimId> {
        self.binary(BinaryOp::Add, a, b)
    }

    pub(in crate::designer) fn sub(&mut self, a: PrimId, b: PrimId) -> Result<PrimId> {
        self.binary(BinaryOp::Sub, a, b)
    }

    pub(in crate::designer) fn mul(&mut self, a: PrimId, b: PrimId) -> Result<PrimId> {
        self.binary(BinaryOp::Mul, a, b)
    }

    pub(in crate::designer) fn div(&mut self, a: PrimId, b: PrimId) -> Result<PrimId> {
        self.binary(BinaryOp::Div, a, b)
    }

    pub(in crate::designer) fn mul_number(&mut self, a: PrimId, factor: f64) -> Result<PrimId> {
        let factor = self.number(factor);
        self.mul(a, factor)
    }

    pub(in crate::designer) fn add_number(&mut self, a: PrimId, term: f64) -> Result<PrimId> {
        let term = self.number(term);
        self.add(a, term)
    }
}

/// Returns true for a power of two up to 2^14 in magnitude, whose inverse is a normal number in every type.
fn is_small_power(number: f64) -> bool {
    let magnitude = number.abs();
    magnitude.log2().fract() == 0.0 && (1.0..=16384.0).contains(&magnitude)
}
