//! Ways to log in, as clients meet them: the real server, the real wire.

mod authenticate;
mod certificates;
mod clients;
mod gone;
mod hashes;
mod jwt;
mod keys;
mod outage;
mod passwords;
mod patience;
mod proxy;
mod scram;
mod slow;
mod tables;
mod zones;
