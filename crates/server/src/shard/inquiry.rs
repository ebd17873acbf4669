//! Answers to the control plane.

use std::sync::Arc;

use stentor_hub::survey::{
    audience_of, clock_ms, each_client_from, filters_from, filters_matching, granted_from,
    heaviest_publishers, heaviest_topics, holders_from, losses_of, queued_from, session_of,
    shared_members, zone_figures_from,
};
use stentor_hub::{
    ClientInfo, Kept, LossCause, NotKept, Part, QueuePlace, SeenClient, ask_rooms, publish_for,
};
use stentor_session::Message;
use stentor_topic::Zone;

use super::Shard;
use super::asked::{Next, Waiting};
use super::command::{
    AboutClient, Audience, ClientEntry, Found, Inquiry, Listeners, QueueSeen, Reasons, Received,
    Survey,
};
use crate::survey::{Origin, Rows, away_secs};
use crate::telemetry::{LossReport, ShardReport};

/// Losses named by client and topic in a report.
const WORST: usize = 20;

/// Subscriptions of a session that are compared with a topic in one turn.
const LOOKED_AT: usize = 256;

/// The questions that wait to be answered.
pub(super) type Questions = Waiting<Inquiry, (u64, Survey)>;

impl Shard {
    /// Answers what was asked, as much as one turn has time for. The rest waits for the next turns.
    pub(super) fn answer_all(&mut self) {
        self.questions.begin_turn();
        while let Some(next) = self.questions.next(self.watch.asked()) {
            match next {
                Next::Question(inquiry) => self.answer_timed(|shard| shard.answer(inquiry)),
                Next::Step((from, survey)) => self.answer_timed(|shard| shard.look(from, survey)),
            }
        }
    }

    /// Somebody asks. The answer comes when [`Shard::answer_all`] has come to it.
    pub(super) fn question(&mut self, inquiry: Inquiry) {
        match inquiry {
            Inquiry::Survey(from, survey) => self.questions.push_step((from, survey)),
            inquiry => self.questions.push(inquiry),
        }
    }

