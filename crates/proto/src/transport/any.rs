//! Any transport, for drivers that run flows of several kinds at once.
//!
//! It is an enum because with many flows a match costs less than a pointer to another place. It is as large as its
//! largest member, so a member keeps state that few flows need behind a box. A transport of another crate is behind a
//! pointer ([`ForeignTransport`]), which costs the others nothing.

use super::atp::{AtpReceiver, AtpSender};
use super::dccp::{DccpReceiver, DccpSender};
use super::express_pass::{ExpressPassReceiver, ExpressPassSender};
use super::flex_pass::{FlexPassReceiver, FlexPassSender};
use super::homa::{HomaReceiver, HomaSender};
use super::layering::{LayeredReceiver, LayeredSender};
use super::ndp::{NdpReceiver, NdpSender};
use super::near_opt::{NearOptReceiver, NearOptSender, OracleAnswer, OracleRequest};
use super::push::{PushPort, PushRequest, PushSource, ToReceiver, ToSource};
use super::rate_cap::RateCap;
use super::scdp::{ScdpReceiver, ScdpSender};
use super::sender_drop::SenderDrop;
use super::tcp::{CrossQueueSender, DeadlineSender, TcpReceiver, TcpSender};
use super::two_class::{TwoClassReceiver, TwoClassSender};
use super::udp::{UdpReceiver, UdpSender};
use super::{Command, Deadline, Event, Statistics, Transport, WindowState};
use crate::congestion::AnyController;
use crate::contract::policy::Policy;
use crate::host::{HostAnswer, HostRequest};
use crate::packet::{Packet, SackBlocks};
use crate::time::{Instant, Span};
use crate::units::Rate;
use alloc::boxed::Box;
use core::convert::Infallible;

