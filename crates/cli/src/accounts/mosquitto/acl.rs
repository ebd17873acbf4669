//! Mosquitto's ACL file.

use std::collections::BTreeMap;

use stentor_auth::model::{Action, Effect, Rule};

use super::{Line, NO_TEXT, Trouble};

/// What the file says, in our rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Acl {
    /// Before the first `user`: about clients without a name.
    pub(super) anonymous: Vec<Rule>,
    /// By user name.
    pub(super) users: BTreeMap<String, Vec<Rule>>,
    /// About everybody.
    pub(super) patterns: Vec<Rule>,
}

/// The clients that the lines are about.
enum Whose {
    /// Clients without a name.
    Anonymous,
    User(String),
    /// Somebody whose name is not known; nobody else gets what was meant for them.
    Nobody,
}

/// Reads the lines of an ACL file.
pub(super) fn parse(lines: &[Line], troubles: &mut Vec<Trouble>) -> Acl {
    let mut acl = Acl::default();
    let mut whose = Whose::Anonymous;
    for line in lines {
        if !line.is_text {
            troubles.push(line.trouble(NO_TEXT.0, NO_TEXT.1));
            if line.key == "user" {
                whose = Whose::Nobody;
            }
            continue;
        }
        let rules = match line.key.as_str() {
            "user" if line.value.is_empty() => {
                troubles.push(line.trouble("the name is missing", "name the user, or delete it"));
                whose = Whose::Nobody;
                continue;
            }
            "user" => {
                acl.users.entry(line.value.clone()).or_default();
                whose = Whose::User(line.value.clone());
                continue;
            }
            "topic" => match &whose {
                Whose::Anonymous => &mut acl.anonymous,
                Whose::User(name) => acl.users.entry(name.clone()).or_default(),
                Whose::Nobody => {
                    let reason = "its user is not carried";
                    troubles.push(line.trouble(reason, "correct the line with the user's name"));
                    continue;
                }
            },
            "pattern" => &mut acl.patterns,
            _ => {
                let reason = "mosquitto's ACL file has no such word";
                troubles.push(line.trouble(reason, "write user, topic or pattern"));
                continue;
            }
        };
        match rule(&line.value, line.key == "pattern") {
            Ok(rule) => {
                if line.key == "pattern" && rule.effect == Effect::Deny {
                    troubles.push(line.trouble(
                        "it is carried, but in Stentor it denies also what a user's own lines allow",
                        "narrow it where a user is to be an exception",
                    ));
                }
                rules.push(rule);
            }
            Err((reason, remedy)) => troubles.push(line.trouble(&reason, remedy)),
        }
    }
    acl
}

/// Why a line is not a rule, and what to do.
type Wrong = (String, &'static str);

/// What to do about a rule that cannot be carried.
const MEANT: &str = "add a rule that says what was meant: stentor role change";

/// What to do about a line that mosquitto does not start with.
const MEND: &str = "write read, write, readwrite or deny before the topic, or nothing";

/// A rule of `[read|write|readwrite|deny] TOPIC`.
fn rule(text: &str, is_pattern: bool) -> Result<Rule, Wrong> {
    let (effect, action, topic) = match text.split_once(' ') {
        Some(("read", topic)) => (Effect::Allow, Action::Subscribe, topic),
        Some(("write", topic)) => (Effect::Allow, Action::Publish, topic),
        Some(("readwrite", topic)) => (Effect::Allow, Action::Both, topic),
        Some(("deny", topic)) => (Effect::Deny, Action::Both, topic),
        Some((word, _)) => {
            let reason = format!("mosquitto knows no access {word:?}, and does not start with it");
            return Err((reason, MEND));
        }
        None => (Effect::Allow, Action::Both, text),
    };
    let topic = topic.trim();
    let pattern = super::literal(topic).map_err(|reason| (reason, MEANT))?;
    let pattern = match is_pattern {
        true => pattern.replace("%u", "{user}").replace("%c", "{client}"),
        false => pattern,
    };
    let rule = Rule {
        effect,
        action,
        pattern: pattern.into(),
    };
    rule.check().map_err(|error| (error.to_string(), MEANT))?;
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Acl, Vec<Trouble>) {
        let mut troubles = Vec::new();
        let lines = super::super::conf::lines("acl", text);
        (parse(&lines, &mut troubles), troubles)
    }

    fn words(rules: &[Rule]) -> Vec<String> {
        rules.iter().map(Rule::to_string).collect()
    }

    #[test]
    fn sections_and_words_become_rules() {
        let (acl, troubles) = parsed(
            "# comment\ntopic read news/#\n\nuser ann\ntopic sensors/ann/#\n\
             topic deny sensors/ann/x y\nuser bob\ntopic write a\nuser ann\ntopic readwrite b\n\
             pattern read dev/%c/%u\npattern write $SYS/broker/connection/%c/state\n",
        );
        assert!(troubles.is_empty(), "{troubles:?}");
        assert_eq!(words(&acl.anonymous), ["allow subscribe news/#"]);
        let ann = [
            "allow both sensors/ann/#",
            "deny both sensors/ann/x y",
            "allow both b",
        ];
        assert_eq!(words(&acl.users["ann"]), ann);
        assert_eq!(words(&acl.users["bob"]), ["allow publish a"]);
        let patterns = [
            "allow subscribe dev/{client}/{user}",
            "allow publish $SYS/broker/connection/{client}/state",
        ];
        assert_eq!(words(&acl.patterns), patterns);
    }

    /// A name that cannot be read must not give its rights to the one before.
    #[test]
    fn the_lines_of_a_name_that_is_none_are_nobodys() {
        let text = b"user ann\ntopic a\nuser b\xe9\ntopic b\ntopic deny a\nuser cid\n\
                     topic c/\xe9\ntopic c\nuser\ntopic d\npattern p\n";
        let mut troubles = Vec::new();
        let acl = parse(&super::super::conf::lines("acl", text), &mut troubles);
        assert_eq!(words(&acl.users["ann"]), ["allow both a"]);
        assert_eq!(words(&acl.users["cid"]), ["allow both c"]);
        assert_eq!((acl.users.len(), acl.anonymous.len()), (2, 0));
        assert_eq!(words(&acl.patterns), ["allow both p"]);
        let numbers: Vec<usize> = troubles.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [3, 4, 5, 7, 9, 10]);
    }

    #[test]
    fn what_cannot_be_carried_is_listed_with_its_line() {
        let (acl, troubles) = parsed(
            "topic read a/#/b\nwhat\nwhat ever\ntopic {user}/x\ntopic\ntopic frobnicate x\n\
             topic a b\npattern Read %u\ntopic deny {user\n",
        );
        assert_eq!(acl, Acl::default());
        let numbers: Vec<usize> = troubles.iter().map(|trouble| trouble.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert!(troubles[5].reason.contains("no access \"frobnicate\""));
        assert!(troubles[5].remedy.contains("readwrite"));
    }
}
