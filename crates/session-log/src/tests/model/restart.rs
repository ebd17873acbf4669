//! Starts after a kill: what is read back is compared, and written on.

use super::*;

impl Model {
    /// All journals, as a start finds them.
    pub(super) fn journals(&self) -> Vec<(JournalId, Batches)> {
        let new = self.shards.iter().enumerate().map(|(shard, it)| {
            let batches = it.files.iter().flat_map(|(_, batches)| batches.clone());
            (self.journal(shard), batches.collect())
        });
        self.old.iter().cloned().chain(new).collect()
    }

    fn journal(&self, shard: usize) -> JournalId {
        JournalId {
            generation: self.generation,
            shard: shard as u16,
        }
    }

    /// Compares what is read with what there was.
    pub(super) fn check(&self, restored: &Restored<Name>) {
        assert_eq!(restored.damage, []);
        let mut clients = BTreeMap::new();
        for session in &restored.sessions {
            assert_eq!((session.lost, session.may_lack.len()), (0, 0));
            clients.insert(String::from(&*session.client_id), session);
        }
        let shards = self.shards.iter().flat_map(|shard| &shard.clients);
        let expected: BTreeMap<_, _> = shards.collect();
        assert_eq!(
            clients.keys().collect::<Vec<_>>(),
            expected.keys().copied().collect::<Vec<_>>()
        );
        for (id, client) in expected {
            client.check(clients[id]);
        }
        let unheard: BTreeSet<_> = restored
            .unheard
            .iter()
            .map(|it| (it.name, usize::from(it.shard)))
            .collect();
        let in_rings: BTreeSet<_> = self
            .rings
            .iter()
            .flat_map(|((_, to), ring)| {
                let to = *to;
                let has_sessions = !self.shards[to].clients.is_empty();
                let names = ring.iter().filter(move |_| has_sessions);
                names.map(move |name| (*name, to))
            })
            .collect();
        assert_eq!(unheard, in_rings);
    }

    /// All shards are killed, and others take their place.
    pub(super) fn restart(&mut self) {
        let journals = self.journals();
        let restored = replay(&journals);
        self.check(&restored);
        self.old = journals;
        self.generation += 1;
        let shards = 1 + self.random.below(3) as usize;
        let before = core::mem::take(&mut self.shards);
        self.shards = (0..shards).map(|_| Shard::default()).collect();
        let known = before.into_iter().flat_map(|shard| shard.clients);
        let mut known: BTreeMap<String, Client> = known.collect();
        let rings = core::mem::take(&mut self.rings);
        for session in &restored.sessions {
            let mut client = known.remove(&*session.client_id).unwrap();
            let shard = self.random.below(shards as u64) as usize;
            let number = self.shards[shard].numbers;
            self.shards[shard].numbers += 1;
            let origin = session.origin;
            let again = rings
                .iter()
                .filter(|((_, to), _)| *to == usize::from(origin.shard));
            let again: Vec<Name> = again
                .flat_map(|(_, ring)| ring.iter().copied())
                .filter(|name| client.subscriptions.contains(&self.messages[name].0))
                .collect();
            // In one batch, so that a message is routed again once.
            let numbers = [number];
            let groups = [Group {
                terms: PLAIN,
                numbers: List::new(&numbers),
            }];
            let mut records = [Record::Adopted { number, origin }].to_vec();
            for name in again {
                client.owed.insert(client.next, Owing::Message(name));
                client.next += 1;
                records.push(Record::Owe(Owe {
                    name,
                    // Of an earlier generation: whatever shard this says, nothing follows.
                    from: 0,
                    sent_by: None,
                    recipients: List::new(&groups),
                }));
            }
            client.sent = session.sent;
            records.extend(client.away.is_none().then_some(away(number, 7)));
            client.away.get_or_insert(7);
            let sent = [Front {
                number,
                front: 0,
                sent: client.sent,
            }];
            records.push(Record::Acked(List::new(&sent)));
            client.number = number;
            // Its base is in no file of this journal.
            client.base = 0;
            client.parts = None;
            self.append(shard, &records);
            self.shards[shard]
                .clients
                .insert((*session.client_id).into(), client);
        }
    }

    /// What is only in journals of earlier generations is written once more.
    pub(super) fn forget(&mut self) {
        for shard in 0..self.shards.len() {
            let clients = self.shards[shard].clients.iter();
            let stale: Vec<String> = clients
                .filter(|(_, client)| client.base == 0)
                .map(|(id, _)| id.clone())
                .collect();
            for id in stale {
                self.rebase(shard, &id);
            }
        }
        let own = self
            .shards
            .iter()
            .flat_map(|it| it.files.iter().map(|(file, _)| *file));
        let own: BTreeSet<u32> = own.collect();
        let old: Vec<Name> = self
            .messages
            .iter()
            .filter(|(_, (_, file))| !own.contains(file))
            .map(|(name, _)| *name)
            .collect();
        for name in old {
            match self.is_live(name) {
                true => self.carry(0, name),
                false => drop(self.messages.remove(&name)),
            }
        }
        self.old.clear();
    }
}

impl Client {
    fn check(&self, session: &RestoredSession<Name>) {
        let presence = match self.away {
            None => Presence::Here,
            Some(since_ms) => Presence::Away {
                since_ms,
                until_ms: None,
                will_at_ms: None,
            },
        };
        assert_eq!(session.presence, presence);
        let subscriptions = session.subscriptions.iter().map(|it| &*it.filter);
        assert!(subscriptions.eq(self.subscriptions.iter().map(String::as_str)));
        let arrived = session.arrived.iter().map(|it| it.get());
        assert!(arrived.eq(self.arrived.iter().copied()));
        assert_eq!(session.next, self.next);
        match self.away {
            None => assert_eq!(session.sent, self.next),
            Some(_) => assert_eq!(session.sent, self.sent),
        }
        let owed = session.owed.iter().map(|it| {
            assert_eq!(it.packet_id, packet_id_of(it.delivery));
            let owing = match &it.debt {
                RestoredDebt::Message(name, _) => Owing::Message(*name),
                RestoredDebt::Release => Owing::Release,
            };
            (it.delivery, owing)
        });
        assert_eq!(owed.collect::<BTreeMap<_, _>>(), self.owed);
        let held = session.held.iter().map(|it| it.message);
        assert!(held.eq(self.held.iter().copied()));
        let will = session.will.as_ref().map(|will| &*will.topic);
        assert_eq!(will, self.will.as_deref());
    }
}
