//! Whatever a peer puts into a bundle, in whatever order it arrives: memory stays bounded, and what this side says and reads
//! afterwards is sound.
#![no_main]

#[path = "../checks/bundle_frames.rs"]
mod bundle_frames;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bundle_frames::check(bytes));
