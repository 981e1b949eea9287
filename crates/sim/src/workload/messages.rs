//! The messages of a flow: how large they are, how many, and when the application hands them over.

use std::path::Path;
use std::sync::Arc;

use pliant_proto::rng::Stream;
use pliant_proto::time::Span;
use serde::{Deserialize, Serialize};

use super::{Distribution, PacketFormat, Records, Size, SizeRange};

/// Largest message: its length travels in 32 bits.
const MAX_MESSAGE_BYTES: u64 = u32::MAX as u64;
/// Most messages of a flow (see [`pliant_proto::transport::atp::MAX_MESSAGES`]).
const MAX_MESSAGES: u64 = pliant_proto::transport::atp::MAX_MESSAGES as u64;
/// Shape of the generalised Pareto law of the time between requests to the key-value pool ETC (Atikoglu et al.,
/// SIGMETRICS 2012; its scale is 16.0292 us, its mean 18.97 us).
const KEY_VALUE_SHAPE: f64 = 0.154971;

/// A table `messages`: the flows of the group are lists of messages.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MessagesSpec {
    /// Size of each message: `"1460B"`, or `"2kB..200kB"` for a uniform one. Either this or `workload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<SizeRange>,
    /// Name of a distribution of sizes, or the path of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// A table of which each line is a message, in place of sizes and `count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<String>,
    /// Column of `records` whose mean over the messages that arrived is compared with that over all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Messages of each flow, whose size is then their sum. Default: as many as the flow's size holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Flows that start in place of each one, between its hosts, and take its messages in turn. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<u32>,
    /// Mean time from one message to the next. Default: all are there when the flow starts.
    #[serde(skip_serializing_if = "Option::is_none", with = "crate::units_serde::optional")]
    pub gap: Option<Span>,
    /// How gaps vary about their mean. Default: `"constant"`.
    pub gap_law: GapLaw,
    /// The sender does not know how many messages there will be until the last one. Default: false.
    pub streaming: bool,
}

/// How gaps between messages vary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GapLaw {
    /// All are alike.
    #[default]
    Constant,
    /// Exponential: messages come as a Poisson process.
    Exponential,
    /// Generalised Pareto of the shape of requests to Facebook's key-value pool ETC.
    KeyValue,
}

/// What the flows of one group are made of.
#[derive(Clone, Debug)]
pub struct Messages {
    sizes: Distribution,
    records: Option<Arc<Records>>,
    count: Option<u32>,
    flows: u32,
    gap: Option<Span>,
    law: GapLaw,
    /// Whether the total is told only at the end.
    pub streaming: bool,
    /// Names the random streams.
    group: String,
    seed: u64,
}

impl MessagesSpec {
    /// The messages of the group `group`. On an error, the key and what is wrong with it.
    pub fn build(&self, group: &str, seed: u64, directory: &Path) -> Result<Messages, (&'static str, String)> {
        let records = self.records(directory)?;
        let (key, size) = match (&self.size, &self.workload) {
            (None, None) if records.is_some() => ("records", Size::Fixed(1)),
            (Some(_), _) | (_, Some(_)) if records.is_some() => {
                return Err(("records", "give either records or a size".to_owned()));
            }
            (Some(range), None) => ("size", range.size()),
            (None, Some(name)) => ("workload", Size::Workload(name.clone())),
            (None, None) => return Err(("size", "give either size or workload".to_owned())),
            (Some(_), Some(_)) => return Err(("size", "give either size or workload, not both".to_owned())),
        };
        let sizes = size.distribution(directory).map_err(|why| (key, why.to_string()))?;
        if sizes.max_bytes() > MAX_MESSAGE_BYTES {
            return Err((key, "a message is at most 4294967295B".to_owned()));
        }
        if self.count.is_some_and(|count| count == 0 || u64::from(count) > MAX_MESSAGES) {
            return Err(("count", format!("a flow has 1 to {MAX_MESSAGES} messages")));
        }
        if let Some(flows) = self.flows
            && !self.count.is_some_and(|count| (1..=count).contains(&flows))
        {
            return Err(("flows", "needs a `count`, and is between 1 and that".to_owned()));
        }
        if self.gap == Some(Span::ZERO) {
            return Err(("gap", "must be above 0s; leave it out to have all messages at the start".to_owned()));
        }
        if self.gap.is_none() && self.gap_law != GapLaw::Constant {
            return Err(("gap_law", "needs a gap".to_owned()));
        }
        let &Self { gap, gap_law: law, streaming, .. } = self;
        let count = records.as_ref().map(|records| records.count()).or(self.count);
        let flows = self.flows.unwrap_or(1);
        Ok(Messages { sizes, records, count, flows, gap, law, streaming, group: group.to_owned(), seed })
    }

