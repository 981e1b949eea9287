//! Acknowledgements that are duplicates, carry SACK blocks, or arrive while a loss is being repaired.

use super::loss::{Overtaken, Phase};
use super::{Ack, CONNECTED, HANDSHAKE, LOSS, PERSIST, TcpSender, Unusual};
use crate::congestion::{Cause, CongestionControl};
use crate::packet::{AckFlags, ByteRange, SackBlocks};
use crate::recovery::proportional_rate::ProportionalRate;
use crate::recovery::scoreboard::DUP_THRESH;
use crate::time::{Instant, Span};

/// What one acknowledgement brought.
struct News {
    acked: u64,
    /// Bytes that SACK blocks report for the first time.
    sacked: u64,
    /// Whether it counts as a duplicate.
    duplicate: bool,
    /// Whether its first block reports a duplicate (RFC 2883).
    dsack: Option<ByteRange>,
}

impl<C: CongestionControl> TcpSender<C> {
    pub(super) fn handle_syn_ack(&mut self, now: Instant, echo: Instant, window: u16) {
        if !self.is(HANDSHAKE) || echo > now {
            return;
        }
        self.state = self.state & !HANDSHAKE | CONNECTED;
        self.timer = None;
        self.largest_window = window;
        self.window_end = super::window_end(0, window);
        self.rtt.sample(&self.config.rto, now.since(echo));
        let unusual = self.unusual();
        unusual.probe_due = false;
        if unusual.syn_lost {
            self.rtt.begin_after_lost_syn(&self.config.rto);
        }
    }

    #[inline(never)]
    pub(super) fn handle_unusual_ack(&mut self, now: Instant, ack: &Ack, sack: &SackBlocks) {
        if self.is(HANDSHAKE) || ack.cumulative < self.snd_una || ack.cumulative > self.snd_nxt {
            return;
        }
        let window_moved = self.update_window(ack.cumulative, ack.window);
        if self.is(PERSIST) {
            self.leave_persist(ack.cumulative);
        }
        let mut unusual = self.unusual.take().unwrap_or_default();
        unusual.loss.set_dup_thresh(self.snd_nxt - self.snd_una, self.mss());
        let flight = self.in_flight(&unusual);
        let before = self.known(&unusual);
        let news = self.read(now, &mut unusual, ack, sack, window_moved);
        let rtt = self.advance_unusual(now, &mut unusual, ack, &news);
        self.report(now, ack, news.acked, flight, rtt, unusual.loss.phase == Phase::Fast);
        let newly_lost = self.follow(now, &mut unusual, &news);
        if let Some(ssthresh) = unusual.loss.was_spurious() {
            self.controller.on_spurious_loss(ssthresh);
        }
        self.follow_rate(&mut unusual, &news, before, newly_lost);
        self.set_loss_state(&unusual);
        self.unusual = Some(unusual);
        if ack.flags.contains(AckFlags::ECE) {
            self.echo_congestion(now);
        }
    }

    pub(super) fn set_loss_state(&mut self, unusual: &Unusual) {
        self.state = if unusual.loss.is_active() { self.state | LOSS } else { self.state & !LOSS };
    }

    /// Bytes in flight as a controller counts them: sent and not acknowledged. After a timeout only bytes sent since
    /// then count.
    pub(super) fn in_flight(&self, unusual: &Unusual) -> u64 {
        if unusual.loss.phase == Phase::Timeout {
            unusual.loss.in_flight_after_timeout(self.snd_una, self.snd_nxt)
        } else {
            self.snd_nxt - self.snd_una
        }
    }

    /// Interprets the acknowledgement.
    fn read(&self, now: Instant, unusual: &mut Unusual, ack: &Ack, sack: &SackBlocks, window_moved: bool) -> News {
        let mut news = News { acked: ack.cumulative - self.snd_una, sacked: 0, duplicate: false, dsack: None };
        // Before what it SACKs, which was sent later: else a segment whose acknowledgement the receiver held back would seem
        // overtaken (RFC 8985 section 6.2, step 3).
        if news.acked > 0
            && let Some(rack) = &mut unusual.rack
        {
            rack.on_acknowledged(now, ack.cumulative);
        }
        if self.is(PERSIST) {
            // Answers to a probe: its byte does not count as sent yet.
        } else if self.config.sack {
            let mut blocks = if ack.flags.contains(AckFlags::SACK) { sack.as_slice() } else { &[] };
            if ack.flags.contains(AckFlags::DSACK)
                && let Some((first, others)) = blocks.split_first()
            {
                (news.dsack, blocks) = (Some(*first), others);
                unusual.loss.on_duplicate(*first);
            }
            for block in blocks {
                let block = ByteRange::new(block.start.max(ack.cumulative), block.end);
                if !block.is_empty() && block.end <= self.snd_nxt {
                    news.sacked += unusual.loss.scoreboard.insert(block);
                    if let Some(rack) = &mut unusual.rack {
                        rack.on_sacked(now, block);
                    }
                }
            }
            news.duplicate = news.sacked > 0;
        } else {
            news.duplicate = news.acked == 0 && self.snd_nxt > self.snd_una && !window_moved;
        }
        news
    }

