//! Regions of tensors: their class, their place in memory, and whether they can leave the tensor.

use crate::expr::Expr;
use crate::lower::analysis::Facts;
use crate::sketch::ir::Axis;
use crate::source::PlanTensor;

/// How the elements of a region lie in the tensor; slower kinds come later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RegionClass {
    /// Neighbouring coordinates in every dimension: what copy engines move.
    Box,
    /// As a box, with a step other than 1 in some dimension.
    StridedBox,
    /// Contiguous rows, chosen by an index tile.
    RowsByIndex,
    /// Single elements, chosen by index tiles.
    ElementsByIndex,
}

/// The class of a region. A coordinate from a rank-0 tile moves a box and does not change its class.
pub fn classify(region: &[Axis]) -> RegionClass {
    let gathers = region.iter().any(|a| matches!(a, Axis::Gather(_)));
    let strided = region
        .iter()
        .any(|a| matches!(a, Axis::Range { step, len, .. } if *step != 1 && *len > 1));
    let rows = matches!(region.last(), Some(Axis::Range { step: 1, .. }));
    match (gathers, strided, rows) {
        (false, false, _) => RegionClass::Box,
        (false, true, _) => RegionClass::StridedBox,
        (true, _, true) => RegionClass::RowsByIndex,
        (true, _, false) => RegionClass::ElementsByIndex,
    }
}

/// Where a region's elements lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// How many elements follow each other in memory, in the order of the tile.
    pub run: usize,
    /// A power of two that divides the address of the first element of every run, in bytes.
    pub align: usize,
}

/// The distance between neighbours in each dimension of a dense row-major tensor, in elements.
pub fn strides(shape: &[Expr]) -> Vec<Expr> {
    let mut strides = vec![Expr::constant(1); shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = &strides[i] * &shape[i];
    }
    strides
}

/// The place of `region` of `tensor` in memory.
pub fn layout(facts: &Facts, tensor: &PlanTensor, region: &[Axis]) -> Layout {
    let mut run = 1;
    let mut in_run = true;
    let mut elements = i64::MAX;
    let strides = strides(&tensor.shape);
    for ((axis, stride), extent) in region.iter().zip(&strides).zip(&tensor.shape).rev() {
        let divisor = |expr: &Expr| facts.divisor(&(expr * stride));
        match axis {
            Axis::Range { start, len, step } => {
                elements = elements.min(divisor(start));
                let joins = in_run && (*step == 1 || *len == 1);
                if joins {
                    run *= len;
                } else if *len > 1 {
                    elements = elements.min(divisor(&(*step).into()));
                }
                in_run = joins && start.is(0) && extent.is(*len as i64);
            }
            Axis::At(coordinate) => {
                elements = elements.min(divisor(coordinate));
                in_run &= extent.is(1);
            }
            Axis::AtTile(_) | Axis::Gather(_) => {
                elements = elements.min(divisor(&1.into()));
                in_run = false;
            }
        }
    }
    let bytes = elements.saturating_mul(tensor.dtype.size() as i64);
    Layout {
        run,
        align: (bytes as usize).min(tensor.align.max(tensor.dtype.size())),
    }
}

/// On which sides of a dimension a region can leave its tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Guard {
    /// Some coordinate may be negative.
    pub below: bool,
    /// Some coordinate may be the extent or more.
    pub above: bool,
}

