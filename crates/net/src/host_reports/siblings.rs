//! Flows of other Pliant processes of this host, which the kernel does not tell of.
//!
//! Each process that reports says how many flows it has in the name of an abstract Unix socket (`man 7 unix`), which belongs to its network
//! namespace and vanishes with it. All that it could be told falsely is that there are more flows, as if somebody had opened them.

use std::fs;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::entropy;

const PREFIX: &str = "pliant/flows/";

/// How many flows a process has on its way up and down.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct FlowNumbers {
    pub(super) up: u32,
    pub(super) down: u32,
}

/// What this process says of its flows.
#[derive(Debug)]
pub(super) struct Sign {
    /// Which of the host's processes it is.
    id: String,
    said: FlowNumbers,
    /// The socket whose name says it, unless there is nothing to say.
    socket: Option<UnixDatagram>,
}

impl Sign {
    pub(super) fn new() -> io::Result<Self> {
        let seed = entropy::seed()?;
        let (random, _) = seed.split_first_chunk().expect("a seed has 32 bytes");
        let id = format!("{:016x}", u64::from_ne_bytes(*random));
        Ok(Self { id, said: FlowNumbers::default(), socket: None })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// From now on it says these numbers.
    pub(super) fn say(&mut self, numbers: FlowNumbers) -> io::Result<()> {
        if numbers == self.said {
            return Ok(());
        }
        let FlowNumbers { up, down } = numbers;
        let name = SocketAddr::from_abstract_name(format!("{PREFIX}{}/{up}/{down}", self.id))?;
        self.socket = (numbers != FlowNumbers::default()).then(|| UnixDatagram::bind_addr(&name)).transpose()?;
        self.said = numbers;
        Ok(())
    }
}

/// The flows of all processes that say so, but for the one called `own`.
pub(super) fn of_others(own: &str) -> io::Result<FlowNumbers> {
    Ok(sum(&fs::read_to_string("/proc/net/unix")?, own))
}

/// The same from the kernel's list of sockets, in which abstract names begin with `@` at the end of a line.
fn sum(list: &str, own: &str) -> FlowNumbers {
    let names = list.lines().filter_map(|line| line.rsplit_once('@')?.1.strip_prefix(PREFIX));
    let others = names.filter_map(|name| {
        let (id, numbers) = name.split_once('/')?;
        let (up, down) = numbers.split_once('/')?;
        Some((id, FlowNumbers { up: up.parse().ok()?, down: down.parse().ok()? }))
    });
    others.filter(|(id, _)| *id != own).fold(FlowNumbers::default(), |sum, (_, numbers)| FlowNumbers {
        up: sum.up.saturating_add(numbers.up),
        down: sum.down.saturating_add(numbers.down),
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
            sum(&lines.join("\n"), own.id())
        };
        one.say(FlowNumbers { up: 3, down: 1 }).unwrap();
        assert_eq!(seen(&other, one.id()), FlowNumbers { up: 3, down: 1 });
        assert_eq!(seen(&one, one.id()), FlowNumbers::default());
        one.say(FlowNumbers { up: 2, down: 1 }).unwrap();
        assert_eq!(seen(&other, one.id()), FlowNumbers { up: 2, down: 1 });
        other.say(FlowNumbers { up: 1, down: 0 }).unwrap();
        let id = one.id().to_owned();
        drop(one);
        assert_eq!(seen(&other, &id), FlowNumbers::default());
        assert!(of_others("").unwrap().up >= 1);
    }

    proptest! {
        /// Names that say nothing sensible count for nothing, and none makes it panic.
        #[test]
        fn any_names_are_read(names in prop::collection::vec("[ -~]{0,40}", 0..20), up: u32, down: u32) {
            let line = |name: &String| format!("0000: 00000002 00000000 00010000 0001 01 20 @{PREFIX}{name}");
            let strange: Vec<String> = names.iter().map(line).collect();
            let good = format!("0000: 00000002 00000000 00010000 0001 01 20 @{PREFIX}abc/{up}/{down}");
            let seen = sum(&[&strange[..], &[good]].concat().join("\n"), "own");
            prop_assert!(seen.up >= up && seen.down >= down);
        }
    }
}
