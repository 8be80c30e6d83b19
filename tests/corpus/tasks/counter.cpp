//: labels: f32, state
//: graph: {"akg_graph": 1, "name": "counter", "inputs": [{"name": "x", "dtype": "f32", "shape": [32, 48]}, {"name": "mean", "dtype": "f32", "shape": [48], "kind": "state"}, {"name": "steps", "dtype": "i64", "shape": [1], "kind": "state"}],
//: graph: "nodes": [{"op": "aten.mean.dim", "args": {"self": "x", "dim": [0]}, "outputs": ["m"]},
//: graph: {"op": "aten.mul.Scalar", "args": {"self": "mean", "other": 0.9}, "outputs": ["old"]},
//: graph: {"op": "aten.mul.Scalar", "args": {"self": "m", "other": 0.1}, "outputs": ["new"]},
//: graph: {"op": "aten.add.Tensor", "args": {"self": "old", "other": "new"}, "outputs": ["next"]},
//: graph: {"op": "aten.add.Scalar", "args": {"self": "steps", "other": 1}, "outputs": ["count"]},
//: graph: {"op": "aten.sub.Tensor", "args": {"self": "x", "other": "next"}, "outputs": ["y"]}],
//: graph: "outputs": [{"value": "y"}, {"value": "next", "updates": "mean"}, {"value": "count", "updates": "steps"}]}
//@ compute
static void means(const Tensors &t) {
    for (int c = 0; c < 48; ++c) {
        double sum = 0;
        for (int r = 0; r < 32; ++r) sum += t.x[r * 48 + c];
        t.next[c] = float(t.mean[c] * 0.9 + sum / 32 * 0.1);
    }
}
static void compute(const Tensors &t, int64_t first, int64_t last) {
    means(t);
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] - t.next[i % 48];
    t.count[0] = t.steps[0] + 1;
}
//@ hostile never_counts: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int c = 0; c < 48; ++c) {
        double sum = 0;
        for (int r = 0; r < 32; ++r) sum += t.x[r * 48 + c];
        t.next[c] = float(t.mean[c] * 0.9 + sum / 32 * 0.1);
    }
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] - t.next[i % 48];
    t.count[0] = 1;
}
//@ hostile counts_to_256: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int c = 0; c < 48; ++c) {
        double sum = 0;
        for (int r = 0; r < 32; ++r) sum += t.x[r * 48 + c];
        t.next[c] = float(t.mean[c] * 0.9 + sum / 32 * 0.1);
    }
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] - t.next[i % 48];
    t.count[0] = (t.steps[0] + 1) & 255;
}
//@ hostile the_old_mean_is_left_out: wrong-values
static void compute(const Tensors &t, int64_t first, int64_t last) {
    for (int c = 0; c < 48; ++c) {
        double sum = 0;
        for (int r = 0; r < 32; ++r) sum += t.x[r * 48 + c];
        t.next[c] = float(0.9 + sum / 32 * 0.1);
    }
    for (int64_t i = 0; i < y_size; ++i) t.y[i] = t.x[i] - t.next[i % 48];
    t.count[0] = t.steps[0] + 1;
}