    fn advance_unusual(&mut self, now: Instant, unusual: &mut Unusual, ack: &Ack, news: &News) -> Option<Span> {
        if news.acked == 0 {
            return None;
        }
        let timer = self.timer;
        let loss = &mut unusual.loss;
        let timed = self.config.time_retransmissions || self.snd_una >= loss.sent_again_end;
        let rtt = self.advance(now, &Ack { echo: ack.echo.filter(|_| timed), ..*ack });
        loss.scoreboard.advance(self.snd_una);
        if loss.overtaken.is_some_and(|overtaken| overtaken.end <= self.snd_una) {
            loss.forget_overtaken();
        }
        // NewReno with a window full of holes: only the first partial acknowledgement restarts the timer (RFC 6582).
        if !self.config.sack && loss.phase == Phase::Fast && !loss.is_repaired(self.snd_una) {
            if loss.partial_seen {
                self.timer = timer;
            }
            loss.partial_seen = true;
        }
        rtt
    }

    /// Moves between the phases of recovery. Returns whether RACK found further losses.
    fn follow(&mut self, now: Instant, unusual: &mut Unusual, news: &News) -> bool {
        let loss = &mut unusual.loss;
        let before = loss.phase;
        if before != Phase::Open {
            if loss.is_repaired(self.snd_una) {
                if before == Phase::Fast {
                    self.controller.on_recovered(self.snd_nxt - self.snd_una);
                }
                loss.end();
            } else if before == Phase::Fast && !self.config.sack {
                self.inflate(unusual, news);
            }
        } else if news.acked > 0 {
            loss.duplicates = 0;
            loss.limited_bytes = 0;
        }
        if unusual.rack.is_some() {
            let ended = before != unusual.loss.phase;
            return self.follow_rack(now, unusual, news, ended);
        }
        if unusual.loss.phase == Phase::Open {
            self.count_duplicate(now, unusual, news);
        }
        false
    }

    fn count_duplicate(&mut self, now: Instant, unusual: &mut Unusual, news: &News) {
        let (mss, loss) = (self.mss(), &mut unusual.loss);
        if !news.duplicate {
            return;
        }
        loss.duplicates += 1;
        let by_count = loss.duplicates >= loss.scoreboard.dup_thresh() && loss.overtaken.is_none();
        let lost = by_count || loss.scoreboard.has_lost(self.snd_una, mss);
        if lost && loss.may_begin(self.snd_una, self.config.sack) {
            self.begin_fast_recovery(now, unusual);
        }
    }

    /// Enters fast recovery and reports the loss.
    pub(super) fn begin_fast_recovery(&mut self, now: Instant, unusual: &mut Unusual) {
        let flight = (self.snd_nxt - self.snd_una).saturating_sub(unusual.loss.limited_bytes);
        unusual.loss.begin(Phase::Fast, self.snd_una, self.snd_nxt);
        if self.config.adapt_to_reordering {
            let (window, ssthresh) = (self.controller.window(), self.controller.ssthresh());
            unusual.loss.follow_reordering(if window < ssthresh { ssthresh } else { window });
        }
        unusual.loss.retransmit_first = true;
        if !self.config.sack {
            unusual.loss.inflation = i64::from(DUP_THRESH) * self.mss() as i64;
        }
        unusual.loss.rate = self.config.prr.then(|| ProportionalRate::new(flight));
        unusual.fast_recoveries += 1;
        self.congestion(now, Cause::Loss, flight, true);
    }

