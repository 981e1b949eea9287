//! Of which topics records may be left out, as a door asks an exit.

use pliant_kafka::ledger::MinDelivery;
use pliant_kafka::thin::LossPattern;
use serde::{Deserialize, Serialize};

use crate::topics::{is_topic, matches};

/// Most bytes of the rules as text: a stream's header has the broker's address beside them.
pub(crate) const MAX_RULES_BYTES: usize = 700;

/// A rule about topics.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicRule {
    /// A topic's name, in which `*` stands for any characters.
    pub(crate) topics: String,
    pub(crate) min_delivery: MinDelivery,
    /// Topics that brokers compact too.
    pub(crate) compacted: bool,
    /// Also while the path is free.
    pub(crate) always: bool,
    /// Exits of an earlier version know the first only.
    #[serde(default, skip_serializing_if = "is_first")]
    pub(crate) pattern: LossPattern,
    /// Exits of an earlier version know the first only, and refuse the others.
    #[serde(default, skip_serializing_if = "is_first")]
    pub(crate) carry: Carry,
}

/// How records travel. Of several the first is the strictest: what is left out is known beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Carry {
    /// In the stream; the exit leaves out what may be missing.
    #[default]
    Stream,
    /// In messages, which the path may lose.
    Messages,
}

pub(crate) fn is_first<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// All of a door's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TopicRules(pub(crate) Vec<TopicRule>);

/// What holds for a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TopicContract {
    pub(crate) min_delivery: MinDelivery,
    pub(crate) compacted: bool,
    pub(crate) always: bool,
    pub(crate) pattern: LossPattern,
    pub(crate) carry: Carry,
}

impl TopicRules {
    /// Of several rules about a topic the strictest holds in everything.
    pub(crate) fn of(&self, topic: &str) -> Option<TopicContract> {
        let mut rules = self.0.iter().filter(|rule| is_topic(topic) && matches(&rule.topics, topic));
        let contract = |rule: &TopicRule| TopicContract {
            min_delivery: rule.min_delivery,
            compacted: rule.compacted,
            always: rule.always,
            pattern: rule.pattern,
            carry: rule.carry,
        };
        let first = contract(rules.next()?);
        Some(rules.fold(first, |strictest, rule| TopicContract {
            min_delivery: strictest.min_delivery.max(rule.min_delivery),
            compacted: strictest.compacted && rule.compacted,
            always: strictest.always && rule.always,
            pattern: strictest.pattern.min(rule.pattern),
            carry: strictest.carry.min(rule.carry),
        }))
    }

    /// Whether records of some travel in messages.
    pub(crate) fn carries_messages(&self) -> bool {
        self.0.iter().any(|rule| rule.carry == Carry::Messages)
    }

    /// The same, with all records in the stream.
    pub(crate) fn in_stream(&self) -> Self {
        Self(self.0.iter().map(|rule| TopicRule { carry: Carry::Stream, ..rule.clone() }).collect())
    }

    /// From a header, which anybody with a key can write.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        (text.len() <= MAX_RULES_BYTES).then(|| serde_json::from_str(text).ok())?
    }

    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("rules are JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is no topic's name has no contract: nothing of it is kept.
    #[test]
    fn names_are_those_of_topics() {
        let rules =
            TopicRules::parse(r#"[{"topics":"*","min_delivery":500000,"compacted":false,"always":true}]"#).unwrap();
        for (name, is) in [
            ("clicks.eu_2-x".to_owned(), true),
            ("a".repeat(249), true),
            ("a".repeat(250), false),
            (String::new(), false),
            ("a\nb".to_owned(), false),
            ("größe".to_owned(), false),
        ] {
            assert_eq!(rules.of(&name).is_some(), is, "{name}");
        }
    }

    #[test]
    fn the_strictest_rule_holds() {
        let rule = |topics: &str, part, compacted, always| TopicRule {
            topics: topics.to_owned(),
            min_delivery: MinDelivery::from_part(part).unwrap(),
            compacted,
            always,
            pattern: LossPattern::Uniform,
            carry: Carry::Messages,
        };
        let mut rules = TopicRules(vec![rule("*", 0.5, true, true), rule("clicks", 0.9, false, true)]);
        rules.0[0].pattern = LossPattern::Tails;
        rules.0[1].carry = Carry::Stream;
        assert!(rules.carries_messages() && !rules.in_stream().carries_messages());
        let min_delivery = MinDelivery::from_part(0.9).unwrap();
        let (pattern, carry) = (LossPattern::Uniform, Carry::Stream);
        let both = TopicContract { compacted: false, always: true, min_delivery, pattern, carry };
        assert_eq!(rules.of("clicks"), Some(both));
        let other = rules.of("other").unwrap();
        assert!(other.compacted && other.pattern == LossPattern::Tails && other.carry == Carry::Messages);
        assert_eq!(TopicRules::parse(&rules.text()), Some(rules));
        for wrong in ["", "{}", r#"[{"topics":"a","min_delivery":0}]"#, r#"[{"topics":"a","min_delivery":1000001}]"#] {
            assert_eq!(TopicRules::parse(wrong), None, "{wrong}");
        }
    }
}
