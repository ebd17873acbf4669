//! The report: one HTML page with tables and plots that needs no other file and no network, light
//! and dark as the reader's system is, and fit for printing.

mod charts;
mod place;
mod plot;
mod tables;

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::Value;

use crate::error::BenchError;
use crate::report::visible::is_hidden;
use crate::report::{found, plain};
use crate::{output, saved};

/// Files of `--json`, and the page.
#[derive(Debug, ClapArgs)]
pub(crate) struct ReportArgs {
    /// Files of --json, in the order of the page
    #[arg(value_name = "FILE.json", required = true)]
    files: Vec<PathBuf>,
    /// The page to write ("-": standard output)
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
}

/// Makes a page from files.
///
/// # Errors
/// When a file cannot be read, or the page not be written, or would replace one of them.
pub(crate) fn run(args: &ReportArgs) -> Result<(), BenchError> {
    output::refuse_input("--html", &args.html, &args.files)?;
    let mut objects = Vec::new();
    for file in &args.files {
        objects.extend(saved::read(file)?);
    }
    output::write(&args.html, &page(&objects))
}

/// The page about these workloads.
pub(crate) fn page(objects: &[Value]) -> String {
    let numbered = objects.iter().enumerate();
    let sections: String = numbered
        .map(|(index, object)| section(index, object, objects))
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Stentor: benchmark report</title>\n<style>\n{css}</style>\n</head>\n<body>\n\
         <header>\n<p class=\"brand\">Stentor</p>\n<h1>Benchmark report</h1>\n\
         {found}<p class=\"lead\">{lead}</p>\n{origin}</header>\n<main>\n\
         {overview}{sections}{place}</main>\n\
         <footer>{footer}</footer>\n</body>\n</html>\n",
        css = include_str!("html/page.css"),
        found = found(objects),
        lead = place::lead(objects),
        origin = place::origin(objects),
        overview = overview(objects),
        place = place::section(objects),
        footer = FOOTER,
    )
}

const FOOTER: &str = "Medians of interleaved pairs, with the lowest and the highest in small print. \
    Latency counts from the intended send time. The floor is a bare program that makes the same \
    system calls without a protocol; “× floor” holds on other machines better than any absolute \
    figure. Loss, duplicates and order were checked for every message.";

/// What the columns of the first table mean.
const LEGEND: &str = "“Published” is what somebody reported of the same load, mostly long ago and on other \
    machines. “× floor” compares with a bare program that makes the same system calls and nothing \
    else. 1.00 is as good as that; 2.00 of a time is twice as long, and 0.50 of a rate is half as \
    many. Server and floor take turns. “× floor” is the median of the factors of all turns, so \
    it may differ from the quotient of the two figures beside it.";

/// What was found, before everything else.
fn found(objects: &[Value]) -> String {
    match found::sentence(objects) {
        text if text.is_empty() => text,
        text => format!("<p class=\"found\">{}</p>\n", escaped(&text)),
    }
}

fn overview(objects: &[Value]) -> String {
    format!(
        "<section>\n<h2>At a glance</h2>\n<p class=\"what\">{LEGEND}</p>\n{}{}{}</section>\n",
        tables::overview(objects),
        charts::floors(objects),
        charts::against_rivals(objects)
    )
}

fn section(index: usize, object: &Value, objects: &[Value]) -> String {
    let title = object["title"].as_str().unwrap_or_default();
    let (name, rest) = title.split_once(": ").unwrap_or((title, ""));
    let plots = [
        charts::throughput(object),
        charts::percentiles(object),
        charts::processor(object),
        charts::memory(object),
    ];
    let plots = plots.concat();
    let plots = if plots.is_empty() {
        plots
    } else {
        format!("<div class=\"plots\">\n{plots}</div>\n")
    };
    format!(
        "<section id=\"w{index}\">\n<h2>{name} {verdict}</h2>\n<p class=\"what\">{rest}</p>\n\
         {plain}{machine}{table}{ramp}{plots}{notes}\
         <p class=\"again\">Again: <code>{command}</code></p>\n\
         {systems}</section>\n",
        name = escaped(name),
        verdict = tables::verdict(&object["verdict"]),
        rest = escaped(rest),
        plain = plain(object),
        machine = place::machine(object, objects),
        table = tables::figures(object),
        ramp = tables::ramp(object),
        notes = tables::notes(object),
        command = escaped(object["command"].as_str().unwrap_or_default()),
        systems = place::systems(object),
    )
}

/// What a workload is, for a stranger.
fn plain(object: &Value) -> String {
    match plain::sentence(object) {
        text if text.is_empty() => text,
        text => format!("<p class=\"plain\">{}</p>\n", escaped(&text)),
    }
}

