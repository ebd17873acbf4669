//! Types the commands of the book's pages as they stand, and compares what they print.
//!
//! Each page is one shell script in a folder of its own: its files are written, its commands run,
//! and what a command prints is what the page shows below it, line for line. `…` in such a line
//! stands for anything, and alone in a line for any lines. The ports of the page are replaced by
//! free ones. Commands begin in a folder like the project's, with its `deploy` and `docs/examples`.

use std::env;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::blocks::{Block, Mark, blocks};
use crate::tree::Tree;

/// The time that one page may take.
const DEADLINE: Duration = Duration::from_secs(180);

/// The ports that pages name, one before another that is a part of it.
const PORTS: [&str; 6] = ["18083", "1883", "8883", "8083", "8084", "8893"];

/// Programs that a page may use, and that a machine may lack.
const TOOLS: [&str; 8] = [
    "curl",
    "node",
    "mosquitto_pub",
    "mosquitto_sub",
    "mosquitto_passwd",
    "openssl",
    "sqlite3",
    "python3",
];

/// The files that pages copy; the ports in them are replaced as well.
const EXAMPLES: &str = "docs/examples/";

/// Starts the server of a page, after an earlier one has ended, and waits until it listens.
const SERVER: &str = "\
[ -z \"${page_server-}\" ] || wait \"$page_server\"
rm -f serve.out
{ COMMAND
} > serve.out 2> serve.log &
page_server=$!
until grep -qs listening serve.out; do
    kill -0 $page_server || { cat serve.log; exit 1; }
    sleep 0.02
done
cat serve.out
printf '\\036\\n'
";

/// The page has stopped its server, which ends without an error.
const END: &str = "[ -z \"${page_server-}\" ] || wait \"$page_server\"\n";

/// Printed after each block, to tell what each has printed.
const SEPARATOR: char = '\u{1e}';

/// Runs all pages with the `stentor` beside this program.
///
/// # Errors
/// What went wrong on each page.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let this = env::current_exe().map_err(|error| format!("find this program: {error}"))?;
    let binaries = this.parent().unwrap_or(root);
    let stentor = env::var_os("STENTOR").map_or_else(|| binaries.join("stentor"), PathBuf::from);
    if !stentor.exists() {
        let path = stentor.display();
        return Err(format!(
            "there is no {path}: run `cargo build --workspace` first"
        ));
    }
    let tree = Tree::read(root)?;
    let mut troubles = Vec::new();
    let mut count = 0;
    for (path, text) in tree.texts_with(&["md"]) {
        let (blocks, _) = blocks(text);
        let is_run = blocks.iter().any(Block::is_run);
        if !path.starts_with("docs/") || !is_run {
            continue;
        }
        if let Some(tool) = missing(&blocks).or_else(|| missing_client(root, &blocks)) {
            eprintln!("pages: {path} is skipped: this machine has no {tool}");
            continue;
        }
        count += 1;
        if let Err(message) = page(&tree, (root, &stentor, binaries), &blocks) {
            troubles.push(format!("{path}: {message}"));
        }
    }
    if troubles.is_empty() {
        Ok(format!("pages: {count} pages do what they say"))
    } else {
        Err(troubles.join("\n"))
    }
}

/// A program that the commands name and that cannot be found.
fn missing(blocks: &[Block]) -> Option<&'static str> {
    let folders: Vec<PathBuf> =
        env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let is_there = |tool: &str| folders.iter().any(|folder| folder.join(tool).exists());
    let is_used = |tool: &str| {
        let mut run = blocks.iter().filter(|block| block.is_run());
        run.any(|block| block.code.contains(tool))
    };
    TOOLS
        .into_iter()
        .find(|tool| is_used(tool) && !is_there(tool))
}

/// The folder of the Python that `tests/install-tools.sh` has given paho-mqtt.
fn python() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    let folder = cache.join("stentor/tools/python/bin");
    folder.join("python3").exists().then_some(folder)
}

/// The folder of MQTT.js that the same script has installed.
fn node_modules(root: &Path) -> Option<PathBuf> {
    let folder = root.join("tests/js/node_modules").canonicalize().ok()?;
    folder.join("mqtt").exists().then_some(folder)
}

/// A client library that the files of a page use and that `tests/install-tools.sh` installs.
fn missing_client(root: &Path, blocks: &[Block]) -> Option<&'static str> {
    let is_used = |text: &str| {
        let is_file = |block: &&Block| matches!(block.mark, Some(Mark::File(_)));
        let mut files = blocks.iter().filter(is_file);
        files.any(|block| block.code.contains(text))
    };
    if is_used("import paho") && python().is_none() {
        return Some("paho-mqtt");
    }
    (is_used("from \"mqtt\"") && node_modules(root).is_none()).then_some("MQTT.js")
}

