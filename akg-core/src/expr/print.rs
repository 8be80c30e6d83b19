//! The printed form, which is also the serialised one.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Atom, Expr};
use crate::error::Result;

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Sym(name) => f.write_str(name),
            Atom::FloorDiv(a, b) => write!(f, "({a}) // ({b})"),
            Atom::CeilDiv(a, b) => write!(f, "ceildiv({a}, {b})"),
            Atom::Mod(a, b) => write!(f, "({a}) % ({b})"),
            Atom::Min(a, b) => write!(f, "min({a}, {b})"),
            Atom::Max(a, b) => write!(f, "max({a}, {b})"),
            Atom::Excess(_) => f.write_str("(too large)"),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // The constant comes first in canonical order and reads best last.
        let (constant, rest): (Vec<_>, Vec<_>) = self.terms.iter().partition(|t| t.factors.is_empty());
        for (i, term) in rest.into_iter().chain(constant).enumerate() {
            let sign = match (i, term.coefficient < 0) {
                // The parser reads the smallest integer after its own sign only.
                (1.., true) if term.coefficient == i64::MIN => " + -",
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            };
            f.write_str(sign)?;
            let magnitude = term.coefficient.unsigned_abs();
            if term.factors.is_empty() || magnitude != 1 {
                write!(f, "{magnitude}")?;
            }
            let single = term.factors.len() == 1 && magnitude == 1 && sign != "-";
            for (j, factor) in term.factors.iter().enumerate() {
                if j > 0 || magnitude != 1 {
                    f.write_str("*")?;
                }
                match factor {
                    Atom::FloorDiv(..) | Atom::Mod(..) if !single => write!(f, "({factor})")?,
                    _ => write!(f, "{factor}")?,
                }
            }
        }
        Ok(())
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_const() {
            Some(value) => serializer.serialize_i64(value),
            None => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Int(i64),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Int(value) => Ok(Expr::constant(value)),
            Form::Text(text) => Expr::parse(&text).map_err(serde::de::Error::custom),
        }
    }
}
