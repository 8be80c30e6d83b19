//! Writing kernels as sketch text.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use super::plan::{Axis, KernelPlan, Operand, Plan, TensorKey};
use super::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

mod access;
pub(super) mod attention;
pub(super) mod gather;
pub(super) mod matmul;
pub(super) mod recur;
pub(super) mod rows;
pub(super) mod scatter;
mod text;
pub(super) mod vector;

use matmul::Image;
use text::{binary, compute_type, literal, unary};

/// How a kernel walks along one of its axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Walk {
    /// One coordinate for each program or loop iteration: the index's name.
    Index(String),
    /// A tile: where it starts, the name or number of its length, and whether it may reach beyond the extent.
    Tile {
        start: String,
        len: String,
        overhang: bool,
    },
}

/// A tile variable or subexpression in the text.
#[derive(Debug, Clone)]
pub(super) struct Var {
    pub(super) text: String,
    /// The tile axes that it has, in the kernel's tile order.
    pub(super) axes: Vec<Axis>,
}

/// Names of tensors and knobs, shared by the kernels of a sketch.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) tensors: BTreeMap<TensorKey, String>,
    /// Knob and definition lines of the sketch.
    pub(super) knobs: Vec<String>,
    /// Declarations of buffers that hold no value of the graph.
    pub(super) buffers: Vec<String>,
    /// The copies of images, and what their buffers are called.
    pub(super) images: Vec<(Image, String)>,
}

/// A kernel in the text.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) text: String,
}

impl Names {
    /// Declares a hint of kernel number `kernel`, the default first.
    pub(super) fn hint(&mut self, name: &str, kernel: usize, values: &[i64]) -> String {
        let name = numbered(name, kernel);
        let list: Vec<_> = values.iter().map(ToString::to_string).collect();
        self.knobs.push(format!("hint {name} in {{{}}}", list.join(", ")));
        name
    }

    /// Declares a knob of kernel number `kernel`, the default first; a single value becomes a definition.
    pub(super) fn knob(&mut self, name: &str, kernel: usize, values: &[i64]) -> String {
        let name = numbered(name, kernel);
        let list: Vec<_> = values.iter().map(ToString::to_string).collect();
        self.knobs.push(match list.as_slice() {
            [one] => format!("let {name} = {one}"),
            many => format!("knob {name} in {{{}}}", many.join(", ")),
        });
        name
    }

    /// Declares an integer of kernel number `kernel`.
    pub(super) fn define(&mut self, name: &str, kernel: usize, value: &str) -> String {
        let name = numbered(name, kernel);
        self.knobs.push(format!("let {name} = {value}"));
        name
    }
}

/// The name of a knob of kernel number `kernel`.
fn numbered(name: &str, kernel: usize) -> String {
    if kernel == 0 {
        name.to_owned()
    } else {
        format!("{name}{kernel}")
    }
}

