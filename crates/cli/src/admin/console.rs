//! `stentor console`: a link that logs a browser in as the owner of the server.

use clap::Args;
use stentor_control::login::{Link, Made};

use crate::failure::Failure;
use crate::output::shown;
use crate::which::Which;

/// What `--help` says about the command.
pub(crate) const HELP: &str = "\
Examples:
  stentor console           print the link; open it in a browser within 60 seconds
  stentor console --json    the same for a program: url, path, expires_secs

The link works once. The browser that opens it may ask the HTTP API of the server for everything, as
the commands of this machine may, until 30 minutes have passed without a request, or 12 hours.
Whoever has the link before you has that too: do not send it to anybody.

The command asks through the control socket in the data folder, so it needs no password, and only
the user of the server and root may run it. The server needs an address of HTTP: http.listen in its
configuration, or http://127.0.0.1:18083 without one.

From another machine, forward the port and open the link there:
  ssh -L 18083:127.0.0.1:18083 HOST";

/// Prints a link that logs a browser in as the owner of the running server, once
#[derive(Debug, Args)]
pub(crate) struct Console {
    #[command(flatten)]
    which: Which,
}

impl Console {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let told = self.which.tell(&Link {})?;
        told.print(text)
    }
}

fn text(made: &Made) -> String {
    format!(
        "{}\n\nOpen this link in a browser within {} seconds. It works once, and lets the browser \
         do everything\nthat the commands of this machine can do.\n",
        shown(&made.url),
        made.expires_secs
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_stands_alone_in_the_first_line() {
        let made = Made {
            url: "http://localhost:1/login?once=x".to_owned(),
            path: "/login?once=x".to_owned(),
            expires_secs: 60,
        };
        let text = text(&made);
        assert_eq!(text.lines().next(), Some(&*made.url));
        assert!(text.contains("within 60 seconds"), "{text}");
    }
}
