//! The rules of this repository, as tests: `cargo test -p pliant-house`.
//!
//! The rules themselves are in `tests/`. Here is what they need to read Rust: [`source`] splits a file into tokens,
//! [`modules`] puts the files of a crate together and tells which file uses which, and [`cycles`] finds what imports
//! itself in a circle. It is no compiler: macros are not expanded and types are not known. What it cannot resolve it
//! takes for a part of the module that it has reached.

pub mod cycles;
pub mod modules;
pub mod source;
