//! What [`pliant_net::allocator`] promises, in a process of its own: it holds for the whole process.
#![cfg(target_env = "gnu")]

use std::hint::black_box;

const BLOCK: usize = 16 << 20;

/// The process' own memory in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}

fn large() -> Vec<u8> {
    black_box(vec![1; BLOCK])
}

/// A small block lies above a large one of a size that was freed before. The large one's pages go back all the same.
#[test]
fn a_large_block_goes_back_under_a_small_one() {
    pliant_net::allocator::return_large_blocks();
    drop(large());
    let before = memory();
    let freed = large();
    let above = black_box(vec![1_u8; 1000]);
    assert!(memory() >= before + BLOCK / 2);
    drop(freed);
    assert!(memory() < before + BLOCK / 2, "{} bytes more are kept", memory() - before);
    drop(above);
}
