//! Short products of several iterations as one.
//!
//! A dot over few products does little with the accumulators that it reads and writes, as where a window meets three
//! channels at each of its taps. Where all that a loop does is to add such dots up in one tile, it brings their right
//! operands below each other instead, and one dot multiplies them all: runs are as long as the sketch lets them be, over
//! several iterations. Left operands must lie next to each other already.

use crate::dtype::DType;
use crate::expr::{Expr, Symbol};

use super::boxes::MOST;
use super::checks::affine;
use super::ir::{Address, Dot, Layout, LocalId, LoopKind, Place, Stmt, Sums};
use super::mapper::Mapper;

impl Mapper<'_> {
    /// Instead of a loop with the index `symbol`, which takes all values below `count`: what adds up the same products as its
    /// `body` each time, and how long runs may be. If that is known, `body` is what a loop was folded into; else its dot
    /// must be short.
    pub(super) fn folded(
        &mut self,
        symbol: &Symbol,
        count: usize,
        body: &[Stmt],
        run: Option<usize>,
    ) -> Option<(Vec<Stmt>, usize)> {
        let (Stmt::Dot(dot), before) = body.split_last()? else {
            return None;
        };
        let [m, n, k] = dot.extents;
        let run = run.or((2 * k <= dot.chunk).then_some(dot.chunk))?;
        let (right, left, sum) = self.foldable(dot, symbol)?;
        let len = self.locals[right.0].len? * count;
        (len * DType::F32.size() <= MOST).then_some(())?;
        let fold = Fold {
            right,
            k,
            rows: k * count,
            first: Expr::symbol(symbol.clone()) * Expr::from(k),
        };
        let packs = fold.of(before)?;
        let runs = fold.rows.div_ceil(run).max(1);
        let one = Dot {
            a: left,
            extents: [m, n, fold.rows],
            chunk: fold.rows.div_ceil(runs),
            sum,
            ..dot.clone()
        };
        self.locals[right.0].len = Some(len);
        let pack = Stmt::For {
            symbol: symbol.clone(),
            lo: 0.into(),
            hi: Expr::from(count),
            step: 1,
            kind: LoopKind::Tile,
            body: packs,
        };
        let remark = before.iter().find(|stmt| matches!(stmt, Stmt::Comment(_)));
        let mut folded: Vec<Stmt> = remark.cloned().into_iter().collect();
        folded.extend([Stmt::Declare(right), pack, Stmt::Dot(one)]);
        Some((folded, run))
    }

    /// Of a dot that can be one with those of other iterations: its right operand, where the first of the left ones is, and
    /// the type that runs are added up in.
    fn foldable(&self, dot: &Dot, symbol: &Symbol) -> Option<(LocalId, Address, DType)> {
        let (Place::Local(right), Layout::Strided([_, column])) = (dot.b.place, dot.a_layout) else {
            return None;
        };
        let (offset, distance) = affine(&dot.a.offset, symbol)?;
        let is_next = usize::try_from(distance).is_ok_and(|distance| distance == dot.extents[2] * column);
        let sum = self.locals[dot.c.0].dtype;
        let is_single = dot.dtype == DType::F32 && [dot.sum, sum].iter().all(|d| d.is_float());
        let is_added = dot.b.offset.is(0) && dot.sums != Sums::Replace;
        let place = dot.a.place;
        (is_next && is_single && is_added).then_some((right, Address { place, offset }, sum))
    }
}

/// How right operands get below each other.
struct Fold {
    right: LocalId,
    /// Rows of one, and of all.
    k: usize,
    rows: usize,
    /// The first row of that of an iteration.
    first: Expr,
}

impl Fold {
    /// Statements that do nothing but pack one of them, as those that pack it into its place.
    fn of(&self, stmts: &[Stmt]) -> Option<Vec<Stmt>> {
        let mut packs = Vec::new();
        for stmt in stmts {
            match stmt {
                Stmt::Comment(_) => {}
                Stmt::Declare(local) if *local == self.right => {}
                Stmt::Clip { .. } | Stmt::Let { .. } => packs.push(stmt.clone()),
                Stmt::Pack(pack) if pack.to == self.right && pack.rows == self.k => {
                    let mut pack = pack.clone();
                    pack.rows = self.rows;
                    pack.at[0] = &pack.at[0] + &self.first;
                    packs.push(Stmt::Pack(pack));
                }
                Stmt::For {
                    symbol,
                    lo,
                    hi,
                    step,
                    kind,
                    body,
                } => packs.push(Stmt::For {
                    symbol: symbol.clone(),
                    lo: lo.clone(),
                    hi: hi.clone(),
                    step: *step,
                    kind: kind.clone(),
                    body: self.of(body)?,
                }),
                _ => return None,
            }
        }
        packs.iter().any(is_pack).then_some(packs)
    }
}

/// Whether something is packed.
fn is_pack(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Pack(_) => true,
        Stmt::For { body, .. } => body.iter().any(is_pack),
        _ => false,
    }
}
