//! `deploy/stentor.service` and the recipe of `deploy/mail`, under a systemd of the test's own: it
//! is process 1 of new namespaces, with folders of its own where units write. Where the machine
//! lets nobody do that, the test says so, and systemd only reads the unit.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use stentor_tests::raw::eventually;
use stentor_tests::{Finished, process, server, tools};

/// The units that others need; the test's systemd knows no more than these.
const TARGETS: [&str; 4] = ["basic", "sysinit", "shutdown", "umount"];

/// Two listeners, on ports and in places that nobody else has.
const GOOD: &str = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\nanonymous = true\n";

/// A running systemd. Dropping it kills it, and with it everything in its namespaces.
struct Systemd {
    child: Child,
    folder: tempfile::TempDir,
}

/// The shipped unit, whose programs lie where the test's systemd finds them.
fn unit() -> String {
    let path = tools::project().join("deploy/stentor.service");
    let text = fs::read_to_string(path).expect("it is shipped");
    text.replace("/usr/bin/stentor", "/run/bin/stentor")
}

/// Why this machine starts no systemd for a test; `None` if it does.
fn obstacle() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        return Some("only root may make the namespaces");
    }
    if !Path::new("/lib/systemd/systemd").exists() {
        return Some("there is no systemd");
    }
    let flags = ["--mount", "--pid", "--fork", "--cgroup", "--mount-proc"];
    let mut probe = Command::new("unshare");
    probe.args(flags).args(["sh", "-c"]);
    probe.arg("mount -t tmpfs tmpfs /run && umount -R /sys/fs/cgroup");
    let probed = probe.stderr(Stdio::null()).status();
    match probed.is_ok_and(|status| status.success()) {
        true => None,
        false => Some("no namespaces can be made here"),
    }
}

impl Systemd {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it is below")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        };
        for target in TARGETS {
            let text = format!("[Unit]\nDescription={target}\nDefaultDependencies=no\n");
            write(&format!("units/{target}.target"), &text);
        }
        write("units/stentor.service", &unit());
        // There is no journal.
        let log = "[Service]\nStandardOutput=null\nStandardError=append:/run/stentor.log\n";
        write("units/stentor.service.d/log.conf", log);
        write("bin/none", "");
        fs::copy(server::binary(), folder.path().join("bin/stentor")).expect("it can be copied");
        let script = tools::folder().join("systemd/boot.sh");
        let mut boot = Command::new("bash");
        boot.arg(script).arg(folder.path());
        boot.stdin(Stdio::null()).stdout(Stdio::null());
        let child = boot.spawn().expect("bash starts");
        let systemd = Self { child, folder };
        eventually("a running systemd", || {
            systemd.is_there()
                && systemd
                    .run("systemctl is-active sysinit.target")
                    .status
                    .success()
        });
        systemd
    }

    /// The process that is number 1 in there.
    fn pid(&self) -> Option<u32> {
        let id = self.child.id();
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    fn is_there(&self) -> bool {
        let name = |pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.pid().is_some_and(|pid| name(pid).trim() == "systemd")
    }

    /// What comes of a command of the shell in there.
    fn run(&self, words: &str) -> Finished {
        let pid = self.pid().expect("systemd runs").to_string();
        let mut inside = Command::new("nsenter");
        inside.args(["-t", &pid, "-m", "-p", "-u", "-i", "-C", "sh", "-c"]);
        inside.arg(format!(
            "export SYSTEMD_PAGER= PATH=/run/bin:$PATH; {words}"
        ));
        process::run(&mut inside)
    }

    /// A file in there that the test writes.
    fn write(&self, path: &str, text: &str) {
        fs::write(self.folder.path().join("draft"), text).expect("it can be written");
        let draft = self.folder.path().join("draft");
        self.run(&format!("install -D -m 644 {} {path}", draft.display()))
            .success();
    }

    /// A property of the unit.
    fn shows(&self, property: &str) -> String {
        let words = format!("systemctl show --value -p {property} stentor");
        self.run(&words).success().trim().to_owned()
    }

    /// The user of the unit, as `deploy` has it.
    fn add_user(&self) {
        let users = tools::project().join("deploy/stentor.sysusers");
        self.run(&format!("systemd-sysusers {}", users.display()))
            .success();
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        if std::thread::panicking() && self.is_there() {
            eprintln!(
                "{}",
                self.run("systemctl status stentor; cat /run/stentor.log")
            );
        }
        let id = self.child.id();
        // An error means that it has ended already. Its namespaces end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for root in ["", "systemd", "unified"] {
            let root = PathBuf::from("/sys/fs/cgroup").join(root);
            remove_groups(&root.join(format!("stentor-test-{id}")));
        }
    }
}

