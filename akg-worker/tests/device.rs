//! The description of the device. One test, because it changes the environment.

use std::path::Path;

use akg_core::dtype::DType;
use akg_worker::client;

#[test]
fn the_device_is_measured_once() {
    let cache = tempfile::tempdir().unwrap();
    // SAFETY: no other thread of this program reads the environment.
    unsafe { std::env::set_var("XDG_CACHE_HOME", cache.path()) };
    let worker = Some(Path::new(env!("CARGO_BIN_EXE_akg-worker")));
    let target = client::describe(worker).unwrap();
    assert_eq!(target.backend, "cpu");
    assert_eq!(target.arch, std::env::consts::ARCH);
    assert!(target.cores >= 1 && target.vector_bytes >= 16);
    assert!(target.memory_bytes > 0 && target.tile_bytes > 0 && !target.caches.is_empty());
    assert!(target.bandwidth > 1e8 && target.launch_seconds > 0.0);
    if target.features.contains("fma") {
        assert!(target.peak[&DType::F32] > 1e9 && target.peak[&DType::F64] > 1e9);
    }
    assert_eq!(std::fs::read_dir(cache.path().join("akg")).unwrap().count(), 1);
    assert_eq!(client::describe(worker).unwrap(), target);
}
