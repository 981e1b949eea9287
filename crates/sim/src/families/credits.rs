//! Transports with credits: ExpressPass, TCP's window under credits (layering), and FlexPass.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_proto::congestion::dctcp::LossCut;
use pliant_proto::congestion::{Algorithm, AnyController};
use pliant_proto::contract::policy::Policy;
use pliant_proto::packet::{Ecn, TrafficClass};
use pliant_proto::rng::Stream;
use pliant_proto::settings::{AnySettings, Description, OutOfRange, Range, ReadError, Settings, Value};
use pliant_proto::switch::QueuePlan;
use pliant_proto::switch::plan::ShaperRate;
use pliant_proto::time::Span;
use pliant_proto::transport::express_pass::{
    self, CreditConfig, ExpressPassReceiver, ExpressPassSender, FeedbackConfig, FeedbackLaw, credit_share,
};
use pliant_proto::transport::flex_pass::{
    self, FlexPassConfig, FlexPassReceiver, FlexPassSender, Reactive, Splitting, Window as ReactiveWindow,
};
use pliant_proto::transport::layering::{self, LayeredReceiver, LayeredSender};
use pliant_proto::transport::tcp::{TcpConfig, TcpReceiver, TcpSender};
use pliant_proto::units::{Bytes, Rate};
use pliant_proto::{choices, settings};
use toml::Table;

use super::family::{
    Endpoints, Facts, Family, FlowEndpoints, GroupSettings, GroupTransport, Member, RunSettings, SettingsTable, Traits,
    TransportName,
};
use super::tcp::{TCP_TABLE, Window, on_path};
use crate::tables::{self, KeyError, Tables, below};
use crate::topology::LinkId;
use crate::traffic::FlowSpec;

/// The table of a group's settings of credits.
const CREDIT_TABLE: &str = "credit";

/// Traffic class of credits.
pub(crate) const CREDIT_CLASS: u8 = 31;
/// Size of a credit on the wire, unless a group says otherwise.
pub(crate) const CREDIT_BYTES: u16 = 84;

/// Payload segments of the published simulator's largest window.
const ARTIFACT_WINDOW: u32 = 180;
/// The published simulator never acknowledges proactive data; a sender that hears nothing at all would remember it all.
const ARTIFACT_ACK_EVERY: u16 = 64;

choices! {
    /// Which defaults.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Variant {
        /// What FlexPass's text says.
        Paper = "paper",
        /// What its published simulator does.
        Artifact = "artifact",
    }
}

choices! {
    /// A law of credit feedback.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Feedback {
        /// Cuts to the rate at which credits arrived.
        Delivered = "delivered",
        /// Cuts by the loss.
        Multiplicative = "multiplicative",
        /// Searches for the last rate that was too much.
        Bic = "bic",
    }
}

impl From<Feedback> for FeedbackLaw {
    fn from(feedback: Feedback) -> Self {
        match feedback {
            Feedback::Delivered => Self::Delivered,
            Feedback::Multiplicative => Self::Multiplicative,
            Feedback::Bic => Self::Bic,
        }
    }
}

choices! {
    /// Which part of a flow each sub-flow takes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum SplittingName {
        /// Both take what comes next.
        SharedBuffer = "shared-buffer",
        /// The proactive sub-flow begins at the front, the reactive one at the end.
        BothEnds = "both-ends",
    }
}

fn in_bits(bytes_per_sec: f64) -> Rate {
    Rate::from_bits_per_sec((bytes_per_sec * 8.0) as u64)
}

