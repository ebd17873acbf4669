//! The segments' files: which is which, and what cannot be used as it is.
//!
//! A sound head says whose file it is, whatever its name and its length are: it gets back what it
//! has lost of these. So what lies in it is read as in any other, and told by its place.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::meta::{Meta, NEW_SUFFIX};
use super::open::report;
use super::{OpenError, STRIPES};
use crate::damage::Outcome;
use crate::layout::{self, BLOCKS_MAX, BadHead, FORMAT, SegmentHead};
use crate::stripe::{Env, Salvaged, salvage};
use stentor_disk::{Disk, Flusher, Region};

/// How much of a file is brought into memory at once.
const LOAD_BYTES: usize = 4 << 20;
pub(super) const PAGE_BYTES: usize = 4096;
/// What a file is called that is not used any more, but may be of use to somebody.
pub(super) const ASIDE_SUFFIX: &str = ".damaged";
/// What a file is called on its way to its name.
const MOVED_SUFFIX: &str = ".moved";
/// What stands for bytes that nobody has: zeros would pass for what a power loss left.
const UNKNOWN: u8 = 0xFF;

/// A segment, by stripe and number.
type Id = (u16, u32);

/// The segments of one stripe, with their numbers.
pub(super) type Files<D> = Vec<(u32, <D as Disk>::Region)>;

/// The segments that can be used.
pub(super) struct Opened<D: Disk> {
    /// By stripe.
    pub(super) files: Vec<Files<D>>,
    /// Records of files that cannot be used.
    pub(super) salvaged: Vec<Salvaged>,
    /// The number of this start.
    pub(super) generation: u32,
}

impl<D: Disk> Opened<D> {
    /// The segments, by stripe and number.
    pub(super) fn names(&self) -> BTreeSet<Id> {
        let numbered = (0..=u16::MAX).zip(&self.files);
        let named = numbered
            .flat_map(|(stripe, files)| files.iter().map(move |(number, _)| (stripe, *number)));
        named.collect()
    }

    /// Writes the number of this start into each segment.
    fn mark(&mut self, seed: u64) {
        for (stripe, files) in (0..=u16::MAX).zip(&mut self.files) {
            for (number, region) in files {
                let head = SegmentHead {
                    seed,
                    stripe,
                    number: *number,
                    blocks: 0,
                };
                let (at, word) = head.generation_at(self.generation);
                region.write(at, &word);
            }
        }
    }
}

/// A file that is called like a segment.
struct File<D: Disk> {
    name: String,
    /// The segment that it is called like.
    named: Id,
    /// None if it is empty or no file at all.
    region: Option<D::Region>,
    /// What its head says, and the format; `None` if that is damaged.
    head: Option<(SegmentHead, u32)>,
}

impl<D: Disk> File<D> {
    /// The segment that it is: as its head says, or, if that is damaged, its name and its length.
    fn id(&self, seed: u64) -> Option<Id> {
        let region = self.region.as_ref()?;
        match self.head {
            Some((head, _)) => {
                let is_ours = head.seed == seed && usize::from(head.stripe) < STRIPES;
                let has_blocks = (1..=BLOCKS_MAX).contains(&(head.blocks as usize));
                (is_ours && has_blocks).then_some((head.stripe, head.number))
            }
            None => {
                let blocks = layout::blocks_of(region.bytes().len());
                let is_one = blocks.is_some_and(|blocks| (1..=BLOCKS_MAX).contains(&blocks));
                (is_one && self.has_name_of(self.named)).then_some(self.named)
            }
        }
    }

    fn has_name_of(&self, (stripe, number): Id) -> bool {
        self.name == layout::file_name(stripe, number)
    }

    /// The number of the start that last used it.
    fn generation(&self) -> Option<u32> {
        let (head, _) = self.head.filter(|(_, format)| *format == FORMAT)?;
        head.generation(self.region.as_ref()?.bytes())
    }
}

