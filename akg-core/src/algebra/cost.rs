//! What a term costs: bytes that are moved, and operations in units of bytes.
//!
//! The model knows no device. Products, reductions and the like read their operands and write their results. Functions of
//! single elements are taken to be fused with what is around them, so they cost their operations; but where they prepare
//! weights for a call, nothing is around them and they are paid in full. Views are free.

use egg::Id;

use super::facts::Classes;
use super::term::{Form, Term};
use crate::expr::Bindings;
use crate::graph::{Family, Operator, TensorType};

/// Operations in the time of one byte.
const OPERATIONS_PER_BYTE: f64 = 16.0;

/// The same for operations that are fused, which mostly pass while bytes are waited for.
const FUSED_PER_BYTE: f64 = 64.0;

/// Bytes in the time of a launch.
const LAUNCH: f64 = (4 << 20) as f64;

/// What a view costs, so that fewer are preferred.
const VIEW: f64 = 1.0;

/// The extent of a symbol without a value.
const UNKNOWN: i64 = 64;

/// The price of a term, given what its operands are.
pub(super) fn price(classes: &Classes, term: &Term, hints: &Bindings) -> f64 {
    let elements = |ty: &TensorType| -> f64 {
        let extent = |name: &str| hints.get(name).copied().or(Some(UNKNOWN));
        ty.shape
            .iter()
            .map(|d| d.eval_with(&extent).map_or(UNKNOWN as f64, |v| v as f64))
            .product()
    };
    let bytes = |ty: &TensorType| elements(ty) * ty.dtype.size() as f64;
    let of = |id: Id| classes[id].data.types.iter();
    let Form::Call { op, .. } = &term.form else {
        return 0.0;
    };
    let results: f64 = term.types.iter().map(elements).sum();
    let operands = egg::Language::children(term);
    let traffic = || -> f64 {
        let read: f64 = operands.iter().flat_map(|id| of(*id)).map(bytes).sum();
        read + term.types.iter().map(bytes).sum::<f64>()
    };
    if is_free(op) {
        return VIEW;
    }
    let name = op.base_name();
    if is_element_wise(op) {
        let operations = results * operations(name) / FUSED_PER_BYTE;
        let prepares = operands.iter().all(|id| classes[*id].data.weight);
        return operations + if prepares { LAUNCH + traffic() } else { VIEW };
    }
    let shape = |operand: &str| {
        let ty = classes[term.operand(operand)?].data.ty()?;
        Some((ty, elements(ty)))
    };
    // The extent that a product sums over.
    let depth = |operand: &str| -> f64 {
        let last = shape(operand).and_then(|(ty, _)| {
            Some(elements(&TensorType {
                dtype: ty.dtype,
                shape: vec![ty.shape.last()?.clone()],
            }))
        });
        last.unwrap_or(1.0)
    };
    let sums = match name {
        "mm" | "bmm" | "matmul" | "mv" | "dot" => results * depth("self"),
        "linear" => results * depth("input"),
        "addmm" => results * depth("mat1"),
        "baddbmm" => results * depth("batch1"),
        _ if op.family() == Family::Conv => {
            let weight = shape("weight").map_or(1.0, |(ty, all)| {
                all / ty.shape.first().and_then(crate::Expr::as_const).unwrap_or(1) as f64
            });
            let moved = if term.is_transposed() {
                shape("input").map_or(results, |(_, n)| n)
            } else {
                results
            };
            moved * weight
        }
        _ => operands.iter().flat_map(|id| of(*id)).map(elements).sum(),
    };
    LAUNCH + traffic() + 2.0 * sums / OPERATIONS_PER_BYTE
}

/// Views, and tensors that are made from numbers.
fn is_free(op: &Operator) -> bool {
    let name = op.base_name();
    match op.family() {
        Family::View => true,
        Family::Join | Family::Rearrange => {
            matches!(name, "split" | "split_with_sizes" | "chunk" | "unbind" | "flip")
        }
        Family::Create => !name.contains("rand"),
        _ => false,
    }
}

/// Functions of single elements, of one or several operands.
fn is_element_wise(op: &Operator) -> bool {
    matches!(op.family(), Family::Pointwise | Family::Dropout) || matches!(op.base_name(), "tril" | "triu")
}

/// Operations for one element.
fn operations(name: &str) -> f64 {
    match name {
        "div" | "sqrt" | "rsqrt" | "reciprocal" | "remainder" | "fmod" => 4.0,
        "exp" | "log" | "sin" | "cos" | "tanh" | "sigmoid" | "pow" | "erf" => 8.0,
        "gelu" | "silu" | "softplus" | "mish" => 12.0,
        _ => 1.0,
    }
}
