//! The rules against an evaluator that is too simple to be wrong.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use stentor_hub::{Access, Rights};
use stentor_topic::matches;

use super::{Book, Holder, Login, compile};
use crate::model::{
    ADMIN, ANONYMOUS, Action, DEFAULT_ZONE, EVERY_DOLLAR, Effect, MEMBER, Quotas, Role, Rule,
    initial_roles,
};

fn login(user: Option<&str>, client_id: &str) -> Login {
    Login {
        user: user.map(Into::into),
        client_id: Some(client_id.into()),
        zone: DEFAULT_ZONE.into(),
    }
}

fn role(name: &str, rules: &[&str]) -> Arc<Role> {
    let rules = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let (name, quotas) = (name.into(), Quotas::default());
    Arc::new(Role {
        zone: None,
        name,
        rules,
        quotas,
    })
}

fn ann(rules: &[&str]) -> Arc<Holder> {
    compile(&[role("test", rules)], login(Some("ann"), "c1"))
}

#[test]
fn all_rights_are_those_of_everything_with_nothing_denied() {
    for (rules, expected) in [
        (&["allow both #", "allow both $#"][..], true),
        (
            &[
                "allow publish #",
                "allow subscribe #",
                "allow publish $#",
                "allow subscribe $#",
            ],
            true,
        ),
        (&["allow both #"], false),
        (&["allow both $#"], false),
        (&["allow both #", "allow publish $#"], false),
        (&["allow publish #", "allow both $#"], false),
        (&["allow both #", "allow both $control/#"], false),
        (&["allow both #", "allow both $#", "deny publish a"], false),
        (&[], false),
    ] {
        assert_eq!(ann(rules).grant().is_everything(), expected, "{rules:?}");
    }
    let admin = role("admin", &["allow both #", "allow both $#"]);
    let denied = [admin, role("other", &["deny subscribe a/b"])];
    let both = compile(&denied, login(Some("ann"), "c1"));
    assert!(!both.grant().is_everything());
}

#[test]
fn deny_wins_and_silence_denies() {
    let rights = ann(&[
        "allow both a/#",
        "deny publish a/locked/#",
        "deny subscribe a/+/secret",
        "allow publish a/locked/b",
        "allow publish only/out",
    ]);
    for (topic, publish, receive) in [
        ("a", true, true),
        ("a/b/c", true, true),
        ("a/locked", false, true),
        ("a/locked/b", false, true),
        ("a/x/secret", true, false),
        ("a/x/y/secret", true, true),
        ("b", false, false),
        ("only/out", true, false),
        ("$SYS/x", false, false),
    ] {
        assert_eq!(rights.may_publish(topic), publish, "publish {topic}");
        assert_eq!(rights.may_receive(topic), receive, "receive {topic}");
    }
}

#[test]
fn a_filter_is_allowed_in_full_in_part_or_not_at_all() {
    use Access::{All, Nothing, Part};
    let edge = &[
        "allow subscribe a/#",
        "deny subscribe a/x/#",
        "allow subscribe b/+",
        "deny subscribe b/y",
    ];
    let pieces = &[
        "allow subscribe a",
        "allow subscribe a/+/#",
        "allow subscribe $SYS/x",
    ];
    let holes = &[
        "allow subscribe a/#",
        "deny subscribe a",
        "deny subscribe a/+/#",
    ];
    for (rules, filter, access) in [
        (&edge[..], "a/y", All),
        (edge, "a/y/#", All),
        (edge, "a/x", Nothing),
        (edge, "a/x/+", Nothing),
        (edge, "a/+", Part),
        (edge, "a/#", Part),
        (edge, "#", Part),
        (edge, "+/+", Part),
        (edge, "+/x", Part),
        (edge, "b/#", Part),
        (edge, "b/y", Nothing),
        (edge, "b", Nothing),
        (edge, "c/#", Nothing),
        (edge, "$SYS/#", Nothing),
        (pieces, "a/#", All),
        (pieces, "a/+/#", All),
        (pieces, "#", Part),
        (pieces, "$SYS/#", Part),
        (pieces, "$SYS/x", All),
        (pieces, "+/x", Part),
        (holes, "a/#", Nothing),
        (holes, "a/+", Nothing),
        (&[], "#", Nothing),
    ] {
        assert_eq!(
            ann(rules).may_subscribe(filter),
            access,
            "{rules:?} {filter}"
        );
    }
}

