//! The elements of one input.

use std::ops::Range;

use half::{bf16, f16};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::distribution::Distribution;
use super::harvest::InputFacts;
use super::integers::Domain;
use super::normal::{hash, mix, normal, uniform};
use super::rows::{Row, Rows, Strewing, Strewn, Structure, power_of_two};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Bindings;
use crate::graph::InputKind;
use crate::task::{Generator, Task};

/// Elements that one generator makes; chunks are independent so that threads can share the work.
pub(in crate::verify) const CHUNK: usize = 1 << 20;

/// Elements that are made at a time.
const BLOCK: usize = 512;

/// Values that arithmetic treats unlike others.
const SPECIAL: [f32; 8] = [
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    0.0,
    -0.0,
    f32::MIN_POSITIVE / 4.0,
    1.0,
    -1.0,
];

/// Makes the elements of one input, in chunks.
pub(in crate::verify) struct Stream {
    distribution: Distribution,
    generator: Generator,
    gain: f32,
    seed: u64,
    kind: InputKind,
    /// The input's number.
    position: usize,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    /// The values of an integer type.
    domain: Domain,
    /// Values about the graph's constants that elements may have.
    points: Vec<f64>,
    /// The exponents of two that rows along the last axis are scaled by.
    gains: Option<(i32, i32)>,
    /// Which rows have a structure.
    strewn: Option<Strewn>,
    /// True if integers come in runs of equal ones.
    has_runs: bool,
    /// The value of all elements of a weight.
    neutral: Option<f32>,
    is_positive: bool,
    /// True if elements lose their sign.
    is_magnitude: bool,
    /// Elements of a row along the last axis.
    row: usize,
    elements: usize,
}

/// Most distributions scale and shift a number that is symmetric about 0 with variance 1.
#[derive(Clone, Copy)]
struct Affine {
    /// A power of two.
    scale: f32,
    shift: f32,
    gain: f32,
}

impl Affine {
    #[inline(always)]
    fn of(self, signed: f32) -> f32 {
        (signed * self.scale + self.shift) * self.gain
    }
}

/// An element type that floating numbers are rounded to.
trait Floating: bytemuck::Pod + Into<f64> {
    /// Whether a number of single precision leaves bits of it zero.
    const IS_WIDE: bool = false;

    fn of(value: f32) -> Self;
    fn of_wide(value: f64) -> Self;
}

impl Floating for f32 {
    fn of(value: f32) -> Self {
        value
    }
    fn of_wide(value: f64) -> Self {
        value as f32
    }
}

impl Floating for f64 {
    const IS_WIDE: bool = true;

    fn of(value: f32) -> Self {
        f64::from(value)
    }
    fn of_wide(value: f64) -> Self {
        value
    }
}

impl Floating for f16 {
    fn of(value: f32) -> Self {
        f16::from_f32(value)
    }
    fn of_wide(value: f64) -> Self {
        f16::from_f64(value)
    }
}

impl Floating for bf16 {
    fn of(value: f32) -> Self {
        bf16::from_f32(value)
    }
    fn of_wide(value: f64) -> Self {
        bf16::from_f64(value)
    }
}

fn elements<T: bytemuck::Pod>(chunk: &mut [u8]) -> Result<&mut [T]> {
    bytemuck::try_cast_slice_mut(chunk)
        .map_err(|e| Error::unexpected(format!("input memory is misaligned: {e}")))
}

