//! The report of each day: what the server and its procedures did from one midnight to the next,
//! in UTC.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use stentor_auth::calendar::Utc;
use stentor_procedure::{Figures, span};

use super::collect::{reports, total};
use super::report::ShardReport;
use super::sys::publish_at;
use crate::clock::unix_secs;
use crate::context::ServerContext;

const DAY_SECS: u64 = 86_400;

/// How often the wall clock is looked at, which may be set.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// Procedures that a report names: those with the most calls.
const NAMED_MAX: usize = 200;

/// The topics for people and for programs that everybody may read who may read `$SYS`: what all
/// procedures did together, without their names.
const TOPICS: Topics = Topics {
    text: "$SYS/broker/report/day",
    json: "$SYS/broker/report/day/json",
};

/// The same with a line for each procedure, for those who have a right to these topics: of the
/// roles from the start, `admin` alone has it.
const NAMED_TOPICS: Topics = Topics {
    text: "$report/day",
    json: "$report/day/json",
};

/// Where a report is published: one topic for people, one for programs.
struct Topics {
    text: &'static str,
    json: &'static str,
}

/// The day that is counted, and the counters at its beginning.
#[derive(Debug)]
pub(super) struct Day {
    /// Where it began, in seconds since 1970: at midnight, or when the server was started.
    from: u64,
    server: Totals,
    procedures: BTreeMap<String, Figures>,
    /// The most clients at a publication of figures on this day.
    clients_max: u64,
}

/// What the server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Totals {
    connections: u64,
    messages_received: u64,
    messages_sent: u64,
    messages_dropped: u64,
    bytes_received: u64,
    bytes_sent: u64,
}

/// What one procedure did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Line {
    procedure: String,
    version: String,
    calls: u64,
    errors: Counts,
    verdicts: Counts,
    cpu_us: u64,
}

/// What all procedures did together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Together {
    calls: u64,
    errors: u64,
    verdicts: u64,
    cpu_us: u64,
}

