//! Records in a text file, for those who want no database at all.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::inode::Inode;
use super::{Record, Store, StoreError, Task};
use crate::model::{Role, User, UserKey, ZoneRecord, initial_roles};

/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Links that a path may lead over, as in Linux.
const LINKS_MAX: usize = 40;

const HEAD: &str = "\
# Users, roles and zones of a Stentor server. It may be edited; a running server notices within
# `auth.refresh`, or at once by `stentor auth refresh`. Commands rewrite the file and keep no
# comments.

";

/// Keeps records in a TOML file, and all of them in memory. The file is read again when it has
/// changed, and replaced as a whole by a rename, so nobody ever sees half of it; where its path is
/// a link, what that leads to is replaced. A file that was read and is gone or empty later is an
/// outage, not the end of all users.
pub struct TextStore {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    content: Content,
    /// What the file looked like when it was read: any change means a change of the file.
    seen: Option<Stamp>,
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    /// An editor that writes a file again makes another one.
    inode: Inode,
    len: u64,
    modified: SystemTime,
    /// Seconds and nanoseconds since 1970. Nobody can set this time, as they can `modified`.
    changed: (i64, i64),
    /// Whether it was so young when it was looked at that a later edit may leave the same times:
    /// file systems take them from a clock that advances every few milliseconds, some every two
    /// seconds.
    is_young: bool,
}

/// The coarsest clock of a file system, that of FAT.
const GRAIN: Duration = Duration::from_secs(2);

impl Stamp {
    fn of(metadata: &Metadata, now: SystemTime) -> io::Result<Self> {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        // Every edit sets this time. One that lies in the future is as good as none.
        let secs = u64::try_from(changed.0).unwrap_or_default();
        let age = now.duration_since(SystemTime::UNIX_EPOCH + Duration::from_secs(secs));
        Ok(Self {
            inode: Inode::from(metadata),
            len: metadata.len(),
            modified: metadata.modified()?,
            changed,
            is_young: age.is_ok_and(|age| age < GRAIN + Duration::from_secs(1)),
        })
    }

    /// Whether what was read then is certain to be what is there now.
    fn holds(&self, now: &Self) -> bool {
        !self.is_young && self == now
    }
}

#[derive(Clone, Default)]
struct Content {
    started: bool,
    users: BTreeMap<UserKey, User>,
    roles: BTreeMap<(String, String), Role>,
    zones: BTreeMap<String, ZoneRecord>,
}

/// The file.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Document {
    /// Whether the server has had its first start.
    started: bool,
    zone: Vec<ZoneRecord>,
    role: Vec<Role>,
    user: Vec<User>,
}

