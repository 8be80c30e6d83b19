//: labels: i32, elementwise
//: graph: {"akg_graph": 1, "name": "floor_divide", "inputs": [{"name": "a", "dtype": "i32", "shape": [40, 50]}],
//: graph: "nodes": [{"op": "aten.floor_divide.Scalar", "args": {"self": "a", "other": 7}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] / 7 - (t.a[i] % 7 < 0);
}
//@ hostile truncates: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.a[i] / 7;
}
//@ hostile by_float: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = int32_t(std::floor(float(t.a[i]) / 7.0f));
}
