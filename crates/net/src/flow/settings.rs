//! Settings of a flow, and the machines that follow from them.

use std::sync::Arc;

use pliant_proto::congestion::cubic::HyStartKind;
use pliant_proto::congestion::{Algorithm, AnyController, CongestionControl, ControllerSettings, EcnMode};
use pliant_proto::contract::policy::Policy;
use pliant_proto::contract::reflex::{GiveWay, Reflex, ReflexConfig, ReflexError};
use pliant_proto::contract::schedule::DaySchedule;
use pliant_proto::contract::{Contract, ContractError, Field};
use pliant_proto::host::fair_rates::LONGEST_INTERVAL;
use pliant_proto::packet::{CLASSES, Ecn, TrafficClass};
use pliant_proto::recovery::rtt::RtoBounds;
use pliant_proto::rng::Stream;
use pliant_proto::settings::{OutOfRange, SettingValue, Value};
use pliant_proto::time::Span;
use pliant_proto::transport::any::AnyTransport;
use pliant_proto::transport::atp::{AtpConfig, AtpReceiver, AtpSender, LossBound, Order, RateControlConfig, WAN_TIMER};
use pliant_proto::transport::express_pass::{CreditConfig, ExpressPassReceiver, ExpressPassSender, credit_share};
use pliant_proto::transport::flex_pass::{FlexPassConfig, FlexPassReceiver, FlexPassSender, Reactive, Window};
use pliant_proto::transport::push::PushConfigError;
use pliant_proto::transport::tcp::{DeadlineSender, TcpConfig, TcpReceiver, TcpSender};
use pliant_proto::transport::two_class::{Bounds, TwoClassConfig, TwoClassReceiver, TwoClassSender};
use pliant_proto::units::Rate;
use thiserror::Error;

use super::path::{ETHERNET_MINIMUM_BYTES, MIN_MTU, Path, full_bytes};
use super::transport::{Protocol, SocketTransport};

/// R_max of a sender that was told no line rate.
const DEFAULT_LINE_RATE: Rate = Rate::from_gbit_per_sec(10);
/// Whole messages that wait for the application, in receive buffers.
pub(crate) const WAITING_BUFFERS: u64 = 64;
/// How far weighted-fair flows under REFLEX give way.
const LOW_WEIGHT: f64 = 0.1;

/// Traffic classes of a flow's packets, as numbers that a queue plan knows; on the wire twice the number is the DSCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Classes {
    /// Of data. Default 0.
    pub data: u8,
    /// Of data while the flow gives way (REFLEX without a weight), and of what gives way (two classes). Default 1.
    pub low: u8,
    /// Of acknowledgements and control. Default 0.
    pub control: u8,
    /// Of credits. Default 31.
    pub credit: u8,
}

impl Default for Classes {
    fn default() -> Self {
        Self { data: 0, low: 1, control: 0, credit: 31 }
    }
}

/// Receive buffer with which a stream begins, at most.
const FIRST_RECEIVE_BUFFER: u64 = 1 << 20;

