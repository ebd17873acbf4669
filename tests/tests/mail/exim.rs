//! A real Exim hands messages to `stentor-call`, by the transport of `deploy/mail/exim.conf`. It is
//! unpacked, not installed, and delivers at once what it is given.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::User;
use stentor_tests::{DEADLINE, Plan, process, tools};

use crate::{client_of, path_text, replaced, script, shipped};

/// The user that Debian's Exim is built to run as.
const USER: &str = "Debian-exim";

struct Exim {
    folder: tempfile::TempDir,
}

impl Exim {
    /// With the shipped retry rule, or without any.
    fn new(has_rule: bool) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("stentor-exim-")
            .tempdir()
            .expect("a temporary folder can be made");
        let shown = path_text(folder.path());
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), open).expect("it is this user's");
        let user = User::from_name(USER).expect("users can be read");
        let user = user.unwrap_or_else(|| panic!("there is no user {USER}: make tools"));
        for name in ["spool", "log"] {
            let place = folder.path().join(name);
            fs::create_dir(&place).expect("a folder can be made");
            chown(&place, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("this is root");
        }
        let transport = shipped("exim.conf");
        let rule = transport.lines().find_map(|line| line.strip_prefix("#*"));
        let rule = format!("*{}\n", rule.expect("a retry rule is shipped"));
        let rule = if has_rule { rule } else { String::new() };
        let client = client_of(folder.path());
        let transport = replaced(&transport, "/usr/bin/stentor-call", path_text(&client));
        let transport = replaced(&transport, "/run/stentor", shown);
        // With a configuration that is not the system's, Exim changes to no other user.
        let transport = replaced(&transport, "user = nobody", &format!("user = {USER}"));
        let config = format!(
            "exim_path = {}\nspool_directory = {shown}/spool\nlog_file_path = {shown}/log/%s\n\
             primary_hostname = mail.here.test\nnever_users =\ndeliver_drop_privilege = true\n\
             begin routers\narchive:\n  driver = accept\n  domains = archive.example\n  \
             transport = stentor\nbegin transports\n{transport}\nbegin retry\n{rule}",
            program().display(),
        );
        fs::write(folder.path().join("exim.conf"), config).expect("it can be written");
        Self { folder }
    }

    /// Sends a message and waits for what becomes of it: the log.
    fn send(&self, subject: &str) -> String {
        let mut command = Command::new(program());
        command.arg("-C").arg(self.folder.path().join("exim.conf"));
        command.args(["-odf", "-i", "-f", "a@ext.test", "box@archive.example"]);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("exim starts");
        let mut input = child.stdin.take().expect("standard input is piped");
        write!(input, "Subject: {subject}\n\nbody\n").expect("it takes a message");
        drop(input);
        process::finish(child, DEADLINE).success();
        let log = fs::read_to_string(self.folder.path().join("log/main"));
        log.expect("there is a log")
    }
}

fn program() -> std::path::PathBuf {
    tools::cache().join("mta/usr/sbin/exim4")
}

const POLICY: &str = "
    if call.from ~= 'a@ext.test' or call.rcpt[1] ~= 'box@archive.example' or not call.queue_id then
        return reject('wrong envelope')
    end
    local want = call:header('subject')
    if want == 'refuse' then return reject('not wanted', { status = '5.7.9' }) end
    if want == 'later' then return tempfail('come back') end
    if want == 'drop' then return discard('gone') end
    if want == 'hold' then return quarantine('odd') end
    return accept()";

fn serve(folder: &Path) -> Plan {
    let shown = path_text(folder);
    let procedures = folder.join("procedures");
    fs::create_dir(&procedures).expect("a folder can be made");
    let manifest = "needs = \"headers\"\ndeadline = \"60s\"";
    let text = script(manifest, POLICY);
    fs::write(procedures.join("attachments.luau"), text).expect("it can be written");
    Plan::new().config(&format!(
        "[procedures]\nfolder = \"{shown}/procedures\"\n[[listener]]\n\
         url = \"call+unix:{shown}/call.sock\"\nallow_uid = \"{USER}=mail\"\nmode = \"0666\"\n"
    ))
}

#[test]
fn a_real_exim_does_what_a_procedure_says() {
    let exim = Exim::new(true);
    let server = serve(exim.folder.path()).start();
    let log = exim.send("fine");
    assert!(
        log.contains("=> box <box@archive.example> R=archive T=stentor"),
        "{log}"
    );
    let log = exim.send("refuse");
    assert!(
        log.contains("** box@archive.example R=archive T=stentor"),
        "{log}"
    );
    let log = exim.send("later");
    assert!(
        log.contains("== box@archive.example R=archive T=stentor defer"),
        "{log}"
    );
    // Neither of these bounces to whoever is named as the sender.
    let count = |log: &str, what: &str| log.matches(what).count();
    let (sent, deferred) = ("=> box <box@archive.example>", "T=stentor defer");
    let before = count(&log, sent);
    let log = exim.send("drop");
    assert_eq!(count(&log, sent), before + 1, "{log}");
    let before = count(&log, deferred);
    let log = exim.send("hold");
    assert_eq!(count(&log, deferred), before + 1, "{log}");
    // Without Stentor it tries again later.
    drop(server.kill());
    let before = count(&log, deferred);
    let log = exim.send("fine");
    assert_eq!(count(&log, deferred), before + 1, "{log}");
    // What was refused is the only one that Exim has given up.
    assert_eq!(count(&log, "** box@archive.example"), 1, "{log}");
}

/// What the shipped file warns of: without a retry rule Exim gives up at the first "later".
#[test]
fn without_a_retry_rule_exim_gives_up_at_once() {
    let exim = Exim::new(false);
    let server = serve(exim.folder.path()).start();
    let log = exim.send("hold");
    assert!(log.contains("T=stentor defer"), "{log}");
    let given_up = "** box@archive.example: retry timeout exceeded";
    assert!(log.contains(given_up), "{log}");
    drop(server);
}
