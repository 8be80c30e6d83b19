//: labels: u8, elementwise
//: graph: {"akg_graph": 1, "name": "mul_u8", "inputs": [{"name": "a", "dtype": "u8", "shape": [50, 60]}, {"name": "b", "dtype": "u8", "shape": [50, 60]}],
//: graph: "nodes": [{"op": "aten.mul.Tensor", "args": {"self": "a", "other": "b"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = uint8_t(t.a[i] * t.b[i]);
}
//@ hostile saturates: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = uint8_t(std::min(t.a[i] * t.b[i], 255));
}
//@ hostile lower_half: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = uint8_t((t.a[i] & 15) * (t.b[i] & 15));
}
