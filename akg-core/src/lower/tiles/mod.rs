//! The mapping to tile machines: languages whose statements work on whole tiles of one program.
//!
//! [`map`] turns a typed sketch into a [`TileProgram`], statement by statement. What such languages leave to their
//! user is written out, so that a printer only prints:
//!
//! - extents are rounded up as the language's [`TileRules`] ask, and lanes beyond the sketch's extent are masked at
//!   every load and store and neutral at every reduction, scan and dot;
//! - a grid is one number of programs, from which [`TileStmt::Let`] recovers the program indices; a loop nest is one
//!   counter in the same way;
//! - an access is coordinates, strides and the comparisons that cannot be proven, with the width of its offsets;
//! - a dot says whether its sum may stay in the accumulator, and operands have the types that its method reads.

mod dot;
mod map;
mod regroup;
#[cfg(test)]
mod tests;

pub use map::map;

use crate::expr::{Expr, Symbol};
use crate::lower::analysis::{Facts, Guard};
use crate::lower::grid::Teams;
use crate::sketch::ir::{
    Carried, Condition, DotMethod, Merge, Op, Scalar, StoreMode, TensorId, TileType, Val,
};
use crate::source::{Launch, LaunchPlan, PlanTensor};
use crate::task::Accuracy;

/// What a tile language asks of tiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileRules {
    /// Whether every extent must be a power of two.
    pub power_of_two_extents: bool,
    /// The least number of products that a dot sums; shorter ones become a broadcast product and a reduction.
    pub min_contraction: usize,
}

impl Default for TileRules {
    /// Any extent, any dot.
    fn default() -> Self {
        Self {
            power_of_two_extents: false,
            min_contraction: 1,
        }
    }
}

impl TileRules {
    /// The extent that a tile has on the machine for `extent` elements of the sketch.
    pub fn round_up(&self, extent: usize) -> usize {
        if self.power_of_two_extents {
            extent.next_power_of_two()
        } else {
            extent
        }
    }
}

/// A sketch for tile machines.
#[derive(Debug, Clone, PartialEq)]
pub struct TileProgram {
    /// The sketch's name.
    pub name: String,
    /// The tensors; [`TensorId`] indexes them.
    pub tensors: Vec<PlanTensor>,
    /// Extents that kernels take as arguments.
    pub dims: Vec<Symbol>,
    /// The class that results are for. Beyond fp32, functions may err by what the class has room for.
    pub accuracy: Accuracy,
    /// The kernels in launch order.
    pub kernels: Vec<TileKernel>,
}

impl TileProgram {
    /// How to run the kernels: each takes its [`TileKernel::tensors`], then the dims.
    pub fn plan(&self) -> LaunchPlan {
        let launch = |kernel: &TileKernel| Launch {
            kernel: kernel.name.clone(),
            grid: vec![kernel.programs.clone()],
            tensors: kernel.tensors.iter().map(|t| t.0).collect(),
            cooperative: kernel.teams.is_some(),
            doc: kernel.doc.clone(),
        };
        LaunchPlan {
            dims: self.dims.clone(),
            tensors: self.tensors.clone(),
            launches: self.kernels.iter().map(launch).collect(),
        }
    }
}

/// A kernel for tile machines.
#[derive(Debug, Clone, PartialEq)]
pub struct TileKernel {
    /// Unique in the program, and a C identifier.
    pub name: String,
    /// What the kernel does, for people.
    pub doc: String,
    /// The programs that meet at barriers, if all run at the same time.
    pub teams: Option<Teams>,
    /// The tensors that it reads or writes, in order of first use.
    pub tensors: Vec<TensorId>,
    /// The symbol of the program's number, from 0.
    pub program: Symbol,
    /// How many programs there are.
    pub programs: Expr,
    /// Whether index arithmetic may leave 32-bit integers.
    pub wide: bool,
    /// What is known of every symbol in the kernel's expressions.
    pub facts: Facts,
    /// Every tile; [`Val`] indexes it.
    pub values: Vec<TileValue>,
    /// The statements.
    pub body: Vec<TileStmt>,
}

impl TileKernel {
    /// A tile.
    pub fn value(&self, value: Val) -> &TileValue {
        &self.values[value.0 as usize]
    }
}

/// A tile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileValue {
    /// Its type in the sketch.
    pub ty: TileType,
    /// The extents that it has on the machine, each at least as large. Lanes beyond the sketch's extents hold anything.
    pub extents: Vec<usize>,
    /// The name it has in the sketch; empty for intermediate results.
    pub name: String,
}

