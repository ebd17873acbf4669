//! Answers to the control plane.

use std::sync::Arc;

use stentor_hub::{
    ClientInfo, Kept, LossCause, NotKept, Part, audience_of, clients_from, clock_ms, filters_from,
    filters_matching, holders_from, publish_for, zone_figures_from,
};
use stentor_session::Message;
use stentor_topic::Zone;

use super::Shard;
use super::letter::{
    Audience, ClientEntry, Found, Inquiry, Listeners, Page, Reasons, Received, Survey,
};
use super::link::Link;
use super::selection::{Selection, away_secs, in_order, keep_first};
use crate::telemetry::{LossReport, ShardReport};

/// Losses named by client and topic in a report.
const WORST: usize = 20;

/// Subscriptions of a session that are compared with a topic in one turn.
const LOOKED_AT: usize = 1_000;

impl Shard {
    /// Answers. The asker may have given up waiting, which is not an error.
    pub(super) fn answer(&mut self, inquiry: Inquiry) {
        match inquiry {
            Inquiry::Report(answer) => drop(answer.send(self.report())),
            Inquiry::Figures(answer) => drop(answer.send(self.figures())),
            Inquiry::Survey(from, survey) => self.look(from, survey),
            Inquiry::Client {
                zone,
                client_id,
                answer,
            } => drop(answer.send(self.client(zone, &client_id))),
            Inquiry::Why {
                zone,
                client_id,
                topic,
                from,
                answer,
            } => drop(answer.send(self.why((zone, &client_id), &topic, from))),
            Inquiry::Departure {
                zone,
                client_id,
                answer,
            } => drop(answer.send(self.hub.departure(zone, &client_id))),
            Inquiry::ZonesOf {
                client_id,
                zones,
                answer,
            } => {
                let has = |zone: &Zone| self.hub.client(*zone, &client_id).is_some();
                let _ = answer.send(zones.map(Zone).filter(has).collect());
            }
            Inquiry::Kick {
                zone,
                client_id,
                end_session,
                answer,
            } => {
                let _ = answer.send(self.kick(zone, &client_id, end_session));
            }
            Inquiry::EndZone(zone, answer) => {
                let ended = self.hub.end_zone(self.now, zone);
                self.forward();
                let _ = answer.send(ended);
            }
            Inquiry::CloseBanned { from, answer } => drop(answer.send(self.close_banned(from))),
            Inquiry::FiltersMatching((zone, topic), rest, answer) => {
                let _ = answer.send(filters_matching(&self.hub, zone, &topic, rest));
            }
            Inquiry::Audience(asked, answer) => drop(answer.send(self.audience(&asked))),
            Inquiry::Keep { messages, answer } => {
                let _ = answer.send(self.keep(messages));
            }
            Inquiry::Publish { message, answer } => drop(answer.send(self.publish(message))),
            Inquiry::Pulse(answer) => drop(answer.send(())),
        }
    }

    /// Makes a step of a survey.
    fn look(&self, from: u64, survey: Survey) {
        match survey {
            Survey::Clients {
                some,
                at_most,
                answer,
            } => drop(answer.send(self.clients(&some, from, at_most))),
            Survey::Zones(answer) => drop(answer.send(zone_figures_from(&self.hub, from))),
            Survey::Filters {
                zone,
                containing,
                at_most,
                answer,
            } => drop(answer.send(self.filters((zone, &containing), from, at_most))),
            Survey::Holders { at_most, answer } => {
                let _ = answer.send(holders_from(&self.hub, from, at_most));
            }
            Survey::Left(answer) => drop(answer.send(self.left(from))),
        }
    }

    /// One session, with its subscriptions.
    fn client(&self, zone: Zone, client_id: &str) -> Option<Found> {
        let client = self.hub.client(zone, client_id)?;
        let subscriptions = self.hub.granted(client.key);
        Some((self.entry(client), subscriptions))
    }

    /// Some of those who subscribe to a filter.
    fn audience(&self, asked: &Listeners) -> Audience {
        let (zone, topic) = (asked.topic.0, &*asked.topic.1);
        let about = (zone, topic, &*asked.filter);
        audience_of(&self.hub, about, asked.from, asked.at_most)
    }

    /// Keeps messages as received at their times, and sends them to those who are subscribed.
    fn keep(&mut self, messages: Vec<Received>) -> Vec<Result<Kept, NotKept>> {
        let mut outcomes = Vec::with_capacity(messages.len());
        for (message, received_ms) in messages {
            let store = &self.backplane.retained;
            let history = self.policy.hub.history(message.topic());
            let put = |message: &_| store.restore(message, received_ms, history);
            outcomes.push(self.hub.keep_by(self.now, message, put));
        }
        self.forward();
        outcomes
    }