#[test]
fn placeholders_stand_for_names_that_mean_nothing_in_topics() {
    let roles = [role(
        "test",
        &[
            "allow both users/{user}/#",
            "allow publish clients/x-{client}",
            "allow both {zone}/#",
            "deny subscribe users/+/private-{user}",
            "allow both {client}/y",
        ],
    )];
    let of = |user, client_id| compile(&roles, login(user, client_id));
    let ann = of(Some("ann"), "c1");
    for (topic, allowed) in [
        ("users/ann/x", true),
        ("users/bob/x", false),
        ("users/{user}/x", false),
        ("clients/x-c1", true),
        ("clients/x-c2", false),
        ("default/x", true),
        ("other/x", false),
    ] {
        assert_eq!(ann.may_publish(topic), allowed, "{topic}");
    }
    assert_eq!(ann.may_subscribe("users/ann/#"), Access::Part);
    assert_eq!(ann.may_subscribe("users/ann/private-ann"), Access::Nothing);
    assert_eq!(ann.may_subscribe("users/ann/private-bob"), Access::All);
    assert_eq!(ann.may_subscribe("users/+/x"), Access::Part);
    for user in ["a/b", "+", "#", "a+", "\0"] {
        let odd = of(Some(user), "c1");
        assert!(!odd.may_publish(&format!("users/{user}/x")), "{user}");
        assert_eq!(odd.may_subscribe("users/#"), Access::Nothing, "{user}");
        // Nobody gains by such a name: what it would be denied, everything of that form is.
        assert!(!odd.may_receive("users/x/private-ann"), "{user}");
    }
    let anonymous = of(None, "");
    assert_eq!(anonymous.may_subscribe("users/#"), Access::Nothing);
    assert!(!anonymous.may_publish("clients/x-"));
    // Topics with `$` are named by the rule, never by the client.
    assert!(!of(Some("ann"), "$SYS").may_publish("$SYS/y"));
    assert!(of(Some("ann"), "SYS").may_publish("SYS/y"));
}

fn initial(name: &str) -> Arc<Holder> {
    let book = Book::new(initial_roles().into_iter().map(Arc::new), None);
    book.holder(&[name.into()], login(Some("ann"), "c1"))
}

#[test]
fn members_and_anonymous_clients_publish_outside_the_dollar() {
    for (topic, member, anonymous) in [
        ("a/b", true, true),
        ("a/$b", true, true),
        ("$SYS/broker/uptime", false, false),
        ("$SYS/broker/connection/host.bridge/state", true, true),
        ("$SYS/broker/connection/a/b/state", false, false),
        ("$SYS/broker/connection/state", false, false),
        ("$SYS/broker/connection/a/state/x", false, false),
        ("$share/g/t", false, false),
        ("$anything", false, false),
        ("$call/x", true, false),
        ("$private/to/bob", true, false),
    ] {
        assert_eq!(initial(MEMBER).may_publish(topic), member, "{topic}");
        assert_eq!(initial(ANONYMOUS).may_publish(topic), anonymous, "{topic}");
        assert!(initial(ADMIN).may_publish(topic), "{topic}");
    }
}

#[test]
fn members_subscribe_outside_the_dollar_and_to_figures() {
    use Access::{All, Nothing};
    for (filter, member, anonymous) in [
        ("#", All, All),
        ("+/a", All, All),
        ("$SYS/#", All, All),
        ("$SYS", All, All),
        ("$SYSTEM/#", Nothing, Nothing),
        ("$private/from/+", All, Nothing),
        ("$private/#", All, Nothing),
        ("$private/from/#", All, Nothing),
        ("$room/+/say", All, Nothing),
        ("$+/a", Nothing, Nothing),
    ] {
        assert_eq!(initial(MEMBER).may_subscribe(filter), member, "{filter}");
        assert_eq!(
            initial(ANONYMOUS).may_subscribe(filter),
            anonymous,
            "{filter}"
        );
        assert_eq!(initial(ADMIN).may_subscribe(filter), All, "{filter}");
    }
}

#[test]
fn logins_share_what_is_the_same_for_all() {
    let mut roles: Vec<_> = initial_roles().into_iter().map(Arc::new).collect();
    roles.push(role("own", &["allow both users/{user}/#"]));
    let book = Book::new(roles.clone(), None);
    let of = |book: &Book, role: &str, user| book.holder(&[role.into()], login(Some(user), "c"));
    assert!(Arc::ptr_eq(
        &of(&book, MEMBER, "ann"),
        &of(&book, MEMBER, "bob")
    ));
    let (ann, bob) = (of(&book, "own", "ann"), of(&book, "own", "bob"));
    assert!(!Arc::ptr_eq(&ann, &bob) && Arc::ptr_eq(ann.grant(), bob.grant()));
    // Another book takes over what is the same.
    roles.pop();
    roles.push(role("own", &["deny both users/{user}/#"]));
    let next = Book::new(roles, Some(&book));
    let compiled = |book: &Book, role: &str| Arc::clone(&of(book, role, "ann").grant().roles[0]);
    assert!(Arc::ptr_eq(
        &compiled(&book, MEMBER),
        &compiled(&next, MEMBER)
    ));
    assert!(!Arc::ptr_eq(
        &compiled(&book, "own"),
        &compiled(&next, "own")
    ));
    assert!(of(&next, "nothing", "ann").grant().roles.is_empty());
}

