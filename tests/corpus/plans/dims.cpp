// Plans for any number of rows.
//: graph: {"akg_graph": 1, "name": "rows", "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 24]}],
//: graph: "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["h"]},
//: graph: {"op": "aten.add.Scalar", "args": {"self": "h", "other": 1.0}, "outputs": ["y"]}], "outputs": [{"value": "y"}]}
//: contract: {"accuracy": "fp32", "hints": {"N": 100}, "ranges": {"N": {"lo": 1, "hi": 1000}}}
#define KERNEL(name) extern "C" void name(void *const *tensors, const int64_t *dims, int64_t first, int64_t last)
static float *f32(void *const *tensors, int at) { return (float *)tensors[at]; }
static void rows(void *const *tensors, int64_t first, int64_t last) {
    for (int64_t i = first * 24; i < last * 24; ++i) f32(tensors, 1)[i] = std::max(f32(tensors, 0)[i], 0.0f) + 1;
}
KERNEL(row) { rows(tensors, first, last); }
//: launch: row x y over N
//@ honest a_program_for_each_row
//: dim: N
//: launch: row x y over N
//@ honest sixteen_rows_for_each_program
//: dim: N
//: launch: sixteen x y over ceildiv(N,16)
KERNEL(sixteen) { rows(tensors, first * 16, std::min(last * 16, dims[0])); }
//@ honest scratch_of_as_many_rows
//: dim: N
//: tensor: h f32 scratch N 24 holds h
//: launch: part x h over N
//: launch: rest h y over N
KERNEL(part) {
    for (int64_t i = first * 24; i < last * 24; ++i) f32(tensors, 1)[i] = std::max(f32(tensors, 0)[i], 0.0f);
}
KERNEL(rest) {
    for (int64_t i = first * 24; i < last * 24; ++i) f32(tensors, 1)[i] = f32(tensors, 0)[i] + 1;
}
//@ hostile as_many_rows_as_the_hint: unwritten, out-of-bounds, crashed
//: dim: N
//: launch: row x y over 100
//@ hostile whole_blocks_of_rows: unwritten, wrong-values
//: dim: N
//: launch: blocks x y over N//4
KERNEL(blocks) { rows(tensors, first * 4, last * 4); }
//@ hostile rows_beyond_the_last: out-of-bounds, crashed
//: dim: N
//: launch: blocks x y over ceildiv(N,8)
KERNEL(blocks) { rows(tensors, first * 8, last * 8); }
//@ hostile wrong_beyond_the_hint: wrong-values
//: dim: N
//: launch: row x y over N
//: launch: late y over 1
KERNEL(late) {
    if (dims[0] > 150) f32(tensors, 0)[0] += 1;
}
//@ hostile wrong_at_the_end_of_the_range: wrong-values
//: dim: N
//: launch: row x y over N
//: launch: late y over 1
KERNEL(late) {
    if (dims[0] == 1000) f32(tensors, 0)[0] += 1;
}
//@ hostile scratch_for_the_hint: out-of-bounds, crashed
//: dim: N
//: tensor: h f32 scratch 100 24
//: launch: part x h y over N
KERNEL(part) {
    for (int64_t i = first * 24; i < last * 24; ++i) {
        f32(tensors, 1)[i] = std::max(f32(tensors, 0)[i], 0.0f);
        f32(tensors, 2)[i] = f32(tensors, 1)[i] + 1;
    }
}
//@ hostile an_input_as_large_as_the_hint: wrong-type
//: tensor: x f32 input 100 24
//: launch: row x y over 100
//@ hostile a_grid_that_divides_by_zero_at_the_least_size: load-failed
//: dim: N
//: launch: row x y over N+N//(N-1)-1
//@ hostile the_dim_is_not_stated: out-of-bounds
//: launch: row x y over 100
