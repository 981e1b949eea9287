//! The messages of a control socket.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Most bytes of a line.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 10;

/// A request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The state of the daemon: a [`Status`](super::Status).
    Status,
    /// Read the file again.
    Reload,
    /// Set keys of a class until the file is read again.
    Set {
        /// Name of the class.
        class: String,
        /// Keys and their values, as they would be written in the file; `none` removes a key.
        settings: BTreeMap<String, String>,
    },
    /// What its exit has left out of a topic of Kafka: a list of [`KafkaLedger`](super::KafkaLedger).
    KafkaLedger {
        /// The topic's name.
        topic: String,
    },
    /// Take no more connections, and end with the last one.
    Drain {
        /// End after this many seconds at the latest. Without it the file's limit applies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit_seconds: Option<u64>,
    },
}

/// An answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was done. The value is the result.
    Ok(Value),
    /// It was not done, for this reason.
    Error(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that the module's documentation shows are what is said.
    #[test]
    fn messages_are_lines_of_json() {
        for (line, request) in [
            (r#"{"request":"status"}"#, Request::Status),
            (
                r#"{"request":"set","class":"backup","settings":{"max_rate":"1Gbit/s"}}"#,
                Request::Set {
                    class: "backup".to_owned(),
                    settings: [("max_rate".to_owned(), "1Gbit/s".to_owned())].into(),
                },
            ),
            (r#"{"request":"kafka_ledger","topic":"clicks"}"#, Request::KafkaLedger { topic: "clicks".to_owned() }),
            (r#"{"request":"drain","limit_seconds":30}"#, Request::Drain { limit_seconds: Some(30) }),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
        }
        assert_eq!(serde_json::to_string(&Answer::Ok(Value::Null)).unwrap(), r#"{"ok":null}"#);
        for wrong in ["", "{}", "[]", r#"{"request":"stop"}"#, r#"{"request":"drain","limit":3}"#] {
            assert!(serde_json::from_str::<Request>(wrong).is_err(), "{wrong}");
        }
    }
}
