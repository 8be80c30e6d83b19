//! Which axes of a kernel are tiled, and the lengths of the tiles.

use std::collections::{BTreeSet, HashMap};

use super::scan::is_reversed;
use crate::designer::device::Device;
use crate::designer::plan::{Axis, KernelPlan, Operand, Plan};
use crate::designer::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::sketch::ir::ReduceOp;

/// Elements of a tile that holds columns as a whole.
const COLUMNS: i64 = 8192;

/// How long a tile along a reduced contiguous axis is.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowTile {
    /// The longest extent that one tile holds.
    longest: i64,
    /// The longest of several along an extent that they divide.
    most: i64,
    /// The length where no sensible one divides the extent.
    uneven: i64,
    /// Elements that a tile of several short rows aims at.
    several: i64,
}

/// Lengths of tiles that suit a device, the default first.
pub(super) struct Lengths {
    whole_row: RowTile,
    /// The same for scans, whose results are a tile of their own.
    scanned_row: RowTile,
    /// The same for scans from the end.
    reversed_row: RowTile,
    /// The same for rows of which functions are summed.
    busy_row: RowTile,
    /// The same for a row that one program of a core reads twice, and finds in the cache the second time.
    cached_row: RowTile,
    /// Elements that a tile of several short rows has at least, where few programs have long walks.
    fewest: i64,
    /// The most rows that one tile holds as a whole if they are reduced.
    whole_column: i64,
    /// Whether lengths must be powers of two.
    powers: bool,
    /// Elements of an element-wise tile.
    chain: [i64; 2],
    /// Elements of an element-wise tile whose rows are short.
    rows: i64,
    /// Rows and columns of a tile whose rows are reduced.
    columns: ([i64; 2], [i64; 2]),
    /// Rows and columns of a tile that some tensor sees transposed.
    transposed: ([i64; 2], [i64; 2]),
    /// Elements, and columns at most, of a tile of what sliding windows combine.
    places: (i64, i64),
}

impl Lengths {
    pub(super) fn of(device: Device<'_>) -> Self {
        if device.shares_tiles() {
            Self {
                whole_row: RowTile {
                    longest: 16384,
                    most: 8192,
                    uneven: 8192,
                    several: 4096,
                },
                busy_row: RowTile {
                    longest: 16384,
                    most: 4096,
                    uneven: 4096,
                    several: 4096,
                },
                cached_row: RowTile {
                    longest: 32768,
                    most: 32768,
                    uneven: 32768,
                    several: 4096,
                },
                fewest: 512,
                whole_column: 128,
                scanned_row: RowTile {
                    longest: 2048,
                    most: 2048,
                    uneven: 1024,
                    several: 2048,
                },
                // Few warps exchange totals.
                reversed_row: RowTile {
                    longest: 2048,
                    most: 1024,
                    uneven: 1024,
                    several: 512,
                },
                powers: true,
                chain: [1024, 2048],
                rows: 4096,
                columns: ([32, 16], [128, 64]),
                transposed: ([64, 32], [64, 32]),
                places: (1024, 128),
            }
        } else {
            let whole_row = RowTile {
                longest: 8192,
                most: 8192,
                uneven: 4096,
                several: 4096,
            };
            let scanned_row = RowTile {
                longest: 2048,
                most: 2048,
                uneven: 1024,
                several: 4096,
            };
            Self {
                whole_row,
                busy_row: whole_row,
                cached_row: whole_row,
                fewest: 4096,
                whole_column: 0,
                scanned_row,
                reversed_row: scanned_row,
                powers: false,
                chain: [16384, 4096],
                rows: 4096,
                columns: ([128, 32], [512, 128]),
                transposed: ([64, 32], [64, 128]),
                places: (4096, 512),
            }
        }
    }

    /// How long the tiles of rows are that `kernel` reduces.
    pub(super) fn row(&self, device: Device<'_>, plan: &Plan, prims: &Prims, kernel: &KernelPlan) -> RowTile {
        let is_scan = |id: &PrimId| matches!(prims.node(*id).prim, Prim::Scan(..));
        if is_reversed(prims, kernel) {
            return self.reversed_row;
        }
        if kernel.nodes.iter().any(is_scan) {
            return self.scanned_row;
        }
        if is_busy(prims, kernel) {
            return self.busy_row;
        }
        match (row_bytes(plan, kernel), device.second_read()) {
            (Some(bytes), Some(cached)) if bytes <= cached => self.cached_row,
            _ => self.whole_row,
        }
    }
}

/// Which axes are tiled, and in which order all are walked.
pub(super) struct Shape {
    pub(super) order: Vec<Axis>,
    pub(super) tile: Vec<Axis>,
    /// Whether tiles hold the places of sliding windows, which programs walk along otherwise.
    slides: bool,
}

