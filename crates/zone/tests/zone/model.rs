//! Random lives of a room against a naive model: who is in it, in which state, and what the
//! retained topics say of it at every moment.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Hall, session, user};
use proptest::prelude::*;
use serde_json::json;
use stentor_zone::{Change, Condition, Presence, Refusal, Uniqueness, Verdict};

const GRACE_SECS: u64 = 30;

#[derive(Clone, Debug)]
enum Step {
    Join(u8, u8),
    Leave(u8, u8),
    Lost(u8, u8),
    Lock(u8),
    Unlock(u8),
    Set(u8),
    Kick(u8, u8),
    Capacity(u8, u8),
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let who = 0..4u8;
    prop_oneof![
        4 => (who.clone(), 0..2u8).prop_map(|(u, s)| Step::Join(u, s)),
        2 => (who.clone(), 0..2u8).prop_map(|(u, s)| Step::Leave(u, s)),
        2 => (who.clone(), 0..2u8).prop_map(|(u, s)| Step::Lost(u, s)),
        1 => who.clone().prop_map(Step::Lock),
        1 => who.clone().prop_map(Step::Unlock),
        1 => who.clone().prop_map(Step::Set),
        1 => (who.clone(), who.clone()).prop_map(|(u, v)| Step::Kick(u, v)),
        1 => (who, 1..4u8).prop_map(|(u, n)| Step::Capacity(u, n)),
        2 => (1..40u8).prop_map(Step::Wait),
    ]
}

#[derive(Clone, Debug)]
enum State {
    Here(BTreeSet<u8>),
    Away(u64),
}

/// What a room should be, said as simply as possible.
#[derive(Default)]
struct Model {
    members: Vec<(u8, State)>,
    /// Users and their lost sessions, with the end of their grace.
    awaited: Vec<(u8, u8, u64)>,
    owner: Option<u8>,
    capacity: Option<u8>,
    lock: Option<u8>,
    now: u64,
}

impl Model {
    fn state(&mut self, who: u8) -> Option<&mut State> {
        let (_, state) = self.members.iter_mut().find(|(name, _)| *name == who)?;
        Some(state)
    }

    fn is_here(&mut self, who: u8) -> bool {
        matches!(self.state(who), Some(State::Here(_)))
    }

    fn join(&mut self, who: u8, session: u8) -> Result<(), Refusal> {
        let is_in = matches!(self.state(who), Some(State::Here(all)) if all.contains(&session));
        let mut awaited = self.awaited.iter();
        let own = awaited.position(|lost| (lost.0, lost.1) == (who, session));
        let any = || self.awaited.iter().position(|lost| lost.0 == who);
        if let Some(place) = own.or_else(any).filter(|_| !is_in) {
            self.awaited.remove(place);
        }
        match self.state(who) {
            Some(State::Here(sessions)) => {
                sessions.insert(session);
            }
            Some(state) => *state = State::Here([session].into()),
            None => {
                let places = self.capacity.map_or(usize::MAX, usize::from);
                if self.members.len() >= places {
                    return Err(Refusal::Full);
                }
                self.members.push((who, State::Here([session].into())));
                self.owner.get_or_insert(who);
            }
        }
        Ok(())
    }

    /// True if that was the last session.
    fn detach(&mut self, who: u8, session: u8) -> bool {
        match self.state(who) {
            Some(State::Here(sessions)) => sessions.remove(&session) && sessions.is_empty(),
            _ => false,
        }
    }

    /// Nobody of a user is there any more.
    fn depart(&mut self, who: u8) {
        let awaited = self.awaited.iter().filter(|lost| lost.0 == who);
        match awaited.map(|lost| lost.2).max() {
            Some(until) => *self.state(who).expect("a member") = State::Away(until),
            None => self.remove(who),
        }
    }

    fn remove(&mut self, who: u8) {
        self.awaited.retain(|lost| lost.0 != who);
        self.members.retain(|(name, _)| *name != who);
        if self.lock == Some(who) {
            self.lock = None;
        }
        if self.owner == Some(who) {
            self.owner = self.members.first().map(|(name, _)| *name);
        }
        if self.members.is_empty() {
            let now = self.now;
            *self = Self {
                now,
                ..Self::default()
            };
        }
    }

    fn wait(&mut self, secs: u64) {
        self.now += secs;
        let now = self.now;
        self.awaited.retain(|lost| lost.2 > now);
        let overdue = |state: &State| matches!(state, State::Away(until) if *until <= now);
        let gone: Vec<u8> = self
            .members
            .iter()
            .filter(|(_, state)| overdue(state))
            .map(|(name, _)| *name)
            .collect();
        for who in gone {
            self.remove(who);
        }
    }
}

fn name(who: u8) -> String {
    format!("u{who}")
}

fn number(who: u8, session: u8) -> u64 {
    u64::from(who) * 10 + u64::from(session)
}

