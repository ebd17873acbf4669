//! Mail servers ask procedures: a real Postfix by milter, policy delegation and pipe, with mail
//! that a real client sends; and Sendmail's protocol played by miltertest and by hand.

mod begun;
mod exim;
mod milter;
mod pipe;
mod policy;
mod reach;
mod sendmail;
mod served;
mod spam;
mod strangers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stentor_tests::postfix::Postfix;
use stentor_tests::{Finished, Plan, Server, process, tools};

/// A Postfix that asks a Stentor, configured by the files of `deploy/mail`.
struct Site {
    postfix: Postfix,
    server: Option<Server>,
    folder: tempfile::TempDir,
}

/// A file of `deploy/mail`.
fn shipped(name: &str) -> String {
    let path = tools::project().join("deploy/mail").join(name);
    fs::read_to_string(path).expect("it is shipped")
}

/// Replaces what has to be there.
#[track_caller]
fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "{old} is not in {text}");
    text.replace(old, new)
}

/// A script with a manifest.
fn script(manifest: &str, body: &str) -> String {
    format!("--[[ procedure\nversion = \"7\"\n{manifest}\n]]\nreturn function(call)\n{body}\nend\n")
}

/// A copy of `stentor-call` where the user of Postfix's pipe may run it: the folder in which it was
/// built may be closed to others.
fn client_of(folder: &Path) -> PathBuf {
    let built = stentor_tests::server::binary().with_file_name("stentor-call");
    let copy = folder.join("stentor-call");
    fs::copy(built, &copy).expect("the built client can be copied");
    copy
}

impl Site {
    /// Postfix with the shipped fragments, asking these procedures by milter and by policy.
    fn start(milter: &str, policy: &str) -> Self {
        Self::start_with(milter, policy, "")
    }

    /// The same, with more lines for `main.cf`.
    fn start_with(milter: &str, policy: &str, main: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("stentor-mail-")
            .tempdir()
            .expect("a temporary folder can be made");
        Postfix::prepare(folder.path());
        let shown = folder.path().display().to_string();
        let procedures = folder.path().join("procedures");
        fs::create_dir(&procedures).expect("a folder can be made");
        fs::write(procedures.join("attachments.luau"), milter).expect("it can be written");
        fs::write(procedures.join("greylist.luau"), policy).expect("it can be written");
        let master = shipped("postfix-master.cf");
        let client = client_of(folder.path());
        let master = replaced(&master, "/usr/bin/stentor-call", path_text(&client));
        let master = replaced(&master, "/run/stentor", &shown);
        let transport = "virtual_alias_domains =\nrelay_domains = archive.example\n\
                         transport_maps = inline:{ archive.example=stentor }\n";
        let main = format!("{}{transport}{main}", shipped("postfix-main.cf"));
        let postfix = Postfix::start(folder.path(), &main, &master);
        let relay = format!("[procedures]\nrelay = \"127.0.0.1:{}\"", postfix.port());
        let config = shipped("stentor.toml");
        let config = replaced(&config, "[procedures]", &relay);
        let config = replaced(
            &config,
            "/etc/stentor/procedures",
            &format!("{shown}/procedures"),
        );
        let config = replaced(&config, "/var/spool/postfix", &format!("{shown}/queue"));
        let config = replaced(&config, "/run/stentor", &shown);
        let config = format!("{config}\n[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n");
        let server = Plan::new().config(&config).start();
        Self {
            postfix,
            server: Some(server),
            folder,
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("the server runs")
    }

    /// Kills the server; Postfix goes on.
    fn kill(&mut self) {
        let server = self.server.take().expect("the server runs");
        drop(server.kill());
    }

    /// Sends a message by a real client: its words, and the reply that ended the conversation.
    fn send(&self, words: &[&str]) -> Finished {
        process::run(&mut self.swaks(words))
    }

    fn swaks(&self, words: &[&str]) -> Command {
        let mut command = Command::new(tools::find("swaks"));
        let port = self.postfix.port().to_string();
        command.args(["--server", "127.0.0.1", "--port", &port]);
        command.args(["--from", "a@ext.test", "--helo", "client.test"]);
        if !words.contains(&"--to") {
            command.args(["--to", "b@here.test"]);
        }
        command.args(words);
        command
    }

    /// Sends a message that has to be delivered; the mailbox after that.
    #[track_caller]
    fn delivered(&self, words: &[&str]) -> String {
        let from = self.postfix.log().text().len();
        self.send(words).success();
        self.postfix.log().wait(from, "status=sent");
        self.postfix.mailbox()
    }

    /// Sends a message that has to be refused with this reply.
    #[track_caller]
    fn refused(&self, words: &[&str], reply: &str) {
        let finished = self.send(words);
        assert!(!finished.status.success(), "{finished}");
        let shown = format!("<** {reply}");
        let is_said = |line: &str| line.replace("<~*", "<**").contains(&shown);
        assert!(
            finished.stdout.lines().any(is_said),
            "{reply:?} is not in {finished}"
        );
    }
}

/// A procedure that lets everything pass.
fn open() -> String {
    script("needs = \"envelope\"", "return accept()")
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}
