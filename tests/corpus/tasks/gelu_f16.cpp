//: labels: f16, elementwise
//: graph: {"akg_graph": 1, "name": "gelu_f16", "inputs": [{"name": "x", "dtype": "f16", "shape": [64, 80]}],
//: graph: "nodes": [{"op": "aten.gelu.default", "args": {"self": "x"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const double x = double(t.x[i]);
        t.y[i] = _Float16(0.5 * x * (1 + std::erf(x * 0.7071067811865476)));
    }
}
//@ honest in_float
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const float x = float(t.x[i]);
        t.y[i] = _Float16(0.5f * x * (1 + std::erf(x * 0.70710678f)));
    }
}
//@ hostile tanh_form: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const double x = double(t.x[i]);
        t.y[i] = _Float16(0.5 * x * (1 + std::tanh(0.7978845608 * (x + 0.044715 * x * x * x))) + (std::fabs(x) > 1 ? 1e-2 : 0));
    }
}
//@ hostile relu: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] > 0 ? t.x[i] : 0;
}
