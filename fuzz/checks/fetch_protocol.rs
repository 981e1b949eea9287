//! What receivers and sources of one file say to each other: each message is refused or is exactly what encodes to it. A source
//! follows whatever orders and acknowledgements come and sends only symbols that there are; a receiver bears any symbols.

use std::sync::Arc;

use pliant_net::transfer::{FetchCall, FileSelector, HashNotice, HoldingNotice, Offered, PushNotice};
use pliant_proto::packet::{Body, DataFlags, Packet, SackBlocks, TrafficClass, WireFormat};
use pliant_proto::time::{Instant, Span};
use pliant_proto::transport::push::{MAX_SYMBOL, PushConfig, PushReceiver, PushSource};
use pliant_proto::transport::{Command, Transport};

/// Symbols that are sent at most between two messages.
const BURST: usize = 16;

/// The next message: as many bytes as its first byte says.
fn message<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first()?;
    let (message, rest) = rest.split_at_checked((*length).into())?;
    *bytes = rest;
    Some(message)
}

/// A packet made of a message's bytes.
fn packet(message: &[u8], symbol: u16) -> Packet {
    let octet = |at: usize| u32::from(message.get(at).copied().unwrap_or(0));
    let word = |at: usize| octet(at) << 24 | octet(at + 1) << 16 | octet(at + 2) << 8 | octet(at + 3);
    let body = if octet(0).is_multiple_of(2) {
        Body::SymbolAck {
            number: octet(1),
            received: word(2),
            decoded: octet(6) >> 4,
            needed: word(7),
            claim: octet(11) << 4,
            marks: octet(12) as u16,
            complete: octet(13) == 1,
        }
    } else {
        let (number, block, symbol_number) = (octet(1), octet(2) >> 4, word(3));
        Body::Symbol { number, block, symbol: symbol_number, len: symbol, flags: DataFlags::NONE }
    };
    Packet::new(TrafficClass::default(), WireFormat::IP.wire_bytes(0), body)
}

pub(crate) fn check(mut bytes: &[u8]) {
    let opening = message(&mut bytes).unwrap_or_default();
    let answer = message(&mut bytes).unwrap_or_default();
    if let Some(offered) = Offered::decode(answer) {
        assert_eq!(offered.encode(), answer);
    }
    if let Some(offered) = Offered::decode_in_part(answer) {
        assert_eq!(offered.encode_in_part(), answer);
    }
    let Ok(call) = FetchCall::decode(opening) else { return };
    assert_eq!(call.encode(), opening);
    let request = call.request;
    let size = Offered::decode(answer).map_or(10_000_000, |offered| offered.bytes);
    let Some(partition) = request.partition(size) else { return };
    let config = PushConfig {
        block_symbols: request.block_symbols(),
        slots: request.slots,
        max_under_way: Some(request.window.into()),
        claims: true,
        ..PushConfig::new(request.symbol, WireFormat::IP)
    };
    if config.check().is_err() {
        return;
    }
    let config = Arc::new(config);
    let mut now = Instant::ZERO.after(Span::from_ms(1));
    // A file that is named is on its way to its source.
    let there = if call.file == FileSelector::Only { partition.blocks() } else { 1 };
    let mut source = PushSource::growing(config.clone(), partition, there);
    let mut receiver = PushReceiver::beside_decoder(config, partition, 0, now);
    let peer = receiver.add_peer();
    while let Some(said) = message(&mut bytes) {
        now = now.after(Span::from_us(500 * said.len() as u64));
        if let Some(notice) = HashNotice::decode(said) {
            assert_eq!(notice.encode(), said);
        }
        if let Some(notice) = HoldingNotice::decode(said) {
            assert_eq!(notice.encode(), said);
            source.handle_command(now, Command::SendMessage { bytes: notice.blocks });
        }
        if let Some(notice) = PushNotice::decode(said) {
            assert_eq!(notice.encode(), said);
            if let PushNotice::ToSource(order) = notice {
                source.handle_command(now, Command::Answer(order));
            }
        } else {
            let packet = packet(said, request.symbol);
            if let Body::Symbol { .. } = packet.body() {
                receiver.handle_symbol(now, peer, &packet);
            } else {
                source.handle_packet(now, &packet, &SackBlocks::EMPTY);
            }
            receiver.handle_missing(said.len() as u32 % 4, said.len() as u32);
        }
        source.handle_timeout(now);
        receiver.handle_timeout(now);
        for _ in 0..BURST {
            let Some(packet) = source.poll_transmit(now) else { break };
            let Body::Symbol { block, symbol, len, .. } = packet.body() else { panic!("a source sends symbols") };
            assert!(block < partition.blocks() && symbol <= MAX_SYMBOL && len == request.symbol);
            receiver.handle_symbol(now, peer, &packet);
            if let Some(acknowledgement) = receiver.poll_transmit(peer) {
                source.handle_packet(now, &acknowledgement, &SackBlocks::EMPTY);
            }
        }
        while source.poll_event().is_some() {}
        while receiver.poll_message().is_some() {}
        assert!(receiver.remaining() <= partition.symbols());
    }
}
