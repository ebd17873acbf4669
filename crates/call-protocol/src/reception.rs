//! The server's end of a call: which frame may come when.

use crate::call::{Call, Transfer};
use crate::frame::ToServer;
use crate::wire::Violation;

/// What a caller sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// The call.
    Call(Call<'a>),
    /// A piece of the file; they come in order.
    Data(&'a [u8]),
    /// The file is complete and has the size that the call announced.
    Complete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    ExpectCall,
    /// The call came; nothing is expected before the file is asked for.
    Called {
        /// What is missing of a file that comes on demand.
        missing: Option<u64>,
    },
    /// The file was asked for.
    ExpectBody {
        missing: u64,
    },
    Complete,
}

/// The server's end of one call. Fed with what the caller sends by [`Reception::receive`]; told
/// by [`Reception::ask`] that the rest of the file is asked for.
#[derive(Clone, Debug)]
pub struct Reception(State);

impl Default for Reception {
    fn default() -> Self {
        Self::new()
    }
}

impl Reception {
    /// A connection on which nothing has come yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(State::ExpectCall)
    }

    /// Takes the first frame off `input`: what it says and how many bytes it took, or `None`
    /// while it is not complete.
    ///
    /// # Errors
    /// What the caller did wrong; the connection has to be closed then.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<Option<(Arrival<'a>, usize)>, Violation> {
        let Some((frame, taken)) = ToServer::decode(input)? else {
            return Ok(None);
        };
        let arrival = match (frame, self.0) {
            (ToServer::Call(call), State::ExpectCall) => {
                let missing = match call.transfer {
                    Transfer::OnDemand => Some(call.size - call.head.len() as u64),
                    Transfer::None | Transfer::Descriptor => None,
                };
                self.0 = State::Called { missing };
                Arrival::Call(call)
            }
            (ToServer::Data(piece), State::ExpectBody { missing }) => {
                let missing = missing.checked_sub(piece.len() as u64);
                let missing = missing.ok_or(Violation::Size)?;
                self.0 = State::ExpectBody { missing };
                Arrival::Data(piece)
            }
            (ToServer::End, State::ExpectBody { missing: 0 }) => {
                self.0 = State::Complete;
                Arrival::Complete
            }
            (ToServer::End, State::ExpectBody { .. }) => return Err(Violation::Size),
            (frame, _) => return Err(Violation::Unexpected(frame.kind())),
        };
        Ok(Some((arrival, taken)))
    }

    /// Whether [`Reception::ask`] would lead to more of the file.
    #[must_use]
    pub const fn can_ask(&self) -> bool {
        matches!(self.0, State::Called { missing: Some(missing) } if missing > 0)
    }

    /// The rest of the file is asked for; the caller of this sends NEED_BODY. Returns how many
    /// bytes will come.
    ///
    /// # Panics
    /// If [`Reception::can_ask`] is false: a mistake of the server's code.
    pub fn ask(&mut self) -> u64 {
        let State::Called {
            missing: Some(missing),
        } = self.0
        else {
            panic!("the file was asked for without need");
        };
        self.0 = State::ExpectBody { missing };
        missing
    }
}
