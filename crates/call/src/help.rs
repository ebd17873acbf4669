//! What `--help` prints.

/// The help.
pub(crate) const TEXT: &str = "\
stentor-call: ask a Stentor server about a file; the answer is the exit code

usage: stentor-call [OPTIONS] /PROCEDURE [-KEY VALUE]...

  stentor-call --file message.eml /sizecheck -max 10000000
  stentor-call -s 192.0.2.7 -p 1889 --token-file /etc/stentor.token --file m.eml /antivirus
  stentor-call --profile xmail-queue --file @@FILE /spam -from @@FROM -rcpt @@RCPT

what is asked
  /PROCEDURE          the procedure's name
  -KEY VALUE          arguments for it, as many as you like; the envelope goes by the
                      keys from, rcpt (once for each), client, helo, user, queue-id; with
                      --profile exim by SENDER, RECIPIENT and MESSAGE_ID, as Exim sets them
  --file FILE         the message; `-` or --stdin takes standard input
                      -file FILE, -server HOST and -port PORT behind the name are the old
                      spelling of these options, and -rrcpt and -rfrom of -rcpt and -from:
                      understood where the new one does not stand as well
  --format FORMAT     message, or xmail for an XMail spool file (as the xmail profiles do)

where
  -s, --server HOST   the server's address, or unix:PATH; host names are not looked up
                      [default: unix:/run/stentor/call.sock]
  -p, --port PORT     its port [default: 1889]
  --token-file FILE   the file with the token that says who you are; or set STENTOR_TOKEN.
                      On a Unix socket your user id says it

what the exit code means
  --profile PROFILE   whose exit codes to use [default: plain; for an XMail spool file that
                      -file names: those of the XMail that wrote it]

                    accept  modified  reject  tempfail  discard  quarantine
    xmail-queue          0         7       6         0        4           5
    xmail-smtp           0         0       3         3        3           3
    xmail-2002          96       100      99        96       97          98
    sysexits             0         0      69        75       99          98
    postfix-pipe         0         0      69        75        0          75
    exim                 0         0      69        75        0          75
    procmail             0         0      77        75       99          98
    plain                0         0       1         2        3           4

                      with postfix-pipe and exim a message that is put aside stays in the
                      queue, and so does one that --filter cannot discard (75, not 0)

                      what went wrong is told on standard error; postfix-pipe and exim, which
                      send that on to senders of mail, have it in the system's log instead

  --on-error WHAT     accept, tempfail or reject, if the server is down, slow or refuses, the
                      message cannot be read, or this command line has a mistake
                      [default: what the server says about the procedure, else tempfail];
                      xmail-smtp says tempfail by 3 only with FILE.rej beside --file, else 0
  --deadline TIME     end before this time has passed, 10ms to 1h [default: 5s]; only a file
                      system that hangs here, on the caller's machine, can take it longer

what happens to a changed message (xmail profiles change the file without being asked)
  --in-place          put it in the file's place: a new file with its owner and mode gets its
                      name. A file that is a symbolic link, has several names or was changed
                      during the call stays as it is, and --on-error says how this ends
  --filter            print the message, changed or not, to standard output. If its file was
                      written to during the call, --on-error says how this ends

  -h, --help          this text
  -V, --version       the version
";

/// What a command line looks like.
pub(crate) const USAGE: &str = "usage: stentor-call [OPTIONS] /PROCEDURE [-KEY VALUE]...";

/// The version, as a line.
pub(crate) const VERSION: &str = concat!("stentor-call ", env!("CARGO_PKG_VERSION"), "\n");
