//! Where the order of rules means something.
//!
//! The plugin asks rule after rule, by the priorities of roles, groups and rules, and the first
//! one about a topic decides. In Stentor deny wins. Both say the same unless a rule that allows
//! stands before one that denies, and a topic is common to them.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::{DynAcl, File, Group, RoleName, Told};

/// The rules of a role, in the order in which they are asked.
type Rules<'f> = HashMap<&'f str, Vec<&'f DynAcl>>;

/// Reports each rule that allows what another one denies later, once.
pub(super) fn tell(file: &File, told: &mut Told<'_>) {
    let mut rules = Rules::new();
    for role in &file.roles {
        let mut acls: Vec<&DynAcl> = role.acls.iter().collect();
        acls.sort_by_key(|acl| (acl.acltype != "subscribeLiteral", Reverse(acl.priority)));
        rules.insert(&role.rolename, acls);
    }
    let mut known = HashSet::new();
    for names in sequences(file) {
        let Some((before, after)) = conflict(&names, &rules) else {
            continue;
        };
        let text = format!("{before}, before {after}");
        if known.insert(text.clone()) {
            told.tell(
                text,
                "in Stentor deny wins, whatever stands first; here a rule that allows stands \
                 before one that denies",
                "narrow the rule that denies: stentor user test shows which one decides",
            );
        }
    }
}

/// The roles of every client and of those without a name, in their order; each sequence once.
fn sequences(file: &File) -> HashSet<Vec<&str>> {
    let mut groups: HashMap<&str, Vec<(i64, &Group)>> = HashMap::new();
    for group in &file.groups {
        for client in &group.clients {
            let of_client = groups.entry(&client.username).or_default();
            of_client.push((client.priority, group));
        }
    }
    let mut all: HashSet<Vec<&str>> = file
        .roles
        .iter()
        .map(|role| vec![role.rolename.as_str()])
        .collect();
    for client in &file.clients {
        let mut names = sorted(&client.roles);
        let mut of_client = groups.remove(client.username.as_str()).unwrap_or_default();
        of_client.sort_by_key(|(priority, _)| Reverse(*priority));
        names.extend(of_client.iter().flat_map(|(_, group)| sorted(&group.roles)));
        all.insert(names);
    }
    all.extend(file.groups.iter().map(|group| sorted(&group.roles)));
    all
}

fn sorted(roles: &[RoleName]) -> Vec<&str> {
    let mut roles: Vec<&RoleName> = roles.iter().collect();
    roles.sort_by_key(|role| Reverse(role.priority));
    roles
        .into_iter()
        .map(|role| role.rolename.as_str())
        .collect()
}

/// The first rule that denies what one before it allows, with that one, as people read them.
fn conflict(names: &[&str], rules: &Rules<'_>) -> Option<(String, String)> {
    let mut allowed: Vec<(&str, &DynAcl)> = Vec::new();
    for name in names {
        for acl in rules.get(name).into_iter().flatten() {
            if acl.allow {
                allowed.push((name, acl));
                continue;
            }
            let is_same = |(_, other): &&(&str, &DynAcl)| {
                kind(acl).is_some() && kind(other) == kind(acl) && overlap(&other.topic, &acl.topic)
            };
            if let Some((other, before)) = allowed.iter().find(is_same) {
                return Some((shown(other, before), shown(name, acl)));
            }
        }
    }
    None
}

fn shown(role: &str, acl: &DynAcl) -> String {
    let word = if acl.allow { "allow" } else { "deny" };
    format!("role {role}: {} {} {word}", acl.acltype, acl.topic)
}

/// What a rule is about; `None` for what has no counterpart here.
fn kind(acl: &DynAcl) -> Option<&'static str> {
    match acl.acltype.as_str() {
        "publishClientSend" => Some("publish"),
        "publishClientReceive" => Some("receive"),
        "subscribeLiteral" | "subscribePattern" => Some("subscribe"),
        _ => None,
    }
}

/// Whether two filters have a topic in common. A level with a name in it may be every level.
fn overlap(one: &str, other: &str) -> bool {
    let is_any = |level: &str| level == "+" || level.contains('%');
    let (mut one, mut other) = (one.split('/'), other.split('/'));
    loop {
        match (one.next(), other.next()) {
            (Some("#"), _) | (_, Some("#")) | (None, None) => return true,
            (Some(a), Some(b)) if a == b || is_any(a) || is_any(b) => {}
            _ => return false,
        }
    }
}
