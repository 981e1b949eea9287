//! `connect` by the daemon.

use core::ffi::{CStr, c_int};
use core::net::SocketAddr;

use libc::{cmsghdr, iovec, msghdr, pollfd, sa_family_t, sockaddr_un, socklen_t, timeval};
use pliant_handover::{
    CLASS_VARIABLE, HANDED_OVER, MAX_REQUEST_BYTES, Outcome, RULES_VARIABLE, Request, SOCKET_VARIABLE, any_matches,
};

use crate::handed_over::HandedOver;
use crate::{errno, real};

/// How long the daemon may take to hand a descriptor over: it asks nobody for that.
const HANDOVER_SECONDS: libc::time_t = 10;

/// What `connect` of a program's socket to a service returns; `None` if it is left alone.
pub(crate) fn connect(descriptor: c_int, service: SocketAddr) -> Option<c_int> {
    let before = errno::get();
    let answer = try_connect(descriptor, service);
    if answer.is_none() {
        errno::set(before);
    }
    answer
}

fn try_connect(descriptor: c_int, service: SocketAddr) -> Option<c_int> {
    if let Some(here) = HandedOver::of(descriptor) {
        match here.outcome() {
            // A program asks by a second `connect` what became of the first.
            None => return Some(errno::fail(libc::EALREADY)),
            Some(Outcome::Connected) => return Some(errno::fail(libc::EISCONN)),
            Some(Outcome::Failed(_)) => match here.take_error() {
                // It knows, and tries again.
                0 => {}
                error => return Some(errno::fail(error)),
            },
        }
    } else if !is_tcp(descriptor) {
        return None;
    }
    let (socket, rules) = (variable(SOCKET_NAME)?, variable(RULES_NAME)?);
    if !any_matches(rules, service.ip(), service.port()) {
        return None;
    }
    let request = Request { service, class: variable(CLASS_NAME).unwrap_or("") };
    Some(match handover(socket, &request) {
        Ok(pair) => take_the_place(descriptor, pair),
        Err(error) => errno::fail(error),
    })
}

fn is_tcp(descriptor: c_int) -> bool {
    let is = |name, values: &[c_int]| {
        real::number_option(descriptor, libc::SOL_SOCKET, name).is_some_and(|value| values.contains(&value))
    };
    is(libc::SO_DOMAIN, &[libc::AF_INET, libc::AF_INET6])
        && is(libc::SO_TYPE, &[libc::SOCK_STREAM])
        && is(libc::SO_PROTOCOL, &[libc::IPPROTO_TCP, libc::IPPROTO_MPTCP])
}

const SOCKET_NAME: &CStr = c"PLIANT_PRELOAD_SOCKET";
const CLASS_NAME: &CStr = c"PLIANT_PRELOAD_CLASS";
const RULES_NAME: &CStr = c"PLIANT_PRELOAD_RULES";

// The names are declared once, and C's form of them is held to that.
const _: () = {
    const fn same(c: &CStr, name: &str) {
        let (c, name) = (c.to_bytes(), name.as_bytes());
        assert!(c.len() == name.len());
        let mut at = 0;
        while at < name.len() {
            assert!(c[at] == name[at]);
            at += 1;
        }
    }
    same(SOCKET_NAME, SOCKET_VARIABLE);
    same(CLASS_NAME, CLASS_VARIABLE);
    same(RULES_NAME, RULES_VARIABLE);
};

/// A variable of the environment.
fn variable(name: &CStr) -> Option<&'static str> {
    // SAFETY: the name ends with a zero byte.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv(3) returns a text with a zero byte at its end. A program that changes its environment while other threads
    // read it breaks the rules of setenv(3) for every library; the value is used before `connect` returns.
    let value = unsafe { CStr::from_ptr(value) };
    value.to_str().ok()
}

/// A descriptor that is closed when it is dropped.
struct Owned(c_int);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: nobody else has this descriptor's number.
        unsafe { libc::close(self.0) };
    }
}

