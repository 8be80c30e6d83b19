//! Tensors while a program runs, with who wrote and read each element.

use half::{bf16, f16};

use super::element;
use super::tile::{Data, Tile};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::sketch::ir::{Scalar, StoreMode, TileType};
use crate::tensor::{Tensor, byte_len};

/// One dimension of a region with its coordinates computed.
#[derive(Debug)]
pub(super) struct Coordinates {
    /// The coordinates, possibly outside the tensor.
    pub(super) at: Vec<i64>,
    /// Whether the dimension is one of the tile's.
    pub(super) kept: bool,
}

/// Who is touching memory: programs of one epoch run at the same time, epochs one after the other. The teams of a kernel
/// run at the same time all along, each with epochs of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Toucher {
    /// Counts kernels, from 1.
    pub(super) kernel: u32,
    /// The number of the program's team.
    pub(super) team: i64,
    /// Counts the teams of all kernels and their barriers, from 1.
    pub(super) epoch: u32,
    /// The program's number.
    pub(super) program: u32,
}

impl Toucher {
    /// Whether both are members of different teams of one kernel.
    fn is_apart(&self, other: &Self) -> bool {
        self.kernel == other.kernel && self.team != other.team
    }

    /// Whether nothing orders what the programs of both do.
    fn is_unordered(&self, other: &Self) -> bool {
        self.is_apart(other) || self.epoch == other.epoch
    }
}

#[derive(Debug, Clone, Copy)]
struct Touch {
    by: Toucher,
    /// Set for a write by an atomic addition, and for reads by several programs.
    shared: bool,
    /// The number of the store, to find one that names an element twice.
    serial: u64,
}

/// A tensor of a running program.
#[derive(Debug)]
pub(super) struct Memory {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    data: Data,
    /// `None` for an input, whose elements are all there and never change.
    touches: Option<Touches>,
}

#[derive(Debug)]
struct Touches {
    /// Whether every element had a value before the first kernel.
    begun: bool,
    written: Vec<Option<Touch>>,
    read: Vec<Option<Touch>>,
    stores: u64,
}

impl Memory {
    /// A tensor that holds an input.
    pub(super) fn input(name: &str, tensor: &Tensor) -> Result<Self> {
        let data = match tensor.dtype() {
            DType::I64 => Data::Int(tensor.as_slice::<i64>()?.to_vec()),
            dtype if dtype.is_float() => Data::Float(tensor.to_f64()?),
            _ => Data::Int(tensor.to_f64()?.into_iter().map(|v| v as i64).collect()),
        };
        Ok(Self {
            name: name.to_owned(),
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
            data,
            touches: None,
        })
    }

    /// A tensor that nothing was written to.
    pub(super) fn poisoned(name: &str, dtype: DType, shape: Vec<usize>) -> Result<Self> {
        byte_len(dtype, &shape)?;
        let n = shape.iter().product();
        Ok(Self {
            name: name.to_owned(),
            dtype,
            shape,
            data: if dtype.is_float() {
                Data::Float(vec![f64::NAN; n])
            } else {
                Data::Int(vec![element::wrap(dtype, -1); n])
            },
            touches: Some(Touches {
                begun: false,
                written: vec![None; n],
                read: vec![None; n],
                stores: 0,
            }),
        })
    }

    /// The tensor with the elements of an input in place of poison.
    pub(super) fn beginning_as(self, input: &Self) -> Self {
        Self {
            data: input.data.clone(),
            touches: self.touches.map(|touches| Touches {
                begun: true,
                ..touches
            }),
            ..self
        }
    }

    /// Gives it other extents: the same elements in the same order.
    pub(super) fn see(&mut self, shape: Vec<usize>) {
        self.shape = shape;
    }

    /// The tile type of a region.
    pub(super) fn region_type(&self, region: &[Coordinates]) -> TileType {
        TileType {
            dtype: self.dtype,
            extents: region.iter().filter(|c| c.kept).map(|c| c.at.len()).collect(),
        }
    }

