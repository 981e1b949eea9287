//! Any transport: what a driver holds that runs flows of several kinds at once.
//!
//! An enum, because at many flows a match costs less than a pointer to somewhere else. It is as large as its largest
//! member, so a member keeps what few flows need behind a box.

use super::atp::{AtpReceiver, AtpSender};
use super::dccp::{DccpReceiver, DccpSender};
use super::express_pass::{ExpressPassReceiver, ExpressPassSender};
use super::flex_pass::{FlexPassReceiver, FlexPassSender};
use super::homa::{HomaReceiver, HomaSender};
use super::layering::{LayeredReceiver, LayeredSender};
use super::ndp::{NdpReceiver, NdpSender};
use super::near_opt::{NearOptReceiver, NearOptSender};
use super::push::{PushPort, PushSource};
use super::scdp::{ScdpReceiver, ScdpSender};
use super::sender_drop::SenderDrop;
use super::tcp::{CrossQueueSender, TcpReceiver, TcpSender};
use super::udp::{UdpReceiver, UdpSender};
use super::{Command, Deadline, Event, Statistics, Transport, WindowState};
use crate::congestion::AnyController;
use crate::contract::policy::Policy;
use crate::packet::{Packet, SackBlocks};
use crate::time::Instant;
use alloc::boxed::Box;

/// Makes an enum of transports that is one itself.
macro_rules! any_transport {
    ($(#[$enum_doc:meta])* $any:ident { $($(#[$doc:meta])* $name:ident($type:ty)),* $(,)? }) => {
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
            #[inline]
            fn handle_packet(&mut self, now: Instant, packet: &Packet, sack: &SackBlocks) {
                match self { $(Self::$name(transport) => transport.handle_packet(now, packet, sack),)* }
            }

            fn handle_command(&mut self, now: Instant, command: Command) {
                match self { $(Self::$name(transport) => transport.handle_command(now, command),)* }
            }

            fn handle_timeout(&mut self, now: Instant) {
                match self { $(Self::$name(transport) => transport.handle_timeout(now),)* }
            }

            #[inline]
            fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
                match self { $(Self::$name(transport) => transport.poll_transmit(now),)* }
            }

            fn sack_blocks(&self) -> &SackBlocks {
                match self { $(Self::$name(transport) => transport.sack_blocks(),)* }
            }

            #[inline]
            fn poll_event(&mut self) -> Option<Event> {
                match self { $(Self::$name(transport) => transport.poll_event(),)* }
            }

            #[inline]
            fn poll_timeout(&self) -> Option<Deadline> {
                match self { $(Self::$name(transport) => transport.poll_timeout(),)* }
            }

            fn send_space(&self) -> u64 {
                match self { $(Self::$name(transport) => transport.send_space(),)* }
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
        }
    };
}

any_transport! {
    /// One of the transports.
    AnyTransport {
        /// Sends by TCP.
        TcpSender(TcpSender<AnyController>),
        /// Sends by TCP that pauses while a queue above is congested.
        CrossQueueSender(CrossQueueSender<AnyController>),
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
        /// Sends credits and receives data on them.
        ExpressPassReceiver(ExpressPassReceiver),
        /// Sends on credits and by a window.
        FlexPassSender(FlexPassSender<AnyController>),
        /// Receives what was sent on credits and by a window.
        FlexPassReceiver(FlexPassReceiver),
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
        /// Sends at the rate that an oracle tells.
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
        /// A receiver's end towards one source of an object.
        PushPort(PushPort),
    }
}

any_transport! {
    /// One side of a plain flow of TCP. A run with no other flows is faster without a choice among all transports.
    PlainTcp {
        /// Sends.
        Sender(TcpSender<AnyController>),
        /// Receives.
        Receiver(TcpReceiver),
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

    /// A simulation of many flows walks through their memory: six cache lines per side are the budget.
    #[test]
    fn transports_stay_small() {
        assert!(size_of::<AnyTransport>() <= 384, "{} bytes", size_of::<AnyTransport>());
    }
}
