//! Arguments of calls: conversions from Rust values, and the check against a schema.

use super::ops::{Parameter, ParameterKind};
use super::{Arg, Operator, ValueId};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

macro_rules! conversions {
    ($($from:ty => |$value:ident| $arg:expr;)*) => {$(
        impl From<$from> for Arg {
            fn from($value: $from) -> Self {
                $arg
            }
        }
    )*};
}
conversions! {
    ValueId => |v| Arg::Value(v);
    Option<ValueId> => |v| v.map_or(Arg::None, Arg::Value);
    &[ValueId] => |v| Arg::Values(v.iter().copied().map(Some).collect());
    Vec<ValueId> => |v| Arg::Values(v.into_iter().map(Some).collect());
    Vec<Option<ValueId>> => |v| Arg::Values(v);
    &[Option<ValueId>] => |v| Arg::Values(v.to_vec());
    bool => |v| Arg::Bool(v);
    i32 => |v| Arg::Int(v.into());
    i64 => |v| Arg::Int(v.into());
    usize => |v| Arg::Int(v.into());
    Expr => |v| Arg::Int(v);
    &Expr => |v| Arg::Int(v.clone());
    &[i64] => |v| Arg::Ints(v.iter().copied().map(Expr::constant).collect());
    Vec<i64> => |v| Arg::from(v.as_slice());
    &[Expr] => |v| Arg::Ints(v.to_vec());
    Vec<Expr> => |v| Arg::Ints(v);
    f64 => |v| Arg::Float(v);
    f32 => |v| Arg::Float(f64::from(v));
    &[f64] => |v| Arg::Floats(v.to_vec());
    &str => |v| Arg::Str(v.to_owned());
    DType => |v| Arg::DType(v);
    Option<DType> => |v| v.map_or(Arg::None, Arg::DType);
    Option<f64> => |v| v.map_or(Arg::None, Arg::Float);
}

impl<const N: usize> From<[ValueId; N]> for Arg {
    fn from(list: [ValueId; N]) -> Self {
        Arg::from(list.as_slice())
    }
}

impl<const N: usize> From<[i64; N]> for Arg {
    fn from(list: [i64; N]) -> Self {
        Arg::from(list.as_slice())
    }
}

impl<const N: usize> From<&[i64; N]> for Arg {
    fn from(list: &[i64; N]) -> Self {
        Arg::from(list.as_slice())
    }
}

impl Operator {
    /// One argument for each parameter from named ones: defaults filled in, lone integers spread over fixed-length
    /// lists. An error names an argument that is unknown (and the nearest that is not), missing or of the wrong kind.
    pub(crate) fn arrange<'a>(&self, given: impl IntoIterator<Item = (&'a str, Arg)>) -> Result<Vec<Arg>> {
        let parameters = &self.schema().parameters;
        let mut slots: Vec<Option<Arg>> = vec![None; parameters.len()];
        for (name, arg) in given {
            let at = parameters.iter().position(|p| p.name == name);
            let found = at.and_then(|at| Some((parameters.get(at)?, slots.get_mut(at)?)));
            let Some((parameter, slot)) = found else {
                return Err(self.unknown_argument(name));
            };
            if slot.replace(parameter.accept(self, arg)?).is_some() {
                return Err(Error::invalid(format!(
                    "`{}` is given `{name}` twice",
                    self.name()
                )));
            }
        }
        let filled = parameters.iter().zip(slots).map(|(parameter, slot)| {
            slot.or_else(|| parameter.default.clone()).ok_or_else(|| {
                let what = format!("`{}` needs the argument `{}`", self.name(), parameter.name);
                Error::invalid(format!("{what} ({})", parameter.describe()))
            })
        });
        filled.collect()
    }

    fn unknown_argument(&self, name: &str) -> Error {
        let names: Vec<&str> = self.schema().parameters.iter().map(|p| p.name.as_str()).collect();
        Error::invalid(format!(
            "`{}` has no parameter `{name}`{}; its parameters are {}",
            self.name(),
            suggestion(name, names.iter().copied()),
            names.join(", ")
        ))
    }

    /// The operator called `name`, or an error that suggests the nearest.
    pub(super) fn require(name: &str) -> Result<&'static Operator> {
        Operator::find(name).ok_or_else(|| {
            let all = Operator::all();
            let short = name.strip_prefix("aten.").unwrap_or(name);
            let near = suggestion(short, all.iter().map(|o| o.name()));
            Error::unsupported(format!("there is no operator `{name}`{near}"))
        })
    }
}

/// `; did you mean …?` if one of `names` is near `wrong`.
fn suggestion<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    let scored = names.map(|n| (strsim::jaro_winkler(wrong, n), n));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((score, name)) if score > 0.75 => format!(", did you mean `{name}`?"),
        _ => String::new(),
    }
}

impl Parameter {
    /// What the parameter takes, in words.
    pub(super) fn describe(&self) -> &'static str {
        match self.kind {
            ParameterKind::Tensor => "a tensor",
            ParameterKind::Tensors => "a list of tensors",
            ParameterKind::Scalar => "a number",
            ParameterKind::Int => "an integer",
            ParameterKind::Ints => "a list of integers",
            ParameterKind::Float => "a floating number",
            ParameterKind::Floats => "a list of floating numbers",
            ParameterKind::Bool => "a boolean",
            ParameterKind::Str => "a string",
            ParameterKind::DType => "an element type",
            ParameterKind::Ignored => "anything; it is ignored",
        }
    }

    /// `arg` in the form that the parameter's kind prescribes.
    fn accept(&self, op: &Operator, arg: Arg) -> Result<Arg> {
        use ParameterKind as Kind;
        let fits = match (self.kind, arg) {
            (Kind::Ignored, _) => Ok(Arg::None),
            (_, Arg::None) if self.optional => Ok(Arg::None),
            (Kind::Tensor, arg @ Arg::Value(_))
            | (Kind::Tensors, arg @ Arg::Values(_))
            | (Kind::Scalar, arg @ (Arg::Int(_) | Arg::Float(_) | Arg::Bool(_)))
            | (Kind::Int, arg @ Arg::Int(_))
            | (Kind::Float, arg @ Arg::Float(_))
            | (Kind::Floats, arg @ Arg::Floats(_))
            | (Kind::Bool, arg @ Arg::Bool(_))
            | (Kind::Str, arg @ Arg::Str(_))
            | (Kind::DType, arg @ Arg::DType(_)) => Ok(arg),
            (Kind::Ints, Arg::Int(lone)) => Ok(Arg::Ints(vec![lone; self.length.unwrap_or(1)])),
            (Kind::Ints, Arg::Ints(list)) => Ok(Arg::Ints(list)),
            (Kind::Float, Arg::Int(v)) => v.as_const().map(|v| Arg::Float(v as f64)).ok_or(Arg::Int(v)),
            (_, arg) => Err(arg),
        };
        fits.map_err(|arg| {
            Error::invalid(format!(
                "argument `{}` of `{}` must be {}, not {arg}",
                self.name,
                op.name(),
                self.describe()
            ))
        })
    }
}
