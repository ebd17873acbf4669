//! A data folder with or without its server.

use std::fs;

use serde_json::Value;
use stentor_tests::raw::connect_as;
use stentor_tests::{Finished, Plan, Raw, Server, Version, process, server};

const CONFIG: &str = "[[listener]]\nurl = \"mqtt://127.0.0.1:0\"\n";

/// A data folder with or without its server.
pub(crate) struct Place {
    pub(crate) server: Option<Server>,
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn running() -> Self {
        Self::with("")
    }

    /// A running server with more in its configuration.
    pub(crate) fn with(more: &str) -> Self {
        let config = format!("{CONFIG}{more}");
        Self {
            server: Some(Plan::new().config(&config).start()),
            folder: tempfile::tempdir().expect("a folder can be made"),
        }
    }

    /// A running server with general keys, which come first in a configuration, and more.
    pub(crate) fn with_general(keys: &str) -> Self {
        let (general, more) = keys.split_once('[').unwrap_or((keys, ""));
        let config = format!("{general}{CONFIG}[{more}");
        Self {
            server: Some(Plan::new().config(&config).start()),
            folder: tempfile::tempdir().expect("a folder can be made"),
        }
    }

    pub(crate) fn stopped() -> Self {
        Self {
            server: None,
            folder: tempfile::tempdir().expect("a folder can be made"),
        }
    }

    pub(crate) fn data_dir(&self) -> std::path::PathBuf {
        match &self.server {
            Some(server) => server.data_dir(),
            None => self.folder.path().join("data"),
        }
    }

    #[track_caller]
    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        let mut command = server::stentor();
        command.args(args).arg("--data-dir").arg(self.data_dir());
        process::run(&mut command)
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let text = self.run(&args).success();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("no JSON ({error}): {text}"))
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        fs::write(&path, text).expect("a file can be written");
        path.to_str().expect("a path of ASCII").to_owned()
    }

    /// The server that runs.
    #[track_caller]
    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().expect("the server runs")
    }

    /// Adds a user whose password is its name.
    #[track_caller]
    pub(crate) fn add(&self, name: &str, roles: &[&str]) {
        let password = self.file("password", &format!("{name}\n"));
        let mut args = vec!["user", "add", name, "--password-file", &password];
        for role in roles {
            args.extend(["--role", role]);
        }
        self.run(&args).success();
    }

    /// The answer to a CONNECT of MQTT 5 with this user name and password.
    #[track_caller]
    pub(crate) fn connect(&self, client_id: &str, login: (&str, &str)) -> (u8, Raw) {
        let mut client = self.server().dial();
        client.send(&connect_as(Version::V5, client_id, true, Some(login)));
        client.speaks(Version::V5);
        let code = client.expect(2).body[1];
        (code, client)
    }

    /// A client that has logged in with its name as its password.
    #[track_caller]
    pub(crate) fn login(&self, user: &str) -> Raw {
        self.login_as(user, user)
    }

    /// The same, with a client id.
    #[track_caller]
    pub(crate) fn login_as(&self, user: &str, client_id: &str) -> Raw {
        let (code, client) = self.connect(client_id, (user, user));
        assert_eq!(code, 0, "{user} was not let in");
        client
    }
}
