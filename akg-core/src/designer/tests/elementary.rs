//! Functions of elements that are made of others, remainders, powers, and elements repeated.

use super::{F, check, ints, roll};
use crate::dtype::DType;
use crate::graph::{Arg, Graph, ValueId};

#[test]
fn elementary_functions_are_accurate_for_every_argument() {
    let functions = [
        "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "erfc", "log10",
    ];
    for function in functions {
        check(function, |g| {
            let x = g.input("x", F, [13, 70]);
            // Within the domain of all of them.
            let x = match function {
                "asin" | "acos" | "atanh" => g.tanh(x)?,
                "log10" => g.exp(x)?,
                _ => g.mul(x, 3.0)?,
            };
            g.call(&format!("{function}.default"), [("self", x.into())])
                .map(|y| y[0])
        });
    }
    check("acosh", |g| {
        let x = g.input("x", F, [13, 70]);
        let x = g.exp(x)?;
        let x = g.add(x, 1.0)?;
        g.call("acosh.default", [("self", x.into())]).map(|y| y[0])
    });
    check("atan2", |g| {
        let (y, x) = (g.input("y", F, [9, 70]), g.input("x", F, [70]));
        g.call("atan2.default", [("self", y.into()), ("other", x.into())])
            .map(|z| z[0])
    });
}

#[test]
fn remainders_of_floats_are_exact() {
    let with = |g: &mut Graph, op: &str, other: Arg| {
        let x = g.input("x", F, [40, 30]);
        let x = g.mul(x, 100.0)?;
        g.call(op, [("self", x.into()), ("other", other)]).map(|y| y[0])
    };
    for op in ["remainder.Scalar", "fmod.Scalar", "floor_divide.Scalar"] {
        for divisor in [0.75, -2.5] {
            check(op, |g| with(g, op, divisor.into()));
        }
    }
    for op in ["remainder.Tensor", "fmod.Tensor", "floor_divide.default"] {
        check(op, |g| {
            let divisor = g.input("divisor", F, [30]);
            with(g, op, divisor.into())
        });
    }
}

#[test]
fn powers_and_products_of_integers_wrap() {
    check("pow", |g| {
        let (x, n) = (g.input("x", DType::I64, [7, 30]), g.input("n", DType::I64, [30]));
        let (x, n) = (g.sub(x, 2)?, g.mul(n, 17)?);
        let n = g.sub(n, 2)?;
        g.call("pow.Tensor_Tensor", [("self", x.into()), ("exponent", n.into())])
            .map(|y| y[0])
    });
    check("pow by a number", |g| {
        let x = g.input("x", DType::I64, [7, 30]);
        g.call("pow.Tensor_Scalar", [("self", x.into()), ("exponent", 41.into())])
            .map(|y| y[0])
    });
    for (a, b) in [([5, 7], [7, 9]), ([1, 7], [7, 9]), ([5, 1], [1, 9])] {
        check("product", |g| {
            let (a, b) = (g.input("a", DType::I64, a), g.input("b", DType::I64, b));
            g.matmul(a, b)
        });
    }
}

#[test]
fn a_product_with_a_matrix_of_one_number_is_a_sum() {
    for value in [0.0, 2.5] {
        check("product", |g| {
            let x = g.input("x", F, [2, 5, 7]);
            let args: [(&str, Arg); 2] = [("size", ints(&[7, 9])), ("fill_value", value.into())];
            let weight = g.call("full.default", args)?[0];
            let y = g.matmul(x, weight)?;
            g.add(y, 1.0)
        });
    }
}

#[test]
fn numbers_that_are_known_are_compared() {
    for (low, high) in [(-10.0, 10.0), (3.0, 3.0), (0.1, 0.1)] {
        for shape in [Vec::<i64>::new(), vec![30]] {
            for op in ["eq", "ne", "lt", "ge"] {
                check(op, |g| {
                    let x = g.input("x", F, [7, 30]);
                    let (low, high) = (g.full(shape.clone(), low, F)?, g.full(shape.clone(), high, F)?);
                    let args = [("self", low.into()), ("other", high.into())];
                    let holds = g.call(&format!("{op}.Tensor"), args)?[0];
                    let less = g.sub(low, 1.0)?;
                    let low = g.where_(holds, less, low)?;
                    g.mul(x, low)
                });
            }
        }
    }
}

#[test]
fn tensors_are_repeated_and_rolled() {
    let repeats: [&[i64]; 4] = [&[1, 1], &[2, 3], &[4, 1, 2], &[0, 2]];
    for repeats in repeats {
        check("repeat", |g| {
            let x = g.input("x", F, [5, 6]);
            g.call("repeat.default", [("self", x.into()), ("repeats", ints(repeats))])
                .map(|y| y[0])
        });
    }
    check("roll", |g| {
        let x = g.input("x", F, [5, 6]);
        roll(g, x, &[8], &[])
    });
}

#[test]
fn a_tensor_of_rank_zero_has_a_dimension_where_one_is_named() {
    let calls: [fn(&mut Graph, ValueId) -> crate::Result<ValueId>; 3] = [
        |g, x| {
            g.call("max.dim", [("self", x.into()), ("dim", (-1).into())])
                .map(|y| y[0])
        },
        |g, x| {
            g.call("argmin.default", [("self", x.into()), ("dim", 0.into())])
                .map(|y| y[0])
        },
        |g, x| {
            g.call("softmax.int", [("self", x.into()), ("dim", (-1).into())])
                .map(|y| y[0])
        },
    ];
    for call in calls {
        check("rank 0", |g| {
            let x = g.input("x", F, [0i64; 0]);
            call(g, x)
        });
    }
}

#[test]
fn a_value_that_is_squared_again_and_again_is_designed() {
    check("squares", |g| {
        let mut x = g.input("x", DType::I64, [33]);
        for _ in 0..40 {
            x = g.mul(x, x)?;
        }
        Ok(x)
    });
}
