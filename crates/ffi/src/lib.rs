//! Pliant's connections for C: `include/pliant.h` says what each call does.
//!
//! Every function catches its panics: unwinding into C is undefined.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io::{self, ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::Mutex;

use pliant_net::api::blocking::{Node, Stream};
use pliant_net::api::{Bundle, Report, Settings};
use pliant_net::connection::Keys;
use pliant_net::flow::FlowSettings;
use pliant_proto::contract::Contract;
use pliant_proto::contract::deadline::MOST_DAYS;
use pliant_proto::time::Span;
use pliant_proto::units::Rate;

const INVALID: c_int = -1;
const REFUSED: c_int = -2;
const TIMED_OUT: c_int = -3;
const RESET: c_int = -4;
const FAILED: c_int = -5;
/// Most milliseconds to a time by which something must be across.
const MOST_MILLISECONDS: u64 = MOST_DAYS * 86_400_000;

/// A node. Its contract is that of its streams.
pub struct PliantNode {
    node: Node,
    contract: Contract,
}

/// A bundle, which several threads may use.
pub struct PliantBundle {
    bundle: Bundle,
}

/// A stream: one thread may send while another receives.
pub struct PliantStream {
    stream: Stream,
    sending: Mutex<()>,
    receiving: Mutex<()>,
}

/// `pliant_contract`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PliantContract {
    /// Least share of the fair rate.
    pub min_share: f64,
    /// Weight against other flows under weighted-fair, above 0.
    pub weight: f64,
    /// Least rate in bits of payload per second; 0 promises none.
    pub min_rate: u64,
    /// Greatest rate on the wire in bits per second; 0 bounds none.
    pub max_rate: u64,
}

/// `pliant_report`.
#[repr(C)]
pub struct PliantReport {
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Acknowledgements that echoed congestion.
    pub marks: u64,
    /// Payload bytes sent while giving way.
    pub low_bytes: u64,
    /// How late what was announced will be in milliseconds: -1 while that is not known, `i64::MAX` if nothing moves.
    pub late_ms: i64,
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

fn remember(error: &io::Error) -> c_int {
    let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
    LAST_ERROR.with(|last| *last.borrow_mut() = text);
    match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::NotFound | ErrorKind::PermissionDenied => INVALID,
        ErrorKind::ConnectionRefused => REFUSED,
        ErrorKind::TimedOut => TIMED_OUT,
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => RESET,
        _ => FAILED,
    }
}

/// The result, or `failed` of the error's code; a panic is an error as well.
fn guard<T>(failed: impl FnOnce(c_int) -> T, work: impl FnOnce() -> io::Result<T>) -> T {
    let result = catch_unwind(AssertUnwindSafe(work));
    match result.unwrap_or_else(|_| Err(io::Error::other("a broken invariant, please report it"))) {
        Ok(value) => value,
        Err(error) => failed(remember(&error)),
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why)
}

/// # Safety
/// `text` is null or a C string that lives as long as the call.
unsafe fn text<'a>(text: *const c_char) -> io::Result<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the caller vouches for the rest.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|_| invalid("text is UTF-8"))
}

/// # Safety
/// As for [`text`].
unsafe fn address(address: *const c_char) -> io::Result<std::net::SocketAddr> {
    // SAFETY: the caller vouches for it.
    let address = unsafe { text(address) }?.ok_or_else(|| invalid("an address is needed"))?;
    address.parse().map_err(|_| invalid(format!("{address}: an address is IP:PORT")))
}

fn contract(contract: PliantContract) -> Contract {
    let PliantContract { min_share, weight, min_rate, max_rate } = contract;
    let max_rate = (max_rate > 0).then_some(Rate::from_bits_per_sec(max_rate));
    Contract { min_share, weight, min_rate: Rate::from_bits_per_sec(min_rate), max_rate, ..Contract::default() }
}

