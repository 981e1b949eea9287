//! What the streams of a class have in common.

use std::io;

use pliant_proto::contract::schedule::{DaySchedule, TimeOfDay};

use pliant_proto::contract::Contract;
use pliant_proto::packet::CLASSES;
use pliant_proto::units::Rate;

use super::multiplexer::{GREATEST_WINDOW, MultiplexerConfig};
use crate::flow::{Classes, FlowSettings, Protocol, SocketTransport, check_class};

/// The last class behind which there are those of ATP's other priorities and its backup.
const MAX_ALONE: u8 = CLASSES as u8 - 7;

/// A class: a transport, a contract and limits.
#[derive(Clone, Debug)]
pub struct BundleClass {
    /// Its name: both sides must have a class of it.
    pub name: String,
    /// Transport, contract and traffic classes of what this side sends.
    pub flow: FlowSettings,
    /// Traffic class of packets of messages: what a queue may drop rather than let wait.
    pub message_class: u8,
    /// The rate of this host's link, if that class and the six above it have queues of their own that drop early: then messages
    /// [are sent from it on](FlowSettings::drops_early).
    pub message_line_rate: Option<Rate>,
    /// Greatest rates by time of day; whoever owns the node brings the class [as it is then](Self::at).
    pub schedule: DaySchedule,
    /// Most streams that a peer may have open.
    pub max_streams: usize,
    /// Most bytes that the windows of a bundle's streams grow to together.
    pub window_budget: u64,
    /// Most bytes that wait to be read, of all its bundles with a peer together, at least [`Self::LEAST_UNREAD`]; beyond it the
    /// stream that holds up most is reset.
    pub max_unread: u64,
}

impl BundleClass {
    /// The window to which one stream may grow. With less, a stream that does what it may would be reset.
    pub const LEAST_UNREAD: u64 = GREATEST_WINDOW;
    /// With a smaller window of the transport, a bundle stops at its first cells.
    pub const LEAST_WINDOW: u64 = 64_000;

    /// Refuses a class that cannot carry streams, which need all their bytes and a transport with a window.
    pub fn check(&self) -> io::Result<()> {
        let wrong = |why: String| Err(invalid(format!("class {}: {why}", self.name)));
        if let Err(error) = self.flow.check_stream() {
            return wrong(error.to_string());
        }
        if let Err(error) = self.flow.check_schedule(&self.schedule) {
            return wrong(format!("schedule: {error}"));
        }
        if self.flow.transport.protocol() != Protocol::Tcp {
            return wrong(format!("{} does not carry streams", self.flow.transport.name()));
        }
        if let Err(error) = check_class("message_class", self.message_class) {
            return wrong(error.to_string());
        }
        if self.message_line_rate.is_some() && self.message_class > MAX_ALONE {
            return wrong(format!("with message_line_rate, message_class is at most {MAX_ALONE}: six more follow it"));
        }
        if self.flow.contract.min_delivery < 1.0 {
            return wrong("all bytes of a stream must arrive: min_delivery is 1".to_owned());
        }
        if self.max_unread < Self::LEAST_UNREAD {
            let (unread, least) = (self.max_unread, Self::LEAST_UNREAD >> 20);
            return wrong(format!(
                "unread is {unread} bytes; it is at least {least} MiB, to which one stream's window grows"
            ));
        }
        if self.flow.receive_buffer < Self::LEAST_WINDOW {
            let (window, least) = (self.flow.receive_buffer, Self::LEAST_WINDOW / 1000);
            return wrong(format!("window is {window} bytes; it is at least {least} kB"));
        }
        Ok(())
    }

    /// The class at a time of day.
    pub fn at(&self, at: TimeOfDay) -> Self {
        let contract = self.flow.contract.at(at, &self.schedule);
        Self { flow: FlowSettings { contract, ..self.flow.clone() }, ..self.clone() }
    }

    /// Whether bundles of it can go on as bundles of `other`.
    pub(super) fn changes_live_to(&self, other: &Self) -> bool {
        let same = FlowSettings { contract: self.flow.contract, ..other.flow.clone() } == self.flow;
        same && self.flow.changed_to(other.flow.contract).is_ok()
    }

    /// How its messages are carried.
    pub(super) fn messages(&self) -> FlowSettings {
        FlowSettings {
            transport: SocketTransport::Atp,
            contract: Contract { max_rate: self.flow.contract.max_rate, ..Contract::default() },
            classes: Classes { data: self.message_class, ..self.flow.classes },
            line_rate: self.message_line_rate,
            drops_early: self.message_line_rate.is_some(),
            ..self.flow.clone()
        }
    }

    pub(super) fn multiplexer(&self, calls: bool) -> MultiplexerConfig {
        let Self { max_streams, window_budget, max_unread, .. } = *self;
        let receive_buffer = self.flow.largest_receive_buffer;
        MultiplexerConfig { calls, max_streams, window_budget, max_unread, receive_buffer }
    }
}

pub(super) fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages have queues to themselves, or give way on a path that others share; their classes must all be there.
    #[test]
    fn messages_are_sent_as_their_queues_are() {
        let shared = BundleClass {
            name: "bulk".to_owned(),
            flow: FlowSettings::default(),
            message_class: MAX_ALONE,
            message_line_rate: None,
            schedule: DaySchedule::default(),
            max_streams: 1,
            window_budget: 0,
            max_unread: BundleClass::LEAST_UNREAD,
        };
        assert!(!shared.messages().drops_early && shared.check().is_ok());
        let alone = BundleClass { message_line_rate: Some(Rate::from_gbit_per_sec(1)), ..shared.clone() };
        let flow = alone.messages();
        assert_eq!((flow.drops_early, flow.line_rate), (true, Some(Rate::from_gbit_per_sec(1))));
        assert!(alone.check().is_ok());
        let high = BundleClass { message_class: MAX_ALONE + 1, ..alone };
        assert!(high.check().unwrap_err().to_string().contains("message_class is at most 25"));
        assert!(BundleClass { message_line_rate: None, ..high }.check().is_ok());
    }
}
