//! From CONNECT to a session.

use std::borrow::Cow;
use std::sync::Arc;

use stentor_auth::credential::certificate::{CertificateError, user_name};
use stentor_auth::rights::Unrestricted;
use stentor_auth::{Answer, Asker, Begun, Decision, LoginRequest, Method, Refusal, Secret};
use stentor_hub::connections::set_owner;
use stentor_hub::{Identity, LinkId, home_shard};
use stentor_mqtt::{ConnAck, Packet, Property, PropertyBuf, ReasonCode, Version, encode};
use stentor_session::{
    CloseReason, ConnectRequest, Denied, Limit, Local, Output, Remote, Tick, Violation,
    read_connect, refusal,
};

use super::command::{Purpose, ShardCommand};
use super::link::{Entrance, Link, LinkKey, Phase, Reading};
use super::tell::Applicant;
use super::{Shard, Stage};
use crate::peer::Peer;
use crate::telemetry::{Bound, Claim};
use crate::transport::Fault;

/// Bytes behind a CONNECT that are taken with it. More wait for the time of connections that go on.
const TAIL_AT_ONCE: usize = 512;

/// The reason for a client with a wrong proof, whatever is wrong with it: details would help an
/// attacker.
const WRONG_LOGIN: CloseReason = CloseReason::Denied(Denied::Credentials);

impl Link {
    /// The user that the client's certificate names, where the listener takes names from those.
    fn certified_name(&self) -> Option<Result<String, CertificateError>> {
        let source = self.port.rules.load().certificate_name?;
        let certificate = self.transport.client_certificate()?;
        Some(user_name(certificate, source))
    }

    /// The identity that the client claims: by its CONNECT, or by its certificate where the CONNECT
    /// names nobody.
    /// In the zone of the listener, where that belongs to one.
    pub(super) fn claim(&self, username: Option<&str>) -> Claim {
        let rules = self.port.rules.load();
        let full = |name: &str| match &rules.zone {
            Some(zone) if !name.contains('/') => format!("{zone}/{name}").into(),
            _ => Box::from(name),
        };
        match (username, self.certified_name()) {
            (Some(name), _) => Claim::Named(full(name)),
            (None, Some(Ok(name))) => Claim::Certified(full(&name)),
            (None, Some(Err(_)) | None) => Claim::Nobody,
        }
    }
}

impl Shard {
    /// Looks for a whole CONNECT in what a link has sent.
    pub(super) fn expect_connect(&mut self, index: u32) {
        let max = self.policy.connect_bytes_max;
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let Phase::ExpectConnect(entrance) = link.phase else {
            return;
        };
        match read_connect(link.tail.unread(), max) {
            Ok(None) => {}
            Ok(Some((request, consumed))) => {
                // It may hold a password.
                link.tail.wipe(consumed);
                self.log_in(index, entrance, Box::new(request));
            }
            Err(_) if is_tls(link.tail.unread()) => {
                let reason = CloseReason::Violation(Violation::ExpectedConnect);
                self.note_refusal(index, Applicant::default(), reason);
                self.part(index, None);
            }
            Err(reason) => {
                let answer = malformed_answer(link.tail.unread(), reason);
                self.note_refusal(index, Applicant::default(), reason);
                self.part(index, answer);
            }
        }
    }

    fn log_in(&mut self, index: u32, entrance: Entrance, request: Box<ConnectRequest>) {
        // 3.x: without a client id there is nothing to keep a session by [MQTT-3.1.3-8].
        let nameless = request.client_id.is_empty()
            && (request.version == Version::V31
                || (request.version == Version::V311 && !request.clean_start));
        if nameless {
            return self.refuse(index, &request, CloseReason::Denied(Denied::ClientId));
        }
        match entrance {
            Entrance::Refused(limit) => self.refuse(index, &request, CloseReason::Limit(limit)),
            Entrance::Banned => self.refuse_address(index, &request),
            Entrance::Stopping => {
                self.refuse(index, &request, CloseReason::Local(Local::ShuttingDown));
            }
            Entrance::Administrator(zone) => {
                let user = Some("admin".into());
                let uid = match self.links[index].peer {
                    Peer::Unix { uid, .. } => Some(uid),
                    Peer::V4(..) | Peer::V6(..) => None,
                };
                let rights = Arc::new(Unrestricted { uid });
                self.enter(
                    index,
                    request,
                    Arc::new(Identity {
                        user,
                        zone,
                        rights,
                        expires_at: Tick::NEVER,
                        guest: None,
                    }),
                );
            }
            // A header stands before everything else, so what is read now is behind it.
            Entrance::Login | Entrance::Proxied => self.authenticate(index, request),
        }
    }