settings! {
    /// Settings of the credit loop.
    #[derive(Clone, PartialEq, Debug)]
    pub struct CreditSettings {
        /// Which defaults: what the papers say (`"paper"`), or what FlexPass's published simulator does (`"artifact"`), also
        /// of TCP's settings.
        pub variant: Variant = Variant::Paper => [],
        /// Traffic class of credits. Every port must shape its queue.
        pub class: u8 = CREDIT_CLASS => [range: Range::up_to(31)],
        /// Least size of a credit on the wire.
        pub min_size: Bytes = Bytes(CREDIT_BYTES as u64) => [
            range: Range::closed(Bytes(1), Bytes(65_535)), default: "`\"84B\"`; `artifact`: `\"78B\"`", source: "ExpressPass"
        ],
        /// Greatest size of a credit on the wire. The size of each is drawn evenly.
        pub max_size: Bytes = Bytes(CREDIT_BYTES as u64) => [
            range: Range::closed(Bytes(1), Bytes(65_535)), default: "`\"84B\"`; `artifact`: `\"90B\"`", source: "ExpressPass"
        ],
        /// How far the gap between credits varies, as a fraction.
        pub jitter: f64 = CreditConfig::default().jitter => [range: Range::from_below(0.0, 1.0)],
        /// How the credit rate follows lost credits: `"bic"` searches for the last rate that was too much, `"delivered"`
        /// cuts to the rate that arrived, `"multiplicative"` cuts by the loss (SIGCOMM 2017).
        pub feedback: Feedback = Feedback::Bic => [default: "`\"bic\"`; `artifact`: `\"delivered\"`"],
        /// First credit rate as a fraction of the greatest.
        pub initial_rate: f64 = FeedbackConfig::default().initial_rate => [range: Range::above_to(0.0, 1.0)],
        /// `delivered`, `multiplicative`: first weight of a step up.
        pub initial_weight: f64 = FeedbackConfig::default().initial_weight => [
            limits: "between `min_weight` and `max_weight`"
        ],
        /// `delivered`, `multiplicative`: least weight.
        pub min_weight: f64 = FeedbackConfig::default().minimum_weight => [range: Range::above_to(0.0, 1.0)],
        /// `delivered`, `multiplicative`: greatest weight.
        pub max_weight: f64 = FeedbackConfig::default().maximum_weight => [range: Range::above_to(0.0, 1.0)],
        /// Loss of credits that is accepted when the rate is far below its greatest.
        pub target_loss: f64 = FeedbackConfig::default().target_loss => [range: Range::open(0.0, 1.0)],
        /// `bic`: how much faster than doubling the rate leaves the last one that was too much.
        pub aggressiveness: f64 = FeedbackConfig::default().aggressiveness => [range: Range::from(0.0)],
        /// `bic`: least change of the rate, in credits per round trip.
        pub min_step_credits: f64 = FeedbackConfig::default().minimum_step_credits => [range: Range::from(0.0)],
        /// `bic`: greatest change of the rate.
        pub max_step: Rate = in_bits(FeedbackConfig::default().maximum_step) => [
            range: Range::above(Rate::from_bits_per_sec(0))
        ],
        /// `bic`: rate of credits from which on the accepted loss is `target_loss`. Default: that of 10 Gbit/s of data.
        pub base_rate: Rate = in_bits(FeedbackConfig::default().base_rate) => [
            range: Range::above(Rate::from_bits_per_sec(0))
        ],
        /// Flows of fewer than 40 packets start at a rate that much lower.
        pub scale_start: bool = CreditConfig::default().scale_start => [],
        /// Greatest credit rate of a flow as a fraction of what its host's port lets through.
        pub pacing_scale: f64 = CreditConfig::default().pacing_scale => [
            range: Range::above_to(0.0, 1.0), default: "1; `flexpass` with `artifact`: the reserved share of the link once more"
        ],
        /// A request for credits is repeated after this.
        pub request_timeout: Span = CreditConfig::default().request_timeout => [range: Range::above(Span::ZERO)],
        /// A stop is repeated after twice the round-trip time, or after this without one.
        pub stop_timeout: Span = CreditConfig::default().stop_timeout => [range: Range::above(Span::ZERO)],
        /// A sender with data that hears nothing for so long asks for credits anew.
        pub recovery_timeout: Span = CreditConfig::default().recovery_timeout => [range: Range::above(Span::ZERO)],
    }
}

settings! {
    /// What ExpressPass alone has.
    #[derive(Clone, PartialEq, Debug)]
    pub struct ExpressPassSettings {
        /// A sender stops its credits once those of one round trip cover what is left, not when nothing is.
        pub early_stop: bool = CreditConfig::default().early_stop => [],
        /// Missing data is asked for again after this.
        pub nack_interval: Span = CreditConfig::default().nack_interval => [range: Range::above(Span::ZERO)],
        /// Bytes of payload sent at once before the first credit, droppable first; then a probe.
        pub pre_credit: Option<Bytes> = None => [
            default: "none", limits: "from one packet", source: "Aeolus, SIGCOMM 2020"
        ],
    }
}

