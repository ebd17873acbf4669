//! Procedures that are programs: started for each call, without a shell, with a bound on time,
//! memory and output.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};
use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Outcome};
use crate::call::Call;
use crate::manifest::{Manifest, Need};
use crate::queue::Runner;

/// What a program may print.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// What a program gets to see of the recipients, in its environment.
const RECIPIENTS_BYTES_MAX: usize = 64 * 1024;

/// Runs a program.
pub(crate) struct ProgramRunner {
    pub(crate) command: Vec<String>,
    pub(crate) manifest: Arc<Manifest>,
}

impl Runner for ProgramRunner {
    fn run(&mut self, call: &Call) -> Answer {
        let end = call.deadline.min(Instant::now() + self.manifest.deadline);
        match self.execute(call, end) {
            Ok(Ended::Exited(code, output)) => outcome(code, &output),
            Ok(Ended::Killed(signal)) => {
                let reason = format!("the program was ended by signal {signal}");
                Answer::failed(Status::Failed, &reason)
            }
            Ok(Ended::TimedOut) => {
                Answer::failed(Status::TimedOut, "the program did not end in time")
            }
            Ok(Ended::TooMuch) => {
                Answer::failed(Status::Failed, "the program printed more than 64 KiB")
            }
            Err(error) => {
                let reason = format!("{}: {error}", self.command[0]);
                Answer::failed(Status::Failed, &reason)
            }
        }
    }
}

/// How a program ended.
enum Ended {
    Exited(i32, Vec<u8>),
    Killed(i32),
    TimedOut,
    TooMuch,
}

impl ProgramRunner {
    fn execute(&self, call: &Call, end: Instant) -> std::io::Result<Ended> {
        let mut command = Command::new(&self.command[0]);
        command
            .args(&self.command[1..])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(environment(call))
            .current_dir("/")
            .stdin(self.input(call)?)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A group of its own, so that what it started ends with it.
            .process_group(0);
        let mut running = Running(command.spawn()?);
        let pid = running.pid();
        let limit = Rlimit {
            current: Some(self.manifest.memory),
            maximum: Some(self.manifest.memory),
        };
        // It may have ended already.
        let _ = rustix::process::prlimit(Some(pid), Resource::As, limit);
        running.wait(end)
    }

    /// The message, in a file without a name: the caller's file has a position that is shared.
    fn input(&self, call: &Call) -> std::io::Result<Stdio> {
        let bytes = match self.manifest.needs {
            _ if !call.message.exists() => return Ok(Stdio::null()),
            Need::Size | Need::Envelope => return Ok(Stdio::null()),
            Need::Headers => call.message.headers()?,
            Need::Body => call.message.read()?,
        };
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file: File = rustix::fs::memfd_create(c"message", flags)?.into();
        file.write_all(&bytes)?;
        file.rewind()?;
        Ok(file.into())
    }
}

/// What a program is told: `STENTOR_FROM`, `STENTOR_RCPT` (one per line), and so on; arguments as
/// `STENTOR_ARG_NAME`.
fn environment(call: &Call) -> Vec<(String, String)> {
    let envelope = &call.envelope;
    let mut recipients = envelope.recipients.join("\n");
    recipients.truncate(
        (0..=recipients.len().min(RECIPIENTS_BYTES_MAX))
            .rev()
            .find(|end| recipients.is_char_boundary(*end))
            .unwrap_or(0),
    );
    let mut variables = vec![
        ("STENTOR_PROCEDURE".to_owned(), call.procedure.clone()),
        ("STENTOR_SIZE".to_owned(), call.message.size().to_string()),
        ("STENTOR_RCPT".to_owned(), recipients),
    ];
    for (name, value) in [
        ("STENTOR_FROM", &envelope.from),
        ("STENTOR_CLIENT", &envelope.client),
        ("STENTOR_HELO", &envelope.helo),
        ("STENTOR_USER", &envelope.user),
        ("STENTOR_QUEUE_ID", &envelope.queue_id),
    ] {
        variables.extend(value.as_ref().map(|value| (name.to_owned(), value.clone())));
    }
    for (name, value) in &call.arguments {
        let name = name.to_uppercase().replace(['-', '.'], "_");
        variables.push((format!("STENTOR_ARG_{name}"), value.clone()));
    }
    // What the system would refuse to pass on.
    variables.retain(|(_, value)| !value.contains('\0'));
    variables
}

