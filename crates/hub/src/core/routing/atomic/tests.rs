//! A publisher's shard keeps a message and forwards it, while another shard subscribes: in every
//! order, with every delay of what they write.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use stentor_topic::{TopicHasher, Zone};

use super::model::{AtomicU64, Weakening, search, wait_for_the_others};
use crate::core::ids::ShardId;
use crate::core::routing::fence::Fences;
use crate::core::routing::interest::{Interest, InterestTable};

const TOPIC: (Zone, &str) = (Zone(0), "a");
/// Looks of the subscriber's shard into its ring while the publisher's may still work.
const LOOKS: usize = 2;

/// What the shards share. The store and the ring of the mesh are words with their orderings.
#[derive(Default)]
struct Shared {
    table: Arc<InterestTable>,
    /// The version of the last message in the store.
    versions: AtomicU64,
    /// How many messages were put into the ring.
    ring: AtomicU64,
}

impl Shared {
    fn halves(&self, shard: u8) -> (Interest, Fences) {
        let interest = Interest::new(Arc::clone(&self.table), TopicHasher::new(1), shard, 2);
        (interest, Fences::new(Arc::clone(&self.table), shard, 2))
    }

    /// As `publish` does: the message is kept, and those who are interested then get it.
    fn publish(&self) {
        let (interest, mut fences) = self.halves(0);
        fences.begin_put();
        self.versions.fetch_add(1, Ordering::SeqCst);
        if interest.others(TOPIC.0, TOPIC.1).has(ShardId(1)) {
            self.ring.store(1, Ordering::Release);
        }
        fences.forwarded();
    }

    /// As `subscribe` does: interest is raised, the mark of the snapshot is taken, and the snapshot
    /// waits for its fence.
    fn subscribe(&self) -> Result<(), &'static str> {
        let (mut interest, mut fences) = self.halves(1);
        interest.raise(TOPIC.0, TOPIC.1, None);
        let is_kept = self.versions.load(Ordering::SeqCst) > 0;
        let fence = fences.raise();
        let mut is_live = false;
        // Whether the message had come when the snapshot was sent.
        let mut sent = fence.is_none().then_some(false);
        for look in 0..=LOOKS {
            if look == LOOKS {
                wait_for_the_others();
            }
            fences.begin_drain();
            is_live |= self.ring.load(Ordering::Acquire) > 0;
            fences.end_drain();
            if sent.is_none() && fence.as_ref().is_some_and(|fence| fences.is_passed(fence)) {
                sent = Some(is_live);
            }
        }
        match sent {
            None => Err("the snapshot is never sent"),
            Some(_) if !is_kept && !is_live => Err("the message is lost"),
            Some(false) if is_kept && is_live => Err("the message follows its own snapshot"),
            Some(_) => Ok(()),
        }
    }
}

fn run(weaker: impl Fn(&Shared, usize, Ordering) -> Ordering + Send + Sync + 'static) -> Found {
    let shared = Arc::new(Shared::default());
    let weakening: Weakening = {
        let shared = Arc::clone(&shared);
        Arc::new(move |word, ordering| weaker(&shared, word, ordering))
    };
    search(Some(&weakening), |shard| match shard {
        0 => {
            shared.publish();
            Ok(())
        }
        _ => shared.subscribe(),
    })
}

type Found = Result<usize, &'static str>;

#[test]
fn a_message_is_in_the_snapshot_or_comes_live_and_never_after_its_snapshot() {
    let executions = run(|_, _, ordering| ordering);
    // It has looked for something.
    assert!(
        executions.is_ok_and(|count| count > 1_000),
        "{executions:?}"
    );
}

/// The model is not blind: it finds what happens with orderings that are too weak.
#[test]
fn weaker_orderings_are_found() {
    let interest = run(|shared, word, ordering| match ordering {
        Ordering::SeqCst if shared.table.is_interest(word) => Ordering::Release,
        ordering => ordering,
    });
    assert_eq!(interest, Err("the message is lost"));
    let fence = run(|shared, word, ordering| {
        let is_round = !shared.table.is_interest(word)
            && word != shared.ring.place()
            && word != shared.versions.place();
        if is_round {
            Ordering::Relaxed
        } else {
            ordering
        }
    });
    assert_eq!(fence, Err("the message follows its own snapshot"));
}
