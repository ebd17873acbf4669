//! What the records tell, compared with what they were written for: random shards that write, clean
//! up and are killed, and then start again with another number of them.

mod restart;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use stentor_mqtt::{PacketId, QoS};

use super::random::Random;
use super::{BODY, PLAIN};
use crate::*;

/// Batches of a file.
const BATCHES: u32 = 12;
/// Bytes that a batch takes at most.
const ROOM: u32 = 1 << 16;
const TOPICS: u64 = 4;
const CLIENTS: u64 = 9;

/// Batches with their places.
type Batches = Vec<(Name, Vec<u8>)>;

/// What a session is to be.
#[derive(Clone, Debug, Default, PartialEq)]
struct Client {
    number: u32,
    /// Where its base is.
    base: u32,
    away: Option<u64>,
    subscriptions: BTreeSet<String>,
    arrived: BTreeSet<u16>,
    next: u64,
    sent: u64,
    owed: BTreeMap<u64, Owing>,
    held: VecDeque<Name>,
    will: Option<String>,
    parts: Option<Parted>,
}

/// What was written of a queue before the base of its session.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parted {
    count: u32,
    /// The number to go on with.
    to: u64,
    /// The file of the first part.
    file: u32,
}

#[derive(Clone, Debug, PartialEq)]
enum Owing {
    Message(Name),
    Release,
}

fn owed_as<'a>((delivery, owing): (&u64, &Owing)) -> Owed<'a> {
    Owed {
        delivery: *delivery,
        packet_id: None,
        debt: match owing {
            Owing::Message(name) => Debt::Message(*name, PLAIN, None),
            Owing::Release => Debt::Release,
        },
    }
}

fn held_as<'a>(name: &Name) -> HeldBack<'a> {
    HeldBack {
        name: *name,
        terms: Terms {
            held: true,
            ..PLAIN
        },
    }
}

/// A shard, and what has been appended to its journal.
#[derive(Clone, Debug, Default)]
struct Shard {
    /// By client id.
    clients: BTreeMap<String, Client>,
    numbers: u32,
    files: VecDeque<(u32, Batches)>,
    /// The last that has come from each shard.
    heard: BTreeMap<usize, Name>,
}

