//! An operand of a product, and what it becomes.

use crate::designer::device::Factors;
use crate::designer::emit::Emitter;
use crate::designer::plan::{Access, Axis};
use crate::dtype::DType;
use crate::error::Result;

/// An operand that becomes factors.
pub(super) struct Operand {
    pub(super) access: Access,
    /// The dimensions of its factors in memory, outermost first.
    pub(super) axes: Vec<Axis>,
    /// Its own dimension of the result's tile.
    pub(super) kept: Axis,
    /// What its buffers are called.
    pub(super) name: String,
    pub(super) factors: Factors,
    /// Whether it becomes factors where it is multiplied.
    pub(super) is_inside: bool,
    /// Whether it is multiplied by weights, which are not centred.
    pub(super) meets_weights: bool,
    /// True if sums may have so few terms that a single small element is all of one.
    pub(super) sums_few: bool,
}

impl Operand {
    pub(super) fn buffer(&self, what: &str) -> String {
        format!("{}_{what}", self.name)
    }

    /// The variables of its factors in a step of the sum begin with it.
    pub(super) fn letter(&self) -> char {
        self.name.chars().next().unwrap_or('A').to_ascii_lowercase()
    }

    pub(super) fn high(&self) -> String {
        self.buffer("HIGH")
    }

    pub(super) fn low(&self) -> Option<String> {
        self.factors.has_low().then(|| self.buffer("LOW"))
    }

    /// The type of its factors in memory.
    pub(super) fn dtype(&self) -> DType {
        self.factors.dtype()
    }

    /// Returns true if its rows are centred. An element loses the bits that are below those of the centre, which shows where it is all of a
    /// sum.
    pub(super) fn is_centred(&self) -> bool {
        self.factors == Factors::Halves && !self.sums_few
    }

    /// Whether its rows are scaled: to the range of f16, which also rounds to the bits of tf32.
    pub(super) fn is_scaled(&self) -> bool {
        self.factors.is_scaled() || self.factors == Factors::Tf32 && !self.is_inside
    }

    /// The power of two that each row is divided by.
    pub(super) fn scale(&self) -> String {
        self.buffer("SCALE")
    }

    /// The variable for what each row is multiplied by where it is split.
    pub(super) fn inverse(&self) -> String {
        self.buffer("inverse").to_lowercase()
    }

    /// What is subtracted from each row first.
    pub(super) fn centre(&self) -> String {
        self.buffer("CENTRE")
    }

    /// The first bits of the sum of each row, and the others.
    pub(super) fn totals(&self) -> [String; 2] {
        ["TOTAL_HIGH", "TOTAL_LOW"].map(|what| self.buffer(what))
    }

    /// What the sum of each row is after its centre was subtracted.
    pub(super) fn rest(&self) -> String {
        self.buffer("REST")
    }

    /// Makes its factors in a step of the sum, of the tile of two axes. Returns the names of the high one and, if
    /// there is one, the low one.
    pub(super) fn factor(&self, e: &mut Emitter<'_>, pair: [Axis; 2]) -> Result<[String; 2]> {
        let letter = self.letter();
        let (high, low) = (format!("{letter}h"), format!("{letter}l"));
        if self.is_inside {
            e.tile = pair.to_vec();
            let x = match self.factors {
                Factors::Given(dtype) => e.load_as(&self.access, dtype)?.text,
                _ => e.load(&self.access)?.text,
            };
            match self.factors {
                Factors::Tf32 | Factors::Given(_) => return Ok([x, low]),
                Factors::Bf16 => e.line(format!("{high} = bf16({x})")),
                Factors::F16 | Factors::Halves => {
                    let marks = if pair[0] == self.kept {
                        "[:, None]"
                    } else {
                        "[None, :]"
                    };
                    let (centre, inverse) = (self.centre().to_lowercase(), self.inverse());
                    let whole = format!("{letter}_whole");
                    e.line(format!("{whole} = ({x} - {centre}{marks}) * {inverse}{marks}"));
                    e.line(format!("{high} = f16({whole})"));
                    e.line(format!("{low} = f16({whole} - f32({high}))"));
                }
            }
            return Ok([high, low]);
        }
        let (place, _) = e.place(&self.axes)?;
        let buffers = [
            Some((self.high(), &high)),
            self.low().map(|buffer| (buffer, &low)),
        ];
        for (buffer, name) in buffers.into_iter().flatten() {
            let mut text = format!("load {buffer}[{}] else 0.0", place.join(", "));
            let order = self.axes.iter().filter(|x| pair.contains(x));
            if !order.eq(pair.iter()) {
                text = format!("trans({text})");
            }
            e.line(format!("{name} = {text}"));
        }
        Ok([high, low])
    }
}