    /// Publishes a message of somebody without a connection.
    fn publish(&mut self, message: Arc<Message>) -> Result<Option<Kept>, NotKept> {
        let kept = publish_for(&mut self.hub, self.now, message);
        self.forward();
        kept
    }

    /// Closes a client's connection; whether it had one, or `None` without a session.
    fn kick(&mut self, zone: Zone, client_id: &str, end_session: bool) -> Option<bool> {
        let client = self.hub.client(zone, client_id)?;
        self.hub.kick(self.now, zone, client_id, end_session);
        self.forward();
        Some(client.connection.is_some())
    }

    /// What decides about a topic and a client. O([`LOOKED_AT`]) subscriptions.
    fn why(&self, (zone, client_id): (Zone, &str), topic: &str, from: usize) -> Option<Reasons> {
        let client = self.hub.client(zone, client_id)?;
        let delivering = self.hub.delivering(client.key, topic)?;
        let (matching, next) = self.hub.matching(client.key, topic, from, LOOKED_AT);
        Some(Reasons {
            entry: self.entry(client),
            delivering,
            matching,
            next,
        })
    }

    /// Sessions that would outlive their connections, and the messages that they owe.
    fn left(&self, from: u64) -> Part<(u64, u64)> {
        clients_from(&self.hub, from).map(|found| {
            let outliving = found.iter().filter(|client| client.expiry_secs > 0);
            outliving.fold((0, 0), |(sessions, messages), client| {
                let owed = client.in_flight + client.waiting;
                (sessions + 1, messages + owed as u64)
            })
        })
    }

    fn clients(&self, some: &Selection, from: u64, at_most: usize) -> Part<Page<ClientEntry>> {
        let now_ms = clock_ms(&self.hub, self.now);
        clients_from(&self.hub, from).map(|found| {
            let wanted = found.into_iter().filter(|client| some.has(client, now_ms));
            let ranked = wanted.map(|client| {
                let bytes = self.link_of_client(&client).map(|link| link.bytes);
                (some.rank(&client, bytes.unwrap_or_default()), client)
            });
            let mut found: Vec<(u64, ClientInfo)> = ranked.collect();
            let total = found.len();
            keep_first(&mut found, at_most, |(rank, a), (other, b)| {
                in_order((*rank, a), (*other, b))
            });
            let entries = found.into_iter().map(|(_, info)| self.entry(info));
            Page {
                entries: entries.collect(),
                total,
            }
        })
    }

    fn filters(
        &self,
        (zone, containing): (Option<Zone>, &str),
        from: u64,
        at_most: usize,
    ) -> Part<Page<(Zone, String, usize)>> {
        filters_from(&self.hub, from).map(|mut found| {
            found.retain(|(of, filter, _)| {
                zone.is_none_or(|zone| zone == *of) && filter.contains(containing)
            });
            let total = found.len();
            keep_first(&mut found, at_most, Ord::cmp);
            let entries = found
                .into_iter()
                .map(|(zone, filter, count)| (zone, filter.into_owned(), count));
            Page {
                entries: entries.collect(),
                total,
            }
        })
    }

    fn link_of_client(&self, info: &ClientInfo) -> Option<&Link> {
        let connection = info.connection.as_ref()?;
        self.links.get(connection.link.0)
    }

    fn entry(&self, info: ClientInfo) -> ClientEntry {
        let link = self.link_of_client(&info);
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
        let members = self.hub.shared_subscriptions().map(|(_, members)| members);
        let losses = self.hub.losses().worst(WORST).into_iter();
        let worst =
            losses.map(|(client, topic, count)| (client.to_owned(), topic.to_owned(), count));
        let mut report = self.figures();
        report.shared_subscriptions = members.sum::<usize>() as u64;
        report.losses.worst = worst.collect();
        report
    }

    /// The report as far as it takes no walk: for those who ask every second.
    fn figures(&self) -> ShardReport {
        let (inward, overflowed) = self.mesh.depths();
        let losses = self.hub.losses();
        let causes = LossCause::ALL
            .iter()
            .map(|cause| (cause.label(), losses.by_cause(*cause)))
            .collect();
        let stalled = self.stalled.iter().map(Vec::len);
        ShardReport {
            // There are at most 64 shards.
            shard: u8::try_from(self.id).unwrap_or(u8::MAX),
            stats: self.hub.stats(),
            shared_subscriptions: 0,
            links: self.links.len() as u64,
            refused: self.figures.refused,
            bytes_received: self.figures.bytes_received,
            bytes_sent: self.figures.bytes_sent,
            turns: self.figures.turns,
            turn_report: self.watch.report(self.now),
            mesh_inward: inward as u64,
            mesh_overflowed: overflowed as u64,
            stalled: (stalled.sum::<usize>() + self.awaiting_room.len()) as u64,
            travelling: self.arrivals.waiting() as u64,
            latency: self.figures.latency.clone(),
            losses: LossReport {
                causes,
                worst: Vec::new(),
            },
        }
    }
}