impl TileValue {
    /// Whether there are lanes beyond the sketch's extent along `axis`.
    pub fn padded(&self, axis: usize) -> bool {
        self.ty.extents.get(axis) != self.extents.get(axis)
    }
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum TileStmt {
    /// Names the value of an index expression.
    Let {
        /// The name.
        symbol: Symbol,
        /// The value.
        value: Expr,
    },
    /// Defines a tile.
    Define {
        /// The tile.
        value: Val,
        /// How it is computed.
        op: TileOp,
    },
    /// Writes a tile where the access is inside its tensor and its lanes exist.
    Store {
        /// Where to.
        access: Access,
        /// The tile.
        value: Val,
        /// Whether it replaces or adds.
        mode: StoreMode,
    },
    /// A loop of one counter.
    For(TileLoop),
    /// A branch that all of the program takes.
    If {
        /// The same for the whole program.
        condition: Condition,
        /// Statements if it holds.
        then: Vec<TileStmt>,
        /// Statements if not.
        otherwise: Vec<TileStmt>,
        /// Tiles that differ by the branch taken.
        merges: Vec<Merge>,
    },
    /// Waits for every program of the team.
    Barrier,
}

/// A loop of one counter.
#[derive(Debug, Clone, PartialEq)]
pub struct TileLoop {
    /// The counter.
    pub symbol: Symbol,
    /// First value.
    pub lo: Expr,
    /// The end, not reached.
    pub hi: Expr,
    /// The increment, positive.
    pub step: i64,
    /// Tiles that pass from one iteration to the next.
    pub carried: Vec<Carried>,
    /// The statements.
    pub body: Vec<TileStmt>,
    /// Hint: software pipelining depth.
    pub pipeline: Option<i64>,
    /// Hint: unroll.
    pub unroll: bool,
}

/// How a tile is computed.
#[derive(Debug, Clone, PartialEq)]
pub enum TileOp {
    /// Reads a region.
    Load {
        /// Where from.
        access: Access,
        /// What lanes have that are outside the tensor or beyond the sketch's extent.
        fill: Scalar,
    },
    /// Lanes along `axis` outside `keep` become `other`.
    Mask {
        /// The tile.
        value: Val,
        /// The axis.
        axis: usize,
        /// The lanes that stay.
        keep: std::ops::Range<usize>,
        /// What the other lanes become.
        other: Scalar,
    },
    /// `a [M, K] times b [K, N]`, added to `init`. The result has the type that sums have on the machine: f64 for f64
    /// operands, i32 for integers, f32 for others.
    Dot {
        /// Left operand, of the type that the method reads.
        a: Val,
        /// Right operand, of the type that the method reads.
        b: Val,
        /// The accumulator, of the result's type.
        init: Option<Val>,
        /// How operands are read.
        method: DotMethod,
        /// Whether the sum must be rounded before anything is added to it: an addition that follows must not become
        /// part of the dot.
        separate: bool,
    },
    /// As [`Op::Reshape`], by the sketch's extents: where lanes beyond them are between elements, these must move.
    Regroup(Val),
    /// Any other operator, on the machine's extents: never [`Op::Load`] or [`Op::Dot`]. A [`Op::Reshape`] keeps the
    /// row-major order of the machine's extents.
    Plain(Op),
}

/// Where a load or store goes in a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Access {
    /// The tensor.
    pub tensor: TensorId,
    /// One entry for each of its dimensions.
    pub dims: Vec<AccessDim>,
    /// One entry for each axis of the tile.
    pub lanes: Vec<Lanes>,
    /// Whether offsets may leave 32-bit integers.
    pub wide: bool,
}

/// The lanes along one axis of an accessed tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lanes {
    /// Lanes that exist in the sketch, from 0.
    pub live: usize,
    /// Lanes on the machine.
    pub all: usize,
}

/// One dimension of an access.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessDim {
    /// The coordinate.
    pub coordinate: Coordinate,
    /// Elements between neighbours.
    pub stride: Expr,
    /// Elements in the dimension.
    pub extent: Expr,
    /// The comparisons that decide whether a coordinate is inside.
    pub guard: Guard,
}

/// A coordinate, which may differ by lane.
#[derive(Debug, Clone, PartialEq)]
pub enum Coordinate {
    /// The same for all lanes.
    At(Expr),
    /// The value of a rank-0 tile.
    AtTile(Val),
    /// `start + step * lane` along an axis of the tile.
    Lanes {
        /// The axis.
        axis: usize,
        /// The coordinate of lane 0.
        start: Expr,
        /// The distance.
        step: i64,
    },
    /// The element of a rank-1 tile along an axis of the tile.
    Index {
        /// The axis.
        axis: usize,
        /// The rank-1 tile.
        value: Val,
    },
}