settings! {
    /// What layering alone has.
    #[derive(Clone, PartialEq, Debug)]
    pub struct LayeredSettings {
        /// Segments leave TCP as soon as the window allows it, and wait for credits in a queue, while their round-trip times and
        /// timers run. Otherwise a segment is made when its credit arrives.
        pub hold_queue: bool = CreditConfig::default().hold_queue => [source: "FlexPass's published simulator"],
    }
}

settings! {
    /// What FlexPass alone has.
    #[derive(Clone, PartialEq, Debug)]
    pub struct FlexPassSettings {
        /// Which part of a flow each sub-flow takes: both what comes next (`"shared-buffer"`), or the reactive one begins at
        /// the end (`"both-ends"`, RC3, NSDI 2014).
        pub splitting: SplittingName = SplittingName::SharedBuffer => [source: "FlexPass, section 4.2"],
        /// Traffic class of reactive data.
        pub reactive_class: Option<u8> = None => [range: Range::up_to(31), default: "`class` of the group"],
        /// Largest reactive window, in segments.
        pub max_window: Option<u32> = None => [
            range: Range::from(1).of("segment"), default: "no limit; `artifact`: 180"
        ],
        /// How a loss cuts the reactive window: by half (`"halve"`), or by the fraction of marks (`"as-mark"`).
        pub loss_cut: LossCut = LossCut::Halve => [source: "RFC 8257"],
        /// Whether acknowledgements of reactive data are dropped first, as that is.
        pub red_acks: bool = false => [default: "false; `artifact`: true"],
        /// Proactive packets per acknowledgement. Gaps are told at once, all else after a quarter of `recovery_timeout`.
        pub proactive_ack_every: u16 = 1 => [range: Range::from(1).of("packet"), default: "1; `artifact`: 64"],
        /// Most bytes that wait out of order at the receiver, and that the sender sends ahead of it without a credit.
        pub reorder_buffer: Option<Bytes> = None => [default: "no limit", limits: "from one packet"],
    }
}

/// The settings of one of the transports with credits.
#[derive(Debug)]
struct Credits {
    common: CreditSettings,
    express_pass: Option<ExpressPassSettings>,
    layered: Option<LayeredSettings>,
    flex_pass: Option<FlexPassSettings>,
}

impl AnySettings for Credits {
    fn describe_all(&self) -> Vec<Description> {
        let mut all = CreditSettings::describe();
        all.extend(self.express_pass.iter().flat_map(|_| ExpressPassSettings::describe()));
        all.extend(self.layered.iter().flat_map(|_| LayeredSettings::describe()));
        all.extend(self.flex_pass.iter().flat_map(|_| FlexPassSettings::describe()));
        all
    }

    fn get_value(&self, key: &str) -> Option<Option<Value>> {
        let express_pass = || self.express_pass.as_ref().and_then(|own| own.get(key));
        let layered = || self.layered.as_ref().and_then(|own| own.get(key));
        let flex_pass = || self.flex_pass.as_ref().and_then(|own| own.get(key));
        self.common.get(key).or_else(express_pass).or_else(layered).or_else(flex_pass)
    }

    fn set_value(&mut self, key: &str, value: &Value) -> Option<Result<(), ReadError>> {
        let Self { common, express_pass, layered, flex_pass } = self;
        let express_pass = || express_pass.as_mut().and_then(|own| own.set(key, value));
        let layered = || layered.as_mut().and_then(|own| own.set(key, value));
        let flex_pass = || flex_pass.as_mut().and_then(|own| own.set(key, value));
        common.set(key, value).or_else(express_pass).or_else(layered).or_else(flex_pass)
    }

    fn check_all(&self) -> Result<(), OutOfRange> {
        self.common.check()?;
        self.express_pass.as_ref().map_or(Ok(()), Settings::check)?;
        self.flex_pass.as_ref().map_or(Ok(()), Settings::check)
    }
}

