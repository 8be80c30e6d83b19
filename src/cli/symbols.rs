//! Extents that the command line leaves open, and the values at which they are judged and tuned.

use std::str::FromStr;

use akg::error::ResultExt as _;
use akg::expr::Symbol;
use akg::python::{ImportOptions, ImportedModule, OpenDim, Source, lock};
use akg::task::SizeRange;
use akg::{Error, Expr, Graph, Result};

use super::task::Loaded;

/// `x.0=N` or `x.0=8*N`: a dimension of an input becomes the symbol, or a multiple of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Symbolic {
    input: String,
    dim: usize,
    multiple: i64,
    symbol: Symbol,
}

impl FromStr for Symbolic {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text
            .split_once('=')
            .and_then(|(place, symbol)| Some((place.rsplit_once('.')?, symbol)));
        let parsed = parts.and_then(|((input, dim), extent)| {
            let (multiple, symbol) = extent.split_once('*').unwrap_or(("1", extent));
            Some(Self {
                input: input.to_owned(),
                dim: dim.parse().ok()?,
                multiple: multiple.parse().ok().filter(|multiple| *multiple > 0)?,
                symbol: symbol_of(symbol)?,
            })
        });
        parsed.ok_or_else(|| {
            Error::invalid(format!(
                "`{text}` names no dimension; write x.0=N for the first dimension of the input `x`, or x.0=8*N if it is a multiple of 8"
            ))
        })
    }
}

/// `N=64` or `N=64:1..4096`: the value of a symbol that is tuned, and those that it may have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hint {
    symbol: Symbol,
    value: i64,
    range: Option<SizeRange>,
}

impl FromStr for Hint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('=').and_then(|(symbol, rest)| {
            let (value, range) = match rest.split_once(':') {
                Some((value, range)) => {
                    let (lo, hi) = range.split_once("..")?;
                    let (lo, hi) = (lo.parse().ok()?, hi.parse().ok()?);
                    (value, Some(SizeRange { lo, hi }))
                }
                None => (rest, None),
            };
            Some(Self {
                symbol: symbol_of(symbol)?,
                value: value.parse().ok()?,
                range,
            })
        });
        let fits = |hint: &Self| {
            let range = hint.range.unwrap_or(SizeRange { lo: 1, hi: i64::MAX });
            range.lo >= 1 && (range.lo..=range.hi).contains(&hint.value)
        };
        parsed.filter(fits).ok_or_else(|| {
            Error::invalid(format!(
                "`{text}` is no hint; write N=64, or N=64:1..4096 with the smallest and the largest value"
            ))
        })
    }
}

fn symbol_of(text: &str) -> Option<Symbol> {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| text.into())
}

