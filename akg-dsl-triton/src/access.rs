//! Loads and stores: addresses, masks, and boxes that the copy engine moves.

use std::collections::{BTreeMap, BTreeSet};

use akg_core::error::Result;
use akg_core::expr::Expr;
use akg_core::lower::analysis::region::strides;
use akg_core::lower::tiles::{Access, AccessDim, Coordinate, TileKernel, TileOp, TileProgram, TileStmt};
use akg_core::sketch::ir::{Op, Scalar, StoreMode, TensorId, Val};

use crate::flow::{Flow, operands};
use crate::index::{Text, expand, literal, tuple};
use crate::options::Descriptor;
use crate::printer::{Printer, overlaps};

/// The most elements of a box along one axis.
const LARGEST_BOX: usize = 256;

/// What the innermost run of a box, and every row of its tensor, must be a multiple of, in bytes.
const BOX_BYTES: i64 = 16;

/// What a statement does with a tensor.
#[derive(Clone, Copy)]
enum Use {
    Load { value: Val, fill: Scalar },
    Store { value: Val, mode: StoreMode },
}

/// A block pointer, and which of its axes may leave the tensor, as an argument.
struct Block {
    pointer: String,
    checked: String,
}

/// The loops around a statement.
#[derive(Clone, Copy, Default)]
struct Around {
    /// Whether there is one.
    is_repeated: bool,
    /// Whether several iterations of the innermost one are under way, and multiply.
    is_overlapped: bool,
}

/// The tensors of `kernel` that the copy engine moves: those that are read by boxes of one shape alone, for dots in loops, or written so in pipelined loops beside dots. Elsewhere nothing is done while it
/// moves them.
pub(crate) fn boxes(
    program: &TileProgram,
    kernel: &TileKernel,
    flow: &Flow<'_>,
) -> BTreeMap<TensorId, Descriptor> {
    // Whether they are read, and how they are described.
    let mut found: BTreeMap<TensorId, Option<(bool, Descriptor)>> = BTreeMap::new();
    if kernel.wide {
        return BTreeMap::new();
    }
    let fed = feeds_dots(flow);
    each_access(&kernel.body, Around::default(), &mut |access, used, around| {
        let (is_read, suits) = match used {
            Use::Load { value, fill } => {
                let suits = fills_outside(access, fill) && around.is_repeated && fed.contains(&value);
                (true, suits)
            }
            Use::Store { value, mode } => {
                let dtype = kernel.value(value).ty.dtype;
                let suits = mode == StoreMode::Set && around.is_overlapped && dtype.is_float();
                (false, suits)
            }
        };
        let described = descriptor_of(program, access).filter(|_| suits);
        let described = described.map(|descriptor| (is_read, descriptor));
        found
            .entry(access.tensor)
            .and_modify(|known| {
                if *known != described {
                    *known = None;
                }
            })
            .or_insert(described);
    });
    found
        .into_iter()
        .filter_map(|(tensor, described)| Some((tensor, described?.1)))
        .collect()
}

/// The tensors that the programs of a kernel write, where these meet.
pub(crate) fn shared(kernel: &TileKernel) -> BTreeSet<TensorId> {
    let mut written = BTreeSet::new();
    if kernel.teams.is_some() {
        each_access(&kernel.body, Around::default(), &mut |access, used, _| {
            if matches!(used, Use::Store { .. }) {
                written.insert(access.tensor);
            }
        });
    }
    written
}

/// The tiles that reach a dot by moves and conversions alone.
fn feeds_dots(flow: &Flow<'_>) -> Vec<Val> {
    let mut open: Vec<Val> = flow
        .ops
        .values()
        .filter_map(|op| match op {
            TileOp::Dot { a, b, .. } => Some([*a, *b]),
            _ => None,
        })
        .flatten()
        .collect();
    let mut found = Vec::new();
    while let Some(value) = open.pop() {
        if found.contains(&value) {
            continue;
        }
        found.push(value);
        if let Some(op @ TileOp::Plain(Op::Transpose(..) | Op::Cast(_) | Op::Reshape(_))) =
            flow.ops.get(&value)
        {
            open.extend(operands(op));
        }
    }
    found
}

