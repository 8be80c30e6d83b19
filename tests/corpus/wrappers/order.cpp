// Honest candidates that do the work in other ways.
//: tasks: all
//@ honest twice
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    compute(t, first, last);
}
//@ honest program_by_program_from_the_end
static void run(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t program = last; program-- > first;) compute(t, program, program + 1);
}
//@ honest with_a_used_stack
static void run(const Tensors &t, int64_t first, int64_t last) {
    volatile int used[256];
    for (int i = 0; i < 256; ++i) used[i] = i;
    compute(t, first, last);
}
//@ honest by_a_pointer
__attribute__((noinline)) static void far_away(void (*how)(const Tensors &, int64_t, int64_t), const Tensors &t, int64_t first, int64_t last) {
    how(t, first, last);
}
static void run(const Tensors &t, int64_t first, int64_t last) {
    far_away(compute, t, first, last);
}
//@ honest with_prefetches
static void run(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = 0; i < 64; ++i) __builtin_prefetch((const char *)t.raw[0] + i * 64);
    compute(t, first, last);
}
//@ honest with_a_read_only_string
static const char *const text = "constant";
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (std::strlen(text) == 8) compute(t, first, last);
}
