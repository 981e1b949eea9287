//! The control socket: a Unix socket that only its owner can use. Each request and each answer is one line of JSON.
//!
//! ```text
//! {"request":"status"}                                                  {"ok":{…}}
//! {"request":"reload"}                                                  {"error":"daemon.toml:12: …"}
//! {"request":"set","class":"backup","settings":{"max_rate":"1Gbit/s"}}  {"ok":null}
//! {"request":"kafka_ledger","topic":"clicks"}                           {"ok":[{…}]}
//! {"request":"drain","limit_seconds":30}                                {"ok":{"cut":0}}
//! ```

mod client;
mod ledger;
mod message;
mod server;
mod status;

pub use client::{ControlError, default_path, request};
pub use ledger::KafkaLedger;
pub use message::{Answer, Request};
pub(crate) use server::ControlSocket;
pub use status::{
    BundleStatus, ClassStatus, DoorStatus, DoorStatusKind, FolderStatus, KafkaPartitionStatus, ObjectsStatus,
    PeerStatus, PreloadRuleStatus, Status,
};
