//! Plans of `pliant switch` are refused in one line, or are switches that give on or hold all that they take.
#![no_main]

#[path = "../checks/switch_plan.rs"]
mod switch_plan;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| switch_plan::check(bytes));
