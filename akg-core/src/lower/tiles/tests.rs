use proptest::prelude::*;

use super::regroup::keeps_order;
use super::*;
use crate::dtype::DType;
use crate::lower::analysis::tests::{matmul, value_named};
use crate::sketch::ir::{Axis, BinaryOp, Program, ReduceOp, Stmt, TileType};

const POWERS: TileRules = TileRules {
    power_of_two_extents: true,
    min_contraction: 16,
};

fn loop_body(program: &Program, rules: &TileRules) -> (TileKernel, Vec<TileStmt>) {
    let kernel = map(program, rules).kernels.remove(0);
    let body = kernel
        .body
        .iter()
        .find_map(|s| match s {
            TileStmt::For(l) => Some(l.body.clone()),
            _ => None,
        })
        .unwrap();
    (kernel, body)
}

fn set_dot(program: &mut Program, change: impl FnOnce(&mut Option<usize>, &mut DotMethod)) {
    let Some(Stmt::For(l)) = program.kernels[0].body.get_mut(1) else {
        panic!("matmul has a loop");
    };
    let Some(Stmt::Define {
        op: Op::Dot { promote, method, .. },
        ..
    }) = l.body.last_mut()
    else {
        panic!("its loop ends with a dot");
    };
    change(promote, method);
}

fn ops(body: &[TileStmt]) -> Vec<&TileOp> {
    body.iter()
        .filter_map(|s| match s {
            TileStmt::Define { op, .. } => Some(op),
            _ => None,
        })
        .collect()
}

#[test]
fn without_rules_a_sketch_stays_as_it_is() {
    let (kernel, body) = loop_body(&matmul(100, 50, 70, 24), &TileRules::default());
    assert!(kernel.values.iter().all(|v| v.extents == [24, 24]));
    assert!(matches!(
        ops(&body)[..],
        [
            TileOp::Load { .. },
            TileOp::Load { .. },
            TileOp::Plain(Op::Transpose(..)),
            TileOp::Dot {
                init: Some(_),
                separate: false,
                ..
            },
        ]
    ));
}

#[test]
fn rounded_up_tiles_are_masked_where_they_are_loaded_and_stored() {
    let (kernel, body) = loop_body(&matmul(100, 50, 70, 24), &POWERS);
    let lanes = Lanes { live: 24, all: 32 };
    let TileOp::Load { access, fill } = ops(&body)[0] else {
        panic!("the first statement loads");
    };
    assert_eq!(access.lanes, [lanes, lanes]);
    assert_eq!(*fill, Scalar::Float(0.0));
    assert!(access.dims[0].guard.above && !access.dims[0].guard.below);
    // Loads fill with what a dot ignores, so nothing is masked again.
    assert!(!ops(&body).iter().any(|op| matches!(op, TileOp::Mask { .. })));
    let Some(TileStmt::Store { access, .. }) = kernel.body.last() else {
        panic!("the last statement stores");
    };
    assert_eq!(access.lanes, [lanes, lanes]);
}

#[test]
fn a_fill_that_a_dot_would_see_is_masked() {
    let mut program = matmul(100, 50, 70, 24);
    let Some(Stmt::For(l)) = program.kernels[0].body.get_mut(1) else {
        panic!("matmul has a loop");
    };
    let Some(Stmt::Define {
        op: Op::Load { fill, .. },
        ..
    }) = l.body.first_mut()
    else {
        panic!("its loop starts with a load");
    };
    *fill = Some(Scalar::Float(f64::NEG_INFINITY));
    let a = value_named(&program.kernels[0], "a");
    let (_, body) = loop_body(&program, &POWERS);
    assert!(ops(&body).iter().any(|op| matches!(
        op,
        TileOp::Mask { value, axis: 1, keep, other: Scalar::Float(0.0) } if *value == a && *keep == (0..24)
    )));
}

