//! Putting packets into the output queues of connections.

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use stentor_mqtt::{Packet, Version, encode};
use stentor_session::{Outgoing, Output, Run, Tick};
use stentor_topic::TopicHasher;

use crate::core::delivery::held::Held;
use crate::core::delivery::spool::Spooling;
use crate::core::ids::SessionKey;
use crate::core::sessions::registry::{Flushing, Live};

/// Sessions with output.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) dirty: Vec<SessionKey>,
    /// Those that became dirty while the outbox served a crowd.
    pub(crate) crowd: Vec<SessionKey>,
    /// Those that have got output since this was taken, whether they were dirty or not; `None` if
    /// nobody asks.
    pub(crate) touched: Option<Vec<SessionKey>>,
}

/// What every output shares: the list of dirty sessions, spare queues, and a scratch buffer.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) listed: Listed,
    /// Whether messages are handed to a crowd: others are written to before.
    pub(crate) serves_crowd: bool,
    /// Output that may wait for more.
    pub(crate) held: Held,
    #[expect(
        clippy::vec_box,
        reason = "the boxes move between here and the connections"
    )]
    spare: Vec<Box<Output>>,
    scratch: Vec<u8>,
    /// Sessions that are owed messages which an earlier turn did not allow.
    pub(crate) pumps: VecDeque<SessionKey>,
    /// Keys the topics of what is held back.
    pub(crate) hasher: TopicHasher,
    /// When something that is held back may go, and for whom.
    pub(crate) paces: BinaryHeap<Reverse<(Tick, SessionKey)>>,
    /// When a snapshot asks the store again, and whose.
    pub(crate) fetches: BinaryHeap<Reverse<(Tick, SessionKey)>>,
    /// Sessions whose snapshots wait for their turn. Each stands here once, or once more after it
    /// has come back.
    pub(crate) snapshots: VecDeque<SessionKey>,
    /// Sessions with a snapshot that waits for what other shards have kept.
    pub(crate) fenced: Vec<SessionKey>,
    /// When messages of sessions go to the disk.
    pub(crate) spooling: Spooling,
    /// Sessions that have got their first message that newer ones may replace: see
    /// [`crate::Effects::conflating`].
    pub(crate) conflating: Vec<SessionKey>,
    /// Packets other than PUBLISH that were queued since the start.
    pub(crate) controls: u64,
}

/// How many emptied queues are kept for the next connection with output.
const SPARE_MAX: usize = 4096;

impl Outbox {
    /// Nothing is queued.
    pub(crate) fn new(hasher: TopicHasher) -> Self {
        Self {
            listed: Listed::default(),
            serves_crowd: false,
            held: Held::default(),
            spare: Vec::new(),
            scratch: Vec::new(),
            pumps: VecDeque::new(),
            hasher,
            paces: BinaryHeap::new(),
            fetches: BinaryHeap::new(),
            snapshots: VecDeque::new(),
            fenced: Vec::new(),
            spooling: Spooling::default(),
            conflating: Vec::new(),
            controls: 0,
        }
    }

    #[inline]
    pub(crate) fn publish(&mut self, key: SessionKey, live: &mut Live, outgoing: Outgoing) {
        live.messages.sent += 1;
        self.open(key, live).push_publish(outgoing);
    }

    #[inline]
    pub(crate) fn run(&mut self, key: SessionKey, live: &mut Live, run: Rc<Run>) {
        live.messages.sent += run.len() as u64;
        self.open(key, live).push_run(run);
    }

    /// An empty buffer for [`Outbox::stored`].
    pub(crate) fn scratch(&mut self) -> &mut Vec<u8> {
        self.scratch.clear();
        &mut self.scratch
    }

    /// Queues the whole PUBLISH that is in the scratch buffer, for this connection alone.
    pub(crate) fn stored(&mut self, key: SessionKey, live: &mut Live) {
        let scratch = core::mem::take(&mut self.scratch);
        live.messages.sent += 1;
        self.open(key, live).push_stored(&scratch);
        self.scratch = scratch;
    }

    /// Encodes and queues a packet. One that the encoder refuses, or that is larger than the
    /// client takes [MQTT-3.1.2-24], is left out; `false` then.
    pub(crate) fn packet(&mut self, key: SessionKey, live: &mut Live, packet: &Packet<'_>) -> bool {
        let version = live.version;
        self.encode(version, packet);
        if self.scratch.is_empty() || self.scratch.len() > live.packet_bytes_max as usize {
            return false;
        }
        let scratch = core::mem::take(&mut self.scratch);
        self.open(key, live).push_control(&scratch);
        self.controls += 1;
        self.scratch = scratch;
        true
    }

    fn encode(&mut self, version: Version, packet: &Packet<'_>) {
        self.scratch.clear();
        if encode(version, packet, &mut self.scratch).is_err() {
            self.scratch.clear();
        }
    }

    /// Has a connection flushed at the end of the turn even if it has no output, or later, if all
    /// that it has may wait for more.
    #[inline]
    pub(crate) fn revisit(&mut self, key: SessionKey, live: &mut Live) {
        match (live.flushing, self.held.now_until) {
            (Flushing::Idle, Some(until)) => {
                live.flushing = Flushing::Held;
                self.held.hold(key, until);
            }
            // The messages that it holds may wait for longer.
            (Flushing::Held, Some(until)) if self.held.is_for_longer(key, until) => {
                self.held.hold(key, until);
            }
            (Flushing::Idle | Flushing::Held, None) => {
                live.flushing = Flushing::Listed;
                if self.serves_crowd {
                    self.listed.crowd.push(key);
                } else {
                    self.listed.dirty.push(key);
                }
            }
            (Flushing::Listed | Flushing::Blocked | Flushing::Held, _) => {}
        }
    }

    /// The output queue of a connection, which is dirty from now on.
    #[inline]
    fn open<'a>(&mut self, key: SessionKey, live: &'a mut Live) -> &'a mut Output {
        self.revisit(key, live);
        if let Some(touched) = &mut self.listed.touched
            && touched.last() != Some(&key)
        {
            touched.push(key);
        }
        live.output
            .get_or_insert_with(|| self.spare.pop().unwrap_or_default())
    }

    /// The queue to write a final output into.
    pub(crate) fn final_output(
        &mut self,
        output: Option<Box<Output>>,
        version: Version,
        packet: Option<&Packet<'_>>,
    ) -> Box<Output> {
        let mut output = output.unwrap_or_else(|| self.spare.pop().unwrap_or_default());
        if let Some(packet) = packet {
            self.encode(version, packet);
            output.push_control(&self.scratch);
            self.controls += 1;
        }
        output
    }

    /// Takes an emptied queue back.
    #[inline]
    pub(crate) fn recycle(&mut self, mut output: Box<Output>) {
        if self.spare.len() < SPARE_MAX {
            output.reset();
            self.spare.push(output);
        }
    }
}
