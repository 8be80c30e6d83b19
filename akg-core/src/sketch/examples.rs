//! Sketches that come with the crate.

macro_rules! examples {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../sketches/", $name, ".sketch")))),*]
    };
}

/// Sketches that show the language, each as its name and its text.
///
/// All are right for every shape and knob point that elaborates; they are starting points, not tuned for a device.
pub fn examples() -> &'static [(&'static str, &'static str)] {
    examples![
        "argmax",
        "attention",
        "bincount",
        "conv2d",
        "cumsum",
        "embedding",
        "gemm_split",
        "gemm_splitk",
        "gemm_tail",
        "layernorm",
        "maxpool2d",
        "rnn",
        "softmax_fits",
        "softmax_online",
    ]
}
