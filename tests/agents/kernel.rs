//! Sums of the rows of relu(x) of f32[37, 101], as a task and as models write it in C++.

use akg::chat::ChatReply;
use akg::{DType, Graph, Task};

/// Sums of the rows of relu(x).
pub(crate) fn task() -> Task {
    let mut graph = Graph::new("rows");
    let x = graph.input("x", DType::F32, [ROWS, COLUMNS]);
    let y = graph.relu(x).and_then(|y| graph.sum(y, &[1], false)).unwrap();
    graph.rename(y, "y").unwrap();
    graph.output(y);
    Task::new("rows", graph)
}

pub(crate) const ROWS: i64 = 37;
pub(crate) const COLUMNS: i64 = 101;

/// The launch plan of one kernel.
pub(crate) const PLAN: &str = r#"// akg-launch: {"tensors": [{"name": "x", "dtype": "f32", "shape": [37, 101], "role": "input", "align": 64},
// {"name": "y", "dtype": "f32", "shape": [37], "role": "output", "align": 64}],
// "launches": [{"kernel": "rows", "grid": [37], "tensors": [0, 1]}]}
"#;

/// A right kernel.
pub(crate) const RIGHT: &str = "#include <cstdint>

extern \"C\" void rows(void *const *tensors, const int64_t *, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  float *y = static_cast<float *>(tensors[1]);
  for (int64_t row = first; row < last; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < 101; ++i) {
      const float v = x[row * 101 + i];
      sum += v > 0 ? v : 0;
    }
    y[row] = static_cast<float>(sum);
  }
}
";

pub(crate) fn fenced(text: &str) -> ChatReply {
    ChatReply::text(format!("Rows, one after the other.\n\n```cpp\n{text}```\n"))
}

/// A kernel with its launch plan.
pub(crate) fn kernel(text: &str) -> ChatReply {
    fenced(&format!("{PLAN}{text}"))
}

/// The right kernel with this in another's place, which must be there.
pub(crate) fn slip(right: &str, wrong: &str) -> String {
    assert!(RIGHT.contains(right), "{right}");
    RIGHT.replace(right, wrong)
}

pub(crate) fn edit(old: &str, new: &str) -> ChatReply {
    ChatReply::text(format!(
        "That was a slip.\n\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
    ))
}
