//! Comparing what a run returned with the f64 reference.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::double::double_terms;
use super::elements::Trace;
use super::inputs::Distribution;
use super::limits::{Resolution, yardstick};
use super::measure::{Mismatch, View};
use super::pieces::{Found, Piece, Sides};
use super::sample::{Costs, Extent, Sample};
use super::suspects::Suspects;
use super::tally::Layout;
use super::tolerance::Tolerance;
use super::work::Operations;
use crate::backend::Poison;
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::{
    Evaluation, EvaluationCost, Options, Precision, Products, RowPlan, Semantics, half_outputs, has_half,
};
use crate::task::{Accuracy, Task};
use crate::tensor::Tensor;
use crate::verdict::{Failure, FailureKind, OutputCheck};

/// Outputs and what they were computed from.
pub(super) struct Comparison<'a> {
    pub(super) task: &'a Task,
    pub(super) dims: &'a Bindings,
    /// The graph's inputs; what follows them is ignored.
    pub(super) inputs: &'a [Tensor],
    pub(super) outputs: &'a [Tensor],
    pub(super) poison: Poison,
    /// Elements may overflow where the arithmetic of the class does. Not on the contract's own data.
    pub(super) may_overflow: bool,
    /// The inputs are not such as the contract describes.
    pub(super) is_beyond: bool,
    /// Decides which rows are looked at.
    pub(super) seed: u64,
    /// The outputs that are compared.
    pub(super) compared: Compared,
    /// Who makes the reference's large matrix products.
    pub(super) products: Option<Arc<dyn Products>>,
}

/// Outputs of a graph: all, or those that are marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Compared {
    All,
    /// Those that are computed from half types.
    Half(Vec<bool>),
    /// The others.
    Wide(Vec<bool>),
}

/// The errors in all rows so far, and where they are.
struct All {
    found: Found,
    traces: Vec<Trace>,
}

impl All {
    fn new(outputs: usize) -> Self {
        Self {
            found: Found::new(outputs),
            traces: Vec::new(),
        }
    }
}

/// Judges rows of outputs that follow from `seed`, at the contract's sizes, for inputs of a distribution.
pub(crate) fn judge_sample(
    task: &Task,
    (distribution, inputs): (Distribution, &[Tensor]),
    outputs: &[Tensor],
    products: Option<Arc<dyn Products>>,
    seed: u64,
    work: Operations,
) -> Result<Option<Failure>> {
    let comparison = Comparison {
        is_beyond: distribution != Distribution::Contract,
        ..Comparison::returned(task, inputs, outputs, products, seed)
    };
    let (_, failure) = comparison.judge(&Extent {
        work: Some(work),
        yardstick: work,
        first: None,
    })?;
    Ok(failure)
}

/// How many times the limit of the class a foreign kernel's error may be: it may sum one after the other and use approximate
/// functions, while another computation differs by far more.
const SLACK: f64 = 16.0;

/// Why outputs of a foreign kernel are not a task's, if they are not: an element that is wrong under any tolerance, or an error
/// above some times the limit of the class.
pub(crate) fn agrees(
    task: &Task,
    inputs: &[Tensor],
    outputs: &[Tensor],
    seed: u64,
    work: Operations,
) -> Result<Option<Failure>> {
    let comparison = Comparison::returned(task, inputs, outputs, None, seed);
    let (checks, failure) = comparison.judge(&Extent {
        work: Some(work),
        yardstick: work,
        first: None,
    })?;
    let near = |check: &OutputCheck| {
        let (error, limit) = (check.error, check.limit);
        error.rms <= SLACK * limit.rms && error.max <= SLACK * limit.max
    };
    Ok(failure.filter(|_| checks.is_empty() || !checks.iter().all(near)))
}

/// Judges every element of outputs of the contract's sizes.
#[cfg(feature = "conformance")]
pub(crate) fn judge_all(
    task: &Task,
    inputs: &[Tensor],
    outputs: &[Tensor],
    seed: u64,
) -> Result<Option<Failure>> {
    let comparison = Comparison::returned(task, inputs, outputs, None, seed);
    let (_, failure) = comparison.judge(&Extent {
        work: None,
        yardstick: Operations::MAX,
        first: None,
    })?;
    Ok(failure)
}