#[test]
fn promotion_cuts_the_contraction_and_rounds_each_part() {
    let mut program = matmul(128, 128, 128, 64);
    set_dot(&mut program, |promote, _| *promote = Some(48));
    let (kernel, body) = loop_body(&program, &POWERS);
    let ops = ops(&body);
    let dots = ops.iter().filter(|op| {
        matches!(
            op,
            TileOp::Dot {
                init: None,
                separate: true,
                ..
            }
        )
    });
    assert_eq!(dots.count(), 2);
    let kept: Vec<_> = ops
        .iter()
        .filter_map(|op| match op {
            TileOp::Mask { axis: 1, keep, .. } => Some(keep.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(kept, [0..48, 48..64]);
    let Some(TileStmt::Define {
        value,
        op: TileOp::Plain(Op::Binary(BinaryOp::Add, ..)),
    }) = body.last()
    else {
        panic!("the last part is added");
    };
    assert_eq!(kernel.value(*value).name, "next");
}

#[test]
fn operands_have_the_type_that_the_method_reads() {
    let mut program = matmul(128, 128, 128, 32);
    set_dot(&mut program, |_, method| *method = DotMethod::Bf16);
    let (kernel, body) = loop_body(&program, &POWERS);
    let Some(TileOp::Dot { a, b, .. }) = ops(&body).last() else {
        panic!("the last statement is a dot");
    };
    assert_eq!(kernel.value(*a).ty.dtype, DType::BF16);
    assert_eq!(kernel.value(*b).ty.dtype, DType::BF16);
}

#[test]
fn short_contractions_become_products_and_a_sum() {
    let (_, body) = loop_body(&matmul(100, 50, 70, 8), &POWERS);
    let ops = ops(&body);
    assert!(!ops.iter().any(|op| matches!(op, TileOp::Dot { .. })));
    assert!(
        ops.iter()
            .any(|op| matches!(op, TileOp::Plain(Op::Reduce(ReduceOp::Sum, _, 1))))
    );
}

#[test]
fn large_tensors_have_wide_offsets_and_small_indices() {
    let program = matmul(1 << 20, 64, 1 << 14, 64);
    let (kernel, body) = loop_body(&program, &POWERS);
    let wide = |op: &TileOp| matches!(op, TileOp::Load { access, .. } if access.wide);
    let ops = ops(&body);
    assert!(wide(ops[0]) && !wide(ops[1]));
    assert!(!kernel.wide);
}

#[test]
fn nests_become_one_counter_with_a_new_name() {
    let mut program = matmul(128, 128, 128, 32);
    let kernel = &mut program.kernels[0];
    let Some(Stmt::For(l)) = kernel.body.get_mut(1) else {
        panic!("matmul has a loop");
    };
    let mut outer = l.axes[0].clone();
    outer.symbol = "r".into();
    l.axes.insert(0, outer);
    kernel.grid[0].symbol = "r_k".into();
    let kernel = map(&program, &POWERS).kernels.remove(0);
    let Some(TileStmt::For(l)) = kernel.body.iter().find(|s| matches!(s, TileStmt::For(_))) else {
        panic!("the loop is one loop");
    };
    assert_eq!(&*l.symbol, "r_k2");
    assert!(l.hi.is(16) && l.step == 1);
    let names: Vec<&str> = l
        .body
        .iter()
        .filter_map(|s| match s {
            TileStmt::Let { symbol, .. } => Some(&**symbol),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["r", "k"]);
    assert_eq!(kernel.facts.range(&"r_k2".into()), Some((0, 15)));
}

#[test]
fn a_plan_passes_tensors_in_order_of_use() {
    let mut program = matmul(100, 50, 70, 32);
    program.tensors.swap(0, 1);
    let plan = map(&program, &POWERS).plan();
    assert_eq!(plan.launches[0].tensors, [0, 1, 2]);
    assert!(plan.launches[0].grid[0].is(4 * 2));
    assert_eq!(plan.tensors, program.tensors);
}

fn tile(extents: &[usize]) -> TileValue {
    TileValue {
        ty: TileType {
            dtype: DType::F32,
            extents: extents.to_vec(),
        },
        extents: extents.iter().map(|n| n.next_power_of_two()).collect(),
        name: String::new(),
    }
}

/// Where each element of the sketch's tile is in the machine's row-major order.
fn places(tile: &TileValue) -> Vec<usize> {
    let mut places = vec![0];
    for (live, all) in tile.ty.extents.iter().zip(&tile.extents) {
        places = places
            .iter()
            .flat_map(|p| (0..*live).map(move |i| p * all + i))
            .collect();
    }
    places
}

proptest! {
    #[test]
    fn a_reshape_that_keeps_the_order_moves_no_element(
        factors in prop::collection::vec(1usize..7, 0..5),
        cuts in prop::collection::vec(any::<bool>(), 10),
    ) {
        let join = |cuts: &[bool]| {
            let mut extents: Vec<usize> = Vec::new();
            for (factor, cut) in factors.iter().zip(cuts) {
                match extents.last_mut() {
                    Some(last) if !cut => *last *= factor,
                    _ => extents.push(*factor),
                }
            }
            extents
        };
        let (from, to) = (tile(&join(&cuts[..5])), tile(&join(&cuts[5..])));
        let same = places(&from) == places(&to)
            && from.extents.iter().product::<usize>() == to.extents.iter().product::<usize>();
        if keeps_order(&from, &to) {
            prop_assert!(same);
        }
        if from.ty.extents == from.extents && to.ty.extents == to.extents {
            prop_assert!(keeps_order(&from, &to));
        }
    }
}

#[test]
fn splitting_the_outermost_axis_of_a_rounded_tile_keeps_the_order() {
    assert!(keeps_order(&tile(&[3, 8]), &tile(&[24])));
    assert!(keeps_order(&tile(&[24, 5]), &tile(&[3, 8, 5])));
    assert!(keeps_order(&tile(&[5]), &tile(&[1, 5, 1])));
    assert!(!keeps_order(&tile(&[8, 3]), &tile(&[24])));
}

#[test]
fn coordinates_from_tiles_are_guarded_on_both_sides() {
    let mut program = matmul(100, 50, 70, 32);
    let a = value_named(&program.kernels[0], "a");
    let Some(Stmt::For(l)) = program.kernels[0].body.get_mut(1) else {
        panic!("matmul has a loop");
    };
    let Some(Stmt::Define {
        op: Op::Load { region, .. },
        ..
    }) = l.body.get_mut(1)
    else {
        panic!("its second statement loads");
    };
    region[0] = Axis::Gather(a);
    let (_, body) = loop_body(&program, &POWERS);
    let TileOp::Load { access, .. } = ops(&body)[1] else {
        panic!("the second statement loads");
    };
    assert_eq!(
        access.dims[0].guard,
        Guard {
            below: true,
            above: true
        }
    );
    assert_eq!(access.dims[0].coordinate, Coordinate::Index { axis: 0, value: a });
}
