//! Several hosts in one process: the whole crate, its loops and threads, over a simulated network, with simulated clocks and
//! a disk that fails, all from one seed.
//!
//! Every thread that runs in a world is one of its tasks. One task runs at a time, until it waits; then the world takes
//! its earliest event, which lets some task go on. So the code that is tested is the code that is shipped, and a seed
//! always gives the same run.

mod attackers;
mod disk;
mod fetching;
pub(crate) mod here;
mod network;
mod receivers;
mod scenario;
mod schedule;
mod slow_sources;
mod tests;