impl Stream {
    pub(super) fn new(
        task: &Task,
        facts: &InputFacts,
        distribution: Distribution,
        seed: u64,
        dims: &Bindings,
        position: usize,
    ) -> Result<Self> {
        let graph = &task.graph;
        let input = graph
            .inputs()
            .get(position)
            .ok_or_else(|| Error::unexpected(format!("the graph has no input {position}")))?;
        let ty = graph.ty(input.value);
        let shape = ty.concrete_shape(dims)?;
        let fan_in: usize = shape.iter().skip(1).product();
        let gain = match input.kind {
            InputKind::Weight if shape.len() > 1 => 1.0 / (fan_in.max(1) as f32).sqrt(),
            _ => 1.0,
        };
        let generator = task
            .contract
            .generators
            .get(position)
            .copied()
            .unwrap_or_default();
        let seed = mix(mix(seed, distribution.salt()), position as u64);
        let domain = Domain::new(
            ty.dtype,
            input.kind,
            generator,
            &facts.integers,
            distribution,
            dims,
        );
        let is_data = input.kind == InputKind::Activation;
        let at_thresholds = distribution == Distribution::Thresholds && input.kind != InputKind::State;
        let mut points: Vec<f64> = Vec::new();
        if at_thresholds {
            points.extend(facts.targets.iter().flat_map(|target| target.values(ty.dtype)));
            if !ty.dtype.is_float() {
                points.retain(|p| p.abs() < 9e15 && domain.nearest(*p as i64) == *p as i64);
            }
        }
        let reach = facts.reach.filter(|_| at_thresholds && is_data);
        // The storage of a layout as rows; what is reduced is said of the tensor.
        let seen = input.layout.as_ref().map(|layout| layout.storage_rows());
        let reduced = facts.reduced.filter(|_| seen.is_none());
        let seen = seen.map_or_else(|| shape.clone(), Vec::from);
        let reduced = reduced.map(|layout| Rows::of(layout, &seen));
        let rows = match distribution {
            Distribution::Rows => Some((Rows::last(&seen), Strewing::Most)),
            Distribution::Columns => {
                let first = || Rows::of(super::rows::Layout::Along(0), &seen);
                let rows = reduced.or_else(|| (seen.len() > 1).then(first));
                Some((rows.unwrap_or_else(|| Rows::last(&seen)), Strewing::Most))
            }
            Distribution::Large | Distribution::Tiny | Distribution::Offset => {
                Some((Rows::last(&seen), Strewing::Few))
            }
            Distribution::OneSided if facts.is_ordered => {
                let farthest = if ty.dtype == DType::F16 { 14 } else { 30 };
                let rows = reduced.unwrap_or_else(|| Rows::last(&seen));
                Some((rows, Strewing::Far(farthest)))
            }
            _ => None,
        };
        Ok(Self {
            distribution,
            generator,
            gain,
            seed,
            kind: input.kind,
            position,
            dtype: ty.dtype,
            domain,
            points,
            gains: reach.map(|reach| (-12, (reach.log2().ceil() as i32 + 4).clamp(4, 24))),
            strewn: rows.filter(|_| is_data).map(|(rows, strewing)| Strewn {
                rows,
                seed: mix(seed, 1),
                strewing,
            }),
            has_runs: distribution == Distribution::Ties && is_data && facts.integers.is_free(),
            neutral: facts
                .neutral
                .map(|neutral| if facts.is_rooted { 1.0 } else { neutral })
                .filter(|_| distribution == Distribution::Tiny),
            is_positive: facts.is_positive,
            is_magnitude: facts.is_rooted && input.kind == InputKind::Weight,
            row: seen.last().copied().unwrap_or(1).max(1),
            elements: shape.iter().product(),
            shape,
        })
    }

    /// Writes the chunk of this number.
    pub(super) fn fill(&self, chunk: &mut [u8], number: usize) -> Result<()> {
        let first = number * CHUNK;
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(number as u64);
        let rng = &mut rng;
        match self.dtype {
            DType::F32 => self.floats::<f32>(elements(chunk)?, first, rng),
            DType::F64 => self.floats::<f64>(elements(chunk)?, first, rng),
            DType::F16 => self.floats::<f16>(elements(chunk)?, first, rng),
            DType::BF16 => self.floats::<bf16>(elements(chunk)?, first, rng),
            DType::Bool => self.booleans(elements(chunk)?, first, rng),
            DType::U8 => self.exact(elements(chunk)?, first, rng, |r, k, w| {
                self.integer(r, k, w) as u8
            }),
            DType::I8 => self.exact(elements(chunk)?, first, rng, |r, k, w| {
                self.integer(r, k, w) as i8
            }),
            DType::I16 => self.exact(elements(chunk)?, first, rng, |r, k, w| {
                self.integer(r, k, w) as i16
            }),
            DType::I32 => self.exact(elements(chunk)?, first, rng, |r, k, w| {
                self.integer(r, k, w) as i32
            }),
            DType::I64 => self.exact(elements(chunk)?, first, rng, |r, k, w| self.integer(r, k, w)),
        }
        Ok(())
    }

