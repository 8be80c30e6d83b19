//: labels: f32, gather
//: contract: {"accuracy": "fp32", "generators": [{"kind": "integers", "lo": 0, "hi": 33}]}
//: graph: {"akg_graph": 1, "name": "embedding", "inputs": [{"name": "ids", "dtype": "i64", "shape": [90]}, {"name": "table", "dtype": "f32", "shape": [33, 40], "kind": "weight"}],
//: graph: "nodes": [{"op": "aten.embedding.default", "args": {"weight": "table", "indices": "ids"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < 90; ++i) std::memcpy(t.y + i * 40, t.table + t.ids[i] * 40, 160);
}
//@ honest by_column
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t c = 0; c < 40; ++c)
        for (int64_t i = 0; i < 90; ++i) t.y[i * 40 + c] = t.table[t.ids[i] * 40 + c];
}
//@ hostile at_most_eight_rows: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < 90; ++i) std::memcpy(t.y + i * 40, t.table + t.ids[i] % 8 * 40, 160);
}
//@ hostile never_the_last_row: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < 90; ++i) std::memcpy(t.y + i * 40, t.table + std::min<int64_t>(t.ids[i], 31) * 40, 160);
}
//@ hostile another_row_in_long_runs: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    int run = 0;
    for (int64_t i = 0; i < 90; ++i) {
        run = i > 0 && t.ids[i] == t.ids[i - 1] ? run + 1 : 0;
        std::memcpy(t.y + i * 40, t.table + (run >= 25 ? (t.ids[i] + 1) % 33 : t.ids[i]) * 40, 160);
    }
}
