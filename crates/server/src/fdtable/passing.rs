//! Passing descriptors from one table to another over a Unix socket.

use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair,
};

/// How many descriptors one message carries at most; the kernel's own bound is 253.
pub(crate) const DESCRIPTORS_MAX: usize = 200;

/// A connected pair of sockets that keep message boundaries and never block: what is sent to the
/// first is received from the second.
///
/// # Errors
/// When no descriptors are left.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
    )
}

/// Sends one message with descriptors: all of it or nothing. The sender's copies stay open.
///
/// # Errors
/// `EAGAIN` when the receiver has to catch up first, `ETOOMANYREFS` when too many descriptors of
/// this user are on their way; both mean "try later".
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    payload: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let control = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() {
        &control[..0]
    } else {
        &control[..]
    };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let parts = [IoSlice::new(payload)];
    sendmsg::<()>(socket.as_raw_fd(), &parts, control, flags, None).map(|_| ())
}

/// Receives one message: returns the length of its payload and appends its descriptors, at most
/// `max`.
///
/// Fewer descriptors than were sent arrive when this table is full, too; the kernel closed the
/// rest.
///
/// # Errors
/// `EAGAIN` when there is no message.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    payload: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
    max: usize,
) -> Result<usize, Errno> {
    // In 64-bit words, so that it is aligned for a header.
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec {
        iov_base: payload.as_mut_ptr().cast(),
        iov_len: payload.len(),
    };
    // SAFETY: all zeroes is a valid header: null pointers with zero lengths.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // Not the length with padding, which would be room for one more.
    let room = size_of::<libc::cmsghdr>() + max.min(DESCRIPTORS_MAX) * size_of::<RawFd>();
    header.msg_controllen = if max == 0 { 0 } else { room } as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to a payload and a control buffer that outlive the call, with
    // their true lengths.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let len = Errno::result(len)?;
    // The list may be truncated. The descriptors that did arrive need an owner all the same.
    // SAFETY: the kernel filled the header in and `control` is still alive.
    unsafe { take_descriptors(&header, descriptors) };
    // `result` refused what is negative.
    Ok(len.unsigned_abs())
}

/// # Safety
/// The header must have been filled in by a successful `recvmsg`, its control buffer must be
/// alive, and its descriptors must not have been taken before.
unsafe fn take_descriptors(header: &libc::msghdr, descriptors: &mut Vec<OwnedFd>) {
    // SAFETY: passed on from the caller; the same holds for each step below, which stays within
    // the length that the kernel wrote into the header.
    let mut entry = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !entry.is_null() {
        // SAFETY: `CMSG_FIRSTHDR` and `CMSG_NXTHDR` return null or a whole entry.
        let (level, kind, len) = unsafe {
            (
                (*entry).cmsg_level,
                (*entry).cmsg_type,
                (*entry).cmsg_len as usize,
            )
        };
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            // SAFETY: an entry's data follows its header; `CMSG_LEN` only adds.
            let (data, empty) = unsafe { (libc::CMSG_DATA(entry), libc::CMSG_LEN(0) as usize) };
            for index in 0..len.saturating_sub(empty) / size_of::<RawFd>() {
                // SAFETY: `index` is below the count that the entry's length gives. The kernel
                // just made this descriptor for this message; nothing else knows its number.
                descriptors.push(unsafe {
                    OwnedFd::from_raw_fd(data.cast::<RawFd>().add(index).read_unaligned())
                });
            }
        }
        // SAFETY: `entry` came from this header.
        entry = unsafe { libc::CMSG_NXTHDR(header, entry) };
    }
}

/// Room for one entry with [`DESCRIPTORS_MAX`] descriptors: a header takes two words.
const CONTROL_WORDS: usize = 2 + DESCRIPTORS_MAX * size_of::<RawFd>() / size_of::<u64>();

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_batch_arrives_whole_and_in_order() {
        let (sender, receiver) = pair().unwrap();
        let pairs: Vec<_> = (0..DESCRIPTORS_MAX)
            .map(|_| UnixStream::pair().unwrap())
            .collect();
        let ours: Vec<_> = pairs.iter().map(|(ours, _)| ours.as_fd()).collect();
        send(sender.as_fd(), b"tickets", &ours).unwrap();
        drop(ours);
        let mut payload = [0; 64];
        let mut descriptors = Vec::new();
        let len = receive(
            receiver.as_fd(),
            &mut payload,
            &mut descriptors,
            DESCRIPTORS_MAX,
        )
        .unwrap();
        assert_eq!(&payload[..len], b"tickets");
        assert_eq!(descriptors.len(), DESCRIPTORS_MAX);
        for (index, (descriptor, (_, mut theirs))) in descriptors.into_iter().zip(pairs).enumerate()
        {
            UnixStream::from(descriptor)
                .write_all(&[index as u8])
                .unwrap();
            let mut byte = [0];
            theirs.read_exact(&mut byte).unwrap();
            assert_eq!(byte[0], index as u8);
        }
    }

    #[test]
    fn no_more_descriptors_arrive_than_are_wanted() {
        let (sender, receiver) = pair().unwrap();
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        for max in 0..3 {
            send(sender.as_fd(), b"x", &[ours.as_fd(); 3]).unwrap();
            let mut descriptors = Vec::new();
            let received = receive(receiver.as_fd(), &mut [0; 8], &mut descriptors, max);
            assert_eq!(received, Ok(1));
            assert_eq!(descriptors.len(), max);
        }
        // The kernel has closed the others.
        drop(ours);
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn nothing_to_receive_is_no_wait() {
        let (_sender, receiver) = pair().unwrap();
        let result = receive(receiver.as_fd(), &mut [0; 8], &mut Vec::new(), 1);
        assert_eq!(result, Err(Errno::EAGAIN));
    }

    /// A receiver that never reads makes the sender wait, not fail.
    #[test]
    fn a_full_socket_refuses_the_whole_message() {
        let (sender, receiver) = pair().unwrap();
        let mut sent = 0;
        while send(sender.as_fd(), &[7; 1024], &[]).is_ok() {
            sent += 1;
            assert!(sent < 100_000, "the socket never fills");
        }
        assert_eq!(send(sender.as_fd(), &[7; 1024], &[]), Err(Errno::EAGAIN));
        for _ in 0..sent {
            assert_eq!(
                receive(receiver.as_fd(), &mut [0; 2048], &mut Vec::new(), 1),
                Ok(1024)
            );
        }
        assert_eq!(send(sender.as_fd(), &[7; 1024], &[]), Ok(()));
    }
}
