//! `stentor bench report` and `stentor bench compare`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use boon::{Compiler, Schemas};
use serde_json::{Value, json};
use stentor_tests::process::{Finished, finish, run, start};
use stentor_tests::server::stentor;
use stentor_tests::{DEADLINE, tools};

use crate::faulty::{Fault, Faulty};
use crate::measure_each;

/// A result with one figure of this spread, measured three times.
fn result(low: f64, median: f64, high: f64) -> Value {
    json!({
        "schema": 1,
        "workload": "fanout",
        "title": "ice-1: a load",
        "parameters": { "payload_bytes": 1_000 },
        "pairs": 3,
        "machine": { "processor": "A", "processors": 2, "kernel": "6.1", "build": "release" },
        "metrics": [{
            "key": "latency_p99_us", "label": "p99", "unit": "us", "against_floor": false,
        }],
        "measured": { "latency_p99_us": { "low": low, "median": median, "high": high } },
        "verdict": { "result": "sound", "why": null },
    })
}

fn file(folder: &Path, name: &str, results: &[Value]) -> PathBuf {
    let file = folder.join(name);
    let lines: String = results.iter().map(|result| format!("{result}\n")).collect();
    fs::write(&file, lines).unwrap();
    file
}

fn compare(old: &[Value], new: &[Value]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let old = file(folder.path(), "old.json", old);
    let new = file(folder.path(), "new.json", new);
    run(stentor().args(["bench", "compare"]).arg(old).arg(new))
}

#[test]
fn what_got_worse_is_told_from_noise() {
    let old = result(95.0, 100.0, 105.0);
    for (new, code, word) in [
        (result(150.0, 160.0, 170.0), 1, "WORSE"),
        (result(50.0, 60.0, 70.0), 0, "better"),
        // The spreads overlap.
        (result(104.0, 120.0, 140.0), 0, "1 the same"),
    ] {
        let finished = compare(std::slice::from_ref(&old), &[new]);
        assert_eq!(finished.status.code(), Some(code), "{finished}");
        assert!(
            finished.stdout.contains(word) || word == "1 the same",
            "{finished}"
        );
    }
    let mut failed = old.clone();
    failed["verdict"]["result"] = "failed".into();
    let finished = compare(&[old], &[failed]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let old = result(95.0, 100.0, 105.0);
    let mut other = old.clone();
    other["parameters"]["payload_bytes"] = 100.into();
    let results = std::slice::from_ref(&old);
    for (old, new, why) in [
        (results, std::slice::from_ref(&other), "in common"),
        (results, &[], "no results"),
        (&[json!({ "a": 1 })], results, "line 1"),
    ] {
        let finished = compare(old, new);
        assert_eq!(finished.status.code(), Some(3), "{finished}");
        assert!(finished.stderr.contains(why), "{why}: {finished}");
    }
    let finished = compare(&[old], &[other]);
    let differing = "payload_bytes 1000 → 100";
    assert!(finished.stderr.contains(differing), "{finished}");
}

/// The file, the line and the field are named.
#[test]
fn a_result_that_makes_no_sense_is_refused() {
    let old = result(95.0, 100.0, 105.0);
    for (pointer, wrong) in [
        ("/schema", json!(2)),
        ("/pairs", json!("three")),
        ("/machine", json!(null)),
        ("/measured/latency_p99_us/median", json!("100")),
        ("/measured/latency_p99_us/median", json!(-100.0)),
        ("/measured/latency_p99_us/high", json!(1e200)),
        ("/measured/latency_p99_us/low", json!(null)),
        ("/verdict/result", json!("splendid")),
    ] {
        let mut new = old.clone();
        *new.pointer_mut(pointer).expect("a field") = wrong;
        let finished = compare(std::slice::from_ref(&old), &[old.clone(), new]);
        assert_eq!(finished.status.code(), Some(3), "{pointer}: {finished}");
        let field = pointer.trim_start_matches('/').replace('/', ".");
        for told in ["new.json line 2", &field] {
            assert!(finished.stderr.contains(told), "{told}: {finished}");
        }
    }
}

/// Only ratios hold on another machine.
#[test]
fn machines_that_differ_are_told() {
    let mut old = result(95.0, 100.0, 105.0);
    let mut new = result(150.0, 160.0, 170.0);
    new["machine"]["kernel"] = "6.18".into();
    let finished = compare(std::slice::from_ref(&old), std::slice::from_ref(&new));
    assert_eq!(finished.status.code(), Some(3), "{finished}");
    assert!(finished.stderr.contains("kernel 6.1 → 6.18"), "{finished}");
    for (ratios, code) in [([1.0, 1.01], 0), ([1.0, 2.0], 1)] {
        for (result, ratio) in [&mut old, &mut new].into_iter().zip(ratios) {
            let ratio = json!({ "low": ratio, "median": ratio, "high": ratio });
            result["ratio"] = json!({ "latency_p99_us": ratio });
        }
        let finished = compare(std::slice::from_ref(&old), std::slice::from_ref(&new));
        assert_eq!(finished.status.code(), Some(code), "{finished}");
        for told in ["different machines", "kernel 6.1 → 6.18"] {
            assert!(finished.stdout.contains(told), "{told}: {finished}");
        }
    }
    // Loss is the server's, whatever the machine is.
    let mut failed = result(95.0, 100.0, 105.0);
    failed["machine"]["kernel"] = "6.18".into();
    failed["verdict"]["result"] = "failed".into();
    let finished = compare(&[result(95.0, 100.0, 105.0)], &[failed]);
    assert_eq!(finished.status.code(), Some(1), "{finished}");
    // A debug build is compared, with a warning.
    let mut debug = result(95.0, 100.0, 105.0);
    debug["machine"]["build"] = "debug".into();
    let finished = compare(&[result(95.0, 100.0, 105.0)], &[debug]);
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    assert!(
        finished.stdout.contains("build release → debug"),
        "{finished}"
    );
}

#[test]
fn a_report_is_made_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), "a.json", &[result(95.0, 100.0, 105.0)]);
    let page = folder.path().join("a.html");
    let mut command = stentor();
    command
        .args(["bench", "report"])
        .arg(&file)
        .arg("--html")
        .arg(&page);
    run(&mut command).success();
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.contains("ice-1") && page.contains("100 µs"), "{page}");
    let missing = folder.path().join("missing.json");
    let mut command = stentor();
    command
        .args(["bench", "report"])
        .arg(&missing)
        .args(["--html", "-"]);
    let refusal = run(&mut command).refusal();
    assert!(refusal.contains("missing.json"), "{refusal}");
}

