//! What lowerings share: analyses of typed sketches and the mappings to execution models.

pub mod analysis;
pub mod grid;
pub mod loops;
pub mod tiles;
