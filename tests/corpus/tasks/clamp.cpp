//: labels: f32, elementwise, rows
//: graph: {"akg_graph": 1, "name": "clamp", "inputs": [{"name": "x", "dtype": "f32", "shape": [40, 128]}],
//: graph: "nodes": [{"op": "aten.mul.Scalar", "args": {"self": "x", "other": 0.5}, "outputs": ["h"]},
//: graph: {"op": "aten.clamp.default", "args": {"self": "h", "min": -10.0, "max": 10.0}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = std::min(std::max(t.x[i] * 0.5f, -10.0f), 10.0f);
}
//@ honest by_comparison
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const float h = t.x[i] / 2;
        t.y[i] = h < -10 ? -10 : h > 10 ? 10 : h;
    }
}
//@ hostile no_clamp: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] * 0.5f;
}
//@ hostile no_lower_clamp: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = std::min(t.x[i] * 0.5f, 10.0f);
}
//@ hostile clamp_before_scale: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = std::min(std::max(t.x[i], -10.0f), 10.0f) * 0.5f;
}
//@ hostile clamp_at_11: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = std::min(std::max(t.x[i] * 0.5f, -10.0f), 11.0f);
}
