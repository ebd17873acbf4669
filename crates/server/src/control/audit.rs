//! What commands change, for the audit log: who, what, and what came of it.
//!
//! The directory notes what its orders have changed, and the supervisor what reloads have, and who
//! stops the server. Here is the rest: other verbs that change something, and what was refused.

use std::io::Result as Written;

use serde::Deserialize;
use serde_json::{Value, json};
use stentor_auth::store::{AuditLog, Directory, Who};
use stentor_control::{Audit, Verb};

use super::protocol::Answer;

/// What a request says of what it is about. The messages that it may carry are passed over.
#[derive(Debug, Deserialize)]
pub(crate) struct Subject {
    verb: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    client_id: Option<String>,
    #[serde(default)]
    room: Option<String>,
    #[serde(default)]
    user: Option<String>,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    topic: Option<String>,
    #[serde(default)]
    filter: Option<String>,
    #[serde(default)]
    file: Option<String>,
    /// The number of a trace.
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    zone: Value,
    #[serde(default)]
    dry_run: bool,
}

/// Verbs of orders that change something.
const ORDERS: [&str; 16] = [
    "user.add",
    "user.set-password",
    "user.disable",
    "user.enable",
    "user.delete",
    "user.import",
    "user.export",
    "role.add",
    "role.change",
    "role.delete",
    "grant",
    "revoke",
    "token.create",
    "token.revoke",
    "zone.add",
    "zone.remove",
];

/// The order that a verb gives. The directory notes what it has changed, under this name.
const fn order(verb: Verb) -> Option<&'static str> {
    Some(match verb {
        Verb::UsersAdd => "user.add",
        Verb::UsersSetPassword => "user.set-password",
        Verb::UsersDisable => "user.disable",
        Verb::UsersEnable => "user.enable",
        Verb::UsersRm => "user.delete",
        Verb::UsersGrant => "grant",
        Verb::UsersRevoke => "revoke",
        Verb::RolesAdd => "role.add",
        Verb::RolesChange => "role.change",
        Verb::RolesRm => "role.delete",
        Verb::TokensCreate => "token.create",
        Verb::TokensRevoke => "token.revoke",
        Verb::ZonesAdd => "zone.add",
        Verb::ZonesRm => "zone.remove",
        _ => return None,
    })
}

/// Characters of a text that a line has. A refused request may have had more.
const TEXT_CHARS_MAX: usize = 1_024;

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

impl Subject {
    /// Reads what a request is about; `None` if it changes nothing that is noted here.
    pub(crate) fn of(verb: &str, line: &[u8]) -> Option<Self> {
        let audit = Verb::named(verb).map(Verb::audit);
        let is_change = ORDERS.contains(&verb) || audit == Some(Audit::Outcome);
        let subject = is_change.then(|| serde_json::from_slice::<Self>(line));
        let mut subject = subject?.ok().filter(|subject| !subject.dry_run)?;
        if let Some(order) = Verb::named(verb).and_then(order) {
            order.clone_into(&mut subject.verb);
        }
        Some(subject)
    }

    /// Notes what came of a request, where nobody else does.
    pub(super) fn note(&self, directory: &Directory, who: &Who, answer: &Answer) {
        let answer = answer.as_ref().map_err(|failure| &*failure.message);
        if let Some(detail) = self.detail(answer) {
            directory.note(who, &self.verb, &self.target(), detail);
        }
    }