/// How often each of some words was said; those that were not are left out.
type Counts = Vec<(&'static str, u64)>;

/// A report.
#[derive(Debug, Serialize)]
struct Report {
    /// As in `2026-11-27`.
    day: String,
    from: String,
    to: String,
    uptime_secs: u64,
    /// The most clients at a publication of figures on this day.
    clients_max: u64,
    server: Totals,
    calls: Together,
    #[serde(flatten)]
    named: Option<Named>,
}

/// The procedures one by one.
#[derive(Clone, Debug, Serialize)]
struct Named {
    procedures: Vec<Line>,
    /// Procedures that were called as well and are not named.
    others: usize,
}

impl Day {
    /// The day on which the server was started.
    pub(super) fn begin(at: SystemTime) -> Self {
        Self {
            from: unix_secs(at),
            server: Totals::default(),
            procedures: BTreeMap::new(),
            clients_max: 0,
        }
    }

    /// Figures were published while this many clients were connected.
    pub(super) fn count_clients(&mut self, clients: u64) {
        self.clients_max = self.clients_max.max(clients);
    }

    /// How long the day goes on, or less.
    pub(super) fn rest(&self, now: SystemTime) -> Duration {
        let now = unix_secs(now);
        let end = (self.from / DAY_SECS + 1) * DAY_SECS;
        // Not nothing: a clock before the day's beginning must not keep the thread busy.
        Duration::from_secs(end.saturating_sub(now).max(1)).min(LOOK_MAX)
    }

    /// Publishes the report if the day is over, and begins the next one. A clock that was set back
    /// makes the day longer.
    pub(super) fn look(&mut self, context: &ServerContext, now: SystemTime) {
        let to = unix_secs(now);
        if to / DAY_SECS <= self.from / DAY_SECS {
            return;
        }
        let sum = total(&reports(context));
        let (server, procedures) = (Totals::of(&sum), context.call_queue.procedures());
        let uptime_secs = context.clock.now().as_secs();
        let mut report = self.report(to, uptime_secs, server, &procedures);
        report.publish(context, &NAMED_TOPICS);
        report.named = None;
        report.publish(context, &TOPICS);
        let named = procedures.into_iter();
        *self = Self {
            from: to,
            server,
            procedures: named.map(|one| (one.procedure.clone(), one)).collect(),
            // Those who are there when the day begins count for it too.
            clients_max: sum.stats.connected,
        };
    }

    fn report(&self, to: u64, uptime_secs: u64, server: Totals, procedures: &[Figures]) -> Report {
        let lines = procedures.iter().map(|now| {
            let before = self.procedures.get(&now.procedure);
            Line::of(now, before)
        });
        let mut lines: Vec<Line> = lines.filter(|line| line.calls > 0).collect();
        // By name where they had the same number of calls.
        lines.sort_by_key(|line| std::cmp::Reverse(line.calls));
        let calls = Together::of(&lines);
        let others = lines.len().saturating_sub(NAMED_MAX);
        lines.truncate(NAMED_MAX);
        Report {
            day: Utc::new(self.from).date(),
            from: Utc::new(self.from).to_string(),
            to: Utc::new(to).to_string(),
            uptime_secs,
            clients_max: self.clients_max,
            server: server.since(&self.server),
            calls,
            named: Some(Named {
                procedures: lines,
                others,
            }),
        }
    }
}

impl Totals {
    fn of(sum: &ShardReport) -> Self {
        Self {
            connections: sum.stats.connects,
            messages_received: sum.stats.publishes_received,
            messages_sent: sum.stats.publishes_sent,
            messages_dropped: sum.stats.publishes_dropped,
            bytes_received: sum.bytes_received,
            bytes_sent: sum.bytes_sent,
        }
    }

    /// What came since then. Where a shard did not report in time, that is less, and the next day
    /// has the rest.
    fn since(&self, before: &Self) -> Self {
        let more = |now: u64, before: u64| now.saturating_sub(before);
        Self {
            connections: more(self.connections, before.connections),
            messages_received: more(self.messages_received, before.messages_received),
            messages_sent: more(self.messages_sent, before.messages_sent),
            messages_dropped: more(self.messages_dropped, before.messages_dropped),
            bytes_received: more(self.bytes_received, before.bytes_received),
            bytes_sent: more(self.bytes_sent, before.bytes_sent),
        }
    }
}

impl Together {
    fn of(lines: &[Line]) -> Self {
        let mut all = Self::default();
        for line in lines {
            all.calls += line.calls;
            all.errors += sum(&line.errors);
            all.verdicts += sum(&line.verdicts);
            all.cpu_us += line.cpu_us;
        }
        all
    }
}

fn sum(counts: &Counts) -> u64 {
    counts.iter().map(|(_, count)| count).sum()
}

/// The counts that came since then. A procedure whose file was gone for a while begins at 0
/// again.
fn more(now: &Counts, before: Option<&Counts>) -> Counts {
    let known = |word: &str| {
        let found = before?.iter().find(|(known, _)| *known == word);
        found.map(|(_, count)| *count)
    };
    let all = now.iter().map(|(word, count)| {
        let before = known(word).unwrap_or(0);
        (*word, count.checked_sub(before).unwrap_or(*count))
    });
    all.filter(|(_, count)| *count > 0).collect()
}

impl Line {
    fn of(now: &Figures, before: Option<&Figures>) -> Self {
        // A procedure that has counted less than before has begun again.
        let before = before.filter(|before| before.calls <= now.calls);
        Self {
            procedure: now.procedure.clone(),
            version: now.version.clone(),
            calls: now.calls - before.map_or(0, |before| before.calls),
            errors: more(&now.errors, before.map(|before| &before.errors)),
            verdicts: more(&now.verdicts, before.map(|before| &before.verdicts)),
            cpu_us: now
                .cpu_us
                .saturating_sub(before.map_or(0, |before| before.cpu_us)),
        }
    }
}

impl Report {
    /// For people: a mail, say.
    fn text(&self) -> String {
        let server = &self.server;
        let mut text = format!(
            "Stentor on {} (UTC)\n\n\
             from              {}\n\
             to                {}\n\
             up for            {}\n\
             connections       {}\n\
             clients at most   {}\n\
             messages received {}\n\
             messages sent     {}\n\
             messages lost     {}\n\
             bytes received    {}\n\
             bytes sent        {}\n",
            self.day,
            self.from,
            self.to,
            span(self.uptime_secs),
            server.connections,
            self.clients_max,
            server.messages_received,
            server.messages_sent,
            server.messages_dropped,
            server.bytes_received,
            server.bytes_sent,
        );
        let calls = &self.calls;
        if calls.calls == 0 {
            text.push_str("\nNo procedure was called.\n");
            return text;
        }
        // Writing into a string does not fail.
        let _ = writeln!(
            text,
            "\n{:<20} {:>9} {:>9} {:>9}  what came of it",
            "procedure", "calls", "errors", "cpu ms"
        );
        let cpu_ms = calls.cpu_us / 1_000;
        let _ = writeln!(
            text,
            "{:<20} {:>9} {:>9} {cpu_ms:>9}  verdicts {}",
            "all", calls.calls, calls.errors, calls.verdicts
        );
        let Some(named) = &self.named else {
            return text;
        };
        for line in &named.procedures {
            let errors = sum(&line.errors);
            let counts = line.errors.iter().chain(&line.verdicts);
            let counts: Vec<String> = counts.map(|(word, n)| format!("{word} {n}")).collect();
            let _ = writeln!(
                text,
                "{:<20} {:>9} {errors:>9} {:>9}  {}",
                line.procedure,
                line.calls,
                line.cpu_us / 1_000,
                counts.join(", "),
            );
        }
        if named.others > 0 {
            let _ = writeln!(text, "and {} others, with fewer calls", named.others);
        }
        text
    }

    fn publish(&self, context: &ServerContext, topics: &Topics) {
        publish_at(context, topics.text, self.text().as_bytes());
        // Numbers and text always serialise.
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        publish_at(context, topics.json, &bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::testing::Running;
    use crate::telemetry::sys::tests::published_below;

    fn at(secs: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
    }

    fn figures(procedure: &str, calls: u64, verdicts: Counts) -> Figures {
        Figures {
            procedure: procedure.to_owned(),
            version: "1".to_owned(),
            kind: "luau",
            observe: false,
            waiting: 0,
            calls,
            errors: vec![(
                "failed",
                calls - verdicts.iter().map(|(_, n)| n).sum::<u64>(),
            )],
            verdicts,
            observed: Vec::new(),
            p50_us: 0,
            p99_us: 0,
            max_us: 0,
            cpu_us: calls * 1_000,
            problem: String::new(),
        }
    }

    /// 2026-11-27, ten seconds before midnight.
    const EVENING: u64 = 1_795_823_990;

    #[test]
    fn a_day_ends_at_midnight_and_the_next_one_counts_from_there() {
        let server = Running::start(&[("shards", "1")]);
        let context = server.context();
        let mut day = Day::begin(at(EVENING));
        assert_eq!(day.rest(at(EVENING)), Duration::from_secs(10));
        assert_eq!(day.rest(at(EVENING - 900)), LOOK_MAX);
        day.count_clients(3);
        day.look(context, at(EVENING + 9));
        assert!(
            published_below(context, TOPICS.text).is_empty(),
            "it goes on"
        );
        day.look(context, at(EVENING + 11));
        let found = published_below(context, "$SYS/#");
        let text = &found[TOPICS.text];
        assert!(text.starts_with("Stentor on 2026-11-27 (UTC)\n"), "{text}");
        assert!(text.contains("clients at most   3\n"), "{text}");
        assert!(text.ends_with("No procedure was called.\n"), "{text}");
        let json: serde_json::Value = serde_json::from_str(&found[TOPICS.json]).unwrap();
        assert_eq!(json["from"], "2026-11-27T23:59:50Z");
        assert_eq!(json["to"], "2026-11-28T00:00:01Z");
        assert_eq!(json["server"]["messages_received"], 0);
        assert!(json.get("procedures").is_none(), "{json}");
        let named = published_below(context, "$report/#");
        assert_eq!(&named[NAMED_TOPICS.text], text);
        let json: serde_json::Value = serde_json::from_str(&named[NAMED_TOPICS.json]).unwrap();
        assert_eq!(json["procedures"], serde_json::json!([]));
        // Once for each day, be the clock set back or not.
        day.look(context, at(EVENING));
        assert_eq!(day.from, EVENING + 11);
        assert_eq!(
            day.rest(at(EVENING + 11 + DAY_SECS)),
            Duration::from_secs(1)
        );
        day.look(context, at(EVENING + 10 + DAY_SECS));
        let text = &published_below(context, "$SYS/#")[TOPICS.text];
        assert!(text.starts_with("Stentor on 2026-11-28 (UTC)\n"), "{text}");
        server.stop();
    }

    #[test]
    fn a_report_has_what_came_since_the_last_one() {
        let mut day = Day::begin(at(EVENING));
        day.server.messages_sent = 40;
        let before = [
            figures("check", 10, vec![("accept", 8)]),
            figures("idle", 5, vec![("accept", 5)]),
            figures("again", 9, vec![("accept", 9)]),
        ];
        day.procedures = before
            .into_iter()
            .map(|one| (one.procedure.clone(), one))
            .collect();
        let now = [
            figures("check", 15, vec![("accept", 11), ("reject", 1)]),
            figures("idle", 5, vec![("accept", 5)]),
            figures("again", 2, vec![("accept", 2)]),
            figures("new", 7, vec![("accept", 7)]),
        ];
        let server = Totals {
            messages_sent: 100,
            ..Totals::default()
        };
        let report = day.report(EVENING + 20, 90_000, server, &now);
        assert_eq!(report.server.messages_sent, 60);
        let named = report.named.as_ref().unwrap();
        let lines: Vec<(&str, u64, &Counts, &Counts)> = named
            .procedures
            .iter()
            .map(|line| (&*line.procedure, line.calls, &line.errors, &line.verdicts))
            .collect();
        let expected: [(&str, u64, &Counts, &Counts); 3] = [
            ("new", 7, &vec![], &vec![("accept", 7)]),
            (
                "check",
                5,
                &vec![("failed", 1)],
                &vec![("accept", 3), ("reject", 1)],
            ),
            ("again", 2, &vec![], &vec![("accept", 2)]),
        ];
        assert_eq!(lines, expected);
        assert_eq!((report.calls.calls, report.calls.errors), (14, 1));
        let text = report.text();
        assert!(
            text.contains("up for            1 day 01:00:00\n"),
            "{text}"
        );
        let line =
            "check                        5         1         5  failed 1, accept 3, reject 1\n";
        assert!(text.contains(line), "{text}");
        // What everybody may read names none of them.
        let report = Report {
            named: None,
            ..report
        };
        let (text, json) = (report.text(), serde_json::to_string(&report).unwrap());
        let line = "all                         14         1        14  verdicts 13\n";
        assert!(text.ends_with(line), "{text}");
        for said in [text, json] {
            assert!(
                !["check", "new", "again"].iter().any(|it| said.contains(it)),
                "{said}"
            );
        }
    }

    #[test]
    fn a_report_names_no_more_procedures_than_fit() {
        let many: Vec<Figures> = (0..NAMED_MAX as u64 + 5)
            .map(|n| figures(&format!("p{n:03}"), n + 1, vec![("accept", n + 1)]))
            .collect();
        let day = Day::begin(at(EVENING));
        let report = day.report(EVENING + 20, 20, Totals::default(), &many);
        let named = report.named.as_ref().unwrap();
        assert_eq!((named.procedures.len(), named.others), (NAMED_MAX, 5));
        assert_eq!(named.procedures[0].calls, NAMED_MAX as u64 + 5);
        assert!(report.text().ends_with("and 5 others, with fewer calls\n"));
    }
}