impl<'a> Comparison<'a> {
    /// What somebody returned for inputs of the contract's sizes, in memory of his own.
    pub(super) fn returned(
        task: &'a Task,
        inputs: &'a [Tensor],
        outputs: &'a [Tensor],
        products: Option<Arc<dyn Products>>,
        seed: u64,
    ) -> Self {
        Self {
            task,
            dims: &task.contract.hints,
            inputs,
            outputs,
            poison: Poison::Ones,
            may_overflow: true,
            is_beyond: false,
            seed,
            compared: Compared::All,
            products,
        }
    }

    /// The rows to compare.
    pub(super) fn sample(&self, plan: Option<&RowPlan>, extent: &Extent) -> Result<Sample> {
        let costs = self.costs(plan)?;
        let outputs: Vec<usize> = self.outputs.iter().map(Tensor::len).collect();
        let by_device = self.products.is_some();
        Ok(Sample::new(plan, costs, &outputs, extent, self.seed, by_device))
    }

    /// The operations of its evaluations.
    pub(super) fn costs(&self, plan: Option<&RowPlan>) -> Result<Costs> {
        let of = |precision| EvaluationCost::new(&self.task.graph, plan, self.dims, precision);
        Ok(Costs {
            truth: of(Precision::F64)?,
            yardstick: of(yardstick(self.task.contract.accuracy).precision)?,
        })
    }

