//: labels: f32, elementwise, rows
//: graph: {"akg_graph": 1, "name": "threshold", "inputs": [{"name": "x", "dtype": "f32", "shape": [48, 96]}],
//: graph: "nodes": [{"op": "aten.gt.Scalar", "args": {"self": "x", "other": 0.75}, "outputs": ["m"]},
//: graph: {"op": "aten.mul.Scalar", "args": {"self": "x", "other": 0.1}, "outputs": ["small"]},
//: graph: {"op": "aten.where.self", "args": {"condition": "m", "self": "x", "other": "small"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] > 0.75f ? t.x[i] : t.x[i] * 0.1f;
}
//@ honest by_selection
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const float factor[2] = {0.1f, 1.0f};
        t.y[i] = t.x[i] * factor[t.x[i] > 0.75f];
    }
}
//@ hostile ge_for_gt: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] >= 0.75f ? t.x[i] : t.x[i] * 0.1f;
}
//@ hostile threshold_off_by_little: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] > 0.7501f ? t.x[i] : t.x[i] * 0.1f;
}
//@ hostile absolute_value: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = std::fabs(t.x[i]) > 0.75f && t.x[i] > -3 ? t.x[i] * (t.x[i] > 0 ? 1 : 0.1f) : t.x[i] < -3 ? t.x[i] : t.x[i] * 0.1f;
}
