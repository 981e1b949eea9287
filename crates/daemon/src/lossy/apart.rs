//! A client's connection whose records travel apart from the stream: the exit's end.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pliant_kafka::apart::Report;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout};

use super::both::{SharedBoth, note_written, take_response, turn};
use super::carrying::Outgoing;
use super::chunk::{ChunkKind, invalid, read_chunk, write_chunk};
use super::exit::LossyExit;
use crate::mutex::lock;
use crate::relay::{PIECE_BYTES, read_or_look};

/// How long a broker may take no requests. While records are under way its responses wait, and it with them; a client that
/// sends more than all buffers between take meanwhile is reset.
const BROKER_TIMEOUT: Duration = Duration::from_secs(30);

/// Carries one connection, of which these are the halves, until both sides have ended.
pub(super) async fn carry_apart(
    (from_broker, to_broker): (&mut (impl AsyncRead + Unpin), &mut (impl AsyncWrite + Unpin)),
    (from_client, to_client): (&mut (impl AsyncRead + Unpin), &mut (impl AsyncWrite + Unpin)),
    both: SharedBoth<'_, '_>,
    exit: &LossyExit,
    unpacking: &Semaphore,
) -> io::Result<()> {
    let (told, reports) = channel(1);
    let requests = carry_requests(from_client, to_broker, both, told);
    let responses = carry_responses(from_broker, to_client, both, (exit, unpacking), reports);
    tokio::try_join!(requests, responses).map(|_| ())
}

async fn carry_requests(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    both: SharedBoth<'_, '_>,
    reports: Sender<Report>,
) -> io::Result<()> {
    let (mut content, mut output) = (Vec::new(), Vec::new());
    while let Some(kind) = read_chunk(from, &mut content).await? {
        match kind {
            ChunkKind::Bytes => {
                output.clear();
                {
                    let (connection, thinner) = &mut *lock(both);
                    connection.take_request(&content, thinner, &mut output).map_err(invalid)?;
                }
                timeout(BROKER_TIMEOUT, to.write_all(&output)).await??;
            }
            ChunkKind::Report => {
                let report = Report::parse(&content).map_err(invalid)?;
                reports.send(report).await.map_err(|_| io::ErrorKind::BrokenPipe)?;
            }
            ChunkKind::End => {
                lock(both).0.end_requests().map_err(invalid)?;
                to.shutdown().await?;
            }
            ChunkKind::Response | ChunkKind::Again => return Err(invalid("a door sends no responses")),
        }
    }
    Ok(())
}

async fn carry_responses(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    both: SharedBoth<'_, '_>,
    (exit, unpacking): (&LossyExit, &Semaphore),
    mut reports: Receiver<Report>,
) -> io::Result<()> {
    let (mut piece, mut output) = (vec![0; PIECE_BYTES], Vec::new());
    let mut due = None;
    loop {
        let count = read_or_look(from, &mut piece, &mut due, || lock(both).1.look()).await?;
        let turn = turn(both, count, unpacking).await;
        take_response(both, &piece[..count], &mut output).map_err(invalid)?;
        drop(turn);
        let ready = std::mem::take(&mut lock(both).1.apart.ready);
        if count == 0 {
            write_chunk(to, ChunkKind::End, &[]).await?;
            return to.shutdown().await;
        }
        let mut written = 0;
        for Outgoing { at, head, carrying } in ready {
            write_chunk(to, ChunkKind::Bytes, &output[written..at]).await?;
            written = at;
            let begun = Instant::now();
            write_chunk(to, ChunkKind::Response, &head).await?;
            carrying.send()?;
            // What waits for the report waits for the client as well: it gets responses in order.
            let report = reports.recv().await.ok_or(io::ErrorKind::BrokenPipe)?;
            let again = carrying.settle(&report, exit).map_err(invalid)?;
            if !report.again.is_empty() {
                write_chunk(to, ChunkKind::Again, &again).await?;
            }
            exit.carried.fetch_add(1, Ordering::Relaxed);
            let sent = carrying.flow.statistics();
            let lost = !report.lost.is_empty() && !carrying.ends_early;
            let signs = sent.marks > 0 || sent.retransmissions > 0 || lost;
            lock(both).1.congestion.carried(begun.elapsed(), sent.bytes_sent, carrying.plan.bytes() as u64, signs);
        }
        if written < output.len() {
            let begun = Instant::now();
            write_chunk(to, ChunkKind::Bytes, &output[written..]).await?;
            due = lock(both).1.congestion.sent(output.len() - written, begun, Instant::now()).or(due);
        }
        output.clear();
        output.shrink_to(2 * PIECE_BYTES);
        note_written(both);
    }
}