impl TextStore {
    /// The store in a file. Nothing is read yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            state: Mutex::default(),
        }
    }

    fn failed(&self, reason: impl ToString) -> StoreError {
        StoreError::File {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }

    /// That the file was there and is not now, as while somebody puts another one in its place.
    fn lost(&self, how: &str) -> StoreError {
        StoreError::Unavailable(format!("{} {how}", self.path.display()))
    }

    /// What the file holds now.
    fn current(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        // The state is replaced as a whole, so it is whole after any panic.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = match fs::metadata(&self.path) {
            Ok(metadata) if metadata.len() > FILE_BYTES_MAX => {
                return Err(self.failed("the file is too large"));
            }
            Ok(metadata) => Some(self.stamp(&metadata)?),
            Err(error) if error.kind() == ErrorKind::NotFound => match state.seen {
                Some(_) => return Err(self.lost("is not there any more")),
                None => None,
            },
            Err(error) => return Err(self.failed(error)),
        };
        let is_known = match (&state.seen, &stamp) {
            (None, None) => true,
            (Some(seen), Some(stamp)) => seen.holds(stamp),
            _ => false,
        };
        if !is_known {
            let content = match stamp {
                None => Content::default(),
                Some(_) => {
                    let text = self.read()?;
                    if state.seen.is_some() && text.trim().is_empty() {
                        return Err(self.lost("is empty"));
                    }
                    self.parse(&text)?
                }
            };
            *state = State {
                content,
                seen: stamp,
            };
        }
        Ok(state)
    }

    fn stamp(&self, metadata: &Metadata) -> Result<Stamp, StoreError> {
        // Only how old a file is depends on it.
        let now = SystemTime::now();
        Stamp::of(metadata, now).map_err(|error| self.failed(error))
    }

    fn read(&self) -> Result<String, StoreError> {
        let mut text = String::new();
        let file = File::open(&self.path).map_err(|error| self.failed(error))?;
        file.take(FILE_BYTES_MAX + 1)
            .read_to_string(&mut text)
            .map_err(|error| self.failed(error))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(self.failed("the file has more than 256 MiB"));
        }
        Ok(text)
    }

    fn parse(&self, text: &str) -> Result<Content, StoreError> {
        let document: Document = toml::from_str(text).map_err(|error| {
            // The message of the parser quotes the line, which may hold a hash.
            let line = error
                .span()
                .map_or(0, |span| text[..span.start].lines().count());
            self.failed(format!("line {line}: {}", error.message()))
        })?;
        let mut content = Content {
            started: document.started,
            ..Content::default()
        };
        for user in document.user {
            user.check()
                .map_err(|error| self.failed(format!("user {}: {error}", user.key())))?;
            if let Some(twice) = content.users.insert(user.key(), user) {
                return Err(self.failed(format!("user {} is there twice", twice.key())));
            }
        }
        for role in document.role {
            role.check()
                .map_err(|error| self.failed(format!("role {}: {error}", role.name)))?;
            if let Some(twice) = content.roles.insert(role_key(&role), role) {
                return Err(self.failed(format!("role {} is there twice", twice.name)));
            }
        }
        for zone in document.zone {
            zone.check()
                .map_err(|error| self.failed(format!("zone {}: {error}", zone.name)))?;
            content.zones.insert(zone.name.to_string(), zone);
        }
        Ok(content)
    }

    /// Changes the content, writes the file, and only then takes the change over. One that turns
    /// out to be none says false, and nothing is written; between its look at the content and the
    /// end nobody else changes anything.
    fn change(&self, change: impl FnOnce(&mut Content) -> bool) -> Result<bool, StoreError> {
        let mut state = self.current()?;
        let mut content = state.content.clone();
        if !change(&mut content) {
            return Ok(false);
        }
        self.write(&content)?;
        let metadata = fs::metadata(&self.path).map_err(|error| self.failed(error))?;
        let stamp = self.stamp(&metadata)?;
        *state = State {
            content,
            seen: Some(stamp),
        };
        Ok(true)
    }

    fn write(&self, content: &Content) -> Result<(), StoreError> {
        let document = Document {
            started: content.started,
            zone: content.zones.values().cloned().collect(),
            role: content.roles.values().cloned().collect(),
            user: content.users.values().cloned().collect(),
        };
        let body = toml::to_string(&document).map_err(|error| self.failed(error))?;
        let target = target(&self.path).map_err(|error| self.failed(error))?;
        let mut draft = target.clone().into_os_string();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        let write = || -> io::Result<()> {
            // A draft that a killed command left behind is in the way of nobody.
            let _ = fs::remove_file(&draft);
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&draft)?;
            file.write_all(HEAD.as_bytes())?;
            file.write_all(body.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &target)
        };
        write().map_err(|error| match target == self.path {
            true => self.failed(error),
            false => self.failed(format!("it is a link to {}: {error}", target.display())),
        })
    }

    /// Adds users, and changes something else with them; false, and nothing is changed, if one of
    /// them exists.
    fn add(&self, users: &[User], and: impl FnOnce(&mut Content)) -> Result<bool, StoreError> {
        self.change(|content| {
            let mut keys = users.iter().map(User::key);
            if keys.any(|key| content.users.contains_key(&key)) {
                return false;
            }
            let users = users.iter().map(|user| (user.key(), user.clone()));
            content.users.extend(users);
            and(content);
            true
        })
    }

    fn read_with<T>(&self, read: impl FnOnce(&Content) -> T) -> Result<T, StoreError> {
        Ok(read(&self.current()?.content))
    }
}

/// The file that a path leads to, over links, whether it is there yet or not: a rename would put a
/// file in the place of a link.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            // A relative one begins in the folder of the link.
            Ok(next) => path = path.parent().unwrap_or_else(|| Path::new("")).join(next),
            // The path is not a link, or does not exist.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("it leads over too many links"))
}

