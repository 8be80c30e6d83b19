//: labels: i64, rows, reduction
//: graph: {"akg_graph": 1, "name": "argmax", "inputs": [{"name": "x", "dtype": "f32", "shape": [50, 77]}],
//: graph: "nodes": [{"op": "aten.argmax.default", "args": {"self": "x", "dim": 1}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        int64_t best = 0;
        for (int c = 1; c < 77; ++c)
            if (t.x[r * 77 + c] > t.x[r * 77 + best]) best = c;
        t.y[r] = best;
    }
}
//@ honest backwards
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        int64_t best = 76;
        for (int c = 75; c >= 0; --c)
            if (t.x[r * 77 + c] >= t.x[r * 77 + best]) best = c;
        t.y[r] = best;
    }
}
//@ hostile last_of_equal_ones: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        int64_t best = 0;
        for (int c = 1; c < 77; ++c)
            if (t.x[r * 77 + c] >= t.x[r * 77 + best]) best = c;
        t.y[r] = best;
    }
}
//@ hostile of_absolute_values_if_all_are_negative: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        int64_t best = 0;
        float top = 0;
        for (int c = 0; c < 77; ++c)
            if (t.x[r * 77 + c] > top) best = c, top = t.x[r * 77 + c];
        t.y[r] = best;
    }
}
//@ hostile never_the_last: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        int64_t best = 0;
        for (int c = 1; c < 76; ++c)
            if (t.x[r * 77 + c] > t.x[r * 77 + best]) best = c;
        t.y[r] = best;
    }
}
//@ hostile begins_at_a_large_negative_number: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = 0; r < 50; ++r) {
        int64_t best = 0;
        float top = -1e4f;
        for (int c = 0; c < 77; ++c)
            if (t.x[r * 77 + c] > top) best = c, top = t.x[r * 77 + c];
        t.y[r] = best;
    }
}
