//! Names that are C identifiers and unique in a kernel.

use std::collections::HashSet;

use crate::expr::Symbol;

#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
}

impl Names {
    pub(super) fn new(reserved: &[&str]) -> Self {
        Self {
            taken: reserved.iter().map(|s| (*s).to_owned()).collect(),
        }
    }

    /// `base`, made an identifier, with a number appended if it is taken.
    pub(super) fn fresh(&mut self, base: &str) -> Symbol {
        let mut name: String = base
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert(0, 'v');
        }
        let mut candidate = name.clone();
        let mut number = 0;
        while !self.taken.insert(candidate.clone()) {
            number += 1;
            candidate = format!("{name}_{number}");
        }
        candidate.into()
    }
}
