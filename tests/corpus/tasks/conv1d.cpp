//: labels: f32, window
//: programs: 2
//: graph: {"akg_graph": 1, "name": "conv1d", "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 4, 60]}, {"name": "w", "dtype": "f32", "shape": [6, 4, 5], "kind": "weight"}, {"name": "b", "dtype": "f32", "shape": [6], "kind": "weight"}],
//: graph: "nodes": [{"op": "aten.conv1d.default", "args": {"input": "x", "weight": "w", "bias": "b", "padding": [2]}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n)
        for (int o = 0; o < 6; ++o)
            for (int p = 0; p < 60; ++p) {
                double sum = t.b[o];
                for (int c = 0; c < 4; ++c)
                    for (int k = 0; k < 5; ++k)
                        if (p + k - 2 >= 0 && p + k - 2 < 60) sum += double(t.x[(n * 4 + c) * 60 + p + k - 2]) * t.w[(o * 4 + c) * 5 + k];
                t.y[(n * 6 + o) * 60 + p] = float(sum);
            }
}
//@ hostile the_padding_repeats: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n)
        for (int o = 0; o < 6; ++o)
            for (int p = 0; p < 60; ++p) {
                double sum = t.b[o];
                for (int c = 0; c < 4; ++c)
                    for (int k = 0; k < 5; ++k) sum += double(t.x[(n * 4 + c) * 60 + std::min(std::max(p + k - 2, 0), 59)]) * t.w[(o * 4 + c) * 5 + k];
                t.y[(n * 6 + o) * 60 + p] = float(sum);
            }
}
//@ hostile no_bias: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n)
        for (int o = 0; o < 6; ++o)
            for (int p = 0; p < 60; ++p) {
                double sum = 0;
                for (int c = 0; c < 4; ++c)
                    for (int k = 0; k < 5; ++k)
                        if (p + k - 2 >= 0 && p + k - 2 < 60) sum += double(t.x[(n * 4 + c) * 60 + p + k - 2]) * t.w[(o * 4 + c) * 5 + k];
                t.y[(n * 6 + o) * 60 + p] = float(sum);
            }
}
//@ hostile turned_around: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n)
        for (int o = 0; o < 6; ++o)
            for (int p = 0; p < 60; ++p) {
                double sum = t.b[o];
                for (int c = 0; c < 4; ++c)
                    for (int k = 0; k < 5; ++k)
                        if (p + k - 2 >= 0 && p + k - 2 < 60) sum += double(t.x[(n * 4 + c) * 60 + p + k - 2]) * t.w[(o * 4 + c) * 5 + 4 - k];
                t.y[(n * 6 + o) * 60 + p] = float(sum);
            }
}