/// A program that runs; dropping it ends it and all that it started.
struct Running(Child);

impl Running {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Waits for the end, taking what is printed.
    fn wait(&mut self, end: Instant) -> std::io::Result<Ended> {
        let pidfd = rustix::process::pidfd_open(self.pid(), PidfdFlags::empty())?;
        let Some(mut stdout) = self.0.stdout.take() else {
            return Err(std::io::Error::other("its output is not connected"));
        };
        let flags = rustix::fs::fcntl_getfl(&stdout)? | rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&stdout, flags)?;
        let mut output = Vec::new();
        let mut is_open = true;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Ended::TimedOut);
            }
            let mut polled = vec![PollFd::new(&pidfd, PollFlags::IN)];
            if is_open {
                polled.push(PollFd::new(&stdout, PollFlags::IN));
            }
            match poll(&mut polled, Some(&timespec(left))) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let has_ended = !polled[0].revents().is_empty();
            drop(polled);
            is_open = is_open && read(&mut stdout, &mut output)?;
            if output.len() > OUTPUT_BYTES_MAX {
                return Ok(Ended::TooMuch);
            }
            if has_ended {
                let status = self.0.wait()?;
                return Ok(match (status.code(), status.signal()) {
                    (Some(code), _) => Ended::Exited(code, output),
                    (None, signal) => Ended::Killed(signal.unwrap_or_default()),
                });
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group is there as long as its first process is not waited for, or others live in it.
        let _ = rustix::process::kill_process_group(self.pid(), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Takes what is there; whether there may be more.
fn read(from: &mut impl Read, output: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut piece = [0; 4096];
    while output.len() <= OUTPUT_BYTES_MAX {
        match from.read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(read) => output.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        // Deadlines are at most an hour.
        tv_sec: duration.as_secs().try_into().unwrap_or(3600),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Reads the exit code as `sysexits.h` has it; the first line of the output is the text, with a
/// status code before it if there is one.
fn outcome(code: i32, output: &[u8]) -> Answer {
    let verdict = match code {
        0 => Verdict::Accept,
        65 | 67 | 68 | 69 | 77 => Verdict::Reject,
        75 => Verdict::Tempfail,
        98 => Verdict::Quarantine,
        99 => Verdict::Discard,
        _ => {
            let reason = format!("the program exited with {code}, which is no verdict");
            return Answer::failed(Status::Failed, &reason);
        }
    };
    let output = String::from_utf8_lossy(output);
    let first = output.lines().next().unwrap_or_default();
    let (code, text) = match first.split_once(' ') {
        Some((code, text)) if is_status_code(code) => (code, text),
        _ => ("", first),
    };
    let mut outcome = Outcome::of(verdict, text);
    outcome.set_enhanced(code);
    Answer::done(outcome)
}

/// Three numbers with dots between them, the first one 2, 4 or 5.
fn is_status_code(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| part.len() <= 3 && part.parse::<u16>().is_ok();
    parts.len() == 3 && matches!(parts[0], "2" | "4" | "5") && parts.iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Content;
    use crate::script::empty_call;

    fn runner(script: &str, deadline: &str) -> ProgramRunner {
        let text = format!(
            "kind = \"program\"\ncommand = [\"/bin/sh\", \"-c\", '''{script}''']\n\
             deadline = \"{deadline}\"\nmemory = \"512MiB\""
        );
        let manifest = Manifest::of_file(&text).unwrap();
        let crate::manifest::Kind::Program(command) = manifest.kind.clone() else {
            panic!("not a program");
        };
        ProgramRunner {
            command,
            manifest: Arc::new(manifest),
        }
    }

    fn run(script: &str, deadline: &str) -> Answer {
        let mut call = empty_call("p");
        call.arguments = vec![("max-size".into(), "7".into()), ("x".into(), "a\0b".into())];
        call.envelope.from = Some("a@b".into());
        call.envelope.recipients = vec!["c@d".into(), "e@f".into()];
        let content = Content::Bytes(b"T: u\n\nbody\n".to_vec());
        call.message = crate::Message::new(content, 0, crate::Format::Message)
            .unwrap()
            .0;
        runner(script, deadline).run(&call)
    }

    #[test]
    fn exit_codes_are_verdicts_and_the_first_line_is_the_text() {
        for (script, verdict, enhanced, text) in [
            ("exit 0", Verdict::Accept, "", ""),
            (
                "echo 5.7.9 spam; echo more; exit 69",
                Verdict::Reject,
                "5.7.9",
                "spam",
            ),
            (
                "echo not.a.code later; exit 75",
                Verdict::Tempfail,
                "",
                "not.a.code later",
            ),
            ("exit 99", Verdict::Discard, "", ""),
            ("exit 98", Verdict::Quarantine, "", ""),
        ] {
            let outcome = run(script, "60s").outcome.expect(script);
            assert_eq!(outcome.verdict, verdict, "{script}");
            assert_eq!(
                (outcome.enhanced.as_str(), outcome.text.as_str()),
                (enhanced, text)
            );
        }
    }

    #[test]
    fn it_sees_the_message_and_the_envelope_and_nothing_else() {
        let script = "test \"$(cat)\" = \"$(printf 'T: u\\n\\nbody')\" || exit 75\n\
                      test \"$STENTOR_FROM $STENTOR_SIZE\" = 'a@b 11' || exit 69\n\
                      test \"$STENTOR_ARG_MAX_SIZE\" = 7 || exit 77\n\
                      test \"$STENTOR_RCPT\" = \"$(printf 'c@d\\ne@f')\" || exit 98\n\
                      test -z \"$HOME$STENTOR_ARG_X\" || exit 99";
        let answer = run(script, "60s");
        assert_eq!(answer.verdict(), Some(Verdict::Accept), "{answer:?}");
    }

    #[test]
    fn what_hangs_crashes_or_prints_too_much_is_ended() {
        for (script, status, reason) in [
            ("while :; do :; done", Status::TimedOut, "in time"),
            ("exec >&-; while :; do :; done", Status::TimedOut, "in time"),
            ("kill -SEGV $$", Status::Failed, "signal 11"),
            ("exit 3", Status::Failed, "exited with 3"),
            (
                "while :; do echo xxxxxxxxxxxxxxxxxxxx; done",
                Status::Failed,
                "64 KiB",
            ),
        ] {
            let answer = run(script, "300ms");
            let is_late = answer.status == Status::TimedOut;
            // A busy machine may not get as far as the fault.
            assert!(answer.status == status || is_late, "{script}: {answer:?}");
            assert!(
                answer.reason.contains(reason) || is_late,
                "{}",
                answer.reason
            );
        }
        let mut missing = runner("", "1s");
        missing.command[0] = "/nonexistent/program".to_owned();
        let answer = missing.run(&empty_call("p"));
        assert_eq!(answer.status, Status::Failed);
        assert!(answer.reason.contains("/nonexistent/program"));
    }

    /// Something that it left behind holds its output open; the call ends all the same.
    #[test]
    fn what_it_leaves_behind_ends_with_it() {
        let answer = run("(while :; do :; done) & exit 0", "60s");
        assert_eq!(answer.verdict(), Some(Verdict::Accept), "{answer:?}");
    }
}