    /// The same for a command to a stopped server, with its answer or why it is refused.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub(crate) fn note_offline(
        &self,
        audit: &AuditLog,
        answer: Result<&Value, &str>,
    ) -> Written<()> {
        let Some(detail) = self.detail(answer) else {
            return Ok(());
        };
        let who = format!("uid {} by a command", nix::unistd::getuid());
        audit.note(&who, &self.verb, &self.target(), detail)
    }

    fn target(&self) -> String {
        let named = [
            &self.name,
            &self.client_id,
            &self.room,
            &self.user,
            &self.address,
            &self.topic,
            &self.filter,
            &self.file,
        ];
        let named = named.into_iter().flatten().next().map(|it| shortened(it));
        named.unwrap_or_else(|| match self.verb.split('.').next() {
            Some("retained") => "retained messages".to_owned(),
            Some("adaptors") => "all adaptors".to_owned(),
            Some("procedures") => "all procedures".to_owned(),
            Some("traces") if self.id.is_some() => {
                format!("trace {}", self.id.unwrap_or_default())
            }
            Some("bans" | "traces") => "all clients of a zone".to_owned(),
            Some("login") => "the owner".to_owned(),
            Some("log") => "the log".to_owned(),
            _ => "users".to_owned(),
        })
    }

    /// What the line says besides; `None` if nothing has changed, or it is noted already.
    fn detail(&self, answer: Result<&Value, &str>) -> Option<Value> {
        let mut detail = match answer {
            Err(message) => json!({ "outcome": "refused", "reason": shortened(message) }),
            Ok(_) if ORDERS.contains(&self.verb.as_str()) => return None,
            Ok(answer) => done(&self.verb, answer)?,
        };
        if let (Some(_), Some(user)) = (&self.room, &self.user) {
            detail["user"] = shortened(user).into();
        }
        if detail["zone"].is_null() {
            match &self.zone {
                Value::String(name) => detail["zone"] = shortened(name).into(),
                Value::Number(number) => detail["zone"] = number.clone().into(),
                _ => {}
            }
        }
        Some(detail)
    }
}

/// What a verb has done, by its answer; `None` for nothing.
fn done(verb: &str, answer: &Value) -> Option<Value> {
    let keys: &[&str] = match verb {
        "clients.kick" => &["was_connected", "session_ended"],
        "rooms.close" => &["stays"],
        "retained.put" => &["new", "changed"],
        "retained.clear" => &["cleared"],
        "retained.compact" => &["files_removed"],
        "log.level" => &["level", "target", "target_level", "left_secs"],
        _ => &[],
    };
    let mut detail = json!({});
    for key in keys.iter().filter(|key| !answer[**key].is_null()) {
        detail[*key] = answer[*key].clone();
    }
    if verb == "clients.kick" {
        detail["zone"] = answer["zone_name"].clone();
    }
    let refused = answer["refused"].as_array().map_or(0, Vec::len);
    if refused > 0 {
        detail["refused"] = json!(refused);
    }
    let counts = ["new", "changed", "cleared"].map(|key| answer[key].as_u64());
    let is_counted = counts.iter().any(Option::is_some);
    if is_counted && counts.into_iter().flatten().sum::<u64>() + refused as u64 == 0 {
        return None;
    }
    if verb == "adaptors.reload" {
        let adaptors = answer["adaptors"].as_array().into_iter().flatten();
        let short = adaptors.map(|one| match one["error"].as_str() {
            Some(reason) => json!({ "file": one["file"], "reason": reason }),
            None => json!({ "file": one["file"], "new": one["new"] }),
        });
        let all: Vec<Value> = short.collect();
        if all.iter().any(|one| !one["reason"].is_null()) {
            detail["outcome"] = json!("refused");
        }
        detail["adaptors"] = json!(all);
    }
    if verb == "bans.add" {
        let ban = &answer["ban"];
        detail["until"] = ban["until"].clone();
        detail["ban_reason"] = ban["reason"].clone();
        detail["closed"] = answer["closed"].clone();
    }
    if verb == "procedures.reload" {
        return procedures(answer);
    }
    Some(detail)
}

