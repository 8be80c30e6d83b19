//: labels: f32, rows, reduction
//: graph: {"akg_graph": 1, "name": "logsumexp", "inputs": [{"name": "x", "dtype": "f32", "shape": [30, 90]}],
//: graph: "nodes": [{"op": "aten.logsumexp.default", "args": {"self": "x", "dim": [1]}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 30; ++r) {
        double top = t.x[r * 90], sum = 0;
        for (int c = 1; c < 90; ++c) top = std::max<double>(top, t.x[r * 90 + c]);
        for (int c = 0; c < 90; ++c) sum += std::exp(t.x[r * 90 + c] - top);
        t.y[r] = float(top + std::log(sum));
    }
}
//@ hostile no_maximum: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 30; ++r) {
        float sum = 0;
        for (int c = 0; c < 90; ++c) sum += std::exp(t.x[r * 90 + c]);
        t.y[r] = std::log(sum);
    }
}
//@ hostile the_maximum: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 30; ++r) {
        float top = t.x[r * 90];
        for (int c = 1; c < 90; ++c) top = std::max(top, t.x[r * 90 + c]);
        t.y[r] = top;
    }
}