/// Runs one page. The paths are the project, the program, and the folder to work in.
fn page(
    tree: &Tree,
    (root, stentor, folder): (&Path, &Path, &Path),
    blocks: &[Block],
) -> Result<(), String> {
    let ports = free_ports()?;
    let replaced = |text: &str| {
        let pairs = PORTS.iter().zip(&ports);
        pairs.fold(text.to_owned(), |text, (port, free)| {
            text.replace(port, free)
        })
    };
    let folder = folder.join("pages").join(&ports[0]);
    let done = |error: std::io::Error| format!("use {}: {error}", folder.display());
    if folder.exists() {
        // Of a page that failed before on the same port.
        fs::remove_dir_all(&folder).map_err(done)?;
    }
    let project = folder.join("project");
    fs::create_dir_all(&project).map_err(done)?;
    std::os::unix::fs::symlink(
        root.canonicalize().map_err(done)?.join("deploy"),
        project.join("deploy"),
    )
    .map_err(done)?;
    for (path, text) in tree.texts().filter(|(path, _)| path.starts_with(EXAMPLES)) {
        let path = project.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&project)).map_err(done)?;
        fs::write(path, replaced(text)).map_err(done)?;
    }
    if let Some(modules) = node_modules(root) {
        std::os::unix::fs::symlink(modules, folder.join("node_modules")).map_err(done)?;
    }
    let script = folder.join("page.sh");
    fs::write(&script, replaced(&script_of(blocks))).map_err(done)?;
    let printed = folder.join("printed");
    let output = File::create(&printed).map_err(done)?;
    let mut path = vec![stentor.parent().unwrap_or(root).to_owned()];
    path.extend(python());
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let mut child = Command::new("sh")
        .args(["-eu", "../page.sh"])
        .current_dir(&project)
        .env(
            "PATH",
            env::join_paths(path).map_err(|error| error.to_string())?,
        )
        .env_remove("STENTOR_DATA_DIR")
        .env_remove("STENTOR_CONFIG")
        // A group of its own, so that nothing that the page started outlives it.
        .process_group(0)
        .stdin(Stdio::null())
        .stderr(output.try_clone().map_err(done)?)
        .stdout(output)
        .spawn()
        .map_err(|error| format!("run sh: {error}"))?;
    let status = wait(&mut child);
    end_group(&child);
    let text = fs::read_to_string(&printed).map_err(done)?;
    match status {
        Some(status) if status.success() => {}
        Some(status) => return Err(format!("{status}; it printed:\n{text}")),
        None => return Err(format!("not done after {DEADLINE:?}; it printed:\n{text}")),
    }
    compare(blocks, &text, replaced)?;
    fs::remove_dir_all(&folder).map_err(done)
}

/// Free ports of this machine, one for each that pages name.
fn free_ports() -> Result<Vec<String>, String> {
    let listeners: Result<Vec<TcpListener>, _> = PORTS
        .iter()
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect();
    let listeners = listeners.map_err(|error| format!("find a free port: {error}"))?;
    let ports = listeners.iter().map(|listener| {
        let address = listener.local_addr();
        address.map(|address| address.port().to_string())
    });
    let ports: Result<Vec<String>, _> = ports.collect();
    ports.map_err(|error| format!("find a free port: {error}"))
}