/// What a look at the files of procedures has changed, and which files it refused.
fn procedures(answer: &Value) -> Option<Value> {
    let all = answer["procedures"].as_array().into_iter().flatten();
    let (mut loaded, mut refused) = (Vec::new(), Vec::new());
    for one in all {
        match one["problem"].as_str() {
            Some(reason) if !reason.is_empty() => {
                refused.push(json!({ "procedure": one["procedure"], "reason": reason }));
            }
            _ if one["new"] == true => loaded.push(&one["procedure"]),
            _ => {}
        }
    }
    let removed = &answer["removed"];
    let is_removed = removed.as_array().is_some_and(|names| !names.is_empty());
    if loaded.is_empty() && refused.is_empty() && !is_removed {
        return None;
    }
    let mut detail = json!({ "loaded": loaded, "removed": removed });
    if !refused.is_empty() {
        detail["outcome"] = json!("refused");
        detail["refused"] = json!(refused);
    }
    Some(detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::protocol::Failure;

    fn detail(request: Value, answer: Answer) -> Option<(String, Value)> {
        let verb = request["verb"].as_str().unwrap().to_owned();
        let subject = Subject::of(&verb, request.to_string().as_bytes())?;
        let answer = answer.as_ref().map_err(|failure| &*failure.message);
        Some((subject.target(), subject.detail(answer)?))
    }

    #[test]
    fn what_has_changed_is_noted_and_nothing_else() {
        let kick = json!({ "verb": "clients.kick", "client_id": "c", "zone": "game" });
        let kicked = json!({ "zone_name": "game", "was_connected": true, "session_ended": false });
        let noted = json!({
            "zone": "game", "was_connected": true, "session_ended": false,
        });
        assert_eq!(
            detail(kick.clone(), Ok(kicked)),
            Some(("c".to_owned(), noted))
        );
        let refused = Err(Failure::new("not-found", "there is no session"));
        let noted = json!({
            "outcome": "refused", "reason": "there is no session", "zone": "game",
        });
        assert_eq!(detail(kick, refused.clone()), Some(("c".to_owned(), noted)));
        let clear = json!({ "verb": "retained.clear", "filter": "a/#" });
        let noted = Some(("a/#".to_owned(), json!({ "cleared": 3 })));
        assert_eq!(
            detail(clear.clone(), Ok(json!({ "cleared": 3, "refused": [] }))),
            noted
        );
        assert_eq!(
            detail(clear, Ok(json!({ "cleared": 0, "refused": [] }))),
            None
        );
        let put = json!({ "verb": "retained.put", "messages": [{}], "dry_run": true });
        assert_eq!(detail(put, Ok(json!({ "new": 1 }))), None);
        let (target, noted) = detail(
            json!({ "verb": "users.rm", "name": "x".repeat(2_000) }),
            refused.clone(),
        )
        .expect("a refusal is noted");
        assert_eq!(
            (target.chars().count(), &noted["outcome"]),
            (1_025, &json!("refused"))
        );
        let verb = json!({ "verb": "users.rm", "name": "ann" });
        assert_eq!(detail(verb, Ok(json!({}))), None, "its worker notes it");
        let add = json!({ "verb": "user.add", "name": "ann" });
        assert_eq!(
            detail(add.clone(), Ok(json!({}))),
            None,
            "its worker notes it"
        );
        assert_eq!(detail(add, refused.clone()).unwrap().0, "ann");
        assert_eq!(
            detail(json!({ "verb": "user.show", "name": "ann" }), refused),
            None
        );
    }

    #[test]
    fn a_trace_is_named_by_its_number() {
        let stop = json!({ "verb": "traces.stop", "id": 7 });
        assert_eq!(detail(stop, Ok(json!({}))).unwrap().0, "trace 7");
        let start = json!({ "verb": "traces.start", "zone": "game" });
        let (target, _) = detail(start, Ok(json!({ "id": 8 }))).unwrap();
        assert_eq!(target, "all clients of a zone");
    }

    #[test]
    fn a_reload_of_adaptors_says_what_came_of_each() {
        let answer = json!({ "adaptors": [
            { "file": "a.luau", "zone": null, "new": true },
            { "file": "b.luau", "error": "b.luau:2: no end" },
        ]});
        let (target, noted) = detail(json!({ "verb": "adaptors.reload" }), Ok(answer)).unwrap();
        assert_eq!(target, "all adaptors");
        assert_eq!(noted["outcome"], "refused");
        assert_eq!(noted["adaptors"][1]["reason"], "b.luau:2: no end");
    }

    #[test]
    fn a_reload_of_procedures_is_noted_if_it_changed_or_refused_a_file() {
        let one = |name: &str, new: bool, problem: &str| {
            let procedure = name;
            json!({ "procedure": procedure, "new": new, "problem": problem })
        };
        let reload = |procedures: Vec<Value>, removed: &[&str]| {
            let answer = json!({ "procedures": procedures, "removed": removed });
            detail(json!({ "verb": "procedures.reload" }), Ok(answer))
        };
        assert_eq!(reload(vec![one("a", false, "")], &[]), None);
        let (target, noted) =
            reload(vec![one("a", true, ""), one("b", false, "")], &["c"]).unwrap();
        assert_eq!(target, "all procedures");
        assert_eq!(noted, json!({ "loaded": ["a"], "removed": ["c"] }));
        let (_, noted) = reload(vec![one("b", false, "b.luau:2: no end")], &[]).unwrap();
        assert_eq!(noted["outcome"], "refused");
        assert_eq!(noted["refused"][0]["reason"], "b.luau:2: no end");
    }
}