    fn authenticate(&mut self, index: u32, mut request: Box<ConnectRequest>) {
        let link = &self.links[index];
        let method = request.authentication_method.as_deref().map(|name| Method {
            name: name.into(),
            data: Secret::new(request.authentication_data.take().unwrap_or_default()),
        });
        let said_username = request.username.clone();
        if request.username.is_none()
            && let Some(method) = &method
        {
            // For the log, if it is refused.
            request.username = method.said_name();
        }
        let client_id = &*request.client_id;
        let rules = link.port.rules.load();
        let certificate_name = match link.certified_name() {
            // A client that must have a certificate name may not log in as a guest.
            Some(Err(error)) if method.is_none() && said_username.is_none() => {
                let fault = Fault::Certificate(error);
                return self.refuse_proof(index, &request, fault);
            }
            name => name.and_then(Result::ok),
        };
        let mut login = LoginRequest {
            username: said_username,
            password: request.password.take().map(Secret::new),
            client_id: (!client_id.is_empty()).then(|| client_id.into()),
            address: link.peer.address(),
            zone: rules.zone.clone(),
            anonymous: rules.anonymous,
            certificate_name,
            method,
            again: None,
        };
        login.name_by_token();
        let key = self.link_key(index);
        let asker = Asker::default();
        let answer = self.answer_to(key).asked_by(&asker);
        let begun = self.context.authenticator.begin(login, answer);
        if let Begun::Pending = begun {
            self.askers.insert(key, asker);
        }
        self.go_on(index, request, begun);
    }

    /// What the authenticator calls when it has decided.
    pub(super) fn answer_to(&self, key: LinkKey) -> Answer {
        let (context, shard) = (Arc::clone(&self.context), self.id);
        Answer::new(move |decision| context.post(shard, ShardCommand::Login(key, decision)))
    }

    /// The name of a link that exists.
    pub(super) fn link_key(&self, index: u32) -> LinkKey {
        let serial = self.links[index].serial;
        LinkKey { index, serial }
    }

    /// Does what the authenticator says, now or later.
    pub(super) fn go_on(&mut self, index: u32, request: Box<ConnectRequest>, begun: Begun) {
        match begun {
            Begun::Pending => {
                self.links[index].phase = Phase::Authenticating(request);
            }
            Begun::Decided(decision) => self.settle(index, request, decision),
        }
    }

    fn settle(&mut self, index: u32, mut request: Box<ConnectRequest>, decision: Decision) {
        match decision {
            Decision::Accepted(identity, data) => {
                // From here on it is what CONNACK tells.
                request.authentication_data = data;
                self.enter(index, request, identity);
            }
            Decision::Continue(exchange, data) => self.ask(index, request, exchange, &data),
            Decision::Refused(Refusal::Disabled) => {
                self.refuse_proof(index, &request, Fault::Disabled);
            }
            Decision::Refused(why) => self.refuse(index, &request, reason_of(why)),
            Decision::JwtRefused(why) => self.refuse_proof(index, &request, Fault::Bearer(why)),
            Decision::Denied { code, text } => self.deny(index, &request, code, &text),
        }
    }