#[test]
fn a_zone_hides_the_role_of_all_zones() {
    let general = role("r", &["allow both a"]);
    let own = Role {
        zone: Some("game".into()),
        ..(*role("r", &["allow both b"])).clone()
    };
    let book = Book::new([general, Arc::new(own)], None);
    let of = |zone: &str| {
        let zone = zone.into();
        book.holder(
            &["r".into()],
            Login {
                zone,
                ..login(None, "c")
            },
        )
    };
    assert!(of("default").may_publish("a") && !of("default").may_publish("b"));
    assert!(of("game").may_publish("b") && !of("game").may_publish("a"));
}

#[test]
fn the_rule_that_decides_is_told() {
    let rights = ann(&[
        "allow both a/#",
        "deny publish a/b",
        "deny subscribe a/c/#",
        "allow subscribe a/d",
        "allow both $#",
    ]);
    let told = |explanation: super::Explanation| {
        let rule = explanation.deciding().map(ToString::to_string);
        (explanation.access, rule.unwrap_or_default())
    };
    let allow = "role test: allow both a/#".to_owned();
    let publish = |topic| told(rights.explain_publish(topic));
    assert_eq!(publish("a/x"), (Access::All, allow.clone()));
    let deny = "role test: deny publish a/b".to_owned();
    assert_eq!(publish("a/b"), (Access::Nothing, deny));
    assert_eq!(publish("b"), (Access::Nothing, String::new()));
    assert_eq!(publish("$SYS").1, "role test: allow both $#");
    assert_eq!(
        told(rights.explain_receive("a/b")),
        (Access::All, allow.clone())
    );
    let subscribe = |filter| told(rights.explain_subscribe(filter));
    assert_eq!(subscribe("a/d"), (Access::All, allow));
    let deny = "role test: deny subscribe a/c/#".to_owned();
    assert_eq!(subscribe("a/c/+"), (Access::Nothing, deny.clone()));
    assert_eq!(subscribe("#"), (Access::Part, deny));
    assert_eq!(subscribe("b/#"), (Access::Nothing, String::new()));
}

/// A rule about topics that no other one allows changes nothing, and explains nothing.
#[test]
fn a_denial_that_takes_nothing_away_does_not_decide() {
    let told = |rules: &[&str], filter: &str| {
        let explanation = ann(rules).explain_subscribe(filter);
        let rule = explanation.deciding().map(|rule| rule.rule().to_string());
        (explanation.access, rule.unwrap_or_default())
    };
    for (rules, filter, access, decides) in [
        (&["deny subscribe a/secret"][..], "a/#", Access::Nothing, ""),
        (
            &["deny subscribe a/secret", "allow subscribe a/b"],
            "a/+",
            Access::Part,
            "allow subscribe a/b",
        ),
        (
            &[
                "deny subscribe a/c/d",
                "allow subscribe a/#",
                "deny both a/+",
            ],
            "a/+",
            Access::Nothing,
            "deny both a/+",
        ),
        (
            &["deny subscribe a/x", "allow both a/b/#", "deny both a/b/#"],
            "a/#",
            Access::Nothing,
            "deny both a/b/#",
        ),
        (
            &["deny subscribe b", "deny both a/x", "allow subscribe +/x"],
            "+/x",
            Access::Part,
            "deny both a/x",
        ),
    ] {
        let expected = (access, decides.to_owned());
        assert_eq!(told(rules, filter), expected, "{rules:?} {filter}");
    }
}

/// The rules, read one by one, as their documentation says it.
struct Naive {
    rules: Vec<(Effect, Action, String)>,
}

impl Naive {
    fn new(roles: &[Arc<Role>], user: Option<&str>, client_id: &str) -> Self {
        let mut rules = Vec::new();
        for rule in roles.iter().flat_map(|role| &role.rules) {
            if let Some(pattern) = expand(rule, user.unwrap_or_default(), client_id) {
                rules.push((rule.effect, rule.action, pattern));
            }
        }
        Self { rules }
    }

    fn may(&self, action: Action, topic: &str) -> bool {
        let says = |wanted: Effect| {
            self.rules.iter().any(|(effect, of, pattern)| {
                let about = *of == action || *of == Action::Both;
                let hit = match pattern.as_str() {
                    EVERY_DOLLAR => topic.starts_with('$'),
                    pattern => matches(pattern, topic),
                };
                *effect == wanted && about && hit
            })
        };
        says(Effect::Allow) && !says(Effect::Deny)
    }
}

