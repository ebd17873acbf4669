//! Somebody who has shown a token or a session, and what he may ask.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use serde_json::{Map, Value};
use stentor_admin::{Caller, Denied, Refused, Reply};
use stentor_auth::center::LoginRecord;
use stentor_auth::model::DEFAULT_ZONE;
use stentor_auth::store::Who;
use stentor_control::login::{Me, Session};
use stentor_control::publish::{Plain, Text};
use stentor_control::{Failure, Need, Network, Scope, Verb};
use stentor_hub::Identity;
use stentor_session::Message;
use stentor_topic::Zone;

use super::accounts::{self, Changer, Shown};
use super::known::Known;
use super::meter::{Meter, Over};
use super::payloads;
use super::rights::{self, Wish};
use super::sessions::Found;
use crate::control::Clerk;

/// The topic that stands for the right to read metrics.
const METRICS: &str = "$control/metrics";

/// The bearer of a token, or of the cookie of a session.
pub(super) struct Bearer {
    clerk: Clerk,
    identity: Arc<Identity>,
    meter: Arc<Meter>,
    /// The name of the user's zone.
    zone: String,
    /// The name as at a login; of somebody who came by a link, its maker.
    login: String,
    address: Option<SocketAddr>,
    session: Option<(u64, Session)>,
}

impl Bearer {
    pub(super) fn new(clerk: &Clerk, known: Known, address: Option<SocketAddr>) -> Self {
        let zone = clerk.context().zone_name(known.identity.zone);
        let login = known.login(&zone);
        let Known {
            identity, meter, ..
        } = known;
        Self {
            clerk: clerk.clone(),
            identity,
            meter,
            zone,
            login,
            address,
            session: None,
        }
    }

    /// The same by a session.
    pub(super) fn of_session(
        clerk: &Clerk,
        Found {
            known,
            number,
            told,
        }: Found,
        address: Option<SocketAddr>,
    ) -> Self {
        Self {
            session: Some((number, told)),
            ..Self::new(clerk, known, address)
        }
    }

    /// Whether the user has a right.
    pub(super) fn check(&self, wish: Wish<'_>) -> Result<(), Denied> {
        rights::check(&self.identity, &self.login, wish)
    }

    /// Whether the user has all rights.
    pub(super) fn check_everything(&self, verb: Verb) -> Result<(), Denied> {
        accounts::check_everything(&self.identity, &self.login, verb)
    }

    /// Whether the user may read and write messages of a zone, by its name; of the default zone if
    /// there is none.
    pub(super) fn check_zone(&self, zone: Option<&str>) -> Result<(), Denied> {
        let zone = zone.unwrap_or(DEFAULT_ZONE);
        if zone == self.zone {
            return Ok(());
        }
        self.check(Wish::Publish(&format!("$control/zones/{zone}")))
    }

    fn is_of_default_zone(&self) -> bool {
        self.identity.zone == Zone::DEFAULT
    }

    fn other_zone(&self, what: &str) -> Denied {
        let (login, zone) = (&self.login, &self.zone);
        Denied {
            code: "other-zone",
            detail: format!(
                "{what} is about the whole server, and {login:?} is a user of the zone {zone:?}; \
                 use the token of a user of the zone {DEFAULT_ZONE:?}"
            ),
            rule: None,
        }
    }

    /// Has a request of a user of another zone than the default one be about that zone alone.
    fn confine(&self, verb: Verb, request: &mut Map<String, Value>) -> Result<(), Denied> {
        if self.is_of_default_zone() {
            return Ok(());
        }
        if verb.scope() == Scope::Server {
            return Err(self.other_zone(verb.name()));
        }
        let said = request.insert("zone".into(), Value::from(self.zone.as_str()));
        match said.as_ref().and_then(Value::as_str) {
            Some(other) if other != self.zone => {
                let (login, zone) = (&self.login, &self.zone);
                Err(Denied {
                    code: "other-zone",
                    detail: format!(
                        "{login:?} is a user of the zone {zone:?} and has that zone alone; leave \
                         the key zone out"
                    ),
                    rule: None,
                })
            }
            _ => Ok(()),
        }
    }

