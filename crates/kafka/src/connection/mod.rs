//! One connection of a client with a broker.

mod frames;
mod head;
mod lossy;
mod skim;
mod topics;

pub use lossy::{Fetched, LossyConnection, Thinner};
pub(crate) use lossy::{OLDEST_FETCH, fetch};
pub use topics::{LearnTopic, RequestHead, Subject, TopicName, topics};

use self::frames::{Due, Frames, HandleRequests, Keep, Kept, Pending, RESPONSE_HEAD, write_response};
use self::head::{FIXED_HEAD, Request, i16_at};
use self::topics::OLDEST_TOPIC_IDS;
use crate::api;
use crate::refusal::Refusal;
use crate::rewrite::{Advertised, Kind, Local, rewrite, rewrite_end};
use crate::walk::Walk;

/// A mechanism of SASL that binds the broker's name, which a client of a door does not know.
const KERBEROS: &str = "GSSAPI";
/// A mechanism that no broker has: whoever asks for it is told so by Kafka's own error, with those that there are.
const NO_MECHANISM: &str = "NOT-THROUGH-A-DOOR";

/// A longer response to Fetch passes as it comes, but for its end. Whole, it would come to the client later by the time that
/// all of it takes.
const LONG_FETCH: usize = 64 << 10;

/// A client's connection with a broker.
#[derive(Debug, Default)]
pub struct Connection {
    frames: Frames<Kind>,
    fetches: bool,
    /// Why the broker was made to refuse the client.
    refused: Option<Refusal>,
}

impl Connection {
    /// Takes bytes of the client, in pieces of any size, and appends to `output` what the broker is to get.
    pub fn take_request(&mut self, bytes: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        self.frames.take_request(
            bytes,
            &mut Lossless { fetches: &mut self.fetches, refused: &mut self.refused },
            output,
        )
    }

    /// Takes bytes of the broker, in pieces of any size, and appends to `output` what the client is to get. `place`
    /// says where each broker is to be found, or why it is nowhere; it is asked every time that one is advertised.
    pub fn take_response(
        &mut self,
        bytes: &[u8],
        place: impl FnMut(&Advertised) -> Result<Local, String>,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        self.take_response_with(bytes, place, None, output)
    }

    /// The same, and tells the numbers of topics and their names as responses do, where somebody wants to `learn` them.
    pub fn take_response_with(
        &mut self,
        bytes: &[u8],
        mut place: impl FnMut(&Advertised) -> Result<Local, String>,
        mut learn: Option<&mut LearnTopic<'_>>,
        output: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let keep = |kind, size| if kind == Kind::Fetch && size > LONG_FETCH { Keep::End } else { Keep::Whole };
        let collected = |kind, version, kept: Kept<'_>, output: &mut Vec<u8>| match kept {
            Kept::End(end) => rewrite_end(end, &mut place, output),
            Kept::Whole(frame) => {
                if let Some(learn) = learn.as_mut().filter(|_| kind == Kind::Metadata && version >= OLDEST_TOPIC_IDS) {
                    topics::learn(version, &frame[RESPONSE_HEAD..], *learn)?;
                }
                write_response(frame, output, |body, output| rewrite(kind, version, body, &mut place, output))
            }
        };
        self.frames.take_response(bytes, keep, collected, output)
    }

    /// So many bytes of the broker that come next go to the client as they are: they need not be
    /// [taken](Self::take_response).
    pub fn passing(&self) -> usize {
        self.frames.passing()
    }

    /// So many of them have gone.
    ///
    /// # Panics
    ///
    /// If they are more than [pass](Self::passing).
    pub fn pass(&mut self, count: usize) {
        self.frames.pass(count);
    }

    /// The client has ended. An error says that it did so within a frame, or why the broker has refused it.
    pub fn end_requests(&self) -> Result<(), Refusal> {
        self.refused.clone().map_or_else(|| self.frames.end_requests(), Err)
    }

    /// The broker has ended. An error says that it did so within a frame.
    pub fn end_responses(&self) -> Result<(), Refusal> {
        self.frames.end_responses()
    }

    /// Whether the client has asked for records.
    pub fn fetches(&self) -> bool {
        self.fetches
    }

    /// How many requests wait for their responses.
    pub fn pending(&self) -> usize {
        self.frames.pending()
    }
}

/// All requests pass, but for an ApiVersions of a version that is not known, and handshakes of SASL that a door cannot carry.
struct Lossless<'c> {
    fetches: &'c mut bool,
    refused: &'c mut Option<Refusal>,
}

impl HandleRequests<Kind> for Lossless<'_> {
    fn begin(&mut self, request: Request, _: usize, due: &mut Due<Kind>) -> Result<bool, Refusal> {
        let Request { key, version, correlation, answered, replaced } = request;
        *self.fetches |= key == api::FETCH;
        if answered {
            due.expect(if replaced && key == api::API_VERSIONS {
                Pending { correlation, version: 0, kind: Some(Kind::ApiVersions { refused: true }) }
            } else {
                Pending { correlation, version, kind: Kind::of(key, version) }
            })?;
        }
        Ok(replaced)
    }

    fn collected(&mut self, frame: &[u8], _: &mut Due<Kind>, output: &mut Vec<u8>) -> Result<(), Refusal> {
        if i16_at(frame, 4) == api::SASL_HANDSHAKE {
            return self.handshake(frame, output);
        }
        // The broker is asked in version 0, and the client is told so, by which it learns what to use (KIP-511).
        let mut asked = frame[4..FIXED_HEAD].to_vec();
        asked[2..4].copy_from_slice(&0i16.to_be_bytes());
        asked.extend((-1i16).to_be_bytes()); // no client_id
        output.extend((asked.len() as i32).to_be_bytes());
        output.extend(asked);
        Ok(())
    }
}

impl Lossless<'_> {
    /// A client says by which mechanism it will authenticate.
    fn handshake(&mut self, frame: &[u8], output: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut asked = Vec::new();
        let mut walk = Walk::new(&frame[4..], &mut asked, false);
        walk.copy(FIXED_HEAD - 4)?;
        walk.copy_string()?; // client_id
        let mechanism = walk.take_string()?;
        *self.refused = match (i16_at(frame, 6), mechanism) {
            (0, _) => Some(Refusal::SaslTokens),
            (_, Some(KERBEROS)) => Some(Refusal::Kerberos),
            _ => None,
        };
        if self.refused.is_none() {
            output.extend_from_slice(frame);
            return Ok(());
        }
        walk.put_string(Some(NO_MECHANISM));
        output.extend((asked.len() as i32).to_be_bytes());
        output.extend(asked);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
