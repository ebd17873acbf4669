//! Our SCRAM against that of `rsasl`, an implementation of other people, in both roles.
//!
//! Where it departs from RFC 5802, the tests keep away: it does not prepare passwords by SASLprep,
//! and its server signs the user name without its escapes.

use std::io::Cursor;

use rsasl::callback::{Context, Request, SessionCallback, SessionData};
use rsasl::mechanisms::scram::properties::ScramStoredPassword;
use rsasl::prelude::{Mechname, SASLClient, SASLConfig, SASLServer, SessionError, State};
use rsasl::property::AuthId;
use rsasl::validate::{Validate, Validation, ValidationError};

use super::*;

/// A name that is escaped on the wire.
const ESCAPED_NAME: &str = "ann,=x";
const PLAIN_NAME: &str = "ann";
const PASSWORD: &str = "schön";

const BOTH: [Sha; 2] = [Sha::Sha256, Sha::Sha512];

fn mechanism(sha: Sha) -> &'static Mechname {
    Mechname::parse(sha.mechanism().as_bytes()).unwrap()
}

/// Their client logs in to our server: the result of ours, and whether theirs was satisfied.
fn their_client(sha: Sha, password: &str) -> (Result<(), ScramError>, bool) {
    let secret = ScramSecret::make(sha, PASSWORD.as_bytes(), 4096).unwrap();
    let config =
        SASLConfig::with_credentials(None, ESCAPED_NAME.to_owned(), password.to_owned()).unwrap();
    let mut client = SASLClient::new(config)
        .start_suggested(&[mechanism(sha)])
        .unwrap();
    let mut out = Cursor::new(Vec::new());
    client.step(None, &mut out).unwrap();
    let first = ClientFirst::parse(out.get_ref()).unwrap();
    assert_eq!(first.username, ESCAPED_NAME);
    let (server, challenge) = ScramServer::begin(&first, secret, &server_nonce().unwrap());
    let mut out = Cursor::new(Vec::new());
    client.step(Some(&challenge), &mut out).unwrap();
    match server.finish(out.get_ref()) {
        Err(error) => (Err(error), false),
        Ok(last) => {
            let state = client.step(Some(&last), &mut Cursor::new(Vec::new()));
            (Ok(()), matches!(state, Ok(State::Finished(_))))
        }
    }
}

#[test]
fn their_client_logs_in_here() {
    for sha in BOTH {
        assert_eq!(their_client(sha, PASSWORD), (Ok(()), true), "{sha:?}");
        let wrong = their_client(sha, "schon");
        assert_eq!(wrong, (Err(ScramError::Proof), false), "{sha:?}");
    }
}

/// Their server with our secret.
struct SecretCallback(ScramSecret);

struct Name;

impl Validation for Name {
    type Value = String;
}

impl SessionCallback for SecretCallback {
    fn callback(
        &self,
        _session: &SessionData,
        context: &Context<'_>,
        request: &mut Request<'_>,
    ) -> Result<(), SessionError> {
        if context.get_ref::<AuthId>() == Some(PLAIN_NAME) {
            request.satisfy::<ScramStoredPassword<'_>>(&ScramStoredPassword::new(
                self.0.iterations,
                &self.0.salt,
                &self.0.stored_key,
                &self.0.server_key,
            ))?;
        }
        Ok(())
    }

    fn validate(
        &self,
        _session: &SessionData,
        context: &Context<'_>,
        validate: &mut Validate<'_>,
    ) -> Result<(), ValidationError> {
        let name = context.get_ref::<AuthId>().unwrap_or_default().to_owned();
        validate.with::<Name, _>(|| Ok(name))?;
        Ok(())
    }
}

/// Our client logs in to their server: whether theirs, and ours, are satisfied.
fn their_server(sha: Sha, password: &str) -> (bool, bool) {
    let secret = ScramSecret::make(sha, PASSWORD.as_bytes(), 4096).unwrap();
    let config = SASLConfig::builder()
        .with_defaults()
        .with_callback(SecretCallback(secret))
        .unwrap();
    let mut server = SASLServer::<Name>::new(config)
        .start_suggested(mechanism(sha))
        .unwrap();
    let mut step = |input: &[u8]| {
        let mut out = Cursor::new(Vec::new());
        let state = server.step(Some(input), &mut out);
        (state.is_ok(), out.into_inner())
    };
    let (client, first) = ScramClient::new(sha, password.as_bytes())
        .first(PLAIN_NAME)
        .unwrap();
    let (went_on, challenge) = step(&first);
    assert!(went_on);
    let (client, proof) = client.answer(&challenge).unwrap();
    let (went_on, last) = step(&proof);
    let accepted = went_on && last.starts_with(b"v=");
    (accepted, client.finish(&last).is_ok())
}

#[test]
fn our_client_logs_in_there() {
    for sha in BOTH {
        assert_eq!(their_server(sha, PASSWORD), (true, true), "{sha:?}");
        assert_eq!(their_server(sha, "schon"), (false, false), "{sha:?}");
    }
}
