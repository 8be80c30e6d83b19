//! The structure of what a PyTorch module's `forward` takes and returns, and its Python text.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::module::tuple;
use super::{ModuleInput, Port};
use crate::error::{Error, Result};

/// Python functions that take a call's arguments apart: `akg_leaves(name, given, expected, found)` puts the tensors of an
/// argument into the dictionary `found` by their positions, and raises `ValueError` if anything else is not as it was when
/// the task was made. `expected` is the text of [`Structure::pattern`].
pub const LEAVES: &str = include_str!("leaves.py");

/// The module that user code is loaded as, whose classes are in the module's text.
const OWN_MODULE: &str = "akg_user_module";

/// What a call of `forward` takes and returns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModuleCall {
    /// The parameters after `self`, in order, with what each is given; a name begins with `*` or `**` as in Python. `None`
    /// if `forward` does not say what it takes.
    pub arguments: Option<Vec<(String, Structure)>>,
    /// What is returned.
    pub results: Structure,
}

/// Tensors in containers, beside Python values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Structure {
    /// A tensor: its position among the flattened arguments, or among the plain outputs.
    Tensor(usize),
    /// In results, an argument that is returned as it is, by its position.
    Argument(usize),
    /// A value without tensors, as Python text.
    Literal(String),
    /// A `list`.
    List(Vec<Structure>),
    /// A `tuple`.
    Tuple(Vec<Structure>),
    /// A `dict`: the text of each key with what belongs to it.
    Dict(Vec<(String, Structure)>),
    /// An object that its class makes of its parts.
    Object(Object),
    /// A value that cannot be made again; the name of its type.
    Opaque(String),
}

/// An object that its class makes of its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Object {
    /// The Python module of the class.
    pub module: String,
    /// The qualified name of the class.
    pub class: String,
    /// How the class takes the parts.
    pub form: ObjectForm,
    /// The parts: their fields' names or the text of their keys, if they have such, and their structures.
    pub items: Vec<(String, Structure)>,
}

/// How a class takes the parts of its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectForm {
    /// By the names of fields: data classes and named tuples.
    Fields,
    /// As one sequence.
    Sequence,
    /// As one dictionary.
    Mapping,
}

impl ModuleCall {
    /// Refuses a call that has other tensors than the module's inputs and a bundle's outputs.
    pub(super) fn check(&self, inputs: &[ModuleInput], outputs: &[Port]) -> Result<()> {
        let positions = inputs.iter().filter_map(|input| match input {
            ModuleInput::Argument(position) => Some(*position),
            _ => None,
        });
        let positions: BTreeSet<usize> = positions.collect();
        let plain = outputs.iter().filter(|port| port.updates.is_none()).count();
        if let Some(arguments) = &self.arguments {
            let mut taken = BTreeSet::new();
            arguments.iter().for_each(|(_, s)| s.tensors(&mut taken));
            if !positions.is_subset(&taken) {
                return Err(Error::invalid(
                    "the call of the module has not all tensors of the bundle",
                ));
            }
        }
        let mut returned = BTreeSet::new();
        self.results.tensors(&mut returned);
        match returned.last() {
            Some(last) if *last >= plain => Err(Error::invalid(format!(
                "the module returns tensor {last}, but the bundle has {plain} outputs"
            ))),
            _ => Ok(()),
        }
    }
}

impl Structure {
    /// Adds the numbers of the tensors.
    fn tensors(&self, found: &mut BTreeSet<usize>) {
        match self {
            Self::Tensor(number) => {
                found.insert(*number);
            }
            Self::Argument(_) | Self::Literal(_) | Self::Opaque(_) => {}
            Self::List(items) | Self::Tuple(items) => items.iter().for_each(|item| item.tensors(found)),
            Self::Dict(items) | Self::Object(Object { items, .. }) => {
                items.iter().for_each(|(_, item)| item.tensors(found));
            }
        }
    }

    /// The Python text that makes the structure in a method; `tensor` and `argument` give the texts of its tensors.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for objects that no text can make.
    pub fn expression(
        &self,
        tensor: &dyn Fn(usize) -> String,
        argument: &dyn Fn(usize) -> String,
    ) -> Result<String> {
        let text = |item: &Self| item.expression(tensor, argument);
        let texts = |items: &[Self]| items.iter().map(text).collect::<Result<Vec<_>>>();
        let pairs = |items: &[(String, Self)]| {
            let pairs = items
                .iter()
                .map(|(key, item)| Ok(format!("{key}: {}", text(item)?)));
            Ok::<_, Error>(format!("{{{}}}", pairs.collect::<Result<Vec<_>>>()?.join(", ")))
        };
        Ok(match self {
            Self::Tensor(number) => tensor(*number),
            Self::Argument(position) => argument(*position),
            Self::Literal(literal) => literal.clone(),
            Self::List(items) => format!("[{}]", texts(items)?.join(", ")),
            Self::Tuple(items) => tuple(texts(items)?.into_iter()),
            Self::Dict(items) => pairs(items)?,
            Self::Object(object) => {
                let class = object.class_text()?;
                match object.form {
                    ObjectForm::Fields => {
                        let fields = object.items.iter();
                        let fields = fields.map(|(name, item)| Ok(format!("{name}={}", text(item)?)));
                        format!("{class}({})", fields.collect::<Result<Vec<_>>>()?.join(", "))
                    }
                    ObjectForm::Sequence => {
                        let items = object.items.iter().map(|(_, item)| text(item));
                        format!("{class}([{}])", items.collect::<Result<Vec<_>>>()?.join(", "))
                    }
                    ObjectForm::Mapping => format!("{class}({})", pairs(&object.items)?),
                }
            }
            Self::Opaque(name) => {
                return Err(Error::unsupported(format!(
                    "`forward` returns an object of type `{name}`, which no other module can make; return tensors in lists, \
                     tuples, dictionaries or data classes"
                )));
            }
        })
    }

