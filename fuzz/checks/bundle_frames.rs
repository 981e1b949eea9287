//! Whatever a peer puts into a bundle, in whatever order it arrives: memory stays bounded, and what this side says and reads
//! afterwards is sound.

use pliant_net::bundle::{Multiplexer, MultiplexerConfig, StreamEvent};

/// Beyond all streams' bytes, what waits for the beginning of its cell.
const RECEIVE_BUFFER: u64 = 1 << 16;
const MAX_UNREAD: u64 = 1 << 16;

pub(crate) fn check(bytes: &[u8]) {
    let Some((order, stream)) = bytes.split_first() else { return };
    let config = MultiplexerConfig {
        calls: order % 2 == 0,
        max_streams: 4,
        window_budget: 1 << 16,
        max_unread: MAX_UNREAD,
        receive_buffer: RECEIVE_BUFFER,
    };
    let mut side = Multiplexer::new(config);
    let own = side.open(b"127.0.0.1:80".to_vec());
    let _ = side.write(own, b"own bytes");
    // Packets of a length of the input's, from the first on, from the last on, or each twice.
    let length = usize::from(order / 4) + 1;
    let mut packets: Vec<(usize, &[u8])> = stream.chunks(length).enumerate().collect();
    if order % 4 >= 2 {
        packets.reverse();
    }
    for (number, packet) in packets.iter().chain(packets.first()) {
        if side.receive((number * length) as u64, packet).is_err() {
            // Its connection ends.
            return;
        }
        assert!(side.streams() <= 5, "its own and those that the peer may open");
        assert!(side.held_bytes() <= MAX_UNREAD + RECEIVE_BUFFER + stream.len() as u64);
    }
    let mut into = [0; 100];
    while let Some(event) = side.poll_event() {
        let (StreamEvent::Opened { stream, .. }
        | StreamEvent::Readable(stream)
        | StreamEvent::Writable(stream)
        | StreamEvent::Reset { stream, .. }) = event;
        let _ = side.read(stream, &mut into);
        let _ = side.write(stream, b"answer");
        side.finish(stream);
        side.drop_stream(stream);
    }
    let end = side.produce();
    let mut said = vec![0; end as usize];
    side.read_sent(0, &mut said);
    side.release(end);
}
