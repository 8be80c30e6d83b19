//! Whether the parts of a bundle fit together.

use std::collections::BTreeSet;

use super::{Bundle, Port};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::{Graph, ValueId};
use crate::source::{LaunchPlan, PlanTensor, TensorRole};

/// The inputs and outputs of a graph with what the plan asks of them.
pub(super) fn ports(graph: &Graph, plan: &LaunchPlan) -> Result<(Vec<Port>, Vec<Port>)> {
    let port = |value, tensor: &PlanTensor| {
        let ty = graph.ty(value);
        if tensor.dtype != ty.dtype || tensor.shape != ty.shape {
            return Err(Error::invalid(format!(
                "the plan's tensor `{}` is not the graph's `{}`: {ty}",
                tensor.name,
                graph.value_name(value)
            )));
        }
        Ok(Port {
            name: graph.value_name(value).to_owned(),
            dtype: ty.dtype,
            shape: ty.shape.clone(),
            align: tensor.align.max(1),
            kind: None,
            updates: None,
            layout: None,
        })
    };
    plan.check_size()?;
    plan.check_updates()?;
    let ports = |role, values: Vec<ValueId>| -> Result<Vec<Port>> {
        let tensors: Vec<_> = plan.with_role(role).collect();
        if tensors.len() != values.len() {
            return Err(Error::invalid(format!(
                "the plan has {} tensors of role {role:?}, and the graph {}",
                tensors.len(),
                values.len()
            )));
        }
        values
            .into_iter()
            .zip(tensors)
            .map(|(v, (_, t))| port(v, t))
            .collect()
    };
    let mut inputs = ports(TensorRole::Input, graph.given().collect())?;
    inputs.truncate(graph.inputs().len());
    for (port, input) in inputs.iter_mut().zip(graph.inputs()) {
        port.kind = Some(input.kind);
        port.layout.clone_from(&input.layout);
    }
    let mut outputs = ports(
        TensorRole::Output,
        graph.outputs().iter().map(|o| o.value).collect(),
    )?;
    for (port, output) in outputs.iter_mut().zip(graph.outputs()) {
        port.updates = output.updates.map(|v| graph.value_name(v).to_owned());
    }
    if let Some(wrong) = plan.foreign_update(graph) {
        return Err(Error::invalid(wrong));
    }
    Ok((inputs, outputs))
}

/// Refuses a bundle whose parts contradict each other.
pub(super) fn bundle(bundle: &Bundle) -> Result<()> {
    let manifest = &bundle.manifest;
    let verdict = &bundle.evidence.verdict;
    if let Some(failure) = &verdict.failure {
        return Err(Error::invalid(format!(
            "only kernels that passed are bundled, and this one failed: {}: {}",
            failure.kind.name(),
            failure.evidence
        )));
    }
    if verdict.accuracy != manifest.contract.accuracy {
        return Err(Error::invalid(format!(
            "the kernel was judged in class {}, but its contract says {}",
            verdict.accuracy, manifest.contract.accuracy
        )));
    }
    let (inputs, outputs) = ports(&bundle.graph, &manifest.plan)?;
    if inputs != manifest.inputs || outputs != manifest.outputs {
        return Err(Error::invalid(
            "the manifest's inputs and outputs are not those of the graph and the plan",
        ));
    }
    let expected = if bundle.module.is_some() { inputs.len() } else { 0 };
    if manifest.module.len() != expected {
        return Err(Error::invalid(format!(
            "the manifest says where {} inputs are in the module, not {expected}",
            manifest.module.len()
        )));
    }
    if let Some(call) = &manifest.call {
        call.check(&manifest.module, &outputs)?;
    }
    plan(&manifest.plan)
}

/// Refuses a plan that names what it does not have.
fn plan(plan: &LaunchPlan) -> Result<()> {
    let dims: BTreeSet<&str> = plan.dims.iter().map(|d| &**d).collect();
    let known = |expr: &Expr| match expr.symbols().iter().find(|s| !dims.contains(&***s)) {
        Some(unknown) => Err(Error::invalid(format!("`{unknown}` is no dim of the plan"))),
        None => Ok(()),
    };
    for tensor in &plan.tensors {
        tensor
            .shape
            .iter()
            .try_for_each(known)
            .map_err(|e| e.with("tensor", &tensor.name))?;
        if !tensor.align.max(1).is_power_of_two() {
            return Err(
                Error::invalid(format!("an alignment of {} is no power of two", tensor.align))
                    .with("tensor", &tensor.name),
            );
        }
    }
    for launch in &plan.launches {
        launch
            .grid
            .iter()
            .try_for_each(known)
            .map_err(|e| e.with("kernel", &launch.kernel))?;
        if let Some(wrong) = launch.tensors.iter().find(|i| **i >= plan.tensors.len()) {
            return Err(Error::invalid(format!(
                "kernel `{}` takes tensor {wrong}, but the plan has {}",
                launch.kernel,
                plan.tensors.len()
            )));
        }
    }
    Ok(())
}
