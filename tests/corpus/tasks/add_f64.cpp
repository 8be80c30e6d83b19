//: labels: f64, elementwise
//: graph: {"akg_graph": 1, "name": "add_f64", "inputs": [{"name": "a", "dtype": "f64", "shape": [30, 40]}, {"name": "b", "dtype": "f64", "shape": [30, 40]}],
//: graph: "nodes": [{"op": "aten.add.Tensor", "args": {"self": "a", "other": "b"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] + t.b[i];
}
//@ hostile in_float: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = float(t.a[i]) + float(t.b[i]);
}
