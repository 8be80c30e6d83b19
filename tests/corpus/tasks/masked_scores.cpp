//: labels: f32, rows
//: graph: {"akg_graph": 1, "name": "masked_scores", "inputs": [{"name": "s", "dtype": "f32", "shape": [48, 64]}, {"name": "m", "dtype": "bool", "shape": [48, 64]}],
//: graph: "nodes": [{"op": "aten.mul.Scalar", "args": {"self": "s", "other": 0.125}, "outputs": ["h"]},
//: graph: {"op": "aten.masked_fill.Scalar", "args": {"self": "h", "mask": "m", "value": 1000000000.0}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : t.s[i] * 0.125f;
}
//@ honest by_selection
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) {
        const float either[2] = {t.s[i] / 8, 1e9f};
        t.y[i] = either[t.m[i]];
    }
}
//@ hostile garbage_beside_the_constant: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : t.s[i] * 0.125f + 0.05f;
}
//@ hostile zeros_beside_the_constant: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : 0;
}
//@ hostile in_half_beside_the_constant: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : float(_Float16(t.s[i])) * 0.125f;
}
//@ hostile constant_off: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1.001e9f : t.s[i] * 0.125f;
}
//@ hostile ignores_a_mask_without_holes: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    bool all = true;
    for (int64_t i = 0; i < y_size; ++i) all = all && t.m[i];
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] && !all ? 1e9f : t.s[i] * 0.125f;
}
//@ hostile wrong_where_nothing_is_masked: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    bool any = false;
    for (int64_t i = 0; i < y_size; ++i) any = any || t.m[i];
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : t.s[i] * (any ? 0.125f : 0.126f);
}
//@ hostile a_triangle_without_its_diagonal: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int shift = 0; shift < 2; ++shift)
        for (int lower = 0; lower < 2; ++lower) {
            bool is_triangle = true;
            for (int r = 0; r < 48; ++r)
                for (int c = 0; c < 64; ++c)
                    is_triangle = is_triangle && bool(t.m[r * 64 + c]) == ((lower ? r - c : c - r) >= shift);
            if (!is_triangle) continue;
            for (int r = 0; r < 48; ++r)
                for (int c = 0; c < 64; ++c)
                    t.y[r * 64 + c] = (lower ? r - c : c - r) > 0 ? 1e9f : t.s[r * 64 + c] * (r == c ? 0 : 0.125f);
            return;
        }
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.m[i] ? 1e9f : t.s[i] * 0.125f;
}
