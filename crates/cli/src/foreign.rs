//! Letters of mosquitto's clients that mean nothing here: they are known, so that whoever comes
//! with them reads why they do not work and what does.

use clap::Args;

use crate::failure::Failure;

/// What mosquitto's clients take and these do not.
#[derive(Debug, Args)]
pub(crate) struct Foreign {
    #[arg(long, hide = true, value_name = "KEY")]
    psk: Option<String>,
    #[arg(long, hide = true, value_name = "NAME")]
    psk_identity: Option<String>,
    #[arg(long, hide = true, value_name = "URL")]
    proxy: Option<String>,
    #[arg(long, hide = true, value_name = "LIST")]
    ciphers: Option<String>,
    #[arg(long, hide = true, value_name = "NAME")]
    tls_alpn: Option<String>,
    #[arg(long, hide = true, value_name = "NAME")]
    tls_engine: Option<String>,
    #[arg(long, hide = true, value_name = "HASH")]
    tls_engine_kpass_sha1: Option<String>,
    #[arg(long, hide = true, value_name = "FORM")]
    keyform: Option<String>,
    /// Small packets never wait for more here, so there is nothing to switch off.
    #[arg(long, hide = true)]
    nodelay: bool,
}

impl Foreign {
    /// Refuses what would otherwise be ignored in silence.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let certificates = "TLS works with certificates here: --cafile, --cert, --key";
        let chosen = "the TLS library chooses it; --tls-version narrows its choice";
        let files = "keys are PEM files: --cert, --key";
        let table = [
            ("--psk", &self.psk, certificates),
            ("--psk-identity", &self.psk_identity, certificates),
            (
                "--proxy",
                &self.proxy,
                "connect directly, or through a tunnel",
            ),
            ("--ciphers", &self.ciphers, chosen),
            ("--tls-alpn", &self.tls_alpn, chosen),
            ("--tls-engine", &self.tls_engine, files),
            (
                "--tls-engine-kpass-sha1",
                &self.tls_engine_kpass_sha1,
                files,
            ),
            ("--keyform", &self.keyform, files),
        ];
        match table.iter().find(|(_, value, _)| value.is_some()) {
            Some((flag, _, remedy)) => {
                Err(Failure::usage(format!("{flag} is not supported: {remedy}")))
            }
            None => Ok(()),
        }
    }
}
