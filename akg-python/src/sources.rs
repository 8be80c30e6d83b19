//! The worker's Python files, embedded here and written to the cache for Python to run.

use std::path::{Path, PathBuf};

use akg_core::error::Result;

use crate::cache;

/// The file to run, and the package beside it.
const FILES: &[(&str, &str)] = &[
    ("serve.py", include_str!("worker/serve.py")),
    ("akg_worker/__init__.py", include_str!("worker/__init__.py")),
    ("akg_worker/errors.py", include_str!("worker/errors.py")),
    ("akg_worker/template.py", include_str!("worker/template.py")),
    ("akg_worker/warm.py", include_str!("worker/warm.py")),
    ("akg_worker/vector.py", include_str!("worker/vector.py")),
    ("akg_worker/tensors.py", include_str!("worker/tensors.py")),
    ("akg_worker/held.py", include_str!("worker/held.py")),
    ("akg_worker/module.py", include_str!("worker/module.py")),
    ("akg_worker/capture.py", include_str!("worker/capture.py")),
    ("akg_worker/unchecked.py", include_str!("worker/unchecked.py")),
    ("akg_worker/backward.py", include_str!("worker/backward.py")),
    ("akg_worker/joint.py", include_str!("worker/joint.py")),
    ("akg_worker/complex.py", include_str!("worker/complex.py")),
    ("akg_worker/decompose.py", include_str!("worker/decompose.py")),
    (
        "akg_worker/decompositions/__init__.py",
        include_str!("worker/decompositions/__init__.py"),
    ),
    (
        "akg_worker/decompositions/bessel.py",
        include_str!("worker/decompositions/bessel.py"),
    ),
    (
        "akg_worker/decompositions/composed.py",
        include_str!("worker/decompositions/composed.py"),
    ),
    (
        "akg_worker/decompositions/elementwise.py",
        include_str!("worker/decompositions/elementwise.py"),
    ),
    (
        "akg_worker/decompositions/errors.py",
        include_str!("worker/decompositions/errors.py"),
    ),
    (
        "akg_worker/decompositions/fit.py",
        include_str!("worker/decompositions/fit.py"),
    ),
    (
        "akg_worker/decompositions/gamma.py",
        include_str!("worker/decompositions/gamma.py"),
    ),
    (
        "akg_worker/decompositions/gradients.py",
        include_str!("worker/decompositions/gradients.py"),
    ),
    (
        "akg_worker/decompositions/incomplete.py",
        include_str!("worker/decompositions/incomplete.py"),
    ),
    (
        "akg_worker/decompositions/layers.py",
        include_str!("worker/decompositions/layers.py"),
    ),
    (
        "akg_worker/decompositions/ordering.py",
        include_str!("worker/decompositions/ordering.py"),
    ),
    (
        "akg_worker/decompositions/polynomials.py",
        include_str!("worker/decompositions/polynomials.py"),
    ),
    (
        "akg_worker/decompositions/registry.py",
        include_str!("worker/decompositions/registry.py"),
    ),
    (
        "akg_worker/decompositions/resample.py",
        include_str!("worker/decompositions/resample.py"),
    ),
    (
        "akg_worker/decompositions/scatter.py",
        include_str!("worker/decompositions/scatter.py"),
    ),
    (
        "akg_worker/decompositions/views.py",
        include_str!("worker/decompositions/views.py"),
    ),
    ("akg_worker/guards.py", include_str!("worker/guards.py")),
    ("akg_worker/graph.py", include_str!("worker/graph.py")),
    ("akg_worker/structure.py", include_str!("worker/structure.py")),
    ("akg_worker/sizes.py", include_str!("worker/sizes.py")),
    ("akg_worker/recurrent.py", include_str!("worker/recurrent.py")),
    ("akg_worker/replay.py", include_str!("worker/replay.py")),
    ("akg_worker/function.py", include_str!("worker/function.py")),
    ("akg_worker/baseline.py", include_str!("worker/baseline.py")),
    ("akg_worker/settings.py", include_str!("worker/settings.py")),
    ("akg_worker/replaced.py", include_str!("worker/replaced.py")),
    ("akg_worker/left_behind.py", include_str!("worker/left_behind.py")),
    ("akg_worker/candidate.py", include_str!("worker/candidate.py")),
    ("akg_worker/digest.py", include_str!("worker/digest.py")),
    ("akg_worker/watch.py", include_str!("worker/watch.py")),
];

/// Identifies the files' content.
pub(crate) fn hash() -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for (name, text) in FILES {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize()
}

/// Writes the files below the cache directory unless they are there, and returns the one to run.
pub(crate) fn write(cache: &Path) -> Result<PathBuf> {
    let hash = hash().to_hex();
    let directory = cache.join(format!("worker-{}", hash.get(..16).unwrap_or(&hash)));
    for (name, text) in FILES {
        let path = directory.join(name);
        // The name says what the content is, and files appear whole.
        if !path.exists() {
            cache::write(&path, text.as_bytes())?;
        }
    }
    Ok(directory.join("serve.py"))
}