/// Text that HTML takes for nothing else. What cannot be seen is spelled out.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if is_hidden(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_of_two_machines_names_both() {
        let on = |processor: &str| {
            let machine = json!({ "processor": processor, "processors": 2, "kernel": "6.18" });
            json!({ "title": "ice-1: a load", "machine": machine })
        };
        let (one, other) = (
            "On Slow, 2 processors, kernel 6.18.",
            "On Fast, 2 processors",
        );
        let both = page(&[on("Slow"), on("Fast"), on("Slow")]);
        assert_eq!(
            (both.matches(one).count(), both.matches(other).count()),
            (2, 1)
        );
        assert_eq!(both.matches("<h2>The machine</h2>").count(), 2, "{both}");
        let alone = page(&[on("Slow"), on("Slow")]);
        assert!(
            !alone.contains(one) && alone.contains("shared this machine"),
            "{alone}"
        );
    }

    /// What may be longer than a page breaks, what a heading stands above stays with it, and what
    /// is folded away is there.
    #[test]
    fn a_printed_page_loses_nothing_and_wastes_none() {
        let step = json!({ "size": 1, "figures": {}, "verdict": { "result": "sound" } });
        let page = page(&[json!({ "title": "a: b", "ramp": { "what": "c", "steps": [step] } })]);
        assert_eq!(page.matches("<table class=\"long\">").count(), 1, "{page}");
        assert!(page.contains("<table class=\"overview long\">"), "{page}");
        let (_, print) = page.split_once("@media print").expect("rules for print");
        for rule in [
            "table.long, figure.wide { break-inside: auto; }",
            "h1, h2, h3, .lead, .what, .plain, summary { break-after: avoid; }",
            "details::details-content { display: block; content-visibility: visible; }",
        ] {
            assert!(print.contains(rule), "{rule}");
        }
    }

    /// A stranger reads what was found, what each row is, and that few measurements are noisy; on
    /// a telephone each row is a block of its own, whose cells say what they are.
    #[test]
    fn a_page_begins_with_what_was_found_and_fits_a_telephone() {
        let object = json!({
            "workload": "login",
            "title": "ice-login: <many> words",
            "pairs": 1,
            "parameters": { "connections": 3_000 },
            "metrics": [{ "key": "a_us", "label": "A", "unit": "us" }],
            "measured": { "a_us": { "median": 1.0 } },
            "verdict": { "result": "sound" },
        });
        let page = page(&[object.clone(), object]);
        let (header, main) = page.split_once("<main>").expect("a header and more");
        assert!(header.contains("All 2 workloads are sound"), "{header}");
        assert!(header.contains("noisy"), "{header}");
        let plain = "3,000 accounts that nobody has used before log in at the same moment.";
        // In the row and in the section, of each.
        assert_eq!(main.matches(plain).count(), 4, "{main}");
        assert!(main.contains("<td data-label=\"measured\">"), "{main}");
        // Before the columns, what they mean.
        let (before, _) = main.split_once("<table").expect("a table");
        assert!(
            before.contains("“× floor” compares with a bare program"),
            "{before}"
        );
        let (_, phone) = page.split_once("@media (max-width: 40rem)").expect("rules");
        assert!(phone.contains("content: attr(data-label)"), "{phone}");
    }

    /// A name in a file cannot turn what stands beside it around.
    #[test]
    fn what_cannot_be_seen_is_spelled_out() {
        assert_eq!(
            escaped("a\u{202e}b\u{2066}\u{7}"),
            "a\\u{202e}b\\u{2066}\\u{7}"
        );
        let object = json!({
            "workload": "fanout",
            "title": "ice-1: \u{202e}evil\u{200f}",
            "command": "stentor bench \u{202b}x",
            "server": "\u{2067}s",
            "metrics": [{ "key": "a_us", "label": "\u{202d}a", "unit": "us" }],
            "measured": { "a_us": { "median": 1.0, "low": 1.0, "high": 1.0 } },
            "floors": { "\u{2068}f": { "a_us": { "median": 1.0, "low": 1.0, "high": 1.0 } } },
            "machine": { "processor": "\u{61c}p", "processors": 1, "kernel": "\u{2069}" },
            "rivals": [{ "name": "\u{202c}r", "system": { "program": "\u{202a}" } }],
            "notes": ["\u{200e}n"],
            "verdict": { "result": "failed", "why": "\u{202e}w" },
            "ramp": { "what": "\u{202e}c", "steps": [], "sentence": "\u{202e}s" },
        });
        let page = page(&[object]);
        let hidden: Vec<char> = page.chars().filter(|c| is_hidden(*c)).collect();
        assert!(hidden.is_empty(), "{hidden:?}");
        assert!(page.contains("\\u{202e}evil"), "{page}");
    }

    #[test]
    fn a_page_needs_nothing_else_and_escapes_what_it_shows() {
        let object = json!({
            "workload": "fanout",
            "title": "ice-1: <b>5</b> publishers",
            "command": "stentor bench 'a&b'",
            "parameters": {},
            "metrics": [{ "key": "in_per_s", "label": "in/s", "unit": "per_s" }],
            "machine": { "processor": "<script>" },
            "ramp": {
                "what": "clients",
                "steps": [{
                    "size": 1_000,
                    "figures": { "in_per_s": 100.0 },
                    "verdict": { "result": "failed", "why": "late" },
                }],
                "sentence": "it broke at 1,000 & stayed so",
            },
        });
        let page = page(&[object]);
        assert!(page.contains("&lt;b&gt;5&lt;/b&gt; publishers"), "{page}");
        assert!(page.contains("stentor bench &#39;a&amp;b&#39;"), "{page}");
        assert!(page.contains("it broke at 1,000 &amp; stayed so"), "{page}");
        for foreign in ["<script", "http://", "https://", "url(", "@import", "<link"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
    }
}
