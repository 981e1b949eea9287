//! What [`pliant_net::allocator`] promises, in a process of its own: it holds for the whole process.
#![cfg(target_env = "gnu")]

use std::hint::black_box;
use std::sync::Mutex;

const BLOCK: usize = 16 << 20;

/// Tests that measure the process' memory run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

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
    let _alone = ALONE.lock();
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

/// Of many small blocks every hundredth stays. The pages between them go back.
#[test]
fn free_pages_go_back_between_blocks_that_stay() {
    const PIECE: usize = 1024;
    let _alone = ALONE.lock();
    let mut blocks: Vec<_> = (0..BLOCK / PIECE).map(|_| Some(black_box(vec![1_u8; PIECE]))).collect();
    let peak = memory();
    for (number, block) in blocks.iter_mut().enumerate() {
        if number % 100 != 0 {
            *block = None;
        }
    }
    pliant_net::allocator::return_free_pages();
    assert!(memory() < peak - BLOCK / 2, "{} bytes of {BLOCK} have gone back", peak - memory());
    drop(blocks);
}
