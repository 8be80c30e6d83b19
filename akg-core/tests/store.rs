//! The store in memory keeps the rules of every store.

use std::sync::Arc;

use akg_core::Store;
use akg_core::conformance;
use akg_core::store::MemoryStore;

#[test]
fn the_rules_hold() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    conformance::store(&|| Ok(store.clone())).assert_held();
}
