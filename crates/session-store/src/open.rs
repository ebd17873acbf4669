//! Opening a folder, and reading what lies there.

use std::sync::Arc;

use stentor_disk::{Disk, Region};
use stentor_journal::{
    Bounds, Folder, Gap, GapKind, OldJournal, OpenError, OpenOptions, Position, Survey, Trouble,
    TroubleKind, peek,
};
use stentor_session_log::{Body, JournalId, Name, Replay, Restored};

use crate::channels::Channels;
use crate::maintenance::{JournalMaintenance, Sync};
use crate::writer::Writer;

/// How to open a folder.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Tells one start of the machine from the next.
    pub boot: u64,
    /// A number that nobody can guess.
    pub random: u64,
    /// How many shards write.
    pub shards: u16,
    /// The size of each journal.
    pub bounds: Bounds,
}

impl Options {
    /// How the journals' folder is opened.
    pub(crate) fn of_folder(self) -> OpenOptions {
        let Bounds { ahead, reserve, .. } = self.bounds;
        OpenOptions {
            boot: self.boot,
            random: self.random,
            spares_max: (ahead + reserve) * usize::from(self.shards),
        }
    }
}

/// A folder that was opened.
pub struct Opened<D: Disk> {
    /// What earlier generations have left.
    pub earlier: Earlier<D::Region>,
    /// One for each shard, in order.
    pub writers: Vec<Writer<D::Region>>,
    /// To be started.
    pub maintenance: JournalMaintenance<D>,
    /// Files that are not as they were left.
    pub troubles: Vec<Trouble>,
}

/// The journals of earlier generations.
pub struct Earlier<R> {
    pub(crate) journals: Vec<OldJournal<R>>,
    surveys: Vec<Survey>,
    /// Files of which nobody knows whose they were.
    lost: Vec<u32>,
    /// How many files are missing that no journal misses.
    missing: u32,
}

/// Opens a folder, which only this process uses, and begins a generation.
///
/// # Errors
/// When the folder cannot be read or written, or a later version wrote it.
pub fn open<D: Disk>(disk: D, options: Options) -> Result<Opened<D>, OpenError> {
    let opened = Folder::open(disk, options.of_folder())?;
    let mut folder = opened.folder;
    let channels = Arc::new(Channels::new(options.shards));
    let journals = folder.journals(options.shards, options.bounds).into_iter();
    let writers = journals.map(|journal| Writer::new(journal, Arc::clone(&channels)));
    let writers = writers.collect();
    Ok(Opened {
        earlier: Earlier::new(opened.journals, &opened.troubles, opened.missing),
        writers,
        maintenance: JournalMaintenance::new(folder, channels),
        troubles: opened.troubles,
    })
}

/// What lies in a folder that nobody uses.
pub struct Found<R> {
    /// The number of the last start; 0 if there was none.
    pub generation: u32,
    /// The journals that count.
    pub earlier: Earlier<R>,
    /// Files that hold nothing.
    pub empty: usize,
    /// Files that are not as they were left.
    pub troubles: Vec<Trouble>,
}

/// Reads a folder as [`open`] does, and writes nothing. `boot` tells one start of the machine from
/// the next.
///
/// # Errors
/// When the folder cannot be read, or a later version wrote it.
pub fn read<D: Disk>(disk: &D, boot: u64) -> Result<Found<D::Region>, OpenError> {
    let peeked = peek(disk, boot)?;
    Ok(Found {
        generation: peeked.generation,
        earlier: Earlier::new(peeked.journals, &peeked.troubles, peeked.missing),
        empty: peeked.empty,
        troubles: peeked.troubles,
    })
}

/// A journal of an earlier generation, in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalFigures {
    /// Which start of the server wrote it.
    pub generation: u32,
    /// The shard, of those there were then.
    pub shard: u16,
    /// Its files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Whether the power may have failed before the disk had all of it.
    pub has_lost_power: bool,
    /// Places that cannot be read, and cost nothing that was promised.
    pub unpromised: usize,
}

/// The number of a file whose content nobody knows.
fn lost_file(trouble: &Trouble) -> Option<u32> {
    match trouble.kind {
        TroubleKind::Unknown | TroubleKind::Unreadable => {
            let number = trouble.file.split_once('.')?.0;
            number.parse().ok()
        }
        TroubleKind::Copied
        | TroubleKind::Lost
        | TroubleKind::Copy
        | TroubleKind::Head
        | TroubleKind::Length => None,
    }
}

const fn name(position: Position) -> Name {
    Name {
        file: position.file,
        offset: position.offset,
    }
}

impl<R: Region> Earlier<R> {
    pub(crate) fn new(journals: Vec<OldJournal<R>>, troubles: &[Trouble], missing: u32) -> Self {
        let surveys: Vec<_> = journals.iter().map(OldJournal::survey).collect();
        let gaps = surveys.iter().flat_map(|survey| &survey.gaps);
        let missed = gaps.filter(|gap| gap.from.offset == 0).count();
        Self {
            missing: missing.saturating_sub(u32::try_from(missed).unwrap_or(u32::MAX)),
            surveys,
            lost: troubles.iter().filter_map(lost_file).collect(),
            journals,
        }
    }

    /// Reads all of it, which was written with `sync`. `make` makes a message, once for each that
    /// is still owed.
    #[must_use]
    pub fn replay<'e, M: Clone>(
        &'e self,
        sync: Sync,
        make: impl FnMut(Name, &Body<'e>) -> M,
    ) -> Restored<M> {
        let mut replay = Replay::new();
        for file in &self.lost {
            replay.lost_file(*file);
        }
        if self.missing > 0 {
            replay.missing_files(self.missing);
        }
        for (journal, survey) in self.journals.iter().zip(&self.surveys) {
            replay.journal(JournalId {
                generation: journal.generation(),
                shard: journal.shard(),
            });
            // Where acknowledgements wait for the disk, no packet id is used again before that.
            if journal.has_lost_power() && sync != Sync::Always {
                replay.forget_arrivals();
            }
            let is_damage = |gap: &&Gap| gap.kind == GapKind::Damage;
            let mut gaps = survey.gaps.iter().filter(is_damage).peekable();
            let tell = |replay: &mut Replay<'e>, gap: &Gap| {
                replay.gap(gap.from.file, gap.from.offset, gap.bytes);
                replay.remains(name(gap.from), journal.remains(gap));
            };
            for batch in journal.batches(survey) {
                while let Some(gap) = gaps.next_if(|gap| gap.from < batch.position) {
                    tell(&mut replay, gap);
                }
                // What cannot be read is in the report.
                let _ = replay.batch(name(batch.position), batch.records);
            }
            for gap in gaps {
                tell(&mut replay, gap);
            }
        }
        replay.finish(make)
    }

    /// The journals, in order of generation and shard.
    pub fn figures(&self) -> impl Iterator<Item = JournalFigures> {
        let all = self.journals.iter().zip(&self.surveys);
        all.map(|(journal, survey)| {
            let (files, bytes) = journal.size();
            let is_damage = |gap: &&Gap| gap.kind == GapKind::Damage;
            JournalFigures {
                generation: journal.generation(),
                shard: journal.shard(),
                files,
                bytes,
                has_lost_power: journal.has_lost_power(),
                unpromised: survey.gaps.iter().filter(|gap| !is_damage(gap)).count(),
            }
        })
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.journals.is_empty()
    }
}
