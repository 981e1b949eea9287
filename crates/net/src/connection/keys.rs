//! Key files: who may talk to whom.
//!
//! A key file is text with a word and 64 hexadecimal digits per line. `#` begins a comment. It has one of these two
//! forms:
//!
//! ```text
//! preshared 3c4f…     the one key that both sides hold
//! ```
//! ```text
//! private 77aa…                            this side's own
//! peer    91be…                            the public key of somebody it talks to
//! peer    5d20… hostb fetch send:backups/  another one, with its name, and all that it may do here
//! ```

use std::fmt;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

use super::datagram::Security;
use super::event::{ConnectError, KeyChangeError};
use super::noise::{KEY_BYTES, key_pair};
use super::peers::Peer;
use super::random::Random;

/// Most peers in one file.
const MAX_PEERS: usize = 4096;
/// Room for that many peers, each with a line of comment.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The keys of a side.
#[derive(Clone, PartialEq, Eq)]
pub enum Keys {
    /// None: connections are plain.
    Plain,
    /// A key that both sides hold. Every holder may be either side.
    Preshared([u8; KEY_BYTES]),
    /// A key pair per side.
    Static {
        /// This side's own.
        private: [u8; KEY_BYTES],
        /// The peers to which it talks.
        peers: Vec<Arc<Peer>>,
    },
}

impl fmt::Debug for Keys {
    /// Shows no secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys::{:?}", self.security())
    }
}

/// Why there are no keys.
#[derive(Debug, Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("{file}: {error}")]
    File {
        /// Which file.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// Other users may read the file.
    #[error("{0}: others may read this key: `chmod 600` it")]
    Exposed(String),
    /// The file belongs to another user, who could change who is accepted.
    #[error("{0}: it belongs to another user: `chown` it")]
    Owner(String),
    /// A line is wrong.
    #[error("{file}, line {line}: {why}")]
    Line {
        /// Which file.
        file: String,
        /// Which line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// The lines are not a complete set of keys.
    #[error("{file}: {why}")]
    Incomplete {
        /// Which file.
        file: String,
        /// What is wrong.
        why: &'static str,
    },
}

/// Whether a user trusts the owner of a file: only itself and root. Root may name any file.
fn may_own_key(owner: u32, user: u32) -> bool {
    owner == user || owner == 0 || user == 0
}

impl Keys {
    /// How connections are protected with them.
    pub fn security(&self) -> Security {
        match self {
            Self::Plain => Security::Plain,
            Self::Preshared(_) => Security::Preshared,
            Self::Static { .. } => Security::Static,
        }
    }

    /// Reads a key file. Only its owner may be able to read it, and the owner must be this user or root.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let file = path.display().to_string();
        let failed = |error| KeyError::File { file: file.clone(), error };
        // A FIFO would make it wait for somebody who writes.
        let mut options = std::fs::OpenOptions::new();
        let opened = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        if metadata.mode() & 0o077 != 0 {
            return Err(KeyError::Exposed(file));
        }
        if !may_own_key(metadata.uid(), rustix::process::geteuid().as_raw()) {
            return Err(KeyError::Owner(file));
        }
        let mut text = String::new();
        opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(KeyError::File { file, error: std::io::Error::other("larger than any key file") });
        }
        Self::parse(&text, &file)
    }

    /// Reads the text of a key file; `file` is its name in errors.
    pub fn parse(text: &str, file: &str) -> Result<Self, KeyError> {
        let (mut preshared, mut private, mut peers) = (None, None, Vec::new());
        for (index, line) in text.lines().enumerate() {
            let wrong = |why: &str| KeyError::Line { file: file.to_owned(), line: index + 1, why: why.to_owned() };
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(word) = words.next() else { continue };
            let Some(digits) = words.next() else { return Err(wrong("a line is a word and a key")) };
            let key = from_hex(digits).ok_or_else(|| wrong("a key is 64 hexadecimal digits"))?;
            let rest: Vec<&str> = words.collect();
            if word != "peer" && !rest.is_empty() {
                return Err(wrong("a line is a word and a key; names and rights are a peer's"));
            }
            let once = |slot: &mut Option<[u8; KEY_BYTES]>| match slot.replace(key) {
                None => Ok(()),
                Some(_) => Err(wrong("there can be only one of these")),
            };
            match word {
                "preshared" => once(&mut preshared)?,
                "private" => once(&mut private)?,
                "public" => {}
                "peer" if peers.len() == MAX_PEERS => return Err(wrong("too many peers: 4096 at most")),
                "peer" => {
                    let peer = Peer::parse(key, &rest).map_err(|why| wrong(&why))?;
                    if let Some(twice) = peers.iter().find_map(|other: &Arc<Peer>| other.clashes_with(&peer)) {
                        return Err(wrong(twice));
                    }
                    peers.push(Arc::new(peer));
                }
                // A key in the word's place is shown to nobody.
                _ if from_hex(word).is_some() => return Err(wrong("a line begins with a word")),
                _ => return Err(wrong(&format!("{word}: known words are preshared, private, public and peer"))),
            }
        }
        let incomplete = |why| Err(KeyError::Incomplete { file: file.to_owned(), why });
        match (preshared, private, peers.is_empty()) {
            (Some(key), None, true) => Ok(Self::Preshared(key)),
            (None, Some(private), false) => Ok(Self::Static { private, peers }),
            (None, Some(_), true) => incomplete("a private key needs at least one peer"),
            (None, None, true) => incomplete("no key"),
            (None, None, false) => incomplete("peers need a private key"),
            (Some(_), ..) => incomplete("a preshared key goes with no other"),
        }
    }

    /// The peer to call: the one with that name, or the only one.
    pub(super) fn called(&self, name: Option<&str>) -> Result<Option<Arc<Peer>>, ConnectError> {
        match (self, name) {
            (Self::Static { peers, .. }, Some(name)) => {
                let named = peers.iter().find(|peer| peer.name.as_deref() == Some(name));
                named.cloned().map(Some).ok_or_else(|| ConnectError::UnknownPeer(name.to_owned()))
            }
            (Self::Static { peers, .. }, None) if peers.len() == 1 => Ok(Some(peers[0].clone())),
            (Self::Static { .. }, None) => Err(ConnectError::ManyPeers),
            (_, Some(name)) => Err(ConnectError::NoNames(name.to_owned())),
            (_, None) => Ok(None),
        }
    }

    /// Whether something that runs under these keys can continue with `new` ones. Only peers may change.
    pub(crate) fn check_change(&self, new: &Self) -> Result<(), KeyChangeError> {
        match (self, new) {
            (Self::Static { private, .. }, Self::Static { private: other, .. }) if private == other => Ok(()),
            (old, new) if old == new => Ok(()),
            _ => Err(KeyChangeError),
        }
    }

    /// The peer with that public key.
    pub(super) fn peer(&self, key: &[u8]) -> Option<&Arc<Peer>> {
        let Self::Static { peers, .. } = self else { return None };
        peers.iter().find(|peer| peer.key == key)
    }

    /// The text of a new file with a preshared key, from 32 random bytes.
    pub fn new_preshared(random: [u8; 32]) -> String {
        let key: [u8; KEY_BYTES] = Random::from_seed(random).array();
        format!("# Whoever has this file can connect.\npreshared {}\n", to_hex(&key))
    }

    /// The text of a new file with a key pair, from 32 random bytes. Peers must be added.
    pub fn new_static(random: [u8; 32]) -> String {
        let (private, public) = key_pair(Random::from_seed(random));
        let (private, public) = (to_hex(&private), to_hex(&public));
        format!(
            "private {private}\npublic {public} # for the peer's file: peer {public}\n# peer <public key of the peer>\n"
        )
    }
}

