//! What is read, refused and written.

use std::sync::Arc;

use stentor_auth::credential::Cost;
use stentor_auth::model::User;

use super::*;
use crate::accounts::export::{HEAD, csv_line};
use crate::accounts::secret::dated;

#[test]
fn csv_is_taken_apart_as_the_rules_say() {
    let text = "\u{feff}name,password\r\nann,\"a,b\"\"c\"\r\n\r\n\"multi\nline\",x\nlast,";
    let records = csv::records(text).unwrap();
    let expected = [
        (1, vec!["name", "password"]),
        (2, vec!["ann", "a,b\"c"]),
        (4, vec!["multi\nline", "x"]),
        (6, vec!["last", ""]),
    ];
    let expected = expected.map(|(line, record)| {
        let record: Vec<String> = record.into_iter().map(str::to_owned).collect();
        (line, record)
    });
    assert_eq!(records, expected);
    assert!(csv::records("a,\"b").unwrap_err().contains("not closed"));
    for field in ["plain", "a,b", "say \"hi\"", "two\nlines", " space"] {
        let read = csv::records(&format!("{},x\n", quoted(field))).unwrap();
        assert_eq!(read[0].1[0], field);
    }
}

#[test]
fn rows_become_users() {
    let text = "name,password,zone,roles,disabled\n\
                ann,secret,,,\n\
                game/bob,,,player boss,true\n\
                cid,x,chat,,no\n";
    let rows = csv::parse(text).unwrap();
    let shown: Vec<String> = rows.iter().map(|row| row.user.key().to_string()).collect();
    assert_eq!(shown, ["ann", "game/bob", "chat/cid"]);
    assert_eq!(rows[0].password.as_deref(), Some("secret"));
    let bob = rows[1].user.clone().over(None);
    assert_eq!((bob.roles.len(), bob.disabled), (2, true));
    assert!(rows[1].password.is_none());
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (text, reason) in [
        ("", "empty"),
        ("name,pasword\n", "no column \"pasword\""),
        ("password\nx\n", "\"name\" is missing"),
        ("name,name\n", "two columns"),
        (
            "name,password\nann\n",
            "line 2, user \"ann\": it has 1 columns",
        ),
        (
            "name,password\n\nann,hush,hush\n",
            "line 3, user \"ann\": it has 3 columns",
        ),
        (
            "name,disabled\nann,maybe\n",
            "line 2, user \"ann\", column disabled: ",
        ),
        (
            "name,credential\nann,hush\n",
            "line 2, user \"ann\", column credential: ",
        ),
        (
            "name,zone\ngame/ann,chat\n",
            "line 2, user \"game/ann\", column zone: the name begins with another zone",
        ),
        ("hush,ann\n", "\"name\" is missing"),
    ] {
        let error = csv::parse(text).err().unwrap();
        assert!(error.contains(reason), "{text:?}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
    let twice = "name,password\nann,a\nann,hush\n";
    let error = places(&csv::parse(twice).unwrap()).unwrap_err();
    let reason = "line 3, user \"ann\": the same user is in line 2";
    assert!(error.contains(reason) && !error.contains("hush"), "{error}");
}

#[test]
fn what_is_wrong_in_json_is_told_with_its_entry() {
    for (text, reason) in [
        ("", "line 1, column 0: the file ends"),
        (r#"[{"name": "ann""#, "the file ends"),
        ("[{\n\"name\": hush}]", "line 2, column 9: this is not JSON"),
        (r#""hush""#, "it is not a list of objects"),
        (r#"["hush"]"#, "it is not a list of objects"),
        (r#"{"name": "hush"}"#, "it is not a list of objects"),
        (
            r#"[{"name": "ann"}, {"password": "hush"}]"#,
            "entry 2: the key \"name\" is missing",
        ),
        (r#"[{"name": 7}]"#, "entry 1: the value of \"name\""),
        (
            r#"[{"name": "ann", "password": "hush", "password": "hush"}]"#,
            "entry 1, user \"ann\": the key \"password\" is there twice",
        ),
        (
            r#"[{"name": "ann", "pasword": "hush"}]"#,
            "user \"ann\": there is no key \"pasword\"",
        ),
        (
            r#"[{"name": "ann", "credentials": "hush"}]"#,
            "the value of \"credentials\"",
        ),
        (
            r#"[{"name": "ann", "credentials": [{"text": "hush"}]}]"#,
            "user \"ann\": ",
        ),
        (
            r#"[{"name": "ann", "password": ["hush"]}]"#,
            "the value of \"password\"",
        ),
        (
            r#"[{"name": "ann", "disabled": "hush"}]"#,
            "the value of \"disabled\"",
        ),
    ] {
        let error = json::parse(text).err().unwrap();
        assert!(error.contains(reason), "{text}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
    let text = r#"[{"name": "game/ann", "password": null, "roles": ["r"], "disabled": true}]"#;
    let row = json::parse(text).unwrap().remove(0);
    assert_eq!((&*row.user.zone, &*row.user.name), ("game", "ann"));
    let user = row.user.over(None);
    assert!(row.password.is_none() && user.disabled && &*user.roles[0] == "r");
}

#[test]
fn a_refusal_is_told_with_the_line_of_its_user() {
    let rows = csv::parse("name,password\na: b,x\na,y\n").unwrap();
    let places = places(&rows).unwrap();
    let line = |message: &str| place_of(&places, message);
    assert_eq!(line("user a: b: there is no role"), Some(Place::Line(2)));
    assert_eq!(line("user a: there is no role"), Some(Place::Line(3)));
    assert_eq!(line("user c: x"), None);
    assert_eq!(line("the database does not answer"), None);
}

#[test]
fn what_is_exported_can_be_imported() {
    let mut user = User {
        zone: "game".into(),
        name: "a, \"b\"".into(),
        credentials: Maker::new(Cost::CHEAPEST, true).make(b"x").unwrap(),
        roles: vec!["member".into(), "boss".into()],
        disabled: true,
        foreign: false,
    };
    let token = stentor_auth::credential::Token::generate().unwrap().hash();
    user.credentials.insert(0, dated(&token.to_string()));
    for roles in [
        &["member", "boss"][..],
        &[],
        &["two words", "-", "say \"hi\"", "a,b"],
        &["-"],
        &[
            "no\u{a0}break",
            "thin\u{2009}space",
            "line\u{2028}end",
            "a\u{3000}b",
        ],
    ] {
        user.roles = roles.iter().copied().map(Arc::from).collect();
        let text = format!("{HEAD}{}", csv_line(&user));
        let row = csv::parse(&text).unwrap().remove(0);
        let read = row.user.over(None);
        assert_eq!(read.roles, user.roles, "{text}");
        assert_eq!((read.key(), read.disabled), (user.key(), true));
        let texts = |all: &[Credential]| {
            let texts: Vec<Arc<str>> = all.iter().map(|one| Arc::clone(&one.text)).collect();
            texts
        };
        assert_eq!(texts(&read.credentials), texts(&user.credentials[1..]));
        // JSON has room for the token too.
        let text = serde_json::json!([user]).to_string();
        let row = json::parse(&text).unwrap().remove(0);
        assert_eq!(row.user.over(None), user);
    }
}

/// As an export of before had them, without quotes.
#[test]
fn white_space_that_is_no_space_is_part_of_a_role() {
    let rows = csv::parse("name,roles\nann,no\u{a0}break two\tthree\n").unwrap();
    let roles = rows[0].user.roles.as_deref().unwrap();
    assert_eq!(roles, ["no\u{a0}break", "two", "three"].map(Arc::from));
}

/// What is not said is not made up: it is up to whether the user exists.
#[test]
fn what_the_file_does_not_say_is_not_made_up() {
    let csv = csv::parse("name,password,roles,disabled\nann,,,\nbob,x,-,false\n").unwrap();
    let json = json::parse(
        r#"[{"name":"ann"},{"name":"bob","password":"x","roles":[],"disabled":false}]"#,
    );
    for rows in [csv, json.unwrap()] {
        let [ann, bob] = &rows[..] else {
            panic!("there are two");
        };
        let said = |row: &Row| {
            let user = &row.user;
            (
                user.credentials.is_some(),
                user.roles.is_some(),
                user.disabled.is_some(),
            )
        };
        assert_eq!(said(ann), (false, false, false));
        assert_eq!(said(bob), (false, true, true));
        assert_eq!(bob.user.roles.as_deref(), Some(&[][..]));
        assert!(bob.password.is_some() && bob.user.keeps_tokens);
    }
    let error = csv::parse("name,roles\nann,\"\"\"hush\"\n").err().unwrap();
    assert!(
        error.contains("column roles: a quote is not closed"),
        "{error}"
    );
}
