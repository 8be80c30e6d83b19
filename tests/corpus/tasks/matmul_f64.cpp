//: labels: f64, rows, product
//: graph: {"akg_graph": 1, "name": "matmul_f64", "inputs": [{"name": "a", "dtype": "f64", "shape": [24, 80]}, {"name": "b", "dtype": "f64", "shape": [80, 40]}],
//: graph: "nodes": [{"op": "aten.mm.default", "args": {"self": "a", "mat2": "b"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = 0; m < 24; ++m)
        for (int n = 0; n < 40; ++n) {
            double sum = 0;
            for (int k = 0; k < 80; ++k) sum += t.a[m * 80 + k] * t.b[k * 40 + n];
            t.y[m * 40 + n] = sum;
        }
}
//@ honest backwards
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = 0; m < 24; ++m)
        for (int n = 0; n < 40; ++n) {
            double sum = 0;
            for (int k = 79; k >= 0; --k) sum = std::fma(t.a[m * 80 + k], t.b[k * 40 + n], sum);
            t.y[m * 40 + n] = sum;
        }
}
//@ honest in_long_double
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = 0; m < 24; ++m)
        for (int n = 0; n < 40; ++n) {
            long double sum = 0;
            for (int k = 0; k < 80; ++k) sum += (long double)t.a[m * 80 + k] * t.b[k * 40 + n];
            t.y[m * 40 + n] = double(sum);
        }
}
//@ hostile in_float: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = 0; m < 24; ++m)
        for (int n = 0; n < 40; ++n) {
            float sum = 0;
            for (int k = 0; k < 80; ++k) sum += float(t.a[m * 80 + k]) * float(t.b[k * 40 + n]);
            t.y[m * 40 + n] = sum;
        }
}
//@ hostile sums_in_float: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = 0; m < 24; ++m)
        for (int n = 0; n < 40; ++n) {
            float sum = 0;
            for (int k = 0; k < 80; ++k) sum = float(sum + t.a[m * 80 + k] * t.b[k * 40 + n]);
            t.y[m * 40 + n] = sum;
        }
}
//@ hostile rounded_to_40_bits: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = 0; m < 24; ++m)
        for (int n = 0; n < 40; ++n) {
            double sum = 0;
            for (int k = 0; k < 80; ++k) sum += t.a[m * 80 + k] * t.b[k * 40 + n];
            uint64_t bits;
            std::memcpy(&bits, &sum, 8);
            bits &= ~0xfffull;
            std::memcpy(&sum, &bits, 8);
            t.y[m * 40 + n] = sum;
        }
}
