//! Users and rules of mosquitto's password file and ACL file, beside those of dynamic security.
//!
//! A mosquitto that has both asks the plugin first, and the files about what it says nothing of: so
//! a user of both has the rights of both, and the plugin's password counts where it has one.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use stentor_auth::credential::Stored;
use stentor_auth::model::{
    ADMIN, ANONYMOUS, Credential, DEFAULT_ZONE, Effect, MEMBER, Rule, User, UserKey,
};

use super::acl::Acl;
use super::{Plan, Trouble, of_user, role};

/// The role of everybody whom mosquitto's patterns are about.
const PATTERNS: &str = "mosquitto-patterns";

/// The file that a trouble is about where no line is known.
const ACL_FILE: &str = "the ACL file";

/// What the files add to a plan, which has what dynamic security says already.
pub(super) struct Files<'p> {
    plan: &'p mut Plan,
    rights: Option<Rights>,
    /// Whether dynamic security is asked first.
    is_second: bool,
    /// How many users of the plan are of dynamic security.
    plugin_users: usize,
    /// Names of the password file.
    known: BTreeSet<String>,
}

/// The roles that are made of an ACL file.
struct Rights {
    acl: Acl,
    /// The role of the patterns, if there are any: an empty one would only be in the way of the
    /// next import.
    patterns: Option<Arc<str>>,
    of_users: BTreeMap<String, Arc<str>>,
}

/// What an ACL file beside dynamic security gives that is not carried.
const RECEIVED: &str = "mosquitto lets every subscription pass of which dynamic security says \
                        nothing, and by default every message; here users of dynamic security \
                        receive what a rule allows";

/// What to do about that.
const RECEIVE: &str = "where they are to receive everything: stentor role change mosquitto-default \
                       --add 'allow subscribe #', and the same of the role anonymous";

/// What to do about nothing.
const NOTHING: &str = "nothing has to be done";

impl<'p> Files<'p> {
    /// Makes roles of the ACL file, under names that nothing else has.
    pub(super) fn new(plan: &'p mut Plan, acl: Option<Acl>, is_second: bool) -> Self {
        let rights = acl.map(|acl| Rights::take(acl, plan));
        if let Some(patterns) = rights.as_ref().and_then(|rights| rights.patterns.as_ref()) {
            for user in &mut plan.users {
                user.roles.push(Arc::clone(patterns));
            }
        }
        Self {
            plugin_users: plan.users.len(),
            plan,
            rights,
            is_second,
            known: BTreeSet::new(),
        }
    }

