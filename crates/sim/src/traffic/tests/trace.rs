//! Traces of flows: what is written is read back, and what is wrong is refused.

use std::fs;
use std::path::PathBuf;

use super::*;

/// A trace in the temporary folder, removed at the end of the test.
struct TraceFile(PathBuf);

impl TraceFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pliant-{}-{name}.csv", std::process::id()));
        fs::write(&path, text).unwrap();
        Self(path)
    }

    fn group(&self) -> String {
        format!("kind = 'trace'\npath = '{}'", self.0.display())
    }
}

impl Drop for TraceFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Generated flows written as a trace read back the same, class included.
#[test]
fn traces_round_trip() {
    let fabric = fabric(2, 4, 1, Span::from_ms(20));
    let mut expected = flows(&fabric, &[("rpc", "kind = 'poisson'\nload = 0.9\nworkload = 'hadoop'")]);
    expected.iter_mut().step_by(3).for_each(|flow| flow.class = Some(1));
    let mut text = Vec::new();
    write_trace(expected.iter().copied(), &mut text).unwrap();
    let file = TraceFile::new("round-trip", &String::from_utf8(text).unwrap());
    assert_eq!(flows(&fabric, &[("replay", &file.group())]), expected);
    assert!(expected.len() > 200);
}

/// Times in seconds and with units, sizes with units, class names, comments, shift and cut.
#[test]
fn trace_forms() {
    let text =
        "# measured\nstart,src,dst,bytes,class\n0.0015,0,1,100,\n1.5e-3,1,0,1kB,scavenger\n2ms,0,1,5,7\n1s,0,1,5,\n";
    let file = TraceFile::new("forms", text);
    let fabric = fabric(1, 2, 1, Span::from_ms(50));
    let group = format!("{}\nstart = '1ms'", file.group());
    let flows = flows(&fabric, &[("replay", &group)]);
    let seen: Vec<_> = flows.iter().map(|flow| (flow.start.to_string(), flow.bytes, flow.class)).collect();
    let expected = [("2500us", 100, None), ("2500us", 1000, Some(1)), ("3ms", 5, Some(7))];
    assert_eq!(seen, expected.map(|(start, bytes, class)| (start.to_owned(), bytes, class)));
}

/// Hosts by the names that another file maps to numbers; an unknown name is refused by line, a wrong mapping by its own.
#[test]
fn hosts_of_a_trace_may_have_names() {
    let fabric = fabric(1, 3, 1, Span::from_ms(50));
    let trace = TraceFile::new("names", "start,src,dst,bytes\n0,10.0.0.7,db1,100\n1ms,db1,web,5\n");
    let group = |names: &TraceFile| format!("{}\nhosts_file = '{}'", trace.group(), names.0.display());
    let names = TraceFile::new("hosts", "# racks\nname,host\n10.0.0.7,2\ndb1,0\ndb1.example,0\nweb,1\n");
    assert_eq!(pairs(&flows(&fabric, &[("replay", &group(&names))])), [(2, 0), (0, 1)]);
    for (text, why) in [
        ("name,host\n10.0.0.7,2\ndb1,0\n", "3: \"web\" is not in the file of hosts' names"),
        ("name,host\ndb1,3\n", ":2: host 3 does not exist, hosts are 0 to 2"),
        ("name,host\ndb1,0\ndb1,1\n", ":3: \"db1\" is named twice"),
        ("name,host\ndb1,x\n", ":2: \"x\" is not a host's number"),
        ("db1,0\n", ":1: the first line must be \"name,host\""),
    ] {
        let names = TraceFile::new("wrong-hosts", text);
        let error = error(&fabric, &group(&names));
        assert!(error.contains(why), "{error}");
    }
}

/// A wrong line of a trace is refused before the run, by file and line.
#[test]
fn trace_errors_name_file_and_line() {
    let fabric = fabric(1, 4, 1, Span::from_secs(1));
    for (row, why) in [
        ("0.5,0,1,0,", "a flow of 0 bytes"),
        ("0.5,0,4,1,", "host 4 does not exist, hosts are 0 to 3"),
        ("0.5,2,2,1,", "host 2 would send to itself"),
        ("0.5,x,2,1,", "\"x\" is not a host index"),
        ("0.1,0,1,1,", "starts at 100ms, before the line above (200ms)"),
        ("-1,0,1,1,", "\"-1\" is not a time"),
        ("NaN,0,1,1,", "\"NaN\" is not a time"),
        ("1e30,0,1,1,", "\"1e30\" is not a time"),
        ("0.5,0,1,many,", "\"many\" is not a number of bytes"),
        ("0.5,0,1,1,gold", "\"gold\" is not a traffic class, there are: best-effort, scavenger, 0 to 31"),
        ("0.5,0,1,1,scavanger", "\"scavanger\" is not a traffic class, did you mean `scavenger`?"),
        ("0.5,0,1,1", "4 columns instead of 5"),
    ] {
        let file = TraceFile::new("errors", &format!("# x\nstart,src,dst,bytes,class\n0.2,0,1,1,\n# y\n\n{row}"));
        let message = error(&fabric, &file.group());
        let place = format!("`traffic.backup.path`: {}:6: {why}", file.0.display());
        assert!(message.starts_with(&place), "{message}");
    }
    let file = TraceFile::new("errors-header", "a,b\n");
    assert!(error(&fabric, &file.group()).contains(":1: the first line must be"));
    let file = TraceFile::new("errors-long", &format!("start,src,dst,bytes\n{}", "1".repeat(5000)));
    assert!(error(&fabric, &file.group()).contains(":2: longer than 4096 bytes"));
    assert!(error(&fabric, "kind = 'trace'\npath = 'none.csv'").starts_with("`traffic.backup.path`: none.csv: "));
    // As with a FIFO, on which nobody may ever write.
    assert!(
        error(&fabric, "kind = 'trace'\npath = '/dev/null'")
            .contains("a trace is read twice, and this is no plain file")
    );
}
