//! What has been sent and waits for an acknowledgement.

use std::collections::HashMap;

use stentor_mqtt::{Ack, PacketId, ReasonCode, SubAck};

/// The server's answer to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Success, or what failed; always `Success` in 3.x.
    pub reason: ReasonCode,
    /// The server's own words; 5.0 only.
    pub text: Option<String>,
}

impl Acknowledged {
    pub(crate) fn of(ack: &Ack<'_>) -> Self {
        let text = ack.properties.reason_string().map(str::to_owned);
        Self {
            reason: ack.reason,
            text,
        }
    }
}

/// The state of one packet identifier of this side.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outgoing {
    /// QoS 1: PUBACK is to come.
    PubAck,
    /// QoS 2: PUBREC is to come.
    PubRec,
    /// QoS 2: PUBREL is sent, PUBCOMP is to come; this is what PUBREC said.
    PubComp(Acknowledged),
    /// SUBACK is to come.
    SubAck,
    /// UNSUBACK is to come.
    UnsubAck,
}

/// The packet identifiers of this side.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    last_id: u16,
    outgoing: HashMap<u16, Outgoing>,
    /// Messages that were acknowledged and not asked about yet.
    settled: Vec<(PacketId, Acknowledged)>,
    /// The answer to the one SUBSCRIBE or UNSUBSCRIBE on its way.
    answers: Option<(PacketId, Vec<ReasonCode>)>,
    /// What the server said to it in words.
    pub(crate) answer_text: Option<String>,
}

impl Flow {
    fn begin(&mut self, state: Outgoing) -> PacketId {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if let Some(id) = PacketId::new(self.last_id)
                && !self.outgoing.contains_key(&id.get())
            {
                self.outgoing.insert(id.get(), state);
                return id;
            }
        }
    }

    pub(crate) fn begin_qos1(&mut self) -> PacketId {
        self.begin(Outgoing::PubAck)
    }

    pub(crate) fn begin_qos2(&mut self) -> PacketId {
        self.begin(Outgoing::PubRec)
    }

    pub(crate) fn begin_subscribe(&mut self) -> PacketId {
        self.begin(Outgoing::SubAck)
    }

    pub(crate) fn begin_unsubscribe(&mut self) -> PacketId {
        self.begin(Outgoing::UnsubAck)
    }

    /// Forgets a packet that was not sent after all.
    pub(crate) fn abandon(&mut self, id: PacketId) {
        self.outgoing.remove(&id.get());
    }

    /// Packets that wait for an answer.
    pub(crate) fn outstanding(&self) -> usize {
        self.outgoing.len()
    }

    pub(crate) fn take_settled(&mut self) -> Vec<(PacketId, Acknowledged)> {
        std::mem::take(&mut self.settled)
    }

    pub(crate) fn take_settled_of(&mut self, id: PacketId) -> Option<Acknowledged> {
        let at = self
            .settled
            .iter()
            .position(|(settled, _)| *settled == id)?;
        Some(self.settled.swap_remove(at).1)
    }

    pub(crate) fn take_answers(&mut self, id: PacketId) -> Option<Vec<ReasonCode>> {
        self.answers
            .take_if(|(of, _)| *of == id)
            .map(|(_, answers)| answers)
    }

    pub(crate) fn pub_ack(&mut self, ack: &Ack<'_>) {
        if self.finish(ack.packet_id, &Outgoing::PubAck) {
            self.settled.push((ack.packet_id, Acknowledged::of(ack)));
        }
    }

    /// Says whether PUBREL is to be sent [MQTT-4.3.3-4]. It is, too, for an identifier that an
    /// earlier connection of the session used.
    pub(crate) fn pub_rec(&mut self, ack: &Ack<'_>) -> bool {
        let id = ack.packet_id.get();
        if ack.reason.is_error() {
            if self.finish(ack.packet_id, &Outgoing::PubRec) {
                self.settled.push((ack.packet_id, Acknowledged::of(ack)));
            }
            return false;
        }
        if let Some(state @ Outgoing::PubRec) = self.outgoing.get_mut(&id) {
            *state = Outgoing::PubComp(Acknowledged::of(ack));
        }
        true
    }

    pub(crate) fn pub_comp(&mut self, ack: &Ack<'_>) {
        let id = ack.packet_id.get();
        if let Some(Outgoing::PubComp(received)) = self.outgoing.get(&id) {
            let result = if ack.reason.is_error() {
                Acknowledged::of(ack)
            } else {
                received.clone()
            };
            self.outgoing.remove(&id);
            self.settled.push((ack.packet_id, result));
        }
    }

    pub(crate) fn sub_ack(&mut self, ack: &SubAck<'_>) {
        if self.finish(ack.packet_id, &Outgoing::SubAck) {
            self.answer(ack);
        }
    }

    pub(crate) fn unsub_ack(&mut self, ack: &SubAck<'_>) {
        if self.finish(ack.packet_id, &Outgoing::UnsubAck) {
            self.answer(ack);
        }
    }

    /// Frees the identifier if it is in this state. Answers to nobody are passed over: they may
    /// belong to an earlier connection of the session.
    fn finish(&mut self, id: PacketId, state: &Outgoing) -> bool {
        let expected = self.outgoing.get(&id.get()) == Some(state);
        if expected {
            self.outgoing.remove(&id.get());
        }
        expected
    }

    fn answer(&mut self, ack: &SubAck<'_>) {
        let reasons = ack
            .reasons
            .iter()
            .filter_map(|&byte| ReasonCode::from_u8(byte));
        self.answers = Some((ack.packet_id, reasons.collect()));
        self.answer_text = ack.properties.reason_string().map(str::to_owned);
    }
}
