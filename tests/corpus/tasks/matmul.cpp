//: labels: f32, rows, product
//: programs: 37
//: graph: {"akg_graph": 1, "name": "matmul", "inputs": [{"name": "a", "dtype": "f32", "shape": [37, 64]}, {"name": "b", "dtype": "f32", "shape": [64, 53]}],
//: graph: "nodes": [{"op": "aten.mm.default", "args": {"self": "a", "mat2": "b"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}]}
//@ compute
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float sum[8] = {};
            for (int k = 0; k < 64; ++k) sum[k % 8] += t.a[m * 64 + k] * t.b[k * 53 + n];
            t.y[m * 53 + n] = ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
        }
}
//@ honest outer_products
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m) {
        float row[8][53] = {};
        for (int k = 63; k >= 0; --k)
            for (int n = 0; n < 53; ++n) row[k / 8][n] = std::fma(t.a[m * 64 + k], t.b[k * 53 + n], row[k / 8][n]);
        for (int step = 4; step; step /= 2)
            for (int h = 0; h < step; ++h)
                for (int n = 0; n < 53; ++n) row[h][n] += row[h + step][n];
        std::memcpy(t.y + m * 53, row, sizeof row[0]);
    }
}
//@ honest kahan
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float sum = 0, lost = 0;
            for (int k = 0; k < 64; ++k) {
                const float term = t.a[m * 64 + k] * t.b[k * 53 + n] - lost;
                const float next = sum + term;
                lost = (next - sum) - term;
                sum = next;
            }
            t.y[m * 53 + n] = sum;
        }
}
//@ honest four_sums
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float sum[4] = {};
            for (int k = 0; k < 64; ++k) sum[k % 4] += t.a[m * 64 + k] * t.b[k * 53 + n];
            t.y[m * 53 + n] = (sum[0] + sum[2]) + (sum[1] + sum[3]);
        }
}
//@ honest in_double
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            double sum = 0;
            for (int k = 0; k < 64; ++k) sum += double(t.a[m * 64 + k]) * t.b[k * 53 + n];
            t.y[m * 53 + n] = float(sum);
        }
}
//@ honest operands_split_in_two
static float high(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bits &= 0xfffff000u;
    std::memcpy(&x, &bits, 4);
    return x;
}
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float main[8] = {}, rest = 0;
            for (int k = 0; k < 64; ++k) {
                const float a = t.a[m * 64 + k], b = t.b[k * 53 + n], ah = high(a), bh = high(b);
                main[k % 8] += ah * bh;
                rest += ah * (b - bh) + (a - ah) * bh + (a - ah) * (b - bh);
            }
            t.y[m * 53 + n] = ((main[0] + main[4]) + (main[1] + main[5])) + ((main[2] + main[6]) + (main[3] + main[7])) + rest;
        }
}
//@ hostile operands_in_tf32: wrong-values
static float tf32(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
    std::memcpy(&x, &bits, 4);
    return x;
}
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float sum = 0;
            for (int k = 0; k < 64; ++k) sum += tf32(t.a[m * 64 + k]) * tf32(t.b[k * 53 + n]);
            t.y[m * 53 + n] = sum;
        }
}
//@ hostile operands_in_half: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float sum = 0;
            for (int k = 0; k < 64; ++k) sum += float(_Float16(t.a[m * 64 + k])) * float(_Float16(t.b[k * 53 + n]));
            t.y[m * 53 + n] = sum;
        }
}
//@ hostile last_term_left_out: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float sum = 0;
            for (int k = 0; k < 63; ++k) sum += t.a[m * 64 + k] * t.b[k * 53 + n];
            t.y[m * 53 + n] = sum;
        }
}
//@ hostile one_row_of_another: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float sum = 0;
            for (int k = 0; k < 64; ++k) sum += t.a[(m == 29 ? 28 : m) * 64 + k] * t.b[k * 53 + n];
            t.y[m * 53 + n] = sum;
        }
}
//@ hostile one_column_in_half: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t m = first; m < last; ++m)
        for (int n = 0; n < 53; ++n) {
            float sum = 0;
            for (int k = 0; k < 64; ++k) {
                const float b = t.b[k * 53 + n];
                sum += t.a[m * 64 + k] * (n == 17 ? float(_Float16(b)) : b);
            }
            t.y[m * 53 + n] = sum;
        }
}