    /// The Python text of what [`LEAVES`] expects.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for arguments whose values cannot be compared.
    pub fn pattern(&self) -> Result<String> {
        let list = |items: &mut dyn Iterator<Item = Result<String>>| {
            Ok::<_, Error>(format!("[{}]", items.collect::<Result<Vec<_>>>()?.join(", ")))
        };
        let pairs = |items: &[(String, Self)], quoted: bool| {
            let mut pairs = items.iter().map(|(key, item)| {
                let quote = if quoted { "\"" } else { "" };
                Ok(format!("({quote}{key}{quote}, {})", item.pattern()?))
            });
            list(&mut pairs)
        };
        Ok(match self {
            Self::Tensor(number) | Self::Argument(number) => format!("(\"tensor\", {number})"),
            Self::Literal(literal) => format!("(\"literal\", {literal})"),
            Self::List(items) | Self::Tuple(items) => {
                format!("(\"sequence\", {})", list(&mut items.iter().map(Self::pattern))?)
            }
            Self::Dict(items) => format!("(\"mapping\", {})", pairs(items, false)?),
            Self::Object(object) => match object.form {
                ObjectForm::Fields => format!("(\"fields\", {})", pairs(&object.items, true)?),
                ObjectForm::Mapping => format!("(\"mapping\", {})", pairs(&object.items, false)?),
                ObjectForm::Sequence => {
                    let items = &mut object.items.iter().map(|(_, item)| item.pattern());
                    format!("(\"sequence\", {})", list(items)?)
                }
            },
            Self::Opaque(name) => {
                return Err(Error::unsupported(format!(
                    "`forward` takes an object of type `{name}`, whose value the kernels may depend on; pass tensors and numbers"
                )));
            }
        })
    }
}

impl Object {
    /// The text of the class where methods of the module's class stand.
    fn class_text(&self) -> Result<String> {
        if self.class.contains('<') {
            return Err(Error::unsupported(format!(
                "`forward` returns an object of the local class `{}`; define the class outside of functions",
                self.class
            )));
        }
        Ok(match (self.module.as_str(), self.class.strip_prefix("Model.")) {
            (OWN_MODULE, Some(inner)) => format!("self.{inner}"),
            (OWN_MODULE, None) => self.class.clone(),
            (module, _) => format!("importlib.import_module(\"{module}\").{}", self.class),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn structure(json: &str) -> Structure {
        serde_json::from_str(json).unwrap_or_else(|e| panic!("{json}: {e}"))
    }

    fn text(json: &str) -> Result<String> {
        structure(json).expression(&|i| format!("t{i}"), &|i| format!("a{i}"))
    }

    #[test]
    fn structures_become_python() {
        let nested = r#"{"dict": [["'y'", {"tensor": 1}], ["0", {"tuple": [{"literal": "None"}]}]]}"#;
        assert_eq!(text(nested).unwrap_or_default(), "{'y': t1, 0: (None,)}");
        let object = r#"{"object": {"module": "akg_user_module", "class": "Out", "form": "fields",
            "items": [["x", {"tensor": 0}], ["y", {"argument": 2}]]}}"#;
        assert_eq!(text(object).unwrap_or_default(), "Out(x=t0, y=a2)");
        let ordered = r#"{"object": {"module": "collections", "class": "OrderedDict", "form": "mapping",
            "items": [["'x'", {"tensor": 0}]]}}"#;
        assert_eq!(
            text(ordered).unwrap_or_default(),
            "importlib.import_module(\"collections\").OrderedDict({'x': t0})"
        );
        let local = object.replace("Out", "Model.forward.<locals>.Out");
        assert!(text(&local).is_err() && text(r#"{"opaque": "Thing"}"#).is_err());
    }

    #[test]
    fn a_call_has_the_tensors_of_its_bundle() {
        let call = |results: &str| ModuleCall {
            arguments: Some(vec![("x".to_owned(), structure(r#"{"list": [{"tensor": 1}]}"#))]),
            results: structure(results),
        };
        let one = call(r#"{"literal": "1"}"#);
        assert!(one.check(&[ModuleInput::Argument(1)], &[]).is_ok());
        assert!(one.check(&[ModuleInput::Argument(0)], &[]).is_err());
        assert!(call(r#"{"tensor": 0}"#).check(&[], &[]).is_err());
    }
}
