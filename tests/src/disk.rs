//! A disk that is soon full.

use std::path::Path;
use std::process::Command;

/// A file system of its own, as small as wanted.
#[derive(Debug)]
pub struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// `None` where mounting is not permitted.
    fn mount(folder: &'a Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(folder).expect("a folder can be made");
        let size = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder)
            .status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Self(folder))
    }

    /// Makes it as large.
    ///
    /// # Panics
    /// If the system refuses that.
    pub fn grow(&self, size: &str) {
        self.remount(&format!("size={size}"));
    }

    /// Mounts it with other options.
    ///
    /// # Panics
    /// If the system refuses that.
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        let status = Command::new("mount")
            .args(["-o", &options])
            .arg(self.0)
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "it can be mounted otherwise"
        );
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // If it fails, the folder cannot be removed, and the test says so.
        let _ = Command::new("umount").arg(self.0).status();
    }
}

/// A small file system there; `None`, which is told, for whoever may not mount one.
///
/// # Panics
/// If root cannot mount it.
#[must_use]
pub fn small_disk<'a>(folder: &'a Path, size: &str) -> Option<SmallDisk<'a>> {
    let disk = SmallDisk::mount(folder, size);
    if disk.is_none() {
        assert_ne!(
            nix::unistd::geteuid().as_raw(),
            0,
            "root can mount a small file system"
        );
        eprintln!("skipped: mounting a small file system needs root");
    }
    disk
}
