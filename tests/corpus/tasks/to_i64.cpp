//: labels: i64, elementwise
//: graph: {"akg_graph": 1, "name": "to_i64", "inputs": [{"name": "x", "dtype": "f32", "shape": [40, 50]}],
//: graph: "nodes": [{"op": "aten.to.dtype", "args": {"self": "x", "dtype": "i64"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i)
        t.y[i] = t.x[i] >= -0x1p63f && t.x[i] < 0x1p63f ? int64_t(t.x[i]) : INT64_MIN;
}
//@ honest by_double
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const double x = std::trunc(double(t.x[i]));
        t.y[i] = x >= -0x1p63 && x < 0x1p63 ? int64_t(x) : INT64_MIN;
    }
}
//@ hostile by_i32: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const bool fits = t.x[i] >= -0x1p31f && t.x[i] < 0x1p31f;
        t.y[i] = fits ? int32_t(t.x[i]) : t.x[i] != t.x[i] ? INT64_MIN : INT32_MIN;
    }
}
//@ hostile rounds: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i)
        t.y[i] = t.x[i] >= -0x1p63f && t.x[i] < 0x1p63f ? int64_t(std::nearbyint(t.x[i])) : INT64_MIN;
}