/// Settings of a flow's sides. Each has its own; what the other must know is said in the handshake.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowSettings {
    /// How a sender sends. Default DCTCP.
    pub transport: SocketTransport,
    /// How far a sender may bend. Default: not at all.
    pub contract: Contract,
    /// Largest IP packet that a sender sends, 576 to 65535 bytes. Default 1200.
    pub mtu: u16,
    /// Rate of this side's link: what credits fill (a receiver without it has none to give), and ATP's greatest rate.
    pub line_rate: Option<Rate>,
    /// How often this host and its peers tell each other which rate is fair on their links, above zero and at most 50 ms. It needs
    /// `line_rate`. Default: they tell nothing.
    pub host_reports: Option<Span>,
    /// Whether the queues of its class and of the six above it are its own and drop early, as ATP's switch has them. ATP then
    /// sends as in its paper: from `line_rate` on, slowed by losses alone, with priorities and a backup sub-flow. Default false.
    pub drops_early: bool,
    /// Traffic classes.
    pub classes: Classes,
    /// Most bytes that a receiver holds out of order or unread, at least 64 kB. Default 1 MiB.
    pub receive_buffer: u64,
    /// What a stream's receive buffer grows to where the path is long, or has a long queue: a window limits a flow to its bytes
    /// in a round trip. Default 8 MiB.
    pub largest_receive_buffer: u64,
    /// Least retransmission timeout. Default 50 ms: a busy host may not run a process for some ten milliseconds, and that
    /// silence is no loss.
    pub min_rto: Span,
    /// REFLEX's interval (T_int). Default 5 ms.
    pub reflex_interval: Span,
    /// Whether a receiving application takes what is delivered at once; otherwise it tells by `Command::Consume`. Default
    /// true.
    pub auto_consume: bool,
    /// Bytes of a message (ATP), above 0. Default: what a packet holds.
    pub message_bytes: Option<u32>,
    /// How slow start ends before packets are lost (CUBIC only). Default: as in Linux.
    pub hystart: Option<HyStartKind>,
    /// Queueing delay that is aimed at (LEDBAT and LEDBAT++ only), up to 1 s. Default: 100 ms, and 60 ms for LEDBAT++.
    pub target: Option<Span>,
}

impl Default for FlowSettings {
    fn default() -> Self {
        Self {
            transport: SocketTransport::Tcp(Algorithm::Dctcp),
            contract: Contract::default(),
            mtu: 1200,
            line_rate: None,
            host_reports: None,
            drops_early: false,
            classes: Classes::default(),
            receive_buffer: FIRST_RECEIVE_BUFFER,
            largest_receive_buffer: 8 << 20,
            min_rto: Span::from_ms(50),
            reflex_interval: Span::from_ms(5),
            auto_consume: true,
            message_bytes: None,
            hystart: None,
            target: None,
        }
    }
}

/// Why no machine was made.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum FlowError {
    /// The contract cannot be kept.
    #[error("{transport}: {error}")]
    Contract {
        /// By which transport.
        transport: SocketTransport,
        /// Why.
        error: ContractError,
    },
    /// REFLEX refuses.
    #[error("{0}")]
    Reflex(ReflexError),
    /// Packets so small are not worth their headers.
    #[error("an mtu of {0} bytes is too small: it must be {MIN_MTU} to 65535")]
    Mtu(u16),
    /// A push flow that cannot be.
    #[error("{0}")]
    Push(PushConfigError),
    /// The transport's controller has no such setting, or not with that value.
    #[error("{setting}: {why}")]
    Setting {
        /// Which setting.
        setting: &'static str,
        /// What is wrong.
        why: String,
    },
    /// Hosts report too seldom, or without an end, or this one does not know its link's rate.
    #[error("host_reports must be above 0s and at most {LONGEST_INTERVAL}, and needs line_rate")]
    HostReports,
    /// The link is slower than what it must carry.
    #[error("min_rate is {min_rate}, above line_rate, {line_rate}")]
    AboveLine {
        /// The contract's.
        min_rate: Rate,
        /// This host's.
        line_rate: Rate,
    },
    /// A bound that holds as long as the flow.
    #[error("{transport}: {field} cannot change while a flow runs")]
    Fixed {
        /// By which transport.
        transport: SocketTransport,
        /// Which bound.
        field: Field,
    },
    /// Nobody knows what is left of a flow of unknown size.
    #[error("done_by needs a flow of known size")]
    UnknownSize,
    /// A traffic class that does not exist.
    #[error("{setting} is {class}: classes are 0 to {}", CLASSES - 1)]
    NoClass {
        /// Which one.
        setting: &'static str,
        /// Its number.
        class: u8,
    },
    /// What gives way would be in the way.
    #[error("class and low_class are both {0}: bounded-two-class needs two")]
    OneClass(u8),
    /// A bound that ATP cannot keep.
    #[error("atp needs a min_delivery above 0")]
    NothingNeeded,
}

/// Refuses a traffic class that does not exist.
pub(crate) fn check_class(setting: &'static str, class: u8) -> Result<(), FlowError> {
    if usize::from(class) < CLASSES { Ok(()) } else { Err(FlowError::NoClass { setting, class }) }
}