fn checked(answer: c_int) -> Result<c_int, c_int> {
    if answer < 0 { Err(errno::get()) } else { Ok(answer) }
}

/// Again, as long as a signal has interrupted it.
fn restarted(mut call: impl FnMut() -> isize) -> Result<usize, c_int> {
    loop {
        match call() {
            count @ 0.. => return Ok(count as usize),
            _ if errno::get() == libc::EINTR => {}
            _ => return Err(errno::get()),
        }
    }
}

/// Asks the daemon for the end of a pair.
fn handover(path: &str, request: &Request<'_>) -> Result<Owned, c_int> {
    // SAFETY: plain numbers.
    let daemon = Owned(checked(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?);
    let patience = timeval { tv_sec: HANDOVER_SECONDS, tv_usec: 0 };
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        set_timeout(daemon.0, option, &patience);
    }
    let mut address = sockaddr_un { sun_family: libc::AF_UNIX as sa_family_t, sun_path: [0; 108] };
    // A zero byte is left behind it.
    if path.len() >= address.sun_path.len() {
        return Err(libc::ENAMETOOLONG);
    }
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    let length = size_of::<sockaddr_un>() as socklen_t;
    loop {
        // SAFETY: `address` has as many bytes as `length` says, and outlives the call.
        match checked(unsafe { real::connect(daemon.0, (&raw const address).cast(), length) }) {
            Ok(_) => break,
            Err(libc::EINTR) => {}
            // Without its daemon a contract cannot be kept: as if nobody listened at the service.
            Err(_) => return Err(libc::ECONNREFUSED),
        }
    }
    let mut bytes = [0; MAX_REQUEST_BYTES];
    let length = request.encode(&mut bytes).ok_or(libc::EINVAL)?;
    // SAFETY: `bytes` has more bytes than `length`, and outlives the call.
    let sent = restarted(|| unsafe { libc::send(daemon.0, bytes.as_ptr().cast(), length, libc::MSG_NOSIGNAL) });
    // So few bytes go at once or not at all.
    if sent != Ok(length) {
        return Err(libc::ECONNREFUSED);
    }
    receive(&daemon)
}

/// Room for one descriptor in a control message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// The descriptor that comes, or the error that comes instead.
fn receive(daemon: &Owned) -> Result<Owned, c_int> {
    let mut answer = HANDED_OVER;
    let mut piece = iovec { iov_base: (&raw mut answer).cast(), iov_len: 1 };
    let mut control = Control([0; 64]);
    // SAFETY: a msghdr of zeros is one that points nowhere.
    let mut message: msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), control.0.len() as _);
    // SAFETY: the message points to one byte and to 64 bytes of control, which outlive the call.
    let received = restarted(|| unsafe { libc::recvmsg(daemon.0, &raw mut message, libc::MSG_CMSG_CLOEXEC) });
    match received {
        Ok(1) => {}
        Ok(_) => return Err(libc::ECONNREFUSED),
        Err(libc::EAGAIN) => return Err(libc::ETIMEDOUT),
        Err(error) => return Err(error),
    }
    if answer != HANDED_OVER {
        return Err(answer.into());
    }
    // SAFETY: the kernel has filled in the message, whose control bytes are still here.
    let header: *const cmsghdr = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if header.is_null() {
        return Err(libc::ECONNREFUSED);
    }
    // SAFETY: CMSG_FIRSTHDR returns a header that lies in the control bytes, which are aligned for it.
    let (level, kind, length) = unsafe { ((*header).cmsg_level, (*header).cmsg_type, (*header).cmsg_len as usize) };
    // SAFETY: arithmetic only.
    let wanted = unsafe { libc::CMSG_LEN(size_of::<c_int>() as u32) } as usize;
    if (level, kind, length) != (libc::SOL_SOCKET, libc::SCM_RIGHTS, wanted) {
        return Err(libc::ECONNREFUSED);
    }
    // SAFETY: a header of this length is followed by one descriptor, which may lie anywhere.
    Ok(Owned(unsafe { libc::CMSG_DATA(header).cast::<c_int>().read_unaligned() }))
}