/// Calls `f` with every access, what is done there, and the loops around it.
fn each_access<'a>(body: &'a [TileStmt], around: Around, f: &mut dyn FnMut(&'a Access, Use, Around)) {
    for stmt in body {
        match stmt {
            TileStmt::Define {
                value,
                op: TileOp::Load { access, fill },
            } => {
                let (value, fill) = (*value, *fill);
                f(access, Use::Load { value, fill }, around);
            }
            TileStmt::Store { access, value, mode } => {
                let (value, mode) = (*value, *mode);
                f(access, Use::Store { value, mode }, around);
            }
            TileStmt::For(l) => {
                let around = Around {
                    is_repeated: true,
                    is_overlapped: overlaps(l) && l.body.iter().any(is_dot),
                };
                each_access(&l.body, around, f);
            }
            TileStmt::If { then, otherwise, .. } => {
                each_access(then, around, f);
                each_access(otherwise, around, f);
            }
            TileStmt::Let { .. } | TileStmt::Define { .. } | TileStmt::Barrier => {}
        }
    }
}

fn is_dot(stmt: &TileStmt) -> bool {
    matches!(
        stmt,
        TileStmt::Define {
            op: TileOp::Dot { .. },
            ..
        }
    )
}

/// The tiles that are stored in a tensor.
pub(crate) fn stored(body: &[TileStmt], tensor: TensorId) -> Vec<Val> {
    let inside = |stmt: &TileStmt| match stmt {
        TileStmt::Store { access, value, .. } if access.tensor == tensor => vec![*value],
        TileStmt::For(l) => stored(&l.body, tensor),
        TileStmt::If { then, otherwise, .. } => [stored(then, tensor), stored(otherwise, tensor)].concat(),
        _ => Vec::new(),
    };
    body.iter().flat_map(inside).collect()
}

/// Whether outside of tensors stands what the copy engine reads there.
fn fills_outside(access: &Access, fill: Scalar) -> bool {
    let zero = matches!(fill, Scalar::Float(f) if f == 0.0) || fill == Scalar::Int(0);
    zero || access.dims.iter().all(|d| !d.guard.below && !d.guard.above)
}

/// How the copy engine sees what `access` moves; `None` where it cannot.
fn descriptor_of(program: &TileProgram, access: &Access) -> Option<Descriptor> {
    let tensor = program.tensors.get(access.tensor.0)?;
    let whole = access.lanes.iter().all(|l| l.live == l.all);
    let aligned = tensor.align as i64 % BOX_BYTES == 0;
    let seen: Vec<Expr> = access.dims.iter().map(|d| d.extent.clone()).collect();
    let is_dense = access.dims.iter().map(|d| &d.stride).eq(&strides(&seen));
    // A Hopper GPU takes what Triton 3.6 makes of f32 boxes in more dimensions for an illegal instruction.
    let most = if tensor.dtype.size() > 2 { 3 } else { 5 };
    if !(2..=most).contains(&access.dims.len()) || !whole || !aligned || !is_dense {
        return None;
    }
    let bytes = tensor.dtype.size() as i64;
    let mut shape = Vec::with_capacity(access.dims.len());
    let mut block_shape = Vec::with_capacity(access.dims.len());
    for (i, dim) in access.dims.iter().enumerate() {
        let stride = dim.stride.as_const()?;
        shape.push(dim.extent.as_const().filter(|n| i32::try_from(*n).is_ok())?);
        let innermost = i + 1 == access.dims.len();
        if !innermost && stride * bytes % BOX_BYTES != 0 {
            return None;
        }
        let extent = match dim.coordinate {
            Coordinate::At(_) => 1,
            Coordinate::Lanes { axis, step: 1, .. } => access.lanes.get(axis)?.all,
            _ => return None,
        };
        let fits = extent.is_power_of_two() && extent <= LARGEST_BOX;
        if !fits || (innermost && (extent as i64) * bytes < BOX_BYTES) {
            return None;
        }
        block_shape.push(extent);
    }
    Some(Descriptor { shape, block_shape })
}