    /// Booleans: all alike in data that is, and triangles about the diagonal of the last two axes in some, as masks are.
    fn booleans(&self, elements: &mut [u8], first: usize, rng: &mut ChaCha8Rng) {
        let is_above: fn(usize, usize) -> bool = match self.distribution {
            _ if self.kind != InputKind::Activation => return self.random_booleans(elements, first, rng),
            Distribution::Zeros | Distribution::Ties => return elements.fill(0),
            Distribution::Constant | Distribution::Extremes => return elements.fill(1),
            Distribution::Offset => |column, row| column > row,
            Distribution::Apart => |column, row| column <= row,
            Distribution::Large => |column, row| column >= row,
            Distribution::Tiny => |column, row| column < row,
            _ => return self.random_booleans(elements, first, rng),
        };
        let [.., rows, columns] = self.shape.as_slice() else {
            return self.random_booleans(elements, first, rng);
        };
        for (at, element) in (first..).zip(elements) {
            let (column, row) = (at % columns.max(&1), at / columns.max(&1) % rows.max(&1));
            *element = u8::from(is_above(column, row));
        }
    }

    fn random_booleans(&self, elements: &mut [u8], first: usize, rng: &mut ChaCha8Rng) {
        self.exact(elements, first, rng, |row, place, word| {
            u8::from(boolean(row, place, word))
        });
    }

    fn floats<T: Floating>(&self, elements: &mut [T], first: usize, rng: &mut ChaCha8Rng) {
        if let Some(neutral) = self.neutral.filter(|_| self.kind == InputKind::Weight) {
            return elements.fill(T::of(neutral));
        }
        let affine = self.affine();
        let mut words = [0u32; BLOCK];
        let mut finer = [0u32; BLOCK];
        for (number, block) in elements.chunks_mut(BLOCK).enumerate() {
            let start = first + number * BLOCK;
            rng.fill_bytes(bytemuck::cast_slice_mut(&mut words));
            match affine {
                Some(affine) if T::IS_WIDE => {
                    rng.fill_bytes(bytemuck::cast_slice_mut(&mut finer));
                    for ((element, word), fine) in block.iter_mut().zip(&words).zip(&finer) {
                        let value = f64::from(affine.of(normal(u32::from_le(*word))));
                        // The bits that single precision does not have.
                        let fine = f64::from(u32::from_le(*fine) as i32) * 2f64.powi(-55);
                        *element = T::of_wide(value + value * fine);
                    }
                }
                Some(affine) => {
                    for (element, word) in block.iter_mut().zip(&words) {
                        *element = T::of(affine.of(normal(u32::from_le(*word))));
                    }
                }
                None => self.others(block, &words, start),
            }
        }
        self.scale_rows(elements, first);
        self.strew_rows(elements, first);
        self.strew_points(elements, first);
        // A variance that a module does not update is one of its weights. The root of a negative one would make NaN of all results, and a
        // few layers with many zeros would leave the range of f32.
        if self.is_magnitude {
            for element in elements {
                let magnitude = (*element).into().abs();
                *element = T::of_wide(if magnitude == 0.0 { 0.5 } else { magnitude });
            }
        }
    }

    /// How elements follow from one word each, if they do. Only data takes the check's scale, and weights what stands out of
    /// it.
    fn affine(&self) -> Option<Affine> {
        let is_uniform = self.generator == Generator::Uniform01;
        let (scale, shift) = match (self.kind, self.distribution) {
            (InputKind::State, _) => return None,
            (_, Distribution::Contract) if is_uniform => return None,
            (_, Distribution::Extremes | Distribution::IllConditioned) => return None,
            (_, Distribution::Ties | Distribution::Special) => return None,
            (_, Distribution::Apart) => (self.apart(), 0.0),
            (InputKind::Weight, _) => (1.0, 0.0),
            (_, Distribution::Zeros | Distribution::Constant) => return None,
            (_, Distribution::Large) => (64.0, 0.0),
            (_, Distribution::Tiny) => (1.0 / 64.0, 0.0),
            (_, Distribution::Offset) => (1.0, 4.0),
            (_, Distribution::OneSided) if self.position.is_multiple_of(2) => (1.0, -100.0),
            (_, Distribution::OneSided) => (1.0, 100.0),
            (_, Distribution::Contract | Distribution::Signed) => (1.0, 0.0),
            (_, Distribution::Thresholds | Distribution::Rows | Distribution::Columns) => (1.0, 0.0),
        };
        Some(Affine {
            scale,
            shift,
            gain: self.gain,
        })
    }

