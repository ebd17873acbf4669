//! Opening a folder: every file is looked at, and damage never prevents the start.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use stentor_disk::{Disk, Flusher, Region};
use thiserror::Error;

use crate::folder::{Folder, NUMBERS_AT_ONCE, SPARE_SUFFIX, journal_files};
use crate::frame::{FileKey, Found, look};
use crate::head::{HEAD_BYTES, Head, Id, Link, parse_file_name};
use crate::manifest::{COPY, FILE, Manifest, NEW_SUFFIX, State};
use crate::old::{OldJournal, OldSegment, Power};

/// How to open a folder.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Tells one start of the machine from the next: if it has changed and the folder was not
    /// closed, the power failed.
    pub boot: u64,
    /// A number that nobody can guess: the secret of a new folder.
    pub random: u64,
    /// Spare files that are kept at most.
    pub spares_max: usize,
}

/// Why a folder cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The disk fails.
    #[error("cannot read {file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// The disk fails, or it is full and there was no folder yet.
    #[error("cannot write the file journal: {0}")]
    Write(io::Error),
    /// A later version of the server wrote it.
    #[error("{file} has format {format}, which only a later version knows")]
    Newer {
        /// The file.
        file: String,
        /// Its format.
        format: u32,
    },
}

/// A file that is not as it was left. What that may have cost shows in the gaps of the journals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The name of the file.
    pub file: String,
    /// What is wrong.
    pub kind: TroubleKind,
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// The manifest is missing or damaged; its copy is used.
    Copied,
    /// So is its copy. The segments tell what they know.
    Lost,
    /// The copy of the manifest is damaged; the manifest itself is whole.
    Copy,
    /// The head of a segment is damaged, but its first batch says whose it is.
    Head,
    /// Nothing tells whose a segment is. It is not read.
    Unknown,
    /// The system does not give its content.
    Unreadable,
    /// It does not have its length.
    Length,
}

/// A folder that was opened.
#[derive(Debug)]
pub struct Opened<D: Disk> {
    /// For the maintenance thread.
    pub folder: Folder<D>,
    /// All journals of earlier generations, in order of generation and shard.
    pub journals: Vec<OldJournal<D::Region>>,
    /// Files that are not as they were left.
    pub troubles: Vec<Trouble>,
    /// How many files fewer there are than when the folder was closed in order. The gaps of the
    /// journals tell some of them.
    pub missing: u32,
}

/// What lies in a folder that nobody uses: see [`peek`].
#[derive(Debug)]
pub struct Peeked<R> {
    /// The number of the last start; 0 if there was none.
    pub generation: u32,
    /// All journals that count, in order of generation and shard.
    pub journals: Vec<OldJournal<R>>,
    /// Files that hold nothing.
    pub empty: usize,
    /// Files that are not as they were left.
    pub troubles: Vec<Trouble>,
    /// How many files fewer there are than when the folder was closed in order. The gaps of the
    /// journals tell some of them.
    pub missing: u32,
}

/// Reads a folder as [`Folder::open`] does. It begins no generation and writes nothing.
///
/// # Errors
/// When the folder cannot be read, or a later version wrote it.
pub fn peek<D: Disk>(disk: &D, boot: u64) -> Result<Peeked<D::Region>, OpenError> {
    let names = names(disk)?;
    let mut files = Files::read(disk, &names)?;
    let options = OpenOptions {
        boot,
        random: 0,
        spares_max: 0,
    };
    let next = files.manifest(disk, &names, options)?;
    let journals = files.journals(&next);
    Ok(Peeked {
        // The manifest is that of the start that would follow.
        generation: next.generation - 1,
        journals,
        empty: files.spares.len() + files.unused.len(),
        troubles: files.troubles,
        missing: files.missing,
    })
}

fn names<D: Disk>(disk: &D) -> Result<Vec<String>, OpenError> {
    disk.names().map_err(|error| OpenError::Read {
        file: "the folder".into(),
        error,
    })
}

