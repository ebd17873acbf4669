//! SCRAM through the AUTH packets of MQTT 5.

use std::sync::Arc;
use std::time::Instant;

use super::password::valid;
use super::throttle::{Admission, Turn};
use super::{LoginAttempt, Proof, Shared};
use crate::credential::scram::{ClientFirst, ScramServer, server_nonce};
use crate::credential::{ScramSecret, Sha};
use crate::model::{Login, User};
use crate::{Answer, Decision, Exchange, Refusal, Secret};

/// An exchange that waits for the proof of the client.
pub(super) struct Waiting {
    login: LoginAttempt,
    turn: Turn,
    server: ScramServer,
    /// The user who has the secret, and what it proves; `None` if no user has it.
    found: Option<(Arc<User>, Proof)>,
}

/// The login name in the first message of a client. A user name in CONNECT must be the same. One
/// that nobody can have is refused when the attempt is counted.
pub(super) fn username(message: &[u8], connect: Option<&str>) -> Result<String, Refusal> {
    let first = ClientFirst::read(message).map_err(|_| Refusal::Protocol)?;
    let is_other = |name: &str| Login::parse(name) != Login::parse(&first.username);
    if connect.is_some_and(is_other) {
        return Err(Refusal::Credentials);
    }
    Ok(first.username)
}

impl Shared {
    /// Answers the first message with a challenge: the user's, or one that looks like it.
    pub(super) fn begin_scram(
        self: &Arc<Self>,
        login: LoginAttempt,
        turn: Turn,
        sha: Sha,
        message: &Secret,
        answer: Answer,
    ) {
        let Ok(first) = ClientFirst::parse(message.reveal()) else {
            self.throttle.failed(Instant::now(), &login);
            return answer.give(Decision::Refused(Refusal::Protocol));
        };
        self.find(login, answer, move |shared, login, user, answer| {
            let Ok(nonce) = server_nonce() else {
                return answer.give(Decision::Refused(Refusal::Unavailable));
            };
            let known = user.and_then(|user| {
                let of_sha = |secret: &ScramSecret| secret.sha() == sha;
                let (secret, proof) = valid(&user).find_map(|credential| {
                    let secret = ScramSecret::parse(&credential.text).ok().filter(of_sha)?;
                    let proof = Proof {
                        expires_at_secs: credential.expires_at_secs,
                        secret: Some(Arc::clone(&credential.text)),
                        ..Proof::default()
                    };
                    Some((secret, proof))
                })?;
                Some((secret, (user, proof)))
            });
            let (secret, found) = match known {
                Some((secret, found)) => {
                    // The proof is checked on a shard, which writes nothing.
                    if shared.grants.zone_number(&login.key.zone).is_err() {
                        return answer.give(Decision::Refused(Refusal::Unavailable));
                    }
                    shared.decoys.saw_scram(&login.key, &secret);
                    (secret, Some(found))
                }
                None => (shared.decoys.scram(sha, &login.key), None),
            };
            let (server, challenge) = ScramServer::begin(&first, secret, &nonce);
            let waiting = Waiting {
                login,
                turn,
                server,
                found,
            };
            answer.give(Decision::Continue(Exchange::new(waiting), challenge));
        });
    }

    /// Checks the proof of a client: some microseconds.
    pub(super) fn finish_scram(&self, waiting: Waiting, message: &[u8]) -> Decision {
        let Waiting {
            login,
            turn,
            server,
            found,
        } = waiting;
        // What began at once with a thousand others was admitted before the first had failed. A
        // shard keeps nobody waiting: who comes again waits its turn.
        let is_late = || matches!(self.admission(&login), Admission::At(..) | Admission::Never);
        if turn == Turn::Free && is_late() {
            return Decision::Refused(Refusal::Slowed);
        }
        match (server.finish(message), found) {
            (Ok(signature), Some((user, proof))) => {
                self.accept(&login, Some(&user), proof, Some(signature))
            }
            _ => self.fail(&login),
        }
    }
}
