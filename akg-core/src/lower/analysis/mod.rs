//! What lowerings ask about a typed sketch: pure functions over [`Program`](crate::sketch::ir::Program) and
//! [`Kernel`](crate::sketch::ir::Kernel) that know no target.
//!
//! | question | answer |
//! |---|---|
//! | which values can an index take, what divides it, what is constant | [`Facts`] |
//! | is a region a box, strided, or indexed; where is it contiguous and aligned; can it leave the tensor | [`region`] |
//! | which tiles are alive together, and how many bytes are they | [`liveness`](liveness()) |
//! | is an axis a grid axis, parallel, reduced or contracted | [`roles`] |
//! | which loops are one loop | [`loops`] |

pub mod facts;
pub mod liveness;
pub mod loops;
pub mod region;
pub mod roles;

pub use facts::Facts;
pub use liveness::{Interval, Liveness, liveness};
pub use region::{Guard, Layout, RegionClass};
pub use roles::AxisRole;

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use crate::dtype::DType;
    use crate::expr::Expr;
    use crate::sketch::ir::*;
    use crate::source::{PlanTensor, TensorRole};

    fn tensor(name: &str, shape: [i64; 2], role: TensorRole) -> PlanTensor {
        PlanTensor {
            name: name.into(),
            dtype: DType::F32,
            shape: shape.map(Expr::constant).to_vec(),
            role,
            align: 16,
            holds: None,
            updates: None,
        }
    }

    /// `y = x @ w^T` with square tiles of `block`: a kernel with values acc, inner, a, c, ct, next, result.
    pub(crate) fn matmul(m: i64, n: i64, k: i64, block: usize) -> Program {
        let tile = |start: Expr| Axis::Range {
            start,
            len: block,
            step: 1,
        };
        let at = |symbol: &str| tile(Expr::from(symbol) * block);
        let load = |tensor, row: &str| Op::Load {
            tensor: TensorId(tensor),
            region: vec![at(row), tile("k".into())],
            fill: Some(Scalar::Float(0.0)),
        };
        let define = |value, op| Stmt::Define {
            value: Val(value),
            op,
            span: 0..0,
        };
        let names = ["acc", "inner", "a", "c", "ct", "next", "result"];
        let grid = |symbol: &str, extent: i64| GridAxis {
            symbol: symbol.into(),
            extent: Expr::constant(extent).ceil_div(&block.into()),
        };
        let kernel = Kernel {
            name: "main".into(),
            grid: vec![grid("m", m), grid("n", n)],
            order: Order::RowMajor,
            cooperative: None,
            views: BTreeMap::new(),
            values: names
                .map(|name| ValInfo {
                    ty: TileType {
                        dtype: DType::F32,
                        extents: vec![block, block],
                    },
                    name: name.into(),
                })
                .to_vec(),
            body: vec![
                define(0, Op::Full(Scalar::Float(0.0))),
                Stmt::For(Loop {
                    axes: vec![LoopAxis {
                        symbol: "k".into(),
                        lo: 0.into(),
                        hi: k.into(),
                        step: block as i64,
                    }],
                    carried: vec![Carried {
                        initial: Val(0),
                        inner: Val(1),
                        next: Val(5),
                        result: Val(6),
                    }],
                    body: vec![
                        define(2, load(0, "m")),
                        define(3, load(1, "n")),
                        define(4, Op::Transpose(Val(3), vec![1, 0])),
                        define(
                            5,
                            Op::Dot {
                                a: Val(2),
                                b: Val(4),
                                init: Some(Val(1)),
                                method: DotMethod::Ieee,
                                promote: None,
                            },
                        ),
                    ],
                    pipeline: None,
                    unroll: false,
                    combine: None,
                    span: 0..0,
                }),
                Stmt::Store {
                    tensor: TensorId(2),
                    region: vec![at("m"), at("n")],
                    value: Val(6),
                    mode: StoreMode::Set,
                    span: 0..0,
                },
            ],
            doc: String::new(),
        };
        Program {
            name: "matmul".into(),
            tensors: vec![
                tensor("x", [m, k], TensorRole::Input),
                tensor("w", [n, k], TensorRole::Input),
                tensor("y", [m, n], TensorRole::Output),
            ],
            dims: Vec::new(),
            accuracy: crate::task::Accuracy::Fp32,
            kernels: vec![kernel],
        }
    }

    pub(crate) fn value_named(kernel: &Kernel, name: &str) -> Val {
        let at = kernel.values.iter().position(|v| v.name == name).unwrap();
        Val(at as u32)
    }
}
