//! Questions for the addresses of names, which an exit asks for peers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Most questions of a peer at a time. Each occupies a thread, and whoever owns a name may answer late or never.
const MAX_QUESTIONS: usize = 16;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The questions of a peer.
#[derive(Clone)]
pub(crate) struct Questions(Arc<Semaphore>);

impl Default for Questions {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_QUESTIONS)))
    }
}

impl Questions {
    /// Whether all are answered.
    pub(crate) fn are_answered(&self) -> bool {
        self.0.available_permits() == MAX_QUESTIONS
    }

    /// Asks on a thread. A question beyond the limit waits for an earlier one to be answered, also if nobody waits for that
    /// answer any more.
    pub(crate) async fn ask<A: Send + 'static>(
        &self,
        question: impl FnOnce() -> io::Result<A> + Send + 'static,
    ) -> io::Result<A> {
        let asked = async {
            let permit = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
            let ask = move || {
                let _permit = permit;
                question()
            };
            tokio::task::spawn_blocking(ask).await?
        };
        timeout(TIMEOUT, asked).await?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::task::JoinSet;

    use super::*;

    /// Questions that are not answered occupy so many threads and no more; another peer's are asked meanwhile, and a thread
    /// that is free again asks the next.
    #[test]
    fn questions_of_a_peer_are_bounded() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (hostile, good) = (Questions::default(), Questions::default());
            let (begun, begins) = channel();
            let mut ends = Vec::new();
            let mut asked = JoinSet::new();
            for number in 0..=MAX_QUESTIONS {
                let (end, ended) = channel::<()>();
                let (begun, hostile) = (begun.clone(), hostile.clone());
                ends.push(end);
                asked.spawn(async move {
                    let question = move || {
                        begun.send(number).map_err(io::Error::other)?;
                        let _ = ended.recv();
                        Ok(number)
                    };
                    hostile.ask(question).await
                });
                // Each waits for a permit in its turn.
                tokio::task::yield_now().await;
            }
            let mut first: Vec<usize> = (0..MAX_QUESTIONS).map(|_| begins.recv().unwrap()).collect();
            first.sort_unstable();
            assert_eq!(first, (0..MAX_QUESTIONS).collect::<Vec<_>>());
            assert_eq!(good.ask(|| Ok("answered")).await.unwrap(), "answered");
            assert!(begins.try_recv().is_err(), "one more waits");
            ends.remove(0);
            assert_eq!(asked.join_next().await.unwrap().unwrap().unwrap(), 0);
            ends.clear();
            while let Some(answer) = asked.join_next().await {
                answer.unwrap().unwrap();
            }
            assert_eq!(begins.recv().unwrap(), MAX_QUESTIONS);
        });
    }
}
