//: labels: f32, gather
//: graph: {"akg_graph": 1, "name": "picked_rows", "inputs": [{"name": "x", "dtype": "f32", "shape": [45, 16]}, {"name": "at", "dtype": "i64", "shape": [60]}],
//: graph: "nodes": [{"op": "aten.index.Tensor", "args": {"self": "x", "indices": ["at"]}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t k = 0; k < 60; ++k) {
        const int64_t at = t.at[k] < 0 ? t.at[k] + 45 : t.at[k];
        std::memcpy(t.y + k * 16, t.x + at * 16, 64);
    }
}
//@ honest by_remainder
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t k = 0; k < 60; ++k)
        for (int64_t c = 0; c < 16; ++c) t.y[k * 16 + c] = t.x[(t.at[k] + 45) % 45 * 16 + c];
}
//@ hostile negative_places_are_the_first: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t k = 0; k < 60; ++k) std::memcpy(t.y + k * 16, t.x + std::max<int64_t>(t.at[k], 0) * 16, 64);
}
//@ hostile negative_places_are_the_last: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t k = 0; k < 60; ++k) {
        const int64_t at = t.at[k] < 0 ? 44 : t.at[k];
        std::memcpy(t.y + k * 16, t.x + at * 16, 64);
    }
}
