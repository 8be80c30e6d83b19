//: labels: f32, window
//: programs: 3
//: graph: {"akg_graph": 1, "name": "max_pool", "inputs": [{"name": "x", "dtype": "f32", "shape": [3, 4, 20, 22]}],
//: graph: "nodes": [{"op": "aten.max_pool2d.default", "args": {"self": "x", "kernel_size": [2, 2]}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t p = first * 4; p < last * 4; ++p)
        for (int r = 0; r < 10; ++r)
            for (int c = 0; c < 11; ++c) {
                const float *x = t.x + (p * 20 + 2 * r) * 22 + 2 * c;
                t.y[(p * 10 + r) * 11 + c] = std::max(std::max(x[0], x[1]), std::max(x[22], x[23]));
            }
}
//@ hostile starts_at_zero: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t p = first * 4; p < last * 4; ++p)
        for (int r = 0; r < 10; ++r)
            for (int c = 0; c < 11; ++c) {
                const float *x = t.x + (p * 20 + 2 * r) * 22 + 2 * c;
                t.y[(p * 10 + r) * 11 + c] = std::max(std::max(std::max(x[0], x[1]), std::max(x[22], x[23])), 0.0f);
            }
}
//@ hostile three_of_four: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t p = first * 4; p < last * 4; ++p)
        for (int r = 0; r < 10; ++r)
            for (int c = 0; c < 11; ++c) {
                const float *x = t.x + (p * 20 + 2 * r) * 22 + 2 * c;
                t.y[(p * 10 + r) * 11 + c] = std::max(std::max(x[0], x[1]), x[22]);
            }
}
//@ hostile starts_at_a_large_negative_number: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t p = first * 4; p < last * 4; ++p)
        for (int r = 0; r < 10; ++r)
            for (int c = 0; c < 11; ++c) {
                const float *x = t.x + (p * 20 + 2 * r) * 22 + 2 * c;
                t.y[(p * 10 + r) * 11 + c] = std::max(-1e4f, std::max(std::max(x[0], x[1]), std::max(x[22], x[23])));
            }
}
