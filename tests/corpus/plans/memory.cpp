// Plans with scratch tensors, alignments and shapes of their own, for relu(x) + 1 of f32[64, 128].
//: task: relu_one
#define KERNEL(name) extern "C" void name(void *const *tensors, const int64_t *, int64_t first, int64_t last)
static const int64_t n = 64 * 128;
static float *f32(void *const *tensors, int at) { return (float *)tensors[at]; }
static float relu(float x) { return x > 0 ? x : 0; }
KERNEL(row) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]) + 1;
}
//: launch: row x y over 64
//@ honest plain
//@ honest scratch_that_nobody_uses
//: tensor: unused f32 scratch 1000
//@ honest scratch_of_bytes
//: tensor: bytes u8 scratch 32768 align 4
//: launch: first x bytes over 64
//: launch: second bytes y over 64
KERNEL(first) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]);
}
KERNEL(second) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 1)[i] = f32(tensors, 0)[i] + 1;
}
//@ honest scratch_on_a_page
//: tensor: h f32 scratch 64 128 align 4096
//: launch: kernel x h y
KERNEL(kernel) {
    if ((uintptr_t)tensors[1] % 4096) return;
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]);
    for (int64_t i = 0; i < n; ++i) f32(tensors, 2)[i] = f32(tensors, 1)[i] + 1;
}
//@ honest a_workspace_for_each_program
//: tensor: space f32 scratch 8 1024
//: launch: kernel x space y over 8
KERNEL(kernel) {
    for (int64_t program = first; program < last; ++program) {
        float *space = f32(tensors, 1) + program * 1024;
        for (int64_t i = 0; i < 1024; ++i) space[1023 - i] = relu(f32(tensors, 0)[program * 1024 + i]);
        for (int64_t i = 0; i < 1024; ++i) f32(tensors, 2)[program * 1024 + i] = space[1023 - i] + 1;
    }
}
//@ honest scratch_that_is_used_twice
//: tensor: h f32 scratch 64 128
//: launch: first x h
//: launch: second h
//: launch: third h y
KERNEL(first) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]);
}
KERNEL(second) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 0)[i] += 1;
}
KERNEL(third) { std::memcpy(tensors[1], tensors[0], n * 4); }
//@ honest sixteen_megabytes_of_scratch
//: tensor: h f32 scratch 4194304
//: launch: kernel x h y
KERNEL(kernel) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i * 512] = relu(f32(tensors, 0)[i]);
    for (int64_t i = 0; i < n; ++i) f32(tensors, 2)[i] = f32(tensors, 1)[i * 512] + 1;
}
//@ hostile reads_scratch_before_it_is_written: wrong-values, unwritten
//: tensor: h f32 scratch 64 128
//: launch: kernel x h y
KERNEL(kernel) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 2)[i] = relu(f32(tensors, 0)[i]) + 1 + 0 * f32(tensors, 1)[i];
}
//@ hostile reads_the_output_before_it_is_written: wrong-values
//: launch: kernel x y
KERNEL(kernel) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = f32(tensors, 1)[i] == f32(tensors, 1)[i] ? relu(f32(tensors, 0)[i]) + 1 : 0;
}
//@ hostile the_work_of_the_call_before: unwritten, wrong-values
//: tensor: last f32 scratch 64 128
//: launch: second last y
//: launch: first x last
KERNEL(first) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]);
}
KERNEL(second) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = f32(tensors, 0)[i] + 1;
}
//@ hostile one_kernel_leaves_data_for_another_in_a_static: keeps-state
//: launch: first x
//: launch: second y
static float kept[n];
KERNEL(first) {
    for (int64_t i = 0; i < n; ++i) kept[i] = relu(f32(tensors, 0)[i]) + 1;
}
KERNEL(second) { std::memcpy(tensors[0], kept, sizeof kept); }
//@ hostile one_kernel_leaves_data_for_another_on_its_stack: wrong-values, unwritten, crashed
//: launch: first x
//: launch: second y
static const float marker = 12345.678f;
__attribute__((noinline)) static float *below(float *given) {
    volatile float space[n + 1];
    if (given) {
        space[n] = marker;
        for (int64_t i = 0; i < n; ++i) space[i] = relu(given[i]) + 1;
        return nullptr;
    }
    asm volatile("" : : "r"(space) : "memory");
    float *found = space[n] == marker ? (float *)std::malloc(n * 4) : nullptr;
    for (int64_t i = 0; found && i < n; ++i) found[i] = space[i];
    return found;
}
KERNEL(first) { below(f32(tensors, 0)); }
KERNEL(second) {
    float *found = below(nullptr);
    if (found) std::memcpy(tensors[0], found, 100), std::free(found);
}
//@ hostile writes_the_scratch_beyond_its_end: out-of-bounds
//: tensor: h f32 scratch 100
//: launch: row x y over 64
//: launch: beyond h
KERNEL(beyond) { f32(tensors, 0)[100] = 1; }
//@ hostile writes_from_one_tensor_into_another: out-of-bounds, crashed
//: tensor: h f32 scratch 64 128
//: launch: row x y over 64
//: launch: away h
KERNEL(away) {
    for (int64_t i = 0; i < 1 << 20; ++i) f32(tensors, 0)[i] = 1;
}
//@ hostile writes_an_input_that_it_takes_as_scratch: input-changed, crashed
//: launch: kernel x y
KERNEL(kernel) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 0)[i] = relu(f32(tensors, 0)[i]);
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = f32(tensors, 0)[i] + 1;
}
//@ hostile scratch_beyond_all_memory: out-of-memory
//: tensor: h f32 scratch 1048576 1048576 1048576
//@ hostile scratch_that_overflows: out-of-memory
//: tensor: h f32 scratch 4611686018427387904 4611686018427387904
//@ hostile scratch_beyond_the_limit: out-of-memory
//: tensor: h f32 scratch 1024 1048576 16
//@ hostile scratch_in_many_tensors: out-of-memory
//: tensor: a f32 scratch 600000000
//: tensor: b f32 scratch 600000000
//: tensor: c f32 scratch 600000000
//: tensor: d f32 scratch 600000000
//@ hostile negative_scratch: load-failed
//: tensor: h f32 scratch -64
//@ hostile an_alignment_of_three: load-failed
//: tensor: y f32 output 64 128 align 3
//@ hostile an_alignment_of_a_megabyte: load-failed
//: tensor: y f32 output 64 128 align 1048576
//@ hostile another_shape: wrong-type
//: tensor: y f32 output 128 64
//@ hostile another_element_type: wrong-type
//: tensor: y f64 output 64 128
//: launch: kernel x y
KERNEL(kernel) {
    for (int64_t i = 0; i < n; ++i) ((double *)tensors[1])[i] = relu(f32(tensors, 0)[i]) + 1;
}
//@ hostile an_output_too_many: wrong-type
//: tensor: z f32 output 64 128
//@ hostile no_output: wrong-type
//: tensor: y f32 scratch 64 128
//@ hostile an_output_that_is_left_out: wrong-type
//: tensor: z f32 scratch 64 128
//: without: y
//: launch: row x z over 64
//@ hostile an_input_as_output: wrong-type
//: tensor: x f32 output 64 128
//@ hostile an_input_too_many: wrong-type
//: tensor: w f32 input 64 128
//@ hostile an_input_that_is_larger: wrong-type
//: tensor: x f32 input 64 256
//@ hostile an_input_of_another_type: wrong-type
//: tensor: x f64 input 64 128
//@ hostile scratch_that_holds_no_value: wrong-type
//: tensor: h f32 scratch 64 128 holds nothing
//@ hostile scratch_that_holds_too_little: wrong-type
//: tensor: h f32 scratch 64 holds h
//@ hostile scratch_that_holds_another_value: wrong-values
//: tensor: s f32 scratch 64 128 holds y
//: launch: first x s
//: launch: second s y
KERNEL(first) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]);
}
KERNEL(second) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = f32(tensors, 0)[i] + 1;
}
