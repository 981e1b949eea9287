//! Either driver of a switch.

use std::io;
use std::time::Duration;

use super::ethernet::EthernetSwitch;
use super::forwarder::Switch;
use super::relay::Relay;
use crate::clock::SharedClock;

/// A running switch, whatever carries its frames.
pub enum SwitchDriver {
    /// Interfaces.
    Ethernet(Box<EthernetSwitch>),
    /// Datagrams on loopback.
    Relay(Box<Relay>),
}

impl From<EthernetSwitch> for SwitchDriver {
    fn from(switch: EthernetSwitch) -> Self {
        Self::Ethernet(Box::new(switch))
    }
}

impl From<Relay> for SwitchDriver {
    fn from(relay: Relay) -> Self {
        Self::Relay(Box::new(relay))
    }
}

impl SwitchDriver {
    /// Time counts from another epoch now. Nothing may have arrived before.
    pub fn set_clock(&mut self, clock: SharedClock) {
        match self {
            Self::Ethernet(switch) => switch.set_clock(clock),
            Self::Relay(relay) => relay.set_clock(clock),
        }
    }

    /// Takes what has arrived, sends what is due, and sleeps until there is more, for `at_most` at the longest.
    pub fn run_once(&mut self, at_most: Duration) -> io::Result<()> {
        match self {
            Self::Ethernet(switch) => switch.run_once(at_most),
            Self::Relay(relay) => relay.run_once(at_most),
        }
    }

    /// The switch without its sockets.
    pub fn switch(&self) -> &Switch {
        match self {
            Self::Ethernet(switch) => switch.switch(),
            Self::Relay(relay) => relay.switch(),
        }
    }

    /// The switch without its sockets.
    pub fn switch_mut(&mut self) -> &mut Switch {
        match self {
            Self::Ethernet(switch) => switch.switch_mut(),
            Self::Relay(relay) => relay.switch_mut(),
        }
    }
}