/// The page as a shell script.
fn script_of(blocks: &[Block]) -> String {
    let mut script = String::new();
    for block in blocks {
        let code = &block.code;
        match &block.mark {
            Some(Mark::File(name)) => {
                script += &format!("cat > '{name}' <<'END_OF_FILE'\n{code}\nEND_OF_FILE\n");
            }
            Some(Mark::Tour) => script += &format!("{code}\nprintf '\\036\\n'\n"),
            Some(Mark::Server) => script += &SERVER.replace("COMMAND", code),
            _ => {}
        }
    }
    script + END
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let begin = Instant::now();
    while begin.elapsed() < DEADLINE {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    None
}

/// Ends everything that the page left running.
fn end_group(child: &Child) {
    let group = format!("-{}", child.id());
    // It fails when nothing is left.
    let kill = Command::new("kill")
        .args(["-KILL", "--", &group])
        .stderr(Stdio::null())
        .status();
    drop(kill);
}

/// Compares what each block is said to print with what it printed.
fn compare(
    blocks: &[Block],
    printed: &str,
    replaced: impl Fn(&str) -> String,
) -> Result<(), String> {
    let mut parts = printed.split(SEPARATOR);
    let mut part = "";
    for block in blocks {
        match block.mark {
            Some(Mark::Tour | Mark::Server) => part = parts.next().unwrap_or_default(),
            Some(Mark::Output) => {
                let expected = replaced(&block.code);
                let (expected, lines) = (lines_of(&expected), lines_of(part));
                if let Err(matched) = matches_all(&expected, &lines) {
                    let at = block.line;
                    let line = lines.get(matched).copied().unwrap_or("the end");
                    return Err(format!(
                        "line {at}: the page does not show {line:?} there; it printed:\n{part}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The lines that are not empty.
fn lines_of(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty()).collect()
}

/// Whether printed lines are the expected ones; `…` alone in a line stands for any number of them.
///
/// # Errors
/// How many printed lines are as expected.
fn matches_all(expected: &[&str], printed: &[&str]) -> Result<(), usize> {
    let Some((line, rest)) = expected.split_first() else {
        return if printed.is_empty() { Ok(()) } else { Err(0) };
    };
    if line.trim() == "…" {
        let tails = (0..=printed.len()).map(|from| (from, matches_all(rest, &printed[from..])));
        let mut furthest = 0;
        for (from, result) in tails {
            match result {
                Ok(()) => return Ok(()),
                Err(matched) if matched > 0 => furthest = furthest.max(from + matched),
                Err(_) => {}
            }
        }
        return Err(furthest);
    }
    match printed.split_first() {
        Some((first, others)) if matches(line, first) => {
            matches_all(rest, others).map_err(|matched| matched + 1)
        }
        _ => Err(0),
    }
}

/// Whether a printed line is the expected one; `…` there stands for anything.
fn matches(expected: &str, printed: &str) -> bool {
    let mut pieces = expected.trim_end().split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = printed.trim_end().strip_prefix(first) else {
        return false;
    };
    let mut is_open = false;
    for piece in pieces {
        let Some(at) = rest.rfind(piece).filter(|_| !piece.is_empty()) else {
            if piece.is_empty() {
                is_open = true;
                continue;
            }
            return false;
        };
        is_open = false;
        rest = &rest[at + piece.len()..];
    }
    is_open || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_anything() {
        for (expected, printed, is_match) in [
            ("a b", "a b", true),
            ("a b", "a b c", false),
            ("a …", "a b c", true),
            ("… c", "a b c", true),
            ("a … c", "a b c", true),
            ("a … c", "a b", false),
            ("a … c", "a c d", false),
            ("…", "", true),
        ] {
            assert_eq!(matches(expected, printed), is_match, "{expected} {printed}");
        }
    }

    #[test]
    fn each_block_prints_what_stands_below_it() {
        let (blocks, _) = blocks(
            "<!-- file: f -->\n```toml\nport = 1883\n```\n<!-- tour -->\n```sh\necho 1883\n```\n\
             <!-- output -->\n```text\n1883\n```\n<!-- tour -->\n```sh\necho b\n```\n\
             <!-- output -->\n```text\nb\n```\n",
        );
        let script = script_of(&blocks);
        assert!(script.ends_with(END));
        assert!(script.starts_with("cat > 'f' <<'END_OF_FILE'\nport = 1883\nEND_OF_FILE\n"));
        let replaced = |text: &str| text.replace("1883", "7");
        assert_eq!(compare(&blocks, "7\n\u{1e}\nb\n\u{1e}\n", replaced), Ok(()));
        let error = compare(&blocks, "7\n\u{1e}\n\u{1e}\n", replaced).expect_err("b is missing");
        assert!(error.starts_with("line 18: the page does not show \"the end\""));
        let error = compare(&blocks, "8\n7\n\u{1e}\nb\n\u{1e}\n", replaced).expect_err("8");
        assert!(error.contains("does not show \"8\" there"), "{error}");
    }

    #[test]
    fn dots_alone_stand_for_any_lines() {
        for (expected, printed, result) in [
            ("a …", "a b", Ok(())),
            ("a …", "a", Ok(())),
            ("… b", "a b", Ok(())),
            ("a … b … c", "a x b y z c", Ok(())),
            ("a b", "a x b", Err(1)),
            ("a", "a x", Err(1)),
            ("a b", "a", Err(1)),
            ("a … b", "a x y", Err(0)),
        ] {
            let (expected, printed) = (expected.split(' '), printed.split(' '));
            let (expected, printed): (Vec<_>, Vec<_>) = (expected.collect(), printed.collect());
            let found = matches_all(&expected, &printed).map_err(|_| ());
            assert_eq!(
                found,
                result.map_err(|_: usize| ()),
                "{expected:?} {printed:?}"
            );
        }
    }
}
