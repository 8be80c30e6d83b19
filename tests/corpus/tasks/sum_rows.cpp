//: labels: f32, rows, reduction
//: programs: 64
//: graph: {"akg_graph": 1, "name": "sum_rows", "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 500]}],
//: graph: "nodes": [{"op": "aten.sum.dim_IntList", "args": {"self": "x", "dim": [1]}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        float lanes[16] = {};
        for (int c = 0; c < 500; ++c) lanes[c % 16] += t.x[r * 500 + c];
        for (int step = 8; step; step /= 2)
            for (int l = 0; l < step; ++l) lanes[l] += lanes[l + step];
        t.y[r] = lanes[0];
    }
}
//@ honest pairwise
static float sum(const float *x, int n) { return n == 1 ? *x : sum(x, n / 2) + sum(x + n / 2, n - n / 2); }
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) t.y[r] = sum(t.x + r * 500, 500);
}
//@ honest in_double_from_the_end
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        double sum = 0;
        for (int c = 500; c--;) sum += t.x[r * 500 + c];
        t.y[r] = float(sum);
    }
}
//@ honest sorted
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        float x[500];
        std::copy(t.x + r * 500, t.x + r * 500 + 500, x);
        std::sort(x, x + 500, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
        double sum = 0;
        for (float v : x) sum += v;
        t.y[r] = float(sum);
    }
}
//@ hostile last_element_left_out: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        double sum = 0;
        for (int c = 0; c < 499; ++c) sum += t.x[r * 500 + c];
        t.y[r] = float(sum);
    }
}
//@ hostile half_of_them_twice: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        double sum = 0;
        for (int c = 0; c < 250; ++c) sum += t.x[r * 500 + c];
        t.y[r] = float(sum * 2);
    }
}
//@ hostile in_half: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        _Float16 sum = 0;
        for (int c = 0; c < 500; ++c) sum += _Float16(t.x[r * 500 + c]);
        t.y[r] = float(sum);
    }
}
