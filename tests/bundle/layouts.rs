//! Calls with tensors that are not dense and row-major.

use akg::graph::Layout;
use akg::{DType, ErrorKind, Graph, Task, Tensor, TensorView, TensorViewMut};

use crate::support::bundle;
use crate::{load, refused};

/// The sum of each row of a transposed matrix, whose storage has 3 rows of 4.
const ROW_SUMS: &str = r#"// akg-launch: {"tensors": [
// {"name": "x", "dtype": "f32", "shape": [12], "role": "input", "align": 4},
// {"name": "y", "dtype": "f32", "shape": [4], "role": "output", "align": 4}],
// "launches": [{"kernel": "row_sums", "grid": [4], "tensors": [0, 1]}]}
#include <cstdint>
extern "C" void row_sums(void *const *tensors, const int64_t *, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  float *y = static_cast<float *>(tensors[1]);
  for (int64_t i = first; i < last; ++i) y[i] = x[i] + x[4 + i] + x[8 + i];
}
"#;

fn row_sums() -> (Task, &'static str) {
    let mut graph = Graph::new("row_sums");
    let layout = Layout {
        shape: vec![4, 3],
        strides: vec![1, 4],
    };
    let x = graph.strided_input("x", DType::F32, layout).unwrap();
    let y = graph.sum(x, &[1], false).unwrap();
    graph.output(y);
    (Task::new("row_sums", graph), ROW_SUMS)
}

#[test]
fn a_call_takes_the_layout_that_the_kernel_is_for() {
    let Some(bundle) = bundle(row_sums()) else {
        return;
    };
    let loaded = load(&bundle, 1);
    let x: Vec<f32> = (0..12u8).map(f32::from).collect();
    let call = |shape: &[usize], strides: &[isize]| {
        let mut y = [f32::NAN; 4];
        let given = TensorView::with_strides(&x, shape, strides)?;
        loaded.call(&[given.into()], &mut [TensorViewMut::new(&mut y, &[4])?.into()])?;
        Ok(y)
    };
    let sums = [12.0, 15.0, 18.0, 21.0];
    assert_eq!(call(&[4, 3], &[1, 4]).unwrap(), sums);
    assert_eq!(call(&[12], &[1]).unwrap(), sums, "the storage itself");
    for (shape, strides) in [
        (&[4, 3][..], &[3, 1][..]),
        (&[3, 4], &[4, 1]),
        (&[4, 3], &[0, 1]),
        (&[2, 3], &[1, 4]),
    ] {
        let words = ["`x`", "[4, 3] with strides [1, 4]"];
        refused(call(shape, strides), ErrorKind::InvalidInput, &words);
    }
    let run = loaded.run(&[Tensor::from_slice([12], &x).unwrap()]).unwrap();
    assert_eq!(run[0].as_slice::<f32>().unwrap(), sums);
}
