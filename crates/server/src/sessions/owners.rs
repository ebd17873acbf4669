//! The users of sessions that were there before the start.
//!
//! The sessions go on at once, with the roles that were written down. When all shards have theirs,
//! the user database is asked for all of their users. What it says goes the way of a change of
//! rights: sessions whose users are gone end, and the others get the rights that their users have
//! now. No will of such a session is published before.

use std::collections::HashSet;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use stentor_auth::model::UserKey;
use stentor_auth::store::{Directory, Found};

use super::Gate;
use crate::logins::News;

/// Look-ups at a time: logins wait for as many.
const AT_ONCE: usize = 500;

/// The pause before the next attempt, where something is not ready.
const PAUSE: Duration = Duration::from_millis(100);
/// The same where the database does not answer.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// The users that are to be asked for.
#[derive(Debug)]
pub(crate) struct Owners {
    keys: Vec<UserKey>,
    gate: Arc<Gate>,
}

impl Owners {
    /// They are asked for as soon as the gate is open.
    pub(crate) fn new(keys: HashSet<UserKey>, gate: &Arc<Gate>) -> Self {
        Self {
            keys: keys.into_iter().collect(),
            gate: Arc::clone(gate),
        }
    }

    /// Asks until all are known. Ends early with the directory.
    pub(crate) fn ask(mut self, directory: &Weak<Directory>, news: &Sender<News>) {
        while !self.gate.is_open() {
            if directory.strong_count() == 0 {
                return;
            }
            thread::sleep(PAUSE);
        }
        while !self.keys.is_empty() {
            let Some(directory) = directory.upgrade() else {
                return;
            };
            if !self.ask_some(directory, news) {
                // Nobody listens any more when the server ends.
                let _ = news.send(News::Paused);
                thread::sleep(LONG_PAUSE);
            }
        }
        // It has told of its zones when it has answered.
        while !directory.upgrade().is_none_or(|it| it.is_available()) {
            thread::sleep(LONG_PAUSE);
        }
        // Nobody listens any more when the server ends.
        let _ = news.send(News::ZonesKnown);
    }

    /// Returns whether all that were asked for are known now.
    fn ask_some(&mut self, directory: Arc<Directory>, news: &Sender<News>) -> bool {
        let left = self.keys.len().saturating_sub(AT_ONCE);
        let asked = self.keys.split_off(left);
        let (again, unknown) = channel();
        for key in asked {
            let (news, again, whose) = (news.clone(), again.clone(), key.clone());
            let found: Found = Box::new(move |answer| {
                // On the directory's thread, so that changes follow what they change.
                let _ = match answer {
                    Ok(user) => news.send(News::Returned(whose, user)).is_ok(),
                    Err(_) => again.send(whose).is_ok(),
                };
            });
            if !directory.look_up(key.clone(), found) {
                self.keys.push(key);
            }
        }
        // The thread that ends the directory does not wait for this.
        drop((again, directory));
        self.keys.extend(unknown);
        self.keys.len() == left
    }
}