/// The sides on which `axis` can leave a dimension of `extent` elements, as far as `facts` tell.
pub fn guard(facts: &Facts, axis: &Axis, extent: &Expr) -> Guard {
    let (first, last) = match axis {
        Axis::Range { start, len, step } => {
            let end = start + &Expr::constant(step * (*len as i64 - 1));
            if *step < 0 {
                (end, start.clone())
            } else {
                (start.clone(), end)
            }
        }
        Axis::At(coordinate) => (coordinate.clone(), coordinate.clone()),
        Axis::AtTile(_) | Axis::Gather(_) => {
            return Guard {
                below: true,
                above: true,
            };
        }
    };
    Guard {
        below: !facts.non_negative(&first),
        above: facts.range(&(&last - extent)).is_none_or(|(_, hi)| hi >= 0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dtype::DType;
    use crate::expr::Bindings;
    use crate::lower::analysis::tests::matmul;
    use crate::sketch::ir::Val;
    use crate::source::TensorRole;

    fn range(start: impl Into<Expr>, len: usize, step: i64) -> Axis {
        Axis::Range {
            start: start.into(),
            len,
            step,
        }
    }

    fn tensor(shape: &[i64]) -> PlanTensor {
        PlanTensor {
            name: "x".into(),
            dtype: DType::F32,
            shape: shape.iter().map(|n| (*n).into()).collect(),
            role: TensorRole::Input,
            align: 256,
            holds: None,
            updates: None,
        }
    }

    #[test]
    fn classes_follow_the_slowest_axis() {
        let index = Axis::Gather(Val(0));
        assert_eq!(
            classify(&[Axis::At("n".into()), range(0, 8, 1)]),
            RegionClass::Box
        );
        assert_eq!(
            classify(&[range("i", 8, 2), range(0, 8, 1)]),
            RegionClass::StridedBox
        );
        assert_eq!(
            classify(&[index.clone(), range(0, 8, 1)]),
            RegionClass::RowsByIndex
        );
        assert_eq!(classify(&[range(0, 8, 1), index]), RegionClass::ElementsByIndex);
    }

    #[test]
    fn guards_vanish_where_the_tile_divides_the_extent() {
        let program = matmul(64, 50, 96, 32);
        let facts = Facts::of(&program, &program.kernels[0]);
        let rows = range(Expr::from("m") * 32, 32, 1);
        assert_eq!(guard(&facts, &rows, &64.into()), Guard::default());
        let columns = range(Expr::from("n") * 32, 32, 1);
        assert!(guard(&facts, &columns, &50.into()).above);
        let halo = range(Expr::from("m") * 32 - 1, 32, 1);
        assert!(guard(&facts, &halo, &64.into()).below);
    }

    proptest! {
        /// Enumerates the addresses of a region and looks for the run and the alignment that `layout` promises.
        #[test]
        fn layouts_hold_for_every_index(
            shape in prop::collection::vec(1i64..9, 3),
            axes in prop::collection::vec((0i64..5, 0i64..9, 1usize..5, 1i64..3, any::<bool>()), 3),
        ) {
            let program = matmul(128, 128, 128, 32);
            let facts = Facts::of(&program, &program.kernels[0]);
            let x = tensor(&shape);
            let region: Vec<Axis> = axes
                .iter()
                .map(|(offset, factor, len, step, at)| {
                    let start = Expr::from("k") * *factor + *offset;
                    if *at { Axis::At(start) } else { range(start, *len, *step) }
                })
                .collect();
            let found = layout(&facts, &x, &region);
            for k in [0i64, 32, 64, 96] {
                let bindings = Bindings::from([("k".into(), k)]);
                let mut addresses = vec![0i64];
                for (axis, extent) in region.iter().zip(&shape) {
                    let coordinates: Vec<i64> = match axis {
                        Axis::Range { start, len, step } => {
                            let start = start.eval(&bindings).unwrap();
                            (0..*len as i64).map(|i| start + i * step).collect()
                        }
                        Axis::At(at) => vec![at.eval(&bindings).unwrap()],
                        Axis::AtTile(_) | Axis::Gather(_) => unreachable!(),
                    };
                    addresses = addresses.iter().flat_map(|a| coordinates.iter().map(move |c| a * extent + c)).collect();
                }
                prop_assert_eq!(addresses.len() % found.run, 0);
                for run in addresses.chunks(found.run) {
                    prop_assert!(run.windows(2).all(|w| w[1] == w[0] + 1), "{:?} in {:?}", found, run);
                    prop_assert_eq!(run[0] * 4 % found.align as i64, 0);
                }
            }
        }
    }
}
