//! Recurrent layers: one kernel goes through all steps.
//!
//! Each program has some of the hidden elements, whose weights it keeps on the chip. The hidden vectors of a step are
//! passed on in a buffer that has room for two steps, so that nobody writes what another still reads, and the programs of
//! a batch meet after every step (Diamos et al., "Persistent RNNs: Stashing Recurrent Weights On-Chip", 2016).

use super::{Emitter, Names, Var, Walk, Written};
use crate::designer::device::Device;
use crate::designer::plan::{Axis, KernelPlan, Plan};
use crate::designer::prim::{Cell, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

/// Samples of a program at most.
const BATCH: i64 = 64;
/// Hidden elements of a program on devices whose cores share tiles between threads.
const ELEMENTS: i64 = 16;
/// Weights that such a program keeps at most.
const WEIGHTS: i64 = 1 << 15;

/// Elements of a linear recurrence in a program: the least, and the most on devices whose cores work alone.
const LINEAR: i64 = 64;
const MOST_LINEAR: i64 = 1024;

/// A recurrent layer and the axes of its kernel.
struct Layer<'a> {
    kernel: &'a KernelPlan,
    id: PrimId,
    cell: Cell,
    /// Extents of steps, samples and hidden elements.
    extents: [i64; 3],
    /// Their axes; there is none along an extent of 1.
    axes: [Option<Axis>; 3],
    gates: Option<Axis>,
    /// The hidden elements of the step before.
    read: Axis,
}

/// Writes kernel number `number`, which is the recurrence `id` and what it carries.
pub(in crate::designer) fn emit(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
    id: PrimId,
) -> Result<Written> {
    let Prim::Recur { cell, reverse, .. } = prims.node(id).prim else {
        return Err(Error::unexpected(
            "an emitter got something else than a recurrence",
        ));
    };
    if cell == Cell::Linear {
        return linear(device, plan, prims, kernel, names, number, id);
    }
    let layer = Layer::new(prims, kernel, id, cell)?;
    let [steps, batch, size] = layer.extents;
    let samples = divisor(batch, BATCH);
    let most = if device.shares_tiles() {
        ELEMENTS.min(WEIGHTS / (cell.gates() * size).max(1)).max(1)
    } else {
        (size + device.cores() - 1) / device.cores().max(1)
    };
    let elements = divisor(size, most);
    let state = format!("STATE{number}");
    names
        .buffers
        .push(format!("buffer {state}: f32[2, {batch}, {size}]"));

    let mut e = Emitter::new(plan, prims, kernel, names);
    let [of_steps, of_batch, of_size] = layer.axes;
    let tile = |start: String, len: i64| Walk::Tile {
        start,
        len: len.to_string(),
        overhang: false,
    };
    let (first, own) = (format!("p0*{samples}"), format!("p1*{elements}"));
    e.walks.insert(layer.read, tile("0".to_owned(), size));
    e.walks
        .extend(of_batch.map(|axis| (axis, tile(first.clone(), samples))));
    e.walks
        .extend(of_size.map(|axis| (axis, tile(own.clone(), elements))));
    let at = if reverse {
        format!("({} - t)", steps - 1)
    } else {
        "t".to_owned()
    };
    e.walks.extend(of_steps.map(|axis| (axis, Walk::Index(at))));
    e.tile = of_batch.into_iter().chain([layer.read]).chain(of_size).collect();

    let weights = layer.of_gates(&mut e, 1)?;
    let (bias_at, cells) = match cell {
        Cell::Lstm => (4, Some(3)),
        _ => (3, None),
    };
    let biases = match kernel.operands.get(&(id, bias_at)) {
        Some(_) => layer.of_gates(&mut e, bias_at)?,
        None => Vec::new(),
    };
    let before = layer.row(layer.own_hidden(&mut e)?);
    let place = |step: &str, elements: &str| format!("{state}[{step}, {first} :+ {samples}, {elements}]");
    let own_place = format!("{own} :+ {elements}");
    e.line(format!("store {} = {before}", place("0", &own_place)));
    // What a program carries from step to step: cells, or its hidden elements.
    let start = match cells {
        Some(i) => Some(layer.row(e.operand(id, i, DType::F32)?.text)),
        None if cell == Cell::Gru => Some(before),
        None => None,
    };
    if let Some(start) = start {
        e.line(format!("carried = {start}"));
    }
    e.line("barrier");
    e.open(format!("for t in 0..{steps} {{"));
    e.line(format!(
        "hidden = load {}",
        place("t % 2", &format!("0 :+ {size}"))
    ));
    let shares = layer.of_gates(&mut e, 0)?;
    let shares = shares.into_iter().map(|share| layer.row(share));
    let mut gates = Vec::new();
    for (number, (weights, share)) in weights.iter().zip(shares).enumerate() {
        e.line(format!("s{number} = dot(hidden, {weights}) ieee"));
        let mut sum = format!("s{number}");
        if let Some(bias) = biases.get(number) {
            sum = format!("({sum} + {bias}[None, :])");
        }
        gates.push((share, sum));
    }
    step(&mut e, cell, &gates);
    let axes: Vec<Axis> = of_batch.into_iter().chain(of_size).collect();
    for node in &kernel.nodes {
        let name = if *node == id { "next" } else { "carried" };
        let text = match of_batch {
            Some(_) => name.to_owned(),
            None => format!("reshape({name}, [{elements}])"),
        };
        let axes = axes.clone();
        e.define(*node, Var { text, axes });
    }
    e.store_all(|_, _| true)?;
    e.line(format!("store {} = next", place("(t + 1) % 2", &own_place)));
    e.line("barrier");
    e.close();
    // Samples of other programs are of no interest, but processors that take turns have all programs meet.
    let along = if device.shares_tiles() && samples < batch {
        " along p1"
    } else {
        ""
    };
    let name = format!("k{number}");
    let text = e.finish(&format!(
        "kernel {name} over (p0 in {}, p1 in {}) cooperative{along}",
        batch / samples,
        size / elements
    ));
    Ok(Written { name, text })
}