/// The plots of hours have hundreds of thousands of points, and names from a file may have
/// characters that turn the text around them: a page has neither.
#[test]
fn a_page_of_a_strange_file_is_short_and_shows_what_is_in_it() {
    const STEPS: u32 = 300_000;
    let hidden = "x\u{202e}y\u{2066}z";
    let mut result = result(95.0, 100.0, 105.0);
    for key in ["title", "server", "command"] {
        result[key] = hidden.into();
    }
    result["notes"] = vec![hidden].into();
    result["verdict"] = json!({ "result": "failed", "why": hidden });
    let counts: Vec<u32> = (0..STEPS).map(|step| step % 977).collect();
    result["series"] = json!({ "step_seconds": 0.001, "counts": counts });
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), "strange.json", &[result]);
    let page = folder.path().join("page.html");
    let mut command = stentor();
    command.args(["bench", "report"]).arg(&file).arg("--html");
    run(command.arg(&page)).success();
    let page = fs::read_to_string(&page).unwrap();
    assert!(page.len() < 500_000, "{} bytes", page.len());
    let shown = "x\\u{202e}y\\u{2066}z";
    assert!(page.contains(shown), "{page}");
    let is_hidden = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert!(!page.contains(is_hidden), "{page}");
    // Nor has a terminal.
    let mut command = stentor();
    command.args(["bench", "compare"]).arg(&file).arg(&file);
    let compared = run(&mut command).to_string();
    assert!(compared.contains(shown), "{compared}");
    assert!(!compared.contains(is_hidden), "{compared}");
}

/// Results may have taken an hour to make.
#[test]
fn a_report_does_not_replace_what_it_is_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let [old, new] = ["old.json", "new.json"].map(|name| {
        let results = [result(95.0, 100.0, 105.0)];
        file(folder.path(), name, &results)
    });
    let before = fs::read_to_string(&new).unwrap();
    symlink("new.json", folder.path().join("link")).unwrap();
    fs::hard_link(&new, folder.path().join("hard")).unwrap();
    for page in ["new.json", "./new.json", "link", "hard"] {
        let mut command = stentor();
        command.args(["bench", "report"]).arg(&old).arg("new.json");
        command.args(["--html", page]).current_dir(folder.path());
        let finished = run(&mut command);
        assert_eq!(finished.status.code(), Some(3), "{page}: {finished}");
        let told = format!("--html {page}: this is new.json");
        for part in [&told, "name another file"] {
            assert!(finished.stderr.contains(part), "{part}: {finished}");
        }
        assert_eq!(fs::read_to_string(&new).unwrap(), before, "{page}");
    }
}

