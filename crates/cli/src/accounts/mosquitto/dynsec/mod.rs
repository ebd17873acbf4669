//! The JSON file of mosquitto's dynamic security plugin.

mod order;

use std::collections::HashMap;

use serde::Deserialize;
use stentor_auth::credential::Stored;
use stentor_auth::model::{
    ADMIN, ANONYMOUS, Action, Credential, Effect, GUEST, MEMBER, Role, Rule, User, UserKey,
};

use super::{Plan, Trouble, literal, of_user, role};

/// The file. Fields that are not listed here have no meaning to Stentor, and grant no right.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    #[serde(rename = "defaultACLAccess")]
    default: DefaultAccess,
    clients: Vec<Client>,
    groups: Vec<Group>,
    roles: Vec<DynRole>,
    anonymous_group: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DefaultAccess {
    publish_client_send: bool,
    publish_client_receive: bool,
    subscribe: bool,
    unsubscribe: bool,
}

impl Default for DefaultAccess {
    fn default() -> Self {
        Self {
            publish_client_send: false,
            publish_client_receive: true,
            subscribe: false,
            unsubscribe: true,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Client {
    username: String,
    clientid: Option<String>,
    password: Option<String>,
    salt: Option<String>,
    iterations: u32,
    disabled: bool,
    roles: Vec<RoleName>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Group {
    groupname: String,
    roles: Vec<RoleName>,
    clients: Vec<ClientName>,
}

#[derive(Debug, Deserialize)]
struct RoleName {
    rolename: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Debug, Deserialize)]
struct ClientName {
    username: String,
    #[serde(default)]
    priority: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DynRole {
    rolename: String,
    acls: Vec<DynAcl>,
}

#[derive(Debug, Deserialize)]
struct DynAcl {
    acltype: String,
    topic: String,
    #[serde(default)]
    priority: i64,
    #[serde(default)]
    allow: bool,
}

/// Takes users, groups and roles of the file over.
///
/// # Errors
/// When the file is not JSON of this form.
pub(super) fn take(name: &str, text: &str, plan: &mut Plan) -> Result<(), String> {
    let mut file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut told = Told {
        file: name,
        troubles: &mut plan.troubles,
    };
    rename(&mut file, &mut told);
    let default = default_role(&file.default, &mut told);
    let mut roles = vec![default];
    roles.extend(file.roles.iter().map(|role| convert(role, &mut told)));
    let mut of_groups: HashMap<&str, Vec<&str>> = HashMap::new();
    for group in &file.groups {
        let names = group.roles.iter().map(|role| role.rolename.as_str());
        for client in &group.clients {
            of_groups
                .entry(&client.username)
                .or_default()
                .extend(names.clone());
        }
    }
    let anonymous = file.groups.iter().filter(|group| {
        !file.anonymous_group.is_empty() && group.groupname == file.anonymous_group
    });
    let anonymous: Vec<&str> = anonymous
        .flat_map(|group| group.roles.iter().map(|role| role.rolename.as_str()))
        .collect();
    let is_anonymous = |role: &&Role| *role.name == *DEFAULT || anonymous.contains(&&*role.name);
    let rules = roles.iter().filter(is_anonymous);
    let rules = rules.flat_map(|role| role.rules.clone()).collect();
    roles.push(role(ANONYMOUS, rules));
    order::tell(&file, &mut told);
    for client in &file.clients {
        let groups = of_groups.get(client.username.as_str());
        let groups = groups.into_iter().flatten().copied();
        let own = client.roles.iter().map(|role| role.rolename.as_str());
        let names = std::iter::once(DEFAULT).chain(own).chain(groups);
        plan.users.extend(user(client, names, &mut told));
    }
    plan.roles.extend(roles);
    Ok(())
}

/// The role of everybody: what the file allows where no rule says anything.
const DEFAULT: &str = "mosquitto-default";

/// Names of roles that mean something in Stentor, or in what is made of the file.
const RESERVED: [&str; 5] = [ADMIN, MEMBER, ANONYMOUS, GUEST, DEFAULT];

/// Gives roles other names where Stentor has a role of that name, as `admin`, which every file of
/// `mosquitto_ctrl dynsec init` has: neither may take the other's place.
fn rename(file: &mut File, told: &mut Told<'_>) {
    for reserved in RESERVED {
        let has = |file: &File, name: &str| file.roles.iter().any(|role| role.rolename == name);
        let mut new = of_user(reserved);
        while has(file, &new) || RESERVED.contains(&new.as_str()) {
            new = of_user(&new);
        }
        if has(file, reserved) {
            let reason = format!("Stentor has a role of that name; this one is carried as {new}");
            let remedy = "nothing has to be done: users and groups have it under its new name";
            told.tell(format!("role {reserved}"), &reason, remedy);
        }
        let names = file.roles.iter_mut().map(|role| &mut role.rolename);
        let clients = file.clients.iter_mut().flat_map(|one| &mut one.roles);
        let groups = file.groups.iter_mut().flat_map(|one| &mut one.roles);
        let references = clients.chain(groups).map(|one| &mut one.rolename);
        for name in names.chain(references).filter(|name| *name == reserved) {
            new.clone_into(name);
        }
    }
}

/// Where what cannot be carried is listed.
struct Told<'t> {
    file: &'t str,
    troubles: &'t mut Vec<Trouble>,
}

impl Told<'_> {
    fn tell(&mut self, text: String, reason: &str, remedy: &str) {
        self.troubles.push(Trouble {
            file: self.file.to_owned(),
            number: 0,
            text,
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        });
    }
}

fn default_role(access: &DefaultAccess, told: &mut Told<'_>) -> Role {
    let mut rules = Vec::new();
    let mut allow = |action| {
        rules.push(Rule {
            effect: Effect::Allow,
            action,
            pattern: "#".into(),
        });
    };
    if access.publish_client_send {
        allow(Action::Publish);
    }
    if access.subscribe && access.publish_client_receive {
        allow(Action::Subscribe);
    }
    if !access.publish_client_receive {
        told.tell(
            "defaultACLAccess: publishClientReceive false".to_owned(),
            "Stentor has one right for subscribing and receiving, and takes the rules about \
             subscribing for both",
            "take `allow subscribe` rules away from roles that were not to receive",
        );
    }
    if !access.unsubscribe {
        let text = "defaultACLAccess: unsubscribe false".to_owned();
        told.tell(text, ENDS_ALL, "nothing has to be done");
    }
    role(DEFAULT, rules)
}

/// Why rules about unsubscribing are not needed.
const ENDS_ALL: &str = "everybody may end a subscription in Stentor";

/// What to do about a rule that cannot be carried.
const MEANT: &str = "add a rule that says what was meant: stentor role change";

fn convert(from: &DynRole, told: &mut Told<'_>) -> Role {
    let mut rules: Vec<Rule> = Vec::new();
    for acl in &from.acls {
        let text = format!(
            "role {}: {} {} {} (priority {})",
            from.rolename,
            acl.acltype,
            acl.topic,
            if acl.allow { "allow" } else { "deny" },
            acl.priority
        );
        let action = match acl.acltype.as_str() {
            "publishClientSend" => Action::Publish,
            // Receiving is allowed unless something denies it.
            "publishClientReceive" if acl.allow => continue,
            "subscribeLiteral" | "subscribePattern" => {
                if let Some((reason, remedy)) = other_meaning(acl) {
                    told.tell(text.clone(), reason, remedy);
                }
                Action::Subscribe
            }
            "publishClientReceive" => Action::Subscribe,
            "unsubscribeLiteral" | "unsubscribePattern" if acl.allow => continue,
            "unsubscribeLiteral" | "unsubscribePattern" => {
                told.tell(text, ENDS_ALL, "nothing has to be done");
                continue;
            }
            _ => {
                told.tell(text, "this type of rule is not known", MEANT);
                continue;
            }
        };
        let effect = match acl.allow {
            true => Effect::Allow,
            false => Effect::Deny,
        };
        let pattern = match literal(&acl.topic) {
            Ok(pattern) => pattern.replace("%u", "{user}").replace("%c", "{client}"),
            Err(reason) => {
                told.tell(text, &reason, MEANT);
                continue;
            }
        };
        if *pattern != *acl.topic && acl.topic.contains("%") {
            let reason = "mosquitto before 2.1 takes %u and %c literally; here they are names";
            let remedy = "take the rule away if it was meant literally: stentor role change";
            told.tell(text.clone(), reason, remedy);
        }
        let rule = Rule {
            effect,
            action,
            pattern: pattern.into(),
        };
        match rule.check() {
            Ok(()) => rules.push(rule),
            Err(error) => {
                told.tell(text, &error.to_string(), MEANT);
            }
        }
    }
    role(&from.rolename, rules)
}

/// Where a rule about subscribing is carried, but means something else here: why, and what to do.
/// Mosquitto compares it with the filter that is subscribed to, Stentor with each message's topic.
fn other_meaning(acl: &DynAcl) -> Option<(&'static str, &'static str)> {
    const TAKE_AWAY: &str = "take the rule away where less was meant: stentor role change";
    let is_literal = acl.acltype == "subscribeLiteral";
    let is_wild = acl.topic.contains(['+', '#']);
    match (acl.allow, is_literal && is_wild) {
        (true, true) => Some((
            "it allows one filter alone; in Stentor it allows every filter for these topics",
            "nothing has to be done: more topics than by that filter are not received",
        )),
        (true, false) => None,
        (false, true) => Some((
            "it denies one filter alone; in Stentor it denies all topics of it",
            TAKE_AWAY,
        )),
        (false, false) => Some((
            "it denies subscribing; in Stentor it also denies these topics to wider filters",
            TAKE_AWAY,
        )),
    }
}

fn user<'n>(
    client: &Client,
    roles: impl Iterator<Item = &'n str>,
    told: &mut Told<'_>,
) -> Option<User> {
    let text = format!("client {}", client.username);
    if client.username.contains('/') {
        let reason = "the part before / in a login name is a zone";
        told.tell(text, reason, "give the user another name: stentor user add");
        return None;
    }
    if client.clientid.is_some() {
        let remedy = "use {client} in rules where the client id matters";
        told.tell(text.clone(), "a user is not bound to a client id", remedy);
    }
    let credential = match (&client.password, &client.salt) {
        (Some(hash), Some(salt)) => Some(format!("$7${}${salt}${hash}", client.iterations)),
        _ => None,
    };
    let credential = credential.filter(|text| {
        let is_good = Stored::parse(text).is_ok();
        if !is_good {
            let remedy = "give a new one: stentor user set-password";
            told.tell(
                format!("client {}", client.username),
                "the password cannot be read",
                remedy,
            );
        }
        is_good
    });
    let key = UserKey::parse(&client.username);
    let mut names: Vec<std::sync::Arc<str>> = Vec::new();
    for name in roles {
        if !names.iter().any(|known| **known == *name) {
            names.push(name.into());
        }
    }
    Some(User {
        zone: key.zone,
        name: key.name,
        credentials: credential.map(Credential::new).into_iter().collect(),
        roles: names,
        disabled: client.disabled,
        foreign: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_groups_and_roles_are_taken_over() {
        let text = r##"{
            "defaultACLAccess": {"publishClientSend": false, "publishClientReceive": true,
                "subscribe": false, "unsubscribe": true},
            "clients": [
                {"username": "ann", "textname": "", "roles": [{"rolename": "r", "priority": 1}],
                 "password": "vR6MSCbbfF/JZVmzHGmIiFGgZmpiHZCzvGbM7hRbCpEvzRqjRXDQpQh7lKm3yXQGf0LL5WjDcsXU9LpvI9d8tQ==",
                 "salt": "f1WpsmZk6mFJBDkR", "iterations": 101},
                {"username": "a/b"},
                {"username": "bob", "disabled": true}
            ],
            "groups": [
                {"groupname": "g", "roles": [{"rolename": "s"}], "clients": [{"username": "bob"}]}
            ],
            "roles": [
                {"rolename": "r", "acls": [
                    {"acltype": "publishClientSend", "topic": "a/%u", "priority": 0, "allow": true},
                    {"acltype": "subscribePattern", "topic": "a/\#", "priority": 0, "allow": true},
                    {"acltype": "publishClientReceive", "topic": "a/x", "allow": false},
                    {"acltype": "unsubscribePattern", "topic": "\#", "allow": true}]},
                {"rolename": "s", "acls": [{"acltype": "what", "topic": "x", "allow": true}]}
            ]
        }"##
        .replace("\\#", "#");
        let mut plan = Plan::default();
        take("d.json", &text, &mut plan).unwrap();
        let ann = &plan.users[0];
        assert_eq!(ann.credentials.len(), 1);
        let names = |user: &User| {
            user.roles
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(ann), [DEFAULT, "r"]);
        assert_eq!(names(&plan.users[1]), [DEFAULT, "s"]);
        assert!(plan.users[1].disabled);
        let rules: Vec<String> = plan.roles[1].rules.iter().map(Rule::to_string).collect();
        assert_eq!(
            rules,
            [
                "allow publish a/{user}",
                "allow subscribe a/#",
                "deny subscribe a/x"
            ]
        );
        let reasons: Vec<&str> = plan.troubles.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(reasons.len(), 3, "{reasons:?}");
        assert!(take("d.json", "[", &mut Plan::default()).is_err());
    }

    #[test]
    fn the_names_of_our_own_roles_are_kept_free() {
        let named = |name: &str| serde_json::json!([{ "rolename": name }]);
        let roles = ["admin", "mosquitto-admin", "guest", "mosquitto-default"];
        let roles = roles.map(|name| serde_json::json!({ "rolename": name, "acls": [] }));
        let text = serde_json::json!({
            "clients": [
                { "username": "admin", "roles": named("admin") },
                { "username": "ann", "roles": named("mosquitto-admin") },
                // It is no role of the file, and has to give nobody one of ours.
                { "username": "bob", "roles": named("member") },
            ],
            "groups": [{
                "groupname": "g", "roles": named("guest"), "clients": [{ "username": "ann" }],
            }],
            "roles": roles,
        });
        let mut plan = Plan::default();
        take("d.json", &text.to_string(), &mut plan).unwrap();
        plan.settle("m.conf");
        let shown = |user: &User| format!("{}: {}", user.name, user.roles.join(" "));
        let users: Vec<String> = plan.users.iter().map(shown).collect();
        assert_eq!(
            users,
            [
                "mosquitto-admin: mosquitto-default mosquitto-mosquitto-admin",
                "ann: mosquitto-default mosquitto-admin mosquitto-guest",
                "bob: mosquitto-default",
            ]
        );
        let roles: Vec<&str> = plan.roles.iter().map(|role| &*role.name).collect();
        assert_eq!(
            roles,
            [
                "mosquitto-default",
                "mosquitto-mosquitto-admin",
                "mosquitto-admin",
                "mosquitto-guest",
                "mosquitto-mosquitto-default",
                "anonymous",
            ]
        );
        assert_eq!(plan.troubles.len(), 4, "{:?}", plan.troubles);
    }

    /// A type, a topic, a priority, and whether it allows.
    type TestAcl<'t> = (&'t str, &'t str, i64, bool);

    /// A name, a priority, and rules.
    type TestRole<'t> = (&'t str, i64, &'t [TestAcl<'t>]);

