//! `stentor-call`, built for the systems of other people's mail servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use stentor_tests::{Finished, Plan, Server, process, server, tools};

const WINDOWS: &str = "x86_64-pc-windows-gnu/release/stentor-call.exe";
const MACOS: &str = "aarch64-apple-darwin/release/stentor-call";

/// One of the programs, which are built together, once. The first build takes some minutes, as the
/// standard library of each system is built too; so there is no deadline.
fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let profile = server::binary();
        let profile = profile.parent().expect("it is in a folder");
        let folder = profile.with_file_name("portable");
        let script = tools::project().join("tests/build-portable.sh");
        let mut build = Command::new(script);
        let built = build.arg(&folder).stdin(Stdio::null()).output();
        let built = built.expect("a script can be run");
        let told = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{told}");
        folder
    });
    folder.join(name)
}

/// A Windows of its own, and the program in it.
struct Windows {
    prefix: tempfile::TempDir,
    program: PathBuf,
}

impl Windows {
    fn start() -> Self {
        let program = program(WINDOWS);
        let prefix = tempfile::tempdir().expect("a temporary folder can be made");
        Self { prefix, program }
    }

    fn wine(&self, name: &str) -> Command {
        let mut command = Command::new(Path::new("/usr/lib/wine").join(name));
        command
            .env("WINEPREFIX", self.prefix.path())
            .env("WINEDEBUG", "-all")
            .env_remove("STENTOR_TOKEN")
            .env_remove("DISPLAY")
            .stdin(Stdio::null());
        command
    }

    fn call(&self, server: &Server, words: &[&str]) -> Finished {
        let port = server.port("call");
        let mut command = self.wine("wine64");
        command.arg(&self.program);
        command.args(["-s", "127.0.0.1", "-p", &port]).args(words);
        process::run(&mut command)
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        // Its services would wait some seconds for the next program.
        let _ = self.wine("wineserver64").arg("-k").status();
    }
}

/// A file, by its name in Windows.
fn file(server: &Server, name: &str, content: &[u8]) -> String {
    let path = server.folder().join(name);
    fs::write(&path, content).expect("a file can be written");
    format!("Z:{}", path.display()).replace('/', "\\")
}

#[test]
fn the_windows_program_asks_a_server() {
    let windows = Windows::start();
    let plan = Plan::new();
    let procedures = plan.folder().join("procedures");
    fs::create_dir(&procedures).expect("a folder can be made");
    let script = "return function(call) return accept('I am ' .. call.caller) end";
    fs::write(procedures.join("closed.luau"), script).expect("a file can be written");
    // The SHA-256 of "secret".
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    let tokens = format!("filter token:{hash}\n");
    fs::write(plan.folder().join("tokens"), tokens).expect("a file can be written");
    let server = plan
        .listen("call://127.0.0.1:0")
        .config("[procedures]\nfolder = \"procedures\"\ntokens = \"tokens\"\n")
        .start();
    let token = file(&server, "token", b"secret\r\n");
    let known = windows.call(&server, &["--token-file", &token, "/closed"]);
    assert_eq!(known.success().trim_end(), "I am filter");
    let mail = file(&server, "m.eml", b"From: a@example.org\r\n\r\nhello\r\n");
    let code = |words: &[&str]| {
        let finished = windows.call(&server, words);
        finished
            .status
            .code()
            .unwrap_or_else(|| panic!("{finished}"))
    };
    assert_eq!(code(&["--file", &mail, "/sizecheck", "-max", "1000"]), 0);
    assert_eq!(code(&["--file", &mail, "/sizecheck", "-max", "10"]), 1);
    // As the filter lines of a mail server have said it for decades.
    let old = [
        "/sizecheck",
        "-file",
        &mail,
        "-max",
        "10",
        "-rrcpt",
        "b@example.org",
    ];
    assert_eq!(code(&old), 1);
    let missing = windows.call(&server, &["--file", "Z:\\missing.eml", "/sizecheck"]);
    assert_eq!(missing.status.code(), Some(2), "{missing}");
    assert!(missing.stderr.contains("missing.eml"), "{missing}");
}

#[test]
fn the_program_for_macos_needs_the_system_alone() {
    let program = fs::read(program(MACOS)).expect("it was built");
    // A 64-bit program in Mach-O for arm64.
    assert_eq!(program[..8], [0xCF, 0xFA, 0xED, 0xFE, 0x0C, 0, 0, 1]);
    let text = String::from_utf8_lossy(&program);
    let libraries: Vec<&str> = text
        .split('\0')
        .filter(|word| word.starts_with('/') && word.ends_with(".dylib"))
        .collect();
    assert_eq!(libraries, ["/usr/lib/libSystem.B.dylib"]);
}
