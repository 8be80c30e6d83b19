//! The functions of sqlite-vec, which compare vectors.

use std::ffi::{c_char, c_int};

use rusqlite::{Connection, ffi};

/// What the initialiser of a SQLite extension looks like; its crate declares it without arguments.
type Init =
    unsafe extern "C" fn(*mut ffi::sqlite3, *mut *mut c_char, *const ffi::sqlite3_api_routines) -> c_int;

/// Lets statements of this connection call the functions. Other connections of the process stay as they are.
pub(crate) fn register(connection: &Connection) -> rusqlite::Result<()> {
    // SAFETY: the C function has this type (sqlite-vec.h). It is built into the program with SQLITE_CORE, so that it calls
    // SQLite directly and may be given no table of its routines; with no place for a message it writes none. The connection is
    // open, and is not used by others while it is borrowed from its only owner.
    let code = unsafe {
        let init = std::mem::transmute::<unsafe extern "C" fn(), Init>(sqlite_vec::sqlite3_vec_init);
        init(connection.handle(), std::ptr::null_mut(), std::ptr::null())
    };
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }
}

/// A vector as the functions take it: its entries as the machine has them.
pub(crate) fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|entry| entry.to_ne_bytes()).collect()
}

/// The entries of a vector.
pub(crate) fn entries(bytes: &[u8]) -> Vec<f32> {
    let entry = |bytes: &[u8; 4]| f32::from_ne_bytes(*bytes);
    let (entries, _) = bytes.as_chunks::<4>();
    entries.iter().map(entry).collect()
}
