//! What is in the files of sessions, and which sessions may lack something.

use std::collections::BTreeSet;

use serde::Serialize;
use stentor_disk::MappedDisk;
use stentor_session_log::{
    Body, Chunk, Damage, DamageKind, Restored, RestoredChunk, RestoredDebt, RestoredSession,
};
use stentor_session_store::{JournalFigures, Trouble, TroubleKind};
use stentor_spool::{NotRead, Reader, UNIT};

use super::export::{is_on_the_way, left};
use super::{Files, Missing, SessionsError, ZoneNames, lost_power, read_chunk};
use crate::config::Config;
use crate::lifecycle::{SPOOL_FOLDER, keep_the_latest, sync_of};

/// Sessions and places that a report lists.
const LISTED_MAX: usize = 1_000;
/// Names and places of one entry that it lists.
const NAMED_MAX: usize = 20;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SessionsReport {
    /// Where.
    pub folder: String,
    /// Sessions.
    pub sessions: u64,
    /// Sessions that lack nothing.
    pub whole: u64,
    /// Sessions that lack something or may lack it, and those that only damaged places name.
    pub damaged: u64,
    /// Sessions of which records are there, and nothing says whose they are.
    pub nameless: u64,
    /// Subscriptions of all sessions.
    pub subscriptions: u64,
    /// Messages that wait in them, or are in flight.
    pub messages: u64,
    /// Bytes of their topics, properties and payloads.
    pub bytes: u64,
    /// Permanent rooms.
    pub rooms: u64,
    /// Whether the next start hands out messages that were on their way between shards.
    pub on_the_way: bool,
    /// How often a server has started on the folder.
    pub starts: u32,
    /// Starts of which a journal counts still.
    pub generations: Vec<u32>,
    /// Files of these journals.
    pub journal_files: usize,
    /// Their bytes.
    pub journal_bytes: u64,
    /// Files that hold nothing.
    pub empty_files: usize,
    /// Files of backlogs.
    pub backlog_files: usize,
    /// Places that a power loss has torn: nothing in them was promised.
    pub torn: usize,
    /// Places that are damaged.
    pub found: u64,
    /// Those of them that may have cost something.
    pub costly: u64,
    /// All of them, as far as they are listed.
    pub reports: Vec<DamagedPlace>,
    /// The sessions that lack something or may lack it, as far as they are listed.
    pub harmed: Vec<HarmedSession>,
    /// Places and sessions that are not listed.
    pub unlisted: u64,
}

impl SessionsReport {
    /// Whether the next start finds all that was promised.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.costly == 0
    }
}

/// A place that is damaged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DamagedPlace {
    /// The file, in the folder of the sessions; `None` where nobody knows it.
    pub file: Option<String>,
    /// Bytes from its beginning.
    pub offset: u64,
    /// Bytes that cannot be read; `None` for all of the file.
    pub bytes: Option<u64>,
    /// What is wrong.
    pub what: String,
    /// Client ids that can still be read there.
    pub names: Vec<String>,
}

/// A session that lacks something, or may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HarmedSession {
    /// Its client id.
    pub client_id: String,
    /// The name of its zone.
    pub zone: String,
    /// Its user.
    pub user: Option<String>,
    /// What has become of it: `gone`, `lost`, `named` or `possible`.
    pub outcome: Outcome,
    /// Messages that are lost for certain.
    pub lost_messages: u64,
    /// The places, as FILE:OFFSET.
    pub places: Vec<String>,
}

/// How sure it is that a session lacks something. The surest is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Only damaged places name it, or the file `zones` does not name its zone. The next start does
    /// not go on with it.
    Gone,
    /// Messages of it are lost.
    Lost,
    /// A damaged place names it: subscriptions or messages of it may be lost.
    Named,
    /// A damaged place in its journal may have told of it.
    #[default]
    Possible,
}

impl Outcome {
    /// As a report has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Lost => "lost",
            Self::Named => "named",
            Self::Possible => "possible",
        }
    }
}