/// Whatever comes of the run: a machine that is busy with other things may not keep the pace.
#[test]
fn a_password_is_in_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["result.json", "result.html"].map(|name| folder.path().join(name));
    let server = Faulty::start(Fault::None);
    let target = server.url().replace("://", "://me:s3cret@");
    let mut command = stentor();
    command.args([
        "bench",
        "fanout",
        "ice-1",
        "--no-floor",
        "--target",
        &target,
    ]);
    command.args(["--publishers", "1", "--subscribers", "1", "--seconds", "1"]);
    command
        .args(["--warmup", "0", "--pairs", "1", "--json"])
        .arg(&files[0]);
    command.arg("--html").arg(&files[1]);
    let finished = finish(start(&mut command), DEADLINE);
    let [json, html] = files.map(|file| fs::read_to_string(file).unwrap());
    for text in [&finished.stdout, &finished.stderr, &json, &html] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    for text in [&finished.stdout, &json, &html] {
        assert!(text.contains("me:PASSWORD@"), "{text}");
    }
}

/// docs/benchmarks.schema.json holds for what is written: for a load that was measured, for one
/// that grew, and for what could not be run.
#[test]
fn results_are_what_the_schema_says() {
    let text = fs::read_to_string(tools::project().join("docs/benchmarks.schema.json")).unwrap();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let schema: Value = serde_json::from_str(&text).unwrap();
    compiler.add_resource("schema.json", schema).unwrap();
    let schema = compiler.compile("schema.json", &mut schemas).unwrap();
    let fanout = ["fanout", "ice-2", "--publishers", "1", "--subscribers", "3"];
    let time = ["--seconds", "1", "--warmup", "0", "--pairs", "1"];
    let nobody = ["--against", "mqtt://127.0.0.1:1", "--placement", "free"];
    let ramp = ["private", "appwarp-heavy", "--ramp", "5", "--clients", "10"];
    let brief = ["--seconds", "1", "--warmup", "0"];
    let missing = ["idle", "--target", "mqtt://127.0.0.1:1"];
    let call = ["call", "--calls", "10"];
    let operate = ["operate", "scrape", "--clients", "3", "--pairs", "1"];
    for arguments in [
        [&fanout[..], &time, &nobody].concat(),
        [&ramp[..], &brief].concat(),
        missing.to_vec(),
        call.to_vec(),
        [&operate[..], &["--seconds", "0.2"]].concat(),
    ] {
        let (finished, results) = measure_each(&arguments);
        assert!(!results.is_empty(), "{finished}");
        for result in results {
            assert!(result["measured_at"].is_string(), "{result}");
            if let Err(error) = schemas.validate(&result, schema) {
                panic!("{error:#}\n{result}");
            }
        }
    }
}

/// A load that takes a moment.
fn brief() -> Command {
    let mut command = stentor();
    command.args(["bench", "idle", "--connections", "5", "--pairs", "1"]);
    command.arg("--no-floor");
    command
}

/// Scripts read it as it comes.
#[test]
fn json_on_standard_output_stands_alone() {
    let finished = run(brief().args(["--json", "-"]));
    assert_eq!(finished.status.code(), Some(0), "{finished}");
    let objects: Vec<Value> = finished
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {finished}")))
        .collect();
    assert_eq!(objects.len(), 1, "{finished}");
    assert!(finished.stderr.contains("again: stentor"), "{finished}");
    let both = run(brief().args(["--json", "-", "--html", "-"]));
    assert_eq!(both.status.code(), Some(3), "{both}");
    assert!(both.stderr.contains("the same file"), "{both}");
}

/// Without files, nobody can read the results any more; with one, somebody will.
#[test]
fn a_reader_who_leaves_ends_what_nobody_will_read() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("r.json");
    for (arguments, code) in [
        (vec![], 141),
        (vec!["--json", "-"], 141),
        (vec!["--json", file.to_str().expect("a name")], 0),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be made");
        drop(reader);
        let mut command = brief();
        command.args(&arguments).stdin(Stdio::null()).stdout(writer);
        let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let finished = finish(child, DEADLINE);
        assert_eq!(
            finished.status.code(),
            Some(code),
            "{arguments:?} {finished}"
        );
        assert!(!finished.stderr.contains("pipe"), "{finished}");
    }
    assert!(crate::read(&file).is_some());
}

#[test]
fn a_target_that_is_not_there_could_not_be_measured() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("mqtt://{}", listener.local_addr().unwrap());
    drop(listener);
    let finished = run(stentor().args(["bench", "idle", "--target", &target]));
    assert_eq!(finished.status.code(), Some(3), "{finished}");
}

/// 2 is the generator's: a mistake on the command line is a run that could not be.
#[test]
fn a_command_line_without_sense_could_not_run() {
    for arguments in [
        ["fanuot", "ice-1"],
        ["fanout", "ice-3"],
        ["idle", "--connections=x"],
        ["idle", "--against=mosqitto"],
    ] {
        let finished = run(stentor().arg("bench").args(arguments));
        assert_eq!(finished.status.code(), Some(3), "{finished}");
    }
    run(stentor().args(["bench", "fanout", "--help"])).success();
}
