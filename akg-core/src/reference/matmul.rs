//! Matrix products and tensor contractions.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::array::{Array, broadcast, map_in_place, wrap};
use super::fold::sum_over;
use super::pointwise::combine;
use super::real::Real;
use super::run::{Invocation, Kernel, Results};
use super::strided::{Item, Matrix, Strided};
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "mm.default" | "bmm.default" => |c| products(c, "self", "mat2", |x| x),
        "matmul.default" => matmul,
        "mv.default" => |c| reshaped(c, "self", "vec"),
        "dot.default" => |c| reshaped(c, "self", "tensor"),
        "outer.default" => |c| {
            let shape = c.shape(0)?;
            let (a, b) = (c.float("self")?, c.float("vec2")?);
            let out = combine(a.unsqueeze(1).expand(&shape)?, b, &shape, |a, b| a * b)?;
            Ok(vec![Array::float(c.dtype(0)?, out).into_dtype(c.dtype(0)?)])
        },
        "linear.default" => linear,
        "addmm.default" => |c| scaled(c, "mat1", "mat2"),
        "baddbmm.default" => |c| scaled(c, "batch1", "batch2"),
        "einsum.default" => einsum,
        _ => return None,
    };
    Some(kernel)
}