    /// Whether somebody waits for an answer.
    pub(super) fn has_questions(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Answers. The asker may have given up waiting, which is not an error.
    fn answer(&mut self, inquiry: Inquiry) {
        match inquiry {
            Inquiry::Report(answer) => drop(answer.send(self.report())),
            Inquiry::Figures(answer) => drop(answer.send(self.figures())),
            // They have a line of their own.
            Inquiry::Survey(from, survey) => self.look(from, survey),
            Inquiry::Client {
                zone,
                client_id,
                about,
            } => self.answer_about(zone, &client_id, about),
            Inquiry::ZonesOf {
                client_id,
                zones,
                answer,
            } => {
                let has = |zone: &Zone| session_of(&self.hub, *zone, &client_id).is_some();
                let _ = answer.send(zones.map(Zone).filter(has).collect());
            }
            Inquiry::EndZone { zone, from, answer } => {
                let part = self.hub.operate().end_zone(self.now, zone, from);
                self.forward();
                let _ = answer.send(part);
            }
            Inquiry::CloseBanned { from, answer } => drop(answer.send(self.close_banned(from))),
            Inquiry::FiltersMatching((zone, topic), rest, answer) => {
                let _ = answer.send(filters_matching(&self.hub, zone, &topic, rest));
            }
            Inquiry::Audience(asked, answer) => drop(answer.send(self.audience(&asked))),
            Inquiry::Keep { messages, answer } => {
                let _ = answer.send(self.keep(messages));
            }
            Inquiry::Publish {
                message,
                user,
                answer,
            } => drop(answer.send(self.publish(message, user.as_deref()))),
            Inquiry::HeaviestTopics(by, answer) => {
                let _ = answer.send(heaviest_topics(&self.hub, self.now, by));
            }
            Inquiry::HeaviestPublishers(by, answer) => {
                let _ = answer.send(heaviest_publishers(&self.hub, self.now, by));
            }
            Inquiry::Rooms(zone, ask, answer) => {
                let told = ask_rooms(&mut self.hub, self.now, zone, &ask);
                self.forward();
                let _ = answer.send(told);
            }
            Inquiry::Pulse(answer) => drop(answer.send(())),
        }
    }

    /// Answers what is asked about a client.
    fn answer_about(&mut self, zone: Zone, client_id: &str, about: AboutClient) {
        match about {
            AboutClient::Shown { from, answer } => {
                let _ = answer.send(self.client(zone, client_id, from));
            }
            AboutClient::Why {
                topic,
                from,
                answer,
            } => drop(answer.send(self.why(zone, client_id, &topic, from))),
            AboutClient::Queue {
                from,
                at_most,
                answer,
            } => drop(answer.send(self.queue(zone, client_id, from, at_most))),
            AboutClient::Departure(answer) => {
                let _ = answer.send(self.hub.inspect().departure(zone, client_id));
            }
            AboutClient::Kick {
                end_session,
                answer,
            } => drop(answer.send(self.kick(zone, client_id, end_session))),
            AboutClient::Cut(answer) => {
                self.hub.operate().cut(self.now, zone, client_id);
                self.forward();
                let _ = answer.send(());
            }
        }
    }

    /// Makes a step of a survey.
    fn look(&self, from: u64, survey: Survey) {
        match survey {
            Survey::Clients { mut rows, answer } => {
                let next = self.clients(&mut rows, from);
                let _ = answer.send(Part { found: rows, next });
            }
            Survey::Zones(answer) => drop(answer.send(zone_figures_from(&self.hub, from))),
            Survey::Filters { mut rows, answer } => {
                let Part { found, next } = filters_from(&self.hub, from);
                for filter in &found {
                    rows.push(filter);
                }
                let _ = answer.send(Part { found: rows, next });
            }
            Survey::Holders { at_most, answer } => {
                let _ = answer.send(holders_from(&self.hub, from, at_most));
            }
            Survey::Left(answer) => drop(answer.send(self.left(from))),
        }
    }

    /// One session, with some of its subscriptions.
    fn client(&self, zone: Zone, client_id: &str, from: usize) -> Option<Found> {
        let client = self.hub.inspect().client(zone, client_id)?;
        let key = session_of(&self.hub, zone, client_id)?;
        let (granted, next) = granted_from(&self.hub, key, from);
        Some(Found {
            entry: self.entry(client),
            granted,
            next,
            lost: losses_of(&self.hub, key),
        })
    }

    /// Pieces of what waits for a client.
    fn queue(
        &self,
        zone: Zone,
        client_id: &str,
        from: QueuePlace,
        at_most: usize,
    ) -> Option<QueueSeen> {
        let key = session_of(&self.hub, zone, client_id)?;
        Some(QueueSeen {
            is_connected: self.hub.inspect().link(zone, client_id).is_some(),
            from,
            part: queued_from(&self.hub, key, from, at_most)?,
            now: self.now,
            now_ms: clock_ms(&self.hub, self.now),
        })
    }

    /// Some of those who subscribe to a filter.
    fn audience(&self, asked: &Listeners) -> Audience {
        let (zone, topic) = (asked.topic.0, &*asked.topic.1);
        let filter = &*asked.filter;
        audience_of(&self.hub, zone, topic, filter, asked.from, asked.at_most)
    }

    /// Keeps messages as received at their times, and sends them to those who are subscribed.
    fn keep(&mut self, messages: Vec<Received>) -> Vec<Result<Kept, NotKept>> {
        let mut outcomes = Vec::with_capacity(messages.len());
        for (message, received_ms) in messages {
            let store = &self.context.retained;
            let history = self.policy.hub.history(message.topic());
            let put = |message: &_| store.restore(message, received_ms, history);
            outcomes.push(self.hub.operate().keep_by(self.now, message, put));
        }
        self.forward();
        outcomes
    }

    /// Publishes a message of a user without a connection, or of the server's owner.
    pub(super) fn publish(
        &mut self,
        message: Arc<Message>,
        user: Option<&str>,
    ) -> Result<Option<Kept>, NotKept> {
        let kept = publish_for(&mut self.hub, self.now, message, user);
        self.forward();
        kept
    }

    /// Closes a client's connection; whether it had one, or `None` without a session.
    fn kick(&mut self, zone: Zone, client_id: &str, end_session: bool) -> Option<bool> {
        let client = self.hub.inspect().client(zone, client_id)?;
        self.hub
            .operate()
            .kick(self.now, zone, client_id, end_session);
        self.forward();
        Some(client.connection.is_some())
    }

    /// What decides about a topic and a client. O([`LOOKED_AT`]) subscriptions.
    fn why(&self, zone: Zone, client_id: &str, topic: &str, from: usize) -> Option<Reasons> {
        let client = self.hub.inspect().client(zone, client_id)?;
        let key = session_of(&self.hub, zone, client_id)?;
        let delivering = self.hub.inspect().delivering(key, topic)?;
        let (matching, next) = self.hub.inspect().matching(key, topic, from, LOOKED_AT);
        Some(Reasons {
            entry: self.entry(client),
            delivering,
            matching,
            next,
        })
    }

    /// Sessions that would outlive their connections, and the messages that they owe.
    fn left(&self, from: u64) -> Part<(u64, u64)> {
        let (mut sessions, mut messages) = (0, 0);
        let next = each_client_from(&self.hub, from, |SeenClient { info, .. }| {
            if info.expiry_secs > 0 {
                sessions += 1;
                messages += (info.in_flight + info.waiting) as u64;
            }
        });
        Part {
            found: (sessions, messages),
            next,
        }
    }

    /// Copies sessions into rows. Returns where the next step begins.
    fn clients(&self, rows: &mut Rows, from: u64) -> Option<u64> {
        rows.now_ms = clock_ms(&self.hub, self.now);
        each_client_from(&self.hub, from, |seen| {
            let link = seen.link.and_then(|link| self.links.get(link.0));
            let origin = link.map(|link| Origin {
                peer: link.peer,
                port: &link.port,
                bytes: link.bytes,
            });
            rows.push(&seen, origin);
        })
    }

    fn entry(&self, info: ClientInfo) -> ClientEntry {
        let connected = info.connection.as_ref();
        let link = connected.and_then(|_| self.hub.inspect().link(info.zone, &info.client_id));
        let link = link.and_then(|link| self.links.get(link.0));
        let bytes = link.map(|link| link.bytes).unwrap_or_default();
        let origin = link.map(|link| (link.peer, link.port.url.to_string()));
        ClientEntry {
            away_secs: away_secs(&info, clock_ms(&self.hub, self.now)),
            info,
            origin,
            bytes,
        }
    }

    fn report(&self) -> ShardReport {
        let losses = self.hub.inspect().losses().worst(WORST).into_iter();
        let worst =
            losses.map(|(client, topic, count)| (client.to_owned(), topic.to_owned(), count));
        let mut report = self.figures();
        report.losses.worst = worst.collect();
        report
    }

    /// The report without the names of losers: for those who ask every second.
    fn figures(&self) -> ShardReport {
        let (inward, overflowed) = self.mesh.depths();
        let losses = self.hub.inspect().losses();
        let causes = LossCause::ALL
            .iter()
            .map(|cause| (cause.label(), losses.by_cause(*cause)))
            .collect();
        let stalled = self.stalled.iter().map(Vec::len);
        ShardReport {
            // There are at most 64 shards.
            shard: super::number_of(self.id),
            stats: self.hub.inspect().stats(),
            shared_subscriptions: shared_members(&self.hub) as u64,
            links: self.links.len() as u64,
            refused: self.figures.refused,
            bytes_received: self.figures.bytes_received,
            bytes_sent: self.figures.bytes_sent,
            turns: self.figures.turns,
            turn_report: self.watch.report(self.now),
            mesh_inward: inward as u64,
            mesh_overflowed: overflowed as u64,
            stalled: (stalled.sum::<usize>() + self.awaiting_room.len()) as u64,
            handovers: self.arrivals.waiting() as u64,
            latency: self.figures.latency.clone(),
            losses: LossReport {
                causes,
                worst: Vec::new(),
            },
        }
    }
}
