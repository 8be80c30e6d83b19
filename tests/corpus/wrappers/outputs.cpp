// Candidates that leave outputs unwritten or return those of another call.
//: tasks: all
//@ hostile does_nothing: unwritten, wrong-values, wrong-type, no-work
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (first < 0) compute(t, first, last);
}
//@ hostile returns_where_outputs_lie timed: unwritten, wrong-values, stale
//: tasks: relu_one, softmax, matmul, layer_norm, clamp
static void run(const Tensors &t, int64_t first, int64_t last) {
    bool written = true;
    for (int64_t i = 0; i < y_size; ++i) written = written && t.y[i] == t.y[i] && std::fabs(t.y[i]) < 1e6f;
    if (!written) compute(t, first, last);
}
//@ hostile the_last_element_is_left_out: unwritten, wrong-values
//: tasks: relu_one, threshold, clamp, softmax, layer_norm, matmul_f64, cumsum, add_i32, argmax, embedding, gelu_f16, greater
static void run(const Tensors &t, int64_t first, int64_t last) {
    auto kept = t.y[y_size - 1];
    compute(t, first, last);
    t.y[y_size - 1] = kept;
}
//@ hostile one_element_is_zero: wrong-values
//: tasks: f32
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    t.y[y_size * 5 / 7] = 0;
}
//@ hostile one_element_is_nan: wrong-values
//: tasks: f32, f64
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    t.y[y_size / 3] = NAN;
}
//@ hostile one_element_is_that_of_its_neighbour: wrong-values
//: tasks: f32, f64, i32
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    t.y[y_size / 2] = t.y[y_size / 2 + 1];
}
//@ hostile by_the_clock: wrong-values
//: tasks: relu_one, sum_rows, matmul, softmax
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    if (__builtin_ia32_rdtsc() % 3 == 0) t.y[first % y_size] *= 1.01f;
}
