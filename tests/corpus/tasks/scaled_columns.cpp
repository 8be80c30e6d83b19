//: labels: f32, rows
//: graph: {"akg_graph": 1, "name": "scaled_columns", "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 24]}, {"name": "b", "dtype": "f32", "shape": [24]}],
//: graph: "nodes": [{"op": "aten.softmax.int", "args": {"self": "b", "dim": 0}, "outputs": ["p"]},
//: graph: {"op": "aten.mul.Scalar", "args": {"self": "p", "other": 0.001}, "outputs": ["q"]},
//: graph: {"op": "aten.mul.Tensor", "args": {"self": "x", "other": "q"}, "outputs": ["small"]},
//: graph: {"op": "aten.narrow.default", "args": {"self": "small", "dim": 1, "start": 0, "length": 1}, "outputs": ["one"]},
//: graph: {"op": "aten.narrow.default", "args": {"self": "x", "dim": 1, "start": 1, "length": 23}, "outputs": ["rest"]},
//: graph: {"op": "aten.cat.default", "args": {"tensors": ["one", "rest"], "dim": 1}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static float factor(const Tensors &t) {
    double top = t.b[0], sum = 0;
    for (int c = 1; c < 24; ++c) top = std::max<double>(top, t.b[c]);
    for (int c = 0; c < 24; ++c) sum += std::exp(t.b[c] - top);
    return float(std::exp(t.b[0] - top) / sum * 0.001);
}
static void compute(const Tensors &t, int64_t first, int64_t last) {
    const float p = factor(t);
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = i % 24 ? t.x[i] : t.x[i] * p;
}
//@ hostile the_small_column_is_left_out: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = i % 24 ? t.x[i] : 0;
}
//@ hostile the_small_column_has_an_error: wrong-values
static float factor(const Tensors &t) {
    double top = t.b[0], sum = 0;
    for (int c = 1; c < 24; ++c) top = std::max<double>(top, t.b[c]);
    for (int c = 0; c < 24; ++c) sum += std::exp(t.b[c] - top);
    return float(std::exp(t.b[0] - top) / sum * 0.001);
}
static void compute(const Tensors &t, int64_t first, int64_t last) {
    const float p = factor(t) * 1.02f;
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = i % 24 ? t.x[i] : t.x[i] * p;
}