    /// Answers CONNECT with what an adaptor has against it, and closes.
    fn deny(&mut self, index: u32, request: &ConnectRequest, code: Option<u8>, text: &str) {
        let reason = CloseReason::Denied(Denied::Adaptor);
        let who = Applicant::of(request);
        let said = Fault::Said(text.to_owned().into());
        self.note_refusal_for(index, who, reason, Some(said));
        let code = code.and_then(ReasonCode::from_u8);
        let code = code.unwrap_or(ReasonCode::NotAuthorized);
        self.part(index, Some(refused(request, code, text)));
    }

    /// Answers a web token or a certificate that does not let its bearer in, and a user who is
    /// disabled, as a wrong password is answered.
    fn refuse_proof(&mut self, index: u32, request: &ConnectRequest, why: Fault) {
        let who = Applicant::of(request);
        self.note_refusal_for(index, who, WRONG_LOGIN, Some(why));
        let code = WRONG_LOGIN.reason_code();
        let answer = code.map(|code| refused(request, code, WRONG_LOGIN.told()));
        self.part(index, answer);
    }

    /// The authenticator has answered.
    pub(super) fn decided(&mut self, key: LinkKey, decision: Decision) {
        // The connection may be gone, and its slot another's.
        let Some(link) = self.link_named(key) else {
            return;
        };
        if let Phase::Live(session) = link.phase {
            return self.decided_again(key, session, decision);
        }
        if !matches!(link.phase, Phase::Authenticating(_)) {
            return;
        }
        self.askers.remove(&key);
        if self.links[key.index].is_absent() {
            // Nobody is left to be let in, and no earlier connection has to make room.
            return self.lost(key.index, Remote::Closed);
        }
        let Some(request) = self.request_of(key) else {
            return;
        };
        self.settle(key.index, request, decision);
        self.weigh(key.index);
    }

    /// Refuses a connection that waits for the authenticator.
    pub(super) fn refuse_waiting(&mut self, index: u32, reason: CloseReason) {
        let Some(link) = self.links.get_mut(index) else {
            return;
        };
        let expect = Phase::ExpectConnect(Entrance::Stopping);
        match std::mem::replace(&mut link.phase, expect) {
            Phase::Authenticating(request) => self.refuse(index, &request, reason),
            Phase::ExpectAuth(waiting) => self.refuse(index, &waiting.request, reason),
            other => link.phase = other,
        }
    }

    /// Lets a client in: here, if this is the home of its client id, or there.
    pub(super) fn enter(
        &mut self,
        index: u32,
        request: Box<ConnectRequest>,
        identity: Arc<Identity>,
    ) {
        // Before it takes over anybody's session.
        if let Some(ban) = self.ban_of(index, &request, &identity) {
            return self.refuse_banned(index, &request, &ban);
        }
        let home = if request.client_id.is_empty() {
            // The hub assigns an id whose home is here.
            self.id
        } else {
            let shards = self.context.shard_count();
            let hasher = &self.context.hasher;
            usize::from(home_shard(hasher, identity.zone, &request.client_id, shards).0)
        };
        if home != self.id {
            if !self.has_room(home) {
                let limit = CloseReason::Limit(Limit::ConnectionsPerShard);
                return self.refuse(index, &request, limit);
            }
            return self.send_home(index, home, Purpose::Connect(request, identity));
        }
        if self
            .hub
            .inspect()
            .link(identity.zone, &request.client_id)
            .is_some()
        {
            return self.take_over_later(index, request, identity);
        }
        self.enter_now(index, request, identity);
    }

