//! Files of the operating system, mapped into memory.
#![expect(
    unsafe_code,
    reason = "a memory map is read and written through pointers"
)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::slice;
use std::sync::atomic::{Ordering, compiler_fence};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, Flock, FlockArg, fallocate};
use nix::libc;

use crate::bus::Watch;
use crate::{Disk, Flusher, Region};

/// Why what was written to a map is not in its file.
const LOST: &str = "a part of the file is not there any more: somebody has cut it off, or the disk \
                    cannot give it";
/// Pages are advised about in multiples of this.
const PAGE_BYTES: usize = 4096;

/// A folder of the file system.
///
/// No descriptor of a mapped file stays open: shards have descriptor tables of their own, where one
/// would name nothing, but mapped memory is the same for all threads.
#[derive(Debug)]
pub struct MappedDisk {
    folder: PathBuf,
    mode: Mode,
    lock: Mutex<Option<Flock<File>>>,
}

/// What becomes of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It goes into the files.
    Shared,
    /// It is seen by this process alone, and the files stay as they are.
    Private,
}

/// The file whose lock is held by who uses the folder.
const LOCK_FILE: &str = "lock";

impl MappedDisk {
    /// Uses a folder, which is made if it is missing, and locks it until this is dropped.
    ///
    /// # Errors
    /// When it cannot be made; [`ErrorKind::WouldBlock`] when somebody else uses it.
    pub fn new(folder: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(folder.join(LOCK_FILE))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        Ok(Self {
            folder: folder.to_owned(),
            mode: Mode::Shared,
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Uses a folder for reading, and locks it until this is dropped. What is written is forgotten
    /// with it: mapped files are copied as they are written, and nothing is renamed or removed. A
    /// folder that is not there passes for an empty one.
    ///
    /// # Errors
    /// When it cannot be read; [`ErrorKind::WouldBlock`] when somebody else uses it.
    pub fn read_only(folder: &Path) -> io::Result<Self> {
        let lock = match File::open(folder.join(LOCK_FILE)) {
            // Nobody has used it yet, or it is a copy.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            file => {
                let lock = Flock::lock(file?, FlockArg::LockExclusiveNonblock)
                    .map_err(|(_, errno)| io::Error::from(errno))?;
                Some(lock)
            }
        };
        Ok(Self {
            folder: folder.to_owned(),
            mode: Mode::Private,
            lock: Mutex::new(lock),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The path of what is a file: a pipe would be waited for, and a device may never end.
    fn regular(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path(name);
        match fs::metadata(&path)?.is_file() {
            true => Ok(path),
            false => Err(ErrorKind::InvalidInput.into()),
        }
    }

    fn create(&self, name: &str) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path(name))
    }
}

/// How nice a thread is that gives way; 0 is normal, 19 the nicest.
const NICE: libc::c_int = 10;

/// Has the calling thread give way to others, for as long as it lives: it gets about a tenth of the
/// time that each of those gets. For a thread that only flushes what nobody waits for: the system
/// works for many milliseconds in its name.
pub fn give_way() {
    // SAFETY: integers go in, and one comes out; 0 names the calling thread.
    unsafe {
        if libc::getpriority(libc::PRIO_PROCESS, 0) < NICE {
            libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
        }
    }
}

/// Allocates the blocks of an empty file, so that writing to its map never lacks them.
fn allocate(file: &mut File, len: usize) -> io::Result<()> {
    let end = i64::try_from(len).map_err(|_| ErrorKind::FileTooLarge)?;
    loop {
        match fallocate(&*file, FallocateFlags::empty(), 0, end) {
            Ok(()) => return Ok(()),
            Err(Errno::EINTR) => {}
            // This file system cannot promise blocks, but it can hold zeros.
            Err(Errno::EOPNOTSUPP) => return write_zeros(file, len),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn write_zeros(file: &mut File, len: usize) -> io::Result<()> {
    let zeros = [0; 64 << 10];
    let mut left = len;
    while left > 0 {
        let step = left.min(zeros.len());
        file.write_all(&zeros[..step])?;
        left -= step;
    }
    Ok(())
}

impl Disk for MappedDisk {
    type Region = MappedRegion;

    fn release(&self) {
        // Being dropped unlocks it, whoever else has the descriptor.
        drop(
            self.lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.mode == Mode::Private => {
                return Ok(names);
            }
            entries => entries?,
        };
        for entry in entries {
            // A name that is not text is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn grow(&self, name: &str, len: usize) -> io::Result<MappedRegion> {
        if self.mode == Mode::Private {
            return Ok(MappedRegion::new(MmapMut::map_anon(len)?.into()));
        }
        let mut file = self.create(name)?;
        let region = allocate(&mut file, len).and_then(|()| MappedRegion::map(&file));
        region.inspect_err(|_| {
            // The first error is the one to tell.
            let _ = fs::remove_file(self.path(name));
        })
    }

    fn fill(&self, name: &str, len: usize) -> io::Result<()> {
        let path = self.regular(name)?;
        if self.mode == Mode::Private {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).open(path)?;
        let end = i64::try_from(len).map_err(|_| ErrorKind::FileTooLarge)?;
        match fallocate(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, end) {
            Ok(()) | Err(Errno::EOPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn open(&self, name: &str) -> io::Result<MappedRegion> {
        let path = self.regular(name)?;
        if self.mode == Mode::Private {
            return MappedRegion::copy(&File::open(path)?);
        }
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        MappedRegion::map(&file)
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        match self.regular(name).and_then(fs::read) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if self.mode == Mode::Private {
            return Ok(());
        }
        let mut file = self.create(name)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn overwrite(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.regular(name)?;
        if self.mode == Mode::Private {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).open(path)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match self.mode {
            Mode::Shared => fs::rename(self.path(from), self.path(to)),
            Mode::Private => Ok(()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match self.mode {
            Mode::Shared => fs::remove_file(self.path(name)),
            Mode::Private => Ok(()),
        }
    }

    fn taken(&self, name: &str) -> io::Result<u64> {
        // In blocks of 512 bytes, whatever the file system has.
        Ok(fs::metadata(self.path(name))?.blocks() * 512)
    }

    fn punch(&self, name: &str, part: Range<usize>) -> io::Result<()> {
        if let Mode::Private = self.mode {
            return Ok(());
        }
        let file = File::options().write(true).open(self.path(name))?;
        let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let offset = |at: usize| i64::try_from(at).map_err(io::Error::other);
        let (from, len) = (offset(part.start)?, offset(part.len())?);
        Ok(fallocate(&file, how, from, len)?)
    }

    fn sync_names(&self) -> io::Result<()> {
        match self.mode {
            Mode::Shared => File::open(&self.folder)?.sync_all(),
            Mode::Private => Ok(()),
        }
    }
}

/// Memory of a file. It is watched for as long as it is there.
#[derive(Debug)]
struct Map {
    watch: Watch,
    raw: MmapRaw,
}

impl std::ops::Deref for Map {
    type Target = MmapRaw;

    fn deref(&self) -> &MmapRaw {
        &self.raw
    }
}

/// A mapped file. Its owner alone reads and writes the memory; whoever holds a flusher only names
/// it to the kernel.
#[derive(Debug)]
pub struct MappedRegion {
    map: Arc<Map>,
}

impl MappedRegion {
    fn map(file: &File) -> io::Result<Self> {
        Ok(Self::new(MmapRaw::map_raw(file)?))
    }

    /// A map whose pages are copied when they are written.
    fn copy(file: &File) -> io::Result<Self> {
        // SAFETY: only this process uses the file, whose folder it has locked, see `bytes`.
        let map = unsafe { MmapOptions::new().map_copy(file)? };
        Ok(Self::new(map.into()))
    }

    fn new(raw: MmapRaw) -> Self {
        let watch = Watch::new(raw.as_ptr(), raw.len());
        let map = Arc::new(Map { watch, raw });
        Self { map }
    }
}

impl Region for MappedRegion {
    type Flusher = MappedFlusher;

    fn bytes(&self) -> &[u8] {
        // SAFETY: the map is valid for its length as long as it exists, and borrowed for as long
        // as the slice is. Only `write` changes the memory, and it takes the region exclusively;
        // flushers do not touch it; the folder's lock keeps other processes away from the file.
        unsafe { slice::from_raw_parts(self.map.as_ptr(), self.map.len()) }
    }

    #[inline]
    fn expect(&self, part: Range<usize>) {
        /// What a processor fetches at once.
        const LINE_BYTES: usize = 64;
        let end = part.end.min(self.map.len());
        for at in (part.start / LINE_BYTES * LINE_BYTES..end).step_by(LINE_BYTES) {
            // SAFETY: the address lies in the map, as was just checked; and a hint reads nothing
            // and faults nowhere.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(self.map.as_ptr().add(at).cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = at;
        }
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        assert!(
            end.is_some_and(|end| end <= self.map.len()),
            "{} bytes at {at} do not fit into {}",
            bytes.len(),
            self.map.len()
        );
        // SAFETY: the range lies in the map, as was just checked; nobody else reads or writes it,
        // see `bytes`; the source cannot overlap it, since a slice of the map borrows the region.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.map.as_mut_ptr().add(at), bytes.len());
        }
        // A killed process leaves what it had written: in this order, and nothing left out because
        // it is overwritten later.
        compiler_fence(Ordering::SeqCst);
    }

    fn flusher(&self) -> MappedFlusher {
        MappedFlusher {
            map: Arc::clone(&self.map),
        }
    }
}

/// Names a region's memory to the kernel.
#[derive(Clone, Debug)]
pub struct MappedFlusher {
    map: Arc<Map>,
}

impl Flusher for MappedFlusher {
    fn flush(&self) -> io::Result<()> {
        let flushed = self.map.flush();
        match self.map.watch.is_broken() {
            true => Err(io::Error::other(LOST)),
            false => flushed,
        }
    }

    fn load(&self, part: Range<usize>, for_writing: bool) -> io::Result<()> {
        let start = part.start / PAGE_BYTES * PAGE_BYTES;
        let len = part.end.min(self.map.len()).saturating_sub(start);
        let advice = if for_writing {
            Advice::PopulateWrite
        } else {
            Advice::PopulateRead
        };
        match self.map.advise_range(advice, start, len) {
            // Kernels before 5.14 do not know it; then the first access waits.
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => Ok(()),
            result => result,
        }
    }

    fn is_loaded(&self, part: Range<usize>) -> bool {
        /// Pages that are asked about at once.
        const PAGES: usize = 64;
        let end = part.end.min(self.map.len());
        let mut start = part.start / PAGE_BYTES * PAGE_BYTES;
        while start < end {
            let len = (end - start).min(PAGES * PAGE_BYTES);
            let mut pages = [0_u8; PAGES];
            // SAFETY: the range begins at a page of the map and ends in it, the map exists for as
            // long as `self`, and `pages` has a byte for each of its pages. The memory itself is
            // not read.
            let result = unsafe {
                let address = self.map.as_mut_ptr().add(start);
                libc::mincore(address.cast(), len, pages.as_mut_ptr().cast())
            };
            let count = len.div_ceil(PAGE_BYTES);
            // Without the right to know, it reads, and perhaps waits.
            if result == 0 && pages[..count].iter().any(|page| page & 1 == 0) {
                return false;
            }
            start += len;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode as Rights;

    use super::*;

    /// Only the thread that asks for it.
    #[test]
    fn a_thread_gives_way() {
        // SAFETY: integers go in, and one comes out; 0 names the calling thread.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let gave_way = std::thread::spawn(move || {
            give_way();
            nice()
        });
        assert_eq!(gave_way.join().unwrap(), before.max(NICE));
        assert_eq!(nice(), before);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let disk = MappedDisk::new(folder.path()).unwrap();
        nix::unistd::mkfifo(&folder.path().join("pipe"), Rights::S_IRWXU).unwrap();
        fs::create_dir(folder.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("device")).unwrap();
        for name in ["pipe", "folder", "device"] {
            let error = disk.read(name).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
            assert!(disk.open(name).is_err(), "{name}");
        }
        assert_eq!(disk.read("nothing").unwrap(), None);
    }

    #[test]
    fn what_is_written_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let disk = MappedDisk::new(&folder.path().join("deep/er")).unwrap();
        let mut region = disk.grow("a.new", 3 * PAGE_BYTES).unwrap();
        let flusher = region.flusher();
        flusher.load(0..3 * PAGE_BYTES, true).unwrap();
        assert!(flusher.is_loaded(0..3 * PAGE_BYTES));
        assert!(flusher.is_loaded(PAGE_BYTES + 7..9 * PAGE_BYTES));
        region.write(PAGE_BYTES - 2, b"hello");
        assert_eq!(&region.bytes()[PAGE_BYTES - 2..][..5], b"hello");
        flusher.flush().unwrap();
        disk.rename("a.new", "a").unwrap();
        disk.sync_names().unwrap();
        drop((region, flusher));
        let region = disk.open("a").unwrap();
        assert_eq!(region.bytes().len(), 3 * PAGE_BYTES);
        assert_eq!(&region.bytes()[PAGE_BYTES - 2..][..5], b"hello");
        assert!(disk.names().unwrap().contains(&"a".to_owned()));
        disk.remove("a").unwrap();
        assert_eq!(disk.read("a").unwrap(), None);
        disk.write("b", b"x").unwrap();
        disk.write("b", b"long").unwrap();
        disk.overwrite("b", b"so").unwrap();
        assert_eq!(disk.read("b").unwrap().as_deref(), Some(&b"song"[..]));
        disk.overwrite("c", b"so").unwrap_err();
        assert_eq!(disk.read("c").unwrap(), None);
    }

    #[test]
    fn what_is_written_to_a_read_only_folder_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let disk = MappedDisk::new(folder.path()).unwrap();
        disk.grow("a", PAGE_BYTES).unwrap().write(7, b"hello");
        assert_eq!(
            MappedDisk::read_only(folder.path()).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        drop(disk);
        let before = fs::read(folder.path().join("a")).unwrap();
        let disk = MappedDisk::read_only(folder.path()).unwrap();
        MappedDisk::new(folder.path()).unwrap_err();
        let mut region = disk.open("a").unwrap();
        region.write(7, b"J");
        assert_eq!(&region.bytes()[7..12], b"Jello");
        region.flusher().flush().unwrap();
        disk.grow("b", PAGE_BYTES).unwrap().write(1, b"x");
        disk.write("c", b"x").unwrap();
        disk.rename("a", "d").unwrap();
        disk.remove("a").unwrap();
        let mut names = disk.names().unwrap();
        names.sort();
        assert_eq!(names, ["a", LOCK_FILE]);
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), before);
    }

    #[test]
    fn the_holes_of_a_copy_are_filled() {
        let folder = tempfile::tempdir().unwrap();
        let disk = MappedDisk::new(folder.path()).unwrap();
        let len = 64 * PAGE_BYTES;
        let file = disk.create("a").unwrap();
        file.set_len(len as u64).unwrap();
        file.write_all_at(b"hello", 7).unwrap();
        assert!(disk.taken("a").unwrap() < len as u64);
        disk.fill("a", len).unwrap();
        assert!(disk.taken("a").unwrap() >= len as u64);
        let region = disk.open("a").unwrap();
        assert_eq!(
            (&region.bytes()[7..12], region.bytes().len()),
            (&b"hello"[..], len)
        );
        disk.fill("missing", len).unwrap_err();
    }

    /// The process goes on, and nobody takes what was written for kept.
    #[test]
    fn a_file_that_is_cut_off_reads_as_zeros_and_cannot_be_flushed() {
        let folder = tempfile::tempdir().unwrap();
        let disk = MappedDisk::new(folder.path()).unwrap();
        let mut region = disk.grow("a", 4 * PAGE_BYTES).unwrap();
        let whole = disk.grow("b", PAGE_BYTES).unwrap();
        region.write(3 * PAGE_BYTES, b"hello");
        region.flusher().flush().unwrap();
        let file = File::options().write(true).open(folder.path().join("a"));
        file.unwrap().set_len(PAGE_BYTES as u64).unwrap();
        let before = crate::faults();
        region
            .flusher()
            .load(2 * PAGE_BYTES..3 * PAGE_BYTES, false)
            .unwrap_err();
        assert_eq!(&region.bytes()[3 * PAGE_BYTES..][..5], [0; 5]);
        region.write(2 * PAGE_BYTES, b"lost");
        assert_eq!(&region.bytes()[2 * PAGE_BYTES..][..4], b"lost");
        assert!(crate::faults() >= before + 2);
        let error = region.flusher().flush().unwrap_err();
        assert!(error.to_string().contains("cut it off"), "{error}");
        whole.flusher().flush().unwrap();
        // Nothing is left of that when another map comes to its place.
        drop(region);
        let region = disk.grow("c", 4 * PAGE_BYTES).unwrap();
        region.flusher().flush().unwrap();
    }

    #[test]
    #[should_panic(expected = "do not fit")]
    fn a_write_beyond_the_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let disk = MappedDisk::new(folder.path()).unwrap();
        disk.grow("a", PAGE_BYTES)
            .unwrap()
            .write(PAGE_BYTES - 1, b"xx");
    }

    #[test]
    fn a_folder_is_used_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let disk = MappedDisk::new(folder.path()).unwrap();
        let refused = MappedDisk::new(folder.path()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        drop(disk);
        let disk = MappedDisk::new(folder.path()).unwrap();
        // Somebody cannot end.
        disk.release();
        MappedDisk::new(folder.path()).unwrap();
        drop(disk);
    }

    #[test]
    fn an_empty_or_missing_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let disk = MappedDisk::new(folder.path()).unwrap();
        disk.write("a", b"").unwrap();
        disk.open("missing").unwrap_err();
        // Mapping nothing is refused here, or gives a region without bytes.
        assert!(
            disk.open("a")
                .map_or(true, |region| region.bytes().is_empty())
        );
    }
}
