//! Numbers as they are chosen on the command line.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use akg::{Error, Result};

/// A choice of numbers: `1,2,19-32`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbers(Vec<RangeInclusive<u32>>);

impl Numbers {
    pub(super) fn contains(&self, number: u32) -> bool {
        self.0.iter().any(|stretch| stretch.contains(&number))
    }

    /// The first part of the choice of which nothing is `there`.
    pub(super) fn missing(&self, there: &BTreeSet<u32>) -> Option<Self> {
        let lost = |stretch: &&RangeInclusive<u32>| there.range((**stretch).clone()).next().is_none();
        self.0
            .iter()
            .find(lost)
            .map(|stretch| Self(vec![stretch.clone()]))
    }
}

impl From<&BTreeSet<u32>> for Numbers {
    fn from(numbers: &BTreeSet<u32>) -> Self {
        let mut stretches: Vec<RangeInclusive<u32>> = Vec::new();
        for number in numbers.iter().copied() {
            match stretches.last_mut() {
                Some(last) if *last.end() + 1 == number => *last = *last.start()..=number,
                _ => stretches.push(number..=number),
            }
        }
        Self(stretches)
    }
}

impl FromStr for Numbers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("`{text}` names no numbers; write them as in 1,2,19-32"));
        let mut stretches = Vec::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<u32>().map_err(|_| bad());
            let (low, high) = (number(low)?, number(high)?);
            if low > high {
                return Err(bad());
            }
            stretches.push(low..=high);
        }
        Ok(Self(stretches))
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for stretch in &self.0 {
            match (stretch.start(), stretch.end()) {
                (low, high) if low == high => write!(f, "{separator}{low}")?,
                (low, high) => write!(f, "{separator}{low}-{high}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_choice_reads_what_it_prints(chosen in prop::collection::btree_set(0u32..60, 1..30)) {
            let numbers = Numbers::from(&chosen);
            prop_assert_eq!(numbers.to_string().parse::<Numbers>().unwrap(), numbers);
        }
    }

    #[test]
    fn a_bad_choice_is_refused() {
        for text in ["", "x", "3-1", "1,,2", "1-99999999999"] {
            assert!(text.parse::<Numbers>().is_err(), "{text}");
        }
    }
}
