//! Other people's programs, as `tests/install-tools.sh` installs them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::{Server, process};

/// What to do when a program is missing.
pub(crate) const REMEDY: &str = "run tests/install-tools.sh once (`make tools`)";

/// The folder of the tests in the source tree. Asked at run time: objects may be shared between
/// checkouts, and the one whose tests run is meant.
///
/// # Panics
/// When something else than cargo runs the tests.
#[must_use]
pub fn folder() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = env::var_os("CARGO_MANIFEST_DIR");
        PathBuf::from(folder.expect("cargo runs the tests and says where their package is"))
    });
    &FOLDER
}

/// The project's folder.
///
/// # Panics
/// Never: this package lies in a folder of the project.
#[must_use]
pub fn project() -> &'static Path {
    folder().parent().expect("the tests lie in the project")
}

/// A program that runs one of the scripts in `tests/python` with paho.
///
/// # Panics
/// If the tools are not installed.
#[must_use]
pub fn python(script: &str) -> Command {
    let python = cache().join("python/bin/python");
    assert!(
        python.exists(),
        "there is no {}: {REMEDY}",
        python.display()
    );
    let mut command = Command::new(python);
    // Bytecode of the scripts would litter the source tree.
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(folder().join("python").join(script));
    command
}

/// Runs one case of a script in `tests/python`, over MQTT and TCP.
///
/// # Panics
/// If the case fails, or the tools are not installed.
#[track_caller]
pub fn python_case(script: &str, case: &str, version: &str, server: &Server) {
    run_case(&mut python(script), case, version, server);
}

/// The same for a script that needs more than its arguments.
///
/// # Panics
/// If the case fails.
#[track_caller]
pub fn run_case(script: &mut Command, case: &str, version: &str, server: &Server) {
    let address = server.address("mqtt");
    let (host, port) = address.rsplit_once(':').expect("an address has a port");
    process::run(script.args([case, version, host, port])).success();
}

/// Makes a test of each case of a script: in a module for each MQTT version, by the function
/// `check(case, version)` beside it.
#[macro_export]
macro_rules! cases {
    ($($version:literal in $module:ident { $($case:ident,)+ })+) => {
        $(mod $module {
            $(#[test]
            fn $case() {
                super::check(stringify!($case), $version);
            })+
        })+
    };
}

/// A program that runs one of the scripts in `tests/js` with MQTT.js.
///
/// # Panics
/// If the tools are not installed.
#[must_use]
pub fn node(script: &str) -> Command {
    let modules = folder().join("js/node_modules/mqtt");
    assert!(
        modules.exists(),
        "there is no {}: {REMEDY}",
        modules.display()
    );
    let mut command = Command::new("node");
    command.arg(folder().join("js").join(script));
    command
}

/// A browser without a window that logs what pages write to their console.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn browser() -> Command {
    // Should the test itself be killed, the browser does not outlive it for long.
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "180"]);
    command.arg(find("chromium-headless-shell"));
    // Containers and root have no sandbox; the pages are the tests' own. The name in the last
    // flag stands for a host that is not this machine's own name.
    command.args([
        "--no-sandbox",
        "--no-zygote",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--enable-logging=stderr",
        "--host-resolver-rules=MAP elsewhere.localhost.test 127.0.0.1",
    ]);
    command
}

/// A program of the Prometheus project.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn prometheus(name: &str) -> Command {
    Command::new(find(name))
}

/// A program that asks everything that an OpenAPI document describes.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn schemathesis() -> Command {
    let program = cache().join("schemathesis/bin/schemathesis");
    let shown = program.display();
    assert!(program.exists(), "there is no {shown}: {REMEDY}");
    Command::new(program)
}

/// A program of the mosquitto project. Debian keeps the broker in a folder that is only on the
/// administrator's path, so that folder is searched too.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn mosquitto(name: &str) -> Command {
    Command::new(find(name))
}

/// A plugin of mosquitto, where Debian keeps them.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn mosquitto_plugin(name: &str) -> PathBuf {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut places = folders.map(|folder| folder.path().join(name));
    let found = places.find(|place| place.exists());
    found.unwrap_or_else(|| panic!("there is no {name}: {REMEDY}"))
}

/// A program by its name, also from the folders that are only on the administrator's path.
///
/// # Panics
/// If it is not installed.
#[must_use]
pub fn find(name: &str) -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|program| program.exists());
    found.unwrap_or_else(|| panic!("there is no {name}: {REMEDY}"))
}

/// The folder with what is installed for the tests alone. Nobody but its owner writes to it.
///
/// # Panics
/// If this user has no home.
#[must_use]
pub fn cache() -> PathBuf {
    env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))
        .expect("XDG_CACHE_HOME or HOME is set")
        .join("stentor/tools")
}
