//: labels: f32, rows, reduction
//: graph: {"akg_graph": 1, "name": "normalize", "inputs": [{"name": "x", "dtype": "f32", "shape": [40, 64]}],
//: graph: "nodes": [{"op": "aten.mul.Tensor", "args": {"self": "x", "other": "x"}, "outputs": ["s"]},
//: graph: {"op": "aten.sum.dim_IntList", "args": {"self": "s", "dim": [1], "keepdim": true}, "outputs": ["q"]},
//: graph: {"op": "aten.sqrt.default", "args": {"self": "q"}, "outputs": ["n"]},
//: graph: {"op": "aten.clamp_min.default", "args": {"self": "n", "min": 1e-6}, "outputs": ["d"]},
//: graph: {"op": "aten.div.Tensor", "args": {"self": "x", "other": "d"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 40; ++r) {
        double sum = 0;
        for (int c = 0; c < 64; ++c) sum += double(t.x[r * 64 + c]) * t.x[r * 64 + c];
        const double norm = std::max(std::sqrt(sum), 1e-6);
        for (int c = 0; c < 64; ++c) t.y[r * 64 + c] = float(t.x[r * 64 + c] / norm);
    }
}
//@ hostile zeros_divided_by_zero: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 40; ++r) {
        double sum = 0;
        for (int c = 0; c < 64; ++c) sum += double(t.x[r * 64 + c]) * t.x[r * 64 + c];
        for (int c = 0; c < 64; ++c) t.y[r * 64 + c] = float(t.x[r * 64 + c] / std::sqrt(sum));
    }
}
//@ hostile neighbours_that_are_equal: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 40; ++r) {
        double sum = 0;
        for (int c = 0; c < 64; ++c)
            if (c == 0 || t.x[r * 64 + c] != t.x[r * 64 + c - 1]) sum += double(t.x[r * 64 + c]) * t.x[r * 64 + c];
        const double norm = std::max(std::sqrt(sum), 1e-6);
        for (int c = 0; c < 64; ++c) t.y[r * 64 + c] = float(t.x[r * 64 + c] / norm);
    }
}