/// See the header.
///
/// # Safety
/// Strings are null or C strings; `of` is null or points to a contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_node_new(
    at: *const c_char,
    key_file: *const c_char,
    transport: *const c_char,
    of: *const PliantContract,
    accepts: c_int,
) -> *mut PliantNode {
    guard(
        |_| ptr::null_mut(),
        || {
            // SAFETY: the caller vouches for its strings and its pointer.
            let (at, key_file, transport, of) =
                unsafe { (address(at)?, text(key_file)?, text(transport)?, of.as_ref()) };
            let keys = match key_file {
                Some(file) => Keys::read(Path::new(file)).map_err(|error| invalid(error.to_string()))?,
                None => Keys::Plain,
            };
            let contract = of.copied().map(contract).unwrap_or_default();
            let mut flow = FlowSettings { contract, ..FlowSettings::default() };
            if let Some(name) = transport {
                flow.transport =
                    name.parse().map_err(|error: String| invalid(format!("{name} is no transport; {error}")))?;
            }
            let settings = Settings { flow, keys, ..Settings::default() };
            let node = if accepts == 0 { Node::client(at, settings) } else { Node::bind(at, settings) }?;
            Ok(hand_out(PliantNode { node, contract }))
        },
    )
}

/// Gives `value` to the caller, who gives it back with [`take_back`].
fn hand_out<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Drops what was handed out.
///
/// # Safety
/// `pointer` is null or came from [`hand_out`] and was not taken back; nobody uses it any more.
unsafe fn take_back<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: it came from `Box::into_raw`, and the caller vouches that this is the only time.
        let owned = unsafe { Box::from_raw(pointer) };
        guard(
            |_| (),
            || {
                drop(owned);
                Ok(())
            },
        );
    }
}

/// # Safety
/// `pointer` is null or came from this library and was not freed.
unsafe fn given<'a, T>(pointer: *const T) -> io::Result<&'a T> {
    // SAFETY: the caller vouches for it.
    unsafe { pointer.as_ref() }.ok_or_else(|| invalid("NULL"))
}

/// A count of bytes at `pointer` that can be: more than half of the address space are nowhere.
fn possible(pointer: *const c_void, count: usize) -> io::Result<()> {
    if pointer.is_null() && count > 0 {
        return Err(invalid("NULL"));
    }
    if isize::try_from(count).is_err() { Err(invalid("that many bytes are nowhere")) } else { Ok(()) }
}

/// # Safety
/// `bytes` points to `count` bytes that nobody writes, if there are any.
unsafe fn lent<'a>(bytes: *const c_void, count: usize) -> io::Result<&'a [u8]> {
    possible(bytes, count)?;
    // SAFETY: the caller vouches for so many bytes, and their number is possible.
    Ok(if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(bytes.cast(), count) } })
}

/// # Safety
/// `bytes` points to room for `count` bytes that nobody else uses, if there is any.
unsafe fn lent_room<'a>(bytes: *mut c_void, count: usize) -> io::Result<&'a mut [u8]> {
    possible(bytes, count)?;
    // SAFETY: as for `lent`; they are written before Rust reads any.
    Ok(if count == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(bytes.cast(), count) } })
}

/// See the header.
///
/// # Safety
/// `node` is a node of [`pliant_node_new`] or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_node_port(node: *const PliantNode) -> c_int {
    // SAFETY: the caller vouches for it.
    guard(|code| code, || Ok(c_int::from(unsafe { given(node) }?.node.local_address().port())))
}

/// See the header.
///
/// # Safety
/// `node` is a node of [`pliant_node_new`] or null, `to` a C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_node_set_schedule(node: *mut PliantNode, to: *const c_char) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for both.
            let (node, to) = unsafe { (given(node)?, text(to)?) };
            node.node.set_schedule(to.unwrap_or_default().parse().map_err(|error: String| invalid(error))?)?;
            Ok(0)
        },
    )
}

/// See the header.
///
/// # Safety
/// `node` is a node of [`pliant_node_new`] that was not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_node_free(node: *mut PliantNode) {
    // SAFETY: the caller vouches for it.
    unsafe { take_back(node) };
}

impl PliantStream {
    fn new(stream: Stream) -> Self {
        Self { stream, sending: Mutex::default(), receiving: Mutex::default() }
    }
}

