//! How long and how deep the topics of messages may be that are put by command.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::config::Limits;

/// The bounds of a configuration on topics, which a PUBLISH has to keep to as well.
#[derive(Debug)]
pub(crate) struct TopicBounds {
    bytes_max: AtomicUsize,
    levels_max: AtomicUsize,
    packet_bytes_max: AtomicUsize,
}

impl TopicBounds {
    /// Those of a configuration.
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            bytes_max: AtomicUsize::new(limits.topic_bytes.into()),
            levels_max: AtomicUsize::new(limits.topic_levels.into()),
            packet_bytes_max: AtomicUsize::new(limits.packet_bytes as usize),
        }
    }

    /// Takes over those of another one.
    pub(crate) fn set(&self, limits: &Limits) {
        let (bytes, levels) = (limits.topic_bytes, limits.topic_levels);
        self.bytes_max.store(bytes.into(), Ordering::Relaxed);
        self.levels_max.store(levels.into(), Ordering::Relaxed);
        let bytes = limits.packet_bytes as usize;
        self.packet_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Refuses a message whose topic, properties and payload are larger than a packet may be.
    pub(crate) fn check_packet(&self, bytes: usize) -> Result<(), String> {
        let max = self.packet_bytes_max.load(Ordering::Relaxed);
        match bytes > max {
            true => Err(format!(
                "it has {bytes} bytes, and limits.packet_bytes allows {max}"
            )),
            false => Ok(()),
        }
    }

    /// Refuses a topic beyond them.
    pub(crate) fn check(&self, topic: &str) -> Result<(), String> {
        let (bytes, levels) = (topic.len(), topic.split('/').count());
        for (count, max, key) in [
            (bytes, &self.bytes_max, "topic_bytes"),
            (levels, &self.levels_max, "topic_levels"),
        ] {
            let max = max.load(Ordering::Relaxed);
            if count > max {
                let what = key.trim_start_matches("topic_");
                return Err(format!(
                    "the topic has {count} {what}, and limits.{key} allows {max}"
                ));
            }
        }
        Ok(())
    }
}