    fn records(&self, directory: &Path) -> Result<Option<Arc<Records>>, (&'static str, String)> {
        match (&self.records, &self.value) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(("value", "needs records".to_owned())),
            (Some(_), None) => Err(("value", "is missing: the column to average".to_owned())),
            (Some(_), Some(_)) if self.count.is_some() => {
                Err(("count", "the records are counted; leave it out".to_owned()))
            }
            (Some(path), Some(column)) => match Records::read(path, column, directory) {
                Ok(records) => Ok(Some(Arc::new(records))),
                Err(why) => Err(("records", why)),
            },
        }
    }
}

impl Messages {
    /// Every flow is cut into messages of `bytes`, the last one what is left; all are there at the start.
    pub fn cut(bytes: u16) -> Self {
        Self {
            sizes: Distribution::fixed(bytes.max(1).into()).expect("a size above 0"),
            records: None,
            count: None,
            flows: 1,
            gap: None,
            law: GapLaw::Constant,
            streaming: false,
            group: String::new(),
            seed: 0,
        }
    }

    /// Messages of each flow, or of those that take its messages in turn, if their number decides its size.
    pub fn count(&self) -> Option<u32> {
        self.count
    }

    /// Flows that take the messages of one in turn.
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// Whether messages come over time, so that a flow needs no end.
    pub fn arrive_over_time(&self) -> bool {
        self.gap.is_some()
    }

    /// Mean payload bytes of a flow whose messages are counted, and mean bytes on the wire; of all that take its messages in
    /// turn.
    pub fn mean_flow_bytes(&self, packets: PacketFormat) -> Option<(f64, f64)> {
        let count = f64::from(self.count?);
        if let Some(records) = &self.records {
            let sizes = (0..records.count()).map(|number| u64::from(records.bytes(number)));
            let wire = sizes.clone().map(|bytes| packets.wire_bytes(bytes) as f64).sum();
            return Some((sizes.sum::<u64>() as f64, wire));
        }
        Some((count * self.sizes.mean_bytes(), count * packets.mean_wire_bytes(&self.sizes)))
    }

    /// Payload bytes of the flow with this number in its group.
    pub fn flow_bytes(&self, sequence: u64) -> u64 {
        match (self.count, &self.records, self.sizes.only_size()) {
            (Some(_), None, Some(bytes)) => u64::from(self.count_of(sequence, 0)) * bytes,
            _ => self.source(sequence, 0).map(|message| u64::from(message.bytes)).sum(),
        }
    }

    /// Messages of the flow with this number in its group, of `bytes` payload bytes unless messages are counted.
    pub fn count_of(&self, sequence: u64, bytes: u64) -> u32 {
        // Rounded up for those that come first.
        let of_flow = |count: u32| (count + self.flows - 1 - self.turn(sequence)) / self.flows;
        self.count.map_or_else(|| self.source(sequence, bytes).count() as u32, of_flow)
    }

    /// Which of the flows that take messages in turn the one with this number is.
    fn turn(&self, sequence: u64) -> u32 {
        (sequence % u64::from(self.flows)) as u32
    }

