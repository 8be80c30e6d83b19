//! Bundles as PyTorch modules.

use std::fmt::Write as _;

use akg_core::bundle::module::{constructor, dim_sources, places, tuple};
use akg_core::bundle::{Bundle, Port};
use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::expr::Expr;
use akg_core::source::{LaunchPlan, PlanTensor, TensorRole};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::NAME;
use crate::names::Names;

const TEMPLATE: &str = include_str!("modelnew.py");

/// A Python file with a class `ModelNew` that computes what the bundle does on GPU tensors: the file needs PyTorch and
/// Triton, which compiles the kernels in it.
///
/// For a task from a PyTorch module, the file holds the module's text, and `ModelNew` is its `Model` with another
/// `forward`: the same parameters, constructed in the same order. Otherwise weights become parameters in the graph's
/// order. Arguments of `forward` that are no tensors keep the values that they had when the task was made.
///
/// # Errors
/// [`Unsupported`](akg_core::ErrorKind::Unsupported) for bundles of other DSLs and for weights of symbolic extents.
pub fn modelnew(bundle: &Bundle) -> Result<String> {
    let manifest = bundle.manifest();
    if manifest.dsl != NAME {
        return Err(Error::unsupported(format!(
            "only bundles of Triton kernels become PyTorch modules with Triton kernels, not those of `{}`",
            manifest.dsl
        )));
    }
    let module = bundle.module();
    let init = match module {
        Some(_) => String::new(),
        None => constructor(&manifest.inputs, &|port| torch_type(port.dtype))?,
    };
    let text = module.map_or_else(
        || "import torch\nimport torch.nn as nn\n".to_owned(),
        |text| format!("{}\n", text.trim_end()),
    );
    let fill = [
        ("@AKG@", manifest.akg.clone()),
        ("@NAME@", manifest.name.clone()),
        ("@ACCURACY@", manifest.contract.accuracy.to_string()),
        ("@HASH@", bundle.content_hash()?),
        (
            "@BASE@",
            if module.is_some() { "Model" } else { "nn.Module" }.to_owned(),
        ),
        ("@INIT@", init),
        ("@FORWARD@", Forward::new(bundle).text()?),
        ("@CONSTANTS@", constants(bundle)),
        ("@KERNELS@", bundle.candidate().source.text.trim_end().to_owned()),
    ];
    let mut filled = TEMPLATE.to_owned();
    for (hole, value) in fill {
        filled = filled.replace(hole, &value);
    }
    Ok(text + &filled)
}

/// PyTorch's name of an element type.
fn torch_type(dtype: DType) -> String {
    let name = match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F64 => "float64",
        _ => "float32",
    };
    format!("torch.{name}")
}

/// The values of the graph's constants.
fn constants(bundle: &Bundle) -> String {
    let constants = bundle.graph().constants().iter().map(|c| {
        format!(
            "    (\"{}\", {}, {}),\n",
            STANDARD.encode(c.tensor.bytes()),
            torch_type(c.tensor.dtype()),
            tuple(c.tensor.shape().iter().map(ToString::to_string))
        )
    });
    constants.collect()
}

/// Writes the body of `forward`.
struct Forward<'a> {
    bundle: &'a Bundle,
    plan: &'a LaunchPlan,
    /// The variables of the plan's tensors.
    tensors: Vec<String>,
    out: String,
}

impl<'a> Forward<'a> {
    fn new(bundle: &'a Bundle) -> Self {
        let plan = &bundle.manifest().plan;
        let mut names = Names::new();
        let taken = ["self", "arguments", "leaves", "device", "torch", "nn"];
        // Dims keep their names, which stand in extents.
        for name in taken.into_iter().chain(plan.dims.iter().map(|d| &**d)) {
            names.fresh(name);
        }
        let tensors = plan.tensors.iter().map(|t| names.fresh(&t.name)).collect();
        Self {
            bundle,
            plan,
            tensors,
            out: String::new(),
        }
    }

    fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.out, "        {}", text.as_ref());
    }

    fn name(&self, tensor: usize) -> &str {
        self.tensors.get(tensor).map_or("", String::as_str)
    }

    fn of(&self, role: TensorRole) -> Vec<(usize, &'a PlanTensor)> {
        self.plan.with_role(role).collect()
    }

    fn text(mut self) -> Result<String> {
        let manifest = self.bundle.manifest();
        let all = self.of(TensorRole::Input);
        let (inputs, constants) = all.split_at(manifest.inputs.len().min(all.len()));
        let places = places(self.bundle);
        for (((at, tensor), port), place) in inputs.iter().zip(&manifest.inputs).zip(&places) {
            let found = find(place);
            let (name, label) = (self.name(*at).to_owned(), &port.name);
            let (dtype, align) = (torch_type(tensor.dtype), tensor.align.max(port.align));
            self.line(format!(
                "{name} = _akg_input(\"{label}\", {found}, {dtype}, {align})"
            ));
        }
        let device = inputs.first().map_or_else(
            || "torch.device(\"cuda\")".to_owned(),
            |(at, _)| format!("{}.device", self.name(*at)),
        );
        self.line(format!("device = {device}"));
        for dim in dim_sources(manifest)? {
            let input = inputs
                .get(dim.input)
                .map_or("", |(at, _)| self.name(*at))
                .to_owned();
            let (name, axis) = (&dim.name, dim.axis);
            self.line(format!(
                "{name} = _akg_dim(\"{name}\", {input}, {axis}, {}, {})",
                dim.lo, dim.hi
            ));
        }
        for ((at, tensor), port) in inputs.iter().zip(&manifest.inputs) {
            let (name, shape) = (self.name(*at).to_owned(), shape(tensor));
            self.line(format!("_akg_check(\"{}\", {name}, {shape})", port.name));
        }
        for (number, (at, _)) in constants.iter().enumerate() {
            let name = self.name(*at).to_owned();
            self.line(format!("{name} = _akg_constant({number}, device)"));
        }
        for role in [TensorRole::Output, TensorRole::Scratch] {
            for (at, tensor) in self.of(role) {
                let (name, dtype) = (self.name(at).to_owned(), torch_type(tensor.dtype));
                let shape = shape(tensor);
                self.line(format!(
                    "{name} = torch.empty({shape}, dtype={dtype}, device=device)"
                ));
            }
        }
        for launch in &self.plan.launches {
            let grid: Vec<String> = launch
                .grid
                .iter()
                .map(|extent| format!("max({extent}, 0)"))
                .collect();
            let grid = match launch.grid.as_slice() {
                [] => "1".to_owned(),
                [one] if one.as_const().is_some() => one.to_string(),
                _ => grid.join(" * "),
            };
            let mut arguments: Vec<String> =
                launch.tensors.iter().map(|t| self.name(*t).to_owned()).collect();
            arguments.extend(self.plan.dims.iter().map(|d| d.to_string()));
            let cooperative = if launch.cooperative {
                ", launch_cooperative_grid=True"
            } else {
                ""
            };
            let (kernel, arguments) = (&launch.kernel, arguments.join(", "));
            self.line(format!(
                "_akg_launch({kernel}, {grid}, [{arguments}]{cooperative})"
            ));
        }
        self.results(&manifest.outputs, &places);
        Ok(self.out)
    }

    /// Writes new contents where they belong and returns the rest.
    fn results(&mut self, outputs: &[Port], places: &[Value]) {
        let mut results = Vec::new();
        for ((at, _), port) in self.of(TensorRole::Output).into_iter().zip(outputs) {
            let name = self.name(at).to_owned();
            let inputs = &self.bundle.manifest().inputs;
            let updated = port.updates.as_ref();
            let updated = updated.and_then(|u| inputs.iter().zip(places).find(|(p, _)| p.name == *u));
            match updated {
                Some((_, place)) => self.line(format!("{}.data.copy_({name})", find(place))),
                None => results.push(name),
            }
        }
        match results.as_slice() {
            [one] => self.line(format!("return {one}")),
            _ => self.line(format!("return {}", tuple(results.into_iter()))),
        }
    }
}

/// The text that finds an input.
fn find(place: &Value) -> String {
    match place {
        Value::String(path) => format!("_akg_attribute(self, \"{path}\")"),
        position => format!("leaves[{position}]"),
    }
}

fn shape(tensor: &PlanTensor) -> String {
    tuple(tensor.shape.iter().map(Expr::to_string))
}
