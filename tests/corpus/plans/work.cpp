// Plans that divide relu(x) + 1 of f32[64, 128] among kernels and programs.
//: task: relu_one
#define KERNEL(name) extern "C" void name(void *const *tensors, const int64_t *, int64_t first, int64_t last)
static const int64_t n = 64 * 128;
static float *f32(void *const *tensors, int at) { return (float *)tensors[at]; }
static float relu(float x) { return x > 0 ? x : 0; }
KERNEL(relu_of_row) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]);
}
KERNEL(one_more_of_row) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 1)[i] = f32(tensors, 0)[i] + 1;
}
KERNEL(row) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]) + 1;
}
//@ honest a_program_for_each_row
//: launch: row x y over 64
//@ honest a_grid_of_three_dimensions
//: launch: row x y over 4 8 2
//@ honest a_grid_without_dimensions
//: launch: all x y
KERNEL(all) {
    for (int64_t i = 0; i < n; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]) + 1;
}
//@ honest a_program_for_each_element
//: launch: element x y over 64 128
KERNEL(element) {
    for (int64_t i = first; i < last; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]) + 1;
}
//@ honest more_programs_than_rows
//: launch: rounded_up x y over 100
KERNEL(rounded_up) {
    for (int64_t row = first; row < last && row < 64; ++row)
        for (int64_t i = row * 128; i < row * 128 + 128; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]) + 1;
}
//@ honest an_extent_that_is_computed
//: launch: row x y over 2*(100-68)
//@ honest two_kernels_with_scratch
//: tensor: h f32 scratch 64 128
//: launch: relu_of_row x h over 64
//: launch: one_more_of_row h y over 8 8
// Kernels between which a value of the graph lies are also judged alone.
//@ honest two_kernels_that_say_what_is_between_them
//: tensor: h f32 scratch 64 128 holds h
//: launch: relu_of_row x h over 64
//: launch: one_more_of_row h y over 64
//: says: kernels relu_of_row alone
//@ honest an_output_as_workspace
//: launch: relu_of_row x y over 64
//: launch: one_more_of_row y y over 64
//@ honest a_kernel_that_is_launched_twice
//: tensor: h f32 scratch 64 128
//: tensor: g f32 scratch 64 128
//: launch: relu_of_row x h over 64
//: launch: relu_of_row h g over 64
//: launch: one_more_of_row g y over 64
//@ honest a_kernel_that_is_launched_eight_times
//: tensor: count i32 scratch 1
//: launch: begin count
//: launch: eighth count times 8
//: launch: end x count y over 64
KERNEL(begin) { *(int32_t *)tensors[0] = 0; }
KERNEL(eighth) { ++*(int32_t *)tensors[0]; }
KERNEL(end) {
    const float one = *(const int32_t *)tensors[1] / 8.0f;
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 2)[i] = relu(f32(tensors, 0)[i]) + one;
}
//@ honest programs_that_wait_for_each_other
//: tensor: h f32 scratch 64 128
//: launch: phases x h y over 4 together
struct akg_team { void (*barrier)(void *context); void *context; };
extern "C" void phases(void *const *tensors, const int64_t *, int64_t program, const akg_team *team) {
    for (int64_t i = program * n / 4; i < (program + 1) * n / 4; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]);
    team->barrier(team->context);
    const int64_t other = 3 - program;
    for (int64_t i = other * n / 4; i < (other + 1) * n / 4; ++i) f32(tensors, 2)[i] = f32(tensors, 1)[i] + 1;
}
// A kernel without effect beside one that does all the work is told.
//@ honest one_kernel_is_idle
//: launch: row x y over 64
//: launch: idle x y
//: says: idle: idle
KERNEL(idle) {}
//@ hostile two_of_the_same: no-work
//: launch: row x y over 64
//: launch: row x y over 64
//@ hostile all_are_idle: unwritten
//: launch: idle x y
//: launch: rest x y
KERNEL(idle) {}
KERNEL(rest) {}
//@ hostile kernels_that_make_up_for_each_other: wrong-values
//: tensor: h f32 scratch 64 128 holds h
//: launch: twice x h over 64
//: launch: half h y over 64
//: says: twice alone
KERNEL(twice) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 1)[i] = 2 * relu(f32(tensors, 0)[i]);
}
KERNEL(half) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 1)[i] = f32(tensors, 0)[i] / 2 + 1;
}
//@ hostile the_second_kernel_does_it_all: wrong-values
//: tensor: h f32 scratch 64 128 holds h
//: launch: nothing h over 64
//: launch: all x h y over 64
KERNEL(nothing) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 0)[i] = 7;
}
KERNEL(all) {
    for (int64_t i = first * 128; i < last * 128; ++i) f32(tensors, 2)[i] = relu(f32(tensors, 0)[i]) + 1;
}
//@ hostile every_second_program_is_left_out: unwritten
//: launch: skips x y over 2
KERNEL(skips) {
    for (int64_t program = first; program < last; program += 2)
        for (int64_t i = program * n / 2; i < (program + 1) * n / 2; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]) + 1;
}
//@ hostile only_the_first_program_of_a_range: unwritten
//: launch: skips x y over 4
KERNEL(skips) {
    for (int64_t i = first * n / 4; i < (first + 1) * n / 4; ++i) f32(tensors, 1)[i] = relu(f32(tensors, 0)[i]) + 1;
}
//@ hostile a_grid_that_is_too_small: unwritten
//: launch: row x y over 63
//@ hostile a_grid_of_nothing: unwritten
//: launch: row x y over 64 0
//@ hostile a_negative_grid: unwritten
//: launch: row x y over -64
//@ hostile a_grid_that_is_too_large: out-of-bounds
//: launch: row x y over 65
//@ hostile kernels_in_the_wrong_order: wrong-values, unwritten
//: tensor: h f32 scratch 64 128
//: launch: one_more_of_row h y over 64
//: launch: relu_of_row x h over 64
//@ hostile a_kernel_that_is_missing: unwritten
//: tensor: h f32 scratch 64 128
//: launch: relu_of_row x h over 64
//@ hostile tensors_that_are_exchanged: unwritten, input-changed
//: launch: row y x over 64
//@ hostile a_kernel_that_is_launched_too_often: wrong-values
//: launch: relu_of_row x y over 64
//: launch: one_more_of_row y y over 64 times 2