impl Printer<'_> {
    pub(crate) fn load(&mut self, value: Val, access: &Access, fill: Scalar) -> Result<Text> {
        if let Some(descriptor) = self.boxes.get(&access.tensor).cloned() {
            return Ok(self.load_box(value, access, &descriptor.block_shape));
        }
        let (address, checks) = match self.block_pointer(access, Some(fill)) {
            Some(block) => {
                let zeros = if block.checked.is_empty() {
                    ""
                } else {
                    ", padding_option=\"zero\""
                };
                (block.pointer, block.checked + zeros)
            }
            None => {
                let (address, mask) = self.address(access)?;
                let mask = mask.map(|mask| format!(", mask={mask}, other={}", literal(fill)));
                (address, mask.unwrap_or_default())
            }
        };
        // The cache of a core does not see what others write.
        let cache = if self.shared.contains(&access.tensor) {
            ", cache_modifier=\".cg\""
        } else {
            ""
        };
        let keeping = self.keeping_of_load(access);
        Ok(Text::tight(format!("tl.load({address}{checks}{cache}{keeping})")))
    }

    fn load_box(&mut self, value: Val, access: &Access, shape: &[usize]) -> Text {
        let (name, corner) = (self.parameter(access.tensor), self.corner(access));
        let text = format!("{name}.load([{corner}])");
        let extents = self.extents(value);
        Text::tight(if extents == shape {
            text
        } else {
            format!("tl.reshape({text}, {})", tuple(extents))
        })
    }

    /// Where a box begins.
    fn corner(&mut self, access: &Access) -> String {
        let start = |dim: &AccessDim| match &dim.coordinate {
            Coordinate::At(start) | Coordinate::Lanes { start, .. } => self.index(start).open().to_owned(),
            Coordinate::AtTile(_) | Coordinate::Index { .. } => String::new(),
        };
        let starts: Vec<String> = access.dims.iter().map(start).collect();
        starts.join(", ")
    }

    pub(crate) fn store(&mut self, access: &Access, value: Val, mode: StoreMode) -> Result<()> {
        let extents = self.extents(value);
        let value = self.operand(value)?;
        if let Some(Descriptor {
            block_shape: shape, ..
        }) = self.boxes.get(&access.tensor).cloned()
        {
            let (name, corner) = (self.parameter(access.tensor), self.corner(access));
            let value = if extents == shape {
                value.open().to_owned()
            } else {
                format!("tl.reshape({}, {})", value.open(), tuple(&shape))
            };
            self.line(format!("{name}.store([{corner}], {value})"));
            return Ok(());
        }
        let block = self
            .block_pointer(access, None)
            .filter(|_| mode == StoreMode::Set);
        let (address, checks) = match block {
            Some(block) => (block.pointer, block.checked),
            None => {
                let (address, mask) = self.address(access)?;
                (address, mask.map(|m| format!(", mask={m}")).unwrap_or_default())
            }
        };
        let (function, keeping) = match mode {
            StoreMode::Set => ("store", self.keeping_of_store(access)),
            StoreMode::AtomicAdd => ("atomic_add", ""),
        };
        self.line(format!(
            "tl.{function}({address}, {}{checks}{keeping})",
            value.open()
        ));
        Ok(())
    }

    /// The block pointer for an access; `None` where there is none for it, or the kernel has none. What stands outside the
    /// tensor is zero or nothing.
    fn block_pointer(&mut self, access: &Access, fill: Option<Scalar>) -> Option<Block> {
        let rank = access.lanes.len();
        let whole = access.lanes.iter().all(|l| l.live == l.all);
        let suits = fill.is_none_or(|fill| fills_outside(access, fill));
        // Where blocks begin takes 32 bits.
        if !self.style.blocks || self.kernel.wide || rank < 2 || !whole || !suits {
            return None;
        }
        let is_wide = |start: &Expr| self.program.dims.iter().any(|dim| start.mentions(dim));
        let mut along: Vec<Option<(&AccessDim, &Expr)>> = vec![None; rank];
        let mut base = Expr::constant(0);
        for dim in &access.dims {
            match &dim.coordinate {
                Coordinate::At(at) if !dim.guard.below && !dim.guard.above && !access.wide => {
                    base = base + at * &dim.stride;
                }
                Coordinate::Lanes { axis, start, step: 1 } if !is_wide(start) => {
                    let free = along.get_mut(*axis).filter(|dim| dim.is_none())?;
                    *free = Some((dim, start));
                }
                _ => return None,
            }
        }
        let along: Vec<_> = along.into_iter().collect::<Option<_>>()?;
        let mut pointer = self.parameter(access.tensor);
        if !base.is(0) {
            pointer = format!("{pointer} + {}", self.index(&base).open());
        }
        let mut texts = |of: &dyn Fn(&(&AccessDim, &Expr)) -> Expr| -> String {
            let texts = along.iter().map(|dim| self.index(&of(dim)).open().to_owned());
            texts.collect::<Vec<_>>().join(", ")
        };
        let extents = texts(&|(dim, _)| dim.extent.clone());
        let strides = texts(&|(dim, _)| dim.stride.clone());
        let starts = texts(&|(_, start)| (*start).clone());
        let lengths: Vec<usize> = access.lanes.iter().map(|l| l.all).collect();
        // From the axis whose elements follow each other in memory.
        let place = |axis: &usize| {
            along
                .get(*axis)
                .and_then(|(dim, _)| access.dims.iter().position(|d| std::ptr::eq(d, *dim)))
        };
        let mut order: Vec<usize> = (0..rank).collect();
        order.sort_by_key(|axis| std::cmp::Reverse(place(axis)));
        let guarded = along
            .iter()
            .enumerate()
            .filter(|(_, (dim, _))| dim.guard.below || dim.guard.above);
        let guarded: Vec<usize> = guarded.map(|(axis, _)| axis).collect();
        let checked = match guarded.as_slice() {
            [] => String::new(),
            axes => format!(", boundary_check={}", tuple(axes)),
        };
        Some(Block {
            pointer: format!(
                "tl.make_block_ptr({pointer}, ({extents}), ({strides}), ({starts}), {}, {})",
                tuple(&lengths),
                tuple(&order)
            ),
            checked,
        })
    }

    /// The addresses of an access and the mask, if there is one.
    pub(crate) fn address(&mut self, access: &Access) -> Result<(String, Option<String>)> {
        let rank = access.lanes.len();
        let mut masks = Vec::new();
        for (axis, lanes) in access.lanes.iter().enumerate() {
            if lanes.live < lanes.all {
                let place = expand(axis, rank);
                let lane = format!("tl.arange(0, {}){place}", lanes.all);
                masks.push(format!("{lane} < {}", lanes.live));
            }
        }
        // What all lanes have in common is one sum.
        let mut common = Expr::constant(0);
        let mut terms = Vec::new();
        for dim in &access.dims {
            let (coordinate, place) = match &dim.coordinate {
                Coordinate::At(at) => {
                    if access.wide {
                        let text = format!("tl.cast({}, tl.int64)", self.index(at).open());
                        terms.push(self.scaled(text, &dim.stride));
                    } else {
                        common = common + at * &dim.stride;
                    }
                    (self.index(at).closed(), String::new())
                }
                Coordinate::AtTile(value) => {
                    let text = self.coordinate(*value)?;
                    terms.push(self.scaled(widened(&text, access), &dim.stride));
                    (text, String::new())
                }
                Coordinate::Lanes { axis, start, step } => {
                    let all = access.lanes.get(*axis).map_or(1, |l| l.all);
                    let text = self.lanes(start, *step, all);
                    let place = expand(*axis, rank);
                    terms.push(self.scaled(widened(&format!("{text}{place}"), access), &dim.stride));
                    (text, place)
                }
                Coordinate::Index { axis, value } => {
                    let text = self.coordinate(*value)?;
                    let place = expand(*axis, rank);
                    terms.push(self.scaled(widened(&format!("{text}{place}"), access), &dim.stride));
                    (text, place)
                }
            };
            if dim.guard.below {
                masks.push(format!("{coordinate}{place} >= 0"));
            }
            if dim.guard.above {
                let extent = self.index(&dim.extent).closed();
                masks.push(format!("{coordinate}{place} < {extent}"));
            }
        }
        if !common.is(0) {
            terms.insert(0, self.index(&common).open().to_owned());
        }
        terms.insert(0, self.parameter(access.tensor));
        let mask = match masks.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            _ => Some(
                masks
                    .iter()
                    .map(|m| format!("({m})"))
                    .collect::<Vec<_>>()
                    .join(" & "),
            ),
        };
        Ok((terms.join(" + "), mask))
    }

    /// The coordinates along one axis as a variable, which other accesses of the block share.
    fn lanes(&mut self, start: &Expr, step: i64, all: usize) -> String {
        let start = self.resolved(start);
        let start_text = self.index(&start);
        let lane = format!("tl.arange(0, {all})");
        let text = match (step, start.is(0)) {
            (1, true) => lane,
            (step, true) => format!("{lane} * {step}"),
            (1, false) => format!("{} + {lane}", start_text.open()),
            (-1, false) => format!("{} - {lane}", start_text.open()),
            (step, false) => format!("{} + {lane} * {step}", start_text.open()),
        };
        let symbols: Vec<String> = start.symbols().iter().map(|s| s.to_string()).collect();
        let name = match symbols.as_slice() {
            [] => "offs".to_owned(),
            names => format!("offs_{}", names.join("_")),
        };
        self.hoisted_variable(&name, text, &start.symbols())
    }

    /// A tile of indices in a type that offsets fit.
    fn coordinate(&mut self, value: Val) -> Result<String> {
        let narrow = self.dtype(value).size() < 4;
        let text = self.bound(value)?;
        Ok(if narrow {
            format!("{text}.to(tl.int32)")
        } else {
            text
        })
    }

    fn scaled(&mut self, coordinate: String, stride: &Expr) -> String {
        if stride.is(1) {
            coordinate
        } else {
            format!("{coordinate} * {}", self.index(stride).closed())
        }
    }
}

/// A coordinate in a type that offsets fit.
fn widened(coordinate: &str, access: &Access) -> String {
    if access.wide {
        format!("tl.cast({coordinate}, tl.int64)")
    } else {
        coordinate.to_owned()
    }
}
