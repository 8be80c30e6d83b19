//: labels: f32, rows, reduction
//: graph: {"akg_graph": 1, "name": "least", "inputs": [{"name": "x", "dtype": "f32", "shape": [50, 80]}],
//: graph: "nodes": [{"op": "aten.amin.default", "args": {"self": "x", "dim": [1]}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        float least = t.x[r * 80];
        for (int c = 1; c < 80; ++c) least = t.x[r * 80 + c] < least || t.x[r * 80 + c] != t.x[r * 80 + c] ? t.x[r * 80 + c] : least;
        t.y[r] = least;
    }
}
//@ honest from_infinity
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        float least = INFINITY;
        bool is_nan = false;
        for (int c = 0; c < 80; ++c) {
            is_nan = is_nan || std::isnan(t.x[r * 80 + c]);
            least = std::min(least, t.x[r * 80 + c]);
        }
        t.y[r] = is_nan ? NAN : least;
    }
}
//@ hostile from_the_largest_half: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        float least = 65504;
        for (int c = 0; c < 80; ++c) least = t.x[r * 80 + c] < least || t.x[r * 80 + c] != t.x[r * 80 + c] ? t.x[r * 80 + c] : least;
        t.y[r] = least;
    }
}
//@ hostile from_a_thousand: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        float least = 1000;
        for (int c = 0; c < 80; ++c) least = t.x[r * 80 + c] < least || t.x[r * 80 + c] != t.x[r * 80 + c] ? t.x[r * 80 + c] : least;
        t.y[r] = least;
    }
}
