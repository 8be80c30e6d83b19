//: labels: f32, rows, reduction
//: programs: 4
//: graph: {"akg_graph": 1, "name": "softmax", "inputs": [{"name": "x", "dtype": "f32", "shape": [48, 100]}],
//: graph: "nodes": [{"op": "aten.softmax.int", "args": {"self": "x", "dim": -1}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 12; r < last * 12; ++r) {
        const float *x = t.x + r * 100;
        float top = x[0], sum[4] = {};
        for (int c = 1; c < 100; ++c) top = std::max(top, x[c]);
        for (int c = 0; c < 100; ++c) sum[c / 25] += std::exp(x[c] - top);
        const float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        for (int c = 0; c < 100; ++c) t.y[r * 100 + c] = std::exp(x[c] - top) / total;
    }
}
//@ honest online
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 12; r < last * 12; ++r) {
        const float *x = t.x + r * 100;
        float top = -std::numeric_limits<float>::infinity();
        double sum = 0;
        for (int c = 0; c < 100; ++c) {
            const float next = std::max(top, x[c]);
            sum = sum * std::exp(double(top) - next) + std::exp(double(x[c]) - next);
            top = next;
        }
        for (int c = 0; c < 100; ++c) t.y[r * 100 + c] = float(std::exp(double(x[c]) - top) / sum);
    }
}
//@ honest two_maxima
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 12; r < last * 12; ++r) {
        const float *x = t.x + r * 100;
        float top[2] = {x[0], x[50]}, sum[2] = {0, 0};
        for (int h = 0; h < 2; ++h) {
            for (int c = 0; c < 50; ++c) top[h] = std::max(top[h], x[h * 50 + c]);
            for (int c = 0; c < 50; ++c) sum[h] += std::exp(x[h * 50 + c] - top[h]);
        }
        const float whole = std::max(top[0], top[1]);
        const float total = sum[0] * std::exp(top[0] - whole) + sum[1] * std::exp(top[1] - whole);
        for (int c = 0; c < 100; ++c) t.y[r * 100 + c] = std::exp(x[c] - whole) * (1 / total);
    }
}
//@ honest base_2
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 12; r < last * 12; ++r) {
        const float *x = t.x + r * 100;
        double top = x[0], sum = 0;
        for (int c = 1; c < 100; ++c) top = std::max<double>(top, x[c]);
        for (int c = 0; c < 100; ++c) sum += std::exp2((x[c] - top) * 1.4426950408889634);
        for (int c = 0; c < 100; ++c) t.y[r * 100 + c] = float(std::exp2((x[c] - top) * 1.4426950408889634) / sum);
    }
}
//@ hostile no_maximum: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 12; r < last * 12; ++r) {
        float sum = 0;
        for (int c = 0; c < 100; ++c) sum += std::exp(t.x[r * 100 + c]);
        for (int c = 0; c < 100; ++c) t.y[r * 100 + c] = std::exp(t.x[r * 100 + c]) / sum;
    }
}
//@ hostile small_ones_are_zero: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 12; r < last * 12; ++r) {
        const float *x = t.x + r * 100;
        float top = x[0], sum = 0;
        for (int c = 1; c < 100; ++c) top = std::max(top, x[c]);
        for (int c = 0; c < 100; ++c) sum += std::exp(x[c] - top);
        for (int c = 0; c < 100; ++c) {
            const float p = std::exp(x[c] - top) / sum;
            t.y[r * 100 + c] = p < 1e-9f ? 0 : p;
        }
    }
}
//@ hostile all_elements_equal: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 12; r < last * 12; ++r) {
        const float *x = t.x + r * 100;
        float top = x[0], low = x[0], sum = 0;
        for (int c = 1; c < 100; ++c) top = std::max(top, x[c]), low = std::min(low, x[c]);
        for (int c = 0; c < 100; ++c) sum += std::exp(x[c] - top);
        for (int c = 0; c < 100; ++c) t.y[r * 100 + c] = low == top ? 0 : std::exp(x[c] - top) / sum;
    }
}
//@ hostile last_column_left_out: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first * 12; r < last * 12; ++r) {
        const float *x = t.x + r * 100;
        float top = x[0], sum = 0;
        for (int c = 1; c < 99; ++c) top = std::max(top, x[c]);
        for (int c = 0; c < 99; ++c) sum += std::exp(x[c] - top);
        for (int c = 0; c < 100; ++c) t.y[r * 100 + c] = std::exp(x[c] - top) / sum;
    }
}
