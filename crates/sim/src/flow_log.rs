//! Flow logs of other tools as traces: what an export of nfdump, or a summary of a capture by tshark, says of each flow.
//!
//! | form | made by | what is read |
//! |---|---|---|
//! | nfdump CSV | `nfdump -r FILE -o csv` | columns `ts` or `first`, `sa`, `da`, `ibyt` (and `obyt`, the other direction) |
//! | tshark conversations | `tshark -r FILE -q -z conv,tcp` | both ends, bytes each way, start |
//!
//! Each direction with bytes is a flow. Hosts are numbered as they first appear; the numbers are those of a scenario's hosts.

use std::collections::BTreeMap;
use std::fmt::Write;

use pliant_proto::time::Span;

use crate::traffic::UNLIMITED_BYTES;

/// Most flows of a log.
const MAX_FLOWS: usize = 2_000_000;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// A log as a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct FlowLog {
    /// The trace: `start,src,dst,bytes`, with the names of the log.
    pub trace: String,
    /// The names and their numbers: `name,host`.
    pub hosts: String,
    /// How many flows there are.
    pub flows: usize,
    /// How many hosts.
    pub host_count: usize,
    /// From the first start to the last.
    pub length: Span,
    /// Lines that were left out, since they have no bytes or stay within a host.
    pub left_out: usize,
}

/// Days and the seconds of the day: all seconds in one number would be good to microseconds only.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Time {
    days: f64,
    seconds: f64,
}

impl Time {
    /// Seconds since `earlier`.
    fn since(self, earlier: Self) -> f64 {
        (self.days - earlier.days) * DAY_S + (self.seconds - earlier.seconds)
    }
}

struct Flow {
    start: Time,
    source: String,
    destination: String,
    bytes: u64,
}

/// Reads a log in either form; an error names the line.
pub fn read(text: &str) -> Result<FlowLog, String> {
    let is_conversations = text.lines().take(8).any(|line| line.contains("Conversations"));
    let (mut flows, left_out) = if is_conversations { conversations(text)? } else { nfdump(text)? };
    if flows.is_empty() {
        return Err("no flow is in it".to_owned());
    }
    flows.sort_by(|a, b| a.start.days.total_cmp(&b.start.days).then(a.start.seconds.total_cmp(&b.start.seconds)));
    let first = flows[0].start;
    let mut names = BTreeMap::<&str, usize>::new();
    let mut order: Vec<&str> = Vec::new();
    let mut trace = String::from("start,src,dst,bytes\n");
    for flow in &flows {
        for name in [flow.source.as_str(), flow.destination.as_str()] {
            names.entry(name).or_insert_with(|| {
                order.push(name);
                order.len() - 1
            });
        }
        writeln!(trace, "{:.9},{},{},{}", flow.start.since(first), flow.source, flow.destination, flow.bytes)
            .expect(TAKES_ALL);
    }
    let mut hosts = String::from("name,host\n");
    for (number, name) in order.iter().enumerate() {
        writeln!(hosts, "{name},{number}").expect(TAKES_ALL);
    }
    let length = Span::from_secs_f64(flows[flows.len() - 1].start.since(first));
    Ok(FlowLog { trace, hosts, flows: flows.len(), host_count: order.len(), length, left_out })
}

const TAKES_ALL: &str = "a string takes all";

/// Adds a flow unless it says nothing; whether it was added.
fn add(flows: &mut Vec<Flow>, start: Time, ends: (&str, &str), bytes: u64) -> Result<bool, String> {
    if bytes == 0 || ends.0 == ends.1 {
        return Ok(false);
    }
    if flows.len() == MAX_FLOWS {
        return Err(format!("more than {MAX_FLOWS} flows"));
    }
    for name in [ends.0, ends.1] {
        if name.is_empty() || name.contains([',', '"', '#']) {
            return Err(format!("\"{name}\" is no address"));
        }
    }
    let (source, destination) = (ends.0.to_owned(), ends.1.to_owned());
    flows.push(Flow { start, source, destination, bytes: bytes.min(UNLIMITED_BYTES - 1) });
    Ok(true)
}