impl FlowSettings {
    /// With a receive buffer of at most so many bytes, at first 1 MiB.
    #[must_use]
    pub fn with_receive_buffer(self, most: u64) -> Self {
        Self { receive_buffer: most.min(FIRST_RECEIVE_BUFFER), largest_receive_buffer: most, ..self }
    }

    /// Refuses what cannot work.
    pub fn check(&self) -> Result<(), FlowError> {
        if self.mtu < MIN_MTU {
            return Err(FlowError::Mtu(self.mtu));
        }
        let Classes { data, low, control, credit } = self.classes;
        check_class("class", data)?;
        check_class("low_class", low)?;
        check_class("control_class", control)?;
        check_class("credit_class", credit)?;
        let transport = self.transport;
        let refused = |error| FlowError::Contract { transport, error };
        self.contract.check(&transport.honours()).map_err(refused)?;
        if transport == SocketTransport::Atp && self.loss_bound().is_none() {
            return Err(FlowError::NothingNeeded);
        }
        if transport == SocketTransport::TwoClass && self.classes.data == self.classes.low {
            return Err(FlowError::OneClass(self.classes.low));
        }
        let min_rate = self.contract.min_rate;
        if let Some(line_rate) = self.line_rate.filter(|line_rate| min_rate > *line_rate) {
            return Err(FlowError::AboveLine { min_rate, line_rate });
        }
        let reports = |interval| (Span::from_ns(1)..=LONGEST_INTERVAL).contains(&interval) && self.line_rate.is_some();
        if !self.host_reports.is_none_or(reports) {
            return Err(FlowError::HostReports);
        }
        self.check_controller()?;
        if self.bends() { self.reflex().check().map_err(FlowError::Reflex) } else { Ok(()) }
    }

    /// The same under another contract, if its flows can change to it while they run.
    pub fn changed_to(&self, contract: Contract) -> Result<Self, FlowError> {
        let changed = Self { contract, ..self.clone() };
        changed.check()?;
        let before = &self.contract;
        let keeps_share = self.keeps_share();
        let fixed = [
            (Field::MinDelivery, contract.min_delivery != before.min_delivery),
            // REFLEX's phases are of one bound.
            (Field::MinShare, contract.min_share != before.min_share && !keeps_share),
            (Field::Priority, contract.priority != before.priority),
        ];
        match fixed.into_iter().find(|(_, changes)| *changes) {
            Some((field, _)) => Err(FlowError::Fixed { transport: self.transport, field }),
            None => Ok(changed),
        }
    }

    /// Refuses a schedule of which a part contradicts the contract.
    pub fn check_schedule(&self, schedule: &DaySchedule) -> Result<(), FlowError> {
        schedule.parts().iter().try_for_each(|part| {
            let contract = self.contract.within(part);
            Self { contract, ..self.clone() }.check()
        })
    }

    /// The same for flows that go on from one part to the next.
    pub fn check_live_schedule(&self, schedule: &DaySchedule) -> Result<(), FlowError> {
        schedule.parts().iter().try_for_each(|part| self.changed_to(self.contract.within(part)).map(drop))
    }

    /// Refuses a flow of `bytes` that cannot be done in time.
    pub fn check_size(&self, bytes: u64) -> Result<(), FlowError> {
        let transport = self.transport;
        self.contract.check_size(bytes).map_err(|error| FlowError::Contract { transport, error })
    }

    /// Refuses that a stream has `bytes` across after `span`, where that cannot be or promises nothing.
    pub(crate) fn check_done_by(&self, bytes: u64, span: Span) -> Result<(), FlowError> {
        let contract = Contract { done_by: Some(span), ..self.contract };
        let flow = Self { contract, ..self.clone() };
        flow.check().and_then(|()| flow.check_size(bytes))
    }

    /// Refuses a contract that streams, whose size nobody knows, cannot have.
    pub(crate) fn check_stream(&self) -> Result<(), FlowError> {
        self.check()?;
        if self.contract.done_by.is_some() { Err(FlowError::UnknownSize) } else { Ok(()) }
    }

