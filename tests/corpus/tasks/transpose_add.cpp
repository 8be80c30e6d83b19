//: labels: f32, elementwise
//: graph: {"akg_graph": 1, "name": "transpose_add", "inputs": [{"name": "a", "dtype": "f32", "shape": [45, 70]}, {"name": "b", "dtype": "f32", "shape": [70, 45]}],
//: graph: "nodes": [{"op": "aten.t.default", "args": {"self": "a"}, "outputs": ["s"]},
//: graph: {"op": "aten.add.Tensor", "args": {"self": "s", "other": "b"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 70; ++r)
        for (int c = 0; c < 45; ++c) t.y[r * 45 + c] = t.a[c * 70 + r] + t.b[r * 45 + c];
}
//@ honest in_tiles
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int R = 0; R < 70; R += 16)
        for (int C = 0; C < 45; C += 16)
            for (int c = C; c < std::min(C + 16, 45); ++c)
                for (int r = R; r < std::min(R + 16, 70); ++r) t.y[r * 45 + c] = t.b[r * 45 + c] + t.a[c * 70 + r];
}
//@ hostile not_transposed: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] + t.b[i];
}
//@ hostile the_last_tile_is_shifted: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 70; ++r)
        for (int c = 0; c < 45; ++c) t.y[r * 45 + c] = t.a[c * 70 + std::min<int64_t>(r, 68)] + t.b[r * 45 + c];
}
