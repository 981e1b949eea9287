//! Responses whose records travel apart from the stream.

use std::io;
use std::sync::{Arc, Mutex};

use pliant_kafka::Refusal;
use pliant_kafka::apart::{Plan, Report};
use pliant_kafka::ledger::{Entry, Ledger};
use pliant_net::bundle::{ExpectedMessages, OutgoingMessages, SendMessages};
use pliant_proto::transport::atp::LossBound;

use super::exit::{LossyExit, Path};
use super::journal::LedgerKey;
use crate::mutex::lock;

/// A response below this travels in the stream: a flow of its own is not worth it.
const LEAST_BYTES: usize = 32 << 10;
/// What a rate of loss is a part of.
const MILLION: usize = 1_000_000;

type SharedLedger = (LedgerKey, Arc<Mutex<Ledger>>);

/// A response that is being taken apart.
pub(super) struct Carrying {
    pub(super) flow: OutgoingMessages,
    pub(super) payload: usize,
    pub(super) plan: Plan,
    pub(super) ledgers: Vec<SharedLedger>,
    /// Whether the flow ends when enough has arrived.
    pub(super) ends_early: bool,
}

/// A response whose records are to travel apart.
pub(super) struct Outgoing {
    /// It goes behind so many bytes of what goes as it is.
    pub(super) at: usize,
    pub(super) head: Vec<u8>,
    pub(super) carrying: Carrying,
}

/// What a connection's thinner has for responses that travel apart.
#[derive(Default)]
pub(super) struct Apart<'s> {
    expected: Option<&'s ExpectedMessages>,
    /// A flow that was taken and is not used.
    spare: Option<OutgoingMessages>,
    pub(super) current: Option<Carrying>,
    pub(super) ready: Vec<Outgoing>,
}

impl<'s> Apart<'s> {
    pub(super) fn new(expected: Option<&'s ExpectedMessages>) -> Self {
        Self { expected, ..Self::default() }
    }

    /// Whether a response of so many bytes travels apart: the door has called for it.
    pub(super) fn begins(&mut self, bytes: usize, path: &Path<'_>) -> bool {
        let Some(expected) = self.expected.filter(|_| bytes >= LEAST_BYTES) else { return false };
        let flow = self.spare.take().or_else(|| expected.take());
        let payload = path.node.message_payload(path.peer, &path.class);
        self.current = flow.zip(payload).map(|(flow, payload)| Carrying {
            flow,
            payload,
            plan: Plan::for_response(bytes),
            ledgers: Vec::new(),
            ends_early: false,
        });
        self.current.is_some()
    }

    /// A response was taken apart.
    pub(super) fn end(&mut self, version: i16, response: Vec<u8>, output: &mut Vec<u8>) -> Result<(), Refusal> {
        let carrying = self.current.take().expect("it has begun");
        if carrying.plan.is_empty() {
            carrying.plan.write_whole(version, response, output)?;
            self.spare = Some(carrying.flow);
            return Ok(());
        }
        let head = carrying.plan.head(carrying.flow.number(), version, &response);
        self.ready.push(Outgoing { at: output.len(), head, carrying });
        Ok(())
    }
}

impl Carrying {
    /// Gives the records to the path.
    pub(super) fn send(&self) -> io::Result<()> {
        let messages = self.plan.messages();
        // To millionths, rounded up: of fewer than a million messages it is still no more than may be missing.
        let rate = (self.plan.may_miss() * MILLION).div_ceil(messages.len()).min(MILLION - 1);
        let max_loss = LossBound::from_millionths(rate as u32).expect("it is below one");
        self.flow.send(messages, SendMessages { max_loss, all: !self.ends_early })
    }

    /// Notes what became of the records, and gives those that have to come after all.
    pub(super) fn settle(&self, report: &Report, exit: &LossyExit) -> Result<Vec<u8>, Refusal> {
        let again = self.plan.again(report)?;
        for ((key, ledger), entry) in self.ledgers.iter().zip(self.plan.settle(report)?) {
            if entry == Entry::default() {
                continue;
            }
            let changing = exit.ledgers.changing();
            lock(ledger).take(&entry);
            exit.note(key, entry);
            drop(changing);
        }
        Ok(again)
    }
}
