//! What the log says beside the reason why a client was refused: the cause, and what helps.

use std::borrow::Cow;
use std::path::Path;

use stentor_auth::credential::jwt::JwtError;
use stentor_auth::{ConnectionBound, JwtRefusal};
use stentor_session::{CloseReason, Denied, Limit, Local, Timer, Violation};

use super::bound::Bound;
use super::journal::{Claim, shown};
use crate::config::ListenUrl;
use crate::listener::{Port, Rules};
use crate::transport::Fault;

/// Where somebody was refused, and who.
pub(super) struct Scene<'a> {
    pub(super) url: &'a ListenUrl,
    pub(super) rules: &'a Rules,
    pub(super) claim: &'a Claim,
    pub(super) fault: Option<&'a Fault>,
    /// The server's data folder, for commands that reach it.
    pub(super) data_dir: &'a Path,
}

/// The end of the line, beginning with a colon; empty where the reason says it all.
pub(super) fn remedy(reason: CloseReason, scene: &Scene<'_>) -> String {
    let text: Cow<'static, str> = match reason {
        CloseReason::Denied(denied) => denial(denied, scene),
        CloseReason::Limit(limit) => limited(limit, scene),
        CloseReason::Malformed(error) => format!("its CONNECT is not valid MQTT: {error}").into(),
        CloseReason::Violation(violation) => violated(violation, scene),
        CloseReason::Timeout(Timer::Login) => {
            "it sent no whole CONNECT in time; `limits.login_timeout` says how long that may take"
                .into()
        }
        CloseReason::Local(Local::Unavailable) => {
            "users cannot be looked up now: another line of the log says why, and one says when \
             they can again"
                .into()
        }
        CloseReason::Timeout(Timer::Authentication | Timer::KeepAlive | Timer::Drain)
        | CloseReason::Local(
            Local::TakenOver
            | Local::Replaced
            | Local::ShuttingDown
            | Local::Kicked
            | Local::Revoked
            | Local::Banned,
        )
        | CloseReason::Remote(_) => Cow::Borrowed(""),
        CloseReason::Bug(what) => format!("this is a bug of the server: {what}").into(),
    };
    if text.is_empty() {
        return String::new();
    }
    format!(": {text}")
}

/// What was wrong with somebody who has come by this entrance and claims to be a user, and what
/// helps.
pub(crate) fn why_refused(
    reason: CloseReason,
    port: &Port,
    claim: &Claim,
    fault: Option<&Fault>,
    data_dir: &Path,
) -> String {
    let rules = port.rules.load();
    let scene = Scene {
        url: &port.url,
        rules: &rules,
        claim,
        fault,
        data_dir,
    };
    let text = remedy(reason, &scene);
    text.trim_start_matches(": ").to_owned()
}

