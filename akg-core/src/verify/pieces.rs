//! Comparing rows with the reference, a stretch at a time.

use std::ops::Range;

use super::comparison::Comparison;
use super::elements::Trace;
use super::measure::{Measured, Mismatch, View, add_outcome, compare};
use super::sample::cut;
use crate::error::Result;
use crate::reference::{Evaluation, Outcome, RowPlan};
use crate::tensor::Tensor;

/// The errors in a stretch of rows.
pub(super) struct Piece {
    range: Range<usize>,
    measured: Vec<Measured>,
    /// Elements of each output.
    compared: Vec<usize>,
    /// The first output with an element that is wrong under any tolerance.
    pub(super) wrong: Option<(usize, Mismatch)>,
    yards: Vec<Measured>,
}

impl Piece {
    pub(super) fn new(range: Range<usize>, outputs: usize) -> Self {
        Self {
            range,
            measured: vec![Measured::default(); outputs],
            compared: vec![0; outputs],
            wrong: None,
            yards: vec![Measured::default(); outputs],
        }
    }

    /// Measures the yardstick, on the first elements of the reference or on all.
    /// The views are those of the outputs with the element that the reference begins with.
    pub(super) fn measure_yard(
        &mut self,
        views: &[(View<'_>, usize)],
        reference: &[Outcome],
        yardstick: impl FnOnce() -> Result<Vec<Outcome>>,
    ) -> Result<()> {
        let outcomes = reference.iter().zip(yardstick()?);
        for (i, ((view, offset), (reference, got))) in views.iter().zip(outcomes).enumerate() {
            add_outcome(&mut self.yards[i], view, *offset, reference, &got);
        }
        Ok(())
    }
}

/// The errors in all pieces so far.
pub(super) struct Found {
    pub(super) measured: Vec<Measured>,
    pub(super) yards: Vec<Measured>,
    /// Elements of each output.
    pub(super) compared: Vec<u64>,
}

impl Found {
    pub(super) fn new(outputs: usize) -> Self {
        Self {
            measured: vec![Measured::default(); outputs],
            yards: vec![Measured::default(); outputs],
            compared: vec![0; outputs],
        }
    }

    /// Pieces are added in the order of the sample, so that sums do not depend on who was done first.
    pub(super) fn add(&mut self, piece: &Piece) {
        let merge = |all: &mut [Measured], part: &[Measured]| {
            all.iter_mut().zip(part).for_each(|(all, part)| all.merge(part));
        };
        merge(&mut self.measured, &piece.measured);
        merge(&mut self.yards, &piece.yards);
        for (all, part) in self.compared.iter_mut().zip(&piece.compared) {
            *all += *part as u64;
        }
    }
}

/// The evaluations that a comparison needs.
pub(super) struct Sides<'a> {
    pub(super) plan: Option<&'a RowPlan>,
    pub(super) truth: Evaluation<'a>,
    /// In the arithmetic of the class.
    pub(super) yardstick: Evaluation<'a>,
}

impl Sides<'_> {
    /// The first element of an output in some rows.
    fn offset(&self, output: &Tensor, range: &Range<usize>) -> usize {
        self.plan
            .map_or(0, |plan| output.len() / plan.rows() * range.start)
    }

    /// The outputs with their first elements in some rows.
    pub(super) fn placed<'v>(&self, views: &[View<'v>], range: &Range<usize>) -> Vec<(View<'v>, usize)> {
        let place = |view: &View<'v>| (view.clone(), self.offset(view.tensor, range));
        views.iter().map(place).collect()
    }

    /// Returns the trace by which the suspect rows of a piece are found again.
    pub(super) fn trace(&self, views: &[View<'_>], piece: &Piece) -> Trace {
        let outputs = views.iter().zip(&piece.compared);
        let elements = outputs.map(|(view, len)| {
            let start = self.offset(view.tensor, &piece.range);
            start..start + len
        });
        Trace::new(piece.range.clone(), elements.collect(), &piece.measured)
    }
}

impl Comparison<'_> {
    /// Compares some rows, and measures the yardstick's error in the first of them, as many as that is asked for. The errors of
    /// `most` rows at a time are kept apart. The last piece is the first with a wrong element, if there is one.
    pub(super) fn pieces(
        &self,
        views: &[View<'_>],
        sides: &Sides<'_>,
        (rows, yard): (&Range<usize>, &Range<usize>),
        most: usize,
    ) -> Result<Vec<Piece>> {
        let reference = sides.truth.rows(rows.clone())?;
        let mut pieces = Vec::new();
        for range in cut(rows, most) {
            let piece = if range == *rows {
                self.piece(views, sides, range, &reference)?
            } else {
                let part =
                    |outcome: &Outcome| outcome.part(rows.len(), range.start - rows.start, range.len());
                let parts: Vec<Outcome> = reference.iter().map(part).collect();
                self.piece(views, sides, range, &parts)?
            };
            let is_wrong = piece.wrong.is_some();
            pieces.push(piece);
            if is_wrong {
                return Ok(pieces);
            }
        }
        if let Some(first) = pieces.first_mut().filter(|_| !yard.is_empty()) {
            let placed = sides.placed(views, rows);
            first.measure_yard(&placed, &reference, || sides.yardstick.rows(yard.clone()))?;
        }
        Ok(pieces)
    }

    /// Compares a stretch of rows with the reference there.
    fn piece(
        &self,
        views: &[View<'_>],
        sides: &Sides<'_>,
        range: Range<usize>,
        reference: &[Outcome],
    ) -> Result<Piece> {
        let mut piece = Piece::new(range.clone(), views.len());
        let placed = sides.placed(views, &range);
        for (i, ((view, offset), outcome)) in placed.iter().zip(reference).enumerate() {
            if !self.has(i) {
                continue;
            }
            let poison = self.poison.byte();
            let measured = &mut piece.measured[i];
            let mut wrong = compare(measured, view, *offset, outcome, None, poison)?;
            if wrong.as_ref().is_some_and(|w| !w.poison) {
                // Rare, so that the arithmetic of the class is only looked up when it is asked for.
                let yardstick = sides.yardstick.rows(range.clone())?;
                *measured = Measured::default();
                wrong = compare(measured, view, *offset, outcome, yardstick.get(i), poison)?;
            }
            piece.compared[i] = outcome.shape.iter().product();
            if let Some(wrong) = wrong {
                piece.wrong = Some((i, wrong));
                return Ok(piece);
            }
        }
        Ok(piece)
    }
}