/// Writes a linear recurrence, whose elements have nothing to do with each other: each program has some of them, and keeps
/// them from step to step.
fn linear(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
    id: PrimId,
) -> Result<Written> {
    let axes = kernel.axes.get(&id).map(Vec::as_slice);
    let known = |axis: &Axis| kernel.extents.get(*axis).and_then(Expr::as_const);
    let Some([of_steps, own]) = axes else {
        return Err(Error::unsupported(
            "no design rule yet for how a linear recurrence sees its tensors",
        ));
    };
    let (Some(steps), Some(size)) = (known(of_steps), known(own)) else {
        return Err(Error::unsupported(
            "no design rule yet for linear recurrences of symbolic extents",
        ));
    };
    let elements = if device.shares_tiles() {
        LINEAR
    } else {
        let cores = device.cores().max(1);
        ((size + cores - 1) / cores).clamp(LINEAR, MOST_LINEAR)
    };
    let mut e = Emitter::new(plan, prims, kernel, names);
    let tile = Walk::Tile {
        start: format!("p0*{elements}"),
        len: elements.to_string(),
        overhang: size % elements != 0,
    };
    e.walks.insert(*own, tile);
    e.walks.insert(*of_steps, Walk::Index("t".to_owned()));
    e.tile = vec![*own];
    let first = e.load(kernel.loaded(id, 2)?)?.text;
    e.line(format!("carried = {first}"));
    e.open(format!("for t in 0..{steps} {{"));
    let (factor, term) = (
        e.load(kernel.loaded(id, 0)?)?.text,
        e.load(kernel.loaded(id, 1)?)?.text,
    );
    e.line(format!("carried = {factor}*carried + {term}"));
    let (text, axes) = ("carried".to_owned(), vec![*own]);
    e.define(id, Var { text, axes });
    e.store_all(|_, _| true)?;
    e.close();
    let name = format!("k{number}");
    let programs = (size + elements - 1) / elements;
    let text = e.finish(&format!("kernel {name} over (p0 in {programs})"));
    Ok(Written { name, text })
}

