//! Rules about single elements, views and axes of extent 1.

use super::{Random, instances};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::graph::{Conv, Graph, ValueId};
use crate::tensor::Tensor;

fn constant(g: &mut Graph, dtype: DType, shape: &[i64], number: f64) -> ValueId {
    g.full(shape.iter().copied(), number, dtype).unwrap()
}

/// `op(self=x)`.
fn unary(g: &mut Graph, op: &str, x: ValueId) -> crate::Result<ValueId> {
    Ok(g.call(op, [("self", x.into())])?[0])
}

/// A clamp of any name.
fn clamp(r: &mut Random, g: &mut Graph, x: ValueId) -> crate::Result<ValueId> {
    let (a, b) = (r.number(), r.number());
    match r.below(5) {
        0 => g.relu(x),
        1 => unary(g, "relu6.default", x),
        2 => unary(g, "hardtanh.default", x),
        3 => g.clamp(x, Some(a.min(b)), r.coin().then_some(a.max(b))),
        _ => g.clamp(x, None, Some(a)),
    }
}

/// A window of one element.
fn pool(r: &mut Random, g: &mut Graph) -> crate::Result<ValueId> {
    let shape = r.shape(4);
    let dtype = r.wide();
    let x = g.input("x", dtype, shape);
    if r.coin() {
        g.max_pool2d(x, [1, 1], [1, 1], [0, 0])
    } else {
        g.avg_pool2d(x, [1, 1], [1, 1], [0, 0])
    }
}

/// A shape with extent 1 at an axis.
fn with_one(r: &mut Random) -> (Vec<i64>, usize) {
    let mut shape = r.any_shape();
    let at = r.below(shape.len() as i64) as usize;
    shape[at] = 1;
    (shape, at)
}

fn view(r: &mut Random, g: &mut Graph, x: ValueId) -> crate::Result<ValueId> {
    match r.below(3) {
        0 => g.unsqueeze(x, 0),
        1 => g.reshape(x, [-1]),
        _ => g.flatten(x, 0, -1),
    }
}