/// See the header.
///
/// # Safety
/// `node` is a node of [`pliant_node_new`] or null, `to` a C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_connect(node: *mut PliantNode, to: *const c_char) -> *mut PliantStream {
    // SAFETY: the caller vouches for it.
    guard(|_| ptr::null_mut(), || Ok(hand_out(PliantStream::new(unsafe { given(node)?.node.connect(address(to)?) }?))))
}

/// See the header.
///
/// # Safety
/// `node` is a node of [`pliant_node_new`] or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_accept(node: *mut PliantNode) -> *mut PliantStream {
    // SAFETY: the caller vouches for it.
    guard(|_| ptr::null_mut(), || Ok(hand_out(PliantStream::new(unsafe { given(node) }?.node.accept()?))))
}

/// See the header.
///
/// # Safety
/// `stream` is an open stream or null; `bytes` points to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_send(stream: *mut PliantStream, bytes: *const c_void, count: usize) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for both; sending needs no exclusive access to what is shared.
            let (stream, bytes) = unsafe { (given(stream)?, lent(bytes, count)?) };
            let _one = stream.sending.lock();
            (&stream.stream).write_all(bytes)?;
            Ok(0)
        },
    )
}

/// See the header.
///
/// # Safety
/// `stream` is an open stream or null; `bytes` points to room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_recv(stream: *mut PliantStream, bytes: *mut c_void, count: usize) -> isize {
    guard(
        |code| code as isize,
        || {
            // SAFETY: the caller vouches for both; receiving needs no exclusive access to what is shared.
            let (stream, into) = unsafe { (given(stream)?, lent_room(bytes, count)?) };
            if count == 0 {
                return Ok(0);
            }
            let _one = stream.receiving.lock();
            Ok((&stream.stream).read(into)? as isize)
        },
    )
}

/// See the header.
///
/// # Safety
/// `stream` is an open stream or null, `to` points to a contract or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_set_contract(stream: *mut PliantStream, to: *const PliantContract) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for both.
            let (stream, to) = unsafe { (given(stream)?, given(to)?) };
            stream.stream.set_contract(&contract(*to))?;
            Ok(0)
        },
    )
}

/// The time of an announcement, `None` for `PLIANT_NEVER`.
fn span(milliseconds: u64) -> io::Result<Option<Span>> {
    match milliseconds {
        u64::MAX => Ok(None),
        ..=MOST_MILLISECONDS => Ok(Some(Span::from_ms(milliseconds))),
        _ => Err(invalid(format!("done_by is more than {MOST_DAYS} days away"))),
    }
}

/// See the header.
///
/// # Safety
/// `stream` is an open stream or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_set_done_by(stream: *mut PliantStream, bytes: u64, milliseconds: u64) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for it.
            unsafe { given(stream) }?.stream.set_done_by(bytes, span(milliseconds)?)?;
            Ok(0)
        },
    )
}

/// See the header.
///
/// # Safety
/// `bundle` is a bundle that was not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_set_done_by(bundle: *mut PliantBundle, bytes: u64, milliseconds: u64) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for it.
            unsafe { given(bundle) }?.bundle.set_done_by(bytes, span(milliseconds)?)?;
            Ok(0)
        },
    )
}

/// # Safety
/// `into` points to room for a report or is null.
unsafe fn write_report(report: &Report, into: *mut PliantReport) -> io::Result<()> {
    if into.is_null() {
        return Err(invalid("NULL"));
    }
    let sender = &report.sender;
    let value = PliantReport {
        bytes_sent: sender.bytes_sent,
        retransmissions: sender.retransmissions,
        timeouts: sender.timeouts,
        marks: sender.marks,
        low_bytes: sender.policy.low_bytes,
        late_ms: report.late.map_or(-1, |late| late.as_millis().try_into().unwrap_or(i64::MAX)),
    };
    // SAFETY: not null, and the caller vouches for the room.
    unsafe { into.write(value) };
    Ok(())
}

