//! A Postfix of its own: configuration, queue and mailboxes in a temporary folder, one free port of
//! 127.0.0.1, and nothing of the machine's mail.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Group, User};

use crate::log::Log;
use crate::raw::eventually;
use crate::server::free_port;
use crate::{DEADLINE, process, tools};

/// Where Debian keeps Postfix's programs.
const PROGRAMS: &str = "/usr/lib/postfix/sbin";

/// A running Postfix. Dropping it ends it.
#[derive(Debug)]
pub struct Postfix {
    folder: PathBuf,
    port: u16,
    child: Child,
    log: Arc<Log>,
}

impl Postfix {
    /// Prepares the queue folder below `folder`, with a place for a filter's sockets as
    /// `deploy/mail/stentor.toml` makes it. The queue is `folder/queue`.
    ///
    /// # Panics
    /// If this user is not root, which Postfix has to be.
    pub fn prepare(folder: &Path) {
        assert!(
            nix::unistd::geteuid().is_root(),
            "the tests with Postfix have to run as root: its master process changes users"
        );
        // Temporary folders are for their owner alone.
        open(folder);
        for name in ["etc", "queue", "queue/stentor", "data", "mail"] {
            fs::create_dir(folder.join(name)).expect("a folder can be made");
            open(&folder.join(name));
        }
        let id = |name| {
            let user = User::from_name(name).expect("users can be read");
            user.unwrap_or_else(|| panic!("there is no user {name}: {}", tools::REMEDY))
                .uid
                .as_raw()
        };
        let group = Group::from_name("postfix").expect("groups can be read");
        let group = group.expect("Postfix has a group").gid.as_raw();
        let own = |name, user, group| {
            chown(folder.join(name), user, group).expect("root may change owners");
        };
        own("data", Some(id("postfix")), None);
        own("mail", Some(id("nobody")), None);
        own("queue/stentor", None, Some(group));
    }

    /// Starts it on a prepared folder. `main` and `master` come after what is needed to take mail
    /// for `here.test` and put it into one file; smtpd runs in its chroot.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn start(folder: &Path, main: &str, master: &str) -> Self {
        let port = free_port();
        let (etc, shown) = (folder.join("etc"), folder.display());
        let write = |name, text: String| {
            fs::write(etc.join(name), text).expect("a file can be written");
        };
        let places = format!(
            "queue_directory = {shown}/queue\ndata_directory = {shown}/data\n\
             virtual_mailbox_base = {shown}/mail\ndaemon_directory = {PROGRAMS}\n"
        );
        write("main.cf", format!("{MAIN}{places}{main}"));
        let entrance = format!("127.0.0.1:{port} inet n - y - - smtpd\n");
        write("master.cf", format!("{entrance}{MASTER}{master}"));
        let check = Command::new(tools::find("postfix"))
            .arg("-c")
            .arg(&etc)
            .arg("check")
            .output()
            .expect("postfix starts");
        assert!(check.status.success(), "{check:?}");
        let mut child = Command::new(Path::new(PROGRAMS).join("master"))
            .arg("-c")
            .arg(&etc)
            .arg("-d")
            // At its end it ends its group.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Postfix's master starts");
        let log = Log::follow(child.stdout.take().expect("its output is captured"));
        let postfix = Self {
            folder: folder.to_owned(),
            port,
            child,
            log,
        };
        eventually("Postfix's listening", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        postfix
    }

    /// The port where it takes mail.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// All mail that was delivered, one message after the other.
    #[must_use]
    pub fn mailbox(&self) -> String {
        fs::read_to_string(self.folder.join("mail/inbox")).unwrap_or_default()
    }

    /// How many messages are in one of its queues, as in `hold`.
    ///
    /// # Panics
    /// If there is no such queue.
    #[must_use]
    pub fn queued(&self, queue: &str) -> usize {
        fn count(folder: &Path) -> usize {
            let entries = fs::read_dir(folder).expect("a queue is a folder");
            let paths = entries.map(|entry| entry.expect("it can be read").path());
            paths
                .map(|path| if path.is_dir() { count(&path) } else { 1 })
                .sum()
        }
        count(&self.folder.join("queue").join(queue))
    }
}

impl Drop for Postfix {
    fn drop(&mut self) {
        // It ends its own processes.
        let _ = kill(process::pid_of(&self.child), Signal::SIGTERM);
        let _ = process::wait(&mut self.child, DEADLINE);
        if std::thread::panicking() {
            eprintln!("--- log of Postfix\n{}", self.log.text());
        }
    }
}

fn open(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("it is this user's");
}

const MAIN: &str = "compatibility_level = 3.6
command_directory = /usr/sbin
mail_owner = postfix
setgid_group = postdrop
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = mail.here.test
mydestination =
mynetworks =
virtual_mailbox_domains = here.test
virtual_mailbox_maps = static:inbox
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
virtual_minimum_uid = 1
local_recipient_maps =
alias_maps =
alias_database =
maillog_file = /dev/stdout
disable_dns_lookups = yes
smtpd_peername_lookup = no
smtpd_relay_restrictions = reject_unauth_destination
";

const MASTER: &str = "cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
proxymap unix - - n - - proxymap
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
error unix - - n - - error
flush unix n - n 1000? 0 flush
retry unix - - n - - error
discard unix - - n - - discard
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
";