/// Does a step on both sides; the answers must be equal.
fn take(model: &mut Model, hall: &mut Hall, step: &Step) {
    let exists = !model.members.is_empty();
    match *step {
        Step::Join(who, session) => assert_eq!(
            hall.join(&name(who), number(who, session), "r"),
            model.join(who, session)
        ),
        Step::Leave(who, session) => {
            hall.leave(&name(who), number(who, session), "r");
            if model.detach(who, session) {
                model.depart(who);
            }
        }
        Step::Lost(who, session) => {
            hall.lost(&name(who), number(who, session), "r");
            if matches!(model.state(who), Some(State::Here(all)) if all.contains(&session)) {
                let until = model.now + GRACE_SECS;
                model.awaited.push((who, session, until));
            }
            if model.detach(who, session) {
                model.depart(who);
            }
        }
        Step::Lock(who) => {
            let done = hall.act("r", |room, out| room.lock(user(&name(who)), "p", out));
            let may = model.is_here(who) && model.lock.is_none_or(|holder| holder == who);
            assert_eq!(done.is_ok(), may);
            if may {
                model.lock = Some(who);
            }
        }
        Step::Unlock(who) => {
            let done = hall.act("r", |room, out| room.unlock(user(&name(who)), "p", out));
            let may = exists
                && model
                    .lock
                    .is_some_and(|holder| holder == who || model.owner == Some(who));
            assert_eq!(done.is_ok(), may);
            if may {
                model.lock = None;
            }
        }
        Step::Set(who) => {
            let done = hall.act("r", |room, out| {
                room.set(
                    user(&name(who)),
                    "p",
                    Some(json!(who)),
                    &Condition::Always,
                    out,
                )
            });
            let inside = exists && (model.is_here(who) || model.owner == Some(who));
            assert_eq!(
                done.is_ok(),
                inside && model.lock.is_none_or(|holder| holder == who)
            );
        }
        Step::Kick(who, whom) => {
            let done = hall.act("r", |room, out| {
                room.kick(user(&name(who)), &name(whom), out)
            });
            let may = model.owner == Some(who) && model.state(whom).is_some();
            assert_eq!(done.is_ok(), may);
            if may {
                model.remove(whom);
            }
        }
        Step::Capacity(who, places) => {
            let change = Change::Capacity(Some(places.into()));
            let done = hall.act("r", |room, out| room.change(user(&name(who)), change, out));
            assert_eq!(done.is_ok(), model.owner == Some(who));
            if done.is_ok() {
                model.capacity = Some(places);
            }
        }
        Step::Wait(secs) => {
            model.wait(secs.into());
            hall.at(model.now);
        }
    }
}

/// The retained topics say what the model says.
fn compare(model: &Model, hall: &Hall) {
    let shown: BTreeMap<String, String> = hall
        .retained
        .keys()
        .filter_map(|topic| topic.strip_prefix("$room/r/member/"))
        .map(|who| {
            let state = hall
                .retained(&format!("$room/r/member/{who}"))
                .expect("shown");
            (who.into(), state["state"].as_str().expect("text").into())
        })
        .collect();
    let expected: BTreeMap<String, String> = model
        .members
        .iter()
        .map(|(who, state)| match state {
            State::Here(_) => (name(*who), "here".into()),
            State::Away(_) => (name(*who), "away".into()),
        })
        .collect();
    assert_eq!(shown, expected);
    match hall.rooms.get("r") {
        None => assert_eq!(hall.topics(), Vec::<String>::new()),
        Some(room) => {
            let order: Vec<String> = model.members.iter().map(|(who, _)| name(*who)).collect();
            let members: Vec<String> = room.members().iter().map(|m| m.to_string()).collect();
            assert_eq!(members, order);
            let listed = hall.listed("r");
            assert_eq!(listed["members"], model.members.len());
            assert_eq!(listed["owner"], model.owner.map(name).expect("owned"));
            let lock = room.property("p").and_then(|p| p.lock.clone());
            assert_eq!(lock.as_deref(), model.lock.map(name).as_deref());
        }
    }
}

proptest! {
    #[test]
    fn a_room_is_what_the_model_says(steps in prop::collection::vec(step(), 1..80)) {
        let mut model = Model::default();
        let mut hall = Hall::default();
        for step in &steps {
            take(&mut model, &mut hall, step);
            compare(&model, &hall);
        }
    }

    /// Whatever comes and goes, a name that is to be unique is held by one session at most.
    #[test]
    fn a_unique_name_is_held_once(
        replace in any::<bool>(),
        steps in prop::collection::vec((any::<bool>(), 0..4u64), 1..60),
    ) {
        let policy = if replace { Uniqueness::Replace } else { Uniqueness::Refuse };
        let mut presence = Presence::new(policy);
        let mut out = Vec::new();
        let mut holder = None;
        for (arrives, number) in steps {
            if arrives {
                let verdict = presence.arrive("ann", session(number), 0, &mut out);
                let expected = match holder {
                    None => Verdict::Admitted,
                    Some(other) if other == number => Verdict::Admitted,
                    Some(other) if replace => Verdict::Replaced(vec![session(other)]),
                    Some(_) => Verdict::Refused,
                };
                if expected != Verdict::Refused {
                    holder = Some(number);
                }
                prop_assert_eq!(verdict, expected);
            } else {
                presence.depart("ann", session(number), &mut out);
                holder = holder.filter(|other| *other != number);
            }
            let sessions: Vec<_> = holder.into_iter().map(session).collect();
            prop_assert_eq!(presence.sessions("ann"), sessions);
        }
    }
}

#[test]
fn presence_is_shown_from_the_first_session_to_the_last() {
    let mut hall = Hall::default();
    let mut presence = Presence::new(Uniqueness::Many);
    let mut out = Vec::new();
    assert_eq!(
        presence.arrive("a/b", session(1), 2, &mut out),
        Verdict::Admitted
    );
    assert_eq!(
        presence.arrive("a/b", session(2), 2, &mut out),
        Verdict::Admitted
    );
    assert_eq!(
        presence.arrive("a/b", session(3), 2, &mut out),
        Verdict::Refused
    );
    presence.depart("a/b", session(1), &mut out);
    assert_eq!(out.len(), 1);
    hall.apply(std::mem::take(&mut out));
    assert_eq!(
        hall.retained("$presence/a%2fb"),
        Some(json!({"state": "online"}))
    );
    presence.depart("a/b", session(2), &mut out);
    hall.apply(out);
    assert_eq!(hall.topics(), Vec::<String>::new());
}
