//! A door for programs with the preload library. Each connection is a socket pair, of which the program gets one end.

mod pair;

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_handover::{HANDED_OVER, MAX_REQUEST_BYTES, Outcome, REQUEST_HEAD_BYTES, Request};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use self::pair::{Pair, ProgramEnd};
use super::open::{OpenError, open};
use crate::config::{Config, ConfigError, NextHop, Preload, PreloadRule};
use crate::header::Service;
use crate::local_socket::LocalSocket;
use crate::mutex::lock;
use crate::shared::Shared;

/// Every user of this host can connect, as to the other doors, unless the folder excludes them.
const MODE: u32 = 0o666;
/// How long a program may take to send its request. Its library sends it at once.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Most programs beyond their users' limits that are told so at a time. Others hear nothing.
const MAX_REFUSED: usize = 64;

/// The door.
pub(crate) struct PreloadDoor(LocalSocket);

impl PreloadDoor {
    /// Creates its socket.
    pub(crate) fn bind(config: &Config, preload: &Preload) -> Result<Self, ConfigError> {
        let Preload { socket, line, .. } = preload;
        let bound = LocalSocket::bind(socket, MODE, "preload.socket");
        bound.map(Self).map_err(|error| config.wrong_line(*line, format!("{}: {error}", socket.display())))
    }

    /// Serves programs without end.
    pub(crate) async fn serve(self, shared: Arc<Shared>) {
        let (refused, users) = (Arc::new(Semaphore::new(MAX_REFUSED)), Arc::<Users>::default());
        loop {
            match self.0.accept().await {
                Ok(program) => {
                    // A program counts before it asks: one that never does takes no place of another user.
                    let Ok(user) = program.peer_cred().map(|who| who.uid()) else { continue };
                    let counted = users.count(user, shared.most(shared.exit().limits.user_connections));
                    let permit = if counted.is_none() { refused.clone().try_acquire_owned().ok() } else { None };
                    if counted.is_none() && permit.is_none() {
                        continue;
                    }
                    let shared = shared.clone();
                    drop(tokio::spawn(async move {
                        let asked = timeout(REQUEST_TIMEOUT, hand_over(program, &shared, counted)).await;
                        drop(permit);
                        if let Ok(Ok(handed_over)) = asked {
                            handed_over.serve(&shared).await;
                        }
                    }));
                }
                // Out of descriptors, or a connection that was gone at once: the next may work.
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// Connections of each user of this host.
#[derive(Default)]
struct Users(Mutex<HashMap<u32, usize>>);

/// A connection of a user. It counts until it is dropped.
struct CountedUser {
    users: Arc<Users>,
    user: u32,
}

impl Users {
    fn count(self: &Arc<Self>, user: u32, most: usize) -> Option<CountedUser> {
        let mut users = lock(&self.0);
        let count = users.get(&user).copied().unwrap_or(0);
        (count < most).then(|| {
            users.insert(user, count + 1);
            CountedUser { users: self.clone(), user }
        })
    }
}

impl Drop for CountedUser {
    fn drop(&mut self) {
        let mut users = lock(&self.users.0);
        if let Some(count) = users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.user);
            }
        }
    }
}

/// A pair of which a program has one end.
struct HandedOver {
    pair: Pair,
    next_hop: NextHop,
    service: Service,
    _counted: CountedUser,
}

/// Reads a program's request, and hands over its end of a pair, unless its user has too many. An error has already been
/// answered, as far as possible.
async fn hand_over(mut program: UnixStream, shared: &Shared, counted: Option<CountedUser>) -> io::Result<HandedOver> {
    let mut bytes = [0; MAX_REQUEST_BYTES];
    let (head, class) = bytes.split_at_mut(REQUEST_HEAD_BYTES);
    program.read_exact(head).await?;
    let length = Request::class_bytes((&*head).try_into().expect("it has this length"));
    program.read_exact(&mut class[..length]).await?;
    let asked = Request::parse(&bytes[..REQUEST_HEAD_BYTES + length]);
    let answer = asked.ok_or(Errno::INVAL).and_then(|request| {
        let counted = counted.ok_or(Errno::AGAIN)?;
        // Rules may be others than when the program was started.
        let next_hop = shared.config().preload.as_ref().and_then(|preload| route(&preload.rules, &request).cloned());
        let next_hop = next_hop.ok_or(Errno::ACCESS)?;
        let ip = request.service.ip().to_canonical();
        let service = Service { host: ip.to_string(), port: request.service.port() };
        let (pair, end) = Pair::new(request.service).map_err(|error| errno_of_service(&error))?;
        Ok((HandedOver { pair, next_hop, service, _counted: counted }, end))
    });
    match answer {
        Ok((handed_over, end)) => {
            send(&program, HANDED_OVER, Some(&end)).await?;
            shared.handed_over.fetch_add(1, Ordering::Relaxed);
            Ok(handed_over)
        }
        Err(errno) => {
            // Linux has no error of a larger number than a byte has here.
            send(&program, errno.raw_os_error() as u8, None).await?;
            Err(errno.into())
        }
    }
}

/// An answer of one byte, and a descriptor with it.
async fn send(program: &UnixStream, answer: u8, end: Option<&ProgramEnd>) -> io::Result<()> {
    let descriptors: Vec<_> = end.iter().map(|end| end.as_fd()).collect();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        Ok(sendmsg(program, &[IoSlice::new(&[answer])], &mut control, SendFlags::NOSIGNAL)?)
    };
    program.async_io(Interest::WRITABLE, send).await.map(drop)
}

