// Candidates that touch memory of others.
//: tasks: relu_one, softmax, matmul, sum_rows, add_i32, argmax
//@ hostile writes_behind_the_output: out-of-bounds
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    t.y[y_size] = t.y[0];
}
//@ hostile writes_before_the_output: out-of-bounds
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    t.y[-1] = t.y[0];
}
//@ hostile writes_a_page_behind: out-of-bounds, crashed
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    t.y[y_size + 4096] = t.y[0];
}
//@ hostile reads_a_page_behind: out-of-bounds, crashed
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    volatile auto found = t.y[y_size + 4096];
    (void)found;
}
//@ hostile writes_an_input: input-changed
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    ((volatile char *)t.raw[0])[0] = 1;
}
//@ hostile writes_an_input_back: input-changed
static void run(const Tensors &t, int64_t first, int64_t last) {
    volatile char *x = (volatile char *)t.raw[0];
    const char kept = *x;
    *x = 1;
    *x = kept;
    compute(t, first, last);
}
//@ hostile writes_to_null: crashed, out-of-bounds
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    *(volatile int *)(first * 0) = 1;
}
//@ hostile writes_behind_the_scratch: out-of-bounds
//: scratch: s f32 100
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    t.s[s_size] = 1;
}
//@ honest fills_the_scratch
//: scratch: s f32 100
static void run(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first == 0 ? 0 : s_size; i < s_size; ++i) t.s[i] = float(i);
    compute(t, first, last);
}
