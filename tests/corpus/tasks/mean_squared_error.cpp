//: labels: f32, scalar, reduction
//: graph: {"akg_graph": 1, "name": "mean_squared_error", "inputs": [{"name": "a", "dtype": "f32", "shape": [60, 50]}, {"name": "b", "dtype": "f32", "shape": [60, 50]}],
//: graph: "nodes": [{"op": "aten.mse_loss.default", "args": {"self": "a", "target": "b"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    double sum = 0;
    for (int64_t i = 0; i < a_size; ++i) sum += (double(t.a[i]) - t.b[i]) * (double(t.a[i]) - t.b[i]);
    t.y[0] = float(sum / a_size);
}
//@ hostile a_sample: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    double sum = 0;
    for (int64_t i = 0; i < a_size; i += 2) sum += (double(t.a[i]) - t.b[i]) * (double(t.a[i]) - t.b[i]);
    t.y[0] = float(sum / (a_size / 2));
}
//@ hostile all_but_one: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    double sum = 0;
    for (int64_t i = 0; i < a_size - 1; ++i) sum += (double(t.a[i]) - t.b[i]) * (double(t.a[i]) - t.b[i]);
    t.y[0] = float(sum / a_size);
}
//@ hostile a_constant: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    t.y[0] = 2;
}
