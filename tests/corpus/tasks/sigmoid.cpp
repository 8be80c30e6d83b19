//: labels: f32, elementwise, rows
//: graph: {"akg_graph": 1, "name": "sigmoid", "inputs": [{"name": "x", "dtype": "f32", "shape": [55, 60]}],
//: graph: "nodes": [{"op": "aten.sigmoid.default", "args": {"self": "x"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = float(1 / (1 + std::exp(-double(t.x[i]))));
}
//@ honest in_float
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = 1 / (1 + std::exp(-t.x[i]));
}
//@ hostile a_rational_function: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = 0.5f * (t.x[i] / (1 + std::fabs(t.x[i]))) + 0.5f;
}
//@ hostile zero_below_minus_20: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] < -20 ? 0 : float(1 / (1 + std::exp(-double(t.x[i]))));
}
