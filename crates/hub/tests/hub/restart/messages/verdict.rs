//! The end of a run: everybody comes back, and what has arrived is compared with what was
//! acknowledged.

use super::*;

impl Simulation {
    /// Everybody comes back and gets what is left.
    pub(super) fn conclude(&mut self) {
        self.mend_disks();
        self.w.set_spool(false);
        self.w.dies_between = false;
        self.crash_onto(Disk::Takes);
        self.w.paused = false;
        for round in 0..600 {
            (0..PUBLISHERS)
                .filter(|who| self.publishers[*who].client.is_none())
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|who| self.connect_publisher(who));
            (0..SUBSCRIBERS.len()).for_each(|who| self.come(who, false));
            self.w.settle();
            if round % 20 == 0 {
                self.w.pass_secs(1);
            }
            (0..PUBLISHERS).for_each(|who| self.read_publisher(who));
            (0..SUBSCRIBERS.len()).for_each(|who| self.read_subscriber(who));
        }
        self.check();
    }

    fn check(&self) {
        for (who, me) in self.subscribers.iter().enumerate() {
            let held = &me.unreleased;
            // A full disk may forget what was received.
            assert!(
                self.disks_change || self.power.was_lost() || held.is_empty(),
                "subscriber {who}: {held:?}"
            );
        }
        let mut newest = BTreeMap::new();
        for (serial, (topic, qos)) in &self.acknowledged {
            if self.uncertain.contains(serial) {
                continue;
            }
            if is_thinned(topic) {
                newest.insert(*topic, *serial);
                continue;
            }
            let mut shared = 0;
            for (who, (_, filter, granted)) in SUBSCRIBERS.iter().enumerate() {
                if self.is_confused(*granted) {
                    continue;
                }
                let times = self.subscribers[who].received.get(serial);
                let times = times.map_or(0, |(times, _)| *times);
                if filter.starts_with("$share") {
                    let before = &self.subscribers[who].before;
                    shared += times + u32::from(before.contains(serial));
                    continue;
                }
                let received = match topic.strip_prefix("$private/to/") {
                    Some(_) => "$private/from/publisher",
                    None => topic,
                };
                let is_for = matches(filter, received);
                let what = format!("{serial} to {topic} at {qos:?} for subscriber {who}");
                assert_eq!(times > 0, is_for, "{what}");
                let is_once = *qos == Q2 && *granted == Q2 && !self.repeated.contains(serial);
                assert!(!is_once || times == u32::from(is_for), "{what}: {times}");
            }
            let is_for = topic.starts_with("t/");
            // One that is confused may have been the one.
            let is_known = !self.power.was_lost();
            assert!(
                !is_known || is_for == (shared > 0),
                "{serial} to {topic} for a member"
            );
        }
        if self.is_confused(Q2) {
            return;
        }
        for (topic, serial) in newest {
            let received = &self.subscribers[9].received;
            // One that was sent again at QoS 1 is newer than what was sent before that.
            let mut again = self.repeated.range(..serial).filter(|older| {
                let of = self.acknowledged.get(older);
                of.is_some_and(|(its, _)| *its == topic)
            });
            let mut newer = self.refused.range(serial..);
            let is_replaced = again.any(|older| received.contains_key(older))
                || newer.any(|(newer, its)| *its == topic && received.contains_key(newer));
            assert!(
                received.contains_key(&serial) || is_replaced,
                "{serial}, the last of {topic}"
            );
        }
    }

    /// After a power loss, a subscriber at QoS 2 may take a new message for an old one.
    fn is_confused(&self, granted: QoS) -> bool {
        granted == Q2 && self.power.was_lost()
    }
}
