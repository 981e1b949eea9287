//! Mail between the controller of objects and the hosts, as lines on the pipes between their processes.

use pliant_proto::transport::push::{Order, ToController, ToReceiver, ToSource};
use serde::{Deserialize, Serialize};

/// What a line with a [`HostMessage`] or a [`ControllerMessage`] begins with.
pub(crate) const MAIL: &str = "mail ";

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToController")]
enum ToControllerText {
    Fetch,
    Report { decoded: u32, remaining: u64, heard: u32, next: u32 },
    Fin,
    Accepted { slot: u8, number: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToReceiver")]
enum ToReceiverText {
    FetchAck,
    FinAck,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Order")]
enum OrderText {
    Push { slot: u8, slots: u8, sources: u8, block: u32, start: u32, weight: f64 },
    Theta { weight: f64 },
    Pause,
    Stop,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToSource")]
struct ToSourceText {
    number: u32,
    #[serde(with = "OrderText")]
    order: Order,
}

/// From an end of a flow to the controller.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct HostMessage {
    pub(crate) flow: u64,
    #[serde(with = "ToControllerText")]
    pub(crate) message: ToController,
}

/// From the controller to an end of a flow.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct ControllerMessage {
    pub(crate) flow: u64,
    pub(crate) to: EndpointMessage,
}

/// EndpointMessage which end, and what.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum EndpointMessage {
    Source(#[serde(with = "ToSourceText")] ToSource),
    Receiver(#[serde(with = "ToReceiverText")] ToReceiver),
}

/// As a line.
pub(crate) fn line(mail: &impl Serialize) -> String {
    format!("{MAIL}{}", serde_json::to_string(mail).expect("mail is plain data"))
}

/// From a line, if it is one.
pub(crate) fn read<T: serde::de::DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line.strip_prefix(MAIL)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written is read again, and other lines are no mail.
    #[test]
    fn mail_survives_the_pipe() {
        let report = ToController::Report { decoded: 1, remaining: 2, heard: 3, next: 4 };
        for message in [ToController::Fetch, report, ToController::Fin, ToController::Accepted { slot: 1, number: 9 }] {
            let mail = HostMessage { flow: 7, message };
            assert_eq!(read(&line(&mail)), Some(mail));
        }
        let push = Order::Push { slot: 1, slots: 2, sources: 2, block: 3, start: 4, weight: 0.5 };
        for order in [push, Order::Theta { weight: 12.25 }, Order::Pause, Order::Stop] {
            let reply = ControllerMessage { flow: 8, to: EndpointMessage::Source(ToSource { number: 5, order }) };
            assert_eq!(read(&line(&reply)), Some(reply));
        }
        for message in [ToReceiver::FetchAck, ToReceiver::FinAck] {
            let reply = ControllerMessage { flow: 8, to: EndpointMessage::Receiver(message) };
            assert_eq!(read(&line(&reply)), Some(reply));
        }
        assert_eq!(read::<HostMessage>("stop"), None);
        assert_eq!(read::<HostMessage>("mail {}"), None);
    }
}
