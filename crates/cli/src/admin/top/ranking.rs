//! `stentor top --clients` by what waits for clients, what they lose, and what they are sent.

use std::collections::HashMap;
use std::time::Instant;

use stentor_control::clients::{Client, List};

use crate::admin::table::{Table, bytes, maybe};
use crate::output::shown;

/// Messages that a connection has sent and was sent.
type Gone = (u64, u64);

/// The clients of a look, by zone and client id.
type Seen = HashMap<(String, String), Gone>;

/// The clients of the look before, and when that was.
#[derive(Debug, Default)]
pub(super) struct Before(Option<(Instant, Seen)>);

impl Before {
    /// The page of a look at a time, which is the one before from now on.
    pub(super) fn page(&mut self, at: Instant, list: &List) -> String {
        let before = self.0.take();
        let mut table = Table::new(&[
            "CLIENT", "ZONE", "USER", "IN/S", "OUT/S", "WAITING", "HELD", "LOST/MIN", "LOST",
        ]);
        let mut now = Seen::new();
        for client in &list.clients {
            let key = (client.zone.clone(), client.client_id.clone());
            let gone = gone(client);
            let old = before.as_ref().and_then(|(then, all)| {
                let secs = at.duration_since(*then).as_secs_f64();
                Some((secs, *all.get(&key)?)).filter(|(secs, _)| *secs > 0.0)
            });
            let rate = |now: u64, of: fn(Gone) -> u64| match old {
                // A client that has connected again begins at 0.
                Some((secs, old)) if now >= of(old) => {
                    format!("{:.0}", (now - of(old)) as f64 / secs)
                }
                // There is no rate without a look before.
                _ => "-".into(),
            };
            table.cells(vec![
                shown(&client.client_id),
                shown(&client.zone),
                maybe(client.user.as_deref()),
                rate(gone.0, |gone| gone.0),
                rate(gone.1, |gone| gone.1),
                client.waiting.to_string(),
                bytes(client.held_bytes),
                client.lost.last_minute.to_string(),
                client.lost.total.to_string(),
            ]);
            now.insert(key, gone);
        }
        self.0 = Some((at, now));
        let others = list.total.saturating_sub(list.clients.len());
        let mut text = table.render();
        if let Some(why) = &list.unsorted {
            text += &format!("… {}\n", shown(why));
        } else if others > 0 {
            text += &format!("… of {} sessions; --limit shows others\n", list.total);
        }
        text
    }
}

fn gone(client: &Client) -> Gone {
    let connection = client.connection.as_ref();
    connection.map_or((0, 0), |it| (it.received, it.sent))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stentor_control::clients::Connection;

    use super::*;

    fn list(clients: &[(&str, u64, u64)]) -> List {
        let client = |(client_id, received, sent): &(&str, u64, u64)| Client {
            client_id: (*client_id).to_owned(),
            zone: "default".into(),
            connection: Some(Connection {
                received: *received,
                sent: *sent,
                ..Connection::default()
            }),
            ..Client::default()
        };
        List {
            clients: clients.iter().map(client).collect(),
            total: 9,
            ..List::default()
        }
    }

    #[test]
    fn rates_are_those_since_the_look_before() {
        let (mut before, begun) = (Before::default(), Instant::now());
        let words = |page: &str, row: usize| -> Vec<String> {
            let line = page.lines().nth(row).unwrap_or_default();
            line.split_whitespace().map(str::to_owned).collect()
        };
        let page = before.page(begun, &list(&[("a", 10, 100), ("b", 5, 5)]));
        assert_eq!(words(&page, 1)[3..5], ["-", "-"], "{page}");
        let later = begun + Duration::from_secs(2);
        let page = before.page(later, &list(&[("a", 14, 300), ("b", 1, 7), ("c", 1, 1)]));
        assert_eq!(words(&page, 1)[3..5], ["2", "100"], "{page}");
        assert_eq!(
            words(&page, 2)[3..5],
            ["-", "1"],
            "it has connected again: {page}"
        );
        assert_eq!(words(&page, 3)[3..5], ["-", "-"], "{page}");
        assert!(
            page.ends_with("… of 9 sessions; --limit shows others\n"),
            "{page}"
        );
    }
}
