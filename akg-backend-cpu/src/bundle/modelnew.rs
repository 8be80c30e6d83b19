//! Bundles as PyTorch modules.

use akg_core::bundle::module::{PYTHON_RESERVED, constructor, dim_sources, places, tuple};
use akg_core::bundle::structure::LEAVES;
use akg_core::bundle::{Bundle, Manifest};
use akg_core::error::{Error, Result};
use akg_core::expr::Expr;
use akg_core::lower::loops::Names;
use akg_core::source::{LaunchPlan, TensorRole, comment_lines};
use akg_worker::client::FORMAT;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

const TEMPLATE: &str = include_str!("modelnew.py");

/// Bytes of the shared object in one line of text.
const LINE: usize = 84;

/// A Python file with a class `ModelNew` that computes what the bundle does on CPU tensors: the file needs PyTorch and
/// nothing else, the shared object is in it.
///
/// For a task from a PyTorch module, the file holds the module's text, and `ModelNew` is its `Model` with another
/// `forward`: the same parameters, constructed in the same order. Otherwise weights become parameters in the graph's
/// order. What `forward` returns has the structure that the module gives it, and arguments and buffers that the module changes
/// are changed. Arguments of `forward` that are no tensors must have the values that they had when the task was made.
///
/// # Errors
/// [`Unsupported`](akg_core::ErrorKind::Unsupported) for other artifacts than shared objects, for kernels whose programs
/// wait for each other, for weights of symbolic extents, and for arguments and results that are objects of unknown structure.
pub fn modelnew(bundle: &Bundle) -> Result<String> {
    let manifest = bundle.manifest();
    let plan = &manifest.plan;
    if manifest.format != FORMAT {
        return Err(Error::unsupported(format!(
            "only artifacts of format `{FORMAT}` become PyTorch modules, not `{}`",
            manifest.format
        )));
    }
    if let Some(launch) = plan.launches.iter().find(|l| l.cooperative) {
        return Err(Error::unsupported(format!(
            "the programs of kernel `{}` wait for each other, which the PyTorch form cannot do",
            launch.kernel
        )));
    }
    let places = places(manifest);
    let module = bundle.module();
    let text = module.map_or_else(
        || "import torch\nimport torch.nn as nn\n".to_owned(),
        |text| format!("{}\n", text.trim_end()),
    );
    let init = match module {
        Some(_) => String::new(),
        None => constructor(&manifest.inputs, &|port| {
            format!("_akg_types[\"{}\"]", port.dtype)
        })?,
    };
    let order = |role| plan.with_role(role).map(|(i, _)| i).collect::<Vec<_>>();
    let mut inputs = order(TensorRole::Input);
    let constants = inputs.split_off(manifest.inputs.len().min(inputs.len()));
    let scratch = plan
        .with_role(TensorRole::Scratch)
        .map(|(_, t)| json!([t.name, t.dtype, t.align.max(1)]));
    let constant_values = bundle.graph().constants().iter().map(|c| {
        let shape = tuple(c.tensor.shape().iter().map(ToString::to_string));
        format!(
            "(\"{}\", \"{}\", {shape})",
            STANDARD.encode(c.tensor.bytes()),
            c.tensor.dtype()
        )
    });
    let ports = manifest.inputs.iter().zip(&places);
    let ports = ports.map(|(port, place)| {
        let layout = port
            .layout
            .as_ref()
            .map(|l| json!([l.shape, l.strides, l.span().ok()]));
        json!([port.name, port.dtype, port.align, place, layout])
    });
    let outputs = manifest.outputs.iter().map(|port| {
        let input = port
            .updates
            .as_ref()
            .and_then(|name| manifest.inputs.iter().position(|p| p.name == *name));
        json!([
            port.name,
            port.dtype,
            port.align,
            input.and_then(|i| places.get(i))
        ])
    });
    let dims = dims(bundle)?;
    let (arguments, leaves) = arguments(manifest)?;
    let launches = plan.launches.iter().map(|l| json!([l.kernel, l.tensors]));
    let mut names = Names::new(PYTHON_RESERVED);
    let renamed = plan.rename_dims(|dim| names.fresh(dim));
    let shapes = renamed
        .tensors
        .iter()
        .map(|t| tuple(t.shape.iter().map(Expr::to_string)));
    let symbols: Vec<_> = renamed.dims.iter().map(|d| &**d).collect();
    let order = json!({
        "inputs": inputs,
        "constants": constants,
        "outputs": order(TensorRole::Output),
        "scratch": order(TensorRole::Scratch),
        "updates": plan.updates().collect::<Vec<_>>(),
    });
    let fill = [
        (
            "@AKG@",
            comment_lines(&manifest.akg).collect::<Vec<_>>().join(" "),
        ),
        ("@NAME@", json!(manifest.name).to_string()),
        ("@ACCURACY@", manifest.contract.accuracy.to_string()),
        ("@HASH@", bundle.content_hash()?),
        ("@ARCH@", json!(manifest.requires.arch).to_string()),
        ("@FEATURES@", json!(manifest.requires.features).to_string()),
        ("@INPUTS@", list(ports.map(|p| python(&p)))),
        ("@OUTPUTS@", list(outputs.map(|p| python(&p)))),
        ("@SCRATCH@", list(scratch.map(|p| python(&p)))),
        ("@DIMS@", list(dims.iter().map(python))),
        ("@LAUNCHES@", list(launches.map(|p| python(&p)))),
        ("@ORDER@", python(&order)),
        ("@SYMBOLS@", symbols.join(", ")),
        ("@SHAPES@", list(shapes)),
        ("@PROGRAMS@", list(programs(&renamed))),
        ("@CONSTANTS@", list(constant_values)),
        (
            "@BASE@",
            if module.is_some() { "Model" } else { "nn.Module" }.to_owned(),
        ),
        ("@INIT@", init),
        ("@ARGUMENTS@", arguments),
        ("@LEAVES@", leaves),
        ("@RESULTS@", results(manifest)?),
        ("@OBJECT@", object(bundle.artifact_bytes())),
    ];
    let mut filled = TEMPLATE.to_owned();
    for (hole, value) in fill {
        filled = filled.replace(hole, &value);
    }
    Ok(text + &filled)
}