    /// The position of each element of a region in row-major order; `None` outside.
    fn positions(&self, region: &[Coordinates]) -> Result<Vec<Option<usize>>> {
        if region.len() != self.shape.len() {
            return Err(Error::invalid(format!(
                "a region of {} dimensions of `{}`, which has {}",
                region.len(),
                self.name,
                self.shape.len()
            )));
        }
        let mut positions = vec![Some(0)];
        for (extent, coordinates) in self.shape.iter().zip(region) {
            let inside: Vec<Option<usize>> = coordinates
                .at
                .iter()
                .map(|c| usize::try_from(*c).ok().filter(|c| c < extent))
                .collect();
            positions = positions
                .into_iter()
                .flat_map(|base: Option<usize>| inside.iter().map(move |c| Some(base? * extent + (*c)?)))
                .collect();
        }
        Ok(positions)
    }

    /// `name[1, 2]` of an element of a region, by its number in row-major order.
    fn describe(&self, region: &[Coordinates], mut number: usize) -> String {
        let mut at = Vec::with_capacity(region.len());
        for c in region.iter().rev() {
            let n = c.at.len().max(1);
            at.push(c.at.get(number % n).map_or_else(String::new, i64::to_string));
            number /= n;
        }
        at.reverse();
        format!("{}[{}]", self.name, at.join(", "))
    }

    /// Reads a region; elements outside are `fill`.
    pub(super) fn load(&mut self, region: &[Coordinates], fill: Option<Scalar>, by: Toucher) -> Result<Tile> {
        let positions = self.positions(region)?;
        for (number, position) in positions.iter().enumerate() {
            let problem = match position {
                None if fill.is_none() => {
                    Some(format!("is outside its extents {:?}; add `else`", self.shape))
                }
                None => None,
                Some(i) => self.touches.as_mut().and_then(|t| t.read(*i, by).err()),
            };
            if let Some(problem) = problem {
                let element = self.describe(region, number);
                return Err(Error::invalid(format!("load: {element} {problem}")));
            }
        }
        let ty = self.region_type(region);
        let outside = Tile::full(
            &super::tile::scalar_type(self.dtype),
            fill.unwrap_or(Scalar::Int(0)),
        );
        let data = match &self.data {
            Data::Float(values) => {
                let fill = outside.floats()?.first().copied().unwrap_or(f64::NAN);
                Data::Float(positions.iter().map(|p| p.map_or(fill, |i| values[i])).collect())
            }
            Data::Int(values) => {
                let fill = outside.ints()?.first().copied().unwrap_or_default();
                Data::Int(positions.iter().map(|p| p.map_or(fill, |i| values[i])).collect())
            }
        };
        Ok(Tile { ty, data })
    }

    /// Writes a region; elements outside are dropped.
    pub(super) fn store(
        &mut self,
        region: &[Coordinates],
        tile: &Tile,
        mode: StoreMode,
        by: Toucher,
    ) -> Result<()> {
        let positions = self.positions(region)?;
        let ty = self.region_type(region);
        if ty != tile.ty {
            return Err(Error::invalid(format!(
                "store to `{}`: the region holds {}{:?}, the tile is {}{:?}",
                self.name, ty.dtype, ty.extents, tile.ty.dtype, tile.ty.extents
            )));
        }
        let Some(touches) = &mut self.touches else {
            return Err(Error::invalid(format!(
                "`{}` is an input and cannot be stored to",
                self.name
            )));
        };
        touches.stores += 1;
        for (number, position) in positions.iter().enumerate() {
            let Some(i) = position else { continue };
            if let Err(problem) = touches.write(*i, by, mode) {
                let element = self.describe(region, number);
                return Err(Error::invalid(format!("store: {element} {problem}")));
            }
            match (&mut self.data, &tile.data, mode) {
                (Data::Float(to), Data::Float(from), StoreMode::Set) => to[*i] = from[number],
                (Data::Float(to), Data::Float(from), StoreMode::AtomicAdd) => {
                    to[*i] = element::round(self.dtype, to[*i] + from[number]);
                }
                (Data::Int(to), Data::Int(from), StoreMode::Set) => to[*i] = from[number],
                (Data::Int(to), Data::Int(from), StoreMode::AtomicAdd) => {
                    to[*i] = element::wrap(self.dtype, to[*i].wrapping_add(from[number]));
                }
                _ => return Err(Error::unexpected("a tile's elements do not have its type")),
            }
        }
        Ok(())
    }