fn denial(denied: Denied, scene: &Scene<'_>) -> Cow<'static, str> {
    let url = scene.url;
    match denied {
        Denied::Anonymous => {
            // Where clients show certificates from which nobody takes a name.
            let rules = scene.rules;
            let hint = if rules.asks_certificates && rules.certificate_name.is_none() {
                "; to take the name in its certificate for its user's, set `certificate_user = \
                 \"cn\"` there"
            } else {
                ""
            };
            format!(
                "it gave no user name; to let clients in without one, start with `stentor serve \
                 --allow-anonymous` (this machine only) or set `anonymous = true` on the listener \
                 {url}{hint}"
            )
            .into()
        }
        Denied::Credentials => wrong_login(scene),
        Denied::Origin => refused_origin(scene),
        Denied::Version => "MQTT 3.1, 3.1.1 and 5.0 are spoken here".into(),
        Denied::ClientId => {
            "MQTT 3.1 needs a client id, and so does 3.1.1 without Clean Session".into()
        }
        Denied::ForeignClientId => FOREIGN_CLIENT_ID.into(),
        Denied::KeepAlive => LONG_KEEP_ALIVE.into(),
        Denied::AuthMethod => {
            "the server has no such authentication method; SCRAM-SHA-256 is always there, JWT \
             with [[jwt]]"
                .into()
        }
        Denied::Right => "it has no right to publish its will".into(),
        Denied::Banned => match scene.fault {
            Some(Fault::Said(ban)) => ban.clone(),
            _ => "its user is disabled or was deleted".into(),
        },
        Denied::Expired => "its token has expired; it needs a new one".into(),
        Denied::NoZone => match scene.claim {
            Claim::Named(name) | Claim::Certified(name) => {
                let zone = shown(name.split('/').next().unwrap_or_default());
                format!(
                    "there is no zone {zone:?}; `stentor zone list` shows those that there are, \
                     `stentor zone add` adds one"
                )
                .into()
            }
            Claim::Nobody => "there is no such zone".into(),
        },
        Denied::OtherZone => format!(
            "everybody who connects to {url} is of the zone {:?}; `zone` of that [[listener]] says \
             so",
            scene.rules.zone.as_deref().unwrap_or_default()
        )
        .into(),
        Denied::NoGuests => "a client with the name `guest` and no password becomes a guest only \
                             where the [[zone]] has `guests = true`; this [[zone]] does not"
            .into(),
        Denied::Adaptor => match scene.fault {
            Some(Fault::Said(text)) if !text.is_empty() => {
                format!("an adaptor's `login` denied it: {}", shown(text)).into()
            }
            _ => "an adaptor's `login` denied it".into(),
        },
    }
}

const LONG_KEEP_ALIVE: &str = "it asks for a longer keep alive than `limits.keep_alive_max`, or \
    for none, and its version of MQTT cannot be told another one; shorten it at the client, raise \
    the limit, or use MQTT 5";

/// Names and passwords are not told apart to the client; the operator gets what tells them apart.
fn wrong_login(scene: &Scene<'_>) -> Cow<'static, str> {
    match scene.fault {
        Some(Fault::Bearer(JwtRefusal::Disabled)) if !scene.claim.name().is_empty() => {
            let enable = command(scene, "user enable", scene.claim.name());
            return format!("{}; {enable} lets it in again", JwtRefusal::Disabled).into();
        }
        Some(Fault::Bearer(why)) => return format!("{why}; {}", for_bearer(why)).into(),
        Some(Fault::Certificate(error)) => return error.to_string().into(),
        Some(Fault::Disabled) => {
            let enable = command(scene, "user enable", scene.claim.name());
            return format!("the user is disabled; {enable} lets it in again").into();
        }
        Some(Fault::Said(_) | Fault::Origin(_) | Fault::Bound(_)) | None => {}
    }
    let command = |verb: &str, name: &str| command(scene, &format!("user {verb}"), name);
    match scene.claim {
        Claim::Certified(name) => format!(
            "its certificate names the user {:?}, who is unknown or disabled; {} adds that user",
            shown(name),
            command("add", name)
        ),
        Claim::Named(name) => format!(
            "wrong user name or password; {} tells whether there is such a user, {} and {} give \
             it a password",
            command("show", name),
            command("add", name),
            command("set-password", name)
        ),
        Claim::Nobody => "its credentials are not valid".to_owned(),
    }
    .into()
}

/// A command about something of this name, which can be pasted.
fn command(scene: &Scene<'_>, verb: &str, name: &str) -> String {
    let (name, folder) = (shown(name), scene.data_dir.to_string_lossy());
    format!(
        "`stentor {verb} {} --data-dir {}`",
        word(&name),
        word(&folder)
    )
}

/// Which limit was met, its value, and what raises it.
fn limited(limit: Limit, scene: &Scene<'_>) -> Cow<'static, str> {
    use ConnectionBound as By;
    let Some(Fault::Bound(bound)) = scene.fault else {
        return limit_reached(limit).into();
    };
    let more = match bound {
        Bound::Number(..) => limit_reached(limit).to_owned(),
        Bound::Connections(By::Role { name, zone, .. }) => {
            let zone = zone.as_ref();
            let zone = zone.map_or_else(String::new, |zone| format!(" --zone {}", word(zone)));
            let change = command(scene, "role change", name);
            let change = change.trim_end_matches('`');
            format!("{change} --connections N{zone}` allows more")
        }
        Bound::Connections(By::Configured { zone, .. }) => format!(
            "raise `{}` of the [[zone]] {zone}, then reload",
            match limit {
                Limit::ConnectionsPerZone => "connections",
                _ => "user_connections",
            }
        ),
        Bound::Connections(By::Added { zone, .. }) => {
            let add = command(scene, "zone add", zone);
            format!("{} --connections N` allows more", add.trim_end_matches('`'))
        }
    };
    format!("{bound}; {more}").into()
}

/// What helps somebody whose web token does not let it in.
const fn for_bearer(why: &JwtRefusal) -> &'static str {
    match why {
        JwtRefusal::Token(error) => match error {
            JwtError::Malformed | JwtError::Unsupported(_) => {
                "the issuer of the token has to make another one"
            }
            JwtError::TooLong(_) => "the issuer of the token has to put less into it",
            JwtError::UnknownKey => {
                "`key_file` or `jwks_file` of its [[jwt]] has to hold the key, and `algorithms` to \
                 allow it"
            }
            JwtError::Signature => {
                "it was changed, or signed with another key than `key_file` or `jwks_file` of its \
                 [[jwt]] holds"
            }
            JwtError::Claim(_) => {
                "the issuer of the token has to correct that claim; see the claims of [[jwt]]"
            }
            JwtError::Name(..) => {
                "the issuer of the token has to give another name; or set `user_claim` of its \
                 [[jwt]] to another claim"
            }
            JwtError::Audience(_) => {
                "`audience` of its [[jwt]] lists the audiences that are accepted, `stentor` if it \
                 is not given; `audience = []` accepts tokens without the claim"
            }
            JwtError::Issuer => "`issuer` of its [[jwt]] names the issuer that is accepted",
            JwtError::Expired => {
                "the client needs a new one; for clocks that differ there is `leeway` of its \
                 [[jwt]]"
            }
            JwtError::NotYet => "for clocks that differ there is `leeway` of its [[jwt]]",
        },
        JwtRefusal::OtherUser => "it has to give the name that the token has, or none",
        JwtRefusal::OtherZone => "`zone` of that [[listener]] says which one it is",
        JwtRefusal::Reserved => "the issuer of the token has to give the user another name",
        JwtRefusal::NoZone => {
            "`stentor zone list` shows those that there are, `stentor zone add` adds one"
        }
        JwtRefusal::Disabled => "`stentor user enable` lets the user in again",
        JwtRefusal::Unknown => {
            "`stentor user add` adds the user; without `known_users` its [[jwt]] lets everybody in"
        }
    }
}

const FOREIGN_CLIENT_ID: &str = "`auth.client_id_binding` lets a user have client ids that begin \
    with its name (\"user-prefix\"), or that no other user has a session with (\"owner\"): have \
    the client use one of those";

fn refused_origin(scene: &Scene<'_>) -> Cow<'static, str> {
    let url = scene.url;
    let origin = match scene.fault {
        Some(Fault::Origin(origin)) => &**origin,
        _ => "",
    };
    match origin {
        "null" => "a page that has no origin of its own, since it was opened from a file or runs \
                   in a sandbox, may not connect here; open it from a web server, whose origin \
                   `allowed_origins` can name"
            .into(),
        "" => "its request has an empty Origin header, which no page sends; leave the header out"
            .into(),
        _ if url.is_local() => format!(
            "a page of {origin:?} may not connect here: the listener is bound to this machine, so \
             the page and the Host that it asks for must be localhost, 127.0.0.1 or [::1]; to let \
             it, add that origin to `allowed_origins` of the listener {url}"
        )
        .into(),
        _ => format!(
            "a page of {origin:?} may not connect here; to let it, add that origin to \
             `allowed_origins` of the listener {url}"
        )
        .into(),
    }
}

const fn limit_reached(limit: Limit) -> &'static str {
    match limit {
        Limit::Connections => "raise `limits.connections`",
        Limit::ConnectionsOfListener => "raise `max_connections` of its [[listener]]",
        Limit::ConnectionsPerShard => {
            "too many connections are open for the files that one shard may open; raise the limit \
             on open files (LimitNOFILE), or --shards"
        }
        Limit::ConnectionsPerAddress => "raise `limits.connections_per_address`",
        Limit::ConnectionRate => "raise `limits.connection_rate`",
        Limit::ConnectionRatePerAddress => "raise `limits.connection_rate_per_address`",
        Limit::ConnectionsPerUser => {
            "raise the quota `connections` of a role that the user has, by `stentor role`"
        }
        Limit::SecondLogin => {
            "`second_login = \"refuse\"` of its [[zone]] refuses a user who is connected already; \
             \"replace\" ends the older connection, and \"allow\" keeps both"
        }
        Limit::ConnectionsPerUserOfZone => "raise `user_connections` of its [[zone]]",
        Limit::ConnectionsPerZone => {
            "raise the quota `connections` of its zone, or `connections` of its [[zone]]"
        }
        Limit::Sessions => "raise `limits.sessions`, or lower `limits.session_expiry_max`",
        Limit::Disk => "free space on the disk of `sessions.dir`; `stentor status` says more",
        Limit::Memory => "raise `limits.memory`; `stentor status` says who holds most",
        Limit::SessionsPerUser => "raise `limits.sessions_per_user`",
        Limit::SessionsPerAddress => {
            "raise `limits.sessions_per_address`; clients behind a load balancer have its address \
             unless it speaks the PROXY protocol: see `proxies` of the [[listener]]"
        }
        Limit::SessionsPerZone => "raise `limits.sessions_per_zone`",
        Limit::LoginQueue => {
            "more logins wait for the database than `auth.queue` allows; they are tried again"
        }
        Limit::LoginRate => {
            "logins from its address, or of its account, have failed too often lately; it may \
             log in again after a pause; correct the password that the client uses, or \
             set `auth.slow_failures = false`"
        }
        Limit::GuestRate => {
            "more guests log in per second than `guest_rate` of their [[zone]] permits; raise it"
        }
        Limit::PacketBytes => {
            "its CONNECT is larger than `limits.packet_bytes`, or than the 1 MiB that any CONNECT \
             may have"
        }
        Limit::RequestBytes => "the head of its HTTP request is too long: cookies, perhaps",
        Limit::ReceiveMaximum | Limit::QueueBytes | Limit::Retained => "",
    }
}

fn violated(violation: Violation, scene: &Scene<'_>) -> Cow<'static, str> {
    match violation {
        Violation::WebSocket | Violation::Tls => match scene.fault {
            Some(Fault::Said(said)) => said.clone(),
            _ => Cow::Borrowed(""),
        },
        Violation::ExpectedConnect => {
            "its first packet is not an MQTT CONNECT; for TLS, use a listener mqtts://; for \
             WebSocket, use ws:// or wss://"
                .into()
        }
        Violation::Proxy => {
            "its address is one of `proxies`, and what it sent begins with no PROXY protocol \
             header; turn that on at the load balancer, or take the address out"
                .into()
        }
        Violation::TopicName => {
            "the topic of its will is not a valid topic name, or above `limits.topic_bytes` or \
             `limits.topic_levels`"
                .into()
        }
        Violation::SecondConnect
        | Violation::ServerPacket
        | Violation::TopicAlias
        | Violation::UnknownAlias
        | Violation::PacketId
        | Violation::Subscription
        | Violation::SharedNoLocal
        | Violation::UnexpectedAuth
        | Violation::SessionExpiry => Cow::Borrowed(""),
    }
}

/// A word of a command that can be pasted into a shell. What holds control characters is shown
/// instead: nobody should paste it.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./@:+,%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else if text.contains(char::is_control) {
        Cow::Owned(format!("{text:?}"))
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::Port;

    fn check(reason: CloseReason, claim: &Claim, fault: Option<Fault>, wanted: &[&str]) {
        let port = Port::for_tests(0);
        let rules = port.rules.load();
        let url = "mqtt://[::1]:1883".parse().unwrap();
        let scene = Scene {
            url: &url,
            rules: &rules,
            claim,
            fault: fault.as_ref(),
            data_dir: Path::new("/var/lib/my server"),
        };
        let text = remedy(reason, &scene);
        for words in wanted {
            assert!(text.contains(words), "{words:?} is missing: {text}");
        }
    }

    #[test]
    fn a_refused_login_says_what_mends_it() {
        let anonymous = CloseReason::Denied(Denied::Anonymous);
        let says = ["--allow-anonymous", "mqtt://[::1]:1883"];
        check(anonymous, &Claim::Nobody, None, &says);
        let wrong = CloseReason::Denied(Denied::Credentials);
        let named = Claim::Named("it's me".into());
        let says = [
            r"user show 'it'\''s me' --data-dir '/var/lib/my server'`",
            "set-password",
        ];
        check(wrong, &named, None, &says);
        let certified = Claim::Certified("ann".into());
        let says = [
            "certificate names the user \"ann\"",
            "user add ann --data-dir",
        ];
        check(wrong, &certified, None, &says);
        let says = [
            "the user is disabled",
            r"`stentor user enable 'it'\''s me' --data-dir",
        ];
        check(wrong, &named, Some(Fault::Disabled), &says);
        let bearer = Some(Fault::Bearer(JwtRefusal::Disabled));
        check(wrong, &named, bearer, &says[1..]);
    }

    #[test]
    fn a_limit_is_told_with_its_value_and_what_changes_that() {
        let role = |zone: Option<&str>| ConnectionBound::Role {
            name: "sensor".into(),
            zone: zone.map(Into::into),
            max: 2,
        };
        let zone = || "game".into();
        let configured = |max| ConnectionBound::Configured { zone: zone(), max };
        let added = ConnectionBound::Added {
            zone: zone(),
            max: 9,
        };
        let of_zone = Limit::ConnectionsPerUserOfZone;
        for (limit, bound, says) in [
            (
                Limit::Connections,
                Bound::Number(Limit::Connections, 7),
                ["limits.connections is 7", "raise `limits.connections`"],
            ),
            (
                Limit::ConnectionsPerUser,
                Bound::Connections(role(None)),
                [
                    "the role sensor allows 2",
                    "`stentor role change sensor --data-dir '/var/lib/my server' --connections N`",
                ],
            ),
            (
                Limit::ConnectionsPerUser,
                Bound::Connections(role(Some("game"))),
                ["the role sensor allows 2", "--connections N --zone game`"],
            ),
            (
                of_zone,
                Bound::Connections(configured(3)),
                [
                    "the zone game allows 3",
                    "`user_connections` of the [[zone]] game",
                ],
            ),
            (
                Limit::ConnectionsPerZone,
                Bound::Connections(configured(4)),
                [
                    "the zone game allows 4",
                    "raise `connections` of the [[zone]] game",
                ],
            ),
            (
                Limit::ConnectionsPerZone,
                Bound::Connections(added),
                ["the zone game allows 9", "--connections N` allows more"],
            ),
        ] {
            let fault = Some(Fault::Bound(bound));
            check(CloseReason::Limit(limit), &Claim::Nobody, fault, &says);
        }
    }

    #[test]
    fn a_refused_web_token_is_told_with_what_is_wrong_with_it() {
        let wrong = CloseReason::Denied(Denied::Credentials);
        for (why, says) in [
            (
                JwtRefusal::Token(JwtError::Expired),
                ["has expired", "`leeway`"],
            ),
            (
                JwtRefusal::Token(JwtError::TooLong(20_000)),
                ["20000 bytes", "less into it"],
            ),
            (
                JwtRefusal::Token(JwtError::Audience(vec!["stentor".into()])),
                ["must be one of: stentor", "`audience = []`"],
            ),
            (
                JwtRefusal::Token(JwtError::UnknownKey),
                ["key id", "`jwks_file`"],
            ),
            (
                JwtRefusal::Token(JwtError::Signature),
                ["signature", "`key_file`"],
            ),
            (
                JwtRefusal::Token(JwtError::Claim("sub".into())),
                ["\"sub\"", "issuer of the token"],
            ),
            (JwtRefusal::OtherUser, ["another user", "or none"]),
            (JwtRefusal::Disabled, ["is disabled", "user enable"]),
            (JwtRefusal::Unknown, ["was not added", "`known_users`"]),
        ] {
            check(
                wrong,
                &Claim::Named("ann".into()),
                Some(Fault::Bearer(why)),
                &says,
            );
        }
    }

    #[test]
    fn a_limit_is_told_with_its_own_key_and_no_other() {
        for (limit, key) in [
            (Limit::ConnectionsPerUser, "quota `connections`"),
            (Limit::SecondLogin, "`second_login = \"refuse\"`"),
            (Limit::ConnectionsPerUserOfZone, "`user_connections`"),
            (Limit::LoginRate, "`auth.slow_failures = false`"),
            (Limit::GuestRate, "`guest_rate`"),
        ] {
            check(CloseReason::Limit(limit), &Claim::Nobody, None, &[key]);
            let text = limit_reached(limit);
            let keys = [
                "quota",
                "second_login",
                "user_connections",
                "slow_failures",
                "guest_rate",
            ];
            let named = keys.iter().filter(|one| text.contains(**one));
            assert_eq!(named.count(), 1, "{text}");
        }
    }

    #[test]
    fn a_refused_page_is_told_by_its_origin() {
        let reason = CloseReason::Denied(Denied::Origin);
        for (origin, says) in [
            ("https://shop.example", "\"https://shop.example\""),
            ("null", "from a file"),
            ("", "empty Origin"),
        ] {
            let fault = Some(Fault::Origin(origin.into()));
            check(reason, &Claim::Nobody, fault, &[says]);
        }
    }

    #[test]
    fn words_are_safe_to_paste() {
        for (text, shown) in [
            ("zone/ann@example.org", "zone/ann@example.org"),
            ("", "''"),
            ("a b; rm -rf ~", "'a b; rm -rf ~'"),
            ("a`b`", "'a`b`'"),
            ("a\nb", "\"a\\nb\""),
        ] {
            assert_eq!(word(text), shown);
        }
    }
}