    /// The messages of the flow with this number in its group, of `bytes` payload bytes unless messages are counted.
    pub fn source(&self, sequence: u64, bytes: u64) -> MessageSource {
        let whole = sequence / u64::from(self.flows);
        let stream =
            |choice: &str| Stream::named(self.seed, &format!("traffic.{}.messages.{choice}.{whole}", self.group));
        let mut source = MessageSource {
            only_size: self.sizes.only_size(),
            records: self.records.clone(),
            number: 0,
            sizes: self.sizes.clone(),
            gap_ps: self.gap.map(|gap| gap.as_ps() as f64),
            law: self.law,
            messages_left: self.count.map_or(u64::MAX, u64::from),
            bytes_left: if self.count.is_some() { u64::MAX } else { bytes },
            at: 0,
            fraction: 0.0,
            first: true,
            size_choice: stream("sizes"),
            gap_choice: stream("gaps"),
            others: 0,
        };
        source.leave_to_others(self.turn(sequence));
        MessageSource { others: self.flows - 1, ..source }
    }
}

/// One message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// When the application hands it over, from the flow's start.
    pub after: Span,
    /// Its bytes.
    pub bytes: u32,
}

/// The messages of one flow, in their order.
#[derive(Clone, Debug)]
pub struct MessageSource {
    sizes: Distribution,
    /// Nothing is drawn where there is only one.
    only_size: Option<u64>,
    records: Option<Arc<Records>>,
    /// Of the next message.
    number: u32,
    gap_ps: Option<f64>,
    law: GapLaw,
    messages_left: u64,
    bytes_left: u64,
    /// When the last message came: whole picoseconds and the fraction that the next gap carries.
    at: u64,
    fraction: f64,
    first: bool,
    size_choice: Stream,
    gap_choice: Stream,
    /// Messages that other flows take between two of this one.
    others: u32,
}

impl MessageSource {
    /// The records that the messages are, if they are.
    pub fn records(&self) -> Option<&Records> {
        self.records.as_deref()
    }

    fn gap(&mut self, mean: f64) -> f64 {
        match self.law {
            GapLaw::Constant => mean,
            GapLaw::Exponential => self.gap_choice.exponential(mean),
            GapLaw::KeyValue => {
                // Mean scale / (1 - shape); the inverse of 1 - (1 + shape x / scale)^(-1 / shape).
                let scale = mean * (1.0 - KEY_VALUE_SHAPE);
                scale * (libm::pow(1.0 - self.gap_choice.unit(), -KEY_VALUE_SHAPE) - 1.0) / KEY_VALUE_SHAPE
            }
        }
    }

    fn leave_to_others(&mut self, messages: u32) {
        for _ in 0..messages {
            self.next_of_all();
        }
    }

    fn next_of_all(&mut self) -> Option<Message> {
        if self.messages_left == 0 || self.bytes_left == 0 {
            return None;
        }
        if let Some(mean) = self.gap_ps.filter(|_| !std::mem::take(&mut self.first)) {
            let gap = self.gap(mean) + self.fraction;
            let whole = libm::floor(gap);
            self.fraction = gap - whole;
            self.at = self.at.saturating_add(whole as u64);
        }
        let bytes = match &self.records {
            Some(records) => u64::from(records.bytes(self.number)),
            None => self.only_size.unwrap_or_else(|| self.sizes.sample(&mut self.size_choice)).min(self.bytes_left),
        };
        self.number = self.number.wrapping_add(1);
        self.messages_left -= 1;
        self.bytes_left -= bytes;
        Some(Message { after: Span::from_ps(self.at), bytes: bytes as u32 })
    }
}

impl Iterator for MessageSource {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        let message = self.next_of_all();
        self.leave_to_others(self.others);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(spec: &MessagesSpec) -> Messages {
        spec.build("jobs", 1, Path::new("")).unwrap()
    }

    fn spec(size: &str, count: Option<u32>) -> MessagesSpec {
        MessagesSpec { size: Some(size.parse().unwrap()), count, ..MessagesSpec::default() }
    }

    #[test]
    fn a_flow_is_cut_into_messages_and_a_rest() {
        let sizes: Vec<u32> = build(&spec("1kB", None)).source(0, 2500).map(|message| message.bytes).collect();
        assert_eq!(sizes, [1000, 1000, 500]);
    }

