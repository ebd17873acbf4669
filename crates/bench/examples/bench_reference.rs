//! Prints the reference page of the command line, `docs/reference/bench.md`, for `cargo xtask gen`.

use std::io::{self, Write};

fn main() -> io::Result<()> {
    io::stdout().write_all(stentor_bench::reference().as_bytes())
}
