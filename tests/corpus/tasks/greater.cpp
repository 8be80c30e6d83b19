//: labels: bool, elementwise
//: graph: {"akg_graph": 1, "name": "greater", "inputs": [{"name": "a", "dtype": "f32", "shape": [70, 70]}, {"name": "b", "dtype": "f32", "shape": [70, 70]}],
//: graph: "nodes": [{"op": "aten.gt.Tensor", "args": {"self": "a", "other": "b"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] > t.b[i];
}
//@ honest the_other_way
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.b[i] < t.a[i] ? 1 : 0;
}
//@ hostile ge_for_gt: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] >= t.b[i];
}
//@ hostile true_is_255: wrong-values, unwritten
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] > t.b[i] ? 255 : 0;
}
//@ hostile of_differences_that_underflow: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] - t.b[i] > 1e-4f;
}
//@ hostile with_a_slack: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] - t.b[i] > std::abs(t.a[i]) * 1e-6f;
}
