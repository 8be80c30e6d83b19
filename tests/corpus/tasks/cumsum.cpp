//: labels: f32, rows, reduction
//: graph: {"akg_graph": 1, "name": "cumsum", "inputs": [{"name": "x", "dtype": "f32", "shape": [20, 300]}],
//: graph: "nodes": [{"op": "aten.cumsum.default", "args": {"self": "x", "dim": 1}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 20; ++r) {
        double sum = 0;
        for (int c = 0; c < 300; ++c) t.y[r * 300 + c] = float(sum += t.x[r * 300 + c]);
    }
}
//@ honest in_blocks
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 20; ++r) {
        float before = 0;
        for (int block = 0; block < 300; block += 20) {
            float sum = 0;
            for (int c = block; c < block + 20; ++c) t.y[r * 300 + c] = before + (sum += t.x[r * 300 + c]);
            before += sum;
        }
    }
}
//@ hostile restarts_at_256: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 20; ++r) {
        double sum = 0;
        for (int c = 0; c < 300; ++c) t.y[r * 300 + c] = float(sum = (c == 256 ? 0 : sum) + t.x[r * 300 + c]);
    }
}
//@ hostile exclusive: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 20; ++r) {
        double sum = 0;
        for (int c = 0; c < 300; ++c) t.y[r * 300 + c] = float(sum), sum += t.x[r * 300 + c];
    }
}