struct Model {
    random: Random,
    generation: u32,
    shards: Vec<Shard>,
    /// What lies between two shards.
    rings: BTreeMap<(usize, usize), VecDeque<Name>>,
    /// Topics of all messages, and the file with their last record.
    messages: BTreeMap<Name, (String, u32)>,
    /// Journals of earlier generations.
    old: Vec<(JournalId, Batches)>,
    files: u32,
    /// Whether files are given up.
    cleans: bool,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut model = Self {
            random: Random::new(seed),
            generation: 1,
            shards: Vec::new(),
            rings: BTreeMap::new(),
            messages: BTreeMap::new(),
            old: Vec::new(),
            files: 0,
            cleans: true,
        };
        let shards = 1 + model.random.below(3) as usize;
        model.shards = (0..shards).map(|_| Shard::default()).collect();
        model
    }

    /// Where the next batch of a shard goes.
    fn place(&mut self, shard: usize) -> Name {
        let files = &mut self.shards[shard].files;
        let is_full = |(_, batches): &(u32, Vec<_>)| batches.len() as u32 == BATCHES;
        if files.back().is_none_or(is_full) {
            self.files += 1;
            files.push_back((self.files, Vec::new()));
        }
        let (file, batches) = files.back().unwrap();
        Name {
            file: *file,
            offset: 64 + batches.len() as u32 * ROOM,
        }
    }

    fn append(&mut self, shard: usize, records: &[Record<'_>]) -> Name {
        let at = self.place(shard);
        let mut batch = Vec::new();
        for record in records {
            record.encode(&mut batch);
        }
        let (_, batches) = self.shards[shard].files.back_mut().unwrap();
        batches.push((at, batch));
        at
    }

    fn any_client(&mut self) -> Option<(usize, String)> {
        let shard = self.random.below(self.shards.len() as u64) as usize;
        let clients = &self.shards[shard].clients;
        let index = self.random.below(clients.len().max(1) as u64) as usize;
        Some((shard, clients.keys().nth(index)?.clone()))
    }

    fn client(&mut self, shard: usize, id: &str) -> &mut Client {
        self.shards[shard].clients.get_mut(id).unwrap()
    }

    fn connect(&mut self) {
        let shard = self.random.below(self.shards.len() as u64) as usize;
        let id = format!("c{}", self.random.below(CLIENTS));
        let is_elsewhere = |(i, it): (usize, &Shard)| i != shard && it.clients.contains_key(&id);
        if self.shards.iter().enumerate().any(is_elsewhere) {
            return;
        }
        let is_new = !self.shards[shard].clients.contains_key(&id);
        if is_new {
            let number = self.shards[shard].numbers;
            self.shards[shard].numbers += 1;
            let base = self.place(shard).file;
            let client = Client {
                number,
                base,
                ..Client::default()
            };
            self.shards[shard].clients.insert(id.clone(), client);
        }
        let number = self.client(shard, &id).number;
        let session = session(number, &id);
        let will = self.random.yes().then(|| format!("w/{id}"));
        let mut records = [Record::Session(session), Record::Here { number }].to_vec();
        if let Some(topic) = &will {
            records.push(will_record(number, topic));
        }
        if will.is_none() && !is_new {
            records.push(Record::WillGone { number });
        }
        self.append(shard, &records);
        let client = self.client(shard, &id);
        client.away = None;
        client.will = will;
    }

    fn leave(&mut self, shard: usize, id: &str) {
        let since_ms = self.random.below(1000);
        let client = self.client(shard, id);
        client.away = Some(since_ms);
        let number = client.number;
        self.append(shard, &[away(number, since_ms)]);
    }

    fn end(&mut self, shard: usize, id: &str) {
        let client = self.shards[shard].clients.remove(id).unwrap();
        let number = client.number;
        self.append(shard, &[Record::End { number }]);
    }

    fn subscribe(&mut self, shard: usize, id: &str) {
        let topic = self.topic();
        let client = self.client(shard, id);
        let number = client.number;
        if client.subscriptions.insert(topic.clone()) {
            self.append(shard, &[sub(number, &topic)]);
            return;
        }
        client.subscriptions.remove(&topic);
        let filter = Filter {
            group: None,
            filter: &topic,
        };
        self.append(shard, &[Record::Unsub { number, filter }]);
    }

    fn topic(&mut self) -> String {
        format!("t{}", self.random.below(TOPICS))
    }

    /// Numbers of a shard's sessions that have subscribed to a topic.
    fn recipients(&self, shard: usize, topic: &str) -> Vec<u32> {
        let clients = self.shards[shard].clients.values();
        let those = clients.filter(|client| client.subscriptions.contains(topic));
        those.map(|client| client.number).collect()
    }

    fn owe(&mut self, shard: usize, numbers: &[u32], name: Name, held: bool) {
        for client in self.shards[shard].clients.values_mut() {
            match numbers.contains(&client.number) {
                true if held => client.held.push_back(name),
                true => {
                    client.owed.insert(client.next, Owing::Message(name));
                    client.next += 1;
                }
                false => {}
            }
        }
    }

    fn publish(&mut self, shard: usize, id: &str) {
        let topic = self.topic();
        let numbers = self.recipients(shard, &topic);
        let others = 0..self.shards.len();
        let others: Vec<usize> = others
            .filter(|other| *other != shard && !self.recipients(*other, &topic).is_empty())
            .collect();
        let held = self.random.below(4) == 0;
        let group = [Group {
            terms: Terms { held, ..PLAIN },
            numbers: List::new(&numbers),
        }];
        let packet_id = self.random.yes().then(|| self.random.packet_id());
        let number = self.client(shard, id).number;
        let message = Record::Message(Message {
            body: Body {
                topic: &topic,
                ..BODY
            },
            arrival: packet_id.map(|packet_id| Arrival { number, packet_id }),
            elsewhere: Elsewhere {
                shards: others.iter().map(|other| 1_u64 << other).sum(),
                route: None,
                members: List::default(),
            },
            recipients: List::new(&group),
        });
        // What stands before it in the batch must not matter.
        let name = self.append(shard, &[Record::Heard(List::default()), message]);
        let name = name.within(2);
        self.messages.insert(name, (topic, name.file));
        if let Some(packet_id) = packet_id {
            self.client(shard, id).arrived.insert(packet_id.get());
        }
        self.owe(shard, &numbers, name, held);
        for other in others {
            self.rings
                .entry((shard, other))
                .or_default()
                .push_back(name);
        }
    }

    /// A shard takes the next message of another one.
    fn take(&mut self, from: usize, to: usize) {
        let Some(name) = self
            .rings
            .get_mut(&(from, to))
            .and_then(VecDeque::pop_front)
        else {
            return;
        };
        let topic = self.messages[&name].0.clone();
        self.shards[to].heard.insert(from, name);
        let numbers = self.recipients(to, &topic);
        match numbers.is_empty() {
            true => self.append(to, &[Record::Heard(List::new(&[mark(from, name)]))]),
            false => {
                let record = owe_record(
                    mark(from, name),
                    &numbers,
                    |record, model| model.append(to, &[record]),
                    self,
                );
                self.owe(to, &numbers, name, false);
                record
            }
        };
    }

    fn acknowledge(&mut self, shard: usize, id: &str) {
        let choice = self.random.below(5);
        let index = self.random.next();
        let client = self.client(shard, id);
        let number = client.number;
        let nth = index as usize % client.owed.len().max(1);
        let Some(delivery) = client.owed.keys().copied().nth(nth) else {
            return;
        };
        let it = Delivery { number, delivery };
        let record = match choice {
            0 => {
                client.owed.insert(delivery, Owing::Release);
                Record::Received(it)
            }
            1 | 2 => {
                client.owed.remove(&delivery);
                Record::Gone(it)
            }
            _ => {
                client.owed = client.owed.split_off(&(delivery + 1));
                // Nothing is sent that has no number yet.
                let sent = (delivery + 2).min(client.next);
                client.sent = client.sent.max(sent);
                let front = [Front {
                    number,
                    front: delivery + 1,
                    sent,
                }];
                self.append(shard, &[Record::Acked(List::new(&front))]);
                return;
            }
        };
        self.append(shard, &[record]);
    }

    /// Something is let go, replaced or released.
    fn settle(&mut self, shard: usize, id: &str) {
        let let_go = self.random.yes();
        let client = self.client(shard, id);
        let number = client.number;
        if let Some(name) = client.held.pop_front() {
            let held = Held { number, name };
            let record = match let_go {
                true => {
                    client.owed.insert(client.next, Owing::Message(name));
                    client.next += 1;
                    let conflated = 0;
                    Record::LetGo { held, conflated }
                }
                false => Record::Dropped(held),
            };
            self.append(shard, &[record]);
        } else if let Some(packet_id) = client.arrived.pop_first() {
            let packet_id = PacketId::new(packet_id).unwrap();
            self.append(shard, &[Record::Released(Arrival { number, packet_id })]);
        }
    }

    /// The oldest file of a shard is given up, with new bases and carried bodies.
    fn clean(&mut self, shard: usize) {
        // While an earlier generation counts, the ends of its sessions may not be given up.
        let is_young = !self.old.is_empty();
        if !self.cleans || is_young || self.shards[shard].files.len() < 2 {
            return;
        }
        let oldest = self.shards[shard].files[0].0;
        for client in self.shards[shard].clients.values_mut() {
            client.parts.take_if(|parts| parts.file <= oldest);
        }
        let clients = self.shards[shard].clients.iter();
        let stale: Vec<String> = clients
            .filter(|(_, client)| client.base <= oldest)
            .map(|(id, _)| id.clone())
            .collect();
        for id in stale {
            self.rebase(shard, &id);
        }
        self.carry_from(shard, oldest);
        let heard = self.shards[shard].heard.iter();
        let heard: Vec<Mark> = heard.map(|(from, name)| mark(*from, *name)).collect();
        self.append(shard, &[Record::Heard(List::new(&heard))]);
        self.shards[shard].files.pop_front();
    }

    /// Another part of a queue is written down, or the first one.
    fn part(&mut self, shard: usize, id: &str) {
        let file = self.place(shard).file;
        let (begins, at_most) = (self.random.below(3) == 0, self.random.below(4) as usize);
        let client = self.client(shard, id);
        let fresh = Parted {
            count: 0,
            to: 0,
            file,
        };
        let mut parts = client.parts.filter(|_| !begins).unwrap_or(fresh);
        let waiting = client.owed.range(parts.to..).take(at_most);
        let owed: Vec<Owed<'_>> = waiting.map(owed_as).collect();
        // All that is held back is in each part, and all subscriptions.
        let held = client.held.iter().map(held_as);
        let held: Vec<HeldBack<'_>> = held.collect();
        let number = client.number;
        let subs = client.subscriptions.clone();
        let record = Record::Part(Part {
            number: client.number,
            place: parts.count,
            shares: List::default(),
            owed: List::new(&owed),
            held: List::new(&held),
        });
        parts.count += 1;
        parts.to = owed.last().map_or(parts.to, |it| it.delivery + 1);
        client.parts = Some(parts);
        let mut records = [record].to_vec();
        records.extend(subs.iter().map(|topic| sub(number, topic)));
        self.append(shard, &records);
    }

    fn rebase(&mut self, shard: usize, id: &str) {
        let base = self.place(shard).file;
        let client = self.client(shard, id);
        let parts = client.parts.take();
        client.base = parts.map_or(base, |parts| parts.file);
        let client = client.clone();
        let number = client.number;
        let mut records = [Record::Base(session(number, id))].to_vec();
        records.extend(client.away.map(|since_ms| away(number, since_ms)));
        let is_whole = parts.is_none();
        let subscriptions = client.subscriptions.iter().filter(|_| is_whole);
        records.extend(subscriptions.map(|topic| sub(number, topic)));
        records.extend(client.will.iter().map(|topic| will_record(number, topic)));
        for packet_id in &client.arrived {
            let packet_id = PacketId::new(*packet_id).unwrap();
            records.push(Record::Arrived(Arrival { number, packet_id }));
        }
        let in_parts = 0..parts.map_or(0, |parts| parts.to);
        let owed = client.owed.iter().map(owed_as);
        let owed = owed.filter(|it| !in_parts.contains(&it.delivery));
        let owed: Vec<_> = owed.collect();
        let held = client.held.iter().filter(|_| is_whole).map(held_as);
        let held: Vec<_> = held.collect();
        records.push(Record::Queue(Queue {
            number,
            next: client.next,
            sent: client.sent,
            shares: List::default(),
            owed: List::new(&owed),
            held: List::new(&held),
        }));
        records.extend(parts.map(|parts| {
            Record::Parts(Parts {
                number,
                count: parts.count,
                from: 0,
                to: parts.to,
            })
        }));
        self.append(shard, &records);
    }

    /// Whether somebody is owed a message, or a shard has not had it yet.
    fn is_live(&self, name: Name) -> bool {
        let in_rings = self.rings.values().any(|ring| ring.contains(&name));
        let mut clients = self.shards.iter().flat_map(|shard| shard.clients.values());
        in_rings
            || clients.any(|client| {
                client.held.contains(&name)
                    || client.owed.values().any(|it| *it == Owing::Message(name))
            })
    }

    fn carry_from(&mut self, shard: usize, file: u32) {
        let those = self.messages.iter().filter(|(_, (_, at))| *at == file);
        let those: Vec<Name> = those.map(|(name, _)| *name).collect();
        for name in those {
            if self.is_live(name) {
                self.carry(shard, name);
            } else {
                self.messages.remove(&name);
            }
        }
    }

    fn carry(&mut self, shard: usize, name: Name) {
        let at = self.place(shard).file;
        let message = self.messages.get_mut(&name).unwrap();
        message.1 = at;
        let topic = message.0.clone();
        let rings = self.rings.iter();
        let waits = rings.filter(|((from, _), ring)| *from == shard && ring.contains(&name));
        let shards = waits.map(|((_, to), _)| 1_u64 << to).sum();
        let carry = Record::Carry(Carry {
            name,
            body: Body {
                topic: &topic,
                ..BODY
            },
            elsewhere: Elsewhere {
                shards,
                route: None,
                members: List::default(),
            },
        });
        self.append(shard, &[carry]);
    }

    fn step(&mut self) {
        let choice = self.random.below(23);
        if choice == 0 {
            return self.connect();
        }
        let Some((shard, id)) = self.any_client() else {
            return self.connect();
        };
        match choice {
            1 => self.leave(shard, &id),
            2 if self.random.below(4) == 0 => self.end(shard, &id),
            3 | 4 => self.subscribe(shard, &id),
            5..10 => self.publish(shard, &id),
            10..13 => {
                let from = self.random.below(self.shards.len() as u64) as usize;
                self.take(from, shard);
            }
            13..17 => self.acknowledge(shard, &id),
            17 | 18 => self.settle(shard, &id),
            20..23 => self.part(shard, &id),
            _ => self.clean(shard),
        }
    }
}