    /// The caller, for a look at whether a change is about the caller.
    fn changer(&self) -> Changer<'_> {
        Changer {
            zone: &self.zone,
            user: self.identity.user.as_deref().unwrap_or_default(),
            roles: self.identity.rights.roles(),
        }
    }

    /// Which roles this caller sees; `None` for all.
    fn shown_roles(&self) -> Option<Shown<'_>> {
        let shown = Shown { zone: &self.zone };
        (!self.is_of_default_zone()).then_some(shown)
    }

    /// Refuses to give roles that this caller does not see.
    fn check_roles(&self, verb: Verb, request: &Map<String, Value>) -> Result<(), Failure> {
        let Some(shown) = self.shown_roles() else {
            return Ok(());
        };
        for name in Shown::given(verb, request) {
            let mut wanted = Map::new();
            wanted.insert("name".into(), name.into());
            wanted.insert("zone".into(), self.zone.as_str().into());
            let found = self.clerk.carry_out(Verb::RolesShow, wanted, &self.who());
            let mut found = found.map_err(|failure| match failure.code {
                "not-found" => shown.missing(),
                _ => failure,
            })?;
            shown.keep(Verb::RolesShow, &mut found)?;
        }
        Ok(())
    }

    /// A failure as this caller may hear of it: sentences about names that are not found may show
    /// names of other zones. Those about users and roles show the names of the request alone.
    fn heard(&self, verb: Verb, failure: Failure) -> Failure {
        match failure.code {
            _ if verb.need() == Need::Administer => failure,
            "not-found" | "ambiguous" => match self.shown_roles() {
                Some(shown) => shown.missing(),
                None => failure,
            },
            _ => failure,
        }
    }

    /// Publishes a message, as a client of this user would.
    fn publish(&self, request: Map<String, Value>) -> Result<Value, Refused> {
        let zone = request.get("zone").and_then(Value::as_str);
        self.check_zone(zone).map_err(Refused::Denied)?;
        let topic = request.get("topic").and_then(Value::as_str);
        let wish = Wish::Publish(topic.unwrap_or_default());
        self.check(wish).map_err(Refused::Denied)?;
        self.count(&request).map_err(Refused::Failed)?;
        let request = Value::Object(request);
        let answer = self
            .clerk
            .publish(&self.identity, self.address, request, &self.who());
        answer.map_err(Refused::Failed)
    }

    /// The message of a request, if nothing is against it, and nobody else has to be asked.
    fn plain(&self, request: &Plain<'_>) -> Option<Message> {
        if !self.identity.rights.may_publish(&request.topic) {
            return None;
        }
        let message = self.clerk.plain(self.identity.zone, request)?;
        let payloads = [&request.payload, &request.payload_base64].into_iter();
        let bytes = payloads.flatten().map(|Text(text)| text.len()).sum();
        self.metered(bytes).ok().map(|()| message)
    }

    /// Counts a message whose payload has this many bytes in the request.
    fn metered(&self, bytes: usize) -> Result<(), Over> {
        let now = self.clerk.context().clock.now();
        let quotas = self.identity.rights.quotas();
        self.meter.count(now, quotas, bytes as u64)
    }

    /// Counts a message against the quotas of the user's roles.
    fn count(&self, request: &Map<String, Value>) -> Result<(), Failure> {
        let payloads = ["payload", "payload_base64"].into_iter();
        let payloads = payloads.filter_map(|key| request.get(key)?.as_str());
        self.metered(payloads.map(str::len).sum()).map_err(|over| {
            let (quota, flag, rate) = match over {
                Over::Messages(rate) => ("messages_per_sec", "messages-per-sec", rate.into()),
                Over::Bytes(rate) => ("bytes_per_sec", "bytes-per-sec", rate),
            };
            let (login, roles) = (&self.login, self.identity.rights.roles());
            let message = format!(
                "{login:?} publishes faster than the quota {quota} = {rate} of its roles ({}) \
                 allows; publish slower, or raise it: `stentor role change ROLE --{flag} N`",
                roles.join(", ")
            );
            Failure::new("quota", message)
        })
    }

    /// Whether a ban would keep out whoever asks for it: that one could not remove it again.
    fn bans_himself(&self, request: &Map<String, Value>) -> bool {
        let text = |key: &str| request.get(key).and_then(Value::as_str);
        let network = text("address").and_then(|text| text.parse::<Network>().ok());
        let is_here = network
            .zip(self.address)
            .is_some_and(|(network, address)| network.contains(address.ip()));
        let is_user = text("user").is_some_and(|user| {
            let (zone, name) = match text("zone") {
                Some(zone) => (zone, user),
                None => user.split_once('/').unwrap_or((DEFAULT_ZONE, user)),
            };
            zone == self.zone && Some(name) == self.identity.user.as_deref()
        });
        let is_zone = ["client_id", "user", "address"]
            .into_iter()
            .all(|key| text(key).is_none())
            && text("zone") == Some(&*self.zone);
        is_here || is_user || is_zone
    }

    /// For the audit log.
    fn who(&self) -> Who {
        let login = &self.login;
        Who::new(match self.address {
            Some(address) => format!("{login} by HTTP from {}", address.ip()),
            None => format!("{login} by HTTP"),
        })
    }
}