    /// Whether the transport keeps a share by itself.
    fn keeps_share(&self) -> bool {
        match self.transport {
            SocketTransport::Tcp(algorithm) => algorithm.keeps_min_share(),
            transport => transport == SocketTransport::TwoClass,
        }
    }

    /// Whether the flow is REFLEX's.
    fn bends(&self) -> bool {
        let alone = self.keeps_share() || self.transport == SocketTransport::Atp;
        !alone && (self.contract.min_delivery < 1.0 || self.contract.min_share < 1.0)
    }

    /// Whether a sender decides by when it sees what arrives, credits included.
    pub(crate) fn reads_delays(&self) -> bool {
        match self.transport {
            SocketTransport::Tcp(algorithm) => {
                algorithm.is_less_than_best_effort() || algorithm.keeps_min_share() || self.bends()
            }
            SocketTransport::ExpressPass
            | SocketTransport::FlexPass
            | SocketTransport::TwoClass
            | SocketTransport::Atp => true,
        }
    }

    fn loss_bound(&self) -> Option<LossBound> {
        LossBound::from_min_delivery(self.contract.min_delivery)
    }

    /// Protocols in the order in which a sender would have them.
    pub fn offers(&self) -> Vec<Protocol> {
        match self.transport.protocol() {
            // Without credits the window does alone.
            credits @ (Protocol::ExpressPass | Protocol::FlexPass) => vec![credits, Protocol::Tcp],
            // To a peer that knows one class `bounded` keeps the share.
            Protocol::TwoClass => vec![Protocol::TwoClass, Protocol::Tcp],
            protocol => vec![protocol],
        }
    }

    /// Which of the offered protocols this side, as a receiver, takes.
    pub fn choose(&self, offers: &[Protocol]) -> Option<Protocol> {
        let has_credits = self.line_rate.is_some();
        let usable =
            |protocol: &Protocol| has_credits || !matches!(protocol, Protocol::ExpressPass | Protocol::FlexPass);
        offers.iter().copied().find(usable)
    }

    pub(crate) fn class(number: u8) -> TrafficClass {
        TrafficClass::new(number)
    }

    fn algorithm(&self) -> Algorithm {
        match self.transport {
            SocketTransport::Tcp(algorithm) => algorithm,
            SocketTransport::TwoClass => Algorithm::Bounded,
            _ => Algorithm::Dctcp,
        }
    }

    /// What was asked of the controller.
    fn asked(&self) -> impl Iterator<Item = (&'static str, Value)> {
        let hystart = self.hystart.and_then(|kind| kind.write()).map(|value| ("hystart", value));
        let target = self.target.and_then(|target| target.write()).map(|value| ("target", value));
        hystart.into_iter().chain(target)
    }

    fn check_controller(&self) -> Result<(), FlowError> {
        let refused = |setting, why| FlowError::Setting { setting, why };
        let mut settings = self.algorithm().settings();
        let is_tcp = matches!(self.transport, SocketTransport::Tcp(_));
        for (key, value) in self.asked() {
            match settings.set_value(key, &value).filter(|_| is_tcp) {
                None => return Err(refused(key, format!("{} does not have it", self.transport))),
                // The values were written from what they are read to.
                Some(result) => result.expect("a value that was just written"),
            }
        }
        settings.check_all().map_err(|OutOfRange { key, why }| refused(key, why))
    }

    /// The controller's settings: its defaults, but for HyStart, and what was asked.
    fn controller_settings(&self) -> Box<dyn ControllerSettings> {
        let mut settings = self.algorithm().settings();
        let linux = HyStartKind::Linux.write().map(|value| ("hystart", value));
        for (key, value) in linux.into_iter().chain(self.asked()) {
            // Controllers without the setting do not take it; `check` refuses those who were asked for it.
            let _ = settings.set_value(key, &value);
        }
        settings
    }

    fn controller(&self, mss: u16) -> AnyController {
        self.controller_settings().controller(mss, &self.contract)
    }