fn mark(shard: usize, name: Name) -> Mark {
    let shard = u8::try_from(shard).unwrap();
    Mark { shard, name }
}

fn owe_record(
    mark: Mark,
    numbers: &[u32],
    append: impl FnOnce(Record<'_>, &mut Model) -> Name,
    model: &mut Model,
) -> Name {
    let groups = [Group {
        terms: PLAIN,
        numbers: List::new(numbers),
    }];
    let owe = Owe {
        name: mark.name,
        from: mark.shard,
        sent_by: None,
        recipients: List::new(&groups),
    };
    append(Record::Owe(owe), model)
}

fn session(number: u32, client_id: &str) -> Session<'_> {
    Session {
        number,
        client_id,
        ..super::SESSION
    }
}

fn away(number: u32, since_ms: u64) -> Record<'static> {
    Record::Away(Away {
        number,
        since_ms,
        until_ms: None,
        will_at_ms: None,
    })
}

fn sub(number: u32, filter: &str) -> Record<'_> {
    Record::Sub(Subscription {
        number,
        filter: Filter {
            group: None,
            filter,
        },
        qos: QoS::AtLeastOnce,
        no_local: false,
        retain_as_published: false,
        snapshot: false,
        room: false,
        identifier: None,
        interval_micros: 0,
    })
}

