//! Flows of other Pliant processes of this host, which the kernel does not tell of.
//!
//! Each process that reports tells its number of flows in the name of an abstract Unix socket (`man 7 unix`). The socket belongs to the network
//! namespace, and vanishes with the process. A false name adds flows that do not exist. Whoever can make one could as well open flows.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use pliant_proto::host::fair_rates::FlowCounts;

use crate::entropy;

const PREFIX: &str = "pliant/flows/";

/// What this process says of its flows.
#[derive(Debug)]
pub(super) struct Sign {
    /// Which of the host's processes it is.
    id: String,
    said: FlowCounts,
    /// The socket whose name says it, unless there is nothing to say.
    socket: Option<UnixDatagram>,
}

impl Sign {
    pub(super) fn new() -> io::Result<Self> {
        let seed = entropy::seed()?;
        let (random, _) = seed.split_first_chunk().expect("a seed has 32 bytes");
        let id = format!("{:016x}", u64::from_ne_bytes(*random));
        Ok(Self { id, said: FlowCounts::default(), socket: None })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// From now on it says these numbers.
    pub(super) fn say(&mut self, numbers: FlowCounts) -> io::Result<()> {
        if numbers == self.said {
            return Ok(());
        }
        let FlowCounts { up, down } = numbers;
        let name = SocketAddr::from_abstract_name(format!("{PREFIX}{}/{up}/{down}", self.id))?;
        self.socket = (numbers != FlowCounts::default()).then(|| UnixDatagram::bind_addr(&name)).transpose()?;
        self.said = numbers;
        Ok(())
    }
}

/// The flows of all processes that say so, but for the one called `own`.
pub(super) fn of_others(own: &str) -> io::Result<FlowCounts> {
    Ok(read(&fs::read_to_string("/proc/net/unix")?, own))
}

/// The same from the kernel's list of sockets, in which abstract names begin with `@` at the end of a line.
fn read(list: &str, own: &str) -> FlowCounts {
    let names = list.lines().filter_map(|line| line.rsplit_once('@')?.1.strip_prefix(PREFIX));
    let others = names.filter_map(|name| {
        let (id, numbers) = name.split_once('/')?;
        let (up, down) = numbers.split_once('/')?;
        Some((id, FlowCounts { up: up.parse().ok()?, down: down.parse().ok()? }))
    });
    sum(others.filter(|(id, _)| *id != own).map(|(_, counts)| counts))
}

/// All flows together.
pub(super) fn sum(counts: impl Iterator<Item = FlowCounts>) -> FlowCounts {
    counts.fold(FlowCounts::default(), |sum, counts| FlowCounts {
        up: sum.up.saturating_add(counts.up),
        down: sum.down.saturating_add(counts.down),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A process sees what others say, and not itself; what is no longer said is not seen.
    #[test]
    fn processes_see_each_others_flows() {
        let (mut one, mut other) = (Sign::new().unwrap(), Sign::new().unwrap());
        // Other tests of this machine may say something, too.
        let seen = |own: &Sign, id: &str| {
            let list = fs::read_to_string("/proc/net/unix").unwrap();
            let lines: Vec<&str> = list.lines().filter(|line| line.contains(id)).collect();
            read(&lines.join("\n"), own.id())
        };
        one.say(FlowCounts { up: 3, down: 1 }).unwrap();
        assert_eq!(seen(&other, one.id()), FlowCounts { up: 3, down: 1 });
        assert_eq!(seen(&one, one.id()), FlowCounts::default());
        one.say(FlowCounts { up: 2, down: 1 }).unwrap();
        assert_eq!(seen(&other, one.id()), FlowCounts { up: 2, down: 1 });
        other.say(FlowCounts { up: 1, down: 0 }).unwrap();
        let id = one.id().to_owned();
        drop(one);
        assert_eq!(seen(&other, &id), FlowCounts::default());
        assert!(of_others("").unwrap().up >= 1);
    }

    proptest! {
        /// Names that say nothing sensible count for nothing, and none makes it panic.
        #[test]
        fn any_names_are_read(names in prop::collection::vec("[ -~]{0,40}", 0..20), up: u32, down: u32) {
            let line = |name: &String| format!("0000: 00000002 00000000 00010000 0001 01 20 @{PREFIX}{name}");
            let strange: Vec<String> = names.iter().map(line).collect();
            let good = format!("0000: 00000002 00000000 00010000 0001 01 20 @{PREFIX}abc/{up}/{down}");
            let seen = read(&[&strange[..], &[good]].concat().join("\n"), "own");
            prop_assert!(seen.up >= up && seen.down >= down);
        }
    }
}
