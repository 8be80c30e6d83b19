// Plans of two kernels that share nothing: the whole shows of each what a look at it alone would.
//: graph: {"akg_graph": 1, "name": "apart", "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 128]}],
//: graph: "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["y"]},
//: graph: {"op": "aten.add.Scalar", "args": {"self": "x", "other": 1.0}, "outputs": ["z"]}],
//: graph: "outputs": [{"value": "y"}, {"value": "z"}]}
#define KERNEL(name) extern "C" void name(void *const *tensors, const int64_t *, int64_t, int64_t)
static const int64_t n = 64 * 128;
static const float *in(void *const *tensors) { return (const float *)tensors[0]; }
static float *out(void *const *tensors) { return (float *)tensors[1]; }
KERNEL(relu) {
    for (int64_t i = 0; i < n; ++i) out(tensors)[i] = in(tensors)[i] > 0 ? in(tensors)[i] : 0;
}
//: launch: relu x y
//: launch: next x z
//@ honest each_does_its_part
//: is-silent-on: alone
KERNEL(next) {
    for (int64_t i = 0; i < n; ++i) out(tensors)[i] = in(tensors)[i] + 1;
}
//@ hostile the_second_leaves_out_an_element: unwritten
KERNEL(next) {
    for (int64_t i = 0; i < n - 1; ++i) out(tensors)[i] = in(tensors)[i] + 1;
}
//@ hostile outputs_that_are_exchanged: wrong-values
//: launch: relu x z
//: launch: next x y
KERNEL(next) {
    for (int64_t i = 0; i < n; ++i) out(tensors)[i] = in(tensors)[i] + 1;
}