instances! {
    dropout_in_evaluation => |r, g| {
        let x = r.input(g, DType::F32);
        let (p, train) = r.of(&[(0.5, false), (0.0, false)]);
        g.dropout(x, p, train)
    };
    copy => |r, g| {
        let dtype = r.of(&DType::ALL);
        let x = r.input(g, dtype);
        let op = r.of(&["clone.default", "contiguous.default", "detach.default", "alias.default"]);
        unary(g, op, x)
    };
    conversion_to_own_type => |r, g| {
        let dtype = r.of(&DType::ALL);
        let x = r.input(g, dtype);
        g.to_dtype(x, dtype)
    };
    conversion_by_wider_type => |r, g| {
        let (from, by) = r.of(&[
            (DType::F16, DType::F32),
            (DType::BF16, DType::F32),
            (DType::F32, DType::F64),
            (DType::Bool, DType::F32),
        ]);
        let x = r.input(g, from);
        let wide = g.to_dtype(x, by)?;
        let to = r.float();
        g.to_dtype(wide, to)
    };
    unit_scale => |r, g| {
        let dtype = r.float();
        let x = r.input(g, dtype);
        let shape: Vec<i64> = g.ty(x).shape.iter().filter_map(Expr::as_const).collect();
        match r.below(3) {
            0 => g.mul(x, 1.0),
            1 => g.div(x, 1.0),
            _ => {
                let one = constant(g, dtype, &shape, 1.0);
                g.mul(one, x)
            }
        }
    };
    zero_shift => |r, g| {
        let dtype = r.float();
        let x = r.input(g, dtype);
        if r.coin() { g.add(x, 0.0) } else { g.sub(x, 0.0) }
    };
    involution => |r, g| match r.below(3) {
        0 => {
            let x = r.input(g, DType::Bool);
            let not = g.logical_not(x)?;
            g.logical_not(not)
        }
        1 => {
            let x = g.input("x", DType::F32, [3, 2]);
            let flipped = g.call("flip.default", [("self", x.into()), ("dims", [0, 1].into())])?[0];
            Ok(g.call("flip.default", [("self", flipped.into()), ("dims", [0, 1].into())])?[0])
        }
        _ => {
            let dtype = r.float();
            let x = r.input(g, dtype);
            let negative = g.neg(x)?;
            g.neg(negative)
        }
    };
    idempotent => |r, g| {
        let dtype = r.float();
        let op = r.of(&["relu.default", "abs.default", "sign.default", "floor.default", "ceil.default",
            "round.default", "trunc.default", "tril.default", "triu.default"]);
        let shape = r.shape(2);
        let x = g.input("x", dtype, shape);
        let once = unary(g, op, x)?;
        unary(g, op, once)
    };
    clamp_of_clamp => |r, g| {
        let dtype = r.float();
        let x = r.input(g, dtype);
        let inner = clamp(r, g, x)?;
        let outer = clamp(r, g, inner)?;
        // Two limits that are the same call need no new one.
        g.clamp(outer, Some(-0.25), Some(0.75))
    };
    same_operands => |r, g| {
        let dtype = r.float();
        let x = r.input(g, dtype);
        match r.below(3) {
            0 => g.maximum(x, x),
            1 => g.minimum(x, x),
            _ => {
                let condition = g.gt(x, 0.5)?;
                g.where_(condition, x, x)
            }
        }
    };
    even_function => |r, g| {
        let dtype = r.float();
        let x = r.input(g, dtype);
        let x = if r.coin() { g.neg(x)? } else { g.abs(x)? };
        let op = r.of(&["square.default", "cos.default", "cosh.default"]);
        if r.coin() { g.pow(x, 2.0) } else { unary(g, op, x) }
    };
    small_power => |r, g| {
        let dtype = r.float();
        let x = r.input(g, dtype);
        let exponent = r.of(&[1.0, 2.0, -1.0]);
        g.pow(x, exponent)
    };
    negated_term => |r, g| {
        let dtype = r.float();
        let shape = r.any_shape();
        let (x, y) = (g.input("x", dtype, shape.clone()), g.input("y", dtype, shape));
        let negative = g.neg(y)?;
        match r.below(3) {
            0 => g.add(x, negative),
            1 => g.add(negative, x),
            _ => g.sub(x, negative),
        }
    };
    sum_of_one => |r, g| {
        let (shape, at) = with_one(r);
        let dtype = r.float();
        let x = g.input("x", dtype, shape);
        let keep = r.coin();
        if r.coin() { g.sum(x, &[at as i64], keep) } else { g.mean(x, &[at as i64], keep) }
    };
    extremum_of_one => |r, g| {
        let (shape, at) = with_one(r);
        let dtype = r.float();
        let x = g.input("x", dtype, shape);
        let keep = r.coin();
        if r.coin() { g.amax(x, &[at as i64], keep) } else { g.amin(x, &[at as i64], keep) }
    };
    extremum_with_index_of_one => |r, g| {
        let (shape, at) = with_one(r);
        let dtype = r.float();
        let x = g.input("x", dtype, shape);
        let keep = r.coin();
        Ok(if r.coin() { g.max_dim(x, at as i64, keep)?.0 } else { g.min_dim(x, at as i64, keep)?.0 })
    };
    logsumexp_of_one => |r, g| {
        let (shape, at) = with_one(r);
        let dtype = r.float();
        let x = g.input("x", dtype, shape);
        let keep = r.coin();
        g.logsumexp(x, &[at as i64], keep)
    };
    norm_of_one => |r, g| {
        let (shape, at) = with_one(r);
        let dtype = r.wide();
        let x = g.input("x", dtype, shape);
        let ord = r.of(&[1.0, 2.0, f64::INFINITY]);
        let args = [("self", x.into()), ("ord", ord.into()), ("dim", [at as i64].into())];
        Ok(g.call("linalg_vector_norm.default", args)?[0])
    };
    scan_of_one => |r, g| {
        let (shape, at) = with_one(r);
        let dtype = r.wide();
        let x = g.input("x", dtype, shape);
        match r.below(3) {
            0 => g.cumsum(x, at as i64),
            1 => g.cumprod(x, at as i64),
            _ => Ok(g.call("flip.default", [("self", x.into()), ("dims", [at as i64].into())])?[0]),
        }
    };
    window_of_one => pool;
    pooling_to_own_size => |r, g| {
        let shape = r.shape(4);
        let size = [shape[2], shape[3]];
        let x = g.input("x", DType::F32, shape);
        let args = [("self", x.into()), ("output_size", size.into())];
        Ok(g.call("adaptive_avg_pool2d.default", args)?[0])
    };
    join_of_one => |r, g| {
        let dtype = r.of(&DType::ALL);
        let x = r.input(g, dtype);
        if r.coin() { g.cat(&[x], 0) } else { g.stack(&[x], 0) }
    };
    repeat_once => |r, g| {
        let dtype = r.of(&DType::ALL);
        let x = r.input(g, dtype);
        let rank = g.ty(x).rank() + r.below(2) as usize;
        let args = [("self", x.into()), ("repeats", vec![1i64; rank].as_slice().into())];
        Ok(g.call("repeat.default", args)?[0])
    };
    view_of_own_shape => |r, g| {
        let dtype = r.of(&DType::ALL);
        let x = r.input(g, dtype);
        let shape = g.ty(x).shape.clone();
        if r.coin() { g.reshape(x, shape) } else { g.expand(x, shape) }
    };
    view_of_view => |r, g| {
        let x = g.input("x", DType::F32, [2, 3, 2]);
        let first = view(r, g, x)?;
        let second = g.reshape(first, [4, 3])?;
        view(r, g, second)
    };
    permutation_of_permutation => |r, g| {
        let shape = r.shape(3);
        let x = g.input("x", DType::F32, shape);
        let orders = [[1, 0, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]];
        let (first, second) = (r.of(&orders), r.of(&orders));
        let permuted = g.permute(x, &first)?;
        g.permute(permuted, &second)
    };
    permutation_as_view => |r, g| {
        let (a, b) = (r.extent(), r.extent());
        let x = g.input("x", DType::F32, [a, 1, b]);
        let order = r.of(&[[1, 0, 2], [0, 2, 1], [0, 1, 2]]);
        g.permute(x, &order)
    };
    whole_slice => |r, g| {
        let x = r.input(g, DType::F32);
        match r.below(3) {
            0 => g.slice(x, 0, 0, i64::MAX, 1),
            1 => g.pad(x, &[0, 0], 1.0),
            _ => {
                let length = g.ty(x).shape[0].clone();
                let args = [("self", x.into()), ("dim", 0.into()), ("start", 0.into()), ("length", length.into())];
                Ok(g.call("narrow.default", args)?[0])
            }
        }
    };
    slice_of_slice => |r, g| {
        let x = g.input("x", DType::F32, [3, 9]);
        let (a, c) = (r.below(4), r.below(3));
        let first = g.slice(x, 1, a, 8, 1)?;
        let step = 1 + r.below(2);
        g.slice(first, 1, c, c + 2, step)
    };
    slice_of_join => |r, g| {
        let (x, y) = (g.input("x", DType::F32, [2, 3]), g.input("y", DType::F32, [2, 4]));
        let joined = g.cat(&[x, y], 1)?;
        let (start, end) = r.of(&[(0, 2), (1, 3), (3, 7), (4, 6)]);
        g.slice(joined, 1, start, end, 1)
    };
    function_before_expansion => |r, g| {
        let rows = r.long();
        let x = g.input("x", DType::F32, [1, 3]);
        let wide = g.expand(x, [rows, 3])?;
        match r.below(3) {
            0 => g.mul(wide, 0.7),
            1 => g.gelu(wide),
            _ => g.exp(wide),
        }
    };
    padding_into_convolution => |r, g| {
        let shape = [r.extent(), 2, 4, 5];
        let x = g.input("x", DType::F32, shape);
        let w = g.weight("w", DType::F32, [3, 2, 3, 2]);
        let (h, v) = (r.below(3), r.below(3));
        let padded = g.pad(x, &[h, h, v, v], 0.0)?;
        let window = Conv { padding: vec![r.below(2)], ..Conv::default() };
        g.conv(padded, w, None, &window)
    };
    constant_folding => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let number = r.of(&[4.0, 0.25, 16.0]);
        let c = constant(g, dtype, &[1], number);
        let folded = match r.below(3) {
            0 => g.rsqrt(c)?,
            1 => g.sqrt(c)?,
            _ => g.mul(c, 2.0)?,
        };
        g.add(x, folded)
    };
    number_for_tensor => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let number = r.number();
        let c = if r.coin() {
            constant(g, dtype, &[1], number)
        } else {
            g.constant("c", match dtype {
                DType::F32 => Tensor::from_slice([], &[number as f32])?,
                _ => Tensor::from_slice([], &[number])?,
            })
        };
        match r.below(4) {
            0 => g.add(x, c),
            1 => g.sub(x, c),
            2 => g.mul(c, x),
            _ => g.div(x, c),
        }
    };
    number_for_bound => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let number = r.number();
        let c = constant(g, dtype, &[1], number);
        if r.coin() { g.maximum(x, c) } else { g.minimum(c, x) }
    };
    division_by_power_of_two => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let by = r.of(&[2.0, 0.25, -8.0, 1024.0]);
        g.div(x, by)
    };
    shift_of_number => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let by = r.number();
        g.sub(x, by)
    };
    rectifier_of_non_negative => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let x = match r.below(4) {
            0 => g.sigmoid(x)?,
            1 => g.mul(x, x)?,
            2 => {
                let squares = g.mul(x, x)?;
                g.sum(squares, &[0], true)?
            }
            _ => g.exp(x)?,
        };
        match r.below(3) {
            0 => g.relu(x),
            1 => g.leaky_relu(x, 0.1),
            _ => g.elu(x, 1.0),
        }
    };
    magnitude_of_non_negative => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let x = if r.coin() { g.relu(x)? } else { g.softmax(x, 0)? };
        let x = if r.coin() { g.neg(x)? } else { x };
        g.abs(x)
    };
    clamp_within_limits => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let x = if r.coin() { g.sigmoid(x)? } else { g.tanh(x)? };
        let x = g.add(x, 1.0)?;
        if r.coin() { unary(g, "relu6.default", x) } else { g.clamp(x, Some(0.0), Some(2.0)) }
    };
    decided_extremum => |r, g| {
        let dtype = r.wide();
        let x = r.input(g, dtype);
        let bounded = g.tanh(x)?;
        let (c, is_max) = r.of(&[(-1.5, true), (-1.0, true), (1.0, false), (2.0, false)]);
        let c = constant(g, dtype, &[1], c);
        if is_max { g.maximum(bounded, c) } else { g.minimum(c, bounded) }
    };
    triangle_of_triangular => |r, g| {
        let n = r.extent();
        let (a, b) = (g.input("a", DType::F32, [n, n]), g.input("b", DType::F32, [n, n]));
        if r.coin() {
            let (a, b) = (g.tril(a, 0)?, g.tril(b, -1)?);
            let product = g.matmul(a, b)?;
            g.tril(product, 0)
        } else {
            let a = g.tril(a, 0)?;
            let a = g.transpose(a, 0, 1)?;
            let scaled = g.mul(a, b)?;
            g.triu(scaled, 0)
        }
    };
    triangle_of_other_triangular => |r, g| {
        let n = r.extent();
        let a = g.input("a", DType::F32, [n, n]);
        if r.coin() {
            let upper = g.triu(a, 0)?;
            g.tril(upper, -1)
        } else {
            let lower = g.tril(a, 0)?;
            g.triu(lower, 1)
        }
    };
    product_with_diagonal_left => |r, g| {
        let (n, m) = (r.extent(), r.extent());
        let (a, x) = (g.input("a", DType::F32, [n, n]), g.input("x", DType::F32, [n, m]));
        let upper = g.triu(a, 0)?;
        let diagonal = g.tril(upper, 0)?;
        g.matmul(diagonal, x)
    };
    product_with_diagonal_right => |r, g| {
        let (n, m) = (r.extent(), r.extent());
        let (a, x) = (g.input("a", DType::F32, [n, n]), g.input("x", DType::F32, [m, n]));
        let upper = g.triu(a, 0)?;
        let diagonal = g.tril(upper, 0)?;
        g.mm(x, diagonal)
    };
}