/// New keys for something that runs under others. Its user puts them, and its loop takes them.
#[derive(Debug)]
pub struct KeyUpdates {
    first: Keys,
    waiting: AtomicBool,
    keys: Mutex<Option<Keys>>,
}

impl KeyUpdates {
    /// For something that runs under `keys`.
    pub fn new(keys: Keys) -> Self {
        Self { first: keys, waiting: AtomicBool::new(false), keys: Mutex::default() }
    }

    /// Gives new keys, unless they cannot replace the first ones.
    pub fn put(&self, keys: Keys) -> Result<(), KeyChangeError> {
        self.first.check_change(&keys)?;
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = Some(keys);
        self.waiting.store(true, Ordering::Release);
        Ok(())
    }

    /// The keys put since the last call. Takes no lock if there are none.
    pub fn take(&self) -> Option<Keys> {
        self.waiting.swap(false, Ordering::Acquire).then(|| {
            let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            keys.take()
        })?
    }
}

fn to_hex(key: &[u8; KEY_BYTES]) -> String {
    use std::fmt::Write;
    key.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string succeeds");
        text
    })
}

fn from_hex(digits: &str) -> Option<[u8; KEY_BYTES]> {
    let digits = digits.as_bytes();
    let mut key = [0; KEY_BYTES];
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        *byte = (nibble(pair[0])? << 4 | nibble(pair[1])?) as u8;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Rights;

    #[test]
    fn a_key_is_this_users_or_roots() {
        assert!(may_own_key(1000, 1000) && may_own_key(0, 1000) && may_own_key(1000, 0));
        assert!(!may_own_key(1001, 1000));
    }

    #[test]
    fn new_files_can_be_read() {
        let Ok(Keys::Preshared(key)) = Keys::parse(&Keys::new_preshared([1; 32]), "k") else {
            panic!("a preshared key")
        };
        assert_ne!(Keys::parse(&Keys::new_preshared([2; 32]), "k").unwrap(), Keys::Preshared(key));
        let pair = Keys::new_static([3; 32]);
        assert!(Keys::parse(&pair, "k").unwrap_err().to_string().contains("needs at least one peer"));
        let public = pair.split("peer ").nth(1).unwrap().lines().next().unwrap();
        let file = format!("{pair}peer {public}\n");
        assert!(matches!(Keys::parse(&file, "k").unwrap(), Keys::Static { peers, .. } if peers.len() == 1));
    }

    /// What a line of a peer says.
    #[test]
    fn peers_have_names_and_rights() {
        let rights = |rest: &str| {
            let file = format!("private {}\npeer {} {rest}\n", "01".repeat(32), "02".repeat(32));
            let Keys::Static { peers, .. } = Keys::parse(&file, "k").unwrap() else { unreachable!() };
            (peers[0].name.clone(), peers[0].rights.clone())
        };
        let name = || Some("host-b.lab".to_owned());
        let nothing = Rights { send: None, fetch: false, open: false };
        assert_eq!(rights(""), (None, Rights::default()));
        assert_eq!(rights("host-b.lab # the one below"), (name(), Rights::default()));
        assert_eq!(rights("host-b.lab nothing"), (name(), nothing.clone()));
        assert_eq!(rights("host-b.lab fetch"), (name(), Rights { fetch: true, ..nothing.clone() }));
        let below = Rights { send: Some("backups/b".into()), open: true, ..nothing };
        assert_eq!(rights("host-b.lab send:backups/b/ open"), (name(), below));
    }

    /// Every mistake names its file and line.
    #[test]
    fn mistakes_are_named() {
        let key = "ab".repeat(32);
        for (text, error) in [
            ("", "k: no key"),
            ("# nothing\n", "k: no key"),
            ("\npreshared 12\n", "k, line 2: a key is 64 hexadecimal digits"),
            ("preshared\n", "k, line 1: a line is a word and a key"),
            (&format!("secret {key}"), "k, line 1: secret: known words are preshared, private, public and peer"),
            (&format!("{key} {key}"), "k, line 1: a line begins with a word"),
            (&format!("preshared {}é", "a".repeat(62)), "k, line 1: a key is 64 hexadecimal digits"),
            (&format!("preshared {key}\npreshared {key}"), "k, line 2: there can be only one of these"),
            (&format!("preshared {key}\npeer {key}"), "k: a preshared key goes with no other"),
            (&format!("peer {key}"), "k: peers need a private key"),
            (&format!("preshared {key} name"), "k, line 1: a line is a word and a key; names and rights are a peer's"),
            (
                &format!("private {key}\npeer {key} a\npeer {} a", "cd".repeat(32)),
                "k, line 3: another peer has this name",
            ),
            (&format!("private {key}\npeer {key}\npeer {key}"), "k, line 3: this peer has a line already"),
            (
                &format!("private {key}\npeer {key} a@b"),
                "k, line 2: a@b: a peer's name is up to 64 letters, digits, dots, dashes and underscores",
            ),
            (
                &format!("private {key}\npeer {key} a write"),
                "k, line 2: write: rights are send, send:FOLDER/, fetch, open and nothing",
            ),
            (
                &format!("private {key}\npeer {key} a send:../x"),
                "k, line 2: send:../x: a folder below the receiver's, such as send:backups/",
            ),
            (
                &format!("private {key}\npeer {key} a send:/x"),
                "k, line 2: send:/x: a folder below the receiver's, such as send:backups/",
            ),
        ] {
            assert_eq!(Keys::parse(text, "k").unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn others_may_not_read_a_key() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, Keys::new_preshared([1; 32])).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(Keys::read(&path), Err(KeyError::Exposed(_))));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(Keys::read(&path).is_ok());
        assert!(matches!(Keys::read(&directory.path().join("none")), Err(KeyError::File { .. })));
        std::fs::write(&path, "#".repeat(MAX_FILE_BYTES as usize + 1)).unwrap();
        assert!(Keys::read(&path).unwrap_err().to_string().contains("larger than any key file"));
    }

    #[test]
    fn no_secret_is_printed() {
        assert_eq!(format!("{:?}", Keys::Preshared([7; 32])), "Keys::Preshared");
    }
}