/// Opens the segments of all stripes; what is not complete goes.
pub(super) fn open_files<D: Disk>(
    disk: &D,
    env: &Env,
    names: &[String],
    meta: &Meta,
) -> Result<Opened<D>, OpenError> {
    let mut opened: Opened<D> = Opened {
        files: (0..STRIPES).map(|_| Vec::new()).collect(),
        salvaged: Vec::new(),
        generation: meta.generation + 1,
    };
    let (segments, others) = sort_out(look_at_all(disk, env, names)?, meta.seed);
    for id in meta.segments.iter().filter(|id| !segments.contains_key(id)) {
        let name = layout::file_name(id.0, id.1);
        env.damage.push(report(&name, Outcome::Lost));
    }
    for file in others {
        let is_here = segments.contains_key(&file.named);
        opened.salvaged.extend(leave(disk, env, file, is_here));
    }
    give_names(disk, &segments);
    for ((stripe, number), file) in segments {
        match make_usable(disk, env, meta, (stripe, number), file)? {
            Usable::Whole(region, generation) => {
                // A start that was cut short may have counted already.
                let next = generation.unwrap_or(0).saturating_add(1);
                opened.generation = opened.generation.max(next);
                opened.files[usize::from(stripe)].push((number, region));
            }
            Usable::Salvaged(salvaged) => opened.salvaged.extend(salvaged),
        }
    }
    opened.mark(meta.seed);
    Ok(opened)
}

fn look_at_all<D: Disk>(disk: &D, env: &Env, names: &[String]) -> Result<Vec<File<D>>, OpenError> {
    let mut files = Vec::new();
    for name in names {
        if name.ends_with(NEW_SUFFIX) {
            // If it stays, nothing uses it either.
            let _ = disk.remove(name);
            continue;
        }
        let segment = name.strip_suffix(MOVED_SUFFIX).unwrap_or(name);
        if let Some(named) = layout::parse_file_name(segment)
            && usize::from(named.0) < STRIPES
        {
            files.push(look_at(disk, env, name, named)?);
        }
    }
    Ok(files)
}

