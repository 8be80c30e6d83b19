// Honest candidates that use the language and its library in ways that leave traces in a shared object.
//: tasks: all
#include <complex>
#include <functional>
#include <map>
#include <memory>
#include <string>
//@ honest virtual_functions
struct Way {
    virtual ~Way() = default;
    virtual void go(const Tensors &t, int64_t first, int64_t last) const { compute(t, first, last); }
};
struct Other : Way {
    void go(const Tensors &t, int64_t first, int64_t last) const override {
        if (first < last) compute(t, first, last);
    }
};
static void run(const Tensors &t, int64_t first, int64_t last) {
    const Way way;
    const Other other;
    const Way *both[2] = {&way, &other};
    both[first & 1]->go(t, first, last);
}
//@ honest a_function_object
static void run(const Tensors &t, int64_t first, int64_t last) {
    const std::function<void(int64_t)> one = [&](int64_t program) { compute(t, program, program + 1); };
    for (int64_t program = first; program < last; ++program) one(program);
}
//@ honest containers
static void run(const Tensors &t, int64_t first, int64_t last) {
    std::map<int64_t, std::string> names;
    for (int64_t program = first; program < last; ++program) names[program] = std::to_string(program);
    for (const auto &[program, name] : names)
        if (name == std::to_string(program)) compute(t, program, program + 1);
}
//@ honest owned_memory
static void run(const Tensors &t, int64_t first, int64_t last) {
    const auto space = std::make_unique<double[]>(4096);
    space[4095] = 1;
    if (space[4095] == 1) compute(t, first, last);
}
//@ honest a_large_table_in_read_only_memory
static constexpr struct Squares {
    int64_t of[4096];
    constexpr Squares() : of() {
        for (int i = 0; i < 4096; ++i) of[i] = int64_t(i) * i;
    }
} squares;
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (squares.of[first % 4096] == (first % 4096) * (first % 4096)) compute(t, first, last);
}
//@ honest a_switch
static int kind(int64_t n) {
    switch (n % 7) {
        case 0: return 1;
        case 1: return 3;
        case 2: return 7;
        case 3: return 2;
        case 4: return 9;
        case 5: return 5;
        default: return 4;
    }
}
static void run(const Tensors &t, int64_t first, int64_t last) {
    if (kind(first) > 0) compute(t, first, last);
}
//@ honest an_error_number_of_the_library
static void run(const Tensors &t, int64_t first, int64_t last) {
    volatile double x = -1;
    volatile double root = std::sqrt(x);
    if (root != root) compute(t, first, last);
}
//@ honest wide_integers
static void run(const Tensors &t, int64_t first, int64_t last) {
    const __int128 wide = (__int128)first << 70;
    if (int64_t(wide >> 70) == first) compute(t, first, last);
}
//@ honest variable_stack
static void run(const Tensors &t, int64_t first, int64_t last) {
    char *space = (char *)__builtin_alloca(1000 + (first & 7) * 100);
    space[999] = 1;
    if (space[999] == 1) compute(t, first, last);
}
//@ honest complex_numbers
static void run(const Tensors &t, int64_t first, int64_t last) {
    const std::complex<double> i(0, 1);
    if ((i * i).real() < 0) compute(t, first, last);
}
