//! The owners of keys, and what they may do.

use std::path::{Component, Path, PathBuf};

use super::noise::KEY_BYTES;

/// Most characters of a peer's name.
const MAX_NAME: usize = 64;

/// A peer under a static key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its public key.
    pub key: [u8; KEY_BYTES],
    /// Its name on this side.
    pub name: Option<String>,
    /// What it may do here when it calls.
    pub rights: Rights,
}

/// What a calling peer may do. Default: everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rights {
    /// Send content into this folder below the receiver's own. An empty path is the receiver's own folder.
    pub send: Option<PathBuf>,
    /// Fetch offered content.
    pub fetch: bool,
    /// Open streams: to a program, or to services that a daemon's exits allow.
    pub open: bool,
}

impl Rights {
    /// Whether these rights include all of `others`, with the same folder.
    pub(crate) fn cover(&self, others: &Self) -> bool {
        let sends = others.send.is_none() || self.send == others.send;
        sends && (self.fetch || !others.fetch) && (self.open || !others.open)
    }
}

impl Default for Rights {
    fn default() -> Self {
        Self { send: Some(PathBuf::new()), fetch: true, open: true }
    }
}

impl Peer {
    /// Reads what follows the key in a key file: nothing, a name, or a name and rights.
    pub(super) fn parse(key: [u8; KEY_BYTES], words: &[&str]) -> Result<Self, String> {
        let Some((name, rights)) = words.split_first() else {
            return Ok(Self { key, name: None, rights: Rights::default() });
        };
        check_name(name)?;
        let rights = if rights.is_empty() { Rights::default() } else { Rights::parse(rights)? };
        Ok(Self { key, name: Some((*name).to_owned()), rights })
    }

    /// Why the two cannot be in one file.
    pub(super) fn clashes_with(&self, other: &Self) -> Option<&'static str> {
        if self.key == other.key {
            Some("this peer has a line already")
        } else if self.name.is_some() && self.name == other.name {
            Some("another peer has this name")
        } else {
            None
        }
    }
}

impl Rights {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut rights = Self { send: None, fetch: false, open: false };
        for word in words {
            match word.split_once(':') {
                None if *word == "send" => rights.send = Some(PathBuf::new()),
                None if *word == "fetch" => rights.fetch = true,
                None if *word == "open" => rights.open = true,
                // Somebody without rights can still be called.
                None if *word == "nothing" => {}
                Some(("send", folder)) => rights.send = Some(check_folder(folder)?),
                _ => {
                    return Err(format!("{word}: rights are send, send:FOLDER/, fetch, open and nothing"));
                }
            }
        }
        Ok(rights)
    }
}

/// Refuses a caller without the right that it needs.
pub(crate) fn require_right(has: bool, to_do: &str) -> Result<(), String> {
    if has { Ok(()) } else { Err(format!("its key has no right to {to_do} here")) }
}

/// Checks the name of a peer: the part before the @ of an address.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
        return Err(format!("{name}: a peer's name is up to {MAX_NAME} letters, digits, dots, dashes and underscores"));
    }
    Ok(())
}

fn check_folder(folder: &str) -> Result<PathBuf, String> {
    let path = Path::new(folder);
    if folder.is_empty() || !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(format!("send:{folder}: a folder below the receiver's, such as send:backups/"));
    }
    Ok(path.to_owned())
}