/// Takes control groups away, those below first.
fn remove_groups(group: &Path) {
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    for path in below.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        remove_groups(&path);
    }
    // The last processes may be ending still; then it stays, empty.
    let _ = fs::remove_dir(group);
}

/// Nothing in the unit is unknown to this systemd.
#[test]
fn systemd_reads_every_line_of_the_unit() {
    if !Path::new("/usr/bin/systemd-analyze").exists() {
        return eprintln!("not run: there is no systemd-analyze");
    }
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("stentor.service");
    let program = server::binary().display().to_string();
    fs::write(&path, unit().replace("/run/bin/stentor", &program)).expect("it can be written");
    let mut verify = Command::new("systemd-analyze");
    let said = process::run(verify.args(["verify", "--man=no"]).arg(&path));
    let about = |line: &&str| line.contains("stentor.service:");
    let complaints: Vec<&str> = said.stderr.lines().filter(about).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn the_unit_starts_reloads_and_gives_up_on_a_broken_configuration() {
    if let Some(why) = obstacle() {
        return eprintln!("not run: {why}");
    }
    let systemd = Systemd::start();
    systemd.add_user();
    systemd.write("/etc/stentor/stentor.toml", GOOD);
    systemd.run("systemctl start stentor").success();
    assert_eq!(systemd.shows("ActiveState"), "active");
    // Root finds the folder of the unit without being told.
    systemd.run("cd / && stentor pub -t t -m x").success();
    let status = systemd.run("cd / && stentor status").success();
    assert!(status.contains("mqtt://127.0.0.1:"), "{status}");
    let more = format!("{GOOD}[limits]\nqueue_messages = 77\n");
    systemd.write("/etc/stentor/stentor.toml", &more);
    systemd.run("systemctl reload stentor").success();
    let log = systemd.run("cat /run/stentor.log").success();
    assert!(log.contains("limits.queue_messages"), "{log}");
    // A broken file: the reload fails and says so, and the server goes on.
    systemd.write("/etc/stentor/stentor.toml", "shrads = 1\n");
    systemd.run("systemctl reload stentor").refusal();
    assert_eq!(systemd.shows("ActiveState"), "active");
    // It does not start with it, and is not started again and again.
    systemd.run("systemctl restart stentor").refusal();
    assert_eq!(systemd.shows("ExecMainStatus"), "78");
    assert_eq!(systemd.shows("ActiveState"), "failed");
    assert_eq!(systemd.shows("NRestarts"), "0");
    systemd.write("/etc/stentor/stentor.toml", GOOD);
    systemd.run("systemctl start stentor").success();
    systemd.run("systemctl stop stentor").success();
    assert_eq!(systemd.shows("Result"), "success");
}

/// The steps of docs/mail-servers.md, as they stand there.
#[test]
fn the_unit_and_the_recipe_for_mail_servers_agree() {
    if let Some(why) = obstacle() {
        return eprintln!("not run: {why}");
    }
    let systemd = Systemd::start();
    systemd.add_user();
    systemd
        .run("getent group postfix || groupadd --system postfix")
        .success();
    let deploy = tools::project().join("deploy");
    let config = fs::read_to_string(deploy.join("mail/stentor.toml")).expect("it is shipped");
    systemd.write("/etc/stentor/stentor.toml", &format!("{config}\n{GOOD}"));
    let procedures = deploy.join("procedures");
    systemd
        .run(&format!(
            "cp -r {} /etc/stentor/procedures",
            procedures.display()
        ))
        .success();
    systemd.run("mkdir /var/spool/postfix").success();
    let page = tools::project().join("docs/mail-servers.md");
    let page = fs::read_to_string(page).expect("it is there");
    let (_, recipe) = page
        .split_once("```sh\n   install -d -o stentor")
        .expect("the recipe is there");
    let (recipe, _) = recipe.split_once("```").expect("the block ends");
    let recipe = format!("set -e\ninstall -d -o stentor{recipe}");
    assert_eq!(recipe.lines().count(), 6, "{recipe}");
    let recipe = recipe.replace(" stentor check-config", " /run/bin/stentor check-config");
    systemd.run(&recipe).success();
    for (socket, group, mode) in [
        ("/var/spool/postfix/stentor/milter.sock", "postfix", "660"),
        ("/var/spool/postfix/stentor/policy.sock", "postfix", "660"),
        ("/run/stentor/call.sock", "stentor", "666"),
    ] {
        let said = systemd.run(&format!("stat -c '%G %a' {socket}")).success();
        assert_eq!(said.trim(), format!("{group} {mode}"), "{socket}");
    }
    // Nobody but Postfix comes near its sockets; everybody comes near the other one.
    let said = systemd
        .run("stat -c '%U %G %a' /var/spool/postfix/stentor /run/stentor")
        .success();
    assert_eq!(said, "stentor postfix 750\nstentor stentor 755\n");
}