impl Credits {
    /// The defaults of a transport; `reserve` is the share of a link that is there for credits.
    fn built_in(transport: TransportName, variant: Variant, reserve: f64) -> Self {
        let mut common = CreditSettings { variant, ..CreditSettings::default() };
        let mut flex_pass = FlexPassSettings::default();
        if variant == Variant::Artifact {
            (common.min_size, common.max_size) = (Bytes(78), Bytes(90));
            common.feedback = Feedback::Delivered;
            // Of its agents only FlexPass's has the share a second time (`flexpass_beta_`).
            if transport.name() == FLEX_PASS {
                common.pacing_scale = reserve.min(1.0);
            }
            flex_pass.max_window = Some(ARTIFACT_WINDOW);
            flex_pass.red_acks = true;
            flex_pass.proactive_ack_every = ARTIFACT_ACK_EVERY;
        }
        Self {
            common,
            express_pass: (transport.name() == EXPRESS_PASS).then(ExpressPassSettings::default),
            layered: (transport.name() == LAYERED).then(LayeredSettings::default),
            flex_pass: (transport.name() == FLEX_PASS).then_some(flex_pass),
        }
    }

    /// The settings of a group's table.
    fn read(transport: TransportName, table: &Table, reserve: f64) -> Result<Self, KeyError> {
        let mut given = CreditSettings::default();
        if let Some(Err(why)) = table.get("variant").and_then(|value| given.set("variant", &tables::from_toml(value))) {
            return Err(("variant".to_owned(), tables::in_words(why)));
        }
        let mut credits = Self::built_in(transport, given.variant, reserve);
        tables::read_over(&mut credits, table)?;
        tables::check(&credits)?;
        Ok(credits)
    }

    /// The credit loop, for the packets and data class of `tcp`.
    fn config(&self, tcp: &TcpConfig) -> Result<CreditConfig, KeyError> {
        let CreditSettings { min_size, max_size, .. } = self.common;
        let own = &self.common;
        let express_pass = self.express_pass.clone().unwrap_or_default();
        let config = CreditConfig {
            mss: tcp.mss,
            wire: tcp.wire,
            data_class: tcp.data_class,
            credit_class: TrafficClass::new(own.class),
            credit_bytes: (min_size.0 as u16, max_size.0 as u16),
            jitter: own.jitter,
            feedback: FeedbackConfig {
                law: own.feedback.into(),
                initial_rate: own.initial_rate,
                initial_weight: own.initial_weight,
                minimum_weight: own.min_weight,
                maximum_weight: own.max_weight,
                target_loss: own.target_loss,
                aggressiveness: own.aggressiveness,
                minimum_step_credits: own.min_step_credits,
                maximum_step: own.max_step.bytes_per_sec_f64(),
                base_rate: own.base_rate.bytes_per_sec_f64(),
            },
            scale_start: own.scale_start,
            early_stop: express_pass.early_stop,
            pacing_scale: own.pacing_scale,
            hold_queue: self.layered.as_ref().is_some_and(|own| own.hold_queue),
            request_timeout: own.request_timeout,
            stop_timeout: own.stop_timeout,
            nack_interval: express_pass.nack_interval,
            recovery_timeout: own.recovery_timeout,
        };
        config.check().map_err(|why| (String::new(), why.to_string()))?;
        Ok(config)
    }
}

impl FlexPassSettings {
    /// FlexPass, with the handshake and timeouts of `tcp`.
    fn config(&self, credit: CreditConfig, tcp: &TcpConfig) -> Result<FlexPassConfig, KeyError> {
        let class = self.reactive_class.map_or(credit.data_class, TrafficClass::new);
        let window = ReactiveWindow {
            class: reactive(class),
            rto: tcp.rto,
            handshake: tcp.handshake,
            maximum: self.max_window.map(|segments| u64::from(segments) * u64::from(credit.mss)),
            loss_cut: self.loss_cut,
            red_acks: self.red_acks,
        };
        checked(FlexPassConfig {
            credit,
            reactive: Reactive::Window(window),
            splitting: match self.splitting {
                SplittingName::BothEnds => Splitting::BothEnds,
                SplittingName::SharedBuffer => Splitting::SharedBuffer,
            },
            proactive_ack_every: self.proactive_ack_every,
            reorder_buffer: self.reorder_buffer.map(|bytes| bytes.0),
        })
    }
}

