//! The section `http`.

use super::Case;

fn urls(case: Case) -> (Vec<String>, bool) {
    let (urls, are_named) = case.good().http.urls();
    (urls.iter().map(ToString::to_string).collect(), are_named)
}

#[test]
fn the_usual_addresses_hold_where_nothing_is_said() {
    let usual = ["http://127.0.0.1:18083", "http://[::1]:18083"].map(str::to_owned);
    let nothing = Case::default();
    let file = Case::file("[[listener]]\nurl = \"mqtt://127.0.0.1:1\"\n");
    let variable = Case::default().variable("STENTOR_LISTENER__0__URL", "mqtt://127.0.0.1:1");
    for case in [nothing, file, variable] {
        assert_eq!(urls(case), (usual.to_vec(), false));
    }
    let by_flag = Case::default().flag("listener.url", "mqtt://127.0.0.1:1");
    assert_eq!(urls(by_flag), (Vec::new(), true));
}

#[test]
fn addresses_are_named_or_turned_off() {
    for off in ["listen = []", "listen = [\"off\"]"] {
        let case = Case::file(&format!("[http]\n{off}\n"));
        assert_eq!(urls(case), (Vec::new(), true), "{off}");
    }
    let off = Case::default().variable("STENTOR_HTTP__LISTEN", "off");
    assert_eq!(urls(off), (Vec::new(), true));
    let both = Case::default()
        .flag("listener.url", "mqtt://127.0.0.1:1")
        .flag("http.listen", "http://localhost:1,http://[::1]:2");
    let expected = ["http://localhost:1", "http://[::1]:2"].map(str::to_owned);
    assert_eq!(urls(both), (expected.to_vec(), true));
}

#[test]
fn addresses_beyond_this_machine_are_meant() {
    let listen = |more: &str| {
        let text = format!("[http]\n{more}\n[tls]\ncertificate = \"a\"\nkey = \"b\"\n");
        Case::file(&text)
    };
    let bad = listen("listen = [\"http://0.0.0.0:1\"]").bad();
    assert!(bad.contains("insecure = true"), "{bad}");
    listen("listen = [\"http://0.0.0.0:1\"]\ninsecure = true").good();
    let good = listen("listen = [\"https://0.0.0.0:1\"]").good();
    assert_eq!(good.http.certificate, Some("etc/a".into()));
    let bad = Case::file("[http]\nlisten = [\"https://localhost\"]\n").bad();
    assert!(bad.contains("needs a certificate"), "{bad}");
    let https = "listen = [\"https://[::1]:1\"]\ncertificate = \"a\"\nkey = \"b\"\n";
    for (more, words) in [
        (
            "client_certificates = \"required\"\nclient_ca = \"x\"",
            "https:// in `listen`",
        ),
        (
            &format!("{https}client_certificates = \"optional\""),
            "give `client_ca`",
        ),
        (
            &format!("{https}client_ca = \"x\""),
            "`client_ca` is of no use",
        ),
        (
            &format!("{https}certificate_user = \"cn\""),
            "`certificate_user` is of no use",
        ),
    ] {
        let bad = Case::file(&format!("[http]\n{more}\n")).bad();
        assert!(bad.contains(words), "{bad}");
    }
    let asks = "client_certificates = \"optional\"\nclient_ca = \"x\"\ncertificate_user = \"cn\"";
    Case::file(&format!("[http]\n{https}{asks}\n")).good();
    let bad = Case::file("[http]\nlisten = [\"mqtt://localhost\"]\n").bad();
    assert!(bad.contains("http://HOST:PORT"), "{bad}");
}