/// Makes the dimensions symbolic, whose extents become hints, and adds the hints for symbols that the task has of its own.
pub(super) fn open(loaded: &mut Loaded, dims: &[Symbolic], hints: &[Hint]) -> Result<()> {
    let imported = imported(loaded, dims, hints)?;
    if let (Some(imported), Some(module)) = (&imported, &mut loaded.module) {
        // Sizes that it returns are no constants.
        module.call = imported.call.clone();
    }
    let task = &mut loaded.task;
    let graph = &task.graph;
    let mut shapes: Vec<Vec<Expr>> = graph
        .inputs()
        .iter()
        .map(|i| graph.ty(i.value).shape.clone())
        .collect();
    for Symbolic {
        input,
        dim,
        multiple,
        symbol,
    } in dims
    {
        let position = graph
            .inputs()
            .iter()
            .position(|i| graph.value_name(i.value) == input);
        let names = || {
            let names = graph.inputs().iter().map(|i| graph.value_name(i.value));
            names.collect::<Vec<_>>().join(", ")
        };
        let extent = position
            .ok_or_else(|| Error::invalid(format!("the task has no input `{input}`; it has {}", names())))
            .map(|at| shapes.get_mut(at).and_then(|shape| shape.get_mut(*dim)))?
            .ok_or_else(|| Error::invalid(format!("the input `{input}` has no dimension {dim}")))?;
        let value = extent.as_const().ok_or_else(|| {
            Error::invalid(format!(
                "dimension {dim} of the input `{input}` is `{extent}` already"
            ))
        })?;
        if value % multiple != 0 {
            return Err(Error::invalid(format!(
                "dimension {dim} of the input `{input}` is {value}, which is no multiple of {multiple}"
            )));
        }
        let value = value / multiple;
        let earlier = task.contract.hints.insert(symbol.clone(), value);
        if let Some(earlier) = earlier.filter(|earlier| *earlier != value) {
            return Err(Error::invalid(format!(
                "`{symbol}` cannot stand for {earlier} and for {value}, the extent of dimension {dim} of `{input}`"
            )));
        }
        *extent = Expr::symbol(symbol.clone()) * Expr::constant(*multiple);
    }
    let ranges = imported.iter().flat_map(|imported| &imported.ranges);
    let ranges: Vec<_> = ranges
        .filter_map(|range| {
            Some((
                Symbol::from(range.symbol.as_str()),
                SizeRange {
                    lo: range.low,
                    hi: range.high?,
                },
            ))
        })
        .collect();
    if !dims.is_empty() {
        let opened = match imported {
            Some(imported) => Ok(imported.graph),
            None => graph.with_input_shapes(&shapes),
        };
        task.graph = opened.map_err(|e| e.with("symbolic", "the task cannot have these dimensions open"))?;
    }
    for Hint { symbol, value, range } in hints {
        if !task.graph.symbols().contains(symbol) {
            return Err(Error::invalid(format!("the task has no extent `{symbol}`")));
        }
        let fixed = dims.iter().any(|d| d.symbol == *symbol);
        let earlier = task.contract.hints.insert(symbol.clone(), *value);
        if let Some(earlier) = earlier.filter(|earlier| fixed && earlier != value) {
            return Err(Error::invalid(format!(
                "the hint of `{symbol}` is {earlier}, as the task is given, not {value}"
            )));
        }
        task.contract
            .ranges
            .extend(range.map(|range| (symbol.clone(), range)));
    }
    // An import stays in the ranges that were asked for.
    task.contract.ranges.extend(ranges);
    let missing = task.graph.symbols().into_iter();
    match missing.into_iter().find(|s| !task.contract.hints.contains_key(s)) {
        Some(symbol) => Err(Error::invalid(format!(
            "the extent `{symbol}` is open; give a value to tune it for, as in --hint {symbol}=64"
        ))),
        None => Ok(()),
    }
}

/// A module that was imported anew with the dimensions open, so that sizes that it computes of them are
/// expressions; `None` for other tasks, and if others than arguments of `forward` are to be open.
fn imported(loaded: &Loaded, dims: &[Symbolic], hints: &[Hint]) -> Result<Option<ImportedModule>> {
    let (Some(module), Some(python)) = (&loaded.module, &loaded.python) else {
        return Ok(None);
    };
    let open = dims.iter().map(|dim| {
        let Symbolic { input, symbol, .. } = dim;
        let source = module.inputs.iter().find(|i| i.name == *input).map(|i| &i.source);
        let Some(Source::Argument(argument)) = source else {
            return None;
        };
        let range = hints
            .iter()
            .filter(|hint| hint.symbol == *symbol)
            .find_map(|hint| hint.range);
        Some(OpenDim {
            argument: *argument,
            dim: dim.dim,
            symbol: symbol.to_string(),
            multiple: dim.multiple,
            low: range.map_or(1, |range| range.lo),
            high: range.map(|range| range.hi).filter(|hi| *hi < i64::MAX),
        })
    });
    let Some(open) = open.collect::<Option<Vec<_>>>().filter(|open| !open.is_empty()) else {
        return Ok(None);
    };
    let mut options = ImportOptions::default();
    options.halvings = module.shrink.as_ref().map_or(0, |shrink| shrink.halvings);
    options.open = open;
    options.backward = module.cotangents.is_some();
    let opened = lock(python).import(&module.path, &options, &mut |_| {});
    let opened = opened.context("symbolic", || "with these dimensions open")?;
    let names = |graph: &Graph| -> Vec<String> {
        let inputs = graph.inputs().iter();
        inputs
            .map(|input| graph.value_name(input.value).to_owned())
            .collect()
    };
    if names(&opened.graph) != names(&module.graph) {
        return Err(Error::unsupported(
            "the module takes other tensors if these dimensions are open",
        ));
    }
    Ok(Some(opened))
}