impl ExpressPassSettings {
    /// ExpressPass with a burst before the first credit, if one is asked for: sub-flows as FlexPass has them.
    fn aeolus(&self, credit: &CreditConfig) -> Result<Option<FlexPassConfig>, KeyError> {
        let Some(bytes) = self.pre_credit else { return Ok(None) };
        let class = credit.data_class.with_red(true);
        let reactive = Reactive::Burst { bytes: bytes.0, class, timeout: credit.recovery_timeout };
        checked(FlexPassConfig { credit: credit.clone(), reactive, ..FlexPassConfig::default() }).map(Some)
    }
}

/// Red, so that it is dropped first, and marked in place of being dropped.
fn reactive(class: TrafficClass) -> TrafficClass {
    class.with_red(true).with_ecn(Ecn::Ect0)
}

fn checked(config: FlexPassConfig) -> Result<FlexPassConfig, KeyError> {
    config.check().map_err(|why| (String::new(), why.to_string()))?;
    Ok(config)
}

/// The name of ExpressPass in scenario files.
pub const EXPRESS_PASS: &str = "expresspass";
const LAYERED: &str = "expresspass-layered";
/// The name of FlexPass in scenario files.
pub const FLEX_PASS: &str = "flexpass";

const TRAITS: Traits = Traits { has_credits: true, ..Traits::PLAIN };

pub(super) struct CreditFamily;

impl Family for CreditFamily {
    fn members(&self) -> &'static [Member] {
        &[
            Member {
                name: EXPRESS_PASS,
                description: "ExpressPass: data on credits, which the receiver sends and every port limits",
                honours: express_pass::HONOURS,
                traits: TRAITS,
            },
            Member {
                name: LAYERED,
                description: "layering: data on credits as far as DCTCP's window lets it (ExpressPass+)",
                honours: layering::HONOURS,
                traits: TRAITS,
            },
            Member {
                name: FLEX_PASS,
                description: "FlexPass: a part on credits, and by DCTCP's window what others leave",
                honours: flex_pass::HONOURS,
                traits: TRAITS,
            },
        ]
    }

    fn tables(&self, member: TransportName) -> Vec<SettingsTable> {
        let credits = Credits::built_in(member, Variant::Paper, 1.0);
        let (title, defaults) = ("credits", tables::write(&credits));
        let credit = SettingsTable { name: CREDIT_TABLE, title, settings: credits.describe_all(), defaults };
        let window = (member.name() != EXPRESS_PASS).then(|| Window::of(member, Algorithm::Dctcp.settings()).table());
        [credit].into_iter().chain(window).collect()
    }

    fn classes(&self, _: TransportName, _: u8, tables: &Tables) -> Vec<(String, u8)> {
        let table = tables.get(CREDIT_TABLE);
        let given = |key: &str| {
            let class = table?.get(key)?.as_integer()?;
            Some((format!("{CREDIT_TABLE}.{key}"), u8::try_from(class).unwrap_or(u8::MAX)))
        };
        ["class", "reactive_class"].into_iter().filter_map(given).collect()
    }

    fn resolve(&self, group: &mut GroupSettings<'_>) -> Result<Arc<dyn GroupTransport>, KeyError> {
        let of_credit = |error| below(CREDIT_TABLE, error);
        let transport = group.transport;
        let plans = [group.network.host_plan, group.network.switch_plan];
        let own = group.tables.get(CREDIT_TABLE).cloned().unwrap_or_default();
        // What is wrong with the settings is told before what is wrong with the queues.
        let CreditSettings { class, .. } = Credits::read(transport, &own, 1.0).map_err(of_credit)?.common;
        let queues = plans.map(|plan| &plan.queues[usize::from(plan.queue_of_class[usize::from(class)])]);
        if let Some(queue) = queues.iter().find(|queue| queue.shaper.is_none()) {
            let why = format!(
                "credits are in class {class}, but its queue \"{}\" is not shaped: use the plan expresspass or flexpass",
                queue.name
            );
            let key = if own.contains_key("class") { "credit.class" } else { "transport" };
            return Err((key.to_owned(), why));
        }
        let shaper = queues[0].shaper.expect("it was looked at");
        let full = group.network.wire.wire_bytes(group.network.mss);
        let reserve = match shaper.rate {
            ShaperRate::Share(share) => share / credit_share(CREDIT_BYTES, full),
            ShaperRate::Fixed(_) => 1.0,
        };
        let credits = Credits::read(transport, &own, reserve).map_err(of_credit)?;
        let (tcp, controller) = window(group, credits.common.variant)?;
        let credit = credits.config(&tcp).map_err(of_credit)?;
        for plan in plans {
            check_weights(plan, &credit, full).map_err(|why| ("transport".to_owned(), why))?;
        }
        let kind = match (&credits.express_pass, &credits.flex_pass) {
            (_, Some(flex_pass)) => Kind::FlexPass(flex_pass.config(credit, &tcp).map_err(of_credit)?),
            (Some(express_pass), _) => match express_pass.aeolus(&credit).map_err(of_credit)? {
                Some(aeolus) => Kind::FlexPass(aeolus),
                None => Kind::ExpressPass(credit),
            },
            (None, None) => Kind::Layered(credit, tcp),
        };
        group.tables.insert(CREDIT_TABLE.to_owned(), tables::write(&credits));
        Ok(Arc::new(CreditTransport { kind, controller }))
    }
}