fn look_at<D: Disk>(disk: &D, env: &Env, name: &str, named: Id) -> Result<File<D>, OpenError> {
    let region = match disk.open(name) {
        Ok(region) => {
            // On a full disk, what is written there cannot be flushed.
            let _ = disk.fill(name, region.bytes().len());
            readable(disk, env, name, region)
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
        // A system that lacks memory or permissions does not mean that the file is bad.
        Err(error) => {
            let file = name.to_owned();
            return Err(OpenError::Read { file, error });
        }
    };
    let head = match region
        .as_ref()
        .map(|region| SegmentHead::decode(region.bytes()))
    {
        Some(Err(BadHead::Newer(format))) => {
            let file = name.to_owned();
            return Err(OpenError::Newer { file, format });
        }
        Some(Ok(found)) => Some(found),
        Some(Err(BadHead::Damaged)) | None => None,
    };
    Ok(File {
        name: name.to_owned(),
        named,
        region,
        head,
    })
}

/// Brings a file into memory. If the disk cannot give all of it, the rest is copied to a new file;
/// reading the old one would end the process.
fn readable<D: Disk>(disk: &D, env: &Env, name: &str, region: D::Region) -> Option<D::Region> {
    let (flusher, len) = (region.flusher(), region.bytes().len());
    let load = |from: usize, step: usize| flusher.load(from..len.min(from + step), false);
    if (0..len)
        .step_by(LOAD_BYTES)
        .all(|from| load(from, LOAD_BYTES).is_ok())
    {
        return Some(region);
    }
    // What could not be read is found missing in its place.
    env.damage.push(report(name, Outcome::Mended));
    let temporary = format!("{name}{NEW_SUFFIX}");
    let mut copy = disk.grow(&temporary, len).ok()?;
    for from in (0..len).step_by(PAGE_BYTES) {
        let to = len.min(from + PAGE_BYTES);
        match load(from, PAGE_BYTES) {
            Ok(()) => copy.write(from, &region.bytes()[from..to]),
            Err(_) => copy.write(from, &[UNKNOWN; PAGE_BYTES][..to - from]),
        }
    }
    disk.rename(name, &format!("{name}{ASIDE_SUFFIX}"))
        .and_then(|()| disk.rename(&temporary, name))
        .ok()?;
    Some(copy)
}

/// The segments, and the files that are none, or copies of one. A file that has its own name comes
/// before one that has not, a sound head before a damaged one, a newer copy before an older.
fn sort_out<D: Disk>(mut files: Vec<File<D>>, seed: u64) -> (BTreeMap<Id, File<D>>, Vec<File<D>>) {
    files.sort_by_key(|file| {
        let id = file.id(seed);
        let is_away = id.is_none_or(|id| !file.has_name_of(id));
        (file.head.is_none(), is_away, Reverse(file.generation()))
    });
    let (mut segments, mut others) = (BTreeMap::new(), Vec::new());
    for file in files {
        match file.id(seed).map(|id| segments.entry(id)) {
            Some(Entry::Vacant(entry)) => {
                entry.insert(file);
            }
            Some(Entry::Occupied(_)) | None => others.push(file),
        }
    }
    (segments, others)
}

/// Takes what can be found from a file that is not a segment, and sets it aside; `is_here` if the
/// segment that it is called like was found.
fn leave<D: Disk>(disk: &D, env: &Env, file: File<D>, is_here: bool) -> Vec<Salvaged> {
    let (stripe, number) = file.named;
    let salvaged = match (&file.region, file.head) {
        (Some(region), None) => {
            let key = layout::segment_key(env.key, stripe, number);
            salvage_all(&file.name, region, key)
        }
        // All of a copy is in its segment, and another store's file has nothing for this one.
        _ => Vec::new(),
    };
    // What is not a segment of this store at all has cost nothing; else nobody knows.
    let outcome = match is_here || file.head.is_some() {
        true => Outcome::Mended,
        false => Outcome::Lost,
    };
    env.damage.push(report(&file.name, outcome));
    set_aside(disk, &file.name);
    salvaged
}

fn salvage_all<R: Region>(name: &str, region: &R, key: u32) -> Vec<Salvaged> {
    let end = region.bytes().len() / 8 * 8;
    salvage(name, region.bytes(), 0..end, key).salvaged
}

/// Gives a file another name, under which it is not used.
fn set_aside<D: Disk>(disk: &D, name: &str) {
    // If it keeps its name, the next start looks at it again.
    let _ = disk.rename(name, &format!("{name}{ASIDE_SUFFIX}"));
}

/// Gives each segment its name, by a name of which none is another's: files may have changed
/// places. A kill in between leaves what the next start goes on with.
fn give_names<D: Disk>(disk: &D, segments: &BTreeMap<Id, File<D>>) {
    let names = segments.iter().map(|((stripe, number), file)| {
        let name = layout::file_name(*stripe, *number);
        (file.name.as_str(), format!("{name}{MOVED_SUFFIX}"), name)
    });
    let away: Vec<_> = names.filter(|(has, _, name)| has != name).collect();
    // If it fails, the next start tries again.
    for (has, passing, _) in away.iter().filter(|(has, passing, _)| has != passing) {
        let _ = disk.rename(has, passing);
    }
    for (_, passing, name) in &away {
        let _ = disk.rename(passing, name);
    }
}

/// What became of a segment's file.
enum Usable<R> {
    /// It can be read as a whole; the generation that its head says, if it does.
    Whole(R, Option<u32>),
    /// It cannot; these records were found in it.
    Salvaged(Vec<Salvaged>),
}

/// Gives a segment, which has its name by now, its length, its head and the newest format.
fn make_usable<D: Disk>(
    disk: &D,
    env: &Env,
    meta: &Meta,
    (stripe, number): Id,
    file: File<D>,
) -> Result<Usable<D::Region>, OpenError> {
    let name = layout::file_name(stripe, number);
    let generation = file.generation();
    let is_away = file.name != name;
    let Some(mut region) = file.region else {
        return Ok(Usable::Salvaged(Vec::new()));
    };
    let Some((head, format)) = file.head else {
        let head = SegmentHead {
            seed: meta.seed,
            stripe,
            number,
            blocks: layout::blocks_of(region.bytes().len()).unwrap_or(0) as u32,
        };
        make_head(env, &name, head, &mut region);
        return Ok(Usable::Whole(region, None));
    };
    let len = layout::file_len(head.blocks as usize);
    let is_resized = region.bytes().len() != len;
    if is_resized {
        match resized(disk, &name, &region, len) {
            Ok(resized) => region = resized,
            // There is no room for it: what is in it has to do with what there is.
            Err(_) => {
                let salvaged = salvage_all(&name, &region, head.key(env.key));
                env.damage.push(report(&name, Outcome::Lost));
                set_aside(disk, &name);
                return Ok(Usable::Salvaged(salvaged));
            }
        }
    }
    let is_older = generation.is_some_and(|of| of < meta.generation) && !env.lost_power;
    if is_older {
        env.damage.push(report(&name, Outcome::Previous));
    } else if is_away || is_resized || format == FORMAT && generation.is_none() {
        // What is missing is reported by its place.
        env.damage.push(report(&name, Outcome::Mended));
    }
    if format != FORMAT {
        region = upgrade(disk, env, &name, &region, head)?;
    }
    Ok(Usable::Whole(region, generation))
}

/// Makes a damaged head again: the name and the length say all that it said.
fn make_head<R: Region>(env: &Env, name: &str, head: SegmentHead, region: &mut R) {
    // A power loss may take a whole segment that held nothing yet.
    if !env.lost_power && region.bytes().iter().all(|byte| *byte == 0) {
        env.damage.push(report(name, Outcome::Lost));
        for (at, part) in head.fresh(env.key, 0) {
            region.write(at, &part);
        }
    } else {
        env.damage.push(report(name, Outcome::Mended));
        region.write(0, &head.encode(0));
    }
}

/// Writes a file again that has grown or was cut off, with the length that it had: a kill leaves
/// the old one or the new one.
fn resized<D: Disk>(disk: &D, name: &str, old: &D::Region, len: usize) -> io::Result<D::Region> {
    let kept = &old.bytes()[..old.bytes().len().min(len)];
    rewritten(disk, name, len, |new| {
        new.write(0, kept);
        for from in (kept.len()..len).step_by(PAGE_BYTES) {
            new.write(from, &[UNKNOWN; PAGE_BYTES][..PAGE_BYTES.min(len - from)]);
        }
    })
}

/// Writes a segment of format 1 again: a kill leaves the old file or the new one.
fn upgrade<D: Disk>(
    disk: &D,
    env: &Env,
    name: &str,
    old: &D::Region,
    head: SegmentHead,
) -> Result<D::Region, OpenError> {
    let region = rewritten(disk, name, old.bytes().len(), |new| {
        for (at, part) in layout::upgraded(old.bytes(), head, env.key) {
            new.write(at, &part);
        }
    });
    region.map_err(|error| OpenError::Read {
        file: format!("{name}, which has to be written again in format {FORMAT}"),
        error,
    })
}

fn rewritten<D: Disk>(
    disk: &D,
    name: &str,
    len: usize,
    write: impl FnOnce(&mut D::Region),
) -> io::Result<D::Region> {
    let temporary = format!("{name}{NEW_SUFFIX}");
    let mut region = disk.grow(&temporary, len)?;
    write(&mut region);
    disk.rename(&temporary, name)?;
    Ok(region)
}
