//! Ways to log in, as clients meet them: the real server, the real wire.

mod authenticate;
mod jwt;
mod outage;
mod proxy;
mod scram;
mod tables;
