//! More tensors than open files are usual. One test, because it changes a limit of the process.

use akg_core::dtype::DType;
use akg_worker::shm;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_low_soft_limit_does_not_limit_tensors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let low = Rlimit {
        current: Some(64),
        maximum,
    };
    setrlimit(Resource::Nofile, low).unwrap();
    let tensors: Vec<_> = (0..200)
        .map(|_| shm::allocate(DType::F32, [4]).unwrap())
        .collect();
    assert_eq!(tensors.len(), 200);
}
