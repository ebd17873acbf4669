//! Where users, roles and zones are kept, and how they are looked up.
//!
//! - A [`Store`] keeps all records: [`SqlStore`] in SQLite, PostgreSQL, MySQL or MariaDB,
//!   [`TextStore`] in a file.
//! - A [`Source`] knows users that somebody else keeps: the operator's own tables
//!   ([`QuerySource`]), or mosquitto's password file ([`MosquittoFile`]).
//! - [`Books`] are a store with or without a source, as the configuration says.
//! - The [`Directory`] is what the rest of the server asks: a thread of its own that joins
//!   concurrent look-ups into one query, survives a database that goes away, notices changes, and
//!   carries out [`Order`]s, which is how every command changes a right.

mod audit;
mod books;
mod directory;
mod error;
mod foreign;
mod inode;
mod mosquitto;
mod order;
mod place;
mod sql;
mod text;
mod zones;

use std::future::Future;
use std::pin::Pin;

use crate::model::{Role, User, UserKey, ZoneRecord};

pub use audit::{AuditLog, AuditTrouble};
pub use books::Books;
pub(crate) use books::stands_alone;
pub use directory::{
    Change, Directory, DirectoryOptions, Found, Health, OrderAnswer, Roles, Told, Unavailable,
    Watch,
};
pub use error::StoreError;
pub use foreign::{Columns, QuerySource};
pub use mosquitto::MosquittoFile;
pub use order::{IMPORT_USERS_MAX, Imported, Order, OrderError, Who};
pub use place::{Place, PlaceError};
pub use sql::SqlStore;
pub use text::TextStore;
pub use zones::{ZoneFiles, ZoneNumbers};

/// What a store promises.
pub type Task<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A user as a store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The user.
    pub user: User,
    /// How often the record was changed; an update names the revision that it was made from.
    pub revision: i64,
}

/// Keeps users, roles and zones.
///
/// All methods may be called at any time; one that finds the database gone connects again, once.
/// Records are expected to be checked.
pub trait Store: Send + Sync {
    /// What this is, for logs, without anything secret.
    fn describe(&self) -> String;

    /// Makes sure that the store is there, makes or migrates its tables, and puts the initial
    /// roles into a new one. Harmless when called again.
    fn open(&self) -> Task<'_, ()>;

    /// The users among these that exist, in any order.
    fn find<'a>(&'a self, keys: &'a [UserKey]) -> Task<'a, Vec<Record>>;

    /// Users in the order of zone and name, after one of them, of one zone if one is given.
    fn list<'a>(
        &'a self,
        zone: Option<&'a str>,
        after: Option<&'a UserKey>,
        limit: usize,
    ) -> Task<'a, Vec<User>>;

    /// How many users there are, of one zone if one is given.
    fn count<'a>(&'a self, zone: Option<&'a str>) -> Task<'a, u64>;

    /// Adds users. False, and nothing is changed, if one of them exists.
    fn insert<'a>(&'a self, users: &'a [User]) -> Task<'a, bool>;

    /// Adds users, or replaces those that exist.
    fn put<'a>(&'a self, users: &'a [User]) -> Task<'a, ()>;

    /// Replaces a user; false if it is gone or its revision is another one.
    fn update<'a>(&'a self, record: &'a Record) -> Task<'a, bool>;

    /// Deletes a user; false if there is none.
    fn delete<'a>(&'a self, key: &'a UserKey) -> Task<'a, bool>;

    /// All roles.
    fn roles(&self) -> Task<'_, Vec<Role>>;

    /// Adds or replaces a role.
    fn put_role<'a>(&'a self, role: &'a Role) -> Task<'a, ()>;

    /// Deletes a role, and replaces the users who had it. False, and nothing is changed, if there
    /// is no such role, or if one of the users is gone or its revision is another one.
    fn delete_role<'a>(
        &'a self,
        zone: Option<&'a str>,
        name: &'a str,
        bearers: &'a [Record],
    ) -> Task<'a, bool>;

    /// All zones that were added.
    fn zones(&self) -> Task<'_, Vec<ZoneRecord>>;

    /// Adds or replaces a zone.
    fn put_zone<'a>(&'a self, zone: &'a ZoneRecord) -> Task<'a, ()>;

    /// Deletes a zone; false if there is none.
    fn delete_zone<'a>(&'a self, name: &'a str) -> Task<'a, bool>;

    /// Whether a server has been started with this store.
    fn is_started(&self) -> Task<'_, bool>;

    /// Remembers that a server has been started with this store, and adds its first users, both or
    /// neither. False, and nothing is changed, if one of them exists.
    fn start<'a>(&'a self, users: &'a [User]) -> Task<'a, bool>;
}

/// Users that somebody else keeps. They can be read, not changed.
pub trait Source: Send + Sync {
    /// What this is, for logs, without anything secret.
    fn describe(&self) -> String;

    /// Makes sure that it is there.
    fn open(&self) -> Task<'_, ()>;

    /// The users among these that exist, in any order.
    fn find<'a>(&'a self, keys: &'a [UserKey]) -> Task<'a, Vec<User>>;

    /// What in it cannot be read and shuts users out, in sentences with remedies.
    fn complaints(&self) -> Task<'_, Vec<String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
