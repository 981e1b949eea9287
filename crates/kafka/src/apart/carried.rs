//! The receiving side of a response whose records travel apart.

use std::collections::BTreeMap;

use super::{APART, AS_IT_IS, MAX_MESSAGES, Plan, Report, spend, take, take_u32};
use crate::api;
use crate::batch::{Room, join};
use crate::connection::{Fetched, OLDEST_FETCH, fetch};
use crate::refusal::Refusal;

/// A message's records: how many, and of which account.
#[derive(Clone, Copy, Debug)]
struct Group {
    account: u32,
    records: u32,
}

/// A response, and the messages of it that are here.
#[derive(Debug)]
pub struct Carried {
    flow: u32,
    version: i16,
    may_lose: Vec<u32>,
    groups: Vec<Group>,
    /// From its correlation number on.
    response: Vec<u8>,
    here: BTreeMap<u32, Box<[u8]>>,
}

impl Carried {
    /// From what a peer's [`Plan::head`] says.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let mut rest = bytes;
        let flow = take_u32(&mut rest)?;
        let version = i16::from_be_bytes(take(&mut rest, 2)?.try_into().expect("two bytes"));
        let known = api::api(api::FETCH).is_some_and(|api| api.knows(version));
        if version < OLDEST_FETCH || !known {
            return Err(Refusal::Malformed);
        }
        let accounts = take_u32(&mut rest)?;
        let may_lose = (0..accounts).map(|_| take_u32(&mut rest)).collect::<Result<Vec<_>, _>>()?;
        let count = take_u32(&mut rest)?;
        if count as usize > MAX_MESSAGES {
            return Err(Refusal::Malformed);
        }
        let group = |_| {
            let (account, records) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
            if account < accounts { Ok(Group { account, records }) } else { Err(Refusal::Malformed) }
        };
        let groups = (0..count).map(group).collect::<Result<Vec<_>, Refusal>>()?;
        if rest.len() < 4 {
            return Err(Refusal::Truncated);
        }
        Ok(Self { flow, version, may_lose, groups, response: rest.to_vec(), here: BTreeMap::new() })
    }

    /// The number of the flow in which its messages come.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Whether all of its messages are here.
    pub fn is_whole(&self) -> bool {
        self.here.len() == self.groups.len()
    }

    /// How many messages it has.
    pub fn messages(&self) -> usize {
        self.groups.len()
    }

    /// Takes a message. One that is here already, or none of it, changes nothing.
    pub fn take(&mut self, message: &[u8]) -> Result<(), Refusal> {
        let mut rest = message;
        let number = take_u32(&mut rest)?;
        if number as usize >= self.groups.len() {
            return Err(Refusal::Malformed);
        }
        self.here.entry(number).or_insert_with(|| rest.into());
        Ok(())
    }

    /// Takes messages that were asked for again.
    pub fn take_again(&mut self, mut bytes: &[u8]) -> Result<(), Refusal> {
        while !bytes.is_empty() {
            let length = take_u32(&mut bytes)?;
            self.take(take(&mut bytes, length as usize)?)?;
        }
        Ok(())
    }

    /// What is lost, as no more messages come: no account loses more than it may, and the rest is asked for again.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        let mut left = self.may_lose.clone();
        for (number, group) in (0..).zip(&self.groups) {
            if self.here.contains_key(&number) {
                continue;
            }
            let spends = spend(&mut left[group.account as usize], group.records);
            Report::push(if spends { &mut report.lost } else { &mut report.again }, number);
        }
        report
    }

    /// Appends the response that the client gets, with those records that are here.
    pub fn write(&self, output: &mut Vec<u8>) -> Result<(), Refusal> {
        let start = output.len();
        output.extend([0; 4]);
        output.extend_from_slice(&self.response[..4]);
        let (mut next, mut room) = (0, Room::for_received());
        let mut put_together = |fetched: &Fetched<'_>, left: &mut Vec<u8>| {
            let mut parts = fetched.records;
            while let [kind, rest @ ..] = parts {
                parts = rest;
                let length = take_u32(&mut parts)?;
                let mut content = take(&mut parts, length as usize)?;
                match *kind {
                    AS_IT_IS => left.extend_from_slice(content),
                    APART => {
                        let count = take_u32(&mut content)?;
                        // Every group belongs to one batch, in order.
                        let end = next + count as usize;
                        let groups = self.groups.get(next..end).ok_or(Refusal::Malformed)?;
                        let numbered = (next as u32..).zip(groups);
                        let here = numbered.filter_map(|(number, group)| {
                            self.here.get(&number).map(|bytes| (group.records, &bytes[..]))
                        });
                        left.extend(join(content, here, &mut room).map_err(|_| Refusal::Malformed)?);
                        next = end;
                    }
                    _ => return Err(Refusal::Malformed),
                }
            }
            Ok(())
        };
        fetch(self.version, &self.response[4..], &mut put_together, output)?;
        let length = output.len() - start - 4;
        output[start..start + 4].copy_from_slice(&(length as i32).to_be_bytes());
        Ok(())
    }
}

impl Plan {
    /// Appends the response as the client gets it, if all of it is in these bytes: [nothing](Plan::is_empty) was taken out.
    pub fn write_whole(&self, version: i16, response: Vec<u8>, output: &mut Vec<u8>) -> Result<(), Refusal> {
        debug_assert!(self.is_empty());
        let (may_lose, groups, here) = (Vec::new(), Vec::new(), BTreeMap::new());
        Carried { flow: 0, version, may_lose, groups, response, here }.write(output)
    }
}
