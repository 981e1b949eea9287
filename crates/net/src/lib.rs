//! Pliant's machines on real UDP sockets.