impl<D: Disk> Folder<D> {
    /// Opens a folder and begins a generation. Files of earlier generations that hold anything stay
    /// as they are, so a crash leaves what was there before.
    ///
    /// # Errors
    /// When the folder cannot be read or the manifest not written, or a later version wrote it.
    pub fn open(disk: D, options: OpenOptions) -> Result<Opened<D>, OpenError> {
        let names = names(&disk)?;
        let mut files = Files::read(&disk, &names)?;
        let manifest = files.manifest(&disk, &names, options)?;
        let journals = files.journals(&manifest);
        let highest = names.iter().filter_map(|name| parse_file_name(name)).max();
        let next = highest.map_or(1, |number| number.saturating_add(1));
        let mut folder = Self {
            next: next.max(manifest.numbers_below),
            disk,
            manifest,
            spares: files.spares,
            spares_max: options.spares_max,
            spare_bytes: None,
            leftovers: files.leftovers,
            made: BTreeMap::new(),
        };
        folder.save(manifest).map_err(OpenError::Write)?;
        for name in names.iter().filter(|name| name.ends_with(NEW_SUFFIX)) {
            folder.remove(name.clone());
        }
        for (name, bytes) in files.unused {
            folder.put_aside(name, bytes);
        }
        Ok(Opened {
            folder,
            journals,
            troubles: files.troubles,
            missing: files.missing,
        })
    }
}

/// What lies in a folder.
struct Files<R> {
    /// By number, with their heads if they are sound.
    segments: BTreeMap<u32, (String, R, Option<Head>)>,
    spares: Vec<(String, usize)>,
    /// Segments that hold nothing.
    unused: Vec<(String, usize)>,
    leftovers: Vec<String>,
    troubles: Vec<Trouble>,
    /// All that have the name of a segment.
    numbers: BTreeSet<u32>,
    missing: u32,
}

impl<R: Region> Files<R> {
    fn read<D: Disk<Region = R>>(disk: &D, names: &[String]) -> Result<Self, OpenError> {
        let mut files = Self {
            segments: BTreeMap::new(),
            spares: Vec::new(),
            unused: Vec::new(),
            leftovers: Vec::new(),
            troubles: Vec::new(),
            numbers: names.iter().filter_map(|it| parse_file_name(it)).collect(),
            missing: 0,
        };
        for name in names {
            if let Some(number) = parse_file_name(name) {
                files.read_segment(disk, name, number)?;
            }
        }
        for name in names.iter().filter(|name| name.ends_with(SPARE_SUFFIX)) {
            files.read_spare(disk, name);
        }
        Ok(files)
    }

    fn read_segment<D: Disk<Region = R>>(
        &mut self,
        disk: &D,
        name: &str,
        number: u32,
    ) -> Result<(), OpenError> {
        let region = disk.open(name).and_then(|region| {
            region.flusher().load(0..region.bytes().len(), false)?;
            Ok(region)
        });
        let Ok(region) = region else {
            self.tell(name, TroubleKind::Unreadable);
            return Ok(());
        };
        let head = Head::decode(region.bytes()).map_err(|format| OpenError::Newer {
            file: name.into(),
            format,
        })?;
        match head {
            // The name is from the time before, or from the time after.
            Some(head) if head.number != number => self.leftovers.push(name.into()),
            _ => {
                let _ = self.segments.insert(number, (name.into(), region, head));
            }
        }
        Ok(())
    }

    fn read_spare<D: Disk<Region = R>>(&mut self, disk: &D, name: &str) {
        let head = disk.open(name).and_then(|region| {
            region.flusher().load(0..HEAD_BYTES, false)?;
            Ok((region.bytes().len(), Head::decode(region.bytes())))
        });
        match head {
            Ok((bytes, Ok(head))) => {
                // After a power loss, a file may have two names.
                let is_used = head.is_some_and(|head| self.segments.contains_key(&head.number));
                match is_used {
                    true => self.leftovers.push(name.into()),
                    false => self.spares.push((name.into(), bytes)),
                }
            }
            _ => self.leftovers.push(name.into()),
        }
    }

    fn tell(&mut self, file: &str, kind: TroubleKind) {
        self.troubles.push(Trouble {
            file: file.into(),
            kind,
        });
    }

