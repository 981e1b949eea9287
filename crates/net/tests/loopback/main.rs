//! Real sockets on loopback: ECN, whole transfers, bad ways, hostile peers, and a replay of what happened.

mod api;
mod api_bundle;
mod bundle;
mod common;
mod ecn;
mod false_source;
mod folders;
mod hostile;
mod mirrors;
mod push;
mod replay;
mod transfer;