fn nfdump(text: &str) -> Result<(Vec<Flow>, usize), String> {
    let mut lines = text.lines().map(str::trim).zip(1..).filter(|(line, _)| !line.is_empty());
    let (header, _) = lines.next().ok_or("it is empty")?;
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    let place = |names: &[&str]| columns.iter().position(|column| names.contains(column));
    let need = |names: &[&str]| {
        place(names).ok_or_else(|| format!("1: no column `{}`, which `nfdump -o csv` writes", names[0]))
    };
    let (start, source, destination) = (need(&["ts", "first"])?, need(&["sa", "srcAddr"])?, need(&["da", "dstAddr"])?);
    let (bytes, back) = (need(&["ibyt", "bytes"])?, place(&["obyt"]));
    let (mut flows, mut left_out) = (Vec::new(), 0);
    for (line, number) in lines {
        // What follows are totals of the whole file.
        if line.starts_with("Summary") {
            break;
        }
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let cell = |at: usize| {
            cells.get(at).copied().ok_or_else(|| format!("{number}: {} columns, not {}", cells.len(), columns.len()))
        };
        let start = time_of(cell(start)?).map_err(|why| format!("{number}: {why}"))?;
        let count = |at: usize| {
            let text = cell(at)?;
            text.parse::<u64>().map_err(|_| format!("{number}: \"{text}\" is not a number of bytes"))
        };
        let ends = (cell(source)?, cell(destination)?);
        let at_line = |why: String| format!("{number}: {why}");
        let mut said = add(&mut flows, start, ends, count(bytes)?).map_err(at_line)?;
        if let Some(back) = back {
            said |= add(&mut flows, start, (ends.1, ends.0), count(back)?).map_err(at_line)?;
        }
        left_out += usize::from(!said);
    }
    Ok((flows, left_out))
}

/// `2026-03-01 22:15:07.125`, days counted from the year 0; or seconds as a number.
fn time_of(text: &str) -> Result<Time, String> {
    let refuse = || format!("\"{text}\" is not a time such as 2026-03-01 22:15:07.125");
    if let Ok(seconds) = text.parse::<f64>() {
        return if seconds.is_finite() && seconds >= 0.0 { Ok(Time { days: 0.0, seconds }) } else { Err(refuse()) };
    }
    let (date, time) = text.split_once([' ', 'T']).ok_or_else(refuse)?;
    let numbers = |text: &str, separator: char| -> Option<Vec<f64>> {
        let parts: Option<Vec<f64>> = text.split(separator).map(|part| part.parse::<f64>().ok()).collect();
        parts.filter(|parts| parts.len() == 3 && parts.iter().all(|part| part.is_finite() && *part >= 0.0))
    };
    let (date, time) = (numbers(date, '-').ok_or_else(refuse)?, numbers(time, ':').ok_or_else(refuse)?);
    let [year, month, day] = [date[0], date[1], date[2]];
    if !(1.0..=12.0).contains(&month)
        || !(1.0..=31.0).contains(&day)
        || year > 9999.0
        || time[0] >= 24.0
        || time[1] >= 60.0
    {
        return Err(refuse());
    }
    // Days since the first of March of the year 0 (Howard Hinnant, chrono-compatible low-level date algorithms).
    let (year, month) = if month <= 2.0 { (year - 1.0, month + 9.0) } else { (year, month - 3.0) };
    let days = 365.0 * year + (year / 4.0).floor() - (year / 100.0).floor() + (year / 400.0).floor();
    let days = days + ((153.0 * month + 2.0) / 5.0).floor() + day - 1.0;
    Ok(Time { days, seconds: time[0] * 3600.0 + time[1] * 60.0 + time[2] })
}