    /// Data in flight was sent in a lower class, and data sent from now on overtakes it. For a round trip and the
    /// largest reordering window, another round trip, SACKed bytes above it say nothing about it (RFC 8985 section
    /// 6.2).
    pub(super) fn expect_overtaking(&mut self, now: Instant, unusual: &mut Unusual) {
        let smoothed = self.rtt.smoothed();
        let patience = if smoothed == Span::ZERO { self.rtt.rto() } else { smoothed.times(2) };
        let loss = &mut unusual.loss;
        // What was lost by then is no matter of the move.
        let start = self.snd_una.max(loss.scoreboard.lost_below(self.mss()));
        if loss.phase == Phase::Timeout || start >= self.snd_nxt {
            return;
        }
        loss.overtaken = Some(Overtaken { end: self.snd_nxt, until: now.after(patience) });
        if let Some(rack) = &mut unusual.rack {
            rack.expect_overtaking(now, self.snd_nxt);
        } else {
            loss.scoreboard.spare(ByteRange::new(start, self.snd_nxt));
        }
    }

    /// Overtaken data counts as any other from now on.
    pub(super) fn stop_waiting_for_overtaken(&mut self, now: Instant, unusual: &mut Unusual) {
        let (mss, loss) = (self.mss(), &mut unusual.loss);
        loss.overtaken = None;
        loss.scoreboard.stop_sparing(self.snd_una);
        let lost = loss.duplicates >= loss.scoreboard.dup_thresh() || loss.scoreboard.has_lost(self.snd_una, mss);
        let may_begin = loss.phase == Phase::Open && loss.may_begin(self.snd_una, self.config.sack);
        if unusual.rack.is_none() && lost && may_begin {
            self.begin_fast_recovery(now, unusual);
            self.set_loss_state(unusual);
        }
    }

    /// Bytes that have arrived, and the end of those that are lost, as far as known.
    fn known(&self, unusual: &Unusual) -> (u64, u64) {
        let board = &unusual.loss.scoreboard;
        (self.snd_una + board.sacked_bytes(), board.lost_below(self.mss()))
    }

    /// What may be sent on this acknowledgement (RFC 6937). `before` is what was known before it.
    fn follow_rate(&mut self, unusual: &mut Unusual, news: &News, before: (u64, u64), newly_lost: bool) {
        if unusual.loss.rate.is_none() {
            return;
        }
        let (mss, ssthresh, (arrived, lost_below)) = (self.mss(), self.controller.window(), self.known(unusual));
        let Unusual { loss, rack, .. } = unusual;
        let (pipe, newly_lost) = match rack {
            Some(rack) => (rack.in_flight(), newly_lost),
            None => (loss.scoreboard.pipe(self.snd_una, self.snd_nxt, mss), lost_below > before.1),
        };
        if let Some(rate) = &mut loss.rate {
            rate.on_acknowledged(arrived.saturating_sub(before.0), pipe, ssthresh, news.acked > 0 && !newly_lost, mss);
        }
    }

    /// NewReno's window during recovery (RFC 6582 section 3.2, steps 3 and 4).
    fn inflate(&self, unusual: &mut Unusual, news: &News) {
        let (mss, loss) = (self.mss(), &mut unusual.loss);
        if news.duplicate {
            loss.inflation += mss as i64;
        }
        if news.acked > 0 {
            loss.retransmit_first = true;
            loss.inflation -= news.acked as i64;
            if news.acked >= mss {
                loss.inflation += mss as i64;
            }
        }
    }

    /// RACK's part after an acknowledgement; `ended` if it ended a repair. Returns whether RACK found further losses.
    fn follow_rack(&mut self, now: Instant, unusual: &mut Unusual, news: &News, ended: bool) -> bool {
        let (smoothed, unacked, next) = (self.rtt.smoothed(), self.snd_una, self.snd_nxt);
        let repairing = unusual.loss.phase != Phase::Open;
        let Some(rack) = &mut unusual.rack else { return false };
        let plain_duplicate = news.acked == 0 && news.sacked == 0;
        let probe_repaired = rack.settle_probe(unacked, news.dsack, plain_duplicate);
        rack.follow_duplicates(unacked, next, news.dsack.is_some());
        if ended {
            rack.on_recovered();
        }
        let lost = rack.detect(now, smoothed, repairing);
        if lost && !repairing {
            self.begin_fast_recovery(now, unusual);
        } else if probe_repaired && !repairing {
            let flight = next - unacked;
            self.congestion(now, Cause::Loss, flight, true);
            self.controller.on_recovered(flight);
        }
        self.arm_loss_probe(now, unusual);
        lost
    }
}
