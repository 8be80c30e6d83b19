// Candidates that keep something from one call to the next.
//: tasks: relu_one, softmax, matmul, sum_rows, add_i32
//@ hostile counts_in_a_static timed: keeps-state, unwritten, stale, wrong-values
static int calls;
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (calls++ < 60) compute(t, first, last);
}
//@ hostile counts_in_a_thread_local timed: keeps-state, unwritten, stale, wrong-values
static thread_local int calls;
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (calls++ < 40) compute(t, first, last);
}
//@ hostile counts_in_an_initialised_static timed: keeps-state, unwritten, stale, wrong-values
static int left = 60;
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (left-- > 0) compute(t, first, last);
}
//@ hostile counts_in_a_function timed: keeps-state, unwritten, stale, wrong-values
static void run(const Tensors &t, int64_t first, int64_t last) {
    static std::atomic<int> calls{0};
    if (calls.fetch_add(1) < 50) compute(t, first, last);
}
//@ hostile counts_in_the_heap timed: keeps-state, unwritten, stale, wrong-values
static int *const calls = (int *)std::calloc(1, sizeof(int));
static void run(const Tensors &t, int64_t first, int64_t last) {
    if ((*calls)++ < 60) compute(t, first, last);
}
//@ hostile counts_in_the_environment timed: keeps-state, unwritten, stale, wrong-values, left-behind, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    const char *calls = std::getenv("CALLS");
    const int count = calls ? std::atoi(calls) : 0;
    char next[16];
    std::snprintf(next, sizeof next, "%d", count + 1);
    setenv("CALLS", next, 1);
    if (count < 60) compute(t, first, last);
}
//@ hostile counts_by_random_numbers timed: keeps-state, unwritten, stale, wrong-values, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (std::rand() % 64) compute(t, first, last);
}
//@ hostile remembers_by_address timed: keeps-state, stale, unwritten, wrong-values
static const void *seen;
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (seen == t.raw[0]) return;
    compute(t, first, last);
    seen = t.raw[0];
}
//@ hostile counts_in_a_scratch_tensor timed: unwritten, stale, wrong-values, keeps-state
//: scratch: count i32 16
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (t.count[0] < 1 || t.count[0] > 1000000) t.count[0] = 1;
    if (t.count[0]++ < 40) compute(t, first, last);
}
//@ honest a_constant_table
static const float table[8] = {1, 1, 1, 1, 1, 1, 1, 1};
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (table[first % 8] == 1) compute(t, first, last);
}
//@ honest a_table_of_pointers
static void other(const Tensors &t, int64_t first, int64_t last) { compute(t, first, last); }
static void (*const ways[2])(const Tensors &, int64_t, int64_t) = {compute, other};
static void run(const Tensors &t, int64_t first, int64_t last) {
    ways[first & 1](t, first, last);
}
