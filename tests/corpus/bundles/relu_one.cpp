// Bundles of an honest kernel whose files were changed afterwards. A section with a text puts the artifact of that source in place of
// the honest one.
//: task: relu_one
//: launch: kernel x y over 4
#define KERNEL(name) extern "C" void name(void *const *tensors, const int64_t *, int64_t first, int64_t last)
//@ compute
KERNEL(kernel) {
    for (int64_t i = first * 2048; i < last * 2048; ++i)
        ((float *)tensors[1])[i] = std::max(((const float *)tensors[0])[i], 0.0f) + 1;
}
//@ honest as_it_was_made
//@ honest another_claim_of_what_was_checked
//: set: evidence.json /verdict/work/rows 123456789
//@ honest the_same_kernel_in_another_name
//: set: manifest.json /name "relu"
//@ hostile another_claim_with_the_old_hash: invalid-input
//: set: manifest.json /name "relu"
//: hash: kept
//: says: does not fit its hash
//@ hostile cut_off: invalid-input
//: length: 6000
//@ hostile cut_off_in_its_head: invalid-input
//: length: 700
//@ hostile fewer_programs: unwritten
//: set: manifest.json /plan/launches/0/grid [2]
//@ hostile more_programs_than_there_may_be: load-failed
//: set: manifest.json /plan/launches/0/grid [4611686018427387904, 4611686018427387904]
//@ hostile another_symbol: load-failed
//: set: manifest.json /plan/launches/0/kernel "abort_all"
//@ hostile a_tensor_that_is_not_there: invalid-input
//: set: manifest.json /plan/launches/0/tensors [0, 9]
//@ hostile an_input_twice: input-changed
//: set: manifest.json /plan/launches/0/tensors [0, 0]
//@ hostile an_alignment_of_three: invalid-input
//: set: manifest.json /plan/tensors/1/align 3
//@ hostile another_shape: invalid-input
//: set: manifest.json /plan/tensors/1/shape [128, 64]
//@ hostile an_output_that_is_scratch: invalid-input
//: set: manifest.json /plan/tensors/1/role "scratch"
//@ hostile an_unknown_dim: invalid-input
//: set: manifest.json /plan/launches/0/grid ["N"]
//@ hostile another_architecture: unsupported
//: set: manifest.json /requires/arch "riscv64"
//@ hostile features_that_no_machine_has: unsupported
//: set: manifest.json /requires/features ["telepathy"]
//@ hostile another_format: unsupported
//: set: manifest.json /format "cubin"
//@ hostile another_class: invalid-input
//: set: manifest.json /contract/accuracy "half"
//@ hostile a_failure_in_its_evidence: invalid-input
//: set: evidence.json /verdict/failure {"kind": "wrong-values", "evidence": "all of it"}
//@ hostile another_graph: wrong-values
//: set: graph.json /nodes/1/args/other 2.0
//@ hostile the_artifact_of_a_wrong_kernel: wrong-values
KERNEL(kernel) {
    for (int64_t i = first * 2048; i < last * 2048; ++i) ((float *)tensors[1])[i] = 1;
}
//@ hostile the_artifact_of_an_idle_kernel: unwritten
KERNEL(kernel) {}
//@ hostile an_artifact_that_keeps_state: keeps-state
static int64_t calls;
KERNEL(kernel) {
    if (calls++ > 1000) return;
    for (int64_t i = first * 2048; i < last * 2048; ++i)
        ((float *)tensors[1])[i] = std::max(((const float *)tensors[0])[i], 0.0f) + 1;
}
//@ hostile an_artifact_that_leaves_when_it_is_loaded: crashed, load-failed
__attribute__((constructor)) static void leave() { std::exit(0); }
KERNEL(kernel) {
    for (int64_t i = first * 2048; i < last * 2048; ++i)
        ((float *)tensors[1])[i] = std::max(((const float *)tensors[0])[i], 0.0f) + 1;
}
