//! How many bytes of tiles a program holds at once.

use crate::sketch::ir::{Kernel, Op, Stmt, TileType, Val, region_operands};

/// The largest number of bytes of tile values that are live at the same time, if an operator may overwrite a dying
/// operand where its result fits. Tiles loaded in a pipelined loop count once for each stage. The values of `combine`
/// are not counted.
pub(super) fn peak_tile_bytes(kernel: &Kernel) -> u64 {
    let mut walk = Walk {
        kernel,
        position: 0,
        lives: vec![None; kernel.values.len()],
        used: Vec::new(),
        stages: 1,
        copies: vec![1; kernel.values.len()],
        definitions: Vec::new(),
    };
    walk.body(&kernel.body);
    walk.peak()
}

/// Where a value is defined and last used.
#[derive(Clone, Copy)]
struct Life {
    from: usize,
    to: usize,
}

struct Walk<'k> {
    kernel: &'k Kernel,
    position: usize,
    lives: Vec<Option<Life>>,
    /// Values used so far, in order, to extend the lives of those that a loop body uses from outside.
    used: Vec<Val>,
    /// Stages of the innermost pipelined loop around the position.
    stages: u64,
    /// How many times each value is held.
    copies: Vec<u64>,
    definitions: Vec<(usize, Val, &'k Op)>,
}

impl<'k> Walk<'k> {
    fn define(&mut self, value: Val) {
        if let Some(life) = self.lives.get_mut(value.0 as usize) {
            *life = Some(Life {
                from: self.position,
                to: self.position,
            });
        }
    }

    fn read(&mut self, value: Val) {
        self.used.push(value);
        if let Some(Some(life)) = self.lives.get_mut(value.0 as usize) {
            life.to = life.to.max(self.position);
        }
    }

    fn body(&mut self, body: &'k [Stmt]) {
        for stmt in body {
            self.position += 1;
            match stmt {
                Stmt::Define { value, op, .. } => {
                    for operand in op.operands() {
                        self.read(operand);
                    }
                    self.define(*value);
                    if let (Op::Load { .. }, Some(copies)) = (op, self.copies.get_mut(value.0 as usize)) {
                        *copies = self.stages;
                    }
                    self.definitions.push((self.position, *value, op));
                }
                Stmt::Store { region, value, .. } => {
                    for operand in region_operands(region) {
                        self.read(operand);
                    }
                    self.read(*value);
                }
                Stmt::For(l) => {
                    let (start, first_use) = (self.position, self.used.len());
                    for carried in &l.carried {
                        self.read(carried.initial);
                        self.define(carried.inner);
                    }
                    let stages = self.stages;
                    if let Some(depth) = l.pipeline {
                        self.stages = depth.max(1) as u64;
                    }
                    self.body(&l.body);
                    self.stages = stages;
                    self.position += 1;
                    let from_outside = |value: &Val| {
                        let life = self.lives.get(value.0 as usize).copied().flatten();
                        life.is_some_and(|life| life.from < start)
                            && !l.carried.iter().any(|c| c.initial == *value)
                    };
                    let outside: Vec<Val> = self.used[first_use..]
                        .iter()
                        .copied()
                        .filter(from_outside)
                        .collect();
                    for value in outside {
                        self.read(value);
                    }
                    for carried in &l.carried {
                        self.read(carried.next);
                        self.define(carried.result);
                    }
                }
                Stmt::If(b) => {
                    self.body(&b.then);
                    self.body(&b.otherwise);
                    self.position += 1;
                    for merge in &b.merges {
                        self.read(merge.then);
                        self.read(merge.otherwise);
                        self.define(merge.result);
                    }
                }
                Stmt::Barrier => {}
            }
        }
    }

    fn bytes(&self, value: Val) -> u64 {
        let copies = self.copies.get(value.0 as usize).copied().unwrap_or(1);
        self.kernel
            .values
            .get(value.0 as usize)
            .map_or(0, |info| tile_bytes(&info.ty) * copies)
    }

    fn peak(&self) -> u64 {
        let values = || {
            let lives = self.lives.iter().enumerate();
            lives.filter_map(|(i, life)| Some((Val(i as u32), (*life)?)))
        };
        let at = |(position, value, op): &(usize, Val, &Op)| {
            let around: u64 = values()
                .filter(|(_, life)| life.from < *position && *position <= life.to)
                .map(|(v, _)| self.bytes(v))
                .sum();
            let result = self.bytes(*value);
            let dies = |v: &Val| {
                let life = self.lives.get(v.0 as usize).copied().flatten();
                life.is_some_and(|life| life.to == *position) && self.bytes(*v) >= result
            };
            let reused = replaceable(op).iter().any(dies);
            around + if reused { 0 } else { result }
        };
        self.definitions.iter().map(at).max().unwrap_or(0)
    }
}

/// The operands whose memory the result may take element by element.
fn replaceable(op: &Op) -> Vec<Val> {
    match op {
        Op::Dot { init, .. } => init.iter().copied().collect(),
        Op::Load { .. } | Op::Reduce(..) | Op::ArgReduce(..) => Vec::new(),
        _ => op.operands(),
    }
}

fn tile_bytes(ty: &TileType) -> u64 {
    (ty.dtype.size() * ty.extents.iter().product::<usize>()) as u64
}