    /// The finished tensor; an error names the first element that nothing was written to.
    pub(super) fn finish(self) -> Result<Tensor> {
        let hole = self
            .touches
            .iter()
            .filter(|t| !t.begun)
            .find_map(|t| t.written.iter().position(Option::is_none));
        if let Some(mut position) = hole {
            let mut at = Vec::with_capacity(self.shape.len());
            for extent in self.shape.iter().rev() {
                at.push(position % extent);
                position /= extent;
            }
            at.reverse();
            return Err(Error::invalid(format!(
                "output `{}`{at:?} is never stored",
                self.name
            )));
        }
        match (&self.data, self.dtype) {
            (Data::Float(v), DType::F16) => Tensor::from_slice(
                self.shape,
                &v.iter().map(|v| f16::from_f64(*v)).collect::<Vec<_>>(),
            ),
            (Data::Float(v), DType::BF16) => Tensor::from_slice(
                self.shape,
                &v.iter().map(|v| bf16::from_f64(*v)).collect::<Vec<_>>(),
            ),
            (Data::Float(v), DType::F32) => {
                Tensor::from_slice(self.shape, &v.iter().map(|v| *v as f32).collect::<Vec<_>>())
            }
            (Data::Float(v), _) => Tensor::from_slice(self.shape, v),
            (Data::Int(v), DType::I64) => Tensor::from_slice(self.shape, v),
            (Data::Int(v), DType::I32) => {
                Tensor::from_slice(self.shape, &v.iter().map(|v| *v as i32).collect::<Vec<_>>())
            }
            (Data::Int(v), DType::I16) => {
                Tensor::from_slice(self.shape, &v.iter().map(|v| *v as i16).collect::<Vec<_>>())
            }
            (Data::Int(v), dtype) => {
                let bytes: Vec<u8> = v.iter().map(|v| *v as u8).collect();
                Tensor::from_bytes(dtype, self.shape, &bytes)
            }
        }
    }
}

impl Touches {
    fn read(&mut self, i: usize, by: Toucher) -> Result<(), String> {
        match self.written[i] {
            None if self.begun => {}
            None => return Err("was never written".into()),
            Some(written) if written.by.is_unordered(&by) && written.by.program != by.program => {
                return Err(format!(
                    "is written by program {} and read by program {} at the same time",
                    written.by.program, by.program
                ));
            }
            Some(_) => {}
        }
        // No later write of this team is ordered with the read of another one, which stays known for that.
        if self.read[i].is_some_and(|r| r.by.is_apart(&by)) {
            return Ok(());
        }
        let shared =
            self.read[i].is_some_and(|r| r.by.epoch == by.epoch && (r.shared || r.by.program != by.program));
        self.read[i] = Some(Touch {
            by,
            shared,
            serial: 0,
        });
        Ok(())
    }

    fn write(&mut self, i: usize, by: Toucher, mode: StoreMode) -> Result<(), String> {
        let atomic = mode == StoreMode::AtomicAdd;
        if let Some(read) = self.read[i]
            && read.by.is_unordered(&by)
            && (read.shared || read.by.program != by.program)
        {
            return Err(format!(
                "is read by program {} and written by program {} at the same time",
                read.by.program, by.program
            ));
        }
        match self.written[i] {
            None if atomic && !self.begun => return Err("was never written and cannot be added to".into()),
            Some(written) if !(atomic && written.shared) => {
                if written.by.is_unordered(&by) && written.by.program != by.program {
                    return Err(format!(
                        "is written by programs {} and {} at the same time",
                        written.by.program, by.program
                    ));
                }
                if written.serial == self.stores {
                    return Err("is written twice by one store".into());
                }
            }
            _ => {}
        }
        self.written[i] = Some(Touch {
            by,
            shared: atomic,
            serial: self.stores,
        });
        Ok(())
    }
}
