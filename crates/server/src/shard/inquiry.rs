//! Answers to the control plane.

use stentor_hub::{ClientInfo, LossCause};

use super::Shard;
use super::letter::{ClientEntry, Inquiry};
use crate::telemetry::{LossReport, ShardReport};

/// Losses named by client and topic in a report.
const WORST: usize = 20;

impl Shard {
    /// Answers; whoever asked may have given up waiting, which is no error.
    pub(super) fn answer(&mut self, inquiry: Inquiry) {
        match inquiry {
            Inquiry::Report(answer) => {
                let _ = answer.send(self.report());
            }
            Inquiry::Clients {
                containing,
                at_most,
                answer,
            } => {
                let entries = self
                    .hub
                    .clients()
                    .filter(|client| client.client_id.contains(&containing))
                    .take(at_most)
                    .map(|client| self.entry(client))
                    .collect();
                let _ = answer.send(entries);
            }
            Inquiry::Client {
                zone,
                client_id,
                answer,
            } => {
                let found = self.hub.client(zone, &client_id).map(|client| {
                    let subscriptions = self.hub.subscriptions(client.key);
                    (self.entry(client), subscriptions)
                });
                let _ = answer.send(found);
            }
            Inquiry::Kick {
                zone,
                client_id,
                end_session,
                answer,
            } => {
                let found = self.hub.kick(self.now, zone, &client_id, end_session);
                self.forward();
                let _ = answer.send(found);
            }
            Inquiry::Filters {
                containing,
                at_most,
                answer,
            } => {
                let filters = self
                    .hub
                    .filters()
                    .filter(|(_, filter, _)| filter.contains(&containing))
                    .take(at_most)
                    .map(|(zone, filter, count)| (zone, filter.to_owned(), count))
                    .collect();
                let _ = answer.send(filters);
            }
            Inquiry::Pulse(answer) => {
                let _ = answer.send(());
            }
        }
    }

    fn entry(&self, info: ClientInfo) -> ClientEntry {
        let link = info
            .connection
            .and_then(|at| self.links.get(at.link.0 as usize));
        let origin = link.map(|link| (link.peer, link.port.url.to_string()));
        ClientEntry { info, origin }
    }

    fn report(&self) -> ShardReport {
        let (inward, overflowed) = self.mesh.depths();
        let losses = self.hub.losses();
        let causes = LossCause::ALL
            .iter()
            .map(|cause| (cause.label(), losses.by_cause(*cause)))
            .collect();
        let worst = losses
            .worst(WORST)
            .into_iter()
            .map(|(client, topic, count)| (client.to_owned(), topic.to_owned(), count))
            .collect();
        ShardReport {
            // There are at most 64 shards.
            shard: u8::try_from(self.id).unwrap_or(u8::MAX),
            stats: self.hub.stats(),
            links: self.links.len() as u64,
            refused: self.figures.refused,
            bytes_received: self.figures.bytes_received,
            bytes_sent: self.figures.bytes_sent,
            turns: self.figures.turns,
            mesh_inward: inward as u64,
            mesh_overflowed: overflowed as u64,
            stalled: self.stalled.iter().map(Vec::len).sum::<usize>() as u64,
            travelling: self.arrivals.waiting() as u64,
            latency: self.figures.latency.clone(),
            losses: LossReport { causes, worst },
        }
    }
}
