//! Procedures that are programs: started for each call, without a shell, with a bound on time,
//! memory and output.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus,
};
use stentor_call_protocol::{Status, Verdict};

use crate::answer::{Answer, Outcome};
use crate::call::Call;
use crate::manifest::{Manifest, Need};
use crate::queue::Runner;

/// What a program may print.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// What a program gets to see of the recipients, in its environment.
const RECIPIENTS_BYTES_MAX: usize = 64 * 1024;
/// What is read by programs that see no message.
const NULL: &str = "/dev/null";

/// Runs a program.
pub(crate) struct ProgramRunner {
    pub(crate) command: Vec<String>,
    pub(crate) manifest: Arc<Manifest>,
    /// Processor time of the last program.
    pub(crate) spent: Duration,
}

impl Runner for ProgramRunner {
    fn run(&mut self, call: &Call) -> Answer {
        let end = call.deadline.min(Instant::now() + self.manifest.deadline);
        let variables = match environment(call) {
            Ok(variables) => variables,
            Err(reason) => return Answer::failed(Status::BadCall, &reason),
        };
        match self.execute(call, &variables, end) {
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

    fn spent_elsewhere(&mut self) -> Duration {
        std::mem::take(&mut self.spent)
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
    fn execute(
        &mut self,
        call: &Call,
        variables: &[(String, String)],
        end: Instant,
    ) -> io::Result<Ended> {
        let limiter = limiter();
        let (pid, stdout) = self.spawn(call, variables, limiter)?;
        let mut running = Running::new(pid);
        if limiter.is_none() {
            let limit = Rlimit {
                current: Some(self.manifest.memory),
                maximum: Some(self.manifest.memory),
            };
            // It may have ended already.
            let _ = rustix::process::prlimit(Some(pid), Resource::As, limit);
        }
        let ended = running.wait(pid, stdout.into(), end);
        running.end();
        self.spent = running.spent;
        ended
    }

    /// Starts it; what it prints can be read from the second value. Unlike a `Command` of the
    /// standard library it inherits no blocked or ignored signals: the server blocks some.
    fn spawn(
        &self,
        call: &Call,
        variables: &[(String, String)],
        limiter: Option<&str>,
    ) -> io::Result<(Pid, OwnedFd)> {
        let stdin = self.input(call)?;
        let stderr = OwnedFd::from(File::options().write(true).open(NULL)?);
        let (read, stdout) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let mut files = PosixSpawnFileActions::init()?;
        for (file, number) in [(&stdin, 0), (&stdout, 1), (&stderr, 2)] {
            files.add_dup2(file.as_raw_fd(), number)?;
        }
        let mut how = PosixSpawnAttr::init()?;
        // A group of its own, so that what it started ends with it.
        how.set_pgroup(nix::unistd::Pid::from_raw(0))?;
        how.set_sigmask(&SigSet::empty())?;
        how.set_sigdefault(&SigSet::all())?;
        let flags = PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF;
        how.set_flags(flags)?;
        // What starts it would have nobody to tell.
        rustix::fs::access(&*self.command[0], rustix::fs::Access::EXEC_OK)?;
        let words = self.words(limiter).into_iter().map(CString::new);
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| CString::new(format!("{name}={value}")));
        let variables = variables.collect::<Result<Vec<_>, _>>()?;
        let pid = posix_spawn(&*words[0], &files, &how, &words, &variables)?;
        let pid = Pid::from_raw(pid.as_raw());
        Ok((
            pid.ok_or_else(|| io::Error::other("it has no number"))?,
            read,
        ))
    }

    /// What is started: the program, by what bounds its memory before, if there is that.
    fn words(&self, limiter: Option<&str>) -> Vec<String> {
        let bound = |limiter: &str| {
            let memory = format!("--as={}", self.manifest.memory);
            [limiter.to_owned(), memory, "--".to_owned()]
        };
        let before = limiter.map(bound).into_iter().flatten();
        before.chain(self.command.iter().cloned()).collect()
    }

    /// The message, in a file without a name: the caller's file has a position that is shared.
    fn input(&self, call: &Call) -> io::Result<OwnedFd> {
        let bytes = match self.manifest.needs {
            _ if !call.message.exists() => return Ok(File::open(NULL)?.into()),
            Need::Size | Need::Envelope => return Ok(File::open(NULL)?.into()),
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

/// The program of util-linux that bounds its own memory and then becomes another program. Where it
/// is missing, the bound is set from outside right after the start, and what the program has
/// started until then has none.
fn limiter() -> Option<&'static str> {
    static FOUND: LazyLock<Option<&str>> = LazyLock::new(|| {
        let mut places = ["/usr/bin/prlimit", "/bin/prlimit"].into_iter();
        places.find(|path| rustix::fs::access(*path, rustix::fs::Access::EXEC_OK).is_ok())
    });
    *FOUND
}

/// What a program receives: `STENTOR_FROM`, `STENTOR_RCPT` (one per line), and so on; arguments as
/// `STENTOR_ARG_NAME`.
///
/// # Errors
/// When two arguments would be the same variable.
fn environment(call: &Call) -> Result<Vec<(String, String)>, String> {
    let envelope = &call.envelope;
    let mut recipients = envelope.recipients.join("\n");
    recipients.truncate(
        (0..=recipients.len().min(RECIPIENTS_BYTES_MAX))
            .rev()
            .find(|end| recipients.is_char_boundary(*end))
            .unwrap_or(0),
    );
    let mut variables = vec![
        ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
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
    let mut named = BTreeMap::new();
    for (name, value) in &call.arguments {
        let variable = name.to_uppercase().replace(['-', '.'], "_");
        match named.entry(variable) {
            Entry::Vacant(free) => {
                free.insert((name, value));
            }
            // The first of several counts, as everywhere.
            Entry::Occupied(taken) if taken.get().0 == name => {}
            // Which of them a program sees would be a matter of luck.
            Entry::Occupied(taken) => {
                let (other, variable) = (taken.get().0, taken.key());
                return Err(format!(
                    "the arguments {other} and {name} are the same to a program, which gets both \
                     as STENTOR_ARG_{variable}; rename one"
                ));
            }
        }
    }
    let arguments = named.into_iter();
    variables.extend(
        arguments.map(|(variable, (_, value))| (format!("STENTOR_ARG_{variable}"), value.clone())),
    );
    // What the system would refuse to pass on.
    variables.retain(|(_, value)| !value.contains('\0'));
    Ok(variables)
}

/// A program that runs, until it is waited for; dropping it ends it and its process group.
struct Running {
    pid: Option<Pid>,
    /// Its processor time, once it has ended.
    spent: Duration,
}

impl Running {
    const fn new(pid: Pid) -> Self {
        Self {
            pid: Some(pid),
            spent: Duration::ZERO,
        }
    }

    /// Waits for the end, taking what is printed.
    fn wait(&mut self, pid: Pid, mut stdout: File, end: Instant) -> io::Result<Ended> {
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
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
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let has_ended = !polled[0].revents().is_empty();
            drop(polled);
            is_open = is_open && read(&mut stdout, &mut output)?;
            if output.len() > OUTPUT_BYTES_MAX {
                return Ok(Ended::TooMuch);
            }
            if has_ended {
                let status = self.end();
                let code = status.and_then(WaitStatus::exit_status);
                let signal = status.and_then(WaitStatus::terminating_signal);
                return Ok(match code {
                    Some(code) => Ended::Exited(code, output),
                    None => Ended::Killed(signal.unwrap_or_default()),
                });
            }
        }
    }

    /// Ends the group, which has its number until the program is waited for; how it ended.
    fn end(&mut self) -> Option<WaitStatus> {
        let pid = self.pid.take()?;
        // There may be nobody left.
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        // The system reports the time that it spent until somebody waits for it.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options) {}
        self.spent = processor_time(pid);
        loop {
            match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
                Err(Errno::INTR) => {}
                waited => return waited.ok().flatten().map(|(_, status)| status),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Processor time of a program that has ended, with that of those it has started and waited for.
fn processor_time(pid: Pid) -> Duration {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    // Its name, in parentheses, may have spaces: fields are counted from behind it. In ticks:
    // utime, stime, cutime, cstime (proc(5), fields 14 to 17).
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let times = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_millis(ticks.saturating_mul(1000) / per_second)
}

/// Takes what is there; whether there may be more.
fn read(from: &mut impl Read, output: &mut Vec<u8>) -> io::Result<bool> {
    let mut piece = [0; 4096];
    while output.len() <= OUTPUT_BYTES_MAX {
        match from.read(&mut piece) {
            Ok(0) => return Ok(false),
            Ok(read) => output.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
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
pub(crate) fn outcome(code: i32, output: &[u8]) -> Answer {
    let verdict = match code {
        0 => Verdict::Accept,
        65 | 67 | 68 | 69 | 77 => Verdict::Reject,
        75 => Verdict::Tempfail,
        98 => Verdict::Quarantine,
        99 => Verdict::Discard,
        _ => {
            let reason = format!("the program exited with {code}, which is not a verdict");
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
            spent: Duration::ZERO,
        }
    }

    /// Of the program and of what it has waited for; of one that is ended, too.
    #[test]
    fn processor_time_is_counted() {
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        for script in [burn, &format!("({burn}); true"), "while :; do :; done"] {
            let mut runner = runner(script, "2s");
            runner.run(&empty_call("p"));
            assert!(runner.spent_elsewhere() > Duration::ZERO, "{script}");
            assert_eq!(runner.spent_elsewhere(), Duration::ZERO, "{script}");
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

    /// Not only once it runs: what it starts at once has the bound too.
    #[test]
    fn memory_is_bounded_before_the_start() {
        let runner = runner("exit 0", "1s");
        let words = runner.words(Some("/usr/bin/prlimit"));
        let bound = format!("--as={}", 512 << 20);
        assert_eq!(words[..3], ["/usr/bin/prlimit", &bound, "--"]);
        assert_eq!(words[3..], runner.command);
        assert_eq!(runner.words(None), runner.command);
        let said = run("test \"$(sh -c 'ulimit -v')\" = 524288 || exit 69", "60s");
        assert_eq!(said.verdict(), Some(Verdict::Accept), "{said:?}");
    }

    #[test]
    fn arguments_that_are_one_variable_are_refused() {
        let mut call = empty_call("p");
        let argument = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        call.arguments = vec![argument("rcpt", "a"), argument("rcpt", "b")];
        let answer = runner("test $STENTOR_ARG_RCPT = a || exit 69", "60s").run(&call);
        assert_eq!(answer.verdict(), Some(Verdict::Accept), "{answer:?}");
        for (one, other) in [("size", "Size"), ("max-size", "max.size"), ("a_b", "A-B")] {
            call.arguments = vec![argument(one, "1"), argument(other, "2")];
            let answer = runner("exit 0", "60s").run(&call);
            assert_eq!(answer.status, Status::BadCall);
            for name in [one, other, "STENTOR_ARG_"] {
                assert!(answer.reason.contains(name), "{}", answer.reason);
            }
        }
    }

    /// Whatever this process blocks and ignores, as the server does.
    #[test]
    fn it_is_reached_by_signals() {
        let own = std::thread::spawn(|| {
            SigSet::all().thread_block().unwrap();
            // The C library ignores two signals of its own, the 32nd and the 33rd.
            let (blocked, ignored) = ("SigBlk:.*[1-9a-f]", "SigIgn:.*[1-9a-f][0-9a-f]{0,6}$");
            let script = format!(
                "sh -c 'kill -TERM $$; exit 1'; test $? -gt 128 || exit 75\n\
                 test \"$(grep -E '{blocked}|{ignored}' /proc/self/status)\" = ''"
            );
            run(&script, "60s")
        });
        let answer = own.join().unwrap();
        assert_eq!(answer.verdict(), Some(Verdict::Accept), "{answer:?}");
    }

    /// Something that it left behind holds its output open; the call ends all the same.
    #[test]
    fn what_it_leaves_behind_ends_with_it() {
        let answer = run("(while :; do :; done) & exit 0", "60s");
        assert_eq!(answer.verdict(), Some(Verdict::Accept), "{answer:?}");
    }
}