/// Generates an enum of the members' messages. Each member's own type is one of its variants.
macro_rules! any_message {
    ($(#[$enum_doc:meta])* $any:ident { $($(#[$doc:meta])* $name:ident($type:ty)),* $(,)? }) => {
        $(#[$enum_doc])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub enum $any {
            $($(#[$doc])* $name($type),)*
        }

        $(impl From<$type> for $any {
            #[inline]
            fn from(message: $type) -> Self {
                Self::$name(message)
            }
        }

        impl TryFrom<$any> for $type {
            /// A message for another member.
            type Error = $any;

            #[inline]
            fn try_from(message: $any) -> Result<Self, $any> {
                match message {
                    $any::$name(message) => Ok(message),
                    other => Err(other),
                }
            }
        })*

        impl From<Infallible> for $any {
            #[inline]
            fn from(never: Infallible) -> Self {
                match never {}
            }
        }

        impl TryFrom<$any> for Infallible {
            type Error = $any;

            #[inline]
            fn try_from(message: $any) -> Result<Self, $any> {
                Err(message)
            }
        }
    };
}

any_message! {
    /// A request of one of the transports to its driver. A driver serves the requests for which it has a machine.
    AnyRequest {
        /// To the state that flows of a host share (NDP, SCDP, Homa, transports of other crates).
        Host(HostRequest),
        /// To an oracle (Near-Opt).
        Oracle(OracleRequest),
        /// To the controller of an object, or to the holder of its payload (push).
        Push(PushRequest),
    }
}

any_message! {
    /// An answer of the driver to one of the transports.
    AnyAnswer {
        /// From the state that flows of a host share.
        Host(HostAnswer),
        /// From an oracle.
        Oracle(OracleAnswer),
        /// The controller of an object orders one of its sources.
        PushSource(ToSource),
        /// The controller of an object answers its receiver.
        PushReceiver(ToReceiver),
    }
}

/// A transport whose requests a driver of [`AnyTransport`] can serve.
pub trait Member: Transport<Request: Into<AnyRequest>, Answer: TryFrom<AnyAnswer>> {
    /// Takes an answer. An answer for another member changes nothing: the flow that asked is over, and its number was
    /// given to another flow.
    fn handle_answer(&mut self, now: Instant, answer: AnyAnswer) {
        if let Ok(answer) = answer.try_into() {
            self.handle_command(now, Command::Answer(answer));
        }
    }
}

impl<T: Transport<Request: Into<AnyRequest>, Answer: TryFrom<AnyAnswer>> + ?Sized> Member for T {}

/// A transport of another crate: one side of one flow, which may take turns with other flows of its host. Its packets
/// use the bodies that [`Body`](crate::packet::Body) lists.
pub type ForeignTransport = Box<dyn Transport<Request = HostRequest, Answer = HostAnswer> + Send>;

/// Generates an enum of transports that is a transport itself.
macro_rules! any_transport {
    (
        $(#[$enum_doc:meta])* $any:ident<$request:ty, $answer:ty> { $($(#[$doc:meta])* $name:ident($type:ty)),* $(,)? }
    ) => {
        $(#[$enum_doc])*
        pub enum $any {
            $($(#[$doc])* $name($type),)*
        }

        $(impl From<$type> for $any {
            fn from(transport: $type) -> Self {
                Self::$name(transport)
            }
        })*

        impl Transport for $any {
            type Request = $request;
            type Answer = $answer;

            #[inline]
            fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
                match self { $(Self::$name(transport) => transport.handle_packet(now, packet, sack),)* }
            }

            fn handle_command(&mut self, now: Instant, command: Command<$answer>) {
                match self {
                    $(Self::$name(transport) => {
                        // An answer to a flow that is over, whose number is another's now, is nobody's.
                        let own = command.filter_map_answer(|answer| answer.try_into().ok());
                        if let Some(command) = own {
                            transport.handle_command(now, command);
                        }
                    })*
                }
            }

            fn handle_timeout(&mut self, now: Instant) {
                match self { $(Self::$name(transport) => transport.handle_timeout(now),)* }
            }

            fn handle_new_path(&mut self, now: Instant) {
                match self { $(Self::$name(transport) => transport.handle_new_path(now),)* }
            }

            #[inline]
            fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
                match self { $(Self::$name(transport) => transport.poll_transmit(now),)* }
            }

            fn sack_blocks(&self) -> &SackBlocks {
                match self { $(Self::$name(transport) => transport.sack_blocks(),)* }
            }

            #[inline]
            fn poll_event(&mut self) -> Option<Event<$request>> {
                match self {
                    $(Self::$name(transport) => {
                        transport.poll_event().map(|event| event.map_request(<$request>::from))
                    })*
                }
            }

            #[inline]
            fn poll_timeout(&self) -> Option<Deadline> {
                match self { $(Self::$name(transport) => transport.poll_timeout(),)* }
            }

            fn send_space(&self) -> u64 {
                match self { $(Self::$name(transport) => transport.send_space(),)* }
            }

            fn unsent(&self) -> u64 {
                match self { $(Self::$name(transport) => transport.unsent(),)* }
            }

            fn statistics(&self) -> Statistics {
                match self { $(Self::$name(transport) => transport.statistics(),)* }
            }

            fn policy(&self) -> Option<&Policy> {
                match self { $(Self::$name(transport) => transport.policy(),)* }
            }

            fn window_state(&self) -> Option<WindowState> {
                match self { $(Self::$name(transport) => transport.window_state(),)* }
            }

            fn measures_gaps(&self) -> bool {
                match self { $(Self::$name(transport) => transport.measures_gaps(),)* }
            }

            fn normal_rate(&self) -> Option<Rate> {
                match self { $(Self::$name(transport) => transport.normal_rate(),)* }
            }
        }
    };
}

any_transport! {
    /// One of the transports.
    AnyTransport<AnyRequest, AnyAnswer> {
        /// Sends by TCP.
        TcpSender(TcpSender<AnyController>),
        /// Sends by TCP and pauses while a queue above is congested.
        CrossQueueSender(CrossQueueSender<AnyController>),
        /// Sends by TCP, with a deadline.
        DeadlineSender(DeadlineSender<AnyController>),
        /// Receives by TCP.
        TcpReceiver(TcpReceiver),
        /// Sends datagrams at a constant rate.
        UdpSender(UdpSender),
        /// Receives datagrams.
        UdpReceiver(UdpReceiver),
        /// Sends by DCCP.
        DccpSender(DccpSender),
        /// Receives by DCCP.
        DccpReceiver(DccpReceiver),
        /// Sends on credits.
        ExpressPassSender(ExpressPassSender),
        /// Sends credits and receives the data sent on them.
        ExpressPassReceiver(ExpressPassReceiver),
        /// Sends on credits and by a window.
        FlexPassSender(FlexPassSender<AnyController>),
        /// Receives data sent on credits and by a window.
        FlexPassReceiver(FlexPassReceiver),
        /// Sends in two classes.
        TwoClassSender(Box<TwoClassSender<AnyController>>),
        /// Receives data sent in two classes.
        TwoClassReceiver(TwoClassReceiver),
        /// Sends by TCP on credits.
        LayeredSender(LayeredSender<AnyController>),
        /// Sends credits and receives by TCP.
        LayeredReceiver(LayeredReceiver),
        /// Sends by NDP.
        NdpSender(NdpSender),
        /// Receives by NDP.
        NdpReceiver(NdpReceiver),
        /// Sends the symbols of an object by SCDP.
        ScdpSender(ScdpSender),
        /// Receives them.
        ScdpReceiver(ScdpReceiver),
        /// Sends a message by Homa.
        HomaSender(HomaSender),
        /// Receives it.
        HomaReceiver(HomaReceiver),
        /// Sends at the rate that an oracle gives.
        NearOptSender(NearOptSender),
        /// Acknowledges every packet of such a sender.
        NearOptReceiver(NearOptReceiver),
        /// Sends messages of which some may be missing.
        AtpSender(AtpSender),
        /// Receives them.
        AtpReceiver(AtpReceiver),
        /// Leaves messages out and sends the others by TCP.
        SenderDrop(Box<SenderDrop<AnyController>>),
        /// Pushes symbols of an object.
        PushSource(PushSource),
        /// The receiver's end for one source of an object.
        PushPort(PushPort),
        /// Sends no faster than a given rate.
        Capped(Box<RateCap<AnyTransport>>),
        /// One side of a flow of another crate's transport.
        Foreign(ForeignTransport),
    }
}

any_transport! {
    /// One side of a plain TCP flow. A run with no other flows is faster without a choice among all transports.
    PlainTcp<Infallible, Infallible> {
        /// Sends.
        Sender(TcpSender<AnyController>),
        /// Receives.
        Receiver(TcpReceiver),
    }
}

impl AnyTransport {
    /// The same for a flow of `bytes` with bounds of a contract that suit every controller: done `span` after its first
    /// byte is given, and no faster than `max_rate`. Only senders of TCP's family take a span.
    pub fn bounded_by(self, bytes: u64, span: Option<Span>, max_rate: Option<Rate>) -> Self {
        match self {
            Self::TcpSender(sender) if span.is_some() => {
                Self::from(DeadlineSender::new(sender, bytes, span, max_rate)).capped(max_rate)
            }
            other => other.capped(max_rate),
        }
    }

    /// The same with at most `rate` on the wire, which must be above zero. Without a rate it is unchanged.
    fn capped(self, rate: Option<Rate>) -> Self {
        if rate.is_none() { self } else { Box::new(RateCap::new(self, rate)).into() }
    }
}

impl TryFrom<AnyTransport> for PlainTcp {
    type Error = AnyTransport;

    fn try_from(transport: AnyTransport) -> Result<Self, AnyTransport> {
        match transport {
            AnyTransport::TcpSender(sender) => Ok(Self::Sender(sender)),
            AnyTransport::TcpReceiver(receiver) => Ok(Self::Receiver(receiver)),
            other => Err(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Body;
    use crate::transport::ndp::NdpConfig;
    use crate::transport::near_opt::NearOptConfig;
    use crate::transport::pair::{End, Input, Pair, Path};
    use crate::transport::udp::UdpConfig;
    use alloc::sync::Arc;

    /// A simulation of many flows walks through their memory: six cache lines per side are the budget. What members say
    /// and are told fits half a line, whoever says it.
    #[test]
    fn transports_and_their_messages_stay_small() {
        assert!(size_of::<AnyTransport>() <= 368, "{} bytes", size_of::<AnyTransport>());
        assert!(size_of::<PlainTcp>() <= 304, "{} bytes", size_of::<PlainTcp>());
        assert_eq!(size_of::<Option<Event<AnyRequest>>>(), 32);
        assert!(size_of::<Command<AnyAnswer>>() <= 32);
        assert!(size_of::<Option<Event>>() <= 24 && size_of::<Command>() <= 16, "who asks nothing says less");
    }

    /// A member's request comes out as one of all members', and of the answers it hears its own alone: the flow that asked
    /// for another may be over, and its number this flow's.
    #[test]
    fn members_hear_their_own_answers() {
        let config = Arc::new(NearOptConfig::default());
        let class = config.data_class;
        let mut end = End::new(AnyTransport::from(NearOptSender::new(config)));
        assert!(end.feed(Input::Command(Instant::ZERO, Command::Send { bytes: 1 << 20 })).is_empty());
        let follow = AnyRequest::Oracle(OracleRequest::FollowRate { class });
        assert_eq!(end.events, [(Instant::ZERO, Event::Ask(follow))]);
        end.transport.handle_answer(Instant::ZERO, HostAnswer::Turn.into());
        end.transport.handle_answer(Instant::ZERO, ToReceiver::FinAck.into());
        end.drain(Instant::ZERO);
        assert!(end.sent.is_empty(), "a turn is no rate");
        end.transport.handle_answer(Instant::ZERO, OracleAnswer::Rate(Rate::from_gbit_per_sec(10)).into());
        end.drain(Instant::ZERO);
        assert_eq!(end.sent.len(), 1);
    }

    /// A transport that asks nothing has no value for a request or an answer, and every answer is another's.
    #[test]
    fn who_asks_nothing_hears_nothing() {
        assert_eq!(size_of::<<PlainTcp as Transport>::Request>(), 0);
        assert_eq!(Infallible::try_from(AnyAnswer::Host(HostAnswer::Turn)), Err(AnyAnswer::Host(HostAnswer::Turn)));
    }

    /// Any transport, as one of another crate.
    struct Foreign<T>(T);

    impl<T: Transport<Request: Into<Infallible>>> Transport for Foreign<T> {
        type Request = HostRequest;
        type Answer = HostAnswer;

        fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
            self.0.handle_packet(now, packet, sack);
        }
        fn handle_command(&mut self, now: Instant, command: Command<HostAnswer>) {
            if let Some(command) = command.filter_map_answer(|_| None) {
                self.0.handle_command(now, command);
            }
        }
        fn handle_timeout(&mut self, now: Instant) {
            self.0.handle_timeout(now);
        }
        fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
            self.0.poll_transmit(now)
        }
        fn poll_event(&mut self) -> Option<Event<HostRequest>> {
            self.0.poll_event().map(|event| event.map_request(|never| match never.into() {}))
        }
        fn poll_timeout(&self) -> Option<Deadline> {
            self.0.poll_timeout()
        }
        fn statistics(&self) -> Statistics {
            self.0.statistics()
        }
    }

    /// Behind a pointer a transport does what it does as a member: the same packets at the same times.
    #[test]
    fn a_transport_of_another_crate_is_one_of_any() {
        let config = UdpConfig {
            rate: Rate::from_gbit_per_sec(1),
            payload: 1460,
            wire: crate::packet::WireFormat::ETHERNET,
            class: crate::packet::TrafficClass::default(),
        };
        let path = || Path::new(Span::from_us(10));
        let run = |sender: AnyTransport, receiver: AnyTransport| {
            let mut pair = Pair::new(sender, receiver, path(), path());
            pair.transfer(100_000);
            assert!(pair.run_until(Instant::MAX));
            assert_eq!(pair.receiver.delivered(), 100_000);
            (pair.sender.sent, pair.receiver.events)
        };
        let foreign: [ForeignTransport; 2] =
            [Box::new(Foreign(UdpSender::new(config))), Box::new(Foreign(UdpReceiver::new()))];
        let [sender, receiver] = foreign.map(AnyTransport::from);
        assert_eq!(run(sender, receiver), run(UdpSender::new(config).into(), UdpReceiver::new().into()));
    }

    /// Pulls in turn: each packet that arrives is worth one turn of its host.
    struct Pulling {
        asks: bool,
        turn: bool,
    }

    impl Transport for Pulling {
        type Request = HostRequest;
        type Answer = HostAnswer;

        fn handle_packet(&mut self, _now: Instant, _packet: &Packet, _sack: &SackBlocks) {
            self.asks = true;
        }
        fn handle_command(&mut self, _now: Instant, command: Command<HostAnswer>) {
            self.turn |= command == Command::Answer(HostAnswer::Turn);
        }
        fn handle_timeout(&mut self, _now: Instant) {}
        fn poll_transmit(&mut self, _now: Instant) -> Option<Packet> {
            let class = NdpConfig::default().control_class;
            core::mem::take(&mut self.turn).then(|| Packet::new(class, 84, Body::Pull { count: 1 }))
        }
        fn poll_event(&mut self) -> Option<Event<HostRequest>> {
            core::mem::take(&mut self.asks).then_some(Event::Ask(HostRequest::PullTurn { bytes: 1538 }))
        }
        fn poll_timeout(&self) -> Option<Deadline> {
            None
        }
        fn statistics(&self) -> Statistics {
            Statistics::default()
        }
    }

    /// A transport of another crate takes turns with the flows of its host.
    #[test]
    fn a_transport_of_another_crate_asks_its_host() {
        let pulling: ForeignTransport = Box::new(Pulling { asks: true, turn: false });
        let mut end = End::new(AnyTransport::from(pulling));
        end.drain(Instant::ZERO);
        let asked = AnyRequest::Host(HostRequest::PullTurn { bytes: 1538 });
        assert_eq!(end.events, [(Instant::ZERO, Event::Ask(asked))]);
        end.transport.handle_answer(Instant::ZERO, HostAnswer::Turn.into());
        end.drain(Instant::ZERO);
        assert_eq!(end.sent.len(), 1);
    }
}