/// See the header.
///
/// # Safety
/// `stream` is an open stream or null, `report` points to room for a report or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_get_report(stream: *const PliantStream, report: *mut PliantReport) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for both.
            unsafe { write_report(&given(stream)?.stream.report(), report) }?;
            Ok(0)
        },
    )
}

/// See the header.
///
/// # Safety
/// `stream` is an open stream or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_finish(stream: *mut PliantStream) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for it.
            let stream = unsafe { given(stream) }?;
            let _one = stream.sending.lock();
            stream.stream.finish()?;
            Ok(0)
        },
    )
}

/// See the header.
///
/// # Safety
/// `stream` is an open stream that nobody uses any more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_close(stream: *mut PliantStream) {
    // SAFETY: the caller vouches for it.
    unsafe { take_back(stream) };
}

/// See the header.
///
/// # Safety
/// `node` is a node of [`pliant_node_new`] or null, `to` a C string or null; `of` is null or points to a contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_connect(
    node: *mut PliantNode,
    to: *const c_char,
    of: *const PliantContract,
) -> *mut PliantBundle {
    guard(
        |_| ptr::null_mut(),
        || {
            // SAFETY: the caller vouches for its pointers and its string.
            let (node, to, of) = unsafe { (given(node)?, address(to)?, of.as_ref()) };
            let contract = of.copied().map_or(node.contract, contract);
            Ok(hand_out(PliantBundle { bundle: node.node.connect_bundle(to, &contract)? }))
        },
    )
}

/// See the header.
///
/// # Safety
/// `node` is a node of [`pliant_node_new`] or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_accept(node: *mut PliantNode) -> *mut PliantBundle {
    // SAFETY: the caller vouches for it.
    guard(|_| ptr::null_mut(), || Ok(hand_out(PliantBundle { bundle: unsafe { given(node) }?.node.accept_bundle()? })))
}

/// See the header.
///
/// # Safety
/// `bundle` is a bundle that was not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_open_stream(bundle: *mut PliantBundle) -> *mut PliantStream {
    guard(
        |_| ptr::null_mut(),
        // SAFETY: the caller vouches for it.
        || Ok(hand_out(PliantStream::new(unsafe { given(bundle) }?.bundle.open_blocking()?))),
    )
}

/// See the header.
///
/// # Safety
/// `bundle` is a bundle that was not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_accept_stream(bundle: *mut PliantBundle) -> *mut PliantStream {
    guard(
        |_| ptr::null_mut(),
        // SAFETY: the caller vouches for it.
        || Ok(hand_out(PliantStream::new(unsafe { given(bundle) }?.bundle.accept_blocking()?))),
    )
}

/// See the header.
///
/// # Safety
/// `bundle` is a bundle that was not freed, or null, `to` points to a contract or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_set_contract(bundle: *mut PliantBundle, to: *const PliantContract) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for both.
            let (bundle, to) = unsafe { (given(bundle)?, given(to)?) };
            bundle.bundle.set_contract(&contract(*to))?;
            Ok(0)
        },
    )
}

/// See the header.
///
/// # Safety
/// `bundle` is a bundle that was not freed, or null, `report` points to room for a report or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_get_report(bundle: *const PliantBundle, report: *mut PliantReport) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for both.
            unsafe { write_report(&given(bundle)?.bundle.report(), report) }?;
            Ok(0)
        },
    )
}

/// See the header.
///
/// # Safety
/// `bundle` is a bundle that was not freed, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_close(bundle: *mut PliantBundle) -> c_int {
    guard(
        |code| code,
        || {
            // SAFETY: the caller vouches for it.
            unsafe { given(bundle) }?.bundle.close();
            Ok(0)
        },
    )
}

/// See the header.
///
/// # Safety
/// `bundle` is a bundle that was not freed and that nobody uses any more, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_bundle_free(bundle: *mut PliantBundle) {
    // SAFETY: the caller vouches for it.
    unsafe { take_back(bundle) };
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn pliant_last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.borrow().as_ptr())
}

#[cfg(test)]
mod tests;