    pub(crate) fn rto(&self) -> RtoBounds {
        RtoBounds {
            minimum: self.min_rto,
            initial: Span::from_ms(200).max(self.min_rto),
            granularity: Span::from_ms(1).min(self.min_rto),
            ..RtoBounds::default()
        }
    }

    /// The TCP machines' configuration: the simulator's, with the timers of a real host. A connection stands already. A
    /// receiver needs none of the sender's: it echoes marks accurately, which also answers senders that are not ECN-capable,
    /// and delays are reported to whoever asks.
    pub fn tcp(&self, path: Path) -> Arc<TcpConfig> {
        let controller = self.controller(path.payload(self.mtu));
        Arc::new(TcpConfig {
            mss: path.payload(self.mtu),
            wire: path.wire(self.mtu),
            data_class: Self::class(self.classes.data),
            ack_class: Self::class(self.classes.control),
            ecn: controller.ecn_mode(),
            one_way_delay: controller.needs_one_way_delay(),
            rto: self.rto(),
            receive_buffer: Some(self.receive_buffer),
            largest_receive_buffer: Some(self.largest_receive_buffer),
            auto_consume: self.auto_consume,
            adapt_to_reordering: true,
            restart_timer: true,
            expect_overtaking: self.bends(),
            ..TcpConfig::default()
        })
    }

    fn credit(&self, path: Path, mtu: u16) -> CreditConfig {
        CreditConfig {
            mss: path.payload(mtu),
            wire: path.wire(mtu),
            data_class: Self::class(self.classes.data),
            credit_class: Self::class(self.classes.credit),
            // Repeated after a scheduler's tick, not after a datacenter's round trip.
            request_timeout: Span::from_ms(10),
            stop_timeout: Span::from_ms(10),
            nack_interval: Span::from_ms(1),
            recovery_timeout: self.min_rto,
            ..CreditConfig::default()
        }
    }

    fn flex_pass(&self, path: Path, mtu: u16) -> Arc<FlexPassConfig> {
        let class = Self::class(self.classes.data);
        let window = Window { class: class.with_red(true).with_ecn(Ecn::Ect0), rto: self.rto(), ..Window::default() };
        Arc::new(FlexPassConfig {
            credit: self.credit(path, mtu),
            reactive: Reactive::Window(window),
            reorder_buffer: Some(self.largest_receive_buffer),
            ..FlexPassConfig::default()
        })
    }

    fn two_class(&self, path: Path, mtu: u16) -> Arc<TwoClassConfig> {
        Arc::new(TwoClassConfig {
            mss: path.payload(mtu),
            wire: path.wire(mtu),
            scavenger: TwoClassConfig::subflow(Self::class(self.classes.low), self.rto()),
            guarantee: TwoClassConfig::subflow(Self::class(self.classes.data), self.rto()),
            ack_class: Self::class(self.classes.control),
            reorder_buffer: Some(self.largest_receive_buffer),
            bounds_when_told: Some(Bounds::OF_KNOWN_RATE),
            ..TwoClassConfig::default()
        })
    }

    fn atp(&self, path: Path) -> Arc<AtpConfig> {
        let max_loss = self.loss_bound().unwrap_or(LossBound::RELIABLE);
        let full = AtpConfig {
            payload: path.payload(self.mtu),
            wire: path.wire(self.mtu),
            data_class: Self::class(self.classes.data),
            control_class: Self::class(self.classes.control),
            timer: WAN_TIMER,
            reassembly_limit: self.receive_buffer,
            delivery_limit: (!self.auto_consume).then_some(self.receive_buffer * WAITING_BUFFERS),
            ..AtpConfig::full(max_loss, self.line_rate.unwrap_or(DEFAULT_LINE_RATE))
        };
        Arc::new(if self.drops_early {
            let rate_control = RateControlConfig { min_window: Span::from_ms(1), ..RateControlConfig::default() };
            AtpConfig { rate_control: Some(rate_control), ..full }
        } else {
            let data_class = full.data_class.with_ecn(Ecn::Ect0);
            let rate_control = Some(RateControlConfig::wan());
            AtpConfig { data_class, rate_control, priorities: 1, backup: false, ..full }
        })
    }