/// Reads all files of the sessions that a configuration names, and changes nothing.
///
/// # Errors
/// When a server runs, or the files cannot be read.
pub fn verify_sessions(config: &Config) -> Result<SessionsReport, SessionsError> {
    let Files {
        folder,
        found,
        spool,
        ..
    } = &mut Files::open(config)?;
    let mut restored = found.earlier.replay(sync_of(config), |_, body| *body);
    keep_the_latest(&mut restored.sessions);
    let mut check = Check {
        report: SessionsReport {
            folder: folder.display().to_string(),
            starts: found.generation,
            empty_files: found.empty,
            rooms: restored.rooms.len() as u64,
            on_the_way: is_on_the_way(&restored),
            ..SessionsReport::default()
        },
        zones: ZoneNames::new(config),
        harmed: Vec::new(),
    };
    let backlogs = spool.files();
    check.report.backlog_files = backlogs.map_err(|error| SessionsError::Unusable {
        path: folder.join(SPOOL_FOLDER),
        error,
    })?;
    let figures: Vec<JournalFigures> = found.earlier.figures().collect();
    check.journals(&figures);
    // First of all, so that their places are known by their numbers.
    for damage in &restored.damage {
        if let DamageKind::Orphans { sessions, .. } = damage.kind {
            check.report.nameless += sessions;
        }
        check.costly(damage_place(damage));
    }
    for trouble in &found.troubles {
        check.trouble(trouble);
    }
    let lost_power = lost_power(&found.earlier);
    for session in &restored.sessions {
        let missing = Missing::of(session, &lost_power);
        check.session(spool, &restored, session, missing)?;
    }
    for lost in &restored.lost_sessions {
        check.name(lost.place, &lost.client_id);
        let harmed = HarmedSession {
            client_id: lost.client_id.to_string(),
            zone: check.zones.name(lost.zone)?,
            user: lost.user.as_deref().map(Into::into),
            outcome: Outcome::Gone,
            lost_messages: 0,
            places: place_of(&restored, lost.place).into_iter().collect(),
        };
        check.harmed.push(harmed);
    }
    Ok(check.end())
}

/// A report while it is written.
struct Check<'c> {
    report: SessionsReport,
    zones: ZoneNames<'c>,
    harmed: Vec<HarmedSession>,
}

impl Check<'_> {
    fn journals(&mut self, figures: &[JournalFigures]) {
        let generations: BTreeSet<u32> = figures.iter().map(|it| it.generation).collect();
        let report = &mut self.report;
        report.generations = generations.into_iter().collect();
        report.journal_files = figures.iter().map(|it| it.files).sum();
        report.journal_bytes = figures.iter().map(|it| it.bytes).sum();
        report.torn = figures.iter().map(|it| it.unpromised).sum();
    }

    /// What is wrong with a file as a whole. What that cost shows in the journals.
    fn trouble(&mut self, trouble: &Trouble) {
        let what = match trouble.kind {
            TroubleKind::Copied => "it is missing or damaged; its copy is whole, and counts",
            TroubleKind::Lost => "it and its copy are missing or damaged; the other files count",
            TroubleKind::Copy => "it is damaged, and only a copy",
            TroubleKind::Head => "its head is damaged; its first batch says whose it is",
            TroubleKind::Length => "it is longer or shorter than it was",
            // They are among the damaged places.
            TroubleKind::Unknown | TroubleKind::Unreadable => return,
        };
        self.place(DamagedPlace {
            file: Some(trouble.file.clone()),
            what: what.to_owned(),
            ..DamagedPlace::default()
        });
    }

    fn place(&mut self, place: DamagedPlace) {
        self.report.found += 1;
        self.report.reports.push(place);
    }

    fn costly(&mut self, place: DamagedPlace) {
        self.report.costly += 1;
        self.place(place);
    }

    /// A client id can be read in a place of the journals.
    fn name(&mut self, place: u32, client_id: &str) {
        if let Some(place) = self.report.reports.get_mut(place as usize)
            && place.names.len() < NAMED_MAX
        {
            place.names.push(client_id.to_owned());
        }
    }

    fn session(
        &mut self,
        spool: &mut Reader<MappedDisk>,
        restored: &Restored<Body<'_>>,
        session: &RestoredSession<Body<'_>>,
        missing: Missing,
    ) -> Result<(), SessionsError> {
        self.report.sessions += 1;
        self.report.subscriptions += session.subscriptions.len() as u64;
        let (mut lost, mut places) = (session.lost, Vec::new());
        self.count_messages(session);
        for chunk in &session.spooled {
            match read_chunk(spool, session, chunk) {
                Ok(bytes) => self.count_chunk(&bytes, chunk),
                Err(NotRead::Missing) if missing == Missing::Delivered => {}
                Err(error) => {
                    let place = chunk_place(chunk, &error, &session.client_id);
                    places.extend(place_text(&place));
                    self.costly(place);
                    lost += left(chunk);
                }
            }
        }
        for place in &session.named {
            self.name(*place, &session.client_id);
        }
        let may_lack = session.may_lack.iter().cloned().flatten();
        let all = session.named.iter().copied().chain(may_lack);
        let mut seen = BTreeSet::new();
        let all = all.filter(|place| seen.insert(*place)).take(NAMED_MAX);
        places.extend(all.filter_map(|place| place_of(restored, place)));
        let has_zone = self.zones.known(session.zone)?.is_some();
        let outcome = match (lost, session.named.is_empty(), session.may_lack.is_empty()) {
            _ if !has_zone => Outcome::Gone,
            (1.., ..) => Outcome::Lost,
            (0, false, _) => Outcome::Named,
            (0, true, false) => Outcome::Possible,
            (0, true, true) => {
                self.report.whole += 1;
                return Ok(());
            }
        };
        self.harmed.push(HarmedSession {
            client_id: session.client_id.to_string(),
            zone: self.zones.name(session.zone)?,
            user: session.user.as_deref().map(Into::into),
            outcome,
            lost_messages: lost,
            places,
        });
        Ok(())
    }

    fn count_messages(&mut self, session: &RestoredSession<Body<'_>>) {
        self.report.messages += (session.owed.len() + session.held.len()) as u64;
        let owed = session.owed.iter().filter_map(|it| match &it.debt {
            RestoredDebt::Message(body, _) => Some(body),
            RestoredDebt::Release => None,
        });
        let held = session.held.iter().map(|held| &held.message);
        self.report.bytes += owed.chain(held).map(bytes_of).sum::<u64>();
    }

    fn count_chunk(&mut self, bytes: &[u8], chunk: &RestoredChunk) {
        let Ok(content) = Chunk::decode(bytes) else {
            return;
        };
        for (delivery, it) in (chunk.first..).zip(content.deliveries.iter()) {
            if chunk.gone.binary_search(&delivery).is_err() {
                self.report.messages += 1;
                self.report.bytes += bytes_of(&it.body);
            }
        }
    }

    fn end(mut self) -> SessionsReport {
        self.harmed.sort_by(|a, b| {
            let key = |it: &HarmedSession| (it.outcome, it.zone.clone(), it.client_id.clone());
            key(a).cmp(&key(b))
        });
        let report = &mut self.report;
        report.damaged = self.harmed.len() as u64;
        let places = report.reports.len().saturating_sub(LISTED_MAX);
        let sessions = self.harmed.len().saturating_sub(LISTED_MAX);
        report.unlisted = (places + sessions) as u64;
        report.reports.truncate(LISTED_MAX);
        self.harmed.truncate(LISTED_MAX);
        report.harmed = self.harmed;
        self.report
    }
}