impl Caller for Bearer {
    fn name(&self) -> &str {
        &self.login
    }

    fn session_number(&self) -> Option<u64> {
        self.session.map(|(number, _)| number)
    }

    fn me(&self) -> Me {
        let roles = self.identity.rights.roles();
        Me {
            name: self.login.clone(),
            user: self.identity.user.as_deref().map(str::to_owned),
            zone: self.zone.clone(),
            roles: roles.into_iter().map(str::to_owned).collect(),
            may: Vec::new(),
            session: self.session.map(|(_, told)| told),
        }
    }

    /// For users of the default zone: the metrics are those of the whole server.
    fn may_read_metrics(&self) -> Result<(), Denied> {
        if !self.is_of_default_zone() {
            return Err(self.other_zone("the page of metrics"));
        }
        self.check(Wish::Subscribe(METRICS))
    }

    fn may(&self, verb: Verb) -> Result<(), Denied> {
        match verb.need() {
            Need::Read => self.check(Wish::Subscribe(&verb.right()))?,
            Need::Change | Need::Administer => self.check(Wish::Publish(&verb.right()))?,
            // It is known only with the request.
            Need::Topic => return Ok(()),
        }
        if verb.need() == Need::Administer {
            accounts::check_everything(&self.identity, &self.login, verb)?;
        }
        match verb.scope() {
            Scope::Server if !self.is_of_default_zone() => Err(self.other_zone(verb.name())),
            Scope::Server | Scope::Zone => Ok(()),
        }
    }

    fn may_publish(&self) -> bool {
        let login_record = self.identity.rights.as_any();
        let login_record = login_record.and_then(|any| any.downcast_ref::<LoginRecord>());
        login_record.is_none_or(|login_record| login_record.holder().grant().allows_publish())
    }

    fn may_subscribe(&self, filter: &str) -> Result<(), Denied> {
        self.check(Wish::Subscribe(filter))
    }

    fn session(&self) -> Result<UnixStream, Failure> {
        self.clerk.open_session(&self.identity, self.address)
    }

    fn lost(&self, client_id: &str) -> Option<u64> {
        self.clerk.lost(&self.zone, client_id)
    }

    fn cut(&self, client_id: &str) {
        self.clerk.cut(self.identity.zone, client_id);
    }

    fn set_password(&self, new: &str) -> Result<(), Failure> {
        let sessions = &self.clerk.context().visitors.sessions;
        let made = |hash: &Arc<str>| {
            if let Some((number, _)) = self.session {
                sessions.outlives(number, hash);
            }
        };
        let new = new.to_owned().into();
        self.clerk
            .set_password(&self.login, &new, &self.who(), &made)
    }

    fn publish(&self, message: &Plain<'_>, reply: Reply) -> Result<(), Reply> {
        match self.plain(message) {
            Some(message) => {
                let (identity, address) = (&self.identity, self.address);
                self.clerk.begin_publish(identity, address, message, reply);
                Ok(())
            }
            None => Err(reply),
        }
    }

    fn ask(&self, verb: Verb, mut request: Map<String, Value>) -> Result<Value, Refused> {
        // What was true a moment ago may not be: a request may have waited for its turn.
        self.may(verb).map_err(Refused::Denied)?;
        self.confine(verb, &mut request).map_err(Refused::Denied)?;
        if verb == Verb::Publish {
            return self.publish(request);
        }
        payloads::check(self, verb, &request).map_err(Refused::Denied)?;
        if verb == Verb::BansAdd && self.bans_himself(&request) {
            let message = "this would ban whoever asks for it; ask as somebody else, or use \
                           `stentor ban` on the machine of the server";
            return Err(Refused::Failed(Failure::new("refused", message)));
        }
        if verb.need() == Need::Administer {
            let checked = self.changer().check(verb, &request);
            checked.map_err(Refused::Failed)?;
        }
        self.check_roles(verb, &request).map_err(Refused::Failed)?;
        let answer = self.clerk.carry_out(verb, request, &self.who());
        let mut answer = answer.map_err(|failure| Refused::Failed(self.heard(verb, failure)))?;
        payloads::withhold(self, verb, &mut answer);
        if let Some(shown) = self.shown_roles() {
            shown.keep(verb, &mut answer).map_err(Refused::Failed)?;
        }
        Ok(answer)
    }
}
