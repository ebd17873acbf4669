//! The caller's end of a call: which frame may come when.

use crate::answer::{Answer, Edit};
use crate::call::{Call, Transfer};
use crate::frame::{ANSWER, EDIT, NEED_BODY, ToClient};
use crate::limits::EDITS_MAX;
use crate::wire::Violation;

/// What a server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Send the rest of the file, from this offset on, as DATA frames and an END frame.
    SendFrom(u64),
    /// Keep this change until the answer says whether it holds.
    Edit(Edit<'a>),
    /// The end. Nothing of what follows on the connection means anything.
    Answer(Answer<'a>),
}

/// Whether the server may still ask for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// It has what it gets: a descriptor, nothing at all, or the file on its way.
    Settled,
    /// It may ask for what follows this offset.
    MayBeAsked(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting(Body),
    Answered,
}

/// The caller's end of one call. Made when the call has been encoded; fed with what the server
/// sends by [`Conversation::receive`] until an [`Event::Answer`] or a violation.
///
/// It trusts the server in nothing: edits out of order, beyond the file or not asked for, a second
/// request for the file and whatever follows the answer are violations.
#[derive(Clone, Debug)]
pub struct Conversation {
    state: State,
    can_edit: bool,
    size: u64,
    edits: u32,
    edited_to: u64,
}

impl Conversation {
    /// The conversation that `call` begins.
    #[must_use]
    pub const fn of(call: &Call<'_>) -> Self {
        let body = match call.transfer {
            Transfer::OnDemand => Body::MayBeAsked(call.head.len() as u64),
            Transfer::None | Transfer::Descriptor => Body::Settled,
        };
        Self {
            state: State::Waiting(body),
            can_edit: call.can_edit,
            size: call.size,
            edits: 0,
            edited_to: 0,
        }
    }

    /// Takes the first frame off `input`: what it says and how many bytes it took, or `None`
    /// while it is not complete.
    ///
    /// # Errors
    /// What the server did wrong; the call has failed then.
    pub fn receive<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<Option<(Event<'a>, usize)>, Violation> {
        let Some((frame, taken)) = ToClient::decode(input)? else {
            return Ok(None);
        };
        let event = match (frame, self.state) {
            (ToClient::NeedBody, State::Waiting(Body::MayBeAsked(from))) => {
                self.state = State::Waiting(Body::Settled);
                Event::SendFrom(from)
            }
            (ToClient::Edit(edit), State::Waiting(_)) => {
                self.check_edit(&edit)?;
                Event::Edit(edit)
            }
            (ToClient::Answer(answer), State::Waiting(_)) => {
                if answer.edits != self.edits {
                    return Err(Violation::Value("number of edits"));
                }
                self.state = State::Answered;
                Event::Answer(answer)
            }
            (ToClient::NeedBody, _) => return Err(Violation::Unexpected(NEED_BODY)),
            (ToClient::Edit(_), State::Answered) => return Err(Violation::Unexpected(EDIT)),
            (ToClient::Answer(_), State::Answered) => return Err(Violation::Unexpected(ANSWER)),
        };
        Ok(Some((event, taken)))
    }

    fn check_edit(&mut self, edit: &Edit<'_>) -> Result<(), Violation> {
        let end = edit.end()?;
        if !self.can_edit || self.edits as usize >= EDITS_MAX {
            return Err(Violation::Unexpected(EDIT));
        }
        if edit.offset < self.edited_to || end > self.size {
            return Err(Violation::Value("edit"));
        }
        self.edited_to = end;
        self.edits += 1;
        Ok(())
    }
}
