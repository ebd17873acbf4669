//! `stentor serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use stentor_server::ServerExit;
use stentor_server::config::{Config, Sources};
use stentor_server::log::{Logger, as_error};

const HELP: &str = "\
Examples:
  stentor serve --allow-anonymous              for programs on this machine; data in ./data
  stentor serve --config stentor.toml          from a file; `stentor check-config FILE` checks it
  stentor serve --listen mqtt://127.0.0.1:0    on a free port; standard output names it

Without a configuration the server listens only on this machine: on port 1883, for WebSocket on
8083, and for operators by HTTP on 18083. Every client needs a user name and a password: `stentor
user add NAME` adds a user. When all listeners are open, standard output has a line `listening URL`
for each. The log goes to standard error.

Every key of the configuration is also a variable of the environment (STENTOR_LOG__LEVEL). The
options above win over both. `stentor config sample` prints all keys. SIGHUP or `stentor reload`
reads the configuration again. SIGTERM, Ctrl-C or `stentor stop` ends the server.

Exit codes:
  0   stopped by a signal or `stentor stop`
  2   the command line has a mistake
  69  another program has the port or socket
  70  a part of the server failed; this is a bug
  71  the system refuses something
  73  the data folder or the retained messages cannot be used
  75  another server or a command has the data folder open
  77  not permitted: a port below 1024, the owner of a socket
  78  the configuration has an error";

/// Runs a server. Every flag is a key of the configuration file, and wins over it.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct Serve {
    /// The configuration file.
    #[arg(long, value_name = "FILE", env = "STENTOR_CONFIG")]
    config: Option<PathBuf>,
    /// The folder for everything that the server keeps [default: data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Address to listen on: mqtt://HOST:PORT, mqtts://, ws://, wss:// or unix:PATH; for
    /// stentor-call call+unix:PATH, call://HOST:PORT or calls://. Port 0 takes a free one. Can be
    /// repeated.
    #[arg(long, value_name = "URL")]
    listen: Vec<String>,
    /// Address of HTTP for operators, with /metrics, /healthz, /readyz and /api/v1:
    /// http://HOST:PORT or https://HOST:PORT, several separated by commas, or `off`. Without
    /// --listen, it is port 18083 of this machine unless you name another one.
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// The folder with one file for each procedure.
    #[arg(long, value_name = "DIR")]
    procedures: Option<String>,
    /// Number of threads that serve connections; 0 means one for each processor.
    #[arg(long, value_name = "N")]
    shards: Option<String>,
    /// Let clients log in without a user name, on listeners that only this machine can reach.
    #[arg(long)]
    allow_anonymous: bool,
    /// Lowest level of log lines that are written: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Format of log lines: auto, human or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// The certificate chain of encrypted listeners, a PEM file.
    #[arg(long, value_name = "FILE")]
    tls_certificate: Option<String>,
    /// The key of the certificate, a PEM file.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
}

/// The exit code for a configuration that is wrong: `EX_CONFIG`.
const EXIT_CONFIG: u8 = ServerExit::Configuration as u8;

impl Serve {
    /// Runs until the server is asked to stop.
    pub(crate) fn run(self) -> ExitCode {
        let sources = Sources::from_process(self.config.clone(), self.flags());
        let config = match Config::load(&sources) {
            Ok(config) => config,
            Err(error) => return fail(&error.to_string(), EXIT_CONFIG),
        };
        let logger = match Logger::install(&config.log) {
            Ok(logger) => logger,
            Err(error) => return fail(&error, EXIT_CONFIG),
        };
        match stentor_server::run(config, sources, logger) {
            Ok(code) => code,
            Err(error) => fail(&error.to_string(), error.exit_code()),
        }
    }

    /// The flags as the configuration names its keys.
    fn flags(self) -> Vec<(String, String)> {
        let single = [
            ("data_dir", self.data_dir),
            ("http.listen", self.http),
            ("procedures.folder", self.procedures),
            ("shards", self.shards),
            (
                "allow_anonymous",
                self.allow_anonymous.then(|| "true".to_owned()),
            ),
            ("log.level", self.log_level),
            ("log.format", self.log_format),
            ("tls.certificate", self.tls_certificate),
            ("tls.key", self.tls_key),
        ];
        let single = single
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let listen = self
            .listen
            .into_iter()
            .map(|url| ("listener.url".to_owned(), url));
        single.chain(listen).collect()
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    eprintln!("{}", as_error(&format!("stentor: {message}")));
    ExitCode::from(code)
}