fn set_timeout(descriptor: c_int, option: c_int, timeout: &timeval) {
    let length = size_of::<timeval>() as socklen_t;
    // SAFETY: `timeout` has as many bytes as `length` says, and outlives the call. That it fails changes nothing.
    unsafe { real::setsockopt(descriptor, libc::SOL_SOCKET, option, (&raw const *timeout).cast(), length) };
}

/// The timeout of a program's socket.
fn timeout(descriptor: c_int, option: c_int) -> Option<timeval> {
    let mut timeout = timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of::<timeval>() as socklen_t;
    // SAFETY: `timeout` has as many bytes as `length` says, and both outlive the call.
    let done =
        unsafe { real::getsockopt(descriptor, libc::SOL_SOCKET, option, (&raw mut timeout).cast(), &raw mut length) };
    (done == 0 && (timeout.tv_sec, timeout.tv_usec) != (0, 0)).then_some(timeout)
}

/// Puts the end of a pair in the place of a program's socket, and waits for the far end if the program would.
fn take_the_place(descriptor: c_int, pair: Owned) -> c_int {
    // SAFETY: plain numbers.
    let (flags, of_descriptor) =
        unsafe { (libc::fcntl(descriptor, libc::F_GETFL), libc::fcntl(descriptor, libc::F_GETFD)) };
    if flags < 0 || of_descriptor < 0 {
        return -1;
    }
    let nonblocking = flags & libc::O_NONBLOCK;
    // SAFETY: plain numbers.
    if unsafe { libc::fcntl(pair.0, libc::F_SETFL, nonblocking) } < 0 {
        return -1;
    }
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        if let Some(timeout) = timeout(descriptor, option) {
            set_timeout(pair.0, option, &timeout);
        }
    }
    let patience = timeout(descriptor, libc::SO_SNDTIMEO);
    let close_on_exec = if of_descriptor & libc::FD_CLOEXEC == 0 { 0 } else { libc::O_CLOEXEC };
    // SAFETY: plain numbers; the program has given its descriptor to be connected, and it stays open under its number.
    if unsafe { libc::dup3(pair.0, descriptor, close_on_exec) } < 0 {
        return -1;
    }
    drop(pair);
    if nonblocking != 0 {
        return errno::fail(libc::EINPROGRESS);
    }
    wait(descriptor, patience)
}

/// Waits until the far end has answered. A signal does not end it, as if its handler restarted calls (signal(7)).
fn wait(descriptor: c_int, patience: Option<timeval>) -> c_int {
    let milliseconds = patience.map_or(-1, |timeout| {
        let milliseconds = timeout.tv_sec.saturating_mul(1000).saturating_add(timeout.tv_usec / 1000);
        milliseconds.clamp(1, c_int::MAX.into()) as c_int
    });
    // It cannot be written to before.
    let mut waiting = pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure, which outlives the call.
    match restarted(|| unsafe { libc::poll(&raw mut waiting, 1, milliseconds) as isize }) {
        // As connect(2) says of SO_SNDTIMEO.
        Ok(0) => return errno::fail(libc::EINPROGRESS),
        Ok(_) => {}
        Err(error) => return errno::fail(error),
    }
    let Some(here) = HandedOver::of(descriptor) else { return errno::fail(libc::ECONNRESET) };
    match here.outcome() {
        Some(Outcome::Connected) => 0,
        outcome => errno::fail(match (outcome, here.take_error()) {
            (Some(Outcome::Failed(error)), _) => error,
            // The daemon has ended.
            (_, 0) => libc::ECONNRESET,
            (_, error) => error,
        }),
    }
}