    /// REFLEX's settings: a flow with a weight gives way by it, others change their class.
    fn reflex(&self) -> ReflexConfig {
        let data = Self::class(self.classes.data);
        let give_way = if self.algorithm() == Algorithm::WeightedFair {
            GiveWay::Weight { high: self.contract.weight, low: self.contract.weight * LOW_WEIGHT }
        } else {
            GiveWay::Queue { high: data, low: Self::class(self.classes.low) }
        };
        ReflexConfig { interval: self.reflex_interval, ..ReflexConfig::new(self.contract, give_way) }
    }

    /// The time after which REFLEX's phases repeat; hosts agree on it by their clocks.
    pub fn reflex_cycle(&self) -> Span {
        self.reflex().cycle()
    }

    /// The sender of a flow of `size` bytes, if that is known, over what the receiver chose; `clock_offset_ps` is how far
    /// the host's clock is ahead of the driver's.
    pub fn sender(
        &self,
        protocol: Protocol,
        path: Path,
        size: Option<u64>,
        clock_offset_ps: i64,
    ) -> Result<AnyTransport, FlowError> {
        Ok(match protocol {
            Protocol::Tcp => {
                let config = self.tcp(path);
                let sender = TcpSender::new(config.clone(), self.controller(config.mss));
                let Contract { done_by, max_rate, .. } = self.contract;
                if self.transport.honours().contains(&Field::DoneBy) {
                    if size.is_none() && done_by.is_some() {
                        return Err(FlowError::UnknownSize);
                    }
                    // It may be told of a time while it runs, and of its size.
                    return Ok(DeadlineSender::new(sender, size.unwrap_or(0), done_by, max_rate).into());
                }
                if !self.bends() {
                    return Ok(sender.into());
                }
                let policy = Reflex::new(Arc::new(self.reflex()), size, clock_offset_ps).map_err(FlowError::Reflex)?;
                sender.with_policy(Policy::from(policy)).into()
            }
            Protocol::ExpressPass => ExpressPassSender::new(Arc::new(self.credit(path, self.mtu))).into(),
            Protocol::FlexPass => {
                let config = self.flex_pass(path, self.mtu);
                let controller = Algorithm::Dctcp.controller(config.credit.mss);
                FlexPassSender::new(config, controller).into()
            }
            Protocol::TwoClass => {
                let config = self.two_class(path, self.mtu);
                let controller = Algorithm::Dctcp.controller(config.mss);
                let sender = TwoClassSender::new(config, controller, self.contract.min_share, self.line_rate);
                Box::new(sender).into()
            }
            Protocol::Atp => AtpSender::new(self.atp(path)).into(),
        })
    }

    /// A sender of messages in the order in which they are handed over, of which as many may be missing as `max_loss` says.
    pub(crate) fn message_sender(&self, path: Path, max_loss: LossBound, sends_all: bool) -> AnyTransport {
        let config = AtpConfig { max_loss, sends_all, order: Order::Fifo, ..AtpConfig::clone(&self.atp(path)) };
        AtpSender::new(Arc::new(config)).into()
    }

