//! Maps of files that the disk cannot give any more.
//!
//! A file may be cut off by somebody else while it is mapped. Its disk may fail, or have no room
//! for what was never allocated. Then the system answers to an access by SIGBUS, which ends the
//! process.
//! Here the access finds a page of zeros instead, which is not a part of the file. The map knows it
//! from then on, so that nobody takes what is written there for kept.
#![expect(
    unsafe_code,
    reason = "a signal handler puts pages into maps, and reads what the system says of the signal"
)]

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use nix::libc;

/// Pages that were replaced since the process began.
static FAULTS: AtomicU64 = AtomicU64::new(0);
/// All places that there are: the handler goes through them. None is ever freed.
static FIRST: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());
/// Places of maps that are gone.
static FREE: Mutex<Vec<&'static Place>> = Mutex::new(Vec::new());
/// What the system did at SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// Bytes of a page.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// Where a map lies.
struct Place {
    start: AtomicUsize,
    /// 0 for no map.
    len: AtomicUsize,
    is_broken: AtomicBool,
    /// It does not change any more once the place can be found.
    next: *const Self,
}

// SAFETY: `next` is written before others can see the place, and names one that is never freed.
unsafe impl Sync for Place {}

/// How often a page was replaced since the process began: if the number grows, some map has lost
/// what was written to it.
#[must_use]
pub fn faults() -> u64 {
    FAULTS.load(Ordering::Relaxed)
}

/// A map whose accesses find zeros where the disk cannot give the file, until this is dropped.
pub(crate) struct Watch(&'static Place);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_broken = self.is_broken();
        f.debug_struct("Watch")
            .field("is_broken", &is_broken)
            .finish()
    }
}

impl Watch {
    /// The map has to be there until this is dropped.
    pub(crate) fn new(start: *const u8, len: usize) -> Self {
        install();
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let place = free.pop().unwrap_or_else(|| {
            let place = Box::leak(Box::new(Place {
                start: AtomicUsize::new(0),
                len: AtomicUsize::new(0),
                is_broken: AtomicBool::new(false),
                // The lock is held, so nobody else adds one.
                next: FIRST.load(Ordering::Acquire),
            }));
            FIRST.store(place, Ordering::Release);
            place
        });
        place.is_broken.store(false, Ordering::Relaxed);
        place.start.store(start.addr(), Ordering::Relaxed);
        place.len.store(len, Ordering::Release);
        Self(place)
    }

    /// Whether an access has found no file: then the map holds what the file does not.
    pub(crate) fn is_broken(&self) -> bool {
        self.0.is_broken.load(Ordering::Acquire)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.len.store(0, Ordering::Release);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(self.0);
    }
}

/// The place of the map in which an address lies. It only reads atomics, as a handler may.
fn find(address: usize) -> Option<&'static Place> {
    let mut at: *const Place = FIRST.load(Ordering::Acquire);
    // SAFETY: places are never freed, and the last one names none.
    while let Some(place) = unsafe { at.as_ref() } {
        let len = place.len.load(Ordering::Acquire);
        let start = place.start.load(Ordering::Relaxed);
        if address.wrapping_sub(start) < len {
            return Some(place);
        }
        at = place.next;
    }
    None
}

/// Puts a page of zeros where an access has failed, if it was one to a file. Everything else ends
/// as it did before.
extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system gives the handler what is known of the signal, for as long as it runs.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let page = PAGE.load(Ordering::Relaxed);
    if code == libc::BUS_ADRERR
        && page > 0
        && let Some(place) = find(address)
    {
        let start = ptr::without_provenance_mut(address / page * page);
        let (rights, how) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
        );
        // SAFETY: the page lies in a map of this process that is there still, since an access to
        // it has just failed. Nobody has seen anything of it that this changes.
        let mapped = unsafe { libc::mmap(start, page, rights, how, -1, 0) };
        if mapped != libc::MAP_FAILED {
            place.is_broken.store(true, Ordering::Release);
            FAULTS.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    // The access is repeated, and ends as it would have.
    let default = || {
        // SAFETY: zeros say that the system does what it does by default.
        unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() }
    };
    let before = BEFORE.get().copied().unwrap_or_else(default);
    // SAFETY: the action is a whole one, and the call may be used in a handler.
    unsafe {
        libc::sigaction(signal, &raw const before, ptr::null_mut());
    }
}

/// Has the process hear of such accesses, from the first map on.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a number goes in, and one comes out.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        PAGE.store(usize::try_from(page).unwrap_or(0), Ordering::Relaxed);
        // SAFETY: zeros are an action without flags; the fields that count follow. The handler
        // calls nothing that a handler may not.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            let mut before = MaybeUninit::<libc::sigaction>::zeroed();
            if libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) == 0 {
                let _ = BEFORE.set(before.assume_init());
            }
            libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
        }
    });
}
