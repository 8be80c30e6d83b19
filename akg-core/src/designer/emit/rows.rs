//! Element-wise work and reductions over one set of axes: element-wise chains, reductions, softmax, norms.
//!
//! A program owns a tile of the kept axes and walks along the reduced ones, once for each level of dependent reductions:
//! softmax takes the maximum in the first pass, the sum in the second, and stores in the third. Where the reduced axis
//! fits into one tile there is no loop and the data is read once.

mod fill;
mod scan;
mod shape;

use std::collections::HashMap;

use self::shape::Shape;
use super::{Emitter, Names, Var, Walk, compute_type, literal, reduction};
use crate::designer::plan::{Axis, KernelPlan, Operand, Plan};
use crate::designer::prim::{Prim, PrimId, Prims, Scan};
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::ir::ReduceOp;

/// Writes kernel number `number`.
pub(in crate::designer) fn emit(
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
) -> Result<String> {
    let shape = Shape::choose(kernel);
    let scans = |id: &PrimId| matches!(prims.node(*id).prim, Prim::Scan(..));
    let longest = if kernel.nodes.iter().any(scans) {
        shape::SCANNED_ROW
    } else {
        shape::WHOLE_ROW
    };
    let blocks = shape.blocks(kernel, longest);
    let mut walks = HashMap::new();
    let mut grid = Vec::new();
    let mut loops = Vec::new();
    for axis in &shape.order {
        let extent = &kernel.extents[*axis];
        let reduced = kernel.reduced.contains(axis);
        let index = format!("{}{}", if reduced { "r" } else { "p" }, axis);
        let Some((name, values)) = blocks.get(axis) else {
            walks.insert(*axis, Walk::Index(index.clone()));
            if reduced {
                loops.push(format!("{index} in 0..{extent}"));
            } else {
                grid.push(format!("{index} in {extent}"));
            }
            continue;
        };
        let whole = values.len() == 1 && extent.is(values[0]);
        let len = names.knob(name, number, values);
        let overhang = !values
            .iter()
            .all(|b| extent.as_const().is_some_and(|e| e % b == 0));
        let start = match (whole, reduced) {
            (true, _) => "0".to_owned(),
            (false, true) => {
                loops.push(format!("{index} in 0..{extent} step {len}"));
                index
            }
            (false, false) => {
                grid.push(format!("{index} in ceildiv({extent}, {len})"));
                format!("{index}*{len}")
            }
        };
        walks.insert(*axis, Walk::Tile { start, len, overhang });
    }
    if grid.is_empty() {
        grid.push("p0 in 1".to_owned());
    }
    scan::reverse(&mut walks, prims, kernel);
    let mut emitter = Emitter::new(plan, prims, kernel, names);
    emitter.walks = walks;
    emitter.tile = shape.tile;
    let mut passes = Passes {
        levels: HashMap::new(),
        loops,
        emitter,
    };
    passes.write()?;
    Ok(passes
        .emitter
        .finish(&format!("kernel k{number} over ({})", grid.join(", "))))
}

/// Levels of dependent reductions, and the loop over the reduced axes.
struct Passes<'a> {
    /// The number of passes that must be complete before a primitive is known.
    levels: HashMap<PrimId, usize>,
    /// Loop indices over the reduced axes; empty if one tile holds them.
    loops: Vec<String>,
    emitter: Emitter<'a>,
}