    /// The receiver of a flow whose sender's packets have at most `mtu` bytes; `seed` is that of its random numbers.
    pub fn receiver(&self, protocol: Protocol, path: Path, mtu: u16, seed: u64) -> AnyTransport {
        let stream = || Stream::named(seed, "credits");
        let full = full_bytes(mtu);
        let line_rate = self.line_rate.unwrap_or(DEFAULT_LINE_RATE).bytes_per_sec_f64();
        let greatest = credit_share(ETHERNET_MINIMUM_BYTES, full) * line_rate;
        match protocol {
            // Its own sender may do without ECN; whoever sends here need not.
            Protocol::Tcp => {
                let config = TcpConfig { ecn: EcnMode::Accurate, ..TcpConfig::clone(&self.tcp(path)) };
                TcpReceiver::new(Arc::new(config)).into()
            }
            Protocol::ExpressPass => {
                ExpressPassReceiver::new(Arc::new(self.credit(path, mtu)), greatest, stream()).into()
            }
            Protocol::FlexPass => FlexPassReceiver::new(self.flex_pass(path, mtu), greatest, stream()).into(),
            Protocol::TwoClass => TwoClassReceiver::new(self.two_class(path, mtu)).into(),
            Protocol::Atp => AtpReceiver::new(self.atp(path)).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(algorithm: Algorithm) -> FlowSettings {
        FlowSettings { transport: SocketTransport::Tcp(algorithm), ..FlowSettings::default() }
    }

    fn setting(flow: &FlowSettings, key: &str) -> Option<Value> {
        flow.controller_settings().get_value(key).flatten()
    }

    /// CUBIC begins as the kernel's does unless it is told otherwise; LEDBAT aims at what it is told.
    #[test]
    fn controllers_have_what_is_asked() {
        let text = |name: &str| Some(Value::Text(name.into()));
        assert_eq!(setting(&by(Algorithm::Cubic), "hystart"), text("linux"));
        let off = FlowSettings { hystart: Some(HyStartKind::Off), ..by(Algorithm::Cubic) };
        assert_eq!((off.check(), setting(&off, "hystart")), (Ok(()), text("off")));
        let near = FlowSettings { target: Some(Span::from_ms(5)), ..by(Algorithm::LedbatPlusPlus) };
        assert_eq!((near.check(), setting(&near, "target")), (Ok(()), Span::from_ms(5).write()));
        assert_eq!(setting(&by(Algorithm::Reno), "hystart"), None);
    }

    /// A flow whose bytes arrive out of order, because two sub-flows carry them, may use all of `--receive-buffer`.
    #[test]
    fn two_subflows_use_the_whole_receive_buffer() {
        let most = 4 * FIRST_RECEIVE_BUFFER;
        let flow = FlowSettings::default().with_receive_buffer(most);
        let path = Path::to("127.0.0.1:1".parse().unwrap(), 0);
        assert_eq!(flow.two_class(path, 1500).reorder_buffer, Some(most));
        assert_eq!(flow.flex_pass(path, 1500).reorder_buffer, Some(most));
    }

    /// A flow cannot keep more than its host's link has.
    #[test]
    fn a_rate_above_the_line_is_refused() {
        let with = |min_rate, line_rate| {
            let contract = Contract { min_share: 0.0, min_rate, ..Contract::default() };
            FlowSettings { contract, line_rate, ..by(Algorithm::Bounded) }.check()
        };
        let (slow, fast) = (Rate::from_bits_per_sec(10_000_000), Rate::from_bits_per_sec(20_000_000));
        assert_eq!(with(fast, Some(slow)), Err(FlowError::AboveLine { min_rate: fast, line_rate: slow }));
        assert_eq!((with(slow, Some(slow)), with(fast, None)), (Ok(()), Ok(())));
    }

    /// What the controller does not have, or not so large, is refused by name.
    #[test]
    fn what_a_controller_does_not_have_is_refused() {
        let refused = |flow: FlowSettings| match flow.check() {
            Err(FlowError::Setting { setting, .. }) => Some(setting),
            _ => None,
        };
        let hystart = Some(HyStartKind::Linux);
        assert_eq!(refused(FlowSettings { hystart, ..by(Algorithm::Dctcp) }), Some("hystart"));
        assert_eq!(
            refused(FlowSettings { hystart, transport: SocketTransport::Atp, ..FlowSettings::default() }),
            Some("hystart")
        );
        let target = |target| FlowSettings { target: Some(target), ..by(Algorithm::Ledbat) };
        assert_eq!(
            refused(FlowSettings { transport: SocketTransport::Tcp(Algorithm::Cubic), ..target(Span::from_ms(1)) }),
            Some("target")
        );
        assert_eq!(refused(target(Span::ZERO)), Some("target"));
        assert_eq!(refused(target(Span::from_secs(2))), Some("target"));
        assert_eq!(refused(target(Span::from_secs(1))), None);
    }
}