    /// Compares; the failure is the first wrong element, the first output whose error is above its limit, or the first group or
    /// element of an output whose error is. If the graph has half types, what is wrong as wide arithmetic may be right by roundings in
    /// between.
    pub(super) fn judge(&self, extent: &Extent) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        let halves = half_outputs(&self.task.graph);
        if halves.iter().all(|half| *half) == halves.contains(&true) {
            return self.judge_compared(extent);
        }
        // Outputs that no rounding in between concerns have the judgement that they have alone.
        let others = halves.iter().map(|half| !half).collect();
        let (wide, failure) = self.comparing(Compared::Wide(others)).judge_compared(extent)?;
        if failure.is_some() {
            return Ok((wide, failure));
        }
        let (half, failure) = self
            .comparing(Compared::Half(halves.clone()))
            .judge_compared(extent)?;
        let checks = half.into_iter().zip(wide).zip(halves);
        let checks = checks.map(|((half, wide), is_half)| if is_half { half } else { wide });
        Ok((checks.collect(), failure))
    }

    fn comparing(&self, compared: Compared) -> Self {
        Self {
            compared,
            products: self.products.clone(),
            ..*self
        }
    }

    /// Returns true for an output that is compared.
    pub(super) fn has(&self, output: usize) -> bool {
        match &self.compared {
            Compared::All => true,
            Compared::Half(marked) | Compared::Wide(marked) => marked.get(output).copied().unwrap_or(false),
        }
    }

    /// Returns true if outputs are computed from half types, which have a judgement of their own.
    pub(super) fn is_half(&self) -> bool {
        !matches!(self.compared, Compared::Wide(_)) && has_half(&self.task.graph)
    }

    fn judge_compared(&self, extent: &Extent) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        let judged = self.judge_wide(extent)?;
        match &judged.1 {
            Some(failure) if failure.kind == FailureKind::WrongValues && self.is_half() => {
                self.judge_readings(extent)
            }
            _ => Ok(judged),
        }
    }

    /// Compares with the wide reading of the graph alone.
    fn judge_wide(&self, extent: &Extent) -> Result<(Vec<OutputCheck>, Option<Failure>)> {
        if let Some(failure) = self.types()? {
            return Ok((Vec::new(), Some(failure)));
        }
        let graph = &self.task.graph;
        let plan = RowPlan::new(graph, self.dims)?;
        let inputs = self.inputs.get(..graph.inputs().len()).unwrap_or_default();
        let accuracy = self.task.contract.accuracy;
        let views = self.views()?;
        let sides = self.sides(inputs, plan.as_ref(), accuracy)?;
        let mut sample = self.sample(plan.as_ref(), extent)?;
        let traced = sample.traced();
        let mut all = All::new(self.outputs.len());
        while let Some(wave) = sample.next() {
            if let Some(failure) = self.add_wave(&mut all, &views, &sides, wave, traced)? {
                return Ok((Vec::new(), Some(failure)));
            }
        }
        // The outputs without what roundings decide, and the errors in them.
        let (decided, again);
        let tolerance = |views| Tolerance {
            comparison: self,
            views,
            inputs,
            sides: &sides,
            sample: &sample,
            extent,
        };
        let suspects = |views, traces| Suspects {
            comparison: self,
            views,
            inputs,
            sides: &sides,
            traces,
        };
        let (mut compared, mut errors) = (&views, &all);
        let mut whole = tolerance(compared).whole(&errors.found)?;
        if whole.is_error && !self.is_half() {
            let undecided = suspects(compared, &errors.traces).undecided(&errors.found)?;
            if undecided.iter().any(|elements| !elements.is_empty()) {
                let without = views.iter().zip(undecided).map(|(view, undecided)| View {
                    undecided: Arc::new(undecided),
                    ..view.clone()
                });
                decided = without.collect::<Vec<_>>();
                let mut rest = All::new(self.outputs.len());
                for wave in sample.done() {
                    if let Some(failure) = self.add_wave(&mut rest, &decided, &sides, wave, traced)? {
                        return Ok((Vec::new(), Some(failure)));
                    }
                }
                again = rest;
                (compared, errors) = (&decided, &again);
                whole = tolerance(compared).conclude(&errors.found, whole.limits);
            }
        }
        let failure = match whole.failure {
            None => suspects(compared, &errors.traces).judge(&errors.found)?,
            failure => failure,
        };
        Ok((whole.checks, failure))
    }

    /// Compares rows that may be computed at the same time. The failure is the first element that is wrong under any tolerance.
    fn add_wave(
        &self,
        all: &mut All,
        views: &[View<'_>],
        sides: &Sides<'_>,
        wave: &[(Range<usize>, Range<usize>)],
        traced: usize,
    ) -> Result<Option<Failure>> {
        let pieces = |(range, yard): &(Range<usize>, Range<usize>)| -> Result<Vec<Piece>> {
            self.pieces(views, sides, (range, yard), traced)
        };
        let pieces: Vec<Result<Vec<Piece>>> = wave.par_iter().map(pieces).collect();
        for piece in pieces {
            for piece in piece? {
                if let Some((output, wrong)) = &piece.wrong {
                    return Ok(Some(self.mismatch(*output, wrong)));
                }
                all.found.add(&piece);
                all.traces.push(sides.trace(views, &piece));
            }
        }
        Ok(None)
    }

    /// The outputs as they are compared.
    fn views(&self) -> Result<Vec<View<'a>>> {
        let terms = double_terms(&self.task.graph, self.dims)?;
        let outputs = self.outputs.iter().zip(terms);
        Ok(outputs
            .map(|(tensor, terms)| View {
                tensor,
                layout: Layout::new(tensor.shape()),
                resolution: Resolution::new(tensor.dtype(), terms, self.task.contract.accuracy),
                undecided: Arc::default(),
            })
            .collect())
    }

    /// The evaluations on these inputs, with the yardstick of a class.
    pub(super) fn sides<'b>(
        &'b self,
        inputs: &'b [Tensor],
        plan: Option<&'b RowPlan>,
        accuracy: Accuracy,
    ) -> Result<Sides<'b>> {
        Ok(Sides {
            plan,
            truth: self.evaluation(inputs, plan, Options::default())?,
            yardstick: self.evaluation(inputs, plan, yardstick(accuracy))?,
        })
    }

    /// An evaluation on these inputs.
    pub(super) fn evaluation<'b>(
        &'b self,
        inputs: &'b [Tensor],
        plan: Option<&'b RowPlan>,
        options: Options,
    ) -> Result<Evaluation<'b>> {
        let graph = &self.task.graph;
        let options = Options {
            products: self.products.clone(),
            semantics: Semantics::wide(graph),
            ..options
        };
        Evaluation::new(graph, inputs, plan, options)
    }

    pub(super) fn name(&self, output: usize) -> &str {
        let graph = &self.task.graph;
        graph
            .outputs()
            .get(output)
            .map_or("?", |o| graph.value_name(o.value))
    }

    pub(super) fn mismatch(&self, output: usize, wrong: &Mismatch) -> Failure {
        let (kind, what) = if wrong.poison {
            (FailureKind::Unwritten, "was never written")
        } else {
            (FailureKind::WrongValues, "is wrong")
        };
        let shape = self.outputs.get(output).map_or(&[][..], |t| t.shape());
        Failure::new(
            kind,
            format!(
                "output `{}` {what} at {}: got {}, expected {}",
                self.name(output),
                position(wrong.index, shape),
                wrong.got,
                wrong.expected
            ),
        )
    }

    /// Checks the number, element types and shapes of the outputs.
    fn types(&self) -> Result<Option<Failure>> {
        let graph = &self.task.graph;
        let fail = |evidence: String| Ok(Some(Failure::new(FailureKind::WrongType, evidence)));
        if self.outputs.len() != graph.outputs().len() {
            return fail(format!(
                "{} outputs instead of {}",
                self.outputs.len(),
                graph.outputs().len()
            ));
        }
        for (i, (output, tensor)) in graph.outputs().iter().zip(self.outputs).enumerate() {
            let ty = graph.ty(output.value);
            let shape = ty.concrete_shape(self.dims)?;
            if tensor.dtype() != ty.dtype || tensor.shape() != shape {
                let name = self.name(i);
                return fail(format!(
                    "output `{name}` is {tensor:?} instead of {}{shape:?}",
                    ty.dtype
                ));
            }
        }
        Ok(None)
    }
}