    /// What is told of roles with these rules, and of a client that has all of them.
    fn told(roles: &[TestRole<'_>]) -> Vec<String> {
        let acl = |(kind, topic, priority, allow): &TestAcl<'_>| {
            serde_json::json!({
                "acltype": kind, "topic": topic, "priority": priority, "allow": allow,
            })
        };
        let role = |(name, _, acls): &TestRole<'_>| {
            let acls: Vec<_> = acls.iter().map(acl).collect();
            serde_json::json!({ "rolename": name, "acls": acls })
        };
        let has = |(name, priority, _): &TestRole<'_>| {
            let priority = *priority;
            serde_json::json!({ "rolename": name, "priority": priority })
        };
        let text = serde_json::json!({
            "clients": [{
                "username": "ann", "roles": roles.iter().map(has).collect::<Vec<_>>(),
            }],
            "roles": roles.iter().map(role).collect::<Vec<_>>(),
        });
        let mut plan = Plan::default();
        take("d.json", &text.to_string(), &mut plan).unwrap();
        let lines = plan.troubles.iter();
        lines
            .map(|one| format!("{}: {}", one.text, one.reason))
            .collect()
    }

    #[test]
    fn rules_about_filters_are_told_where_they_mean_something_else() {
        for (kind, topic, allow, reason) in [
            ("subscribeLiteral", "a/#", true, "allows every filter"),
            ("subscribeLiteral", "a/#", false, "denies all topics"),
            ("subscribeLiteral", "a/b", false, "wider filters"),
            ("subscribePattern", "a/#", false, "wider filters"),
            ("unsubscribePattern", "a/#", false, "may end a subscription"),
        ] {
            let told = told(&[("r", 0, &[(kind, topic, 0, allow)])]);
            assert!(told.len() == 1 && told[0].contains(reason), "{told:?}");
        }
        for (kind, topic, allow) in [
            ("subscribeLiteral", "a/b", true),
            ("subscribePattern", "a/#", true),
            ("publishClientReceive", "a/#", false),
            ("publishClientSend", "a/#", false),
            ("unsubscribeLiteral", "a/#", true),
        ] {
            let told = told(&[("r", 0, &[(kind, topic, 0, allow)])]);
            assert!(told.is_empty(), "{told:?}");
        }
    }

    #[test]
    fn an_exception_from_a_denial_is_told() {
        const SEND: &str = "publishClientSend";
        let send = |topic, priority, allow| (SEND, topic, priority, allow);
        let (allow, deny) = (send("a/b", 0, true), send("a/#", 0, false));
        let is_told = |roles: &[TestRole<'_>]| {
            let told = told(roles);
            let lines = told.iter().filter(|line| line.contains("deny wins"));
            let count = lines.count();
            assert!(count < 2, "{told:?}");
            count == 1
        };
        // Within a role, by priority and then as they stand.
        assert!(is_told(&[("r", 0, &[allow, deny])]));
        assert!(!is_told(&[("r", 0, &[deny, allow])]));
        assert!(is_told(&[("r", 0, &[deny, send("a/b", 5, true)])]));
        assert!(!is_told(&[("r", 0, &[send("c", 5, true), deny])]));
        assert!(!is_told(&[(
            "r",
            0,
            &[("subscribePattern", "a/b", 5, true), deny]
        )]));
        // From role to role.
        assert!(is_told(&[("r", 1, &[allow]), ("s", 0, &[deny])]));
        assert!(!is_told(&[("r", 0, &[allow]), ("s", 1, &[deny])]));
        assert!(is_told(&[
            ("r", 1, &[send("+/%u", 0, true)]),
            ("s", 0, &[deny])
        ]));
    }
}
