//! Whether a server lets clients be silent for as long as a measurement takes.

use std::time::Duration;

use mio::Poll;

use super::{Needs, Running};
use crate::error::{BenchError, Doing};
use crate::load::crowd::{self, Plan};
use crate::wire::Lasts;

/// For the opening of the connections and their end, beside what the workload says.
const MARGIN: Duration = Duration::from_secs(60);
/// A server that does not answer in the meantime will not answer the workload either.
const PATIENCE: Duration = Duration::from_secs(15);

/// Logs in once, as the workload's clients will, and looks at the keep alive that the CONNACK has.
/// In 3.1.1 it has none; a server that lets nobody in is the workload's to tell of.
///
/// # Errors
/// When it may close connections before the measurement is over.
pub(super) fn check(running: &Running, needs: &Needs) -> Result<(), BenchError> {
    if !needs.version.is_v5() {
        return Ok(());
    }
    let mut poll = Poll::new().doing("open a poll")?;
    let id = format!("k-{:x}", std::process::id());
    let mut crowd = crowd::open(
        &mut poll,
        &Plan {
            endpoint: &running.endpoint,
            login: &running.login,
            version: needs.version,
            count: 1,
            first: 0,
            at_once: 1,
            pace: None,
            patience: PATIENCE,
            client_id: &|_| id.clone(),
            entry: None,
            filter: &|_| None,
            lasts: Lasts::Connection,
            gauge: None,
            receive_buffer: None,
        },
    )?;
    match crowd.clients.pop().flatten() {
        Some(client) => judge(client.keep_alive_secs, needs.silence),
        None => Ok(()),
    }
}

/// A server closes a connection after one and a half of its keep alive [MQTT-3.1.2-22].
fn judge(keep_alive_secs: u16, silence: Duration) -> Result<(), BenchError> {
    let allowed = Duration::from_secs(u64::from(keep_alive_secs) * 3 / 2);
    let needed = silence + MARGIN;
    if keep_alive_secs == 0 || allowed >= needed {
        return Ok(());
    }
    let shorter = match silence.is_zero() {
        true => "",
        false => ", or shorten --seconds and --warmup",
    };
    Err(BenchError::usage(format!(
        "its CONNACK says a keep alive of {keep_alive_secs} s, so it may close clients that are \
         silent for {} s; these send no pings, which would disturb what is measured, and may be \
         silent for {} s: raise the server's maximum keep alive{shorter}",
        allowed.as_secs(),
        needed.as_secs()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::KEEP_ALIVE_SECS;

    #[test]
    fn silence_longer_than_the_keep_alive_is_refused() {
        for (keep_alive_secs, silence_s, is_fine) in [
            (0, 3_600, true),
            (KEEP_ALIVE_SECS, 3_600, true),
            (60, 30, true),
            (60, 31, false),
            (40, 0, true),
            (39, 0, false),
        ] {
            let judged = judge(keep_alive_secs, Duration::from_secs(silence_s));
            assert_eq!(judged.is_ok(), is_fine, "{keep_alive_secs} {silence_s}");
        }
        let why = |silence_s| judge(20, Duration::from_secs(silence_s)).unwrap_err();
        let told = why(10).to_string();
        assert!(told.contains("a keep alive of 20 s"), "{told}");
        assert!(told.contains("silent for 30 s; these"), "{told}");
        assert!(
            told.ends_with("or shorten --seconds and --warmup"),
            "{told}"
        );
        let told = why(0).to_string();
        assert!(told.ends_with("the server's maximum keep alive"), "{told}");
    }
}
