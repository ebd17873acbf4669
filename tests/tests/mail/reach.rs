//! What procedures do outside: mail by the relay, HTTP, DNS, and the log as JSON.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::Command;

use stentor_tests::server::binary;
use stentor_tests::{Plan, process, tools};

use crate::{Site, open, path_text, replaced, script};

/// The shipped /autoreply, asked by milter, answers by the same Postfix; nobody answers the answer.
#[test]
fn autoreply_answers_once_and_never_itself() {
    let shipped = tools::project().join("deploy/procedures/autoreply.luau");
    let text = fs::read_to_string(shipped).unwrap();
    let text = replaced(&text, "call.args.send == \"yes\"", "true");
    let none = "local TEXTS = {";
    let text = replaced(
        &text,
        none,
        &format!("{none} ['b@here.test'] = 'I am away.',"),
    );
    let site = Site::start(&text, &open());
    let words = [
        "--from",
        "c@here.test",
        "--to",
        "b@here.test",
        "--header",
        "Subject: hi",
    ];
    let from = site.postfix.log().text().len();
    site.send(&words).success();
    let log = site
        .postfix
        .log()
        .wait(from, "to=<c@here.test>, relay=virtual");
    assert!(log[from..].contains("from=<>"), "{log}");
    let mailbox = site.postfix.mailbox();
    assert!(mailbox.contains("\nSubject: Re: hi\n"), "{mailbox}");
    assert!(
        mailbox.contains("\nX-Stentor-Loop: attachments\n"),
        "{mailbox}"
    );
    // The second one is not answered, and neither was the answer.
    site.delivered(&words);
    let told = [
        "INFO answered procedure",
        "no answer: answered this week",
        "no answer: a bounce",
    ];
    for text in told {
        site.server().wait_log(0, text);
    }
    let log = site.server().log();
    for text in told {
        assert_eq!(log.matches(text).count(), 1, "{text}: {log}");
    }
}

/// A name server that knows one address for everything.
fn name_server() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let address = socket.local_addr().expect("it has one").to_string();
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((read, from)) = socket.recv_from(&mut question) {
            let mut answer = question[..read].to_vec();
            answer[2] |= 0x80;
            answer[7] = 1;
            answer.extend_from_slice(b"\xC0\x0C\0\x01\0\x01\0\0\0\x09\0\x04\x7F\0\0\x02");
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

/// A web server that refuses what has "spam" in it.
fn web_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has one").to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            while !request.ends_with(b"end\n") {
                match stream.read(&mut piece) {
                    Ok(read) if read > 0 => request.extend_from_slice(&piece[..read]),
                    _ => break,
                }
            }
            let is_spam = String::from_utf8_lossy(&request).contains("spam");
            let verdict = if is_spam { "reject" } else { "accept" };
            let body = format!("{{\"verdict\":\"{verdict}\",\"text\":\"seen\"}}");
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

#[test]
fn endpoints_and_name_servers_are_asked_and_the_log_is_json() {
    let (web, names) = (web_server(), name_server());
    let endpoint = format!("kind = \"http\"\nurl = \"http://{web}/check\"\ndeadline = \"60s\"");
    let blocked = script(
        "needs = \"envelope\"\ngrants = [\"dns\"]\ndeadline = \"60s\"",
        "local reversed = string.gsub(call.client, '(%d+)%.(%d+)%.(%d+)%.(%d+)', '%4.%3.%2.%1')
        local found = dns.lookup(reversed .. '.bl.example')
        if #found > 0 then return reject('listed: ' .. found[1]) end
        return accept()",
    );
    let closed = script("allow_users = [\"nobody-else\"]", "return accept()");
    let plan = Plan::new();
    let folder = plan.folder().join("procedures");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("endpoint.toml"), endpoint).unwrap();
    fs::write(folder.join("blocked.luau"), blocked).unwrap();
    fs::write(folder.join("closed.luau"), closed).unwrap();
    let socket = plan.folder().join("call.sock");
    let config = format!(
        "[procedures]\nfolder = \"procedures\"\nresolver = \"{names}\"\n\
         [[listener]]\nurl = \"call+unix:call.sock\"\n"
    );
    let server = plan.config(&config).arg("--log-format").arg("json").start();
    let message = server.folder().join("m");
    fs::write(&message, "Message-ID: <1@a>\n\nspam end\n").unwrap();
    let ask = |words: &[&str]| {
        let mut call = Command::new(binary().with_file_name("stentor-call"));
        call.args(["-s", path_text(&socket), "--deadline", "60s"]);
        process::run(call.args(["--file", path_text(&message)]).args(words))
    };
    let refused = ask(&["/endpoint", "-from", "a@b", "-queue-id", "Q7"]);
    assert_eq!(refused.status.code(), Some(1), "{refused}");
    let listed = ask(&["/blocked", "-client", "192.0.2.1"]);
    assert_eq!(listed.stdout, "listed: 127.0.0.2\n", "{listed}");
    let closed = ask(&["/closed"]);
    assert!(closed.stderr.contains("may not call"), "{closed}");
    let log = server.wait_log(0, "Q7");
    let line = log.lines().find(|line| line.contains("Q7")).expect(&log);
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    let all = json.to_string();
    for part in [
        "\"procedure\":\"endpoint\"",
        "\"verdict\":\"reject\"",
        "\"queue_id\":\"Q7\"",
        "\"message_id\":\"<1@a>\"",
        "\"from\":\"a@b\"",
        "\"version\":\"0\"",
        "\"size\":",
        "\"ms\":",
        "seen",
    ] {
        assert!(all.contains(part), "{part} is not in {all}");
    }
}