fn will_record(number: u32, topic: &str) -> Record<'_> {
    Record::Will(Will {
        number,
        topic,
        properties: &[],
        payload: &[],
        qos: QoS::AtMostOnce,
        retain: false,
        delay_secs: 0,
        expiry_secs: None,
    })
}

fn replay(journals: &[(JournalId, Batches)]) -> Restored<Name> {
    let mut replay = Replay::new();
    for (id, batches) in journals {
        replay.journal(*id);
        for (at, batch) in batches {
            replay.batch(*at, batch).unwrap();
        }
    }
    replay.finish(|name, _| name)
}

#[test]
fn what_was_appended_is_there_after_kills() {
    for seed in 0..150 {
        std::eprintln!("seed {seed}");
        let mut model = Model::new(seed);
        for _ in 0..4 {
            for _ in 0..model.random.below(250) {
                model.step();
            }
            model.restart();
            if model.random.yes() {
                model.forget();
            }
        }
        model.check(&replay(&model.journals()));
    }
}

/// After a power loss, a journal may end earlier than the others. What others say of messages that
/// are not there is no damage, and nobody is owed anything that was not written.
#[test]
fn a_journal_that_ends_early_is_no_damage() {
    for seed in 0..100 {
        std::eprintln!("seed {seed}");
        let mut model = Model::new(seed);
        // A file is used again after the disk has all that follows it.
        model.cleans = false;
        for _ in 0..150 {
            model.step();
        }
        let mut journals = model.journals();
        let whole = replay(&journals);
        let cut = model.random.below(journals.len() as u64) as usize;
        let len = journals[cut].1.len() as u64;
        let kept = model.random.below(len + 1) as usize;
        journals[cut].1.truncate(kept);
        let restored = replay(&journals);
        assert_eq!(restored.damage, []);
        let other = |it: &&RestoredSession<Name>| usize::from(it.origin.shard) != cut;
        let now = restored.sessions.iter().filter(other);
        for (now, before) in now.zip(whole.sessions.iter().filter(other)) {
            assert_eq!((now.lost, now.may_lack.len()), (0, 0));
            assert_eq!(now.subscriptions, before.subscriptions);
            assert!(now.owed.iter().all(|it| before.owed.contains(it)));
        }
    }
}
