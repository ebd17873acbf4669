//! Web servers that scripts and endpoints reach by https.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use stentor_tests::raw::publish;
use stentor_tests::{Certificates, Plan, Version, tools};

use crate::clients::Ends;
use crate::{Calls, code, plan, word};

/// Web servers with a certificate for localhost and 127.0.0.1, and their port.
fn web(certificates: &Certificates) -> (Ends, String) {
    let mut command = tools::python("https_server.py");
    command
        .arg(certificates.certificate())
        .arg(certificates.key());
    command
        .args(["127.0.0.1", "127.0.0.2"])
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("python starts");
    let stdout = child.stdout.take().expect("standard output is piped");
    let ends = Ends(child);
    let mut port = String::new();
    BufReader::new(stdout).read_line(&mut port).expect("a port");
    (ends, port.trim().to_owned())
}

/// A script that asks whatever URL it is told, and an endpoint.
fn files(port: &str) -> [(&'static str, String); 2] {
    let script = format!(
        "--[[ procedure\nanonymous = true\ngrants = [\"http\"]\ndeadline = \"60s\"\n\
         allow_urls = [\"https://127.0.0.1:{port}/\", \"https://localhost:{port}/\", \
         \"https://127.0.0.2:{port}/\"]\n]]
        return function(call)
            local good, said = pcall(http.get, call.args.url)
            return accept(good and said.body or tostring(said))
        end"
    );
    let endpoint = format!(
        "kind = \"http\"\nanonymous = true\nurl = \"https://localhost:{port}/check\"\n\
         deadline = \"60s\""
    );
    [("ask.luau", script), ("endpoint.toml", endpoint)]
}

fn start(port: &str, ca_file: Option<&Path>) -> Calls {
    let files = files(port);
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, &**text)).collect();
    let plan = plan(&files);
    let plan = match ca_file {
        Some(file) => plan.config(&format!("[procedures]\nca_file = \"{}\"\n", file.display())),
        None => plan,
    };
    Calls {
        server: plan.start(),
    }
}

#[test]
fn a_server_has_to_prove_who_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificates = Certificates::new(folder.path());
    let (_web, port) = web(&certificates);
    let authority = certificates.authority();
    let known = start(&port, Some(&authority));
    let ask = |calls: &Calls, host: &str| {
        let url = format!("https://{host}:{port}/path");
        calls
            .by_unix(&["--deadline", "60s", "/ask", "-url", &url])
            .success()
    };
    assert_eq!(ask(&known, "localhost"), "/path\n");
    assert_eq!(ask(&known, "127.0.0.1"), "/path\n");
    let other = ask(&known, "127.0.0.2");
    assert!(
        other.contains("its certificate is for another name"),
        "{other}"
    );
    let file = known.file("m", b"T: u\r\n\r\nbody");
    let words = ["--deadline", "60s", "--file", word(&file), "/endpoint"];
    let endpoint = known.by_tcp(&words);
    assert_eq!(code(&endpoint), Some(1), "{endpoint}");
    assert_eq!(endpoint.stdout, "12 bytes were read\n");
    // The system's own authorities have not signed it.
    let unknown = start(&port, None);
    let said = ask(&unknown, "localhost");
    assert!(
        said.contains("signed by no authority that is trusted here"),
        "{said}"
    );
    let endpoint = unknown.by_tcp(&[&["--profile", "sysexits"], &words[..]].concat());
    assert_eq!(code(&endpoint), Some(75), "{endpoint}");
    let text = "failed: the endpoint: its certificate is signed by no authority";
    assert!(endpoint.stderr.contains(text), "{endpoint}");
}

/// Adaptors ask web servers as scripts do, and believe the same authorities.
#[test]
fn adaptors_ask_by_https_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let certificates = Certificates::new(folder.path());
    let (_web, port) = web(&certificates);
    let adaptor = "return { publish = function(event)
            local reply, trouble = http({ url = event.payload })
            return deny(reply and reply.body or trouble)
        end }";
    let file = folder.path().join("ask.luau");
    fs::write(&file, adaptor).expect("a file can be written");
    let config = format!(
        "[procedures]\nca_file = \"{}\"\n[[adaptor]]\nfile = \"{}\"\ndeadline = \"60s\"\n\
         http = [\"localhost\", \"127.0.0.2:{port}\"]\n",
        certificates.authority().display(),
        file.display()
    );
    let server = Plan::new().tcp().anonymous().config(&config).start();
    let mut client = server.client(Version::V5, "c");
    for (host, said) in [
        ("localhost", "/path"),
        ("127.0.0.2", "its certificate is for another name"),
        ("127.0.0.1", "is not among the adaptor's `http` hosts"),
    ] {
        let url = format!("https://{host}:{port}/path");
        client.send(&publish(Version::V5, "t", url.as_bytes(), 1, false));
        let refused = client.expect(4).body;
        let text = String::from_utf8_lossy(&refused).into_owned();
        assert!(text.contains(said), "{host}: {text}");
    }
}

#[test]
fn authorities_that_cannot_be_used_are_refused_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.pem");
    fs::write(&empty, "nothing").expect("a file can be written");
    for (file, words) in [
        (
            folder.path().join("missing.pem"),
            "cannot read the certificates",
        ),
        (empty, "holds no certificate of an authority"),
    ] {
        let config = format!(
            "[procedures]\nca_file = \"{}\"\n[[listener]]\nurl = \"call://127.0.0.1:0\"\n",
            file.display()
        );
        let refused = Plan::new().config(&config).refused();
        assert!(refused.stderr.contains(words), "{refused}");
        assert!(refused.stderr.contains(word(&file)), "{refused}");
    }
}
