//! What is known outside the server: who was told what, and who has received what.

use std::collections::{BTreeMap, BTreeSet};

use super::subscriber::{Kind, SUBSCRIBERS};

/// A message: its publisher, and its number among all of that publisher.
pub(super) type Serial = (usize, u64);

/// What was published.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) topic: &'static str,
    /// Its publisher has sent it more than once at QoS 1: each time is a message of its own.
    pub(super) is_repeated: bool,
    pub(super) is_acknowledged: bool,
}

/// What one subscriber has received.
#[derive(Clone, Debug, Default)]
struct Received {
    /// How often each message was new to it.
    times: BTreeMap<Serial, u32>,
    /// The newest of each publisher and topic.
    newest: BTreeMap<(usize, &'static str), u64>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Oracle {
    sent: BTreeMap<Serial, Sent>,
    acknowledged: u64,
    received: Vec<Received>,
    /// How often each will came; and those that have to come, or must not.
    wills: BTreeMap<String, u32>,
    due: BTreeSet<String>,
    withdrawn: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Default for Oracle {
    fn default() -> Self {
        Self {
            sent: BTreeMap::new(),
            acknowledged: 0,
            received: vec![Received::default(); SUBSCRIBERS.len()],
            wills: BTreeMap::new(),
            due: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            wrong: Vec::new(),
        }
    }
}

impl Oracle {
    /// A publisher sends a message, perhaps again.
    pub(super) fn sends(&mut self, serial: Serial, topic: &'static str, qos: u8) {
        self.sent
            .entry(serial)
            .and_modify(|sent| sent.is_repeated |= qos == 1)
            .or_insert(Sent {
                topic,
                is_repeated: false,
                is_acknowledged: false,
            });
    }

    /// PUBACK or PUBREC has come.
    pub(super) fn acknowledges(&mut self, serial: Serial) {
        if let Some(sent) = self.sent.get_mut(&serial) {
            self.acknowledged += u64::from(!sent.is_acknowledged);
            sent.is_acknowledged = true;
        }
    }

    /// How many messages were acknowledged.
    pub(super) const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// A message that was new to a subscriber, by the rules of its QoS.
    pub(super) fn receives(&mut self, who: usize, serial: Serial, qos: u8) {
        let Some(sent) = self.sent.get(&serial) else {
            return self
                .wrong
                .push(format!("{serial:?} came, and nobody has sent it"));
        };
        let received = &mut self.received[who];
        let times = received.times.entry(serial).or_default();
        *times += 1;
        let subscriber = &SUBSCRIBERS[who];
        // A member may be served what another one had received just before a kill.
        let is_once = qos == 2 && !sent.is_repeated && subscriber.kind != Kind::Shared;
        if is_once && *times > 1 {
            let told = format!("{} got {serial:?} {times} times at QoS 2", subscriber.id);
            self.wrong.push(told);
        }
        if *times > 1 || subscriber.kind == Kind::Shared {
            return;
        }
        let newest = received.newest.entry((serial.0, sent.topic)).or_insert(0);
        if serial.1 < *newest {
            let told = format!("{} got {serial:?} after {newest}: {sent:?}", subscriber.id);
            self.wrong.push(told);
        }
        *newest = serial.1.max(*newest);
    }

    /// Something that is not as it was promised.
    pub(super) fn is_not_so(&mut self, told: String) {
        self.wrong.push(told);
    }

    /// A client with a will is connected when the server is killed, and stays away.
    pub(super) fn leaves_a_will(&mut self, will: String) {
        self.due.insert(will);
    }

    /// A client has disconnected in order.
    pub(super) fn withdraws(&mut self, will: String) {
        self.withdrawn.insert(will);
    }

    /// A will was published, at QoS 2.
    pub(super) fn publishes_will(&mut self, will: String) {
        let times = self.wills.entry(will.clone()).or_default();
        *times += 1;
        if *times > 1 {
            self.wrong
                .push(format!("the will {will} came {times} times"));
        }
        if self.withdrawn.contains(&will) {
            self.wrong
                .push(format!("the will {will} came, and was withdrawn"));
        }
    }

    pub(super) fn is_wrong(&self) -> bool {
        !self.wrong.is_empty()
    }

    /// Whether everything has arrived, of all that is settled with its publisher. The will of the
    /// client that is there now is not due.
    pub(super) fn is_complete(&self) -> bool {
        let is_settled = self.sent.values().all(|sent| sent.is_acknowledged);
        is_settled && self.missing().is_empty() && self.missing_wills().len() <= 1
    }

    fn missing_wills(&self) -> Vec<&String> {
        let all = self.due.iter();
        all.filter(|will| !self.wills.contains_key(*will)).collect()
    }

    /// Acknowledged messages that somebody lacks, as text.
    fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (serial, sent) in self.sent.iter().filter(|(_, sent)| sent.is_acknowledged) {
            let has = |who: usize| self.received[who].times.contains_key(serial);
            let all = SUBSCRIBERS.iter().enumerate();
            let of = |kind| all.clone().filter(move |(_, it)| it.kind == kind);
            for (who, subscriber) in of(Kind::Own) {
                if subscriber.takes(sent.topic) && !has(who) {
                    missing.push(format!("{} lacks {serial:?}: {sent:?}", subscriber.id));
                }
            }
            let is_shared = of(Kind::Shared).any(|(_, it)| it.takes(sent.topic));
            if is_shared && !of(Kind::Shared).any(|(who, _)| has(who)) {
                missing.push(format!("no member has {serial:?}: {sent:?}"));
            }
        }
        missing
    }

    /// That all is so.
    ///
    /// # Panics
    /// If it is not.
    pub(super) fn check(&self, seed: u64) {
        let wrong = &self.wrong;
        assert!(wrong.is_empty(), "STENTOR_SEED={seed}: {wrong:#?}");
        let missing = self.missing();
        assert!(missing.is_empty(), "STENTOR_SEED={seed}: {missing:#?}");
        let wills = self.missing_wills();
        assert!(
            wills.len() <= 1,
            "STENTOR_SEED={seed}: not published: {wills:?}"
        );
        for (who, subscriber) in SUBSCRIBERS.iter().enumerate() {
            for serial in self.received[who].times.keys() {
                let sent = &self.sent[serial];
                let is_for = subscriber.takes(sent.topic);
                assert!(
                    is_for,
                    "STENTOR_SEED={seed}: {} got {sent:?}",
                    subscriber.id
                );
            }
        }
        let acknowledged = self.acknowledged;
        eprintln!(
            "{acknowledged} messages were acknowledged, {} wills came",
            self.wills.len()
        );
    }
}

/// Each fault is seen.
#[test]
fn the_oracle_sees_what_is_lost_twice_or_out_of_order() {
    // In the order of the list: `s1` takes `t/+` at QoS 2, and the members share.
    const S1: usize = 1;
    let sound = || {
        let mut oracle = Oracle::default();
        for number in [1, 2] {
            oracle.sends((0, number), "t/0", 2);
            oracle.acknowledges((0, number));
            for (who, subscriber) in SUBSCRIBERS.iter().enumerate() {
                let is_for = subscriber.takes("t/0");
                let is_left = subscriber.kind == Kind::Shared && subscriber.id != "m0";
                if is_for && !is_left && (who != S1 || number == 2) {
                    oracle.receives(who, (0, number), 2);
                }
            }
        }
        oracle
    };
    assert_eq!(sound().missing().len(), 1, "s1 lacks the first");
    let mut late = sound();
    late.receives(S1, (0, 1), 2);
    assert!(late.missing().is_empty() && late.is_wrong(), "{late:?}");
    let mut twice = sound();
    assert!(!twice.is_wrong());
    twice.receives(S1, (0, 2), 2);
    assert!(twice.is_wrong());
    // At QoS 1, a message that was sent again is another one.
    let mut again = sound();
    again.sends((0, 2), "t/0", 1);
    again.receives(S1, (0, 2), 2);
    assert!(!again.is_wrong());
    for wills in [["one", "one"], ["two", "left"]] {
        let mut oracle = sound();
        oracle.withdraws("left".into());
        for will in wills {
            oracle.publishes_will(will.into());
        }
        assert!(oracle.is_wrong(), "{wills:?}");
    }
}