    /// The manifest of the new generation: after the old one, its copy, or what the segments tell.
    fn manifest<D: Disk>(
        &mut self,
        disk: &D,
        names: &[String],
        options: OpenOptions,
    ) -> Result<Manifest, OpenError> {
        let heads = self.segments.values().filter_map(|(_, _, head)| *head);
        let newest = heads.clone().map(|head| head.id.generation).max();
        let secret = heads.clone().map(|head| head.secret).next();
        let old = match (Manifest::load(disk, FILE)?, Manifest::load(disk, COPY)?) {
            (Some(manifest), copy) => {
                // A kill before the first copy was written leaves none.
                if copy.is_none() && names.iter().any(|name| name == COPY) {
                    self.tell(COPY, TroubleKind::Copy);
                }
                let files = manifest.files.unwrap_or(0);
                self.missing = files.saturating_sub(journal_files(names));
                manifest
            }
            (None, Some(copy)) => {
                self.tell(FILE, TroubleKind::Copied);
                // It may be older by one change.
                Manifest {
                    state: State::Open,
                    files: None,
                    generation: copy.generation.max(newest.unwrap_or(0)),
                    numbers_below: copy.numbers_below.saturating_add(NUMBERS_AT_ONCE),
                    ..copy
                }
            }
            (None, None) => {
                if !self.segments.is_empty() {
                    self.tell(FILE, TroubleKind::Lost);
                }
                Manifest {
                    secret: secret.unwrap_or(options.random),
                    // Not this start of the machine, so the power may have failed.
                    boot: !options.boot,
                    generation: newest.unwrap_or(0),
                    oldest: 0,
                    lost_power_below: 0,
                    numbers_below: 1,
                    state: State::Open,
                    files: None,
                }
            }
        };
        let generation = old.generation.saturating_add(1);
        let lost_power = old.boot != options.boot && old.state == State::Open;
        Ok(Manifest {
            boot: options.boot,
            generation,
            lost_power_below: match lost_power {
                true => generation,
                false => old.lost_power_below,
            },
            state: State::Open,
            files: None,
            ..old
        })
    }

    /// The journals of the generations that count.
    fn journals(&mut self, manifest: &Manifest) -> Vec<OldJournal<R>> {
        let mut journals: BTreeMap<Id, Vec<OldSegment<R>>> = BTreeMap::new();
        for (number, (name, region, head)) in std::mem::take(&mut self.segments) {
            let key = FileKey::new(manifest.secret, number);
            let link = link(key, region.bytes());
            let id = head
                .map(|head| head.id)
                .or_else(|| link.as_ref().map(|link| link.id));
            match (&head, &id) {
                (_, None) => self.tell(&name, TroubleKind::Unknown),
                (None, Some(_)) => self.tell(&name, TroubleKind::Head),
                (Some(head), _) if head.bytes != region.bytes().len() as u64 => {
                    self.tell(&name, TroubleKind::Length);
                }
                _ => {}
            }
            match id {
                None => {}
                Some(id) if id.generation < manifest.oldest => {
                    self.unused.push((name, region.bytes().len()));
                }
                Some(id) => journals.entry(id).or_default().push(OldSegment {
                    number,
                    key,
                    region,
                    link,
                    before: head.map_or(0, |head| head.before),
                }),
            }
        }
        let journals = journals.into_iter().map(|(id, segments)| {
            let power = match id.generation < manifest.lost_power_below {
                true => Power::Lost,
                false => Power::Kept,
            };
            let (used, unused) = split_unused(segments, power);
            // A later start may have put files aside that held nothing. So may the journal, whose
            // next file a power loss may have emptied.
            let is_last = id.generation.saturating_add(1) == manifest.generation;
            let is_sure = is_last && power == Power::Kept;
            let missing = unused.iter().map(|segment| segment.before);
            let missing = missing.filter(|it| is_sure && *it != 0 && !self.numbers.contains(it));
            let missing = missing.collect();
            for segment in unused {
                let name = crate::head::file_name(segment.number);
                self.unused.push((name, segment.bytes().len()));
            }
            OldJournal::new(id, power, used, missing)
        });
        let journals: Vec<_> = journals.collect();
        journals
            .into_iter()
            .filter(|journal| !journal.is_empty())
            .collect()
    }
}

/// The first frame of a segment.
fn link(key: FileKey, file: &[u8]) -> Option<Link> {
    match look(key, file, HEAD_BYTES) {
        Found::Frame(frame) => Link::decode(frame.records),
        Found::Mark | Found::Nothing => None,
    }
}

/// Splits off the segments to which nothing was appended.
fn split_unused<R: Region>(
    segments: Vec<OldSegment<R>>,
    power: Power,
) -> (Vec<OldSegment<R>>, Vec<OldSegment<R>>) {
    let links = segments.iter().filter_map(|segment| segment.link.as_ref());
    let linked: BTreeSet<u32> = links.map(|link| link.previous.file).collect();
    segments
        .into_iter()
        .partition(|segment| linked.contains(&segment.number) || segment.is_used(power))
}
