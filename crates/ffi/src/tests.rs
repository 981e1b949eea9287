//! What crosses into C, without a socket, so that Miri can run it: handles, strings, lent memory, and misuse of each.

use std::rc::Rc;

use super::*;

/// What failed last, by the library's own call.
fn last_error() -> String {
    // SAFETY: valid until the next failure in this thread.
    unsafe { CStr::from_ptr(pliant_last_error()) }.to_str().unwrap().to_owned()
}

/// Every call with NULL where something must be fails with a code and a text; what frees ignores it.
#[test]
fn null_is_an_error_everywhere() {
    let (mut report, contract) = (0u64, PliantContract { min_share: 1.0, weight: 1.0, min_rate: 0, max_rate: 0 });
    let (stream, node) = (ptr::null_mut::<PliantStream>(), ptr::null_mut::<PliantNode>());
    let (to, bundle) = (c"127.0.0.1:1".as_ptr(), ptr::null_mut::<PliantBundle>());
    // SAFETY: NULL is allowed everywhere.
    unsafe {
        let codes = [
            pliant_node_port(node),
            pliant_send(stream, ptr::null(), 0),
            pliant_send(stream, to.cast(), 1),
            pliant_recv(stream, ptr::from_mut(&mut report).cast(), 8) as c_int,
            pliant_set_contract(stream, &raw const contract),
            pliant_get_report(stream, ptr::null_mut()),
            pliant_set_done_by(stream, 1, 1),
            pliant_node_set_schedule(node, ptr::null()),
            pliant_bundle_set_done_by(bundle, 1, 1),
            pliant_finish(stream),
            pliant_bundle_set_contract(bundle, &raw const contract),
            pliant_bundle_get_report(bundle, ptr::null_mut()),
            pliant_bundle_close(bundle),
        ];
        assert_eq!(codes, [INVALID; 13]);
        assert_eq!(last_error(), "NULL");
        assert!(pliant_connect(node, to).is_null() && pliant_accept(node).is_null());
        assert!(pliant_bundle_connect(node, to, &raw const contract).is_null() && pliant_bundle_accept(node).is_null());
        assert!(pliant_bundle_open_stream(bundle).is_null() && pliant_bundle_accept_stream(bundle).is_null());
        assert!(pliant_node_new(ptr::null(), ptr::null(), ptr::null(), ptr::null(), 0).is_null());
        assert_eq!(last_error(), "an address is needed");
        pliant_close(stream);
        pliant_bundle_free(bundle);
        pliant_node_free(node);
    }
    assert_eq!(last_error(), "an address is needed");
}

/// Texts that are no UTF-8, no address or no transport are refused before anything is opened.
#[test]
fn texts_are_checked() {
    let new = |at: &CStr, transport: Option<&CStr>| {
        let transport = transport.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: C strings and NULL.
        let node = unsafe { pliant_node_new(at.as_ptr(), ptr::null(), transport, ptr::null(), 1) };
        assert!(node.is_null());
        last_error()
    };
    assert_eq!(new(c"\xff", None), "text is UTF-8");
    assert_eq!(new(c"", None), ": an address is IP:PORT");
    assert_eq!(new(c"127.0.0.1", None), "127.0.0.1: an address is IP:PORT");
    assert!(new(c"127.0.0.1:0", Some(c"pigeon")).starts_with("pigeon is no transport"));
    assert_eq!(new(c"127.0.0.1:0", Some(c"\xc3\x28")), "text is UTF-8");
}

/// A node that only calls others accepts nothing, and says so.
#[test]
#[cfg_attr(miri, ignore = "it opens a socket")]
fn a_node_that_does_not_listen_accepts_nothing() {
    // SAFETY: a C string and NULL; the node is freed once.
    unsafe {
        let node = pliant_node_new(c"127.0.0.1:0".as_ptr(), ptr::null(), ptr::null(), ptr::null(), 0);
        for accept in [|node| pliant_accept(node).is_null(), |node| pliant_bundle_accept(node).is_null()] {
            assert!(!node.is_null() && accept(node));
            assert_eq!(last_error(), "this node only calls others: accept needs a node that listens");
        }
        pliant_node_free(node);
    }
}