    /// Takes the users of a password file over.
    pub(super) fn take_passwords(&mut self, file: &str, bytes: &[u8]) {
        for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let number = at + 1;
            let (name, hash) = match password_line(line) {
                Ok(None) => continue,
                Ok(Some(parts)) => parts,
                // Nobody knows what it is, so it is not shown.
                Err(reason) => {
                    self.tell(
                        file,
                        number,
                        "…",
                        reason,
                        "add the user, if it is one: stentor user add",
                    );
                    continue;
                }
            };
            let text = format!("{name}:…");
            // As mosquitto: the first of two lines for one name counts.
            if self.known.contains(name) {
                let reason = "the name is there twice; the first line counts";
                self.tell(file, number, &text, reason, NOTHING);
                continue;
            }
            match user(name, Some(hash)) {
                Ok(user) => {
                    self.known.insert(name.to_owned());
                    if self.add(user) {
                        continue;
                    }
                    let reason = "dynamic security has a password of that name, which counts, as \
                                  in mosquitto";
                    self.tell(file, number, &text, reason, NOTHING);
                }
                Err(reason) => {
                    let remedy = "add the user with a password that fits: stentor user add";
                    self.tell(file, number, &text, &reason, remedy);
                }
            }
        }
    }

    /// Users who have rules and no password: they log in by certificate, or not at all.
    pub(super) fn add_nameless(&mut self) {
        let Some(rights) = &self.rights else { return };
        let names = rights.acl.users.keys();
        let names = names.filter(|name| !self.known.contains(*name)).cloned();
        for name in names.collect::<Vec<String>>() {
            // A fault of a name is reported with its role.
            let Ok(user) = user(&name, None) else {
                continue;
            };
            let is_new = self.of_plugin(&user.key()).is_none();
            self.add(user);
            if is_new && !self.plan.has_certificate_names {
                let reason = "there is no password of that name; the user is added without one";
                // Under that name there is somebody else here.
                let login = match *name == *ADMIN {
                    true => of_user(&name),
                    false => name.clone(),
                };
                let remedy = format!("give it one: stentor user set-password {login}");
                self.tell(ACL_FILE, 0, &format!("user {name}"), reason, &remedy);
            }
        }
        if self.is_second {
            self.tell(ACL_FILE, 0, "beside dynamic security", RECEIVED, RECEIVE);
        }
        self.tell_exceptions();
    }

    /// Adds a user with its roles, or gives them to the one whom dynamic security knows. False if
    /// that one has another password.
    fn add(&mut self, mut user: User) -> bool {
        user.roles = self.roles_of(&user.name);
        let Some(at) = self.of_plugin(&user.key()) else {
            self.plan.users.push(user);
            return true;
        };
        let known = &mut self.plan.users[at];
        let missing = |role: &Arc<str>| !known.roles.contains(role);
        let roles: Vec<Arc<str>> = user.roles.into_iter().filter(missing).collect();
        known.roles.extend(roles);
        let is_first = known.credentials.is_empty() || user.credentials.is_empty();
        if is_first {
            known.credentials.extend(user.credentials);
        }
        is_first
    }
    /// Where a user of dynamic security is in the plan.
    fn of_plugin(&self, key: &UserKey) -> Option<usize> {
        let users = self.plan.users[..self.plugin_users].iter();
        users.map(User::key).position(|known| known == *key)
    }

    /// What the files give a user. Without rules, mosquitto permits everything, unless dynamic
    /// security is there, which then permits nothing to whom it does not know.
    fn roles_of(&self, name: &str) -> Vec<Arc<str>> {
        let Some(rights) = &self.rights else {
            let everything = (!self.is_second).then(|| MEMBER.into());
            return everything.into_iter().collect();
        };
        let own = rights.of_users.get(name).cloned();
        rights.patterns.clone().into_iter().chain(own).collect()
    }

    /// Tells whose rules deny something that dynamic security, which is asked first, may allow.
    fn tell_exceptions(&mut self) {
        let Some(rights) = &self.rights else { return };
        let mut told = Vec::new();
        for user in &self.plan.users[..self.plugin_users] {
            let rules = rights.acl.users.get(&*user.name).into_iter().flatten();
            let denials = rules.filter(|rule| rule.effect == Effect::Deny);
            let denials: Vec<String> = denials.map(|rule| format!("`{rule}`")).collect();
            if let (false, Some(role)) = (denials.is_empty(), rights.of_users.get(&*user.name)) {
                let text = format!("user {}: {}", user.name, denials.join(", "));
                let remedy = format!(
                    "where dynamic security was to allow it: stentor role change {role} --remove \
                     RULE"
                );
                told.push((text, remedy));
            }
        }
        let reason = "it is carried, but in Stentor it denies also what dynamic security allows";
        for (text, remedy) in told {
            self.tell(ACL_FILE, 0, &text, reason, &remedy);
        }
    }

    fn tell(&mut self, file: &str, number: usize, text: &str, reason: &str, remedy: &str) {
        self.plan.troubles.push(Trouble {
            file: file.to_owned(),
            number,
            text: text.to_owned(),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        });
    }
}

impl Rights {
    fn take(acl: Acl, plan: &mut Plan) -> Self {
        let names = plan.roles.iter().map(|role| Arc::clone(&role.name));
        let mut taken: HashSet<Arc<str>> = names.collect();
        let everybody = acl.anonymous.iter().chain(&acl.patterns);
        permit_anonymous(plan, everybody);
        let patterns = (!acl.patterns.is_empty()).then(|| {
            let name = free_name(PATTERNS.to_owned(), &mut taken);
            plan.roles.push(role(&name, acl.patterns.clone()));
            name
        });
        let mut of_users = BTreeMap::new();
        for (user, rules) in &acl.users {
            let wanted = of_user(user);
            let name = free_name(wanted.clone(), &mut taken);
            let text = format!("user {user}");
            let role = role(&name, rules.clone());
            if let Err(error) = role.check() {
                let remedy = "give the user another name, and its rules by stentor role add";
                plan.tell(ACL_FILE, text, &error.to_string(), remedy);
                continue;
            }
            if *name != *wanted {
                let reason = format!("another role is called {wanted}; its role is {name}");
                plan.tell(ACL_FILE, text, &reason, NOTHING);
            }
            plan.roles.push(role);
            of_users.insert(user.clone(), name);
        }
        Self {
            acl,
            patterns,
            of_users,
        }
    }
}

