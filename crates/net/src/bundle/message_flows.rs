//! Flows of messages, as applications' tasks and the node's thread share them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use pliant_proto::transport::atp::LossBound;

use crate::api::buffers::{SharedConnection, Status};
use crate::connection::Closed;

/// Who may call for messages knows it.
pub type MessageToken = [u8; 16];

/// Most flows of a token that wait to be used.
const MAX_WAITING: usize = 8;
/// Bytes of messages of a flow.
pub(super) const MAX_BYTES: u64 = 1 << 28;
/// How the content of an opening begins; the token, the flow's number and the name of a class follow.
const MESSAGES: &[u8] = b"messages ";

/// What a caller that wants messages says.
pub(super) struct MessageCall {
    pub(super) token: MessageToken,
    pub(super) number: u32,
    pub(super) class: String,
}

impl MessageCall {
    pub(super) fn content(&self) -> Vec<u8> {
        [MESSAGES, &self.token, &self.number.to_be_bytes(), self.class.as_bytes()].concat()
    }

    /// From the content of an opening.
    pub(super) fn read(content: &[u8]) -> Option<Self> {
        let (token, rest) = content.strip_prefix(MESSAGES)?.split_first_chunk()?;
        let (number, class) = rest.split_first_chunk()?;
        let class = str::from_utf8(class).ok()?.to_owned();
        Some(Self { token: *token, number: u32::from_be_bytes(*number), class })
    }
}

/// How messages are to be sent.
#[derive(Clone, Copy, Debug)]
pub struct SendMessages {
    /// How many may be missing.
    pub max_loss: LossBound,
    /// Each is sent once, however many have arrived: what is missing the network has lost. Else the flow ends when enough
    /// has arrived, and those that were handed over last are missing first.
    pub all: bool,
}

/// A flow of messages.
pub(super) struct MessageFlow {
    pub(super) call: MessageCall,
    pub(super) connection: Arc<SharedConnection>,
    /// What the node's thread is to begin.
    pub(super) begin: Mutex<Option<SendMessages>>,
}

impl MessageFlow {
    pub(super) fn new(call: MessageCall, peer: SocketAddr, receive_buffer: u64) -> Arc<Self> {
        let connection = Arc::new(SharedConnection::new(peer, receive_buffer, receive_buffer, true));
        Arc::new(Self { call, connection, begin: Mutex::default() })
    }
}

/// A node's flows of messages.
#[derive(Default)]
pub(super) struct MessageFlows {
    /// By token: the class, and the flows that wait, by number.
    expected: HashMap<MessageToken, (String, BTreeMap<u32, Arc<MessageFlow>>)>,
    /// Those that the node's thread has to look at.
    queue: Vec<Arc<MessageFlow>>,
    /// Why that thread looks at none any more.
    ended: Option<Closed>,
}

impl MessageFlows {
    /// Expects callers with a token, for a class.
    pub(super) fn expect(&mut self, token: MessageToken, class: String) {
        self.expected.insert(token, (class, BTreeMap::new()));
    }

    /// Expects none with it any more; gives the flows that wait.
    pub(super) fn forget(&mut self, token: &MessageToken) -> Vec<Arc<MessageFlow>> {
        self.expected.remove(token).into_iter().flat_map(|(_, flows)| flows.into_values()).collect()
    }

    /// The flow of a token that has waited longest and still stands.
    pub(super) fn take(&mut self, token: &MessageToken) -> Option<Arc<MessageFlow>> {
        let (_, waiting) = self.expected.get_mut(token)?;
        loop {
            let (_, flow) = waiting.pop_first()?;
            if flow.connection.lock().status == Status::Open {
                return Some(flow);
            }
        }
    }

    /// Has the node's thread look at a flow; false if it looks at none any more, which the flow hears.
    pub(super) fn queue(&mut self, flow: &Arc<MessageFlow>) -> bool {
        if let Some(why) = &self.ended {
            flow.connection.lock().close(why.clone());
            return false;
        }
        self.queue.push(flow.clone());
        true
    }

    /// Whether a caller is expected, and there is room for it.
    pub(super) fn expects(&self, call: &MessageCall) -> bool {
        let room = |flows: &BTreeMap<u32, _>| flows.len() < MAX_WAITING && !flows.contains_key(&call.number);
        self.expected.get(&call.token).is_some_and(|(class, flows)| *class == call.class && room(flows))
    }

    /// Lets a caller's flow wait; `None` if it is not expected.
    pub(super) fn accept(
        &mut self,
        call: MessageCall,
        peer: SocketAddr,
        receive_buffer: u64,
    ) -> Option<Arc<MessageFlow>> {
        self.expects(&call).then_some(())?;
        let (_, flows) = self.expected.get_mut(&call.token)?;
        let number = call.number;
        Some(flows.entry(number).or_insert(MessageFlow::new(call, peer, receive_buffer)).clone())
    }

    /// The node's thread looks at no flow any more: those that wait for it hear why.
    pub(super) fn end(&mut self, why: &Closed) {
        for flow in self.take_queued() {
            flow.connection.lock().close(why.clone());
        }
        self.ended = Some(why.clone());
    }

    pub(super) fn take_queued(&mut self) -> Vec<Arc<MessageFlow>> {
        std::mem::take(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_for_messages_round_trip() {
        let call = MessageCall { token: [7; 16], number: 258, class: "bulk".into() };
        let content = call.content();
        let read = MessageCall::read(&content).unwrap();
        assert_eq!((read.token, read.number, read.class.as_str()), ([7; 16], 258, "bulk"));
        let head = MESSAGES.len() + 16 + 4;
        for shorter in 0..head {
            assert!(MessageCall::read(&content[..shorter]).is_none(), "{shorter}");
        }
        assert!(MessageCall::read(b"bundle bulk").is_none());
        assert!(MessageCall::read(&[&content[..head], &[0xff][..]].concat()).is_none(), "no text");
    }
}