impl Shape {
    pub(super) fn choose(kernel: &KernelPlan) -> Self {
        let lists: Vec<Vec<Axis>> = kernel.accesses().map(|a| kernel.walked(a)).collect();
        let size = |list: &[Axis]| -> i64 {
            list.iter()
                .map(|a| kernel.extents[*a].as_const().unwrap_or(1 << 20))
                .fold(1, i64::saturating_mul)
        };
        let mut order: Vec<Axis> = lists
            .iter()
            .max_by_key(|l| (l.len(), size(l)))
            .cloned()
            .unwrap_or_default();
        for axis in kernel.axes.values().chain(&lists).flatten() {
            if !order.contains(axis) {
                order.insert(0, *axis);
            }
        }
        let taps = kernel.taps();
        let slides = !taps.is_empty() && kernel.reduced.is_subset(&taps);
        let places = order.iter().rev().copied().filter(|a| !taps.contains(a));
        let Some(inner) = places.clone().next().filter(|_| !order.is_empty()) else {
            return Self {
                order,
                tile: Vec::new(),
                slides,
            };
        };
        let last_other = |keep: &dyn Fn(Axis) -> bool| {
            let ends = lists
                .iter()
                .filter(|l| l.len() > 1)
                .filter_map(|l| l.last().copied());
            ends.into_iter()
                .find(|a| *a != inner && !taps.contains(a) && keep(*a))
        };
        let before = |keep: &dyn Fn(Axis) -> bool| places.clone().skip(1).find(|a| keep(*a));
        let reduced = |a: Axis| kernel.reduced.contains(&a);
        let outer = if slides {
            before(&|_| true)
        } else if kernel.reduced.is_empty() {
            let short = kernel.extents[inner].as_const().is_some_and(|e| e < 64);
            last_other(&|_| true).or_else(|| if short { before(&|_| true) } else { None })
        } else if reduced(inner) {
            last_other(&|a| !reduced(a)).or_else(|| before(&|a| !reduced(a)))
        } else {
            before(&reduced)
        };
        let tile = order
            .iter()
            .copied()
            .filter(|a| *a == inner || Some(*a) == outer)
            .collect();
        Self { order, tile, slides }
    }

    /// Knob name and legal tile lengths of each tiled axis, the default first; `row` is for reduced contiguous axes, and
    /// `enough` programs keep the device busy.
    pub(super) fn blocks(
        &self,
        kernel: &KernelPlan,
        tiles: &Lengths,
        row: RowTile,
        enough: i64,
    ) -> HashMap<Axis, (&'static str, Vec<i64>)> {
        let extent = |a: Axis| kernel.extents[a].as_const();
        let cut = |a: Axis, lengths: &[i64]| -> Vec<i64> {
            let mut out: Vec<i64> = Vec::new();
            for length in lengths {
                let length = extent(a).map_or(*length, |e| (*length).min(e.max(1)));
                if !out.contains(&length) {
                    out.push(length);
                }
            }
            out
        };
        let mut blocks = HashMap::new();
        match self.tile.as_slice() {
            [a] if kernel.reduced.contains(a) => {
                blocks.insert(*a, ("BL", row_lengths(extent(*a), row, tiles.powers)));
            }
            [a] => {
                blocks.insert(*a, ("BN", cut(*a, &tiles.chain)));
            }
            [a, b] if kernel.reduced.contains(b) => {
                let lengths = row_lengths(extent(*b), row, tiles.powers);
                let longest = lengths.iter().copied().max().unwrap_or(1);
                let mut rows = u64::try_from(row.several / longest)
                    .unwrap_or(1)
                    .max(1)
                    .next_power_of_two() as i64;
                let kept = self
                    .order
                    .iter()
                    .filter(|x| *x != a && !kernel.reduced.contains(x));
                let others = kept.fold(1, |n: i64, x| n.saturating_mul(extent(*x).unwrap_or(enough)));
                let programs = |rows: i64| extent(*a).map_or(enough, |e| others.saturating_mul(e / rows));
                let is_walk = kernel.reduced.len() > 1 || extent(*b).is_none_or(|e| e > longest);
                while is_walk && rows > 1 && rows / 2 * longest >= tiles.fewest && programs(rows) < enough {
                    rows /= 2;
                }
                // A single long row is a tile of one dimension: what varies along nothing else is then a number.
                if rows > 1 {
                    blocks.insert(*a, ("BR", cut(*a, &[rows])));
                }
                blocks.insert(*b, ("BL", lengths));
            }
            // Short columns are read once.
            [a, b] if kernel.reduced.contains(a) && extent(*a).is_some_and(|e| e <= tiles.whole_column) => {
                let rows = extent(*a).map_or(1, |e| e.max(1) as u64).next_power_of_two() as i64;
                let columns = (COLUMNS / rows).clamp(32, 128);
                blocks.insert(*a, ("BR", cut(*a, &[rows])));
                blocks.insert(*b, ("BC", cut(*b, &[columns, 64])));
            }
            [a, b] if kernel.reduced.contains(a) => {
                blocks.insert(*a, ("BR", cut(*a, &tiles.columns.0)));
                blocks.insert(*b, ("BC", cut(*b, &tiles.columns.1)));
            }
            [a, b] if self.slides => {
                let (elements, most) = tiles.places;
                let columns = extent(*b).map_or(most, |e| e.max(1).min(most));
                let columns = if tiles.powers {
                    (columns as u64).next_power_of_two() as i64
                } else {
                    columns
                };
                let rows = (elements / columns).max(1);
                blocks.insert(*a, ("BR", cut(*a, &[rows, (rows / 4).max(1)])));
                blocks.insert(*b, ("BC", vec![columns]));
            }
            [a, b] => {
                let short = extent(*b).filter(|e| *e < 64);
                let lengths = short.map_or(tiles.transposed.0, |e| [tiles.rows / e.max(1), 256]);
                blocks.insert(*a, ("BR", cut(*a, &lengths)));
                blocks.insert(
                    *b,
                    (
                        "BC",
                        cut(*b, &short.map_or(tiles.transposed.1, |e| [e.max(1); 2])),
                    ),
                );
            }
            _ => {}
        }
        blocks
    }
}