/// The most specific rule of a class for a service; of any class, if none is named.
fn route<'r>(rules: &'r [PreloadRule], request: &Request<'_>) -> Option<&'r NextHop> {
    let fits = |rule: &&PreloadRule| {
        rule.service.matches(request.service.ip(), request.service.port())
            && (request.class.is_empty() || rule.next_hop.class == request.class)
    };
    // The first of equals.
    rules.iter().filter(fits).rev().max_by_key(|rule| rule.service.exactness()).map(|rule| &rule.next_hop)
}

/// The error of the program's `connect`.
fn errno_of(error: &OpenError) -> Errno {
    match error {
        // Neither the service nor its host has been asked.
        OpenError::Silent { .. } | OpenError::Peer { .. } => Errno::NETUNREACH,
        OpenError::Service { error, .. } => errno_of_service(error),
    }
}

fn errno_of_service(error: &io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Errno::CONNREFUSED,
        io::ErrorKind::PermissionDenied => Errno::ACCESS,
        io::ErrorKind::HostUnreachable => Errno::HOSTUNREACH,
        io::ErrorKind::TimedOut => Errno::TIMEDOUT,
        _ => Errno::from_io_error(error).unwrap_or(Errno::CONNRESET),
    }
}

impl HandedOver {
    /// Connects it, and carries its bytes until the end.
    async fn serve(self, shared: &Arc<Shared>) {
        let _counted = shared.count_connection();
        let Self { mut pair, next_hop, service, .. } = self;
        match open(&shared.node, &next_hop, &service).await {
            Ok(stream) => {
                if pair.settle(Outcome::Connected).is_ok() {
                    pair.relay(stream).await;
                }
            }
            Err(error) => {
                shared.preload_told.tell("preload door", &error.to_string());
                let _ = pair.settle(Outcome::Failed(errno_of(&error).raw_os_error()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most exact rule of the class that is asked for.
    #[test]
    fn rules_are_chosen_by_class_and_exactness() {
        let rules: Vec<PreloadRule> = [
            ("10.0.0.0/8:*", "a", "slow"),
            ("10.1.0.0/16:*", "b", "slow"),
            ("10.1.0.0/16:80", "c", "fast"),
            ("10.1.0.0/16:*", "d", "other"),
        ]
        .map(|(service, to, class)| PreloadRule {
            service: service.parse().unwrap(),
            next_hop: NextHop { to: to.into(), peer: ([127, 0, 0, 1], 1).into(), class: class.into() },
        })
        .into();
        for (service, class, expected) in [
            ("10.9.9.9:80", "", Some("a")),
            ("10.1.9.9:80", "", Some("c")),
            ("10.1.9.9:81", "", Some("b")),
            ("10.1.9.9:80", "slow", Some("b")),
            ("10.1.9.9:81", "fast", None),
            ("11.1.9.9:80", "", None),
            ("[::ffff:10.9.9.9]:80", "", Some("a")),
        ] {
            let found = route(&rules, &Request { service: service.parse().unwrap(), class });
            assert_eq!(found.map(|next_hop| next_hop.to.as_str()), expected, "{service} {class}");
        }
    }

    #[test]
    fn users_are_counted_until_they_go() {
        let users = Arc::<Users>::default();
        let held = users.count(7, 1).unwrap();
        assert!(users.count(7, 1).is_none() && users.count(8, 1).is_some());
        drop(held);
        assert!(users.count(7, 1).is_some());
    }
}
