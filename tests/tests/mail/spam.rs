//! The shipped /spamassassin asks a real spamd.

use std::fs;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use stentor_tests::raw::eventually;
use stentor_tests::server::{binary, free_port};
use stentor_tests::{DEADLINE, Plan, process, tools};

use crate::strangers::miltertest;
use crate::{path_text, replaced};

/// A spamd of its own, with its rules and nothing of the network.
struct Spamd {
    child: Child,
    port: u16,
}

impl Spamd {
    fn start(home: &std::path::Path) -> Self {
        let port = free_port();
        let child = Command::new(tools::find("spamd"))
            .args(["--listen", &format!("127.0.0.1:{port}"), "--local"])
            .args([
                "--nouser-config",
                "--max-children",
                "1",
                "--syslog",
                "stderr",
            ])
            .arg("--pidfile")
            .arg(home.join("spamd.pid"))
            .arg("--helper-home-dir")
            .arg(home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("spamd starts");
        let spamd = Self { child, port };
        // It reads thousands of rules first.
        eventually("spamd's listening", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        spamd
    }
}

impl Drop for Spamd {
    fn drop(&mut self) {
        // It ends its children.
        let _ = kill(process::pid_of(&self.child), Signal::SIGTERM);
        let _ = process::wait(&mut self.child, DEADLINE);
    }
}

/// What senders write who want to pass.
const FORGED: &str = "X-Spam-Flag: NO\r\nx-spam-status: No,\r\n\tscore=-99\r\n";

/// The headers of a message without that.
const HONEST: &str = "From: a@ext.test\r\nTo: b@here.test\r\nSubject: lunch\r\n\
    Date: Sat, 21 Nov 2026 01:32:07 +0000\r\nMessage-ID: <1@ext.test>\r\n\r\n";

/// What every SpamAssassin takes for spam (a thousand points).
const GTUBE: &str = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";

#[test]
fn spam_is_refused_or_marked_and_the_rest_passes() {
    let plan = Plan::new();
    let home = plan.folder().to_owned();
    let spamd = Spamd::start(&home);
    let shipped = tools::project().join("deploy/procedures/spamassassin.toml");
    let text = fs::read_to_string(shipped).unwrap();
    let text = replaced(&text, "127.0.0.1:783", &format!("127.0.0.1:{}", spamd.port));
    let mild = replaced(&text, "reject_score = 15.0", "reject_score = 1000.0");
    let mild = replaced(&mild, "version = \"1.0\"", "version = \"mild\"");
    let mark = mild.replace("reject_score = 1000.0\n", "");
    let folder = home.join("procedures");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("spamassassin.toml"), text).unwrap();
    fs::write(folder.join("mild.toml"), mark).unwrap();
    let socket = home.join("call.sock");
    let config = format!(
        "[procedures]\nfolder = \"procedures\"\n[[listener]]\nurl = \"call+unix:{}\"\n\
         [[listener]]\nurl = \"milter://127.0.0.1:0\"\nprocedure = \"/mild\"\n",
        socket.display()
    );
    let server = plan.config(&config).start();
    let message = home.join("m");
    let ask = |procedure: &str, body: &str| {
        let text = format!("{FORGED}{HONEST}{body}\r\n");
        fs::write(&message, text).unwrap();
        let mut call = Command::new(binary().with_file_name("stentor-call"));
        call.args(["-s", path_text(&socket), "--deadline", "60s", "--in-place"]);
        call.args([
            "--profile",
            "sysexits",
            "--file",
            path_text(&message),
            procedure,
        ]);
        let finished = process::run(&mut call);
        (finished, fs::read_to_string(&message).unwrap())
    };
    let (ham, left) = ask("/spamassassin", "Shall we meet at noon?");
    assert_eq!(ham.status.code(), Some(0), "{ham}");
    // What the sender says about spam goes, and the rest stays as it is.
    assert_eq!(left, format!("{HONEST}Shall we meet at noon?\r\n"));
    let (spam, _) = ask("/spamassassin", GTUBE);
    assert_eq!(spam.status.code(), Some(69), "{spam}");
    assert!(spam.stdout.starts_with("5.7.1 spam: score=100"), "{spam}");
    // Without a limit, what is spam passes with a mark.
    let (marked, left) = ask("/mild", GTUBE);
    assert_eq!(marked.status.code(), Some(0), "{marked}");
    assert!(
        left.starts_with("X-Spam-Flag: YES\r\nX-Spam-Status: Yes, score=1"),
        "{left}"
    );
    assert!(
        left.ends_with(&format!("\r\n{HONEST}{GTUBE}\r\n")),
        "{left}"
    );
    assert_eq!(left.matches("X-Spam").count(), 2, "{left}");
    // A mail server is told which of its headers go.
    miltertest(
        &server,
        &format!(
            "mt.set_timeout(60)
            mt.conninfo(conn, 'client.test', '192.0.2.1')
            mt.mailfrom(conn, '<a@ext.test>')
            mt.rcptto(conn, '<b@here.test>')
            mt.header(conn, 'X-Spam-Flag', ' NO')
            mt.header(conn, 'Subject', ' lunch')
            mt.header(conn, 'x-spam-flag', ' NO')
            mt.header(conn, 'X-Spam-Status', ' No,\\r\\n\\tscore=-9')
            mt.eoh(conn)
            mt.bodystring(conn, '{GTUBE}\\r\\n')
            mt.eom(conn)
            is('spam', SMFIR_ACCEPT)
            if not mt.eom_check(conn, MT_HDRINSERT, 'X-Spam-Flag') then error 'no mark' end
            if not mt.eom_check(conn, MT_HDRDELETE, 'x-spam-flag') then error 'it stays' end
            if not mt.eom_check(conn, MT_HDRDELETE, 'X-Spam-Status') then error 'a status' end
            if mt.eom_check(conn, MT_HDRDELETE, 'Subject') then error 'too much' end"
        ),
    );
    drop(spamd);
    // Nobody to ask: later.
    let (later, _) = ask("/spamassassin", "Shall we meet at noon?");
    assert_eq!(later.status.code(), Some(75), "{later}");
    drop(server);
}
