//! The workloads.

pub(crate) mod connect;
pub(crate) mod durable;
pub(crate) mod fanout;
pub(crate) mod idle;
pub(crate) mod login;
pub(crate) mod operate;
pub(crate) mod pingpong;
pub(crate) mod private;
pub(crate) mod recover;
mod retained;
pub(crate) mod slow;
mod storm;
pub(crate) mod subscribe;

use std::process;

use crate::affinity::Placement;
use crate::args::Common;
use crate::clock::now_ns;
use crate::error::BenchError;
use crate::report::number::grouped;
use crate::workload::Workload;

/// A command that measures: its options say which workloads, and where and how often.
pub(crate) trait Scenario {
    /// The servers to measure, and how often.
    fn common(&self) -> &Common;

    /// The workloads that the options ask for.
    ///
    /// # Errors
    /// When the options make no sense together.
    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, BenchError>;

    /// Where server and generator run unless the user says so: each workload once in each place.
    fn placements(&self) -> &'static [Placement] {
        &[Placement::Apart]
    }

    /// Shards of the server unless the user says so; the server's own default if `None`.
    fn shards(&self) -> Option<u16> {
        None
    }
}

/// A preset as titles name it: what is not the published load is only like it, and nothing that was
/// published stands beside it.
pub(crate) fn named(preset: &str, is_published: bool) -> String {
    match is_published {
        true => preset.to_owned(),
        false => format!("like {preset}"),
    }
}

/// A word that no earlier run used, so that runs against a lasting server do not meet.
pub(crate) fn run_id() -> String {
    format!("{:x}-{:x}", process::id(), now_ns() / 1_000_000)
}

/// A count as titles show it.
pub(crate) fn count(number: impl TryInto<u32>) -> String {
    grouped(f64::from(number.try_into().unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Args;

    /// Whether figures that were published stand beside each workload of a command, and its title.
    fn sheets(words: &str) -> Vec<(bool, String)> {
        let words = ["bench"].into_iter().chain(words.split(' '));
        let line = Args::try_parse_from(words).expect("a command line");
        let scenario = line.command.scenario().expect("a scenario");
        let workloads = scenario.workloads().expect("workloads");
        let sheets = workloads.iter().map(|workload| workload.sheet());
        sheets
            .map(|sheet| (sheet.published.is_some(), sheet.title))
            .collect()
    }

    #[test]
    fn published_figures_stand_beside_published_loads() {
        for (words, preset) in [
            ("subscribe", "ice-subscribe"),
            ("subscribe --topics shared --qos 1", "ice-subscribe"),
            ("login --proof token", "ice-login"),
            ("fanout ice-1 --payload 1000 --qos 1", "ice-1"),
            ("private appwarp-heavy --clients 5000", "appwarp-heavy"),
        ] {
            for (is_published, title) in sheets(words) {
                assert!(
                    is_published && title.starts_with(preset),
                    "{words}: {title}"
                );
            }
        }
        for words in [
            "subscribe --users 10",
            "subscribe --subscriptions 10",
            "login --proof token --connections 5",
            "login --proof token --beside-fanout --no-floor",
            "fanout ice-1 --payload 100",
            "fanout ice-2 --rate max",
            "fanout ice-2 --ramp 10",
            "recover --users 10",
            "private appwarp-heavy --clients 50",
            "private appwarp-heavy --clients 5000 --every 2",
            "private appwarp-heavy --clients 5000 --own-topic",
            "private appwarp-heavy --clients 5000 --ramp 100",
        ] {
            for (is_published, title) in sheets(words) {
                assert!(
                    !is_published && title.starts_with("like "),
                    "{words}: {title}"
                );
            }
        }
    }

    #[test]
    fn titles_say_where_there_are_no_private_messages() {
        let own = "a message to a topic of its own";
        for (words, expected) in [
            ("", "each with a private message to itself every".to_owned()),
            (
                " --target mqtt://localhost",
                format!("each with {own} every"),
            ),
            (
                " --no-server --against mqtt://localhost",
                format!("each with {own} every"),
            ),
            (
                " --against mqtt://localhost",
                format!("private message to itself ({own} on servers that are not started here)"),
            ),
        ] {
            let words = format!("private appwarp-heavy --clients 5000{words}");
            for (is_published, title) in sheets(&words) {
                assert!(title.contains(&expected), "{words}: {title}");
                assert_eq!(is_published, title.contains("private"), "{words}: {title}");
            }
        }
    }
}