    /// Lets a client in whose home is here.
    pub(super) fn enter_now(
        &mut self,
        index: u32,
        request: Box<ConnectRequest>,
        identity: Arc<Identity>,
    ) {
        // Reading looks at the control queue, where a word to stop may have been.
        if let Stage::Stopping(_) = self.stage {
            let reason = CloseReason::Local(Local::ShuttingDown);
            return self.refuse(index, &request, reason);
        }
        if let Some(ban) = self.ban_of(index, &request, &identity) {
            return self.refuse_banned(index, &request, &ban);
        }
        let lasts = request.session_expiry_secs > 0;
        let peer = self.links[index].peer;
        let tenants = lasts.then(|| self.context.tenants.of(&identity, peer));
        let owner = self.context.tenants.owner(&identity, peer);
        let who = Arc::clone(&identity);
        let admitted = match self.hub.admit_as(&request, identity, tenants.as_ref()) {
            Ok(admitted) => admitted,
            Err(reason) => return self.refuse_as(index, &request, Some(&who), reason),
        };
        let key = self
            .hub
            .connect(self.now, LinkId(index), *request, admitted);
        set_owner(&mut self.hub, key, owner);
        self.forward_for(Some(key));
        if self.taps.is_on() {
            self.taps.begin(index);
        }
        let slot = key.slot as usize;
        if self.link_of.len() <= slot {
            self.link_of.resize(slot + 1, u32::MAX);
        }
        self.link_of[slot] = index;
        self.links[index].phase = Phase::Live(key);
        // Many connections may come at once, and each with much behind its CONNECT.
        if self.links[index].tail.unread().len() > TAIL_AT_ONCE {
            self.links[index].reading = Reading::Paused;
            self.resumed.push(index);
            return;
        }
        if !self.links[index].tail.is_empty() {
            self.apply_tail(index);
        }
        self.list_missed(index);
    }

    /// Answers CONNECT with a refusal and closes.
    pub(super) fn refuse(&mut self, index: u32, request: &ConnectRequest, reason: CloseReason) {
        self.refuse_as(index, request, None, reason);
    }

    /// The same to somebody of whom it may be known who it is.
    fn refuse_as(
        &mut self,
        index: u32,
        request: &ConnectRequest,
        identity: Option<&Identity>,
        reason: CloseReason,
    ) {
        let who = Applicant::of(request);
        let bound = self.bound(index, identity, reason);
        let told = told(reason, bound.as_ref());
        match bound {
            Some(bound) => self.note_refusal_for(index, who, reason, Some(Fault::Bound(bound))),
            None => self.note_refusal(index, who, reason),
        }
        let code = match reason {
            // CONNACK has no code for this one.
            CloseReason::Local(Local::ShuttingDown) => Some(ReasonCode::ServerUnavailable),
            reason => reason.reason_code(),
        };
        let redirection = self.redirection(index, request.version, reason);
        let refusal = || code.map(|code| refused(request, code, &told));
        self.part(index, redirection.or_else(refusal));
    }

    /// The value of the limit that somebody has met, where one is known.
    fn bound(&self, index: u32, identity: Option<&Identity>, reason: CloseReason) -> Option<Bound> {
        let CloseReason::Limit(limit) = reason else {
            return None;
        };
        let link = self.links.get(index)?;
        let (context, hub) = (&self.context, &self.policy.hub);
        let max = match limit {
            Limit::ConnectionsPerUser
            | Limit::ConnectionsPerUserOfZone
            | Limit::ConnectionsPerZone => {
                let bound = context.authenticator.connection_bound(identity?, limit)?;
                return Some(Bound::Connections(bound));
            }
            Limit::ConnectionsOfListener => link.port.rules.load().connections_max,
            Limit::ConnectionsPerShard => context.capacity.connections as u64,
            Limit::Sessions => hub.sessions_max,
            Limit::Memory => context.ledger.budget(),
            Limit::SessionsPerUser => hub.sessions_per_user_max.into(),
            Limit::SessionsPerAddress => hub.sessions_per_address_max.into(),
            Limit::SessionsPerZone => hub.sessions_per_zone_max.into(),
            _ => context.admission.max(limit)?,
        };
        Some(Bound::Number(limit, max))
    }

