//! Cases that every DSL must get right: the crate's example sketches on ragged shapes, and sketches that together use
//! every operator, with results of PyTorch in f64.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{Bindings, Symbol};
use crate::sketch::{self, Sketch};
use crate::source::Knobs;
use crate::tensor::Tensor;

/// One sketch with values for everything that is open in it, inputs, and what must come out.
#[derive(Debug, Clone)]
pub struct SketchCase {
    /// The sketch's name.
    pub name: &'static str,
    /// The sketch's text.
    pub text: &'static str,
    /// Values of all extents and integer parameters.
    pub dims: Bindings,
    /// Those of them that may stay symbols when the sketch is elaborated.
    pub symbolic: Vec<Symbol>,
    /// The knobs that differ from their defaults.
    pub knobs: Knobs,
    /// The inputs in the order of declaration.
    pub inputs: Vec<Tensor>,
    /// The outputs in the order of declaration, as f64.
    pub expected: Vec<Tensor>,
    /// Bound of the largest error, in units of the root mean square of the output (or row) it is in.
    pub tolerance: f64,
    /// Whether errors are measured against the row along the last axis, instead of the whole output.
    pub by_row: bool,
}

impl SketchCase {
    /// The values that must be known when the sketch is elaborated: [`dims`](Self::dims) without the symbolic ones.
    pub fn fixed_dims(&self) -> Bindings {
        let mut dims = self.dims.clone();
        dims.retain(|name, _| !self.symbolic.contains(name));
        dims
    }

    /// The sketch with these values of extents and parameters built in.
    pub fn sketch(&self, dims: &Bindings) -> Result<Sketch> {
        Ok(Sketch::parse(self.text)?.bind(dims))
    }

    /// Compares `outputs` with the expected ones; an error says where they differ most. Non-finite elements must agree
    /// exactly.
    pub fn check(&self, outputs: &[Tensor]) -> Result<()> {
        if outputs.len() != self.expected.len() {
            return Err(self.mismatch(format!(
                "{} outputs instead of {}",
                outputs.len(),
                self.expected.len()
            )));
        }
        for (output, expected) in outputs.iter().zip(&self.expected) {
            if output.shape() != expected.shape() {
                return Err(self.mismatch(format!(
                    "shape {:?} instead of {:?}",
                    output.shape(),
                    expected.shape()
                )));
            }
            let (got, want) = (output.to_f64()?, expected.to_f64()?);
            let row = match output.shape().last() {
                Some(n) if self.by_row => *n,
                _ => got.len(),
            };
            let row = row.max(1);
            for (number, (got, want)) in got.chunks(row).zip(want.chunks(row)).enumerate() {
                self.check_row(number * row, got, want)?;
            }
        }
        Ok(())
    }

    fn check_row(&self, first: usize, got: &[f64], want: &[f64]) -> Result<()> {
        let finite: Vec<f64> = want.iter().copied().filter(|v| v.is_finite()).collect();
        let rms = (finite.iter().map(|v| v * v).sum::<f64>() / finite.len().max(1) as f64).sqrt();
        let bound = self.tolerance * rms;
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            let same = got == want || got.is_nan() && want.is_nan();
            let near = want.is_finite() && (got - want).abs() <= bound;
            if !same && !near {
                return Err(self.mismatch(format!(
                    "element {} is {got:e} instead of {want:e}, with an error bound of {bound:e}",
                    first + i
                )));
            }
        }
        Ok(())
    }

    fn mismatch(&self, what: String) -> Error {
        Error::invalid(what)
            .with("sketch", self.name)
            .with("dims", format!("{:?}", self.dims))
            .with("knobs", format!("{:?}", self.knobs))
    }
}

#[derive(Deserialize)]
struct StoredTensor {
    dtype: DType,
    shape: Vec<usize>,
    data: String,
}

#[derive(Deserialize)]
struct StoredCase {
    dims: BTreeMap<Symbol, i64>,
    symbolic: Vec<Symbol>,
    knobs: Vec<Knobs>,
    inputs: Vec<StoredTensor>,
    expected: Vec<StoredTensor>,
    tolerance: f64,
    by_row: bool,
}

fn unpack(tensors: Vec<StoredTensor>) -> Result<Vec<Tensor>> {
    let unpack = |t: StoredTensor| {
        let bytes = STANDARD
            .decode(&t.data)
            .map_err(|e| Error::unexpected("the golden data is not base64").caused_by(e))?;
        Tensor::from_bytes(t.dtype, t.shape, &bytes)
    };
    tensors.into_iter().map(unpack).collect()
}

macro_rules! golden {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../tests/data/sketches/", $name, ".json")))),*]
    };
}

macro_rules! operators {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../tests/data/sketches/", $name, ".sketch")))),*]
    };
}

/// Every case at every knob point.
pub fn sketch_cases() -> Result<Vec<SketchCase>> {
    let golden = golden![
        "argmax",
        "attention",
        "axes",
        "bincount",
        "conv2d",
        "cumsum",
        "dots",
        "embedding",
        "floats",
        "gemm_split",
        "gemm_splitk",
        "gemm_tail",
        "integers",
        "layernorm",
        "maxpool2d",
        "rnn",
        "softmax_fits",
        "softmax_online",
        "types",
    ];
    let operators = operators!["axes", "dots", "floats", "integers", "types"];
    let mut cases = Vec::new();
    for (name, text) in sketch::examples().iter().chain(&operators) {
        let (_, json) = golden
            .iter()
            .find(|(of, _)| of == name)
            .ok_or_else(|| Error::unexpected(format!("sketch `{name}` has no golden data")))?;
        let stored: Vec<StoredCase> = serde_json::from_str(json)
            .map_err(|e| Error::unexpected("the golden data is malformed").caused_by(e))?;
        for case in stored {
            let (inputs, expected) = (unpack(case.inputs)?, unpack(case.expected)?);
            cases.extend(case.knobs.into_iter().map(|knobs| SketchCase {
                name,
                text,
                dims: case.dims.clone(),
                symbolic: case.symbolic.clone(),
                knobs,
                inputs: inputs.clone(),
                expected: expected.clone(),
                tolerance: case.tolerance,
                by_row: case.by_row,
            }));
        }
    }
    Ok(cases)
}
