//! What a daemon says on standard error of what others have sent.

use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::mutex::lock;

/// Most that is told of a door, or of all bundles, in a minute: any client can be refused for two reasons in turn, without end.
const MAX_TOLD: u32 = 32;
const MINUTE: Duration = Duration::from_secs(60);
/// So long the same reason is not told again.
const SAME_FOR: Duration = Duration::from_secs(3600);

/// What was told of a door.
#[derive(Default)]
pub(crate) struct Told(Mutex<LastTold>);

#[derive(Default)]
struct LastTold {
    last: Option<(String, Instant)>,
    /// When a minute began, and how much was told in it.
    since: Option<Instant>,
    count: u32,
}

impl Told {
    /// Says something of a door, unless it is no news.
    pub(crate) fn tell(&self, door: &str, what: &str) {
        if self.is_news(Instant::now(), what) {
            say(door, what);
        }
    }

    /// Says something of a part that is news each time, within the bound of a minute.
    pub(crate) fn tell_each(&self, part: &str, what: &str) {
        if lock(&self.0).has_room(Instant::now()) {
            say(part, what);
        }
    }

    /// Clients try again, and the same reason is told once an hour; of others so many are told in a minute.
    fn is_news(&self, now: Instant, why: &str) -> bool {
        let mut told = lock(&self.0);
        if told.last.as_ref().is_some_and(|(last, at)| last == why && now.duration_since(*at) < SAME_FOR) {
            return false;
        }
        let is_news = told.has_room(now);
        if is_news {
            told.last = Some((why.to_owned(), now));
        }
        is_news
    }
}

impl LastTold {
    /// Whether there is room for another line in this minute, which is taken.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.duration_since(since) >= MINUTE) {
            (self.since, self.count) = (Some(now), 0);
        }
        let has_room = self.count < MAX_TOLD;
        self.count += u32::from(has_room);
        has_room
    }
}

/// Says something of a part of the daemon. What is said may be lost, for example if a disk is full: `eprintln!` would panic.
pub(crate) fn say(part: &str, what: &str) {
    let _ = std::io::stderr().write_all(format!("{}\n", line(part, what)).as_bytes());
}

/// One line, in which no terminal finds a command: names of brokers, topics and files are others' text.
fn line(part: &str, what: &str) -> String {
    // Quotes are no command, and stand in many sentences.
    let plain = |c: char| matches!(c, '\'' | '"');
    let shown: String =
        what.chars().map(|c| if plain(c) { c.to_string() } else { c.escape_debug().to_string() }).collect();
    format!("{part}: {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same reason is told once in a row; a client that is refused for others in turn fills no log.
    #[test]
    fn reasons_are_told_within_a_bound() {
        let (reasons, now) = (Told::default(), Instant::now());
        let told = |at: Instant| (0..1000).filter(|number| reasons.is_news(at, &(number % 2).to_string())).count();
        assert!(reasons.is_news(now, "a") && !reasons.is_news(now, "a"));
        assert_eq!(told(now), MAX_TOLD as usize - 1);
        assert_eq!(told(now + MINUTE / 2), 0);
        assert_eq!(told(now + MINUTE), MAX_TOLD as usize);
        let again = |at: Instant| reasons.is_news(at, "a");
        assert_eq!([now + 2 * MINUTE, now + 3 * MINUTE, now + 2 * MINUTE + SAME_FOR].map(again), [true, false, true]);
    }

    #[test]
    fn text_of_others_is_one_line() {
        for (what, shown) in [
            ("größer als `a`", "größer als `a`"),
            ("a frame's \"length\"", "a frame's \"length\""),
            (
                "broker 1 advertises `\u{1b}[2J\nkafka exit: all is well`",
                "broker 1 advertises `\\u{1b}[2J\\nkafka exit: all is well`",
            ),
            ("a\u{202e}b", "a\\u{202e}b"),
        ] {
            assert_eq!(line("kafka door", what), format!("kafka door: {shown}"));
        }
    }
}
