//! `/metrics`: figures for Prometheus.
//!
//! The number of series does not depend on clients, users or topics.

mod exposition;
pub(super) mod process;
mod table;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stentor_admin::Exposition;
use stentor_auth::store::Directory;

use super::ShardReport;
use super::collect::total;
use super::rounds::Rounds;
use crate::context::ServerContext;
use crate::control::Noted;
use crate::fdtable::Table;
use crate::shard::Inquiry;
use exposition::Page;
use process::Process;
use table::{FAMILIES, Sources};

/// Listeners and procedures that have series of their own, in the order of the configuration.
const LISTENERS_MAX: usize = 64;
const PROCEDURES_MAX: usize = 64;

/// How long a page waits for the reports of shards.
const PATIENCE: Duration = Duration::from_millis(500);

/// Makes the pages of `/metrics`.
pub(crate) struct Metrics {
    context: Arc<ServerContext>,
    directory: Arc<Directory>,
    table: Table,
    rounds: Mutex<Rounds<ShardReport>>,
}

impl Metrics {
    /// Nothing is asked before the first page.
    pub(crate) fn new(
        context: &Arc<ServerContext>,
        directory: &Arc<Directory>,
        table: Table,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            directory: Arc::clone(directory),
            table,
            rounds: Mutex::new(Rounds::new(context)),
        }
    }

    /// A page with all figures as they are now. A shard that is late is shown as it was.
    pub(crate) fn page(&self, format: Exposition, noted: &Noted) -> String {
        self.write(format, noted).finish()
    }

    fn write(&self, format: Exposition, noted: &Noted) -> Page {
        let shards = self.reports();
        let sum = total(shards.iter().map(|(report, _)| report));
        let procedures = self.context.call_queue.procedures();
        let sources = Sources {
            context: &self.context,
            directory: &self.directory,
            noted,
            shards: &shards,
            sum: &sum,
            process: Process::read(self.table == Table::Private),
            procedures: &procedures,
        };
        let mut page = Page::new(format);
        for family in FAMILIES {
            let mut samples = page.family(family.name, family.kind, family.meaning);
            (family.read)(&sources, &mut samples);
        }
        page
    }

    fn reports(&self) -> Vec<(ShardReport, Duration)> {
        let mut rounds = self.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        // Each page has new figures: they cost a shard less than the page costs its own thread.
        rounds.ask(&self.context, Inquiry::Figures, Duration::ZERO, PATIENCE);
        let numbered = rounds.last().zip(0..);
        let reports = numbered.map(|((report, age), shard)| {
            let unknown = || ShardReport {
                shard,
                ..ShardReport::default()
            };
            (report.cloned().unwrap_or_else(unknown), age)
        });
        reports.collect()
    }
}

const INTRODUCTION: &str = "\
<!-- Written by `cargo xtask gen` from crates/server/src/telemetry/metrics/table.rs: change it
     there. -->

# Metrics

`/metrics` shows these figures in the text format of Prometheus, or in OpenMetrics if the request
asks for it. [Monitoring](../monitoring.md) says how to use it.

- **Counters** end in `_total`. They begin at 0 when the server starts. Each value of `reason`,
  `cause` and `kind` is there from the start, so that a rate exists for the first event as well.
- **Units:** seconds and bytes.
- **Labels:** no label has the name of a client, a user or a topic, or the address of a client. So
  the number of series depends on the configuration alone. Each of the first 64 listeners and of the
  first 64 procedures has its own series.
- **`reason`** is a close reason; [Reasons](reasons.md) lists them. Requests by HTTP have
  [reasons of their own](../http.md#refusals-that-the-operator-sees).

| metric | type | labels | meaning |
|---|---|---|---|
";

/// The reference page, `docs/reference/metrics.md`.
#[must_use]
pub fn metrics_reference() -> String {
    let mut out = String::from(INTRODUCTION);
    for family in FAMILIES {
        let labels = match family.labels {
            "" => String::new(),
            labels => format!("`{}`", labels.replace(", ", "`, `")),
        };
        let (kind, meaning) = (family.kind.name(), family.meaning);
        let _ = writeln!(out, "| `{}` | {kind} | {labels} | {meaning} |", family.name);
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::exposition::Kind;
    use super::*;
    use crate::lifecycle::testing::Running;

    /// The most series that there may be, whatever is configured or connected.
    const SERIES_MAX: usize = 2_000;

    #[test]
    fn names_follow_the_conventions() {
        let mut seen = BTreeSet::new();
        for family in FAMILIES {
            let name = family.name;
            assert!(seen.insert(name), "{name} is there twice");
            let is_counter = family.kind == Kind::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            assert_eq!(name.ends_with("_info"), family.kind == Kind::Info, "{name}");
            assert!(name.starts_with("stentor_") || name.starts_with("process_"));
            let unit = ["_millis", "_micros", "_ms", "_kib", "_percent"];
            assert!(!unit.iter().any(|unit| name.contains(unit)), "{name}");
            assert!(family.meaning.ends_with('.'), "{name}");
            let private = ["client", "user", "topic", "address"];
            assert!(!private.iter().any(|label| family.labels.contains(label)));
        }
    }

    #[test]
    fn a_page_has_zeros_from_the_start_and_few_series() {
        let server = Running::start(&[("shards", "2")]);
        let metrics = Metrics::new(server.context(), server.directory(), server.table());
        let noted = Noted::for_tests(server.ports().cloned().collect());
        let page = metrics.write(Exposition::Prometheus, &noted);
        let series = page.series();
        let text = page.finish();
        for line in [
            "stentor_clients_connected 0",
            "stentor_refusals_total{reason=\"bad-credentials\"} 0",
            "stentor_http_refusals_total{reason=\"wrong-login\"} 0",
            "stentor_disconnects_total{reason=\"keep-alive-timeout\"} 0",
            "stentor_messages_lost_total{cause=\"drop-newest\"} 0",
            "stentor_publish_to_socket_seconds_count 0",
            "stentor_retained_refused_total{cause=\"disk\"} 0",
            "stentor_user_database_up 1",
            "stentor_config_last_reload_successful 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(text.contains("stentor_shard_turns_total{shard=\"1\"}"));
        for family in FAMILIES {
            let absent = ["certificate", "procedure"];
            let is_absent = absent.iter().any(|word| family.name.contains(word));
            let begins = format!("\n{}", family.name);
            assert!(
                is_absent || text.contains(&begins),
                "{} is empty",
                family.name
            );
        }
        // 64 shards, listeners and procedures instead of two, one and some.
        let of_shard = text
            .lines()
            .filter(|it| it.contains("{shard=\"1\""))
            .count();
        let most = series + 62 * of_shard + 3 * LISTENERS_MAX + 3 * PROCEDURES_MAX;
        assert!(most <= SERIES_MAX, "{most}");
        server.stop();
    }

    #[test]
    fn the_page_in_docs_is_up_to_date() {
        let crate_folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
        let path = format!("{crate_folder}/../../docs/reference/metrics.md");
        let found = std::fs::read_to_string(path);
        assert!(
            found.unwrap_or_default() == metrics_reference(),
            "docs/reference/metrics.md is out of date; run `cargo xtask gen`"
        );
    }
}
