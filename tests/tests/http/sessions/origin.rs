//! Pages of others, which make a browser send its cookies along.

use serde_json::json;
use stentor_tests::Raw;

use super::{JSON, OWN, get, goes_on, log_in, post, server, session, user};
use crate::api::json_of;
use crate::read;

#[test]
fn pages_of_others_change_nothing() {
    let server = server();
    user(&server, "root", "admin");
    let cookie = session(&server, "root");
    let kick = json!({ "client_id": "pump" });
    for headers in [
        "",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: none\r\n",
        "Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: http://localhost:3000\r\n",
        "Origin: null\r\n",
        "Origin: http://localhost\r\nOrigin: http://evil.example\r\n",
    ] {
        let headers = format!("{headers}{JSON}");
        for path in ["clients/kick", "logout"] {
            let (status, problem) = post(&server, path, &cookie, (&headers, &kick));
            assert_eq!(
                (status, &problem["code"]),
                (403, &json!("cross-site")),
                "{path} {headers}"
            );
        }
    }
    assert!(goes_on(&server, &cookie));
    for headers in [
        "Sec-Fetch-Site: same-origin\r\n",
        "Origin: http://localhost\r\n",
    ] {
        let plain = format!("{headers}Content-Type: text/plain\r\n");
        let (status, problem) = post(&server, "clients/kick", &cookie, (&plain, &kick));
        assert_eq!((status, &problem["code"]), (415, &json!("content-type")));
        let headers = format!("{headers}{JSON}");
        let (status, problem) = post(&server, "clients/kick", &cookie, (&headers, &kick));
        assert_eq!(
            (status, &problem["code"]),
            (404, &json!("not-found")),
            "{problem}"
        );
    }
}

/// Also a look is refused if a browser says that a page of others wants it. An address that
/// somebody has typed is not one.
#[test]
fn pages_of_others_look_at_nothing() {
    let server = server();
    user(&server, "root", "admin");
    let cookie = session(&server, "root");
    for (headers, expected) in [
        ("", 200),
        ("Sec-Fetch-Site: same-origin\r\n", 200),
        ("Sec-Fetch-Site: none\r\n", 200),
        ("Sec-Fetch-Site: same-site\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Origin: http://evil.example\r\n", 403),
    ] {
        for path in ["me", "status", "events/stream?limit=bad"] {
            let with = format!("{cookie}\r\n{headers}").trim_end().to_owned();
            let (status, answer) = get(&server, path, &with);
            // The stream is refused later, for its query.
            let expected = match (path, expected) {
                ("me" | "status", code) | (_, code @ 403) => code,
                _ => 400,
            };
            assert_eq!(status, expected, "{path} {headers}: {answer}");
        }
    }
}

#[test]
fn pages_of_others_log_nobody_in() {
    let server = server();
    user(&server, "vic", "viewer");
    let body = json!({ "user": "vic", "password": "vic" });
    for (headers, expected) in [
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Origin: http://evil.example\r\n", 403),
        ("Origin: http://localhost\r\n", 200),
        ("Sec-Fetch-Site: same-origin\r\n", 200),
    ] {
        let answer = log_in(&server, &format!("{headers}{JSON}"), &body);
        assert_eq!(answer.status, expected, "{headers}");
        assert_eq!(answer.set_cookie.is_some(), expected == 200);
        assert!(!answer.head.contains("access-control"));
    }
}

/// A proxy in front of the server may speak https: then the page says so, and the cookie is for
/// https alone.
#[test]
fn behind_a_proxy_of_https_the_cookie_is_for_https() {
    let server = server();
    user(&server, "vic", "viewer");
    let headers = format!("Origin: https://localhost\r\n{JSON}");
    let answer = log_in(
        &server,
        &headers,
        &json!({ "user": "vic", "password": "vic" }),
    );
    let set = answer.set_cookie.expect("there is a cookie");
    assert!(
        set.starts_with("__Host-stentor=") && set.ends_with("; Secure"),
        "{set}"
    );
    let cookie = set.split(';').next().unwrap_or_default();
    assert!(goes_on(&server, cookie));
}

/// A name that its owner lets point to this machine.
#[test]
fn other_hosts_get_no_cookie() {
    let server = server();
    user(&server, "vic", "viewer");
    let cookie = session(&server, "vic");
    let body = json!({ "user": "vic", "password": "vic" }).to_string();
    for (method, path) in [
        ("POST", "/api/v1/login"),
        ("GET", "/api/v1/me"),
        ("GET", "/login"),
    ] {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n{OWN}\
             Cookie: {cookie}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        let mut client = Raw::tcp(&server.address("http"));
        client.send(request.as_bytes());
        let answer = read(&mut client);
        assert_eq!(answer.set_cookie, None);
        let (status, problem) = json_of(answer);
        assert_eq!(
            (status, &problem["code"]),
            (421, &json!("other-host")),
            "{path}"
        );
    }
}

/// A token needs none of this: no page of others has it.
#[test]
fn tokens_need_no_origin() {
    let server = server();
    let token = crate::api::token(&server, "root", &["admin"]);
    let kick = json!({ "client_id": "pump" });
    let (status, problem) = crate::api::post(&server, "clients/kick", &token, &kick);
    assert_eq!((status, &problem["code"]), (404, &json!("not-found")));
    let (status, me) = crate::api::get(&server, "me", &token);
    assert_eq!((status, &me["name"]), (200, &json!("root")));
    assert_eq!(me["session"], json!(null));
}