/// The new hidden vectors, as `next`, from the two shares of each gate.
fn step(e: &mut Emitter<'_>, cell: Cell, gates: &[(String, String)]) {
    let sum = |i: usize| gates.get(i).map_or(String::new(), |(x, h)| format!("{x} + {h}"));
    match cell {
        Cell::Lstm => {
            for (name, function, i) in [
                ("i", "sigmoid", 0),
                ("f", "sigmoid", 1),
                ("g", "tanh", 2),
                ("o", "sigmoid", 3),
            ] {
                e.line(format!("{name} = {function}({})", sum(i)));
            }
            e.line("carried = f*carried + i*g");
            e.line("next = o*tanh(carried)");
        }
        Cell::Gru => {
            e.line(format!("r = sigmoid({})", sum(0)));
            e.line(format!("z = sigmoid({})", sum(1)));
            if let Some((x, h)) = gates.get(2) {
                e.line(format!("n = tanh({x} + r*{h})"));
            }
            e.line("carried = n + z*(carried - n)");
            e.line("next = carried");
        }
        Cell::Tanh => e.line(format!("next = tanh({})", sum(0))),
        Cell::Relu => e.line(format!("next = max({}, 0.0)", sum(0))),
        Cell::Linear => {}
    }
}

impl<'a> Layer<'a> {
    fn new(prims: &Prims, kernel: &'a KernelPlan, id: PrimId, cell: Cell) -> Result<Self> {
        let unsupported =
            || Error::unsupported("no design rule yet for how a recurrent layer sees its tensors");
        let [steps, batch, size] = prims.shape(id) else {
            return Err(unsupported());
        };
        let mut result = kernel.axes.get(&id).into_iter().flatten().copied();
        // Every dimension must still be one axis.
        let mut axis = |extent: &Expr| {
            if extent.is(1) {
                return Ok(None);
            }
            let axis = result
                .next()
                .filter(|axis| kernel.extents.get(*axis) == Some(extent));
            axis.map(Some).ok_or_else(unsupported)
        };
        let axes = [axis(steps)?, axis(batch)?, axis(size)?];
        let known = |extent: &Expr| {
            let known = extent.as_const();
            known.ok_or_else(|| {
                Error::unsupported("no design rule yet for recurrent layers of symbolic extents")
            })
        };
        let extents = [known(steps)?, known(batch)?, known(size)?];
        let weights = kernel.loaded(id, 1)?;
        let (gates, read) = match weights.axes.as_slice() {
            [_, read] if cell.gates() == 1 => (None, *read),
            [gates, _, read] => (Some(*gates), *read),
            _ => return Err(unsupported()),
        };
        Ok(Self {
            kernel,
            id,
            cell,
            extents,
            axes,
            gates,
            read,
        })
    }

    /// A tile with a row for each sample: of a single one, tensors have no dimension.
    fn row(&self, tile: String) -> String {
        match self.axes[1] {
            Some(_) => tile,
            None => format!("{tile}[None, :]"),
        }
    }

    /// An operand at each gate.
    fn of_gates(&self, e: &mut Emitter<'_>, operand: usize) -> Result<Vec<String>> {
        let access = self.kernel.loaded(self.id, operand)?.clone();
        let mut found = Vec::new();
        for gate in 0..self.cell.gates() {
            e.walks
                .extend(self.gates.map(|axis| (axis, Walk::Index(gate.to_string()))));
            found.push(e.load(&access)?.text);
        }
        Ok(found)
    }

    /// A program's own elements of the first hidden vectors.
    fn own_hidden(&self, e: &mut Emitter<'_>) -> Result<String> {
        let access = self.kernel.loaded(self.id, 2)?.clone();
        let own = self.axes[2].and_then(|axis| e.walks.get(&axis)).cloned();
        let all = e.walks.get(&self.read).cloned();
        e.walks.extend(own.map(|walk| (self.read, walk)));
        let text = e.load(&access)?.text;
        e.walks.extend(all.map(|walk| (self.read, walk)));
        Ok(text)
    }
}

/// The largest number up to `most` that divides `extent`.
fn divisor(extent: i64, most: i64) -> i64 {
    (1..=most.clamp(1, extent.max(1)))
        .rev()
        .find(|n| extent % n == 0)
        .unwrap_or(1)
}
