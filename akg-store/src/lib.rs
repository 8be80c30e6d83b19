#![doc = include_str!("../README.md")]

mod knowledge;
mod schema;
mod sqlite;

pub use sqlite::SqliteStore;