/// The window of FlexPass and of layering; of ExpressPass packets and classes only.
fn window(group: &mut GroupSettings<'_>, variant: Variant) -> Result<(TcpConfig, AnyController), KeyError> {
    let of_tcp = |error| below(TCP_TABLE, error);
    let transport = group.transport;
    let mut window = Window::of(transport, Algorithm::Dctcp.settings());
    if variant == Variant::Artifact {
        window.lay_shared(&artifact_window()).map_err(of_tcp)?;
    }
    window.lay_shared(group.network.shared_tcp).map_err(of_tcp)?;
    if transport.name() == EXPRESS_PASS {
        let parts = window.config(group)?;
        group.tables.remove(TCP_TABLE);
        return Ok(parts);
    }
    let own = group.tables.get(TCP_TABLE).cloned().unwrap_or_default();
    window.lay_own(&own).map_err(of_tcp)?;
    window.config(group)
}

/// What FlexPass's published simulator sets for DCTCP.
fn artifact_window() -> Table {
    toml::toml! {
        initial_window = 5
        min_rto = "4ms"
        initial_rto = "1ms"
        handshake = true
        initial_alpha = 0.0
        ack_every = 1
    }
}

/// How far weights, whole numbers, may miss a share of the link.
const WEIGHT_SLACK: f64 = 0.002;

/// Refuses credits that release more data, in packets of `full` bytes, than the queue of that data is sure to send: what
/// is released beyond that has no place, and is lost in the end.
fn check_weights(plan: &QueuePlan, credit: &CreditConfig, full: u16) -> Result<(), String> {
    let queue_of = |class: usize| usize::from(plan.queue_of_class[class]);
    let shaper = plan.queues[queue_of(credit.credit_class.class())].shaper;
    let Some(ShaperRate::Share(share)) = shaper.map(|shaper| shaper.rate) else { return Ok(()) };
    let (least, greatest) = credit.credit_bytes;
    let mean = (u32::from(least) + u32::from(greatest)).div_ceil(2) as u16;
    let released = share / credit_share(mean, full);
    let queue = queue_of(credit.data_class.class());
    let strict = plan.scheduler.strict_queues(plan.queues.len());
    let sure = if queue < strict {
        1.0
    } else {
        let weights = plan.queues[strict..].iter().map(|queue| f64::from(queue.weight));
        f64::from(plan.queues[queue].weight) / weights.sum::<f64>()
    };
    if released <= sure + WEIGHT_SLACK {
        return Ok(());
    }
    Err(format!(
        "credits of {mean} bytes at {:.2} % of a link fill {:.0} % of it with packets of {full} bytes, but their queue \
         \"{}\" is sure of {:.0} % by its weight",
        share * 100.0,
        released * 100.0,
        plan.queues[queue].name,
        sure * 100.0
    ))
}

/// A transport with credits and its settings.
#[derive(Clone, Debug)]
struct CreditTransport {
    kind: Kind,
    /// The controller of a new window; of ExpressPass none has any.
    controller: AnyController,
}

/// Which transport with credits.
#[derive(Clone, Debug)]
enum Kind {
    ExpressPass(CreditConfig),
    /// FlexPass, or ExpressPass with Aeolus' burst.
    FlexPass(FlexPassConfig),
    Layered(CreditConfig, TcpConfig),
}

impl Kind {
    /// The credit loop's settings.
    fn credit(&self) -> &CreditConfig {
        match self {
            Self::ExpressPass(credit) | Self::Layered(credit, _) => credit,
            Self::FlexPass(config) => &config.credit,
        }
    }

