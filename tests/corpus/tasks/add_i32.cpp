//: labels: i32, elementwise
//: graph: {"akg_graph": 1, "name": "add_i32", "inputs": [{"name": "a", "dtype": "i32", "shape": [60, 64]}, {"name": "b", "dtype": "i32", "shape": [60, 64]}],
//: graph: "nodes": [{"op": "aten.add.Tensor", "args": {"self": "a", "other": "b"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = int32_t(uint32_t(t.a[i]) + uint32_t(t.b[i]));
}
//@ honest by_way_of_64_bits
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = int32_t(int64_t(t.a[i]) + t.b[i]);
}
//@ hostile lowest_bytes: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = int32_t(int8_t(t.a[i])) + int8_t(t.b[i]);
}
//@ hostile saturates: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const int64_t sum = int64_t(t.a[i]) + t.b[i];
        t.y[i] = int32_t(std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX));
    }
}
//@ hostile in_float: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = int32_t(int64_t(float(t.a[i]) + float(t.b[i])));
}
