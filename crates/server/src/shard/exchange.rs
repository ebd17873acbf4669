//! Enhanced authentication [MQTT-4.12]: between CONNECT and CONNACK, and again later.

use std::os::fd::AsFd;

use stentor_auth::{Begun, Decision, Exchange, JwtRefusal, LoginRequest, Method, Secret};
use stentor_hub::{Authenticated, Authentication, SessionKey, Step};
use stentor_mqtt::ReasonCode;
use stentor_session::{
    CloseReason, ConnectRequest, Denied, Limit, Remote, Tick, Timer, Violation, auth, read_auth,
};

use super::Shard;
use super::flush::write_batch;
use super::link::{Entrance, Exchanging, LinkKey, Phase};
use super::login::{final_output, reason_of};
use super::tell::Applicant;
use crate::transport::Fault;

/// What one packet may gather at once: more than AUTH can be.
const AUTH_BYTES_MAX: usize = 128 * 1024;

impl Shard {
    /// Asks a client that has sent CONNECT for more [MQTT-4.12.0-2].
    pub(super) fn ask(
        &mut self,
        index: u32,
        request: Box<ConnectRequest>,
        exchange: Exchange,
        data: &[u8],
    ) {
        let method = request.authentication_method.as_deref().unwrap_or_default();
        let bytes = auth(ReasonCode::ContinueAuthentication, method, Some(data));
        if bytes.is_empty() || bytes.len() > request.packet_bytes_max as usize {
            return self.refuse(index, &request, CloseReason::Limit(Limit::PacketBytes));
        }
        if !self.write_first(index, &bytes) {
            return self.lost(index, Remote::Reset);
        }
        let deadline = self.now.after(self.policy.login_timeout);
        let key = self.link_key(index);
        self.timers.insert(deadline, key);
        let link = &mut self.links[index];
        link.phase = Phase::ExpectAuth(Box::new(Exchanging {
            request,
            exchange,
            deadline,
        }));
        // What came while it was not read.
        if !link.tail.is_empty() {
            self.expect_auth(index);
        }
        self.list_missed(index);
    }

    /// Writes to a connection that has no session yet. An empty socket takes something so small
    /// whole; one that does not is not served.
    fn write_first(&mut self, index: u32, bytes: &[u8]) -> bool {
        let mut output = final_output(bytes);
        output.gather(self.now, None, AUTH_BYTES_MAX, &mut self.batch);
        let link = &mut self.links[index];
        let len = self.batch.len();
        let is_written = if link.transport.is_plain() {
            matches!(write_batch(link.fd.as_fd(), &self.batch), Ok(written) if written == len)
        } else {
            link.transport.send(&self.batch);
            self.pending.push(index);
            true
        };
        let _ = output.written(&mut self.batch, len);
        self.figures.bytes_sent += len as u64;
        link.bytes.sent += len as u64;
        self.hub.recycle(output);
        is_written
    }

    /// Looks for the client's answer in what it has sent.
    pub(super) fn expect_auth(&mut self, index: u32) {
        let max = self.policy.connect_bytes_max;
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let Phase::ExpectAuth(waiting) = &link.phase else {
            return;
        };
        let method = waiting.request.authentication_method.as_deref();
        let read = read_auth(link.tail.unread(), max, method.unwrap_or_default());
        if matches!(read, Ok(None)) {
            return;
        }
        let expect = Phase::ExpectConnect(Entrance::Login);
        let Phase::ExpectAuth(waiting) = std::mem::replace(&mut link.phase, expect) else {
            return;
        };
        let Exchanging {
            request, exchange, ..
        } = *waiting;
        match read {
            Ok(None) => {}
            Ok(Some((answer, consumed))) => {
                link.tail.wipe(consumed);
                let reply = self.answer_to(self.link_key(index));
                let authenticator = &self.context.authenticator;
                let begun = authenticator.proceed(exchange, answer.data, reply);
                self.go_on(index, request, begun);
            }
            Err(CloseReason::Remote(how)) => self.lost(index, how),
            Err(reason) => self.refuse(index, &request, reason),
        }
    }