    /// Writes the elements from `start` on that do not follow from one word each.
    fn others<T: Floating>(&self, block: &mut [T], words: &[u32; BLOCK], start: usize) {
        if self.kind != InputKind::State {
            match self.distribution {
                Distribution::Contract if self.generator == Generator::Uniform01 => {
                    for (element, word) in block.iter_mut().zip(words) {
                        *element = T::of(uniform(u32::from_le(*word), self.seed & 1 == 1));
                    }
                    return;
                }
                Distribution::Zeros => return block.fill(T::of(0.0)),
                Distribution::Constant => return block.fill(T::of(power_of_two(self.seed) * self.gain)),
                _ => {}
            }
        }
        let mut signed = [0.0; BLOCK];
        for (signed, word) in signed.iter_mut().zip(words) {
            *signed = normal(u32::from_le(*word));
        }
        for (i, (element, signed)) in block.iter_mut().zip(&signed).enumerate() {
            *element = T::of(self.float(*signed, start + i));
        }
        if self.kind != InputKind::State && self.distribution == Distribution::Extremes {
            self.extremes(start..start + block.len(), |at, extreme| {
                let i = at - start;
                if let (Some(element), Some(signed)) = (block.get_mut(i), signed.get(i)) {
                    *element = T::of(((signed * 2.0).round() + extreme) * self.gain);
                }
            });
        }
    }

    /// The element `at`, from a number that is symmetric about 0 with variance 1.
    #[inline(always)]
    fn float(&self, signed: f32, at: usize) -> f32 {
        if self.kind == InputKind::State {
            return self.state(signed);
        }
        let other = || mix(self.seed, at as u64);
        let data = match self.distribution {
            Distribution::IllConditioned => signed * f32::from_bits((117 + (other() % 21) as u32) << 23),
            Distribution::Ties => {
                let number = (signed * 2.0).round();
                match other() % 6 {
                    0 | 1 => number,
                    2 => number * (1.0 - 1.0 / 8192.0),
                    3 => number * (1.0 + 1.0 / 8192.0),
                    _ if number == 0.0 => number,
                    4 => number.next_up(),
                    _ => number.next_down(),
                }
            }
            Distribution::Extremes => (signed * 2.0).round(),
            Distribution::Special if other().is_multiple_of(8) => {
                let special = SPECIAL.get((other() >> 8) as usize % SPECIAL.len());
                special.copied().unwrap_or(f32::NAN)
            }
            _ => signed,
        };
        data * self.gain
    }

    /// A state: statistics such as a running variance stay positive, and have other magnitudes in other data.
    fn state(&self, signed: f32) -> f32 {
        let scale = match self.distribution {
            Distribution::Large => 64.0,
            Distribution::Tiny => 1.0 / 64.0,
            _ => 1.0,
        };
        if self.is_positive || self.distribution == Distribution::Contract {
            (signed.abs() + 0.5) * scale
        } else {
            signed * scale
        }
    }

    fn apart(&self) -> f32 {
        let exponent = if self.position.is_multiple_of(2) { 20 } else { -20 };
        2.0f32.powi(exponent)
    }

    /// Gives the elements of a range that stand out, and by how much: the exponential leaves the range of f32. Of an element that is
    /// given twice, the last counts.
    fn extremes(&self, range: Range<usize>, mut give: impl FnMut(usize, f32)) {
        let mut give = |at: usize, extreme: f32| {
            if range.contains(&at) {
                give(at, extreme);
            }
        };
        if self.seed & 2 == 0 {
            let place = |salt| mix(self.seed, salt) as usize % self.elements.max(1);
            give(place(2), -400.0);
            give(place(1), 400.0);
            return;
        }
        for number in range.start / self.row..range.end.div_ceil(self.row) {
            let random = mix(self.seed, number as u64) >> 20;
            let inner = (random / 6) as usize % self.row;
            let [high, low] = match random % 6 {
                0 => [0, self.row - 1],
                1 => [self.row - 1, 0],
                2 => [0, inner],
                3 => [inner, 0],
                4 => [self.row - 1, inner],
                _ => [inner, self.row - 1],
            };
            give(number * self.row + low, -200.0);
            give(number * self.row + high, 200.0);
        }
        let first = if self.seed & 1 == 0 { 400.0 } else { -400.0 };
        give(self.elements.saturating_sub(1), -first);
        give(0, first);
    }