fn role_key(role: &Role) -> (String, String) {
    let zone = role.zone.as_deref().unwrap_or_default();
    (zone.to_owned(), role.name.to_string())
}

fn in_zone(user: &User, zone: Option<&str>) -> bool {
    zone.is_none_or(|zone| *user.zone == *zone)
}

fn ready<'a, T: Send + 'a>(result: Result<T, StoreError>) -> Task<'a, T> {
    Box::pin(std::future::ready(result))
}

impl Store for TextStore {
    fn describe(&self) -> String {
        format!("file:{}", self.path.display())
    }

    fn open(&self) -> Task<'_, ()> {
        let open = || {
            if self.path.exists() {
                return self.read_with(|_| ());
            }
            let fill = |content: &mut Content| {
                let roles = initial_roles().into_iter();
                content.roles = roles.map(|role| (role_key(&role), role)).collect();
                true
            };
            self.change(fill).map(drop)
        };
        ready(open())
    }

    fn find<'a>(&'a self, keys: &'a [UserKey]) -> Task<'a, Vec<Record>> {
        ready(self.read_with(|content| {
            let found = keys.iter().filter_map(|key| content.users.get(key));
            let record = |user: &User| Record {
                user: user.clone(),
                revision: 0,
            };
            found.map(record).collect()
        }))
    }

    fn list<'a>(
        &'a self,
        zone: Option<&'a str>,
        after: Option<&'a UserKey>,
        limit: usize,
    ) -> Task<'a, Vec<User>> {
        use std::ops::Bound::{Excluded, Unbounded};
        ready(self.read_with(|content| {
            let start = after.cloned().map_or(Unbounded, Excluded);
            let users = content
                .users
                .range((start, Unbounded))
                .map(|(_, user)| user);
            users
                .filter(|user| in_zone(user, zone))
                .take(limit)
                .cloned()
                .collect()
        }))
    }

    fn count<'a>(&'a self, zone: Option<&'a str>) -> Task<'a, u64> {
        ready(self.read_with(|content| {
            let users = content.users.values();
            users.filter(|user| in_zone(user, zone)).count() as u64
        }))
    }

    fn insert<'a>(&'a self, users: &'a [User]) -> Task<'a, bool> {
        ready(self.add(users, |_| ()))
    }

    fn put<'a>(&'a self, users: &'a [User]) -> Task<'a, ()> {
        let put = |content: &mut Content| {
            let users = users.iter().map(|user| (user.key(), user.clone()));
            content.users.extend(users);
            true
        };
        ready(self.change(put).map(drop))
    }

    fn update<'a>(&'a self, record: &'a Record) -> Task<'a, bool> {
        ready(self.change(|content| {
            let user = content.users.get_mut(&record.user.key());
            user.is_some_and(|user| {
                *user = record.user.clone();
                true
            })
        }))
    }

    fn delete<'a>(&'a self, key: &'a UserKey) -> Task<'a, bool> {
        ready(self.change(|content| content.users.remove(key).is_some()))
    }

    fn roles(&self) -> Task<'_, Vec<Role>> {
        ready(self.read_with(|content| content.roles.values().cloned().collect()))
    }

    fn put_role<'a>(&'a self, role: &'a Role) -> Task<'a, ()> {
        let put = |content: &mut Content| {
            content.roles.insert(role_key(role), role.clone());
            true
        };
        ready(self.change(put).map(drop))
    }

    fn delete_role<'a>(
        &'a self,
        zone: Option<&'a str>,
        name: &'a str,
        bearers: &'a [Record],
    ) -> Task<'a, bool> {
        let key = (zone.unwrap_or_default().to_owned(), name.to_owned());
        ready(self.change(|content| {
            let users = bearers.iter().map(|record| &record.user);
            let users: BTreeMap<UserKey, User> =
                users.map(|user| (user.key(), user.clone())).collect();
            if !users.keys().all(|key| content.users.contains_key(key)) {
                return false;
            }
            content.users.extend(users);
            content.roles.remove(&key).is_some()
        }))
    }

    fn zones(&self) -> Task<'_, Vec<ZoneRecord>> {
        ready(self.read_with(|content| content.zones.values().cloned().collect()))
    }

    fn put_zone<'a>(&'a self, zone: &'a ZoneRecord) -> Task<'a, ()> {
        let put = |content: &mut Content| {
            content.zones.insert(zone.name.to_string(), zone.clone());
            true
        };
        ready(self.change(put).map(drop))
    }

    fn delete_zone<'a>(&'a self, name: &'a str) -> Task<'a, bool> {
        ready(self.change(|content| content.zones.remove(name).is_some()))
    }

    fn is_started(&self) -> Task<'_, bool> {
        ready(self.read_with(|content| content.started))
    }

    fn start<'a>(&'a self, users: &'a [User]) -> Task<'a, bool> {
        ready(self.add(users, |content| content.started = true))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(future)
    }

    /// Opens the store at this path, and changes something in it.
    fn change(path: &Path) -> Result<(), StoreError> {
        let store = TextStore::new(path);
        wait(store.open())?;
        wait(store.start(&[])).map(drop)
    }

    #[test]
    fn what_a_link_leads_to_is_written_and_the_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [etc, data] = ["etc", "data"].map(|name| folder.path().join(name));
        for folder in [&etc, &data] {
            fs::create_dir(folder).unwrap();
        }
        let path = data.join("users.toml");
        // One link over another, to a file that is not there yet and to one that is.
        symlink("../etc/link.toml", &path).unwrap();
        symlink(etc.join("users.toml"), etc.join("link.toml")).unwrap();
        for _ in 0..2 {
            change(&path).unwrap();
            for link in [&path, &etc.join("link.toml")] {
                assert!(fs::symlink_metadata(link).unwrap().is_symlink());
            }
            let text = fs::read_to_string(etc.join("users.toml")).unwrap();
            assert!(text.contains("started = true"), "{text}");
        }
        // Nothing is left beside either.
        assert_eq!(fs::read_dir(&etc).unwrap().count(), 2);
        assert_eq!(fs::read_dir(&data).unwrap().count(), 1);
    }

    /// In place, within one tick of the file system's clock, and with the time of modification that
    /// it had.
    #[test]
    fn an_edit_that_changes_neither_time_nor_length_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        let old = SystemTime::now() - Duration::from_secs(3600);
        let write = |name: &str| {
            let mut file = OpenOptions::new();
            let mut file = file.write(true).create(true).open(&path).unwrap();
            let text = format!("[[user]]\nzone = \"default\"\nname = \"{name}\"\n");
            file.write_all(text.as_bytes()).unwrap();
            file.set_modified(old).unwrap();
        };
        let store = TextStore::new(&path);
        for name in ["ann", "bob", "eve"] {
            write(name);
            let known = store.read_with(|content| {
                let names = content.users.keys().map(|key| key.name.to_string());
                names.collect::<Vec<_>>()
            });
            assert_eq!(known.unwrap(), [name]);
        }
    }

    #[test]
    fn what_was_read_holds_until_the_file_looks_different() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        fs::write(&path, "x").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let at = |secs| {
            let now = metadata.modified().unwrap() + Duration::from_secs(secs);
            Stamp::of(&metadata, now).unwrap()
        };
        // Read while an edit may leave no trace, it is read once more, and no more after that.
        assert!(!at(0).holds(&at(0)) && !at(1).holds(&at(10)));
        assert!(at(10).holds(&at(20)));
        let (mut longer, mut other, mut later) = (at(20), at(20), at(20));
        longer.len += 1;
        later.changed.1 += 1;
        fs::write(folder.path().join("new"), "x").unwrap();
        other.inode = Inode::at(&folder.path().join("new")).unwrap();
        for now in [longer, later, other] {
            assert!(!at(10).holds(&now));
        }
    }

    #[test]
    fn a_link_that_cannot_be_written_through_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        symlink("none/users.toml", &path).unwrap();
        let told = change(&path).unwrap_err().to_string();
        assert!(
            told.contains("a link to") && told.contains("none/users.toml"),
            "{told}"
        );
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        symlink("loop", folder.path().join("loop")).unwrap();
        change(&folder.path().join("loop")).unwrap_err();
    }
}