/// A line: `10.0.0.1:5000 <-> 10.0.0.2:80  12 3400 bytes  10 900 bytes  22 4300 bytes  0.000000 1.5`; the first count is of the
/// direction `<-`.
fn conversations(text: &str) -> Result<(Vec<Flow>, usize), String> {
    let (mut flows, mut left_out) = (Vec::new(), 0);
    for (line, number) in text.lines().zip(1..) {
        let Some((left, rest)) = line.split_once("<->") else { continue };
        let words: Vec<&str> = rest.split_whitespace().filter(|word| *word != "|").collect();
        // Only lines of ends and counts; headings have the arrow, too.
        if left.trim().is_empty() || words.len() < 8 {
            continue;
        }
        let address = |end: &str| {
            let end = end.trim();
            end.rsplit_once(':').map_or(end, |(address, _)| address).to_owned()
        };
        let mut counts = Vec::new();
        let mut at = 1;
        // Frames, then bytes, which newer versions write with a unit.
        while counts.len() < 3 {
            let bytes = words.get(at + 1).and_then(|word| word.parse::<f64>().ok());
            let bytes = bytes.ok_or_else(|| format!("{number}: no bytes in this line"))?;
            let (factor, width) = match words.get(at + 2).copied() {
                Some("bytes") => (1.0, 3),
                Some("kB") => (1e3, 3),
                Some("MB") => (1e6, 3),
                Some("GB") => (1e9, 3),
                _ => (1.0, 2),
            };
            counts.push((bytes * factor) as u64);
            at += width;
        }
        let start =
            words.get(at).and_then(|word| word.parse::<f64>().ok()).filter(|start| start.is_finite() && *start >= 0.0);
        let seconds = start.ok_or_else(|| format!("{number}: no start in this line"))?;
        let start = Time { days: 0.0, seconds };
        let (a, b) = (address(left), address(words[0]));
        let at_line = |why: String| format!("{number}: {why}");
        let back = add(&mut flows, start, (&b, &a), counts[0]).map_err(at_line)?;
        let there = add(&mut flows, start, (&a, &b), counts[1]).map_err(at_line)?;
        left_out += usize::from(!back && !there);
    }
    Ok((flows, left_out))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NFDUMP: &str = "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt\n\
        2024-02-29 23:59:59.500,2024-03-01 00:00:00,0.5,10.0.0.7,10.0.0.9,5000,80,TCP,....,0,0,4,5200,3,180\n\
        2024-02-29 23:59:58.000,x,x,10.0.0.9,10.0.0.8,1,2,TCP,.,0,0,1,100,0,0\n\
        2024-03-01 00:00:00.250,x,x,10.0.0.8,10.0.0.8,1,2,TCP,.,0,0,1,100,0,0\n\
        Summary\nflows,bytes\n2,5\n";

    #[test]
    fn a_log_of_nfdump_is_a_trace() {
        let log = read(NFDUMP).unwrap();
        assert_eq!(
            log.trace,
            "start,src,dst,bytes\n0.000000000,10.0.0.9,10.0.0.8,100\n1.500000000,10.0.0.7,10.0.0.9,5200\n\
             1.500000000,10.0.0.9,10.0.0.7,180\n"
        );
        assert_eq!(log.hosts, "name,host\n10.0.0.9,0\n10.0.0.8,1\n10.0.0.7,2\n");
        assert_eq!((log.flows, log.host_count, log.left_out, log.length), (3, 3, 1, Span::from_ms(1500)));
        for (wrong, why) in [
            ("", "it is empty"),
            ("a,b\n", "1: no column `ts`"),
            ("ts,sa,da,ibyt\n", "no flow is in it"),
            ("ts,sa,da,ibyt\n1.5,a,b\n", "2: 3 columns, not 4"),
            ("ts,sa,da,ibyt\n1.5,a,b,many\n", "2: \"many\" is not a number of bytes"),
            ("ts,sa,da,ibyt\nnoon,a,b,5\n", "2: \"noon\" is not a time"),
            ("ts,sa,da,ibyt\n2024-13-01 00:00:00,a,b,5\n", "is not a time"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn a_summary_of_tshark_is_a_trace() {
        let text = "====\nTCP Conversations\nFilter:<No Filter>\n   |  <-  | |  ->  | | Total | Relative | Duration |\n\
            10.0.0.1:40000 <-> 10.0.0.2:443   12 3400 bytes   10 90 kB   22 93 kB   0.250000000   1.5\n\
            10.0.0.3:1 <-> 10.0.0.1:2   0 0   1 60   1 60   0.000000000   0.1\n====\n";
        let log = read(text).unwrap();
        assert_eq!(
            log.trace,
            "start,src,dst,bytes\n0.000000000,10.0.0.3,10.0.0.1,60\n0.250000000,10.0.0.2,10.0.0.1,3400\n\
             0.250000000,10.0.0.1,10.0.0.2,90000\n"
        );
    }

    /// Days are counted as in the calendar: a leap day, and no leap year in 2100.
    #[test]
    fn times_count_days() {
        let days = |a: &str, b: &str| time_of(b).unwrap().since(time_of(a).unwrap()) / DAY_S;
        assert_eq!(days("2024-02-28 00:00:00", "2024-03-01 00:00:00"), 2.0);
        assert_eq!(days("2100-02-28 00:00:00", "2100-03-01 00:00:00"), 1.0);
        assert_eq!(days("2023-12-31 12:00:00", "2024-01-01 00:00:00"), 0.5);
    }

    proptest! {
        /// Any text is read or refused in a line.
        #[test]
        fn any_text_is_read_or_refused(text in "(ts,sa,da,ibyt\n|TCP Conversations\n)?([0-9a:., <>-]{0,30}\n){0,5}") {
            if let Err(why) = read(&text) {
                prop_assert!(!why.contains('\n'));
            }
        }
    }
}
