//! Topics of Kafka: their names, patterns of names, their numbers, and classes that follow from them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pliant_kafka::TopicName;

/// Most topics whose numbers are known, and most that are asked for on a connection.
pub(crate) const MAX_TOPICS: usize = 10_000;
/// Most bytes of a topic's name.
const MAX_TOPIC_BYTES: usize = 249;

/// Whether a broker would have a topic of this name (`Topic.validate` of Apache Kafka). Names are kept, and printed.
pub(crate) fn is_topic(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_TOPIC_BYTES).contains(&name.len()) && name.bytes().all(plain)
}

/// Whether a name is what a pattern says. The parts between stars are looked for in order, each as early as it can be.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    name.ends_with(tail)
}

/// The classes of a door's topics.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct TopicClasses {
    /// The class of the door, which all others have.
    pub(crate) others: String,
    /// Patterns of names, each with its class.
    pub(crate) rules: Vec<(String, String)>,
}

impl TopicClasses {
    /// The class of a topic. If rules differ, it is the door's.
    fn of(&self, topic: &str) -> &str {
        let mut found = self.rules.iter().filter(|(topics, _)| matches(topics, topic)).map(|(_, class)| class);
        let Some(first) = found.next() else { return &self.others };
        if found.all(|class| class == first) { first } else { &self.others }
    }
}

/// The class of a client's connection. It begins in the door's, moves to that of the topics that it names first, and goes back for
/// good once it names one of another class: what must not give way never travels in a class that does.
#[derive(Debug)]
pub(crate) struct ConnectionClass<'c> {
    classes: &'c TopicClasses,
    current: &'c str,
    /// That of the topics that were named.
    named: Option<&'c str>,
    /// It stays where it is.
    settled: bool,
}

impl<'c> ConnectionClass<'c> {
    pub(crate) fn new(classes: &'c TopicClasses) -> Self {
        Self { classes, current: &classes.others, named: None, settled: false }
    }

    /// The connection with the broker cannot be replaced by another.
    pub(crate) fn settle(&mut self) {
        self.settled = true;
    }

    /// A request names topics: the class to which the connection moves, if it does.
    pub(crate) fn name(&mut self, topics: &[TopicName<'_>], numbers: &TopicNumbers) -> Option<&'c str> {
        let classes = self.classes;
        for topic in topics {
            let class = match topic {
                TopicName::Name(name) => classes.of(name),
                // A number that is not known says nothing.
                TopicName::Id(id) => match numbers.name(*id) {
                    Some(name) => classes.of(&name),
                    None => continue,
                },
            };
            if self.settled {
                return None;
            }
            if *self.named.get_or_insert(class) != class {
                self.settled = true;
                self.named = Some(&classes.others);
                break;
            }
        }
        let class = self.named.filter(|class| *class != self.current)?;
        self.current = class;
        Some(class)
    }
}

/// The number of a topic.
type TopicId = [u8; 16];

/// Names of topics and their numbers.
#[derive(Default)]
pub(crate) struct TopicNumbers {
    names: HashMap<TopicId, Arc<str>>,
    /// A topic that was made anew has another number.
    numbers: HashMap<Arc<str>, BTreeSet<TopicId>>,
}

impl TopicNumbers {
    /// A topic has this number, unless too many are known.
    pub(crate) fn learn(&mut self, id: TopicId, name: &str) {
        if self.names.get(&id).is_some_and(|known| **known == *name) {
            return;
        }
        if let Some(other) = self.names.remove(&id)
            && let Some(of_other) = self.numbers.get_mut(&other)
        {
            of_other.remove(&id);
            if of_other.is_empty() {
                self.numbers.remove(&other);
            }
        }
        if self.names.len() < MAX_TOPICS {
            let name: Arc<str> = name.into();
            self.names.insert(id, name.clone());
            self.numbers.entry(name).or_default().insert(id);
        }
    }

    /// The name of a number.
    pub(crate) fn name(&self, id: TopicId) -> Option<Arc<str>> {
        self.names.get(&id).cloned()
    }

    /// The only number of a name.
    pub(crate) fn number(&self, name: &str) -> Option<TopicId> {
        let numbers = self.numbers.get(name).filter(|numbers| numbers.len() == 1)?;
        numbers.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection moves to the class of what it names first, and back for good when it names another; never anywhere else.
    #[test]
    fn a_connection_is_of_the_class_of_its_topics() {
        let rule = |topics: &str, class: &str| (topics.to_owned(), class.to_owned());
        let rules = vec![rule("clicks.*", "low"), rule("views", "low"), rule("*.eu", "bulk"), rule("logs", "bulk")];
        let classes = TopicClasses { others: "online".to_owned(), rules };
        let mut numbers = TopicNumbers::default();
        numbers.learn([1; 16], "logs");
        let id = |byte| TopicName::Id([byte; 16]);
        let name = TopicName::Name;
        for (requests, moves) in [
            // Of both rules about clicks.eu neither holds.
            (
                vec![vec![], vec![name("clicks.us"), name("views")], vec![name("clicks.a")]],
                vec![None, Some("low"), None],
            ),
            (
                vec![vec![name("clicks.us")], vec![name("orders")], vec![name("views")]],
                vec![Some("low"), Some("online"), None],
            ),
            (vec![vec![name("clicks.us"), name("logs")], vec![name("logs")]], vec![None, None]),
            (vec![vec![name("orders")], vec![name("views")], vec![name("views")]], vec![None, None, None]),
            (
                vec![vec![name("views")], vec![name("logs")], vec![name("logs")]],
                vec![Some("low"), Some("online"), None],
            ),
            (vec![vec![id(2)], vec![id(1)], vec![id(2)]], vec![None, Some("bulk"), None]),
            (vec![vec![name("clicks.eu")]], vec![None]),
        ] {
            let mut connection = ConnectionClass::new(&classes);
            let found: Vec<_> = requests.iter().map(|topics| connection.name(topics, &numbers)).collect();
            assert_eq!(found, moves, "{requests:?}");
        }
        let mut settled = ConnectionClass::new(&classes);
        settled.settle();
        assert_eq!(settled.name(&[name("views")], &numbers), None);
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, is) in [
            ("clicks", "clicks", true),
            ("clicks", "clicks2", false),
            ("clicks.*", "clicks.eu", true),
            ("clicks.*", "clicks", false),
            ("*", "", true),
            ("*.eu", "clicks.eu", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a**b", "ab", true),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    /// A name has one number, or it is not known which; a number has the name that was heard last.
    #[test]
    fn topics_are_known_by_name_and_number() {
        let mut topics = TopicNumbers::default();
        let [one, two] = [[1; 16], [2; 16]];
        topics.learn(one, "clicks");
        topics.learn(one, "clicks");
        assert_eq!((topics.name(one).as_deref(), topics.number("clicks")), (Some("clicks"), Some(one)));
        topics.learn(two, "clicks");
        assert_eq!((topics.name(two).as_deref(), topics.number("clicks")), (Some("clicks"), None));
        topics.learn(one, "views");
        assert_eq!((topics.number("views"), topics.number("clicks")), (Some(one), Some(two)));
        topics.learn(two, "views");
        assert_eq!((topics.number("clicks"), topics.numbers.len()), (None, 1));
        for number in 0..MAX_TOPICS as u128 + 5 {
            topics.learn(number.to_be_bytes(), "many");
        }
        assert_eq!(topics.names.len(), MAX_TOPICS);
    }
}