    /// Counted messages decide the flow's size: what is announced is what is handed over.
    #[test]
    fn counted_messages_decide_the_size_of_the_flow() {
        let messages = build(&spec("1B..1kB", Some(50)));
        let handed: Vec<Message> = messages.source(3, 0).collect();
        assert_eq!(handed.len(), 50);
        assert_eq!(handed.iter().map(|message| u64::from(message.bytes)).sum::<u64>(), messages.flow_bytes(3));
        assert_ne!(messages.flow_bytes(3), messages.flow_bytes(4), "each flow draws by itself");
    }

    /// Flows that take messages in turn have together what one flow alone has, message by message.
    #[test]
    fn flows_take_messages_in_turn() {
        let spec =
            MessagesSpec { gap: Some(Span::from_us(1)), gap_law: GapLaw::Exponential, ..spec("1B..1kB", Some(50)) };
        let (alone, three) = (build(&spec), build(&MessagesSpec { flows: Some(3), ..spec }));
        let taken: Vec<Vec<Message>> = (21..24).map(|sequence| three.source(sequence, 0).collect()).collect();
        for (number, message) in alone.source(7, 0).enumerate() {
            assert_eq!(taken[number % 3][number / 3], message, "message {number}");
        }
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [17, 17, 16]);
        assert_eq!([21, 22, 23].map(|sequence| three.count_of(sequence, 0)), [17, 17, 16]);
        assert_eq!((21..24).map(|sequence| three.flow_bytes(sequence)).sum::<u64>(), alone.flow_bytes(7));
    }

    /// Every law keeps its mean: within four standard errors of 100,000 gaps (of the Pareto law the variance is
    /// mean² / (1 - 2 shape)). The key-value law's median is scale (2^shape - 1) / shape, 11.74 us at the published mean.
    #[test]
    fn gaps_keep_their_mean() {
        let mean = 18.97e-6;
        for (law, deviation) in [(GapLaw::Constant, 0.0), (GapLaw::Exponential, 1.0), (GapLaw::KeyValue, 1.204)] {
            let spec = MessagesSpec { gap: Some(Span::from_secs_f64(mean)), gap_law: law, ..spec("1B", Some(100_001)) };
            let times: Vec<f64> = build(&spec).source(0, 0).map(|message| message.after.as_secs_f64()).collect();
            assert_eq!(times[0], 0.0, "the first is there at the start");
            let measured = times[100_000] / 100_000.0;
            let tolerance = 4.0 * deviation * mean / f64::sqrt(100_000.0) + 1e-12;
            assert!((measured - mean).abs() < tolerance, "{law:?}: {measured}");
            if law == GapLaw::KeyValue {
                let mut gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
                gaps.sort_by(f64::total_cmp);
                assert!((gaps[50_000] / 11.734e-6 - 1.0).abs() < 0.02, "{}", gaps[50_000]);
            }
        }
    }

    #[test]
    fn impossible_messages_are_refused_by_key() {
        let refused = |spec: MessagesSpec| spec.build("jobs", 1, Path::new("")).unwrap_err().0;
        assert_eq!(refused(MessagesSpec::default()), "size");
        assert_eq!(refused(spec("5GB", None)), "size");
        assert_eq!(refused(spec("1kB", Some(0))), "count");
        assert_eq!(refused(MessagesSpec { flows: Some(2), ..spec("1kB", None) }), "flows");
        assert_eq!(refused(MessagesSpec { flows: Some(0), ..spec("1kB", Some(5)) }), "flows");
        assert_eq!(refused(MessagesSpec { flows: Some(6), ..spec("1kB", Some(5)) }), "flows");
        assert_eq!(refused(MessagesSpec { gap: Some(Span::ZERO), ..spec("1kB", None) }), "gap");
        assert_eq!(refused(MessagesSpec { gap_law: GapLaw::KeyValue, ..spec("1kB", None) }), "gap_law");
    }
}
