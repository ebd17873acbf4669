//! Which files can be read without waiting for anybody.
//!
//! A file on a disk or in the memory of this machine is read by the thread that owns the
//! connections: handing it to another one costs more than reading it does. A file system that asks
//! somebody else (NFS, FUSE) may hang, and so may any question about its files but one: which
//! device they are on, as far as the kernel knows without asking. A few file systems ask even then;
//! where one of them is mounted, no file counts as prompt.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, AsRawFd};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use rustix::fs::{AtFlags, MemfdFlags, StatxFlags, makedev, memfd_create, statx};

/// The kernel's list of what is mounted here.
const LIST: &str = "/proc/self/mountinfo";
/// File systems that wait for nothing but a disk of this machine. Those that lie on others
/// (overlay) or have files on devices of their own (btrfs) are left out.
/// Of disks, only those that can be read without waiting for the disk.
const KINDS: [&str; 5] = ["ext3", "ext4", "ramfs", "tmpfs", "xfs"];
/// File systems that ask somebody else even about what was to be told without asking.
const ASKING: [&str; 12] = [
    "9p", "afs", "beegfs", "cifs", "coda", "gfs2", "gpfs", "lustre", "ocfs2", "orangefs", "smb3",
    "vboxsf",
];

/// What is mounted.
pub(super) struct Mounts {
    /// None where there is no such list.
    list: Option<File>,
    /// The devices whose files wait for nobody.
    prompt: HashSet<u64>,
}

impl Mounts {
    /// Reads what is mounted now. The poll reports changes under that token.
    pub(super) fn watch(registry: &mio::Registry, token: Token) -> Self {
        let list = File::open(LIST).and_then(|list| {
            let fd = list.as_raw_fd();
            registry.register(&mut SourceFd(&fd), token, Interest::PRIORITY)?;
            Ok(list)
        });
        let mut mounts = Self {
            list: list.ok(),
            prompt: HashSet::new(),
        };
        mounts.refresh();
        mounts
    }

    /// Reads what is mounted now.
    pub(super) fn refresh(&mut self) {
        let read = |mut list: &File| -> io::Result<String> {
            let mut text = Vec::new();
            list.rewind()?;
            list.read_to_end(&mut text)?;
            // Paths may be in any encoding.
            Ok(String::from_utf8_lossy(&text).into_owned())
        };
        let text = self.list.as_ref().map(read).transpose();
        // Whatever cannot be read is not known.
        let text = text.ok().flatten().unwrap_or_default();
        self.prompt.clear();
        if text
            .lines()
            .filter_map(kind)
            .any(|kind| ASKING.contains(&kind))
        {
            return;
        }
        // A client's standard input comes as a file without a name, which is mounted nowhere.
        let nameless = memfd_create(c"", MemfdFlags::CLOEXEC).ok().and_then(device);
        let listed = text.lines().filter_map(prompt_device);
        self.prompt.extend(listed.chain(nameless));
    }

    /// Whether reading this file waits for nothing but a disk of this machine.
    pub(super) fn is_prompt(&self, file: impl AsFd) -> bool {
        device(file).is_some_and(|device| self.prompt.contains(&device))
    }
}

/// The device that a file is on, as far as it is known without asking its file system.
fn device(file: impl AsFd) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(file, c"", flags, StatxFlags::empty()).ok()?;
    Some(makedev(found.stx_dev_major, found.stx_dev_minor))
}

/// The kind of file system of a line of the list.
fn kind(line: &str) -> Option<&str> {
    line.split_once(" - ")?.1.split(' ').next()
}

/// The device of a line of the list, if its files wait for nobody.
fn prompt_device(line: &str) -> Option<u64> {
    let (place, _) = line.split_once(" - ")?;
    let kind = kind(line)?;
    let (major, minor) = place.split(' ').nth(2)?.split_once(':')?;
    let device = makedev(major.parse().ok()?, minor.parse().ok()?);
    KINDS.contains(&kind).then_some(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_local_file_systems_are_prompt() {
        let line = |kind| format!("36 35 254:7 / /a\\040-\\040b rw master:1 - {kind} /dev/x rw");
        for kind in KINDS {
            assert_eq!(prompt_device(&line(kind)), Some(makedev(254, 7)), "{kind}");
        }
        for kind in [
            "nfs4",
            "fuse.sshfs",
            "fuseblk",
            "cifs",
            "9p",
            "overlay",
            "proc",
        ] {
            assert_eq!(prompt_device(&line(kind)), None, "{kind}");
        }
    }

    #[test]
    fn a_line_that_is_not_understood_names_nothing() {
        for line in [
            "",
            " - ",
            "36 35 254 / / rw - ext4",
            "36 35 a:b / / rw - ext4",
            "ext4",
        ] {
            assert_eq!(prompt_device(line), None, "{line:?}");
        }
    }

    #[test]
    fn files_of_the_kernel_itself_are_not_prompt() {
        let poll = mio::Poll::new().expect("a poll");
        let mounts = Mounts::watch(poll.registry(), Token(0));
        let file = File::open("/proc/self/status").expect("a file of the kernel");
        assert!(!mounts.is_prompt(&file));
    }

    #[test]
    fn files_without_a_name_are_prompt() {
        let poll = mio::Poll::new().expect("a poll");
        let mounts = Mounts::watch(poll.registry(), Token(0));
        let file = memfd_create(c"message", MemfdFlags::CLOEXEC).expect("a file");
        assert!(mounts.is_prompt(&file));
    }

    #[test]
    fn without_a_list_no_named_file_is_prompt() {
        let known = tempfile::tempfile().expect("a file");
        let mut mounts = Mounts {
            list: None,
            prompt: HashSet::from_iter(device(&known)),
        };
        assert!(mounts.is_prompt(&known));
        mounts.refresh();
        assert!(!mounts.is_prompt(&known));
    }
}