impl Passes<'_> {
    /// Whether a primitive varies along the reduced axes.
    fn inner(&self, id: PrimId) -> bool {
        let kernel = self.emitter.kernel;
        kernel
            .axes
            .get(&id)
            .is_some_and(|axes| axes.iter().any(|a| kernel.reduced.contains(a)))
    }

    fn is_reduction(&self, id: PrimId) -> bool {
        matches!(
            self.emitter.prims.node(id).prim,
            Prim::Reduce(..) | Prim::ArgReduce(..)
        )
    }

    fn operand_nodes(&self, id: PrimId) -> Vec<PrimId> {
        let count = self.emitter.prims.operands(id).len();
        let node = |i| match self.emitter.kernel.operands.get(&(id, i)) {
            Some(Operand::Node(n)) => Some(*n),
            _ => None,
        };
        (0..count).filter_map(node).collect()
    }

    fn write(&mut self) -> Result<()> {
        let nodes = self.emitter.kernel.nodes.clone();
        for id in &nodes {
            let level = self
                .operand_nodes(*id)
                .iter()
                .filter_map(|n| self.levels.get(n))
                .max()
                .copied()
                .unwrap_or(0);
            self.levels
                .insert(*id, level + usize::from(self.is_reduction(*id)));
        }
        if self.loops.is_empty() {
            for id in &nodes {
                if self.is_reduction(*id) {
                    self.reduce_whole(*id)?;
                } else if let Some(scan) = self.scan_of(*id) {
                    self.scan_whole(*id, scan)?;
                } else {
                    self.emitter.value(*id)?;
                }
            }
            return self.emitter.store_all(|_, _| true);
        }
        let last = self.levels.values().max().copied().unwrap_or(0);
        for pass in 0..=last {
            self.pass(&nodes, pass)?;
        }
        self.outer(&nodes, last)?;
        let outer: Vec<PrimId> = nodes.iter().copied().filter(|id| !self.inner(*id)).collect();
        self.emitter.store_all(|_, id| outer.contains(&id))
    }

    /// Computes what does not vary along the reduced axes and is known after `level` passes.
    fn outer(&mut self, nodes: &[PrimId], level: usize) -> Result<()> {
        for id in nodes {
            let known = self.levels.get(id).is_some_and(|l| *l <= level);
            if known && !self.inner(*id) && !self.is_reduction(*id) {
                self.emitter.value(*id)?;
            }
        }
        Ok(())
    }

    fn pass(&mut self, nodes: &[PrimId], pass: usize) -> Result<()> {
        let at = |id: &PrimId, level: usize| self.levels.get(id) == Some(&level);
        let reductions: Vec<PrimId> = nodes
            .iter()
            .copied()
            .filter(|id| self.is_reduction(*id) && at(id, pass + 1))
            .collect();
        let stores: Vec<PrimId> = self
            .emitter
            .kernel
            .stores
            .iter()
            .map(|(id, _)| *id)
            .filter(|id| self.inner(*id) && at(id, pass))
            .collect();
        if reductions.is_empty() && stores.is_empty() {
            return Ok(());
        }
        self.outer(nodes, pass)?;
        let mut accumulators = Vec::new();
        for id in &reductions {
            accumulators.push(self.start(*id)?);
        }
        let scans = self.scans_for(reductions.iter().chain(&stores));
        let mut running = Vec::new();
        for (id, _) in &scans {
            running.push(self.start(*id)?);
        }
        let combined: Vec<PrimId> = reductions
            .iter()
            .copied()
            .chain(scans.iter().map(|s| s.0))
            .collect();
        let masked = self.choose_fill(&combined);
        self.emitter.open(format!("for {} {{", self.loops.join(", ")));
        for ((id, scan), before) in scans.into_iter().zip(&running) {
            self.scan_tile(id, scan, before, masked)?;
        }
        for (id, accumulator) in reductions.iter().zip(&accumulators) {
            self.accumulate(*id, accumulator, masked)?;
        }
        self.emitter.store_all(|_, id| stores.contains(&id))?;
        self.emitter.close();
        for (id, accumulator) in reductions.into_iter().zip(accumulators) {
            let dtype = self.emitter.prims.dtype(id);
            let wide = accumulator.wide.is_some_and(|w| w != compute_type(dtype));
            let text = if wide {
                let name = self.emitter.fresh("s");
                self.emitter
                    .line(format!("{name} = {}({})", compute_type(dtype), accumulator.name));
                name
            } else {
                accumulator.index.unwrap_or(accumulator.name)
            };
            self.emitter.define(
                id,
                Var {
                    text,
                    axes: accumulator.axes,
                },
            );
        }
        Ok(())
    }

    /// The operand of a reduction and the position of the tile axis to combine along.
    fn argument(&mut self, id: PrimId) -> Result<(Var, usize)> {
        let operand = self.emitter.prims.operands(id)[0];
        let dtype = compute_type(self.emitter.prims.dtype(operand));
        let var = self.emitter.operand(id, 0, dtype)?;
        let position = var
            .axes
            .iter()
            .position(|a| self.emitter.kernel.reduced.contains(a))
            .unwrap_or(0);
        Ok((var, position))
    }

    /// A reduction whose axis is in the tile as a whole.
    fn reduce_whole(&mut self, id: PrimId) -> Result<()> {
        let (var, position) = self.argument(id)?;
        let axes: Vec<Axis> = var
            .axes
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != position)
            .map(|(_, a)| *a)
            .collect();
        let text = match &self.emitter.prims.node(id).prim {
            Prim::ArgReduce(op, ..) => format!("i64(arg{}({}, {position}))", reduction(*op), var.text),
            Prim::Reduce(op, ..) => format!("reduce_{}({}, {position})", reduction(*op), var.text),
            _ => var.text,
        };
        let name = self.emitter.fresh("s");
        self.emitter.line(format!("{name} = {text}"));
        self.emitter.define(id, Var { text: name, axes });
        Ok(())
    }

    /// Declares the accumulator of a reduction.
    fn start(&mut self, id: PrimId) -> Result<Accumulator> {
        let node = self.emitter.prims.node(id).clone();
        let kept: Vec<Axis> = self
            .emitter
            .tile
            .iter()
            .copied()
            .filter(|a| !self.emitter.kernel.reduced.contains(a))
            .collect();
        let extents = self.emitter.extents(&kept)?;
        let name = self.emitter.fresh("acc");
        let operand = self.emitter.prims.operands(id)[0];
        let element = compute_type(self.emitter.prims.dtype(operand));
        let (op, arg) = match node.prim {
            Prim::ArgReduce(op, ..) => (op, true),
            Prim::Reduce(op, ..) | Prim::Scan(Scan { op, .. }, _) => (op, false),
            _ => (ReduceOp::Sum, false),
        };
        // Sums over many tiles are kept in f64 so that their error does not grow with the number of tiles.
        let wide = matches!(op, ReduceOp::Sum | ReduceOp::Prod).then_some(match element {
            DType::F32 => DType::F64,
            other => other,
        });
        let ty = wide.unwrap_or(element);
        self.emitter
            .line(format!("{name} = full {ty}{extents} {}", identity(op, ty)));
        let index = if arg {
            let index = self.emitter.fresh("at");
            self.emitter.line(format!("{index} = zeros i64{extents}"));
            Some(index)
        } else {
            None
        };
        Ok(Accumulator {
            name,
            index,
            axes: kept,
            wide,
            op,
        })
    }

    fn accumulate(&mut self, id: PrimId, accumulator: &Accumulator, masked: bool) -> Result<()> {
        let (mut var, position) = self.argument(id)?;
        let operand = self.emitter.prims.operands(id)[0];
        let element = compute_type(self.emitter.prims.dtype(operand));
        let op = accumulator.op;
        if masked {
            var = self.mask(var, position, &identity(op, element))?;
        }
        if let Some(index) = &accumulator.index {
            return self.accumulate_index(&var, position, accumulator, index);
        }
        let reduced = format!("reduce_{}({}, {position})", reduction(op), var.text);
        let reduced = match accumulator.wide {
            Some(wide) if wide != element => format!("{wide}({reduced})"),
            _ => reduced,
        };
        let name = &accumulator.name;
        self.emitter
            .line(format!("{name} = {}", combined(op, name, &reduced)));
        Ok(())
    }

    /// Keeps the first extreme element: a later tile wins only if it is strictly better, or the first with a NaN.
    fn accumulate_index(
        &mut self,
        var: &Var,
        position: usize,
        best: &Accumulator,
        index: &str,
    ) -> Result<()> {
        let (e, name) = (&mut self.emitter, &best.name);
        let (value, place, wins) = (e.fresh("v"), e.fresh("at"), e.fresh("wins"));
        let sign = if best.op == ReduceOp::Max { ">" } else { "<" };
        let suffix = reduction(best.op);
        let reduced: Vec<Axis> = e
            .tile
            .iter()
            .copied()
            .filter(|a| e.kernel.reduced.contains(a))
            .collect();
        let start = match reduced.first().and_then(|a| e.walks.get(a)) {
            Some(Walk::Tile { start, .. }) => start.clone(),
            _ => "0".to_owned(),
        };
        e.line(format!("{value} = reduce_{suffix}({}, {position})", var.text));
        e.line(format!(
            "{place} = i64(arg{suffix}({}, {position})) + {start}",
            var.text
        ));
        e.line(format!(
            "{wins} = ({value} {sign} {name}) | (isnan({value}) & !isnan({name}))"
        ));
        e.line(format!("{index} = select({wins}, {place}, {index})"));
        e.line(format!("{name} = {}({name}, {value})", suffix));
        Ok(())
    }
}