/// `[2, 5]`: the coordinates of an element.
pub(super) fn position(index: usize, shape: &[usize]) -> String {
    let mut rest = index;
    let mut coordinates: Vec<usize> = shape
        .iter()
        .rev()
        .map(|d| {
            let c = rest % (*d).max(1);
            rest /= (*d).max(1);
            c
        })
        .collect();
    coordinates.reverse();
    format!("{coordinates:?}")
}

#[cfg(test)]
mod tests {
    use rand::{RngExt as _, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::Graph;
    use crate::reference::{Rounding, evaluate};
    use crate::task::Accuracy;

    /// Outputs of 32 rows of 1 or 0, of which few rows are neither: they make up the error.
    const PEAKS: &str = r#"{"akg_graph": 1, "name": "peaks",
      "inputs": [{"name": "x", "dtype": "f32", "shape": [32, 48]}, {"name": "w", "dtype": "f32", "shape": [48, 64]}],
      "nodes": [{"op": "aten.mm.default", "args": {"self": "x", "mat2": "w"}, "outputs": ["p"]},
                {"op": "aten.softmax.int", "args": {"self": "p", "dim": -1}, "outputs": ["y"]}],
      "outputs": [{"value": "y"}]}"#;

    /// All of about `mean`, so that sums are large and their differences small.
    fn about(mean: f32, rows: usize, columns: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
        (0..rows * columns)
            .map(|_| mean + rng.random_range(-2.0..2.0))
            .collect()
    }

    fn inputs(x: &[f32], w: &[f32]) -> [Tensor; 2] {
        let x = Tensor::from_slice([32, 48], x).unwrap();
        [x, Tensor::from_slice([48, 64], w).unwrap()]
    }

    /// What somebody returns who computes the task from `x` and `w` in his own way.
    fn evaluated(task: &Task, x: &[f32], w: &[f32], options: &Options) -> Tensor {
        let outcome = evaluate(&task.graph, &inputs(x, w), options).unwrap().remove(0);
        let values: Vec<f32> = outcome.to_f64().iter().map(|v| *v as f32).collect();
        Tensor::from_slice([32, 64], &values).unwrap()
    }

    fn judge(task: &Task, inputs: &[Tensor], output: Tensor, seed: u64) -> Option<Failure> {
        let outputs = [output];
        let comparison = Comparison::returned(task, inputs, &outputs, None, seed);
        let extent = Extent {
            work: None,
            yardstick: Operations::of_milliseconds(1000),
            first: None,
        };
        comparison.judge(&extent).unwrap().1
    }

    #[test]
    fn every_element_is_judged_however_many_there_are() {
        let graph = r#"{"akg_graph": 1, "name": "copy", "inputs": [{"name": "x", "dtype": "f32", "shape": [3000, 3001]}],
            "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["y"]}], "outputs": [{"value": "y"}]}"#;
        let task = Task::new("copy", Graph::from_json(graph).unwrap());
        let mut values = vec![0.5f32; 3000 * 3001];
        let x = Tensor::from_slice([3000, 3001], &values).unwrap();
        let judged = |values: &[f32]| {
            let output = Tensor::from_slice([3000, 3001], values).unwrap();
            judge_all(&task, std::slice::from_ref(&x), &[output], 1).unwrap()
        };
        assert_eq!(judged(&values), None);
        values[2900 * 3001 + 7] = 0.25;
        let failure = judged(&values).unwrap();
        assert!(failure.evidence.contains("[2900, 7]"), "{}", failure.evidence);
    }

