//! What a configuration names outside itself, looked at without changing anything.

use std::path::Path;

use stentor_procedure::is_builtin;

use crate::accounts;
use crate::adaptors;
use crate::call;
use crate::config::{Config, Listener, Question};
use crate::error::ServerError;
use crate::http;
use crate::listener::{Access, check_unix};
use crate::logins;

use super::open_listeners;

/// Everything that `stentor serve` would refuse a good configuration for and that can be told by
/// reading alone: certificates and keys, users and groups of this machine, the places of Unix
/// sockets, keys of tokens, folders and databases that are named, the code of adaptors. What only
/// trying tells, such as a taken port, is not among it.
///
/// The refusals come in the order in which a start would find them, each with its remedy.
#[must_use]
pub fn check(config: &Config) -> Vec<ServerError> {
    let mut refusals: Vec<ServerError> = Vec::new();
    let data_dir = &config.general.data_dir;
    for listener in &config.listeners {
        refusals.extend(open_listeners::certificate(listener).err());
        refusals.extend(check_socket(listener, data_dir).err());
        refusals.extend(call::check_callers(listener).err());
    }
    refusals.extend(http::certificate(&config.http).err());
    refusals.extend(logins::settings(config).err());
    refusals.extend(accounts::check(config).err());
    refusals.extend(call::check_files(&config.procedures).err());
    refusals.extend(adaptors::check(config));
    refusals
}

/// What need not be a mistake: folders that are made when the service starts, procedures that mail
/// servers ask and that are missing, and certificates that make the server slow. Each is a
/// sentence.
#[must_use]
pub fn hints(config: &Config) -> Vec<String> {
    let mut hints = missing_folders(config);
    let folder = config.procedures.folder.as_deref();
    hints.extend(
        config
            .listeners
            .iter()
            .filter_map(|it| unanswered(it, folder)),
    );
    hints.extend(
        config
            .listeners
            .iter()
            .filter_map(open_listeners::slow_certificate),
    );
    hints
}

/// Says that a mail server would ask a procedure that does not exist.
fn unanswered(listener: &Listener, folder: Option<&Path>) -> Option<String> {
    let url = &listener.url;
    if !url.is_mail() {
        return None;
    }
    let name = Question::parse(listener.procedure.as_deref()?)
        .ok()?
        .procedure;
    if is_builtin(&name) {
        return None;
    }
    let Some(folder) = folder else {
        return Some(format!(
            "{url} asks /{name}, and the server has no folder of procedures: set \
             procedures.folder, or mail is deferred"
        ));
    };
    let files = ["luau", "toml"].map(|ending| folder.join(format!("{name}.{ending}")));
    let is_missing = !files.iter().any(|file| file.exists());
    let shown = folder.display();
    is_missing.then(|| {
        format!(
            "{url} asks /{name}, and {shown} has no {name}.luau: until it has, mail is deferred"
        )
    })
}

fn missing_folders(config: &Config) -> Vec<String> {
    let sockets = config.listeners.iter().filter_map(|it| it.url.unix_path());
    let folders = sockets.filter_map(Path::parent);
    let missing = folders.filter(|folder| is_made_at_start(folder) && !folder.is_dir());
    let hint = |folder: &Path| {
        let folder = folder.display();
        format!(
            "there is no folder {folder} now: `RuntimeDirectory` of the unit makes it at a start"
        )
    };
    missing.map(hint).collect()
}

/// Whether a folder is one that the system makes when it starts the service: /run is empty after
/// a boot.
fn is_made_at_start(folder: &Path) -> bool {
    folder != Path::new("/run") && folder.starts_with("/run")
}

fn check_socket(listener: &Listener, data_dir: &Path) -> Result<(), ServerError> {
    let Some(path) = listener.url.unix_path() else {
        return Ok(());
    };
    let is_made = path.parent().is_some_and(is_made_at_start);
    if !is_made && !is_below(path, data_dir) {
        check_unix(&listener.url, path)?;
    }
    Access::of(listener, path).map(drop)
}

/// Whether a socket is in the data folder, which the start makes before it opens listeners.
fn is_below(path: &Path, data_dir: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    match (path.parent().and_then(absolute), absolute(data_dir)) {
        (Some(folder), Some(data_dir)) => folder == data_dir,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Sources;

    #[test]
    fn a_socket_may_stand_in_a_data_folder_that_is_not_there_yet() {
        assert!(is_below(Path::new("data/s.sock"), Path::new("./data")));
        assert!(is_below(Path::new("/x/data/s.sock"), Path::new("/x/data")));
        assert!(!is_below(Path::new("/x/s.sock"), Path::new("/x/data")));
        assert!(!is_below(Path::new("s.sock"), Path::new("data")));
    }

    #[test]
    fn a_procedure_that_mail_servers_ask_and_that_is_missing_is_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let hint = |url: &str, procedure: &str, folder: Option<&Path>| {
            let listener = format!("[[listener]]\nurl = \"{url}\"\nprocedure = \"{procedure}\"\n");
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), listener).unwrap();
            let sources = Sources::from_process(Some(file.path().to_owned()), Vec::new());
            unanswered(&Config::load(&sources).unwrap().listeners[0], folder)
        };
        let url = "milter://127.0.0.1:8893";
        assert_eq!(hint(url, "/sizecheck -max 9", None), None, "it is built in");
        let told = hint(url, "/subjects", None).unwrap();
        assert!(told.contains("set procedures.folder"), "{told}");
        let told = hint(url, "/subjects", Some(folder.path())).unwrap();
        assert!(told.contains("has no subjects.luau"), "{told}");
        std::fs::write(folder.path().join("subjects.toml"), "").unwrap();
        assert_eq!(hint(url, "/subjects", Some(folder.path())), None);
    }

    #[test]
    fn folders_below_run_are_made_at_a_start() {
        assert!(is_made_at_start(Path::new("/run/stentor")));
        assert!(!is_made_at_start(Path::new("/run")));
        assert!(!is_made_at_start(Path::new("/runs/stentor")));
    }
}