/// A time for what is announced ends somewhere, or never comes.
#[test]
fn times_are_bounded() {
    assert_eq!(span(u64::MAX).unwrap(), None);
    assert_eq!(span(1500).unwrap(), Some(Span::from_ms(1500)));
    assert_eq!(span(MOST_MILLISECONDS).unwrap(), Some(Span::from_secs(200 * 86_400)));
    for beyond in [MOST_MILLISECONDS + 1, u64::MAX - 1] {
        assert_eq!(span(beyond).unwrap_err().to_string(), "done_by is more than 200 days away");
    }
}

/// What is handed out lives until it is taken back, once; a panic while it is dropped does not leave the library.
#[test]
fn handles_are_dropped_once() {
    struct Loud(Rc<()>);
    impl Drop for Loud {
        fn drop(&mut self) {
            assert!(Rc::strong_count(&self.0) < 3, "as told");
        }
    }
    let alive = Rc::new(());
    let handle = hand_out(Rc::clone(&alive));
    // SAFETY: handed out, and not taken back yet.
    unsafe {
        assert_eq!(Rc::strong_count(given(handle).unwrap()), 2);
        take_back(handle);
        assert_eq!(Rc::strong_count(&alive), 1);
        take_back(hand_out(Loud(Rc::clone(&alive))));
        let (_second, third) = (Rc::clone(&alive), hand_out(Loud(Rc::clone(&alive))));
        take_back(third);
    }
    assert_eq!(last_error(), "a broken invariant, please report it");
    assert_eq!(Rc::strong_count(&alive), 1, "the field of what panicked is dropped, too");
}

/// Lent memory is read and written where it lies; NULL stands for none, and a count that no object can have is refused
/// before it becomes a slice.
#[test]
fn lent_memory_is_used_in_place() {
    let mut room = [1u8; 4];
    // SAFETY: four bytes, lent to one at a time; nothing is behind the pointers of impossible counts.
    unsafe {
        lent_room(room.as_mut_ptr().cast(), 3).unwrap().copy_from_slice(b"abc");
        assert_eq!(lent(room.as_ptr().cast(), 4).unwrap(), b"abc\x01");
        assert_eq!((lent(ptr::null(), 0).unwrap(), lent_room(ptr::null_mut(), 0).unwrap().len()), (&[][..], 0));
        assert!(lent(ptr::null(), 1).is_err() && lent_room(ptr::null_mut(), 1).is_err());
        for count in [usize::MAX, isize::MAX as usize + 1] {
            assert!(lent(room.as_ptr().cast(), count).is_err() && lent_room(room.as_mut_ptr().cast(), count).is_err());
        }
    }
}

/// Room that C has not written yet may be lent to be written.
#[test]
fn uninitialised_room_may_be_written() {
    let mut room = [std::mem::MaybeUninit::<u8>::uninit(); 4];
    // SAFETY: four bytes of room, all written before they are read.
    let written = unsafe {
        lent_room(room.as_mut_ptr().cast(), 4).unwrap().fill(9);
        lent(room.as_ptr().cast(), 4).unwrap()
    };
    assert_eq!(written, [9; 4]);
}

/// Errors are of the thread they happened in, and a NUL in their text does not cut it.
#[test]
fn errors_stay_in_their_thread() {
    use ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, Other, PermissionDenied};
    assert_eq!(remember(&io::Error::new(ErrorKind::TimedOut, "one\0two")), TIMED_OUT);
    std::thread::spawn(|| assert_eq!(last_error(), "")).join().unwrap();
    assert_eq!(last_error(), "one two");
    let code = |kind| remember(&io::Error::from(kind));
    let codes = [ConnectionRefused, ConnectionReset, BrokenPipe, NotFound, PermissionDenied, Other].map(code);
    assert_eq!(codes, [REFUSED, RESET, RESET, INVALID, INVALID, FAILED]);
}