    #[test]
    fn sums_of_another_order_are_right_in_every_luck_and_rounded_operands_in_none() {
        let task = Task::new("peaks", Graph::from_json(PEAKS).unwrap());
        let in_f32 = |round_inputs| Options {
            precision: Precision::F32Pairwise,
            round_inputs,
            ..Options::default()
        };
        for (seed, mean) in (0..150).flat_map(|seed| [(seed, 0.0), (seed, 100.0)]) {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let x = about(-mean, 32, 48, &mut rng);
            let w = about(mean, 48, 64, &mut rng);
            let judge = |output| judge(&task, &inputs(&x, &w), output, seed);
            let backwards: Vec<f32> = x.chunks(48).flat_map(|row| row.iter().rev().copied()).collect();
            let upside_down: Vec<f32> = w.chunks(64).rev().flatten().copied().collect();
            let other = judge(evaluated(&task, &backwards, &upside_down, &in_f32(None)));
            assert_eq!(other, None, "seed {seed}, mean {mean}");
            let rounded = judge(evaluated(&task, &x, &w, &in_f32(Some(Rounding::TF32))));
            // Of rows that are 1 or 0, rounding may leave every one as it is.
            assert!(rounded.is_some() || mean > 0.0, "seed {seed}");
        }
    }

    /// A constant that f32 does not have, and its powers.
    const POWERS: &str = r#"{"akg_graph": 1, "name": "powers", "inputs": [{"name": "x", "dtype": "f32", "shape": [64]}],
      "nodes": [{"op": "aten.mul.Scalar", "args": {"self": "x", "other": 0.0}, "outputs": ["zero"]},
                {"op": "aten.add.Scalar", "args": {"self": "zero", "other": 1.00000003}, "outputs": ["base"]},
                {"op": "aten.cumprod.default", "args": {"self": "base", "dim": 0}, "outputs": ["y"]}],
      "outputs": [{"value": "y"}]}"#;

    #[test]
    fn what_no_input_moves_may_have_the_error_of_one_unlucky_rounding() {
        let task = Task::new("powers", Graph::from_json(POWERS).unwrap());
        let x = Tensor::from_slice([64], &[1.0f32; 64]).unwrap();
        // In f32 the base is 1, and its error that of each power.
        let judged = |errors: f64| {
            let base = 1.00000003 * (1.0 + 3e-8 * errors);
            let powers: Vec<f32> = (1..=64).map(|power| base.powi(power) as f32).collect();
            let output = Tensor::from_slice([64], &powers).unwrap();
            judge(&task, std::slice::from_ref(&x), output, 1)
        };
        assert_eq!(judged(3.5), None);
        assert!(judged(5.0).is_some());
    }

    /// Elements with the error of `bits` of a mantissa, but rounded elsewhere than any type is.
    fn on_grid(values: &[f32], bits: i32) -> Vec<f32> {
        let round = |v: &f32| {
            let unit = v.abs().log2().floor().exp2() * (1.0 - bits as f32).exp2();
            ((v / unit + 0.4).round() - 0.4) * unit
        };
        values.iter().map(round).collect()
    }

    #[test]
    fn operands_rounded_elsewhere_are_right_in_every_luck_and_shorter_ones_in_none() {
        let mut task = Task::new("peaks", Graph::from_json(PEAKS).unwrap());
        for (accuracy, bits) in [(Accuracy::Tf32, 11), (Accuracy::Half, 8)] {
            task.contract.accuracy = accuracy;
            for seed in 0..100 {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                let (x, w) = (about(0.0, 32, 48, &mut rng), about(0.0, 48, 64, &mut rng));
                let judge = |bits| {
                    let (x_near, w_near) = (on_grid(&x, bits), on_grid(&w, bits));
                    let output = evaluated(&task, &x_near, &w_near, &Options::default());
                    judge(&task, &inputs(&x, &w), output, seed)
                };
                assert_eq!(judge(bits), None, "{accuracy}, seed {seed}");
                assert!(judge(bits - 4).is_some(), "{accuracy}, seed {seed}");
            }
        }
    }
}
