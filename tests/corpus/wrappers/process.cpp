// Candidates that end, start or change a process.
//: tasks: relu_one, matmul, argmax
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <ctime>
#include <exception>
#include <iostream>
#include <thread>
//@ hostile exits: crashed, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    std::exit(0);
}
//@ hostile exits_at_once: crashed, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    _exit(0);
}
//@ hostile aborts: crashed
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    std::abort();
}
//@ hostile exits_when_it_is_loaded: crashed, load-failed, rejected
__attribute__((constructor)) static void leave() { _exit(0); }
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
}
//@ hostile forks: crashed, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    if (fork() == 0) _exit(0);
}
//@ hostile works_in_a_child: crashed, unwritten, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    const pid_t child = fork();
    if (child == 0) { compute(t, first, last); _exit(0); }
    if (child < 0) return;
}
//@ hostile works_in_a_thread: crashed, unwritten, rejected, left-behind
static void run(const Tensors &t, int64_t first, int64_t last) {
    pthread_t thread;
    struct Work { const Tensors *t; int64_t first, last; } work{&t, first, last};
    auto run = [](void *p) -> void * { auto *w = (Work *)p; compute(*w->t, w->first, w->last); return nullptr; };
    if (pthread_create(&thread, nullptr, run, &work) == 0) pthread_detach(thread), usleep(2000);
}
//@ hostile kills_itself: crashed, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    raise(SIGKILL);
}
//@ hostile handles_faults: left-behind, crashed, rejected, unwritten
static void run(const Tensors &t, int64_t first, int64_t last) {
    signal(SIGSEGV, SIG_IGN);
    compute(t, first, last);
}
//@ hostile flushes_denormals: left-behind
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
}
//@ hostile rounds_down_from_now_on: left-behind
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~0x6000u) | 0x2000);
}
//@ hostile closes_descriptors: left-behind, crashed, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    for (int fd = 0; fd < 3; ++fd) close(fd);
}
//@ hostile changes_the_directory: left-behind, rejected, crashed
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    if (chdir("/") != 0) _exit(1);
}
//@ hostile leaves_a_mapping: left-behind, crashed, rejected
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
//@ hostile blocks_signals: left-behind, rejected, crashed
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}
//@ honest restores_the_rounding_mode
static void run(const Tensors &t, int64_t first, int64_t last) {
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr((before & ~0x6000u) | 0x2000);
    volatile float third = 1.0f / 3;
    (void)third;
    __builtin_ia32_ldmxcsr(before);
    compute(t, first, last);
}
//@ honest workspace_of_the_heap
static void run(const Tensors &t, int64_t first, int64_t last) {
    char *space = (char *)std::malloc(100000);
    if (!space) return;
    std::memset(space, 1, 100000);
    if (space[99999] == 1) compute(t, first, last);
    std::free(space);
}
//@ honest a_vector
static void run(const Tensors &t, int64_t first, int64_t last) {
    std::vector<double> space(1000, 1.0);
    if (space.back() == 1.0) compute(t, first, last);
}
//@ honest maps_and_unmaps
static void run(const Tensors &t, int64_t first, int64_t last) {
    void *space = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED) return;
    *(volatile char *)space = 1;
    compute(t, first, last);
    munmap(space, 1 << 20);
}
//@ hostile leaves_a_function_for_the_end: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    atexit([] {});
}
//@ hostile leaves_another_precision: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    std::cout.precision(3);
}
//@ hostile leaves_another_allocator: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    mallopt(M_MMAP_THRESHOLD, 4096);
}
//@ hostile leaves_an_unbuffered_stream: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    setvbuf(stdout, nullptr, _IONBF, 0);
}
//@ hostile leaves_another_end_of_exceptions: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    std::set_terminate([] { __builtin_trap(); });
}
//@ hostile counts_in_the_place_of_options: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    if (++optind > 10000000) t.y[0] = 0;
}
//@ hostile counts_in_the_name_of_the_program: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    ++program_invocation_name;
}
//@ hostile counts_in_the_text_of_a_time: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    const time_t now = 0;
    ++asctime(gmtime(&now))[0];
}
//@ hostile looks_functions_up: keeps-state
static void run(const Tensors &t, int64_t first, int64_t last) {
    compute(t, first, last);
    const auto random = (int (*)())dlsym(RTLD_DEFAULT, "rand");
    if (random && random() == 0) t.y[0] = 0;
}