fn bytes_of(body: &Body<'_>) -> u64 {
    (body.topic.len() + body.properties.len() + body.payload.len()) as u64
}

fn journal_file(number: u32) -> String {
    format!("{number:08}.log")
}

/// A damaged place of a journal.
fn damage_place(damage: &Damage) -> DamagedPlace {
    let (file, offset, bytes, what) = match damage.kind {
        DamageKind::Gap {
            file,
            bytes: u64::MAX,
            ..
        } => {
            let what = match damage.generation {
                Some(_) => "it is missing, and nobody can tell what was in it",
                None => "nobody can tell whose it was",
            };
            (Some(file), 0, None, what.to_owned())
        }
        DamageKind::Files(files) => {
            let what = format!("{files} more files are missing, and nobody can tell which");
            (None, 0, None, what)
        }
        DamageKind::Gap {
            file,
            from: 0,
            bytes,
        } => (Some(file), 0, Some(bytes), "it is missing".to_owned()),
        DamageKind::Gap { file, from, bytes } => {
            let what = "what was written cannot be read".to_owned();
            (Some(file), from, Some(bytes), what)
        }
        DamageKind::Batch(name, error) => {
            let bytes = Some(error.at as u64);
            (Some(name.file), name.offset, bytes, error.to_string())
        }
        DamageKind::Orphans { records, sessions } => {
            let what =
                format!("{records} records of {sessions} sessions, of which nothing else is known");
            (None, 0, None, what)
        }
    };
    DamagedPlace {
        file: file.map(journal_file),
        offset: offset.into(),
        bytes,
        what,
        names: Vec::new(),
    }
}

/// A damaged part of a backlog.
fn chunk_place(chunk: &RestoredChunk, error: &NotRead, client_id: &str) -> DamagedPlace {
    let unit = UNIT as u64;
    DamagedPlace {
        file: Some(format!("{SPOOL_FOLDER}/{:08}.spool", chunk.place.file)),
        offset: u64::from(chunk.place.at) * unit,
        bytes: Some(u64::from(chunk.place.len) * unit),
        what: error.to_string(),
        names: vec![client_id.to_owned()],
    }
}

fn place_of(restored: &Restored<Body<'_>>, place: u32) -> Option<String> {
    place_text(&damage_place(restored.damage.get(place as usize)?))
}

fn place_text(place: &DamagedPlace) -> Option<String> {
    let file = place.file.as_deref()?;
    Some(format!("{file}:{}", place.offset))
}
