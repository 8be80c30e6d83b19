//! The operators that PyTorch tags as its core set: each is known to graphs, or replaced when a module is imported.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::path::Path;
use std::time::Duration;

use akg_core::graph::Operator;
use common::environment;

/// Core operators that no graph can hold.
const EXEMPT: [(&str, &str); 3] = [
    ("_local_scalar_dense.default", "a number that depends on data"),
    ("nonzero.default", "a shape that depends on data"),
    ("randperm.default", "random, without a seed"),
];

/// Prints the core operators, each with whether imports replace it.
const PROGRAM: &str = r#"
import importlib.util, sys

spec = importlib.util.spec_from_file_location("akg_worker", sys.argv[1] + "/__init__.py", submodule_search_locations=[sys.argv[1]])
sys.modules["akg_worker"] = importlib.util.module_from_spec(spec)

import torch
from akg_worker.complex import RULES
from akg_worker.decompose import find

found = []
for name in dir(torch.ops.aten):
    packet = getattr(torch.ops.aten, name)
    for overload in getattr(packet, "overloads", list)():
        op = getattr(packet, overload)
        if torch.Tag.core in op.tags:
            found.append(f"{name}.{overload}:{bool(find(op) or name in RULES)}")
print(*found)
"#;

#[test]
fn core_operators_are_known_or_replaced() {
    let Some(environment) = environment() else { return };
    let worker = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/worker");
    let arguments = [worker.to_str().unwrap()];
    let lines = environment
        .run(PROGRAM, &arguments, Duration::from_secs(240))
        .unwrap();
    let core: Vec<(&str, bool)> = lines
        .last()
        .unwrap()
        .split(' ')
        .map(|item| item.rsplit_once(':').unwrap())
        .map(|(name, replaced)| (name, replaced == "True"))
        .collect();
    assert!(core.len() > 150, "{core:?}");
    let missing = core
        .iter()
        .filter(|(name, replaced)| !replaced && Operator::find(name).is_none())
        .map(|(name, _)| *name);
    assert_eq!(missing.collect::<Vec<_>>(), EXEMPT.map(|(name, _)| name).to_vec());
}
