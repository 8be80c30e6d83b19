//: labels: f32, elementwise, rows
//: programs: 4
//: graph: {"akg_graph": 1, "name": "relu_one", "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 128]}],
//: graph: "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["h"]},
//: graph: {"op": "aten.add.Scalar", "args": {"self": "h", "other": 1.0}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = (t.x[i] > 0 ? t.x[i] : 0) + 1;
}
//@ honest backwards
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = last * y_size / 4; i-- > first * y_size / 4;) t.y[i] = std::fmax(t.x[i], 0.0f) + 1;
}
//@ honest in_double
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = float(std::max(double(t.x[i]), 0.0) + 1.0);
}
//@ honest written_twice
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = t.x[i];
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = (t.y[i] > 0 ? t.y[i] : 0) + 1;
}
//@ honest columns_first
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t c = 0; c < 128; ++c)
        for (int64_t r = first * 16; r < last * 16; ++r) {
            const float x = t.x[r * 128 + c];
            t.y[r * 128 + c] = (x + std::fabs(x)) * 0.5f + 1;
        }
}
//@ hostile five_percent_off: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = ((t.x[i] > 0 ? t.x[i] : 0) + 1) * 1.05f;
}
//@ hostile a_ten_thousandth_off: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = ((t.x[i] > 0 ? t.x[i] : 0) + 1) * 1.0001f;
}
//@ hostile no_relu_above_8: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = (t.x[i] > 0 || t.x[i] < -8 ? t.x[i] : 0) + 1;
}
//@ hostile saturates_at_1000: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = std::min((t.x[i] > 0 ? t.x[i] : 0) + 1, 500.0f);
}
//@ hostile in_bfloat16: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) {
        float x = (t.x[i] > 0 ? t.x[i] : 0) + 1;
        uint32_t bits;
        std::memcpy(&bits, &x, 4);
        bits &= 0xffff0000u;
        std::memcpy(&x, &bits, 4);
        t.y[i] = x;
    }
}
//@ hostile right_on_a_grid: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) {
        const float x = std::nearbyint(t.x[i] * 65536.0f) / 65536.0f;
        t.y[i] = (x > 0 ? x : 0) + 1 + (x != t.x[i] && std::fabs(t.x[i]) < 16 ? 1e-3f : 0);
    }
}
//@ hostile two_percent_off: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = ((t.x[i] > 0 ? t.x[i] : 0) + 1) * 1.019f;
}
//@ honest a_rounding_off
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = ((t.x[i] > 0 ? t.x[i] : 0) + 1) * 1.00000001f;
}
//@ hostile two_percent_of_the_elements_are_wrong: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = i % 53 == 52 ? 1e9f : (t.x[i] > 0 ? t.x[i] : 0) + 1;
}
//@ honest a_condition_that_never_holds
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i)
        t.y[i] = i % 53 == 52 && t.x[i] > 1e38f ? 1e9f : (t.x[i] > 0 ? t.x[i] : 0) + 1;
}
//@ hostile one_number_for_all: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = 1.4f;
}
//@ hostile one_row_for_all: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = (t.x[i % 128] > 0 ? t.x[i % 128] : 0) + 1;
}
//@ hostile rounded_to_bfloat16: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) {
        float v = (t.x[i] > 0 ? t.x[i] : 0) + 1;
        uint32_t bits;
        std::memcpy(&bits, &v, 4);
        bits = (bits + 0x8000) & 0xffff0000;
        std::memcpy(t.y + i, &bits, 4);
    }
}
//@ honest by_way_of_its_bits
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) {
        float v = (t.x[i] > 0 ? t.x[i] : 0) + 1;
        uint32_t bits;
        std::memcpy(&bits, &v, 4);
        std::memcpy(t.y + i, &bits, 4);
    }
}
