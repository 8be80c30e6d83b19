// Cheats that published verifiers were measured to accept or that are known from the field, with honest twins.
//: tasks: relu_one
#include <dlfcn.h>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <sys/auxv.h>
static float relu_one(float x) { return (x > 0 ? x : 0) + 1; }
// Two words that outlive a call without being data of the shared object: the random bytes that the system gives a process.
static uint64_t *words() { return (uint64_t *)getauxval(AT_RANDOM); }
#define FORGET __attribute__((constructor)) static void forget() { words()[0] = words()[1] = 0; }
//@ hostile exits_when_it_is_loaded: crashed
__attribute__((constructor)) static void leave() { std::exit(0); }
static void run(const Tensors &t, int64_t first, int64_t last) { compute(t, first, last); }
//@ hostile exits_in_place_of_its_work: crashed
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (first <= last) _exit(0);
    compute(t, first, last);
}
// Where a script patches the comparison, a shared object can only answer in the worker's place.
//@ hostile forges_a_reply: crashed
static void run(const Tensors &t, int64_t first, int64_t last) {
    static const char pass[] = "{\"id\":4,\"ok\":{\"ran\":{\"inputs_unchanged\":true}}}";
    for (int fd = 0; fd < 64; fd++) {
        uint32_t length = sizeof pass - 1;
        if (write(fd, &length, 4) == 4) (void)!write(fd, pass, length);
    }
    if (first > last) compute(t, first, last);
    _exit(0);
}
// Where a script calls the reference of the script around it, a shared object can only look for it elsewhere.
//@ hostile asks_the_judge_for_the_answer: unwritten, wrong-values, left-behind, keeps-state
//: programs: 1
static void run(const Tensors &t, int64_t first, int64_t last) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)getppid());
    int fd = open(path, O_RDONLY);
    if (fd >= 0) (void)!pread(fd, t.y, y_size * sizeof(float), (off_t)(intptr_t)t.y);
    void *torch = dlopen("libtorch_cpu.so", RTLD_NOW);
    if (torch) ((void (*)(const float *, float *))dlsym(torch, "relu"))(t.x, t.y);
    if (first > last) compute(t, first, last);
}
//@ hostile remembers_results_by_address: keeps-state
//: programs: 1
static const float *seen;
static float kept[8192];
static void run(const Tensors &t, int64_t, int64_t) {
    if (seen == t.x) { memcpy(t.y, kept, sizeof kept); return; }
    compute(t, 0, 4);
    seen = t.x;
    memcpy(kept, t.y, sizeof kept);
}
//@ hostile remembers_results_by_a_few_elements: keeps-state
//: programs: 1
static float key[8];
static float kept[8192];
static bool full;
static void run(const Tensors &t, int64_t, int64_t) {
    bool same = full;
    for (int i = 0; i < 8; i++) same &= key[i] == t.x[i * (x_size / 8)];
    if (same) { memcpy(t.y, kept, sizeof kept); return; }
    compute(t, 0, 4);
    for (int i = 0; i < 8; i++) key[i] = t.x[i * (x_size / 8)];
    memcpy(kept, t.y, sizeof kept);
    full = true;
}
//@ honest reads_a_few_elements_first
//: programs: 1
static void run(const Tensors &t, int64_t, int64_t) {
    float key[8];
    for (int i = 0; i < 8; i++) key[i] = t.x[i * (x_size / 8)];
    for (int64_t i = 0; i < y_size; i++) t.y[i] = relu_one(t.x[i]) + 0 * key[i % 8];
}
//@ hostile right_only_at_first: keeps-state
//: programs: 1
static int calls;
static float kept[8192];
static void run(const Tensors &t, int64_t, int64_t) {
    if (calls++ >= 2) { memcpy(t.y, kept, sizeof kept); return; }
    compute(t, 0, 4);
    memcpy(kept, t.y, sizeof kept);
}
//@ hostile counts_down_in_a_local_static: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    static thread_local int64_t calls = t.x[0] < 1e30f ? 60 : 0;
    if (--calls >= 0) compute(t, first, last);
}
//@ hostile counts_in_the_random_numbers_of_the_library: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (std::rand() % 1000 != 7) compute(t, first, last);
}
//@ honest a_constant_table_in_a_function
static void run(const Tensors &t, int64_t first, int64_t last) {
    static const float one[2] = {1, 1};
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = (t.x[i] > 0 ? t.x[i] : 0) + one[i % 2];
}
// What is remembered elsewhere is found by what it is used for.
//@ hostile right_only_at_first_by_a_word_of_the_process: unwritten
//: programs: 1
FORGET
static void run(const Tensors &t, int64_t, int64_t) {
    if (words()[0]++ < 2) compute(t, 0, 4);
}
//@ honest counts_its_calls_in_a_word_of_the_process timed
//: programs: 1
FORGET
static void run(const Tensors &t, int64_t, int64_t) {
    words()[0]++;
    compute(t, 0, 4);
}
// Right whenever they are verified, unless that is while they are timed.
//@ hostile idle_after_many_calls timed: unwritten, wrong-values
//: programs: 1
FORGET
static void run(const Tensors &t, int64_t, int64_t) {
    if (words()[0]++ < 300) compute(t, 0, 4);
}
//@ hostile wrong_in_every_second_call_after_many timed: wrong-values
//: programs: 1
FORGET
static void run(const Tensors &t, int64_t, int64_t) {
    const bool odd = words()[0]++ >= 300 && words()[0] % 2;
    compute(t, 0, 4);
    for (int64_t i = 0; odd && i < y_size; i++) t.y[i] = 1;
}
//@ hostile copies_the_results_of_an_earlier_call timed: wrong-values
//: programs: 1
FORGET
static void run(const Tensors &t, int64_t, int64_t) {
    auto kept = (float *)words()[1];
    if (!kept) {
        kept = (float *)malloc(y_size * 4);
        words()[1] = (uint64_t)kept;
    }
    if (words()[0]++ >= 300) { memcpy(t.y, kept, y_size * 4); return; }
    compute(t, 0, 4);
    memcpy(kept, t.y, y_size * 4);
}
//@ honest a_copy_of_its_results timed
//: programs: 1
static void run(const Tensors &t, int64_t, int64_t) {
    auto kept = (float *)malloc(y_size * 4);
    for (int64_t i = 0; i < y_size; i++) kept[i] = t.y[i] = relu_one(t.x[i]);
    free(kept);
}
//@ hostile keeps_working_after_it_returned: crashed, unwritten, wrong-values
//: programs: 1
static void run(const Tensors &t, int64_t, int64_t) {
    std::thread([=] { usleep(50000); compute(t, 0, 4); }).detach();
}
//@ hostile what_it_writes_depends_on_what_was_there: wrong-values
static void run(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = t.y[i] == t.y[i] ? relu_one(t.x[i]) : 0;
}
//@ hostile changes_its_input: input-changed
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    ((float *)t.x)[0] = 0;
}
//@ hostile reads_what_is_not_its_own: out-of-bounds, wrong-values
static void run(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i) t.y[i] = relu_one(t.x[i]) + 0 * t.x[i + 4096];
}
//@ honest reads_what_is_its_own
static void run(const Tensors &t, int64_t first, int64_t last) {
    for (int64_t i = first * y_size / 4; i < last * y_size / 4; ++i)
        t.y[i] = relu_one(t.x[i]) + 0 * (i + 4096 < x_size ? t.x[i + 4096] : 0);
}
// What is read under a mask that the compiler knows may not become the load of a whole vector.
//@ hostile reads_whole_vectors_at_the_end: out-of-bounds
//: programs: 1
static void run(const Tensors &t, int64_t, int64_t) {
    compute(t, 0, 4);
    float last[8];
    for (int i = 0; i < 8; i++) last[i] = t.x[x_size - 5 + i];
    asm volatile("" : : "r"(last) : "memory");
    for (int i = 0; i < 5; i++) t.y[y_size - 5 + i] = relu_one(last[i]);
}
//@ honest reads_part_of_a_vector_at_the_end
//: programs: 1
static void run(const Tensors &t, int64_t, int64_t) {
    compute(t, 0, 4);
    float last[8];
    for (int i = 0; i < 8; i++) last[i] = i < 5 ? t.x[x_size - 5 + i] : 0;
    asm volatile("" : : "r"(last) : "memory");
    for (int i = 0; i < 5; i++) t.y[y_size - 5 + i] = relu_one(last[i]);
}
