#![doc = include_str!("../README.md")]

mod schema;
mod sqlite;

pub use sqlite::SqliteStore;