fn expand(rule: &Rule, user: &str, client_id: &str) -> Option<String> {
    let names = [
        ("{user}", user),
        ("{client}", client_id),
        ("{zone}", DEFAULT_ZONE),
    ];
    let mut levels = Vec::new();
    for level in rule.pattern.split('/') {
        let used = names.iter().filter(|(form, _)| level.contains(form));
        let mut level = level.to_owned();
        let mut is_unsafe = false;
        for (form, name) in used {
            if name.is_empty() {
                return None;
            }
            is_unsafe |= name.contains(['/', '+', '#']);
            level = level.replace(form, name);
        }
        match (is_unsafe, rule.effect) {
            (true, Effect::Allow) => return None,
            (true, Effect::Deny) => levels.push("+".to_owned()),
            (false, _) => levels.push(level),
        }
    }
    let pattern = levels.join("/");
    let begins_so = rule.pattern.starts_with('$') || rule.effect == Effect::Deny;
    (begins_so || !pattern.starts_with('$')).then_some(pattern)
}

/// Every topic of up to four levels over the texts that rules may name and one that none does.
/// The longest rule has three.
fn topics() -> Vec<String> {
    const LEVELS: [&str; 7] = ["a", "b", "", "$x", "-a", "-b", "~"];
    const DEPTH: usize = 4;
    let mut all: Vec<String> = Vec::new();
    let mut last: Vec<String> = LEVELS.iter().map(ToString::to_string).collect();
    for depth in 1..=DEPTH {
        all.extend(last.iter().filter(|topic| !topic.is_empty()).cloned());
        if depth < DEPTH {
            let deeper = |topic: &String| LEVELS.map(|level| format!("{topic}/{level}"));
            last = last.iter().flat_map(deeper).collect();
        }
    }
    all
}

static TOPICS: LazyLock<Vec<String>> = LazyLock::new(topics);

fn filter(with_names: bool) -> impl Strategy<Value = String> {
    let level = if with_names {
        prop_oneof![
            4 => prop::sample::select(vec!["a", "b", "+", "$x", ""]),
            1 => prop::sample::select(vec!["{user}", "{client}", "-{user}"]),
        ]
        .boxed()
    } else {
        prop::sample::select(vec!["a", "b", "+", "$x", ""]).boxed()
    };
    (prop::collection::vec(level, 0..3), any::<bool>())
        .prop_map(|(mut levels, is_open)| {
            if is_open || levels.is_empty() {
                levels.push("#");
            }
            levels.join("/")
        })
        .prop_filter("no empty filter", |filter| !filter.is_empty())
}

fn rule() -> impl Strategy<Value = Rule> {
    let effect = prop::sample::select(vec![Effect::Allow, Effect::Allow, Effect::Deny]);
    let action = prop::sample::select(vec![Action::Publish, Action::Subscribe, Action::Both]);
    let pattern = prop_oneof![20 => filter(true), 1 => Just(EVERY_DOLLAR.to_owned())];
    (effect, action, pattern).prop_map(|(effect, action, pattern)| Rule {
        effect,
        action,
        pattern: pattern.into(),
    })
}

fn two_roles() -> impl Strategy<Value = Vec<Arc<Role>>> {
    let one = prop::collection::vec(rule(), 0..7).prop_map(|rules| {
        Arc::new(Role {
            rules,
            ..(*role("test", &[])).clone()
        })
    });
    prop::collection::vec(one, 1..3)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Publishing and receiving, topic by topic; and of each filter whether all, some or none of
    /// the topics that it matches may be received.
    #[test]
    fn answers_are_those_of_a_naive_evaluator(
        roles in two_roles(),
        filters in prop::collection::vec(filter(false), 1..6),
        user in prop::sample::select(vec![None, Some("a"), Some("b"), Some("+"), Some("a/b")]),
        client_id in prop::sample::select(vec!["a", "$x", "#", ""]),
    ) {
        let naive = Naive::new(&roles, user, client_id);
        let rights = compile(&roles, login(user, client_id));
        let topics = &*TOPICS;
        let mut receivable = Vec::with_capacity(topics.len());
        for topic in topics {
            let receive = naive.may(Action::Subscribe, topic);
            prop_assert_eq!(rights.may_receive(topic), receive, "receive {}", topic);
            let publish = naive.may(Action::Publish, topic);
            prop_assert_eq!(rights.may_publish(topic), publish, "publish {}", topic);
            receivable.push(receive);
        }
        for filter in &filters {
            let of = topics.iter().zip(&receivable).filter(|(topic, _)| matches(filter, topic));
            let answers: BTreeSet<bool> = of.map(|(_, may)| *may).collect();
            let expected = match (answers.contains(&true), answers.contains(&false)) {
                (true, false) => Access::All,
                (true, true) => Access::Part,
                (false, _) => Access::Nothing,
            };
            prop_assert_eq!(rights.may_subscribe(filter), expected, "subscribe {}", filter);
        }
    }
}
