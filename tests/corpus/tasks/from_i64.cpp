//: labels: f32, elementwise
//: graph: {"akg_graph": 1, "name": "from_i64", "inputs": [{"name": "a", "dtype": "i64", "shape": [40, 50]}],
//: graph: "nodes": [{"op": "aten.to.dtype", "args": {"self": "a", "dtype": "f32"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = float(t.a[i]);
}
//@ honest by_double
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = float(double(t.a[i]));
}
//@ hostile by_i32: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = float(int32_t(t.a[i]));
}
//@ hostile by_i32_if_the_upper_half_is_zero: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i)
        t.y[i] = uint64_t(t.a[i]) >> 32 == 0 ? float(int32_t(t.a[i])) : float(t.a[i]);
}
