//! The groups of a program at the other end of a Unix socket.
#![expect(unsafe_code, reason = "SO_PEERGROUPS has no safe wrapper")]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Groups that are asked for at first; few users are in more.
const GROUPS_USUAL: usize = 32;
/// The most that Linux lets a program have.
const GROUPS_MAX: usize = 65_536;

/// The supplementary groups that the peer had when it connected. Where the system does not say, or
/// cannot, there are none.
pub(super) fn supplementary(socket: BorrowedFd<'_>) -> Vec<libc::gid_t> {
    let mut groups: Vec<libc::gid_t> = vec![0; GROUPS_USUAL];
    loop {
        let room = size_of_val(groups.as_slice());
        let Ok(mut len) = libc::socklen_t::try_from(room) else {
            return Vec::new();
        };
        // SAFETY: the kernel writes at most `len` bytes, which the vector has, and numbers of
        // groups are what it writes; it changes `len`, which outlives the call.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        let count = len as usize / size_of::<libc::gid_t>();
        if result == 0 {
            groups.truncate(count);
            return groups;
        }
        // There are more: it says how many.
        if count <= groups.len() || count > GROUPS_MAX {
            return Vec::new();
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_groups_of_a_peer_are_found() {
        let (one, _other) = UnixStream::pair().unwrap();
        let mut found = supplementary(one.as_fd());
        let own = nix::unistd::getgroups().unwrap();
        let mut own: Vec<_> = own.iter().map(|group| group.as_raw()).collect();
        found.sort_unstable();
        own.sort_unstable();
        assert_eq!(found, own);
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(supplementary(null.as_fd()), [0; 0]);
    }
}
