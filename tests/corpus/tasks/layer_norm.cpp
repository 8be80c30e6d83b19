//: labels: f32, rows, reduction, weights
//: programs: 4
//: graph: {"akg_graph": 1, "name": "layer_norm", "inputs": [{"name": "x", "dtype": "f32", "shape": [32, 192]}, {"name": "w", "dtype": "f32", "shape": [192], "kind": "weight"}, {"name": "b", "dtype": "f32", "shape": [192], "kind": "weight"}],
//: graph: "nodes": [{"op": "aten.layer_norm.default", "args": {"input": "x", "normalized_shape": [192], "weight": "w", "bias": "b", "eps": 1e-5}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 8; r < last * 8; ++r) {
        const float *x = t.x + r * 192;
        double mean = 0, square = 0;
        for (int c = 0; c < 192; ++c) mean += x[c];
        mean /= 192;
        for (int c = 0; c < 192; ++c) square += (x[c] - mean) * (x[c] - mean);
        const double scale = 1 / std::sqrt(square / 192 + 1e-5);
        for (int c = 0; c < 192; ++c) t.y[r * 192 + c] = float((x[c] - mean) * scale * t.w[c] + t.b[c]);
    }
}
//@ honest welford
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 8; r < last * 8; ++r) {
        const float *x = t.x + r * 192;
        double mean = 0, square = 0;
        for (int c = 0; c < 192; ++c) {
            const double step = x[c] - mean;
            mean += step / (c + 1);
            square += step * (x[c] - mean);
        }
        const double scale = 1 / std::sqrt(square / 192 + 1e-5);
        for (int c = 0; c < 192; ++c) t.y[r * 192 + c] = float((x[c] - mean) * scale * t.w[c] + t.b[c]);
    }
}
//@ hostile no_eps: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 8; r < last * 8; ++r) {
        const float *x = t.x + r * 192;
        double mean = 0, square = 0;
        for (int c = 0; c < 192; ++c) mean += x[c];
        mean /= 192;
        for (int c = 0; c < 192; ++c) square += (x[c] - mean) * (x[c] - mean);
        const double scale = 1 / std::sqrt(square / 192);
        for (int c = 0; c < 192; ++c) t.y[r * 192 + c] = float((x[c] - mean) * scale * t.w[c] + t.b[c]);
    }
}
//@ hostile eps_ten_times: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 8; r < last * 8; ++r) {
        const float *x = t.x + r * 192;
        double mean = 0, square = 0;
        for (int c = 0; c < 192; ++c) mean += x[c];
        mean /= 192;
        for (int c = 0; c < 192; ++c) square += (x[c] - mean) * (x[c] - mean);
        const double scale = 1 / std::sqrt(square / 192 + 1e-4);
        for (int c = 0; c < 192; ++c) t.y[r * 192 + c] = float((x[c] - mean) * scale * t.w[c] + t.b[c]);
    }
}
//@ hostile moments_in_float: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 8; r < last * 8; ++r) {
        const float *x = t.x + r * 192;
        float sum = 0, square = 0;
        for (int c = 0; c < 192; ++c) sum += x[c], square += x[c] * x[c];
        const float mean = sum / 192;
        const float scale = 1 / std::sqrt(square / 192 - mean * mean + 1e-5f);
        for (int c = 0; c < 192; ++c) t.y[r * 192 + c] = (x[c] - mean) * scale * t.w[c] + t.b[c];
    }
}
//@ hostile unbiased: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 8; r < last * 8; ++r) {
        const float *x = t.x + r * 192;
        double mean = 0, square = 0;
        for (int c = 0; c < 192; ++c) mean += x[c];
        mean /= 192;
        for (int c = 0; c < 192; ++c) square += (x[c] - mean) * (x[c] - mean);
        const double scale = 1 / std::sqrt(square / 191 + 1e-5);
        for (int c = 0; c < 192; ++c) t.y[r * 192 + c] = float((x[c] - mean) * scale * t.w[c] + t.b[c]);
    }
}
//@ hostile wrong_where_weights_are_one_and_biases_zero: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    bool is_neutral = true;
    for (int c = 0; c < 192; ++c) is_neutral = is_neutral && t.w[c] == 1 && t.b[c] == 0;
    for (int64_t r = first * 8; r < last * 8; ++r) {
        const float *x = t.x + r * 192;
        double mean = 0, square = 0;
        for (int c = 0; c < 192; ++c) mean += x[c];
        mean /= 192;
        for (int c = 0; c < 192; ++c) square += (x[c] - mean) * (x[c] - mean);
        const double scale = 1 / std::sqrt(square / (is_neutral ? 191 : 192) + 1e-5);
        for (int c = 0; c < 192; ++c) t.y[r * 192 + c] = float((x[c] - mean) * scale * t.w[c] + t.b[c]);
    }
}
