#![doc = include_str!("../README.md")]

mod knowledge;
mod schema;
mod sqlite;
mod vectors;

pub use sqlite::SqliteStore;
