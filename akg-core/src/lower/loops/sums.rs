//! Sums of single precision along contiguous rows.
//!
//! To convert each element to f64 costs more than to add it. The elements of a part of the row are therefore gathered in a
//! local, which stays in the nearest cache, and added up four at a time, as a pairwise sum would; what comes of that is kept
//! in f64, in lanes.

use crate::dtype::DType;
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, Op, ReduceOp, Scalar as Constant, Val};

use super::effect::Effect;
use super::ir::{Accumulation, LocalId, LoopKind, Scalar, Stmt};
use super::mapper::Mapper;
use super::node::NodeId;
use super::parts::Parts;

/// Sums that are kept apart until the end of a row.
const LANES: usize = 16;
/// Elements that are added up at once.
const BLOCK: usize = 4 * LANES;
/// Lengths of a part, the best first.
const LENGTHS: [usize; 3] = [4 * BLOCK, 2 * BLOCK, BLOCK];

/// Where a sum is taken.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The elements of a part.
    line: LocalId,
    lanes: LocalId,
}

impl Gathered {
    /// An element takes its place.
    pub(super) fn effect(&self, parts: &Parts, index: &Expr, value: NodeId) -> Effect {
        Effect::Set {
            local: self.line,
            offset: parts.place(index),
            value,
        }
    }
}

impl Mapper<'_> {
    /// Whether `v` is a sum of single precision.
    pub(super) fn is_single_sum(&self, v: Val) -> bool {
        match self.value(v).op {
            Some(Op::Reduce(ReduceOp::Sum, a, _)) => self.kernel.ty(*a).dtype == DType::F32,
            _ => false,
        }
    }

    /// The parts of rows of `len` elements whose reductions are `group`, if one is taken part by part.
    pub(super) fn parts_of_sums(&mut self, group: &[Val], len: usize) -> Option<Parts> {
        let part = LENGTHS.into_iter().find(|part| len.is_multiple_of(*part))?;
        let any = group.iter().any(|v| self.is_single_sum(*v));
        any.then(|| self.parts(part, len))
    }

    /// The places of a sum, and the statements that declare and clear them.
    pub(super) fn gather(&mut self, parts: &Parts) -> (Gathered, Vec<Stmt>) {
        let (line, declare_line) = self.scratch("line", DType::F32, &[parts.len]);
        let (lanes, declare_lanes) = self.scratch("lanes", DType::F64, &[LANES]);
        let mut declared: Vec<Stmt> = declare_line.into_iter().chain(declare_lanes).collect();
        declared.extend(self.fill(lanes, vec![LANES], DType::F64, Constant::Float(0.0)));
        (Gathered { line, lanes }, declared)
    }

    /// The loop that adds a part to the lanes.
    pub(super) fn add_part(&mut self, sum: &Gathered, parts: &Parts) -> Stmt {
        let last = (parts.len - BLOCK) as i64;
        let block = self.counter("block", last);
        let lane = self.counter("lane", LANES as i64 - 1);
        let at = |i: usize| {
            let place =
                &(&Expr::symbol(block.clone()) + &Expr::from(i * LANES)) + &Expr::symbol(lane.clone());
            Scalar::Local(sum.line, place)
        };
        let add = |dtype, a, b| Scalar::Binary(BinaryOp::Add, dtype, Box::new([a, b]));
        let four = add(
            DType::F32,
            add(DType::F32, at(0), at(1)),
            add(DType::F32, at(2), at(3)),
        );
        let four = Scalar::Cast {
            from: DType::F32,
            to: DType::F64,
            value: Box::new(four),
        };
        let offset = Expr::symbol(lane.clone());
        let take_up = Stmt::Set {
            local: sum.lanes,
            offset: offset.clone(),
            value: add(DType::F64, Scalar::Local(sum.lanes, offset), four),
        };
        Stmt::For {
            symbol: block,
            lo: 0.into(),
            hi: parts.len.into(),
            step: BLOCK as i64,
            kind: LoopKind::Tile,
            body: vec![Stmt::For {
                symbol: lane,
                lo: 0.into(),
                hi: LANES.into(),
                step: 1,
                kind: LoopKind::Vector(Vec::new()),
                body: vec![take_up],
            }],
        }
    }

    /// The loop that adds up the lanes.
    pub(super) fn add_lanes(&mut self, sum: &Gathered, total: LocalId) -> Stmt {
        let lane = self.counter("lane", LANES as i64 - 1);
        let so_far = Scalar::Local(total, 0.into());
        let own = Scalar::Local(sum.lanes, Expr::symbol(lane.clone()));
        Stmt::For {
            symbol: lane,
            lo: 0.into(),
            hi: LANES.into(),
            step: 1,
            kind: LoopKind::Vector(vec![(Accumulation::Reduce(ReduceOp::Sum), total)]),
            body: vec![Stmt::Set {
                local: total,
                offset: 0.into(),
                value: Scalar::Binary(BinaryOp::Add, DType::F64, Box::new([so_far, own])),
            }],
        }
    }
}