struct Accumulator {
    name: String,
    /// The variable of the index, for arg-reductions.
    index: Option<String>,
    axes: Vec<Axis>,
    /// The element type of a sum or product.
    wide: Option<DType>,
    op: ReduceOp,
}

/// The combination of two results of a reduction.
fn combined(op: ReduceOp, a: &str, b: &str) -> String {
    match op {
        ReduceOp::Sum => format!("{a} + {b}"),
        ReduceOp::Prod => format!("{a} * {b}"),
        ReduceOp::Max => format!("max({a}, {b})"),
        ReduceOp::Min => format!("min({a}, {b})"),
    }
}

fn identity(op: ReduceOp, dtype: DType) -> String {
    let extreme = |low: bool| match dtype {
        d if d.is_float() => literal(if low { f64::NEG_INFINITY } else { f64::INFINITY }, d),
        DType::Bool => i64::from(!low).to_string(),
        d => {
            let bits = 8 * d.size() as u32 - u32::from(d != DType::U8);
            let top = ((1i128 << bits) - 1) as i64;
            if !low {
                top.to_string()
            } else if d == DType::U8 {
                "0".to_owned()
            } else {
                format!("-{top}")
            }
        }
    };
    match op {
        ReduceOp::Sum => literal(0.0, dtype),
        ReduceOp::Prod => literal(1.0, dtype),
        ReduceOp::Max => extreme(true),
        ReduceOp::Min => extreme(false),
    }
}