/// Writes the statements of one kernel.
pub(super) struct Emitter<'a> {
    pub(super) plan: &'a Plan,
    pub(super) prims: &'a Prims,
    pub(super) kernel: &'a KernelPlan,
    pub(super) names: &'a Names,
    /// How each axis is walked.
    pub(super) walks: HashMap<Axis, Walk>,
    /// The tile axes in order.
    pub(super) tile: Vec<Axis>,
    /// Whether tiles along reduced axes start at their last element.
    pub(super) descends: bool,
    /// An axis whose coordinates may be outside of tensors although each has a program or an iteration of its own.
    pub(super) stray: Option<Axis>,
    /// What stands outside a tensor along a reduced axis.
    pub(super) fill: f64,
    pub(super) lines: Vec<String>,
    pub(super) indent: usize,
    /// Variables by primitive, innermost scope last.
    pub(super) scopes: Vec<HashMap<PrimId, Var>>,
    /// Loaded tiles by region and type, innermost scope last.
    loads: Vec<HashMap<(String, DType), Var>>,
    counter: usize,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(plan: &'a Plan, prims: &'a Prims, kernel: &'a KernelPlan, names: &'a Names) -> Self {
        Self {
            plan,
            prims,
            kernel,
            names,
            walks: HashMap::new(),
            tile: Vec::new(),
            descends: false,
            stray: None,
            fill: 0.0,
            lines: Vec::new(),
            indent: 1,
            scopes: vec![HashMap::new()],
            loads: vec![HashMap::new()],
            counter: 0,
        }
    }

    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.lines
            .push(format!("{}{}", "  ".repeat(self.indent), text.as_ref()));
    }

    pub(super) fn open(&mut self, text: impl AsRef<str>) {
        self.line(text);
        self.indent += 1;
        self.scopes.push(HashMap::new());
        self.loads.push(HashMap::new());
    }

    pub(super) fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
        self.scopes.pop();
        self.loads.pop();
    }

    pub(super) fn fresh(&mut self, stem: &str) -> String {
        self.counter += 1;
        format!("{stem}{}", self.counter)
    }

    pub(super) fn extent(&self, axis: Axis) -> &Expr {
        &self.kernel.extents[axis]
    }

    pub(super) fn find(&self, id: PrimId) -> Option<Var> {
        self.scopes.iter().rev().find_map(|s| s.get(&id).cloned())
    }

    pub(super) fn define(&mut self, id: PrimId, var: Var) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(id, var);
        }
    }

    /// The tile axes among `axes`, in tile order.
    pub(super) fn tile_axes(&self, axes: &[Axis]) -> Vec<Axis> {
        self.tile.iter().copied().filter(|a| axes.contains(a)).collect()
    }

    fn walk(&self, axis: Axis) -> Result<&Walk> {
        self.walks
            .get(&axis)
            .ok_or_else(|| Error::unexpected("an emitter forgot to walk along an axis"))
    }

    /// How far one element of a tile is from the one before it along an axis.
    fn stride(&self, axis: Axis) -> i64 {
        if self.descends && self.kernel.reduced.contains(&axis) {
            -1
        } else {
            1
        }
    }

    /// The text of `var` with dimensions of extent 1 inserted so that it lines up with `axes`.
    pub(super) fn expanded(var: &Var, axes: &[Axis]) -> String {
        if var.axes.is_empty() || var.axes == axes {
            return var.text.clone();
        }
        let marks: Vec<_> = axes
            .iter()
            .map(|a| if var.axes.contains(a) { ":" } else { "None" })
            .collect();
        format!("{}[{}]", var.text, marks.join(", "))
    }

    /// An operand as a variable; literals are written out for element type `dtype`.
    pub(super) fn operand(&mut self, id: PrimId, i: usize, dtype: DType) -> Result<Var> {
        let operand = self.kernel.operands.get(&(id, i)).cloned();
        match operand.ok_or_else(|| Error::unexpected("a primitive has no such operand"))? {
            Operand::Node(node) => self.value(node),
            Operand::Load(access) => self.load(&access),
            Operand::Number(v) => Ok(Var {
                text: literal(v, dtype),
                axes: Vec::new(),
            }),
            Operand::Integer(value) => Ok(Var {
                text: format!("({value})"),
                axes: Vec::new(),
            }),
            Operand::Coordinate(axes) => {
                let dtype = self.prims.operands(id).get(i).map(|o| self.prims.dtype(*o));
                self.coordinate(&axes, dtype.unwrap_or(DType::I64))
            }
        }
    }

    /// The row-major coordinate along `axes` as a tile of an integer type.
    pub(super) fn coordinate(&mut self, axes: &[Axis], dtype: DType) -> Result<Var> {
        let mut terms = Vec::new();
        let mut tile = Vec::new();
        let mut stride = Expr::constant(1);
        for axis in axes.iter().rev() {
            let term = match self.walk(*axis)? {
                Walk::Index(name) => name.clone(),
                Walk::Tile { start, len, .. } => {
                    tile.push(*axis);
                    let own = match dtype {
                        DType::I32 => format!("iota({len})"),
                        _ => format!("{dtype}(iota({len}))"),
                    };
                    match (self.stride(*axis), start.as_str()) {
                        (1, "0") => own,
                        (1, _) => format!("({own} + {start})"),
                        (stride, _) => format!("({own} * {stride} + {start})"),
                    }
                }
            };
            terms.push(if stride.is(1) {
                term
            } else {
                format!("{term}*({stride})")
            });
            stride = &stride * self.extent(*axis);
        }
        if tile.len() > 1 {
            return Err(Error::unsupported(
                "no design rule yet for positions along a dimension tiled twice",
            ));
        }
        if terms.is_empty() {
            terms.push("0".to_owned());
        }
        // The tile comes first so that index arithmetic takes its type.
        terms.sort_by_key(|t| !t.contains("iota"));
        Ok(Var {
            text: format!("({})", terms.join(" + ")),
            axes: tile,
        })
    }

    /// The variable of a primitive of the kernel, computed now if need be.
    pub(super) fn value(&mut self, id: PrimId) -> Result<Var> {
        if let Some(var) = self.find(id) {
            return Ok(var);
        }
        let Prim::Map(op, args) = &self.prims.node(id).prim else {
            return Err(Error::unexpected(
                "an emitter asked for a reduction before its loop",
            ));
        };
        let var = self.map(id, *op, args)?;
        let name = self.fresh("t");
        self.line(format!("{name} = {}", var.text));
        let var = Var {
            text: name,
            axes: var.axes,
        };
        self.define(id, var.clone());
        Ok(var)
    }

    fn map(&mut self, id: PrimId, op: MapOp, args: &[PrimId]) -> Result<Var> {
        let own = compute_type(self.prims.dtype(id));
        // Literals take the type of the operands they meet.
        let meets = args
            .iter()
            .skip(usize::from(op == MapOp::Select))
            .find(|a| !self.prims.is_number(**a));
        let meets = meets.map_or(own, |a| compute_type(self.prims.dtype(*a)));
        let mut vars = Vec::new();
        for i in 0..args.len() {
            vars.push(self.operand(id, i, meets)?);
        }
        let is_literal = |i| matches!(self.kernel.operands.get(&(id, i)), Some(Operand::Number(_)));
        // Of literals alone one must have a type.
        let untyped = match op {
            MapOp::Select => (is_literal(1) && is_literal(2)).then_some(1),
            _ => (0..args.len()).all(is_literal).then_some(0),
        };
        if let Some(var) = untyped.and_then(|i| vars.get_mut(i)) {
            var.text = format!("full {meets}[] {}", var.text);
        }
        let all: Vec<Axis> = vars.iter().flat_map(|v| v.axes.clone()).collect();
        let axes = self.tile_axes(&all);
        let texts: Vec<String> = vars.iter().map(|v| Self::expanded(v, &axes)).collect();
        let text = match (op, texts.as_slice()) {
            (MapOp::Unary(op), [a]) => unary(op, a),
            (MapOp::Binary(op), [a, b]) => binary(op, a, b),
            (MapOp::Compare(op), [a, b]) => format!("{a} {} {b}", op.name()),
            (MapOp::Select, [c, a, b]) => format!("select({c}, {a}, {b})"),
            (MapOp::Cast, [a]) => {
                let (from, to) = (self.prims.dtype(args[0]), self.prims.dtype(id));
                // A conversion to a narrow float rounds, although it is computed with in f32.
                let narrow = if compute_type(to) == to || from == to {
                    a.clone()
                } else {
                    format!("{to}({a})")
                };
                if compute_type(from) == own && narrow == *a {
                    narrow
                } else {
                    format!("{own}({narrow})")
                }
            }
            _ => {
                return Err(Error::unexpected(
                    "an element-wise primitive with the wrong number of operands",
                ));
            }
        };
        Ok(Var { text, axes })
    }

    /// The extents of tile axes as text: `[BM, BN]`.
    pub(super) fn extents(&self, axes: &[Axis]) -> Result<String> {
        let mut out = Vec::new();
        for axis in axes {
            match self.walk(*axis)? {
                Walk::Tile { len, .. } => out.push(len.clone()),
                Walk::Index(_) => return Err(Error::unexpected("an emitter made a tile of an index")),
            }
        }
        Ok(format!("[{}]", out.join(", ")))
    }

    /// Stores every result that is not stored yet and whose variable is in scope.
    pub(super) fn store_all(&mut self, which: impl Fn(&Self, PrimId) -> bool) -> Result<()> {
        for (id, access) in self.kernel.stores.clone() {
            if which(self, id) {
                self.value(id)?;
                self.store(id, &access)?;
            }
        }
        Ok(())
    }

    /// Distinct operator names in order, for the kernel's doc.
    pub(super) fn doc(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for id in &self.kernel.nodes {
            let origin = self.prims.node(*id).origin;
            if names.last() != Some(&origin) {
                names.push(origin);
            }
        }
        names.join(", ")
    }

    /// What the kernel's head says of tensors that it sees in other extents than they are declared with.
    fn views(&self) -> String {
        let is_named = |name: &str| {
            let accesses = [format!("load {name}["), format!("store {name}[")];
            let mut lines = self.lines.iter();
            lines.any(|line| accesses.iter().any(|access| line.contains(access)))
        };
        let others = self.kernel.shapes.iter().filter_map(|(tensor, shape)| {
            let (_, declared) = self.plan.tensors.get(tensor)?;
            let name = self.names.tensors.get(tensor)?;
            let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
            (declared != shape && is_named(name)).then(|| format!("{name} as [{}]", extents.join(", ")))
        });
        let views: Vec<String> = others.collect();
        if views.is_empty() {
            return String::new();
        }
        format!(" seeing {}", views.join(", "))
    }

    /// The text of the kernel that was written; the next one starts.
    pub(super) fn finish(&mut self, head: &str) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "# {}", self.doc());
        let _ = writeln!(out, "{head}{} {{", self.views());
        for line in self.lines.drain(..) {
            out.push_str(&line);
            out.push('\n');
        }
        out.push_str("}\n");
        self.scopes = vec![HashMap::new()];
        self.loads = vec![HashMap::new()];
        out
    }
}