/// Clients without a name may what the file says, beside what dynamic security says.
fn permit_anonymous<'r>(plan: &mut Plan, rules: impl Iterator<Item = &'r Rule>) {
    let known = plan.roles.iter_mut().find(|role| *role.name == *ANONYMOUS);
    match known {
        None => plan.roles.push(role(ANONYMOUS, rules.cloned().collect())),
        Some(role) => {
            for rule in rules {
                if !role.rules.contains(rule) {
                    role.rules.push(rule.clone());
                }
            }
        }
    }
}

/// A name that no other role has; it is taken from now on.
fn free_name(mut name: String, taken: &mut HashSet<Arc<str>>) -> Arc<str> {
    while taken.contains(&*name) {
        name = of_user(&name);
    }
    let name: Arc<str> = name.into();
    taken.insert(Arc::clone(&name));
    name
}

/// The name and the hash in a line of a password file; `None` if it says nothing.
fn password_line(line: &[u8]) -> Result<Option<(&str, &str)>, &'static str> {
    let line =
        std::str::from_utf8(line).map_err(|_| "it is not valid UTF-8 (user names must be)")?;
    let line = line.trim_end();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let parts = line.split_once(':');
    parts
        .map(Some)
        .ok_or("it has no colon after the name; mosquitto passes over it")
}