    /// A connected client authenticates again, or goes on with that [MQTT-4.12.1-1].
    pub(super) fn authenticate_again(&mut self, authentication: Authentication) {
        let Authentication {
            session,
            link,
            identity,
            method,
            step,
            data,
        } = authentication;
        let index = link.0;
        let Some(connection) = self.links.get(index) else {
            return;
        };
        let address = connection.peer.address();
        let key = self.link_key(index);
        let begun = match step {
            Step::Begin => {
                let client_id = self.hub.inspect().client_id(session).map(Into::into);
                let request = LoginRequest {
                    client_id,
                    address,
                    method: Some(Method {
                        name: method,
                        data: Secret::new(data),
                    }),
                    again: Some(identity),
                    ..LoginRequest::default()
                };
                let answer = self.answer_to(key);
                self.context.authenticator.begin(request, answer)
            }
            Step::Continue => match self.exchanges.remove(&key) {
                Some((exchange, _)) => {
                    let answer = self.answer_to(key);
                    self.context.authenticator.proceed(exchange, data, answer)
                }
                None => {
                    let reason = CloseReason::Violation(Violation::UnexpectedAuth);
                    let refused = Authenticated::Refused(reason);
                    return self.hub.authenticated(self.now, session, link, refused);
                }
            },
        };
        if let Begun::Decided(decision) = begun {
            self.decided_again(key, session, decision);
        }
    }

    /// Ends a connected client that was asked for something and has not answered in its time:
    /// whether there was one.
    pub(super) fn expire_exchange(&mut self, key: LinkKey, session: SessionKey) -> bool {
        let is_late = |(_, deadline): &(Exchange, Tick)| *deadline <= self.now;
        if !self.exchanges.get(&key).is_some_and(is_late) {
            return false;
        }
        self.exchanges.remove(&key);
        let refused = Authenticated::Refused(CloseReason::Timeout(Timer::Authentication));
        let link = stentor_hub::LinkId(key.index);
        self.hub.authenticated(self.now, session, link, refused);
        self.forward();
        true
    }

    /// Says in the log why a web token renews nothing: the session's end only says that it has no
    /// right to go on.
    fn tell_bearer(&self, key: LinkKey, session: SessionKey, why: JwtRefusal) {
        let client_id = self.hub.inspect().client_id(session).unwrap_or_default();
        let reason = CloseReason::Denied(Denied::Credentials);
        let who = Applicant {
            user: None,
            client_id,
        };
        self.tell_refusal(key.index, who, reason, Some(Fault::Bearer(why)));
    }

    /// The authenticator has answered a connected client.
    pub(super) fn decided_again(&mut self, key: LinkKey, session: SessionKey, decision: Decision) {
        let authenticated = match decision {
            Decision::Accepted(identity, data) => Authenticated::Accepted(identity, data),
            Decision::Continue(exchange, data) => {
                let deadline = self.now.after(self.policy.login_timeout);
                self.timers.insert(deadline, key);
                self.exchanges.insert(key, (exchange, deadline));
                Authenticated::Continue(data)
            }
            Decision::Refused(why) => Authenticated::Refused(match reason_of(why) {
                // DISCONNECT has no code for wrong credentials.
                CloseReason::Denied(Denied::Credentials) => CloseReason::Denied(Denied::Right),
                reason => reason,
            }),
            Decision::JwtRefused(why) => {
                self.tell_bearer(key, session, why);
                Authenticated::Refused(CloseReason::Denied(Denied::Right))
            }
            Decision::Denied { .. } => Authenticated::Refused(CloseReason::Denied(Denied::Adaptor)),
        };
        let link = stentor_hub::LinkId(key.index);
        self.hub
            .authenticated(self.now, session, link, authenticated);
        self.forward();
    }
}
