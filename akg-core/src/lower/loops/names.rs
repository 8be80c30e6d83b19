//! Names that are C identifiers and unique in a kernel.

use std::collections::{HashMap, HashSet};

use crate::expr::Symbol;

/// Whether a name has the form that C's headers give to macros: a capital letter, then another or a digit or `_`, as in
/// `NULL`, `EOF`, `M_PI`, `PRId64`. There are thousands, and which of them a program has depends on what it includes.
pub fn is_macro_like(name: &str) -> bool {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_uppercase());
    let second = bytes.next();
    first && second.is_some_and(|b| b.is_ascii_uppercase() || b == b'_') && bytes.next().is_some()
}

/// The names of one function, or of one file.
#[derive(Debug, Default)]
pub struct Names {
    taken: HashSet<String>,
    /// The last number that each name got: the lower ones are taken.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// No name is given yet; those in `reserved` never are.
    pub fn new(reserved: &[&str]) -> Self {
        Self {
            taken: reserved.iter().map(|s| (*s).to_owned()).collect(),
            numbers: HashMap::new(),
        }
    }

    /// Keeps a name from being given.
    pub fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    /// Returns `base`, made an identifier, with a number appended if it is taken or [may be a macro](is_macro_like).
    /// Names of preludes begin with `akg_`, and no other does.
    pub fn fresh(&mut self, base: &str) -> Symbol {
        let mut name: String = base
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert(0, 'v');
        }
        if name.starts_with("akg_") {
            name.insert_str(0, "v_");
        }
        let number = self.numbers.entry(name.clone()).or_default();
        let mut candidate = if *number == 0 {
            name.clone()
        } else {
            format!("{name}_{number}")
        };
        while (*number == 0 && is_macro_like(&name)) || !self.taken.insert(candidate.clone()) {
            *number += 1;
            candidate = format!("{name}_{number}");
        }
        candidate.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_free_identifiers() {
        let mut names = Names::new(&["int", "errno"]);
        let given = [
            "x", "x", "int", "errno", "2a", "a.b", "", "NULL", "M_PIf", "N", "K2", "akg_min", "Linear",
        ];
        let expected = [
            "x",
            "x_1",
            "int_1",
            "errno_1",
            "v2a",
            "a_b",
            "v",
            "NULL_1",
            "M_PIf_1",
            "N",
            "K2",
            "v_akg_min",
            "Linear",
        ];
        assert_eq!(given.map(|n| names.fresh(n).to_string()), expected);
    }
}