    /// The same with data in another class.
    fn in_class(&self, class: Option<u8>) -> Self {
        let mut moved = self.clone();
        let Some(class) = class.map(TrafficClass::new) else { return moved };
        match &mut moved {
            Self::ExpressPass(credit) => credit.data_class = class,
            Self::Layered(credit, tcp) => {
                (credit.data_class, tcp.data_class, tcp.ack_class) = (class, class, class);
            }
            Self::FlexPass(config) => {
                config.credit.data_class = class;
                match &mut config.reactive {
                    Reactive::Window(window) => window.class = reactive(class),
                    Reactive::Burst { class: burst, .. } => *burst = class.with_red(true),
                }
            }
        }
        moved
    }
}

impl GroupTransport for CreditTransport {
    fn endpoints<'a>(&'a self, run: RunSettings<'a>) -> Box<dyn Endpoints + 'a> {
        Box::new(CreditEndpoints { transport: self, run, shared: BTreeMap::new() })
    }

    fn facts(&self) -> Facts<'_> {
        Facts { credits: Some(self.kind.credit()), ..Facts::default() }
    }
}

/// Settings that many flows share.
#[derive(Clone)]
enum Shared {
    ExpressPass(Arc<CreditConfig>),
    FlexPass(Arc<FlexPassConfig>),
    Layered(Arc<CreditConfig>, Arc<TcpConfig>),
}

struct CreditEndpoints<'a> {
    transport: &'a CreditTransport,
    run: RunSettings<'a>,
    /// For each class that flows have asked for.
    shared: BTreeMap<Option<u8>, Shared>,
}

impl Endpoints for CreditEndpoints<'_> {
    fn open(&mut self, flow: &FlowSpec, path: &[LinkId], _: Option<Policy>) -> FlowEndpoints {
        let CreditTransport { kind, controller } = self.transport;
        let RunSettings { topology, plans, name, seed, .. } = self.run;
        // Credits leave by the receiver's port: it bounds their rate.
        let uplink = path.last().expect("a path has links").reverse();
        let host_plan = plans.of(topology, uplink);
        let queue = host_plan.queue_of_class[kind.credit().credit_class.class()];
        let shaper = host_plan.queues[usize::from(queue)].shaper.expect("a scenario with credits shapes their queue");
        let greatest = shaper.rate.at(topology.link(uplink).rate).bytes_per_sec_f64();
        let stream = Stream::named(seed, &format!("credits/{name}/{}", flow.sequence));
        let shared = self.shared.entry(flow.class).or_insert_with(|| match kind.in_class(flow.class) {
            Kind::ExpressPass(credit) => Shared::ExpressPass(Arc::new(credit)),
            Kind::FlexPass(config) => Shared::FlexPass(Arc::new(config)),
            Kind::Layered(credit, tcp) => Shared::Layered(Arc::new(credit), Arc::new(tcp)),
        });
        match shared.clone() {
            Shared::ExpressPass(config) => {
                (ExpressPassSender::new(Arc::clone(&config)), ExpressPassReceiver::new(config, greatest, stream)).into()
            }
            Shared::FlexPass(config) => (
                FlexPassSender::new(Arc::clone(&config), on_path(controller, path)),
                FlexPassReceiver::new(config, greatest, stream),
            )
                .into(),
            Shared::Layered(config, tcp) => {
                let receiver = TcpReceiver::new(Arc::clone(&tcp));
                let sender = LayeredSender::new(Arc::clone(&config), TcpSender::new(tcp, on_path(controller, path)));
                (sender, LayeredReceiver::new(config, greatest, stream, receiver)).into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In FlexPass's published simulator one ExpressPass flow of 10 MB takes 4.7 ms through a queue with half of 40 Gbit/s: ports limit its
    /// credits once. FlexPass's agent limits its own a second time.
    #[test]
    fn only_flexpass_paces_by_the_share_twice() {
        let scale = |name| {
            let transport = TransportName::find(name).unwrap();
            Credits::built_in(transport, Variant::Artifact, 0.5).common.pacing_scale
        };
        assert_eq!([EXPRESS_PASS, LAYERED, FLEX_PASS].map(scale), [1.0, 1.0, 0.5]);
    }
}
