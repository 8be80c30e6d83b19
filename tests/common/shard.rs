//! Parts of a run that is too long for one machine or one sitting.

/// One of the parts of a run, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: u64,
    of: u64,
}

impl Shard {
    /// The whole run.
    pub const ALL: Self = Self { number: 1, of: 1 };

    /// Reads `all`, or a part such as `2/8`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::ALL);
        }
        let (number, of) = text.split_once('/')?;
        let (number, of) = (number.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    /// Reads an environment variable, if it is set.
    ///
    /// # Panics
    /// If it has neither form.
    pub fn from_environment(variable: &str) -> Option<Self> {
        let text = std::env::var(variable).ok()?;
        let shard = Self::parse(&text);
        Some(shard.unwrap_or_else(|| panic!("{variable} is `{text}`; use `all` or a shard such as `2/8`")))
    }

    /// Whether the item with this number is in the part.
    pub fn has(self, item: u64) -> bool {
        item % self.of == self.number - 1
    }
}
