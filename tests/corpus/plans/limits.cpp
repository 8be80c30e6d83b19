// Plans that cannot be read, are too large, or name what is not there.
//: task: relu_one
#define KERNEL(name) extern "C" void name(void *const *tensors, const int64_t *, int64_t first, int64_t last)
KERNEL(row) {
    for (int64_t i = first * 128; i < last * 128; ++i)
        ((float *)tensors[1])[i] = std::max(((const float *)tensors[0])[i], 0.0f) + 1;
}
//: launch: row x y over 64
//@ honest plain
//@ honest a_hundred_scratch_tensors_in_one_launch
//: tensor: s f32 scratch 16
//: launch: row x y@REPEAT 100  s@ over 64
//@ honest an_extent_of_many_terms
//: launch: row x y over 64@REPEAT 60 +1-1@
//@ hostile no_plan: invalid-input
//: header: // a kernel for relu
//: says: begins with its launch plan
//@ hostile half_a_plan: invalid-input
//: header: // akg-launch: {"tensors": [
//@ hostile no_launches: invalid-input
//: header: // akg-launch: {"tensors": [], "launches": []}
//: says: no launches
//@ hostile a_plan_of_brackets: invalid-input
//: header: // akg-launch: {"tensors": @REPEAT 100000 [@
//@ hostile too_many_launches: invalid-input
//: launch: row x y over 64 times 20000
//: says: launches
//@ hostile too_many_axes: invalid-input
//: launch: row x y over@REPEAT 100  1@
//: says: axes
//@ hostile a_grid_beyond_the_limit: load-failed
//: launch: row x y over 1048576 1048577
//: says: programs
//@ hostile a_grid_that_overflows: load-failed
//: launch: row x y over 4611686018427387904 4611686018427387904
//@ hostile launches_that_are_too_large_together: load-failed
//: launch: row x y over 549755813888 times 3
//@ hostile an_extent_of_brackets: invalid-input
//: launch: row x y over @REPEAT 20000 (@64@REPEAT 20000 )@
//@ hostile an_extent_that_divides_by_zero: load-failed
//: launch: row x y over 64//(1-1)
//@ hostile an_unknown_dim: load-failed
//: launch: row x y over N
//@ hostile a_dim_that_the_task_does_not_have: load-failed
//: dim: N
//: launch: row x y over 64
//@ hostile a_tensor_that_is_not_there: invalid-input
//: launch: row x 7 over 64
//: says: tensor number 7
//@ hostile a_kernel_that_is_not_there: load-failed
//: launch: column x y over 64
//@ hostile a_kernel_of_the_library: load-failed
//: launch: abort x y
//@ hostile a_kernel_without_a_c_name: invalid-input
//: launch: row;exit x y
//: says: identifier
//@ hostile a_kernel_with_an_escape: invalid-input
//: launch: row@ESCAPE@[2J x y
//@ hostile a_name_that_is_too_long: load-failed
//: launch: @REPEAT 100000 row@ x y over 64
//@ hostile programs_that_wait_and_are_too_many: load-failed
//: launch: row x y over 1000000 together
