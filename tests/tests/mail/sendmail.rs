//! A real Sendmail asks by milter, configured by `deploy/mail/sendmail.mc`. It is unpacked, not
//! installed, and speaks SMTP on standard input.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use stentor_tests::{Finished, Plan, Server, process, tools};

use crate::{path_text, replaced, script, shipped};

/// What comes before and after the shipped lines.
const BEFORE: &str = "divert(0)dnl
OSTYPE(`linux')dnl
undefine(`ALIAS_FILE')dnl
FEATURE(`nocanonify')dnl
FEATURE(`accept_unresolvable_domains')dnl
define(`confDELIVERY_MODE', `queueonly')dnl
define(`confDONT_PROBE_INTERFACES', `True')dnl
LOCAL_DOMAIN(`here.test')dnl
";
const AFTER: &str = "MAILER(`local')dnl\nMAILER(`smtp')dnl\n";

struct Sendmail {
    server: Option<Server>,
    folder: tempfile::TempDir,
}

/// A folder of its own in a place that Sendmail trusts: it takes no socket below a folder that
/// others may write to, as /tmp is. Somebody's cache may lie below such a one.
fn trusted_folder() -> tempfile::TempDir {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let places = [tools::cache()].into_iter().chain(home);
    let places: Vec<PathBuf> = places.chain(["/var/lib".into(), "/run".into()]).collect();
    let made = places
        .iter()
        .filter(|place| is_trusted(place))
        .find_map(|place| tempfile::tempdir_in(place).ok());
    made.unwrap_or_else(|| {
        panic!(
            "Sendmail needs a folder that only its owner may write to, and so may those above it: \
                none of {places:?} is one"
        )
    })
}

/// Whether nobody but the owner may write to a folder or to one above it.
fn is_trusted(folder: &Path) -> bool {
    let Ok(whole) = folder.canonicalize() else {
        return false;
    };
    whole.ancestors().all(|part| {
        let mode = fs::metadata(part).map(|metadata| metadata.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o022 == 0)
    })
}

#[test]
fn a_folder_below_one_that_all_may_write_to_is_not_trusted() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let below = folder.path().join("below");
    fs::create_dir(&below).expect("a folder can be made");
    let all = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(), all).expect("it is this user's");
    assert!(!is_trusted(&below) && is_trusted(Path::new("/")));
    assert!(is_trusted(trusted_folder().path()));
}

impl Sendmail {
    fn start(procedure: &str) -> Self {
        let folder = trusted_folder();
        let shown = path_text(folder.path());
        for name in ["procedures", "queue"] {
            fs::create_dir(folder.path().join(name)).expect("a folder can be made");
        }
        let file = folder.path().join("procedures/attachments.luau");
        fs::write(file, procedure).expect("it can be written");
        let config = format!(
            "[procedures]\nfolder = \"{shown}/procedures\"\n[[listener]]\n\
             url = \"milter+unix:{shown}/milter.sock\"\nprocedure = \"/attachments\"\n"
        );
        let sendmail = Self {
            server: Some(Plan::new().config(&config).start()),
            folder,
        };
        sendmail.configure();
        sendmail
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes `sendmail.cf`, and a program that runs Sendmail with it under a name of its own: it
    /// waits for a minute where the machine's name has no domain.
    fn configure(&self) {
        let shown = path_text(self.folder.path());
        let lines = replaced(&shipped("sendmail.mc"), "/run/stentor", shown);
        fs::write(self.path("test.mc"), format!("{BEFORE}{lines}{AFTER}")).expect("written");
        let macros = tools::cache().join("mta/usr/share/sendmail/cf");
        let mut m4 = Command::new(tools::find("m4"));
        m4.arg(format!("-D_CF_DIR_={}/", macros.display()));
        let made = process::run(m4.arg(macros.join("m4/cf.m4")).arg(self.path("test.mc")));
        let cf = made.success();
        for line in [
            format!("Xstentor, S=local:{shown}/milter.sock, F=T, T=C:30s;S:10s;R:60s;E:5m"),
            "O InputMailFilters=stentor".to_owned(),
        ] {
            assert!(cf.lines().any(|one| one == line), "{line} is not in {cf}");
        }
        fs::write(self.path("sendmail.cf"), cf).expect("written");
        let program = tools::cache().join("mta/usr/libexec/sendmail/sendmail");
        let run = format!(
            "#!/bin/sh\nexec unshare --uts sh -c 'hostname mail.here.test && exec {} -bs \
             -C {shown}/sendmail.cf -OQueueDirectory={shown}/queue -OPidFile={shown}/pid \
             -OStatusFile='\n",
            path_text(&program),
        );
        fs::write(self.path("sendmail"), run).expect("written");
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(self.path("sendmail"), mode).expect("it is this user's");
    }

    fn send(&self, subject: &str) -> Finished {
        process::run(&mut self.swaks(subject))
    }

    fn swaks(&self, subject: &str) -> Command {
        let mut swaks = Command::new(tools::find("swaks"));
        let header = format!("Subject: {subject}");
        swaks.arg("--pipe").arg(self.path("sendmail"));
        swaks.args(["--from", "a@ext.test", "--to", "root@here.test"]);
        swaks.args(["--helo", "client.test", "--header", &header]);
        swaks
    }

    /// Kills the server.
    fn kill(&mut self) {
        let server = self.server.take().expect("the server runs");
        drop(server.kill());
    }

    /// The names of the files in the queue that begin so, and what they say.
    fn queued(&self, start: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path("queue")).expect("the queue is a folder");
        let paths = entries.map(|entry| entry.expect("it can be read").path());
        let is_wanted = |path: &PathBuf| name(path).starts_with(start);
        // Its own lines have bytes that are no text.
        let read = |path: PathBuf| {
            let bytes = fs::read(path).expect("it can be read");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        paths.filter(is_wanted).map(read).collect()
    }
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .expect("a name")
}

const POLICY: &str = "
    local want = call:header('subject')
    if want == 'refuse' then return reject('not wanted', { code = 550, status = '5.7.9' }) end
    if want == 'later' then return tempfail('come back') end
    if want == 'drop' then return discard() end
    if want == 'hold' then return quarantine('look at it') end
    if want == 'mark' then
        call:add_header('X-Seen', call.from .. ' ' .. call.rcpt[1] .. ' ' .. call.helo)
    end
    return accept()";

#[test]
fn a_real_sendmail_does_what_a_procedure_says() {
    let manifest = "needs = \"body\"\ndeadline = \"60s\"";
    let mut site = Sendmail::start(&script(manifest, POLICY));
    let said = |finished: &Finished, reply: &str| {
        assert!(
            finished.stdout.contains(reply),
            "{reply:?} is not in {finished}"
        );
    };
    said(&site.send("fine"), "Message accepted for delivery");
    said(&site.send("refuse"), "550 5.7.9 not wanted");
    said(&site.send("later"), "451 4.7.1 come back");
    assert_eq!(
        site.queued("qf").len(),
        1,
        "what was accepted is in the queue"
    );
    said(&site.send("drop"), "Message accepted for delivery");
    assert_eq!(site.queued("qf").len(), 1, "it was thrown away");
    said(&site.send("hold"), "Message accepted for delivery");
    let held = site.queued("hf");
    assert!(
        held.len() == 1 && held[0].contains("\nqlook at it\n"),
        "{held:?}"
    );
    said(&site.send("mark"), "Message accepted for delivery");
    let marked = site.queued("qf");
    let mark = "X-Seen: a@ext.test root@here.test client.test";
    assert!(marked.iter().any(|one| one.contains(mark)), "{marked:?}");
    // Without Stentor, mail is deferred: F=T.
    site.kill();
    said(&site.send("fine"), "451 4.3.2 Please try again later");
}

/// Killed while it works on a message, Stentor leaves nothing in the queue: the client is told to
/// come back.
#[test]
fn a_killed_server_defers_mail() {
    let manifest = "needs = \"body\"\ndeadline = \"120s\"\ngrants = [\"log\"]";
    let mut site = Sendmail::start(&script(manifest, "log('it runs') while true do end"));
    let client = process::start(&mut site.swaks("fine"));
    let server = site.server.as_ref().expect("the server runs");
    server.wait_log(0, "it runs");
    site.kill();
    let finished = process::finish(client, stentor_tests::DEADLINE);
    assert!(!finished.status.success(), "{finished}");
    let reply = "451 4.3.2 Please try again later";
    assert!(finished.stdout.contains(reply), "{finished}");
    assert_eq!(site.queued("qf"), [""; 0]);
}