    /// The CONNACK that sends a client to another server, if there is one for those who find no
    /// room here.
    fn redirection(
        &self,
        index: u32,
        version: Version,
        reason: CloseReason,
    ) -> Option<Box<Output>> {
        let is_want_of_room = matches!(
            reason,
            CloseReason::Limit(
                Limit::Connections
                    | Limit::ConnectionsOfListener
                    | Limit::ConnectionsPerShard
                    | Limit::ConnectionsPerAddress
                    | Limit::ConnectionRate
                    | Limit::ConnectionRatePerAddress
                    | Limit::LoginQueue
                    | Limit::Sessions
                    | Limit::SessionsPerAddress
                    | Limit::Disk
                    | Limit::Memory
            ) | CloseReason::Local(Local::ShuttingDown)
        );
        if !version.is_v5() || !is_want_of_room {
            return None;
        }
        let link = self.links.get(index)?;
        let reference = self.policy.server_reference(&link.port)?;
        let mut properties = PropertyBuf::new();
        properties.push(Property::ServerReference(&reference));
        let packet = Packet::ConnAck(ConnAck {
            session_present: false,
            reason: ReasonCode::UseAnotherServer,
            properties: properties.as_properties(),
        });
        let mut bytes = Vec::new();
        encode(version, &packet, &mut bytes).ok()?;
        Some(final_output(&bytes))
    }
}

/// Whether a connection begins as one over TLS does: with a handshake record of some 3.x. As MQTT
/// this would be a CONNECT with flags that it cannot have.
fn is_tls(input: &[u8]) -> bool {
    input.starts_with(&[0x16, 3])
}

/// The answer to a CONNECT that cannot be read; `None` for any other packet.
fn malformed_answer(input: &[u8], reason: CloseReason) -> Option<Box<Output>> {
    if !matches!(reason, CloseReason::Malformed(_)) {
        return None;
    }
    let frame = stentor_mqtt::frame(input, u32::MAX).ok().flatten()?;
    // A level that is not known is refused in the version that has a code for it and that
    // everybody understands [MQTT-3.1.2-2].
    let version =
        stentor_mqtt::connect_version(input.get(frame.header_len..)?).unwrap_or(Version::V311);
    let code = reason.reason_code()?;
    // 3.x has no return code for a packet that breaks the rules [3.1.1 MQTT-3.2.2-6].
    let fits = matches!(
        code,
        ReasonCode::UnsupportedProtocolVersion | ReasonCode::ClientIdentifierNotValid
    );
    (version.is_v5() || fits).then(|| final_output(&refusal(version, code, None)))
}

/// The reason of a refusal in the words for the client, with the value of a limit.
fn told(reason: CloseReason, bound: Option<&Bound>) -> Cow<'static, str> {
    match bound {
        None => reason.told().into(),
        Some(bound) => format!("{}: {bound}", reason.told()).into(),
    }
}

/// A CONNACK that refuses, with a text for people that may be empty.
pub(super) fn refused(request: &ConnectRequest, code: ReasonCode, text: &str) -> Box<Output> {
    let text = Some(text).filter(|text| !text.is_empty());
    let mut answer = refusal(request.version, code, text);
    // Without the text if that makes the packet too large [MQTT-3.2.2-19].
    if answer.is_empty() || answer.len() > request.packet_bytes_max as usize {
        answer = refusal(request.version, code, None);
    }
    final_output(&answer)
}

/// Bytes to be written before a connection is closed.
pub(super) fn final_output(bytes: &[u8]) -> Box<Output> {
    let mut output = Box::<Output>::default();
    output.push_control(bytes);
    output
}

pub(crate) const fn reason_of(refusal: Refusal) -> CloseReason {
    match refusal {
        Refusal::Credentials | Refusal::Disabled => WRONG_LOGIN,
        Refusal::LoginRequired => CloseReason::Denied(Denied::Anonymous),
        Refusal::Method => CloseReason::Denied(Denied::AuthMethod),
        Refusal::Protocol => CloseReason::Violation(Violation::UnexpectedAuth),
        Refusal::Busy => CloseReason::Limit(Limit::LoginQueue),
        Refusal::Slowed => CloseReason::Limit(Limit::LoginRate),
        Refusal::GuestRate => CloseReason::Limit(Limit::GuestRate),
        Refusal::Unavailable => CloseReason::Local(Local::Unavailable),
        Refusal::NoZone => CloseReason::Denied(Denied::NoZone),
        Refusal::OtherZone => CloseReason::Denied(Denied::OtherZone),
        Refusal::NoGuests => CloseReason::Denied(Denied::NoGuests),
    }
}