fn user(name: &str, hash: Option<&str>) -> Result<User, String> {
    let credentials = match hash {
        None => Vec::new(),
        Some(hash) => {
            Stored::parse(hash).map_err(|error| error.to_string())?;
            vec![Credential::new(hash)]
        }
    };
    let user = User {
        zone: DEFAULT_ZONE.into(),
        name: name.into(),
        credentials,
        roles: Vec::new(),
        disabled: false,
        foreign: false,
    };
    user.check().map_err(|error| error.to_string())?;
    Ok(user)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::mosquitto::{acl, conf, dynsec};

    const HASH: &str = "$7$101$f1WpsmZk6mFJBDkR$vR6MSCbbfF/JZVmzHGmIiFGgZmpiHZCzvGbM7hRbCpEvzRqjR\
                        XDQpQh7lKm3yXQGf0LL5WjDcsXU9LpvI9d8tQ==";

    /// What becomes of dynamic security with these users and roles, an ACL file, and a password
    /// file with these names.
    fn plan(users: &[(&str, &str)], roles: &[&str], acl_text: &str, passwords: &[&str]) -> Plan {
        let client = |(name, role): &(&str, &str)| {
            let roles = [serde_json::json!({ "rolename": role })];
            serde_json::json!({ "username": name, "roles": roles })
        };
        let role = |name: &&str| serde_json::json!({ "rolename": name, "acls": [] });
        let text = serde_json::json!({
            "clients": users.iter().map(client).collect::<Vec<_>>(),
            "roles": roles.iter().map(role).collect::<Vec<_>>(),
        });
        let mut plan = Plan::default();
        dynsec::take("d.json", &text.to_string(), &mut plan).unwrap();
        let lines = conf::lines("acl", acl_text);
        let acl = acl::parse(&lines, &mut plan.troubles);
        let mut files = Files::new(&mut plan, Some(acl), true);
        let lines: String = passwords
            .iter()
            .map(|name| format!("{name}:{HASH}\n"))
            .collect();
        files.take_passwords("passwords", lines.as_bytes());
        files.add_nameless();
        plan.settle("m.conf");
        plan
    }

    fn roles_of(plan: &Plan, name: &str) -> Vec<String> {
        let users: Vec<&User> = plan
            .users
            .iter()
            .filter(|user| *user.name == *name)
            .collect();
        assert_eq!(users.len(), 1, "{name}: {users:?}");
        users[0].roles.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nobody_gets_the_role_of_another_one_by_its_name() {
        let plan = plan(
            &[
                ("ann", "member"),
                ("bob", "mosquitto-cid"),
                ("dan", "mosquitto-patterns"),
            ],
            &["member", "mosquitto-cid", "mosquitto-patterns"],
            "user member\ntopic a\nuser cid\ntopic b\nuser default\ntopic c\n\
             user patterns\ntopic d\n",
            &["member", "cid", "default", "patterns"],
        );
        let mut names: Vec<&str> = plan.roles.iter().map(|role| &*role.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        for (user, topic) in [
            ("member", "a"),
            ("cid", "b"),
            ("default", "c"),
            ("patterns", "d"),
        ] {
            let own = roles_of(&plan, user).pop().unwrap();
            let role = plan.roles.iter().find(|role| *role.name == *own).unwrap();
            assert_eq!(role.rules[0].to_string(), format!("allow both {topic}"));
            let bearers = plan
                .users
                .iter()
                .filter(|one| one.roles.iter().any(|r| **r == *own));
            assert_eq!(bearers.count(), 1, "{own}");
        }
        let told = |text: &str| plan.troubles.iter().any(|one| one.text == text);
        assert!(
            told("user member") && told("user cid"),
            "{:?}",
            plan.troubles
        );
    }

    /// The administrator's password is nobody else's.
    #[test]
    fn a_user_admin_is_told_by_its_new_name() {
        let plan = plan(&[], &[], "user admin\ntopic a\n", &[]);
        let remedies: Vec<&str> = plan
            .troubles
            .iter()
            .map(|one| one.remedy.as_str())
            .collect();
        let told = |text: &str| remedies.iter().any(|remedy| remedy.ends_with(text));
        assert!(told("set-password mosquitto-admin"), "{remedies:?}");
        assert!(!told("set-password admin"), "{remedies:?}");
        // Without patterns there is no role of them.
        assert_eq!(roles_of(&plan, "mosquitto-admin"), ["mosquitto-admin"]);
        assert!(!plan.roles.iter().any(|role| *role.name == *PATTERNS));
    }

    #[test]
    fn who_stands_in_both_has_the_rights_of_both() {
        let plan = plan(
            &[("ann", "r"), ("bob", "r")],
            &["r"],
            "topic read free\nuser ann\ntopic a\ntopic deny a/x\nuser cid\ntopic c\n\
             pattern p/%u\n",
            &["ann", "cid"],
        );
        let ann = [
            "mosquitto-default",
            "r",
            "mosquitto-patterns",
            "mosquitto-ann",
        ];
        assert_eq!(roles_of(&plan, "ann"), ann);
        let bob = ["mosquitto-default", "r", "mosquitto-patterns"];
        assert_eq!(roles_of(&plan, "bob"), bob);
        assert_eq!(
            roles_of(&plan, "cid"),
            ["mosquitto-patterns", "mosquitto-cid"]
        );
        // The plugin has no password of hers, so that of the file counts.
        assert!(
            plan.users
                .iter()
                .filter(|user| !user.credentials.is_empty())
                .count()
                == 2
        );
        let texts: Vec<&str> = plan.troubles.iter().map(|one| one.text.as_str()).collect();
        assert_eq!(
            texts,
            ["beside dynamic security", "user ann: `deny both a/x`"]
        );
        assert!(
            plan.troubles[1]
                .remedy
                .contains("role change mosquitto-ann")
        );
        let anonymous = plan.roles.iter().filter(|role| *role.name == *ANONYMOUS);
        let rules: Vec<_> = anonymous.map(|role| role.rules.len()).collect();
        assert_eq!(rules, [2]);
    }

    #[test]
    fn without_rules_everything_is_permitted_unless_the_plugin_says() {
        for (is_second, expected) in [(false, &[MEMBER][..]), (true, &[])] {
            let mut plan = Plan::default();
            let mut files = Files::new(&mut plan, None, is_second);
            files.take_passwords("passwords", format!("ann:{HASH}\n").as_bytes());
            plan.settle("m.conf");
            assert_eq!(roles_of(&plan, "ann"), expected);
        }
    }
}
