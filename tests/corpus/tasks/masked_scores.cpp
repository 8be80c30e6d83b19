//: labels: f32, rows
//: graph: {"akg_graph": 1, "name": "masked_scores", "inputs": [{"name": "s", "dtype": "f32", "shape": [48, 64]}, {"name": "m", "dtype": "bool", "shape": [48, 64]}],
//: graph: "nodes": [{"op": "aten.mul.Scalar", "args": {"self": "s", "other": 0.125}, "outputs": ["h"]},
//: graph: {"op": "aten.masked_fill.Scalar", "args": {"self": "h", "mask": "m", "value": 1000000000.0}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : t.s[i] * 0.125f;
}
//@ honest by_selection
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const float either[2] = {t.s[i] / 8, 1e9f};
        t.y[i] = either[t.m[i]];
    }
}
//@ hostile garbage_beside_the_constant: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : t.s[i] * 0.125f + 0.05f;
}
//@ hostile zeros_beside_the_constant: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : 0;
}
//@ hostile in_half_beside_the_constant: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : float(_Float16(t.s[i])) * 0.125f;
}
//@ hostile constant_off: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1.001e9f : t.s[i] * 0.125f;
}