/// Whether a kernel only sums, and what it sums are functions such as logarithms of its elements: threads then compute more
/// than they wait for memory.
pub(super) fn is_busy(prims: &Prims, kernel: &KernelPlan) -> bool {
    let varies = |axes: &[Axis]| axes.iter().any(|a| kernel.reduced.contains(a));
    let is_function = |id: &PrimId| match prims.node(*id).prim {
        Prim::Map(MapOp::Unary(op), _) => {
            op.is_transcendental() && kernel.axes.get(id).is_some_and(|axes| varies(axes))
        }
        _ => false,
    };
    let combines_else = |id: &PrimId| match prims.node(*id).prim {
        Prim::Reduce(op, ..) => op != ReduceOp::Sum,
        Prim::ArgReduce(..) | Prim::Scan(..) => true,
        _ => false,
    };
    kernel.nodes.iter().any(is_function)
        && !kernel.nodes.iter().any(combines_else)
        && !kernel.stores.iter().any(|(_, access)| varies(&access.axes))
}

/// Bytes of a row of the only tensor that varies along the reduced axis of a kernel that reads it again for what it stores;
/// `None` for other kernels.
fn row_bytes(plan: &Plan, kernel: &KernelPlan) -> Option<i64> {
    let row = *kernel.reduced.first().filter(|_| kernel.reduced.len() == 1)?;
    let (mut read, mut written) = (BTreeSet::new(), false);
    for operand in kernel.operands.values() {
        if let Operand::Load(access) = operand
            && access.axes.contains(&row)
        {
            read.insert(&access.tensor);
        }
    }
    for (_, access) in &kernel.stores {
        written |= access.axes.contains(&row);
    }
    let tensor = *read.first().filter(|_| read.len() == 1 && written)?;
    let (dtype, _) = plan.tensors.get(tensor)?;
    kernel
        .extents
        .get(row)?
        .as_const()?
        .checked_mul(dtype.size() as i64)
}

/// Bytes of the tensors that vary along reduced axes alone: every row reads all of them.
pub(super) fn column_bytes(plan: &Plan, kernel: &KernelPlan) -> i64 {
    let loaded = kernel.operands.values().filter_map(|operand| match operand {
        Operand::Load(access) => Some(access),
        _ => None,
    });
    let shared = loaded.filter(|access| {
        !access.axes.is_empty() && access.axes.iter().all(|axis| kernel.reduced.contains(axis))
    });
    let tensors: BTreeSet<_> = shared.map(|access| &access.tensor).collect();
    let bytes = |(dtype, extents): &(DType, Vec<Expr>)| {
        let extents = extents.iter().map(|e| e.as_const().unwrap_or(1));
        extents.fold(dtype.size() as i64, i64::saturating_mul)
    };
    let tensors = tensors.into_iter().filter_map(|tensor| plan.tensors.get(tensor));
    tensors.map(bytes).fold(0, i64::saturating_add)
}

/// Tile lengths along a reduced contiguous axis: all of it if it is short, else long divisors, else any length.
fn row_lengths(extent: Option<i64>, row: RowTile, powers: bool) -> Vec<i64> {
    let RowTile {
        longest,
        most,
        uneven,
        ..
    } = row;
    let fits = |length: &i64| {
        if powers {
            length.count_ones() == 1
        } else {
            length % 16 == 0
        }
    };
    match extent {
        Some(e) if e <= longest => vec![e.max(1)],
        Some(e) => match (most / 8..=most).rev().find(|b| e % b == 0 && fits(b)) {
            Some(b) => vec![b],
            None => vec![uneven, uneven / 4],
        },
        None => vec![1024],
    }
}