/// The text before the class to take the arguments of a call apart, and the statements that do so.
fn arguments(manifest: &Manifest) -> Result<(String, String)> {
    let Some(arguments) = manifest.call.as_ref().and_then(|call| call.arguments.as_ref()) else {
        let leaves = "leaves = torch.utils._pytree.tree_leaves((arguments, keywords))";
        return Ok((String::new(), leaves.to_owned()));
    };
    let patterns = arguments.iter().map(|(name, structure)| {
        let name = name.trim_start_matches('*');
        Ok(format!("(\"{name}\", {})", structure.pattern()?))
    });
    let patterns = patterns.collect::<Result<Vec<_>>>()?;
    let before = format!(
        "\n\n{LEAVES}\n\n# The parameters of `forward` with what each is given.\n_akg_arguments = {}\n",
        list(patterns.into_iter())
    );
    let leaves = [
        "given, leaves = _akg_inspect.signature(super().forward).bind(*arguments, **keywords), {}",
        "given.apply_defaults()",
        "for name, expected in _akg_arguments:",
        "    akg_leaves(name, given.arguments[name], expected, leaves)",
    ];
    Ok((before, leaves.join("\n        ")))
}

/// The result of `forward`, made of the list `results`.
fn results(manifest: &Manifest) -> Result<String> {
    let Some(call) = &manifest.call else {
        return Ok("results[0] if len(results) == 1 else tuple(results)".to_owned());
    };
    call.results
        .expression(&|output| format!("results[{output}]"), &|at| {
            format!("leaves[{at}]")
        })
}

/// The dims with where their values come from.
fn dims(bundle: &Bundle) -> Result<Vec<serde_json::Value>> {
    let dims = dim_sources(bundle.manifest())?;
    Ok(dims
        .iter()
        .map(|d| json!([d.name, d.input, d.axis, d.lo, d.hi]))
        .collect())
}

fn programs(plan: &LaunchPlan) -> impl Iterator<Item = String> {
    plan.launches.iter().map(|launch| {
        let extents: Vec<_> = launch
            .grid
            .iter()
            .map(|extent| format!("max({extent}, 0)"))
            .collect();
        if extents.is_empty() {
            "1".to_owned()
        } else {
            extents.join(" * ")
        }
    })
}

/// A Python list, an item on each line if there are several.
fn list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.collect();
    match items.as_slice() {
        [] => "[]".to_owned(),
        [one] => format!("[{one}]"),
        _ => format!("[\n    {},\n]", items.join(",\n    ")),
    }
}

/// JSON without booleans is Python but for one word.
fn python(value: &serde_json::Value) -> String {
    if let Some(items) = value.as_array() {
        let items: Vec<_> = items.iter().map(python).collect();
        return format!("[{}]", items.join(", "));
    }
    if value.is_null() {
        "None".to_owned()
    } else {
        value.to_string()
    }
}

/// Bytes as lines of a Python string.
fn object(bytes: &[u8]) -> String {
    let lines = bytes
        .chunks(LINE)
        .map(|chunk| format!("    \"{}\"", STANDARD.encode(chunk)));
    lines.collect::<Vec<_>>().join("\n")
}