    /// Scales rows along the last axis by powers of two, each by its own.
    fn scale_rows<T: Floating>(&self, elements: &mut [T], first: usize) {
        let Some((lo, hi)) = self.gains else {
            return;
        };
        let mut current = None;
        for (at, element) in (first..).zip(elements) {
            let number = at / self.row;
            let scale = match current {
                Some((row, scale)) if row == number => scale,
                _ => {
                    let span = (hi - lo + 1).max(1) as u64;
                    2f64.powi(lo + (mix(self.seed, 3 + number as u64) % span) as i32)
                }
            };
            current = Some((number, scale));
            *element = T::of_wide((*element).into() * scale);
        }
    }

    fn strew_rows<T: Floating>(&self, elements: &mut [T], first: usize) {
        let Some(strewn) = &self.strewn else {
            return;
        };
        let scale = self.affine().map_or(1.0, |affine| affine.scale);
        let (mut at, mut rest) = (first, elements);
        while !rest.is_empty() {
            let (number, place) = strewn.rows.find(at);
            let stretch = strewn.rows.stretch(at).min(rest.len());
            let (own, others) = rest.split_at_mut(stretch);
            let row = strewn.row(number);
            if row.structure != Structure::Ordinary {
                for (place, element) in (place..).zip(own) {
                    if let Some(value) = row.value(place) {
                        *element = T::of(value * scale);
                    }
                }
            }
            (at, rest) = (at + stretch, others);
        }
    }

    fn strew_points<T: Floating>(&self, elements: &mut [T], first: usize) {
        if self.points.is_empty() {
            return;
        }
        for (at, element) in (first..).zip(elements) {
            let word = mix(self.seed, at as u64);
            if word & 1 == 0
                && let Some(point) = self.points.get((word >> 8) as usize % self.points.len())
            {
                *element = T::of_wide(*point);
            }
        }
    }

    /// The first element of the run of equal ones that an element belongs to: the first third is one run, and the others are short.
    fn run(&self, at: usize) -> usize {
        match at / self.elements.div_ceil(3).max(1) {
            0 => 0,
            1 => at - at % 40,
            _ => at - at % 3,
        }
    }

    fn exact<T>(
        &self,
        elements: &mut [T],
        first: usize,
        rng: &mut ChaCha8Rng,
        value: impl Fn(Option<&Row>, usize, u64) -> T,
    ) {
        let mut current: Option<(usize, Row)> = None;
        for (at, element) in (first..).zip(elements) {
            let mut word = rng.next_u64();
            if self.has_runs {
                word = mix(self.seed, self.run(at) as u64);
            }
            let Some(strewn) = &self.strewn else {
                *element = value(None, at, word);
                continue;
            };
            let (number, place) = strewn.rows.find(at);
            let row = match current {
                Some((known, row)) if known == number => row,
                _ => strewn.row(number),
            };
            current = Some((number, row));
            let word = match row.structure {
                Structure::Constant | Structure::Repeated => row.word(row.group(place)),
                _ => word,
            };
            *element = value(Some(&row), place, word);
        }
    }

    fn integer(&self, row: Option<&Row>, place: usize, word: u64) -> i64 {
        let is_data = self.kind == InputKind::Activation;
        match self.distribution {
            Distribution::Zeros if is_data => return self.domain.nearest(0),
            Distribution::Constant if is_data => return self.domain.value(hash(self.seed)),
            _ => {}
        }
        if word & 0x100 == 0
            && let Some(point) = self.points.get((word >> 9) as usize % self.points.len().max(1))
        {
            return *point as i64;
        }
        let length = self.strewn.map_or(1, |strewn| strewn.rows.length());
        match row.map(|row| (row.structure, row.hot())) {
            Some((Structure::Zero | Structure::Small, _)) => self.domain.nearest(0),
            Some((Structure::OneHot, hot)) if hot != place => self.domain.nearest(0),
            Some((Structure::Ascending, _)) => self.domain.ascending(place, length),
            Some((Structure::Descending, _)) => {
                let place = length.saturating_sub(place + 1);
                self.domain.ascending(place, length)
            }
            Some((Structure::Saturated, _)) => {
                self.domain
                    .nearest(if word & 1 == 0 { i64::MIN } else { i64::MAX })
            }
            _ => self.domain.value(word),
        }
    }
}

/// A boolean: a fair one, but for rows of one value or with a single true one.
fn boolean(row: Option<&Row>, place: usize, word: u64) -> bool {
    match row.map(|row| (row.structure, row.hot())) {
        Some((Structure::Constant, _)) => true,
        Some((Structure::Zero, _)) => false,
        Some((Structure::OneHot, hot)) => hot == place,
        _ => word >> 63 == 1,
    }
}
